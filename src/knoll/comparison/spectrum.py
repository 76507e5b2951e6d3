"""The curve that spectral clustering's number of clusters is read from: eigenvalues, and the one after the gap."""

from __future__ import annotations

from typing import Any

import numpy as np

from knoll._typing import Floats
from knoll.comparison.result import Evidence
from knoll.spectral.eigengap import apart

__all__ = ["eigengap_evidence"]


_SAME = 0.01  # eigenvalues of one affinity that were solved for twice differ by less


def eigengap_evidence(model: Any, k: int, auto: Any, source: str) -> Evidence:
    """Show what k was read from: the spectrum that was looked through (`auto`), and of the model's own what goes on.

    `source` says where k came from: the "widest gap" of `auto`, the "density", or the "numbers to try".
    """
    values, own = _with_next(auto), _with_next(model)
    shared = min(len(values), len(own))
    same = getattr(model, "affinity", None) == getattr(auto, "affinity", None)
    same = same and np.allclose(values[:shared], own[:shared], rtol=0, atol=_SAME)
    if not same:
        values = own  # of another affinity
    elif len(own) > len(values):
        values = np.append(values, own[len(values) :])
    told = source == "widest gap"
    reason = str(auto.n_clusters_reason_) if told else _elsewhere(k, source, auto, values, same)
    x = np.arange(1.0, len(values) + 1)
    return Evidence("eigengap", "n_clusters", x, {"eigenvalue": values}, float(k), reason + ".", "number", "eigenvalue")


def _with_next(model: Any) -> Floats:
    """Return the eigenvalues that were kept and the one after them, without which no gap is seen, where it is known."""
    kept = np.asarray(model.eigenvalues_, dtype=np.float64)
    following = kept[-1] - float(model.eigengap_)
    return np.append(kept, following) if np.isfinite(following) else kept


def _elsewhere(k: int, source: str, auto: Any, values: Floats, same: bool) -> str:
    """Tell of a number that another gave."""
    text = f"the density suggests {k} clusters" if source == "density" else f"of the numbers to try {k} was taken"
    if k < len(values):
        here, following = apart(values[k - 1], values[k])
        text += f"; after {k} eigenvalues ({here}) the next is {following}"
    return f"{text}; the widest gap is after {auto.n_clusters_}" if same and auto.n_clusters_ > 1 else text
