"""From eigenvectors to labels: the partition step finds a rule on the embedded rows, and the rule labels every row.

The rule is a matrix: centres for k-means (the closest wins), a rotation for discretization and pivoted QR (the largest
coordinate wins). It labels the *extension* at the training rows, so that `predict` of them gives the labels of the fit.
Starts and numbers of clusters depend on the contents of the rows, not on their order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll._common import seeding
from knoll._common.linalg import inner, svd, times
from knoll._common.loop import StepReport
from knoll._common.rescale import affinity_exponent, largest_of, near_one, times_power
from knoll._common.seeding import Multiset
from knoll._typing import Floats, Indices, Labels
from knoll.kmeans.assignment import assign
from knoll.kmeans.lloyd import lloyd
from knoll.spectral import embed
from knoll.spectral.affinity import Affinity
from knoll.spectral.graph import Components, graph_order
from knoll.spectral.solve import EigenResult

Report = Callable[[str], None]

CHUNK = 1 << 17  # rows at a time
_ROUNDING = 1e-15  # of an eigenvector of length one: what the solver leaves in each entry
_LIGHT = 1e-6  # error of a row from which it is computed anew
_BETTER = 1e-9  # a run must be better by this share: rounding must not choose among equals
_NOISE = 1e-20  # of the squared length of all rows: what is left of an inertia of zero
_RANK = 1e-20  # of the largest squared length: what rounding leaves of rows that depend on those taken
_SAME = 1e-12  # of the largest coordinate: centres closer than this are one
_TIED = 1e-9  # pivots whose lengths agree to this share: the lowest row is taken


# ---- the partition step ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """How a row of the embedding gets its label."""

    method: str  # kmeans, discretize or cluster_qr
    matrix: Floats  # (k, m) centres, or (m, k) rotation
    inertia: float  # k-means' J; NaN for the others

    def labels(self, Y: Floats, threads: int = 1) -> Labels:
        """Label rows (q, m); the lowest index of equals."""
        if self.method == "kmeans":
            labels = np.empty(len(Y), dtype=np.int32)
            assign(np.ascontiguousarray(Y), self.matrix, labels, None, threads)
            return labels
        return self._coordinates(Y, threads).argmax(axis=1).astype(np.int32)

    def unsure(self, Y: Floats, error: Floats, threads: int = 1) -> Indices:
        """List the rows whose label could change if each coordinate were off by `error` of the largest, (q,)."""
        k = self.matrix.shape[0 if self.method == "kmeans" else 1]
        if k == 1:
            return np.empty(0, dtype=np.intp)
        if self.method == "kmeans":
            # squares of extreme rows leave float64; the answer has no unit
            exponent = affinity_exponent(max(largest_of(Y), largest_of(self.matrix)))
            Y, matrix = times_power(Y, -exponent), times_power(self.matrix, -exponent)
            lengths = np.square(matrix).sum(axis=1)
            score = 2 * times(Y, matrix.T.copy(), threads) - lengths  # largest for the closest
            size = float(np.sqrt(lengths.max()) + np.abs(Y).max(initial=0.0)) ** 2
        else:
            score, size = self._coordinates(Y, threads), float(np.abs(Y).max(initial=0.0))
        best = np.partition(score, k - 2, axis=1)[:, k - 2 :]
        return np.flatnonzero(best[:, 1] - best[:, 0] <= 8 * Y.shape[1] * error * size)

    def reordered(self, order: Indices) -> Rule:
        """Renumber the clusters: `order` lists the old numbers."""
        matrix = self.matrix[order] if self.method == "kmeans" else self.matrix[:, order]
        return Rule(self.method, np.ascontiguousarray(matrix), self.inertia)

    def _coordinates(self, Y: Floats, threads: int) -> Floats:
        coordinates = times(np.ascontiguousarray(Y), self.matrix, threads)
        return np.abs(coordinates) if self.method == "cluster_qr" else coordinates


def by_kmeans(
    Y: Floats,
    weights: Floats | None,
    rows: Multiset,
    k: int,
    n_init: int,
    seed: int,
    threads: int,
    report: Report | None = None,
) -> Rule:
    """Run k-means on the rows from several starts; return the best rule.

    Starts are drawn in the order of the data's contents, not of the embedding's, whose last bits mean nothing.
    """

    def show(iteration: int, step: StepReport) -> None:
        if report is not None:
            report(f"Iteration {iteration}, inertia {step.objective:.10g}.")

    best = None
    total = np.square(Y).sum() if weights is None else float(weights @ np.square(Y).sum(axis=1))
    for restart in range(n_init):
        chosen = seeding.kmeans_plus_plus(Y, rows, k, seed, restart=restart, threads=threads)
        if report is not None:
            report("Initialization complete")
        result = lloyd(Y, weights, Y[chosen], tol=0.0, threads=threads, hook=None if report is None else show)
        if best is None or result.inertia < best.inertia * (1 - _BETTER) - _NOISE * float(total):
            best = result
        if best.inertia <= _NOISE * float(total):
            break  # no start can be better
    assert best is not None
    return Rule("kmeans", _merged(best.centers, float(np.abs(Y).max(initial=0.0))), best.inertia)


def _merged(centers: Floats, size: float) -> Floats:
    """Make centres equal that differ by rounding alone: rows of one component do, and form one cluster."""
    out = centers.copy()
    for c in range(1, len(out)):
        same = (np.abs(out[:c] - out[c]) <= _SAME * size).all(axis=1)
        if same.any():
            out[c] = out[int(np.argmax(same))]
    return out


def by_discretization(
    Y: Floats, weights: Floats | None, rows: Multiset, k: int, n_init: int, seed: int, threads: int
) -> Rule:
    """Rotate the rows as close to a partition matrix as alternation gets (Yu and Shi, 2003)."""
    length = np.sqrt(np.einsum("ij,ij->i", Y, Y))[:, None]
    unit = np.divide(Y, length, out=np.zeros_like(Y), where=length > 0)  # (n, m)
    weighted = unit if weights is None else unit * weights[:, None]
    best, most = np.zeros((Y.shape[1], k)), -np.inf
    for restart in range(n_init):
        rotation = _orthogonal_rows(unit, int(seeding.random_rows(rows, 1, seed, restart=restart)[0]), k)
        last = -np.inf
        for _ in range(100):
            labels = times(unit, rotation, threads).argmax(axis=1)
            chosen = np.zeros((len(Y), k))
            chosen[np.arange(len(Y)), labels] = 1.0
            left, size, right = svd(inner(weighted, chosen, threads))
            rotation = left @ right  # (m, k): the closest rotation
            if size.sum() <= last * (1 + 1e-12):
                break
            last = float(size.sum())
        if last > most * (1 + _BETTER) or most == -np.inf:
            best, most = rotation, last
    return Rule("discretize", np.ascontiguousarray(best), np.nan)


def _orthogonal_rows(unit: Floats, first: int, k: int) -> Floats:
    """Choose rows as orthogonal to each other as possible: the start of the rotation, (m, k)."""
    rotation = np.empty((unit.shape[1], k))
    rotation[:, 0], seen = unit[first], np.zeros(len(unit))
    for c in range(1, k):
        seen += np.abs(unit @ rotation[:, c - 1])
        rotation[:, c] = unit[int(np.flatnonzero(seen <= seen.min() + _TIED)[0])]
    return rotation


def by_qr(Y: Floats, k: int) -> Rule:
    """Choose k rows by column-pivoted QR of Yᵀ and rotate Y by their polar factor (Damle, Minden and Ying, 2019).

    The rank of Y limits the number of clusters: beyond it, residuals are rounding, and so would be their rotation.
    """
    left = Y.copy()
    pivots: list[int] = []
    least = 0.0
    for _ in range(min(k, Y.shape[1])):
        size = np.einsum("ij,ij->i", left, left)
        row = int(np.flatnonzero(size >= (1 - _TIED) * size.max())[0])
        least = max(least, _RANK * float(size[row]))  # of the first
        if pivots and size[row] <= least:
            break
        pivots.append(row)
        if size[row] > 0:
            axis = left[row] / np.sqrt(size[row])
            left -= (left @ axis)[:, None] * axis
    first, _, second = svd(Y[pivots].T)
    rotation = np.zeros((Y.shape[1], k))
    rotation[:, : len(pivots)] = first @ second
    return Rule("cluster_qr", rotation, np.nan)


# ---- labels of the rows ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Clusters:
    """The rule, the labels, and how many clusters have rows in the components of the embedding."""

    rule: Rule
    labels: Labels  # (n,)
    filled: int
    light: NDArray[Any]  # rows whose entries in the eigenvectors are rounding: they are embedded by their extension
    embedding: Floats  # (l, m) of these


def find_clusters(
    affinity: Affinity,
    result: EigenResult,
    w: Floats,
    k: int,
    *,
    assign_labels: str,
    row_scaling: str,
    n_init: int,
    seed: int,
    threads: int,
    report: Report | None = None,
) -> Clusters:
    """Cluster the rows of the extension; rows of other components join the nearest cluster."""
    spectrum, components = result.spectrum, result.components
    Y = embed.extension_at_rows(spectrum, w, row_scaling)  # (n, m)
    reached = np.isin(components.labels, components.order[:k])
    inside = np.flatnonzero(reached)
    if not len(inside):  # no link anywhere: all rows are alike
        return Clusters(_by_component(Y, k), np.zeros(len(Y), dtype=np.int32), 1, inside, Y[inside])
    error = _errors(result, w, inside)

    def extend(rows: NDArray[Any]) -> Floats:  # by the very arithmetic of `predict`
        coefficients = embed.coefficients(spectrum, w)
        chunks = [rows[begin : begin + CHUNK] for begin in range(0, len(rows), CHUNK)]
        sums = [affinity.row_sums(result.route.operator, chunk, coefficients) for chunk in chunks]
        return np.concatenate([embed.extended(chunk, row_scaling)[0] for chunk in sums])

    light = inside[error > _LIGHT]
    if len(light):
        Y[light] = extend(light)
    ordered = _ordered(affinity, w, inside, threads)
    if components.count > k:  # a component is a cluster
        rule = _by_component(Y, k)
    else:
        rule = _rule(assign_labels, Y[inside], w[inside], ordered, k, n_init, seed, threads, report)
    first = rule.labels(Y[inside], threads)[ordered.rows]
    rule = rule.reordered(np.argsort([_first_of(first, c) for c in range(k)], kind="stable"))
    labels = np.zeros(len(Y), dtype=np.int32)
    labels[inside] = rule.labels(Y[inside], threads)
    unsure = inside[rule.unsure(Y[inside], error, threads)]
    if len(unsure) and k > 1:
        labels[unsure] = rule.labels(extend(unsure), threads)
    filled = len(np.unique(labels[inside]))
    outside = np.flatnonzero(~reached)
    if len(outside) and k > 1:
        labels[outside] = _join(affinity, labels, inside, outside, components, w, k)
    return Clusters(rule, labels, filled, light, Y[light])


def _errors(result: EigenResult, w: Floats, rows: NDArray[Any]) -> Floats:
    """Bound the relative error of embedded rows by rounding, (r,).

    An entry of an eigenvector is of the order of √(w d/vol), and its error is absolute: the relative error is large for
    rows of very small weight or degree.
    """
    spectrum, components = result.spectrum, result.components
    all_rows = 1e-13 / max(float(spectrum.values[spectrum.values > embed.VANISHING].min(initial=1.0)), 1e-12)
    volume = components.volumes[components.labels[rows]]
    entry = np.sqrt(w[rows]) * np.sqrt(spectrum.degrees[rows] / volume)
    return np.maximum(max(all_rows, 1e-11), _ROUNDING / np.maximum(entry, 1e-300))


def _ordered(affinity: Affinity, w: Floats, inside: NDArray[Any], threads: int) -> Multiset:
    """Order rows by their contents, equal ones together, for starts and numbers of clusters.

    In a graph the links are the contents, precomputed or not; rows of equal links are ordered by coordinates.
    """
    if affinity.graph is not None:
        position = np.full(affinity.graph.shape[0], -1, dtype=np.int64)
        position[inside] = np.arange(len(inside))
        order = position[graph_order(affinity.graph, affinity.points)]
        return Multiset(order[order >= 0], np.ones(len(inside)))
    rows, weights = affinity.points, None if (w == 1).all() else w[inside]
    return seeding.multiset(rows if len(inside) == len(rows) else rows[inside], weights, threads)


def _rule(
    assign_labels: str,
    Y: Floats,
    w: Floats,
    ordered: Multiset,
    k: int,
    n_init: int,
    seed: int,
    threads: int,
    report: Report | None,
) -> Rule:
    Y = np.ascontiguousarray(Y)
    weights = None if (w == 1).all() else w
    match assign_labels:
        case "discretize":
            return by_discretization(Y, weights, ordered, k, n_init, seed, threads)
        case "cluster_qr":
            return by_qr(Y, k)
    return by_kmeans(Y, weights, ordered, k, n_init, seed, threads, report)


def _by_component(Y: Floats, k: int) -> Rule:
    """Return the rule under which each column of the embedding is a cluster."""
    return Rule("discretize", np.eye(Y.shape[1], k), float("nan"))


def _join(
    affinity: Affinity,
    labels: Labels,
    inside: NDArray[Any],
    outside: NDArray[Any],
    components: Components,
    w: Floats,
    k: int,
) -> Labels:
    """Give each component that is not in the embedding the cluster whose mean is nearest to its own."""
    if affinity.params.precomputed:
        heaviest = int(np.argmax(np.bincount(labels[inside], weights=w[inside], minlength=k)))
        return np.full(len(outside), heaviest, dtype=np.int32)
    points, _ = near_one(np.asarray(affinity.points, dtype=np.float64))  # squares stay in float64
    used = np.unique(labels[inside])
    centers = _means(points[inside], w[inside], np.searchsorted(used, labels[inside]), len(used))
    alone = components.labels[outside] < 0
    own = np.where(alone, components.count + np.cumsum(alone), components.labels[outside])
    _, group = np.unique(own, return_inverse=True)
    nearest = np.empty(int(group.max()) + 1, dtype=np.int32)
    assign(_means(points[outside], w[outside], group, len(nearest)), centers, nearest, None, 1)
    return used[nearest[group]].astype(np.int32)


def _means(points: Floats, w: Floats, group: NDArray[Any], count: int) -> Floats:
    mass = np.bincount(group, weights=w, minlength=count)
    sums = [np.bincount(group, weights=w * points[:, j], minlength=count) for j in range(points.shape[1])]
    return np.ascontiguousarray(np.stack(sums, axis=1) / mass[:, None])


def _first_of(labels: Labels, c: int) -> int:
    positions = np.flatnonzero(labels == c)
    return int(positions[0]) if len(positions) else len(labels)
