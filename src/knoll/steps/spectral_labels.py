"""From eigenvectors to labels: a rule is found on the embedded rows, its clusters get numbers, and every row a label.

The rule labels the *extension* at the training rows, so that what `predict` says of them is what `fit` said. Starts and
numbers go by the contents of the rows, which no order of them changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll import seeding
from knoll.steps import partition
from knoll.steps import spectral as steps
from knoll.steps.affinity import Source
from knoll.steps.assignment import assign
from knoll.steps.graph_order import graph_order
from knoll.steps.graph_parts import Components
from knoll.steps.scaling import largest_of, scaled
from knoll.steps.spectral_solve import Solved

__all__ = ["CHUNK", "Clusters", "find_clusters"]

Floats = NDArray[np.float64]
Labels = NDArray[np.int32]

CHUNK = 1 << 17  # rows at a time
_ROUNDING = 1e-15  # of an eigenvector of length one: what the solver leaves in each entry
_LIGHT = 1e-6  # error of a row from which it is computed anew


@dataclass(frozen=True)
class Clusters:
    """The rule, the labels, and how many clusters have rows that the eigenvectors reach."""

    rule: partition.Rule
    labels: Labels  # (n,)
    filled: int
    light: NDArray[Any]  # rows whose entries in the eigenvectors are rounding; their embedding is their extension
    embedding: Floats  # (l, m) of these


def find_clusters(
    source: Source,
    solved: Solved,
    w: Floats,
    k: int,
    *,
    assign_labels: str,
    row_scaling: str,
    n_init: int,
    seed: int,
    threads: int,
    say: partition.Say | None = None,
) -> Clusters:
    """Cluster the rows of the extension; those it does not reach join the nearest cluster."""
    spectrum, parts = solved.spectrum, solved.parts
    Y = steps.extension_at_rows(spectrum, w, row_scaling)  # (n, m)
    reached = np.isin(parts.labels, parts.order[:k])
    inside = np.flatnonzero(reached)
    if not len(inside):  # no link anywhere: nothing tells a row from another
        return Clusters(_by_component(Y, k), np.zeros(len(Y), dtype=np.int32), 1, inside, Y[inside])
    error = _errors(solved, w, inside)

    def anew(rows: NDArray[Any]) -> Floats:  # by the very arithmetic of `predict`
        coefficients = steps.coefficients(spectrum, w)
        chunks = [rows[begin : begin + CHUNK] for begin in range(0, len(rows), CHUNK)]
        sums = [source.row_sums(solved.operator, some, coefficients) for some in chunks]
        return np.concatenate([steps.extended(part, row_scaling)[0] for part in sums])

    light = inside[error > _LIGHT]
    if len(light):
        Y[light] = anew(light)
    ordered = _ordered(source, w, inside, threads)
    if parts.count > k:  # a component is a cluster
        rule = _by_component(Y, k)
    else:
        rule = _rule(assign_labels, Y[inside], w[inside], ordered, k, n_init, seed, threads, say)
    first = rule.labels(Y[inside], threads)[ordered.rows]
    rule = rule.reordered(np.argsort([_first_of(first, c) for c in range(k)], kind="stable"))
    labels = np.zeros(len(Y), dtype=np.int32)
    labels[inside] = rule.labels(Y[inside], threads)
    unsure = inside[rule.unsure(Y[inside], error, threads)]
    if len(unsure) and k > 1:
        labels[unsure] = rule.labels(anew(unsure), threads)
    filled = len(np.unique(labels[inside]))
    outside = np.flatnonzero(~reached)
    if len(outside) and k > 1:
        labels[outside] = _join(source, labels, inside, outside, parts, w, k)
    return Clusters(rule, labels, filled, light, Y[light])


def _errors(solved: Solved, w: Floats, rows: NDArray[Any]) -> Floats:
    """Bound the share by which rounding may move embedded rows, (r,).

    An entry of an eigenvector is of the order of √(w d/vol), and its error is absolute: a row of next to no weight, or
    of next to no links, is lost in it.
    """
    spectrum, parts = solved.spectrum, solved.parts
    all_rows = 1e-13 / max(float(spectrum.values[spectrum.values > steps.VANISHING].min(initial=1.0)), 1e-12)
    volume = parts.volumes[parts.labels[rows]]
    entry = np.sqrt(w[rows]) * np.sqrt(spectrum.degrees[rows] / volume)
    return np.maximum(max(all_rows, 1e-11), _ROUNDING / np.maximum(entry, 1e-300))


def _ordered(source: Source, w: Floats, inside: NDArray[Any], threads: int) -> seeding.Multiset:
    """Order rows by their contents, equal ones together: what starts and numbers of clusters go by.

    In a graph the links are the contents, whether they were given or found; rows of equal links go by coordinates.
    """
    if source.graph is not None:
        position = np.full(source.graph.shape[0], -1, dtype=np.int64)
        position[inside] = np.arange(len(inside))
        order = position[graph_order(source.graph, source.points)]
        return seeding.Multiset(order[order >= 0], np.ones(len(inside)))
    rows, weights = source.points, None if (w == 1).all() else w[inside]
    return seeding.multiset(rows if len(inside) == len(rows) else rows[inside], weights, threads)


def _rule(
    assign_labels: str,
    Y: Floats,
    w: Floats,
    ordered: seeding.Multiset,
    k: int,
    n_init: int,
    seed: int,
    threads: int,
    say: partition.Say | None,
) -> partition.Rule:
    part = np.ascontiguousarray(Y)
    weights = None if (w == 1).all() else w
    match assign_labels:
        case "discretize":
            return partition.by_discretization(part, weights, ordered, k, n_init, seed, threads)
        case "cluster_qr":
            return partition.by_qr(part, k)
    return partition.by_kmeans(part, weights, ordered, k, n_init, seed, threads, say)


def _by_component(Y: Floats, k: int) -> partition.Rule:
    """A column of the embedding for each cluster."""
    return partition.Rule("discretize", np.eye(Y.shape[1], k), float("nan"))


def _join(
    source: Source,
    labels: Labels,
    inside: NDArray[Any],
    outside: NDArray[Any],
    parts: Components,
    w: Floats,
    k: int,
) -> Labels:
    """Give each component that is not in the embedding the cluster whose mean is nearest to its own."""
    if source.wish.given:
        heaviest = int(np.argmax(np.bincount(labels[inside], weights=w[inside], minlength=k)))
        return np.full(len(outside), heaviest, dtype=np.int32)
    rows = np.asarray(source.points)
    points = scaled(rows, -int(np.frexp(largest_of(rows))[1]))  # squares stay in float64
    used = np.unique(labels[inside])
    centers = _means(points[inside], w[inside], np.searchsorted(used, labels[inside]), len(used))
    alone = parts.labels[outside] < 0
    own = np.where(alone, parts.count + np.cumsum(alone), parts.labels[outside])
    _, group = np.unique(own, return_inverse=True)
    nearest = np.empty(int(group.max()) + 1, dtype=np.int32)
    assign(_means(points[outside], w[outside], group, len(nearest)), centers, nearest, None, 1)
    return used[nearest[group]].astype(np.int32)


def _means(points: Floats, w: Floats, group: NDArray[Any], count: int) -> Floats:
    mass = np.bincount(group, weights=w, minlength=count)
    sums = [np.bincount(group, weights=w * points[:, j], minlength=count) for j in range(points.shape[1])]
    return np.ascontiguousarray(np.stack(sums, axis=1) / mass[:, None])


def _first_of(labels: Labels, c: int) -> int:
    places = np.flatnonzero(labels == c)
    return int(places[0]) if len(places) else len(labels)
