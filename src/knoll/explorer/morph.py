"""The rows along a certified relation: from one method to another in steps, with the certificate of the relation."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from knoll import relations as certified
from knoll._typing import Floats
from knoll.base import collect_warnings
from knoll.exceptions import InvalidParameter
from knoll.explorer.source import SAMPLE
from knoll.explorer.wire import wire_labels
from knoll.neighbors import NearestRows

if TYPE_CHECKING:
    from knoll.explorer.session import Session

__all__ = ["morph", "relations"]

_STEPS = 24
_NAMES = ("mixture-to-kmeans", "gaussian-to-heaviside", "climb-to-mean-shift")
_KEPT = 3  # paths


def relations(session: Session) -> list[dict[str, Any]]:
    """Return the relations that have a path, as the page shows them."""
    found = [certified.get(name) for name in _NAMES]
    return [{"name": one.name, "source": one.source, "target": one.target, "statement": one.statement} for one in found]


def morph(session: Session, relation: str = "", at: float = 0.0) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the labels at a position between two methods (0 and 1), and the certificate of the relation."""
    if relation not in _NAMES:
        raise InvalidParameter(f"relation must be one of {', '.join(_NAMES)}, got {relation!r:.60}.")
    path, certificate, rows = _path(session, relation)
    number = round(at * (len(path) - 1))
    frame = path[number]
    source = session.source
    labels = np.full(len(source), -1, dtype=np.int64)
    labels[rows] = frame.labels
    if len(rows) < len(source):
        labels = NearestRows(n_jobs=source.n_jobs).fit(source.points[rows], frame.labels).predict(source.points)
    facts = {
        "relation": relation,
        "at": number / (len(path) - 1),
        "step": number,
        "steps": len(path),
        "text": frame.title,
        "parameters": {path.parameter: frame.value},
        "verdict": certificate.verdict,
        "holds": certificate.holds,
        "statement": certificate.statement,
        "measured": [str(check) for check in certificate.checks],
        "rows": len(rows),
    }
    every = slice(None) if source.drawn is None else source.drawn
    arrays: dict[str, Any] = {"labels": wire_labels(labels[every])}
    centers = frame.arrays.get("means")
    if centers is not None:
        arrays["centers"] = np.ascontiguousarray(centers, dtype=np.float32)
    return facts, arrays


def _path(session: Session, relation: str) -> Any:
    """Return the path of a relation on the rows, or on a sample of them; it is kept."""
    kept: OrderedDict[Any, Any] = session.paths
    parameters: dict[str, int] = {}
    source, found = session.source, certified.get(relation)
    rows = np.sort(source.sample(SAMPLE))
    if relation == "mixture-to-kmeans" and session.state.answer is not None:
        parameters["n_clusters"] = min(max(2, len(session.state.answer.sizes())), len(rows))
    key = (relation, *parameters.values())
    if key not in kept:
        points: Floats = np.ascontiguousarray(source.points[rows])
        with collect_warnings():
            path = cast(certified.Limit, found).path(points, _STEPS, **parameters)
            kept[key] = (path, found.certify(points, **parameters), rows)
        while len(kept) > _KEPT:
            kept.popitem(last=False)
    return kept[key]
