"""Views of the rows: planes of scaled columns, a spectral embedding, given columns; and the cross table of two answers.

A view reports what it hides: its share of the variance, and how many of a row's ten nearest rows are among its thirty
nearest in the view.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from knoll import _core
from knoll._system import resolve_threads
from knoll._typing import Bools, Floats, Ints
from knoll.base import collect_warnings
from knoll.exceptions import BadData, InvalidParameter
from knoll.explanation.columns import NumberColumn
from knoll.explorer.source import SAMPLE, Source
from knoll.explorer.wire import wire_labels
from knoll.metrics import adjusted_mutual_info_score, adjusted_rand_score
from knoll.spectral.estimator import SpectralClustering

if TYPE_CHECKING:
    from knoll.explorer.session import Session

__all__ = ["KINDS", "contingency", "density2d", "rows_of_cells", "rows_that_differ", "view"]

KINDS = ("columns", "principal", "separating", "tour", "spectral", "given")
_NEAR, _ON_SCREEN = 10, 30
_MOST_CELLS = 4_000_000  # of 2-D histograms
_MOST_CLUSTERS = 2_000  # of a contingency table
_PLANES = 6  # of a tour
_RIDGE = 1e-6  # of the mean variance, added to the scatter within clusters


def view(session: Session, kind: str = "principal", x: Any = None, y: Any = None, frames: int = 120) -> Any:
    """Return the axes or the positions of a view, and what it hides."""
    source = session.source
    if kind == "given":
        return _given(session, x, y)
    if kind == "spectral":
        return _spectral(session)
    if kind == "columns":
        axes, labels = _two_columns(source, x, y)
        title = f"{labels[0]} and {labels[1]}"
    elif kind == "separating":
        axes, labels, title = (
            separating(session),
            ("direction 1", "direction 2"),
            "plane that separates these clusters best",
        )
    elif kind == "principal":
        axes, labels, title = principal(source.points), ("component 1", "component 2"), "first two principal components"
    else:
        planes = _tour(session, int(frames))
        text = "A tour through planes of all scaled columns; the first is the principal one."
        facts: dict[str, Any] = {
            "kind": kind,
            "title": "tour",
            "x_label": "",
            "y_label": "",
            "variance": None,
            "kept": None,
            "kept_rows": 0,
        }
        return facts | {"text": text}, {"axes": planes.astype(np.float32)}
    share = _variance(source.points, axes)
    facts = {"kind": kind, "title": title, "x_label": labels[0], "y_label": labels[1], "variance": share}
    return facts | _hidden(source, axes), {"axes": axes.astype(np.float32)}


def _two_columns(source: Source, x: Any, y: Any) -> tuple[Floats, tuple[str, str]]:
    d, names = source.points.shape[1], source.scaling.names
    chosen = [0 if x is None else x, min(1, d - 1) if y is None else y]
    axes = np.zeros((2, d))
    for at, column in enumerate(chosen):
        if type(column) is not int or not 0 <= column < d:
            raise InvalidParameter(f"a view of columns takes numbers from 0 to {d - 1}, got {column!r:.60}.")
        axes[at, column] = 1.0
    if d == 1:
        axes[1] = 0.0
    return axes, (names[chosen[0]], names[chosen[1]] if d > 1 else "")


def principal(points: Floats) -> Floats:
    """(2, d) the two directions of largest variance, each with its largest entry positive."""
    d = points.shape[1]
    centered = points - points.mean(axis=0)
    _, vectors = np.linalg.eigh(centered.T @ centered)
    return _two(vectors[:, ::-1].T, d)


def separating(session: Session) -> Floats:
    """(2, d) the orthonormal plane of Fisher's discriminant directions of the shown clusters."""
    points, labels = session.source.points, session.answer.labels
    d, there = points.shape[1], labels >= 0
    found, at = np.unique(labels[there], return_inverse=True)
    if len(found) < 2:
        raise BadData("a plane that separates clusters needs two of them.")
    rows = points[there]
    counts = np.bincount(at).astype(float)
    means = np.array([np.bincount(at, rows[:, j]) for j in range(d)]).T / counts[:, None]
    overall = rows.mean(axis=0)
    between = ((means - overall).T * counts) @ (means - overall)
    total = (rows - overall).T @ (rows - overall)
    within = total - between
    within += np.eye(d) * (_RIDGE * np.trace(total) / d or 1.0)
    _, vectors = scipy.linalg.eigh(between, within)
    first = vectors[:, ::-1].T
    if len(found) == 2 and d > 1:  # one direction separates; across it, the direction of most variance
        u = first[0] / np.linalg.norm(first[0])
        left = rows - overall
        left = left - np.outer(left @ u, u)
        first = np.array([u, np.linalg.eigh(left.T @ left)[1][:, -1]])
    return _two(first, d)


def _two(vectors: Floats, d: int) -> Floats:
    """Return the first two directions made orthonormal; of one column, the column and nothing."""
    if d == 1:
        return np.array([[1.0], [0.0]])
    basis = np.linalg.qr(vectors[:2].T)[0].T
    at = np.abs(basis).argmax(axis=1)
    return np.asarray(basis * np.sign(basis[np.arange(2), at])[:, None])


def _variance(points: Floats, axes: Floats) -> float:
    total = float(points.var(axis=0).sum())
    return float((points @ axes.T).var(axis=0).sum()) / total if total > 0 else 1.0


def _hidden(source: Source, axes: Floats) -> dict[str, Any]:
    rows = source.sample(SAMPLE)
    points = np.ascontiguousarray(source.points[rows])
    kept = _kept(points, np.ascontiguousarray(points @ axes.T))
    return {"kept": kept, "kept_rows": len(rows), "text": ""}


def _kept(points: Floats, shown: Floats) -> float | None:
    """Return the share of the ten nearest rows that are among the thirty nearest in the view; of a sample."""
    n = len(points)
    if n <= _ON_SCREEN + 1:
        return None
    near, seen = _neighbours(points, _NEAR), _neighbours(shown, _ON_SCREEN)
    return float(np.mean([len(np.intersect1d(a, b)) / _NEAR for a, b in zip(near, seen, strict=True)]))


def _neighbours(points: Floats, k: int) -> Ints:
    threads = resolve_threads(None)
    index = _core.Index(points, 0.0, "euclidean", 2.0, "auto", threads)
    distances, near = np.empty((len(points), k + 1)), np.empty((len(points), k + 1), dtype=np.int64)
    index.knn(points, k + 1, distances, near, threads)
    own = near == np.arange(len(points))[:, None]
    own[~own.any(axis=1), -1] = True  # among equal rows it may be missing
    return near[~own].reshape(len(points), k)


def _tour(session: Session, frames: int) -> Floats:
    """(frames, 2, d) planes on the geodesic from one to the next, orthonormal each; no frame jumps."""
    points, d = session.source.points, session.source.points.shape[1]
    rng = np.random.default_rng([session.source.seed, 41])
    plane = principal(points)
    if d < 3:  # there is no other plane
        return np.repeat(plane[None], frames, axis=0)
    out: list[Floats] = []
    for leg in range(_PLANES):
        target = principal(points) if leg == _PLANES - 1 else _two(rng.normal(size=(2, d)), d)
        count = frames // _PLANES + (leg < frames % _PLANES)
        turn = _turned(plane, target)
        out += [turn(0.5 - 0.5 * np.cos(np.pi * at / count)) for at in range(count)]
        plane = turn(1.0)
    return np.array(out)


def _turned(a: Floats, b: Floats) -> Callable[[float], Floats]:
    """Return the plane at each fraction of the geodesic from a to b, turned by the principal angles between them."""
    u, cosines, v = np.linalg.svd(a @ b.T)
    angles = np.arccos(np.clip(cosines, -1.0, 1.0))
    begin, end = u.T @ a, v @ b
    across = end - np.cos(angles)[:, None] * begin
    length = np.linalg.norm(across, axis=1, keepdims=True)
    across = np.divide(across, length, out=np.zeros_like(across), where=length > 1e-12)

    def turn(fraction: float) -> Floats:
        at = fraction * angles[:, None]
        return np.asarray(u @ (np.cos(at) * begin + np.sin(at) * across))

    return turn


def _given(session: Session, x: Any, y: Any) -> Any:
    source = session.source
    columns = []
    for name in (x, y):
        column = source.column(name) if isinstance(name, str) else None
        if not isinstance(column, NumberColumn):
            raise InvalidParameter(f"a view of given coordinates takes names of number columns, got {name!r:.60}.")
        columns.append(column.values)
    positions = np.array(columns, dtype=np.float64)
    deviations = np.nanstd(positions, axis=1, keepdims=True)
    positions = (positions - np.nanmean(positions, axis=1, keepdims=True)) / np.where(deviations > 0, deviations, 1.0)
    kept = None
    rows = source.sample(SAMPLE)
    if np.isfinite(positions[:, rows]).all():
        kept = _kept(np.ascontiguousarray(source.points[rows]), np.ascontiguousarray(positions[:, rows].T))
    facts = {
        "kind": "given",
        "title": f"{x} and {y}, as given",
        "x_label": x,
        "y_label": y,
        "variance": None,
        "kept": kept,
    }
    text = "Coordinates as given; distances in it need not be those of the clustering."
    return facts | {"kept_rows": len(rows), "text": text}, {"positions": _drawn(source, positions)}


def _spectral(session: Session) -> Any:
    """Embed a sample by the second and third eigenvector of its graph of ten neighbours; no other row is drawn."""
    source = session.source
    rows = source.sample(SAMPLE)
    points = np.ascontiguousarray(source.points[rows])
    count = min(3, len(points) - 1)
    if count < 2:
        raise BadData("a spectral embedding needs three rows.")
    with collect_warnings():
        model = SpectralClustering(
            2, n_components=count, affinity="nearest_neighbors", n_init=1, random_state=source.seed, row_scaling="none"
        ).fit(points)
    found = np.asarray(model.embedding_)[:, -2:]
    found = found / (np.abs(found).max(axis=0) + 1e-300)
    positions = np.full((2, len(source)), np.nan)
    positions[:, rows] = found.T
    text = "Eigenvectors of the graph of ten neighbours"
    text += "." if len(rows) == len(source) else f" of {len(rows)} rows drawn at random; the others are not shown."
    facts = {"kind": "spectral", "title": "spectral embedding", "x_label": "eigenvector 2", "y_label": "eigenvector 3"}
    return facts | {
        "variance": None,
        "kept": _kept(points, np.ascontiguousarray(found)),
        "kept_rows": len(rows),
        "text": text,
    }, {"positions": _drawn(source, positions)}


def _drawn(source: Source, positions: Floats) -> NDArray[np.float32]:
    return np.ascontiguousarray(positions if source.drawn is None else positions[:, source.drawn], dtype=np.float32)


# ---- two answers ---------------------------------------------------------------------------------------------------


def contingency(session: Session, a: Any = "shown", b: Any = None) -> Any:
    """Count the rows in each pair of clusters of two answers, ordered so that large counts are on the diagonal."""
    first, second = session.find(a).labels, session.find(b).labels
    rows, at = np.unique(first, return_inverse=True)
    columns, to = np.unique(second, return_inverse=True)
    if max(len(rows), len(columns)) > _MOST_CLUSTERS:
        raise BadData(f"a table of more than {_MOST_CLUSTERS} clusters is not shown.")
    counts = np.bincount(at * len(columns) + to, minlength=len(rows) * len(columns)).reshape(len(rows), len(columns))
    matched = _matched(rows, columns, counts)
    order_a = sorted(range(len(rows)), key=lambda i: (rows[i] < 0, rows[i]))
    partner = {columns[j]: rows[i] for i, j in matched}
    rank = {rows[i]: at for at, i in enumerate(order_a)}
    order_b = sorted(
        range(len(columns)), key=lambda j: (columns[j] < 0, rank.get(partner.get(columns[j]), len(rank)), columns[j])
    )
    same = sum(int(counts[i, j]) for i, j in matched)
    facts = {
        "a": [int(rows[i]) for i in order_a],
        "b": [int(columns[j]) for j in order_b],
        "ari": float(adjusted_rand_score(first, second)),
        "ami": float(adjusted_mutual_info_score(first, second)),
        "match": {str(int(label)): int(other) for label, other in partner.items()},
        "differ": len(first) - same,
    }
    every = slice(None) if session.source.drawn is None else session.source.drawn
    return facts, {"counts": counts[np.ix_(order_a, order_b)].astype(np.int32), "other": wire_labels(second[every])}


def _matched(rows: Ints, columns: Ints, counts: Ints) -> list[tuple[int, int]]:
    """Pair the clusters so that most rows agree; noise goes with noise alone."""
    i, j = np.flatnonzero(rows >= 0), np.flatnonzero(columns >= 0)
    pairs = linear_sum_assignment(-counts[np.ix_(i, j)])
    found = [(int(i[p]), int(j[q])) for p, q in zip(*pairs) if counts[i[p], j[q]] > 0]
    if len(i) < len(rows) and len(j) < len(columns):
        found.append((int(np.flatnonzero(rows < 0)[0]), int(np.flatnonzero(columns < 0)[0])))
    return found


def rows_that_differ(session: Session, requested: Mapping[str, Any]) -> Bools:
    """Return the rows whose clusters in two answers are not matched."""
    _of_two(requested, {"a", "b"})
    facts, _ = contingency(session, requested["a"], requested["b"])
    match = {int(label): other for label, other in facts["match"].items()}
    first, second = session.find(requested["a"]).labels, session.find(requested["b"]).labels
    found, at = np.unique(second, return_inverse=True)
    partner = np.array([match.get(int(label), -2) for label in found])
    return np.asarray(partner[at] != first)


def rows_of_cells(session: Session, requested: Mapping[str, Any]) -> Bools:
    """Return the rows in some cells of the table of two answers."""
    _of_two(requested, {"a", "b", "cells"})
    first, second = session.find(requested["a"]).labels, session.find(requested["b"]).labels
    mask = np.zeros(len(first), dtype=bool)
    for cell in requested["cells"] if isinstance(requested["cells"], list) else [None]:
        if not isinstance(cell, list) or len(cell) != 2 or not all(type(label) is int for label in cell):
            raise InvalidParameter(f"a cell is a pair of labels, got {cell!r:.60}.")
        mask |= (first == cell[0]) & (second == cell[1])
    return mask


def _of_two(requested: Mapping[str, Any], names: set[str]) -> None:
    if set(requested) != names:
        raise InvalidParameter(
            f"two answers are requested by {', '.join(sorted(names))}; got {', '.join(map(str, requested))!s:.80}."
        )


# ---- without WebGL -------------------------------------------------------------------------------------------------


def density2d(session: Session, arrays: Mapping[str, Any], box: Any = None, bins: Any = None) -> Any:
    """Count the shown rows in the cells of a picture, cluster by cluster; the noise is the last."""
    points, axes = session.source.points, arrays.get("axes")
    if axes is None or axes.shape != (2, points.shape[1]) or not np.isfinite(axes).all():
        raise InvalidParameter(f"density2d takes an array axes of shape (2, {points.shape[1]}).")
    numbers = (
        isinstance(box, list)
        and len(box) == 4
        and all(isinstance(one, int | float) and np.isfinite(one) for one in box)
    )
    if not numbers or not (box[0] < box[1] and box[2] < box[3]):
        raise InvalidParameter(f"box is [x0, x1, y0, y1], got {box!r:.60}.")
    if not (isinstance(bins, list) and len(bins) == 2 and all(type(one) is int and 1 <= one <= 4096 for one in bins)):
        raise InvalidParameter(f"bins is [width, height], got {bins!r:.60}.")
    answer = session.state.answer
    labels = np.full(len(points), -1) if answer is None else answer.labels
    found, at = np.unique(labels, return_inverse=True)
    clusters = found[found >= 0]
    (w, h), count = bins, len(clusters) + 1
    if w * h * count > _MOST_CELLS:
        raise BadData(f"{w} by {h} cells for {count - 1} clusters are too many; at most {_MOST_CELLS} in all.")
    layer = at - 1 if len(clusters) < len(found) else at
    layer = np.where(layer < 0, count - 1, layer)
    plane = points @ axes.T.astype(np.float64)
    column = np.floor((plane[:, 0] - box[0]) / (box[1] - box[0]) * w)
    line = np.floor((plane[:, 1] - box[2]) / (box[3] - box[2]) * h)
    kept = (column >= 0) & (column < w) & (line >= 0) & (line < h) & session.shown()
    cell = (layer[kept] * h + line[kept].astype(np.int64)) * w + column[kept].astype(np.int64)
    counts = np.bincount(cell, minlength=count * h * w).reshape(count, h, w)
    return {"labels": clusters.tolist()}, {"counts": counts.astype(np.uint32)}
