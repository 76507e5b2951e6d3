"""Rows to inspect in each cluster: typical, border and unusual ones.

Typical rows are nearest to the centre of their cluster. Border rows have a row of another cluster nearly as near as the
rows of their own. Unusual rows have a value that is rare in their cluster, which is named.
Distances are Euclidean, between standardised numbers and scaled indicators of categories (`knoll.tables.mixed`), or
between the points that the clustering saw.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from knoll._common.rescale import extreme_exponent, largest_of, times_power
from knoll._format import share
from knoll._typing import Floats, Hashes, Ints
from knoll.explanation.columns import AnyColumn, CategoryColumn, NumberColumn
from knoll.explanation.groups import Groups
from knoll.explanation.profiles import ColumnProfile
from knoll.explanation.tree import content_hashes

__all__ = ["Found", "encoded", "find_rows"]

SAMPLE = 3000  # rows among which border rows are searched
_LEAST_SAMPLE = 50  # of each cluster
_NEAR = 3  # rows of a cluster that a row is compared with
_BORDER = 0.8  # distance to the own rows over that to the others, from which a row is near the border
_FAR = 3.0  # standard deviations from the median of the cluster, from which a value is unusual
_MOST_FAR = 20.0  # a value further away counts as so far
_NORMAL = 1.349  # interquartile range of a normal distribution, in standard deviations
_CLIP = 5.0  # standard deviations: values further out count as so far, in distances
_ENCODED = 64  # columns of indicators of one category
_BLOCK = 1 << 16
_EXTREME = 400  # points beyond 2^±400 are rescaled: sums of their squares come near the limits of float64


@dataclass(frozen=True)
class Found:
    """A row, with how far it is from what it is compared with, and why it is shown."""

    row: int
    value: float
    reason: str


def find_rows(
    columns: Sequence[AnyColumn],
    profiles: Sequence[Sequence[ColumnProfile]],
    groups: Groups,
    points: Floats,
    count: int,
    names: Sequence[str],
) -> tuple[list[dict[str, list[Found]]], bool]:
    """Return typical, border and unusual rows of each group; also whether border rows are those of a sample.

    `profiles` are those of the used columns: profiles[j][g]; `points` (n, d) give the distances.
    """
    hashes = content_hashes(points, np.zeros(len(points), np.int64))
    unit = extreme_exponent(largest_of(points), _EXTREME)  # squares of extreme numbers leave float64
    points = times_power(points, -unit)
    typical = _typical(points, groups, hashes, count, unit)
    border, sampled = _border(points, groups, hashes, count, names)
    unusual = _unusual(columns, profiles, groups, hashes, count)
    found = zip(typical, border, unusual, strict=True)
    return [{"typical": t, "border": b, "unusual": u} for t, b, u in found], sampled


# ---- distances -------------------------------------------------------------------------------------------------------


def encoded(columns: Sequence[AnyColumn]) -> Floats:
    """Return standardised numbers and scaled indicators; a missing value is that of an average row."""
    widths = [1 if isinstance(column, NumberColumn) else min(_ENCODED, len(column.levels)) for column in columns]
    ends = np.cumsum(widths)
    out = np.empty((len(columns[0].missing), ends[-1]))
    for column, end, width in zip(columns, ends, widths, strict=True):
        block = out[:, end - width : end]
        block[:] = _standardised(column.values)[:, None] if isinstance(column, NumberColumn) else _indicators(column)
    return out


def _standardised(values: Floats) -> Floats:
    known = values[~np.isnan(values)]
    if not len(known):  # values in rows of weight 0 alone
        return np.zeros(len(values))
    with np.errstate(over="ignore", invalid="ignore"):
        size = float(np.abs(known).max()) or 1.0
        scaled = values / size  # squares of extreme numbers leave float64
        deviation = float(np.std(known / size)) or 1.0
        out = (scaled - float(np.mean(known / size))) / deviation
    return np.clip(np.nan_to_num(out, nan=0.0), -_CLIP, _CLIP)


def _indicators(column: CategoryColumn) -> Floats:
    known = ~column.missing
    shares = np.bincount(column.codes[known], minlength=len(column.levels)) / max(1, known.sum())
    deviation = math.sqrt(max(1e-12, 1.0 - float(np.square(shares).sum())))
    frequent = np.sort(np.argsort(-shares, kind="stable")[:_ENCODED])
    ones = (column.codes[:, None] == frequent[None, :]) - shares[frequent][None, :]
    return np.where(known[:, None], ones, 0.0) / deviation


def _typical(points: Floats, groups: Groups, hashes: Hashes, count: int, unit: int) -> list[list[Found]]:
    """Find the rows nearest to the centre of their cluster; the points are in units of 2^unit."""
    n, d = points.shape
    centres = np.empty((len(groups), d))
    for j in range(d):
        sums = np.bincount(groups.at, weights=groups.weights * points[:, j], minlength=len(groups))
        centres[:, j] = sums / groups.sizes
    distance = np.empty(n)
    for begin in range(0, n, _BLOCK):
        rows = slice(begin, begin + _BLOCK)
        distance[rows] = np.square(points[rows] - centres[groups.at[rows]]).sum(axis=1)
    out = []
    for g in range(len(groups)):
        rows_of = np.flatnonzero(groups.at == g)
        nearest = _smallest(distance[rows_of], hashes[rows_of], count)
        far = np.minimum(times_power(np.sqrt(distance[rows_of[nearest]]), unit), np.finfo(np.float64).max)
        out.append([Found(int(row), float(value), "") for row, value in zip(rows_of[nearest], far, strict=True)])
    return out


def _smallest(values: Floats, hashes: Hashes, count: int) -> Ints:
    """Return the positions of the smallest values; ties are decided by content, not by the order of rows."""
    if len(values) > 8 * count:
        edge = np.partition(values, count - 1)[count - 1]
        candidates = np.flatnonzero(values <= edge)
    else:
        candidates = np.arange(len(values))
    return candidates[np.lexsort((hashes[candidates], values[candidates]))][:count].astype(np.int64)


# ---- the border ------------------------------------------------------------------------------------------------------


def _border(
    points: Floats, groups: Groups, hashes: Hashes, count: int, names: Sequence[str]
) -> tuple[list[list[Found]], bool]:
    """Compare the distance to the nearest rows of the own cluster with that to those of every other cluster."""
    clusters = np.flatnonzero(groups.labels >= 0)
    out: list[list[Found]] = [[] for _ in range(len(groups))]
    if len(clusters) < 2:
        return out, False
    rows, sampled = _sample(groups, hashes, clusters)
    sample, at = points[rows], groups.at[rows]
    sample = sample - (sample.max(axis=0) / 2 + sample.min(axis=0) / 2)  # |x|² + |y|² − 2 x·y cancels far from 0
    squares = np.square(sample).sum(axis=1)
    near = np.full((len(rows), len(groups)), np.inf)  # mean distance to the nearest rows of each cluster
    for g in clusters:
        own = np.flatnonzero(at == g)
        for begin in range(0, len(rows), 512):
            block = slice(begin, begin + 512)
            far = squares[block, None] + squares[None, own] - 2 * sample[block] @ sample[own].T
            far[rows[block, None] == rows[None, own]] = np.inf  # not itself
            k = min(_NEAR, max(1, len(own) - 1))
            nearest = np.partition(far, k - 1, axis=1)[:, :k] if len(own) > k else far
            near[block, g] = np.sqrt(np.maximum(nearest, 0)).mean(axis=1)
    for g in clusters:
        own = np.flatnonzero(at == g)
        others = near[own].copy()
        others[:, g] = np.inf
        next_best = others.argmin(axis=1)
        to_other = others[np.arange(len(own)), next_best]
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(to_other > 0, near[own, g] / to_other, np.where(near[own, g] > 0, np.inf, 1.0))
        ratio = np.where(np.isfinite(ratio), ratio, np.where(np.isinf(near[own, g]), -np.inf, 1e9))
        for i in _smallest(-ratio, hashes[rows[own]], count):
            if ratio[i] >= _BORDER:
                reason = f"near {names[next_best[i]]}"
                out[g].append(Found(int(rows[own[i]]), float(min(ratio[i], 1e9)), reason))
    return out, sampled


def _sample(groups: Groups, hashes: Hashes, clusters: Ints) -> tuple[Ints, bool]:
    """Choose rows by their contents: each cluster by its share, and at least some of it."""
    n = int(np.isin(groups.at, clusters).sum())
    if n <= SAMPLE:
        return np.flatnonzero(np.isin(groups.at, clusters)), False
    chosen = []
    for g in clusters:
        rows = np.flatnonzero(groups.at == g)
        count = max(_LEAST_SAMPLE, SAMPLE * len(rows) // n)
        chosen.append(rows[np.argsort(hashes[rows], kind="stable")[:count]])
    return np.sort(np.concatenate(chosen)), True


# ---- unusual rows ----------------------------------------------------------------------------------------------------


def _unusual(
    columns: Sequence[AnyColumn],
    profiles: Sequence[Sequence[ColumnProfile]],
    groups: Groups,
    hashes: Hashes,
    count: int,
) -> list[list[Found]]:
    """Find the rows whose values are furthest from the median of their cluster, or rarest in it."""
    n = len(groups.at)
    total, worst, at = np.zeros(n), np.zeros(n), np.zeros(n, dtype=np.int64)
    for j, column in enumerate(columns):
        if not profiles[j]:
            continue
        far = _how_far(column, profiles[j], groups)
        total += np.square(far)
        at = np.where(far > worst, j, at)
        worst = np.maximum(worst, far)
    out = []
    for g in range(len(groups)):
        rows = np.flatnonzero((groups.at == g) & (worst >= _FAR))
        chosen = rows[_smallest(-total[rows], hashes[rows], count)] if len(rows) else rows
        out.append([
            Found(int(row), float(math.sqrt(total[row])), _why(columns[at[row]], profiles[at[row]][g], int(row)))
            for row in chosen
        ])  # fmt: skip
    return out


def _how_far(column: AnyColumn, profiles: Sequence[ColumnProfile], groups: Groups) -> Floats:
    """Return for each row how far its value is from its cluster, in standard deviations of a normal distribution."""
    if isinstance(column, NumberColumn):
        known = column.values[~column.missing]
        # quarters, since differences of numbers near the largest leave float64
        floor = 0.1 * 4 * float(np.subtract(*np.quantile(known / 4, [0.75, 0.25])) / _NORMAL)
        floor = floor or 0.1 * float(known.max() / 2 - known.min() / 2) or 1.0
        middle = np.array([np.nan if p.quartiles is None else p.quartiles[1] for p in profiles])
        deviations = np.array(
            [1.0 if p.quartiles is None else (p.quartiles[2] - p.quartiles[0]) / _NORMAL for p in profiles]
        )
        with np.errstate(over="ignore", invalid="ignore"):
            far = np.abs(column.values - middle[groups.at]) / np.maximum(deviations, floor)[groups.at]
        return np.minimum(np.nan_to_num(far, nan=0.0), _MOST_FAR)
    shares = groups.counts(np.where(column.missing, 0, column.codes), len(column.levels), ~column.missing)
    shares = shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)
    with np.errstate(divide="ignore"):
        rare = np.sqrt(np.clip(-2 * np.log(shares), 0.0, _MOST_FAR**2))  # the density of a normal distribution falls so
    return np.where(column.missing, 0.0, rare[groups.at, column.codes])


def _why(column: AnyColumn, profile: ColumnProfile, row: int) -> str:
    if isinstance(column, NumberColumn):
        assert profile.quartiles is not None
        low, high = column.format(profile.quartiles[0]), column.format(profile.quartiles[2])
        return f"{column.name} {column.text(row)}, half of the cluster {low} to {high}"
    frequency = next((level.share for level in profile.levels if level.value == column.text(row)), 0.0)
    return f"{column.name} {column.text(row)}, {share(frequency)} of the cluster"
