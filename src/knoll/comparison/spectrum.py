"""The eigenvalues that the number of clusters of spectral clustering is chosen from, with the one after the gap."""

from __future__ import annotations

from typing import Any

import numpy as np

from knoll._typing import Floats
from knoll.comparison.result import Evidence
from knoll.spectral.eigengap import apart

_SAME = 0.01  # two solutions for the eigenvalues of one affinity differ by less


def eigengap_evidence(model: Any, k: int, auto: Any, source: str) -> Evidence:
    """Return the spectrum of `auto`, continued by the model's own where both have the same affinity.

    `source` names the origin of k: the "widest gap" of `auto`, the "density", or the "numbers to try".
    """
    values, own = _with_next(auto), _with_next(model)
    shared = min(len(values), len(own))
    same = getattr(model, "affinity", None) == getattr(auto, "affinity", None)
    same = same and np.allclose(values[:shared], own[:shared], rtol=0, atol=_SAME)
    if not same:
        values = own  # of another affinity
    elif len(own) > len(values):
        values = np.append(values, own[len(values) :])
    reason = str(auto.n_clusters_reason_) if source == "widest gap" else _other_reason(k, source, auto, values, same)
    x = np.arange(1.0, len(values) + 1)
    return Evidence("eigengap", "n_clusters", x, {"eigenvalue": values}, float(k), reason + ".", "number", "eigenvalue")


def _with_next(model: Any) -> Floats:
    """Return the eigenvalues of the model and the next one, if it is known."""
    kept = np.asarray(model.eigenvalues_, dtype=np.float64)
    following = kept[-1] - float(model.eigengap_)
    return np.append(kept, following) if np.isfinite(following) else kept


def _other_reason(k: int, source: str, auto: Any, values: Floats, same: bool) -> str:
    """Explain a number that does not come from the eigengap."""
    text = f"the density suggests {k} clusters" if source == "density" else f"{k} was chosen from the numbers to try"
    if k < len(values):
        here, following = apart(values[k - 1], values[k])
        text += f"; after {k} eigenvalues ({here}) the next is {following}"
    return f"{text}; the widest gap is after {auto.n_clusters_}" if same and auto.n_clusters_ > 1 else text
