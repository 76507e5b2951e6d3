"""A decision tree of at most four levels that gives the clusters again, from the columns that the clustering used.

scikit-learn chooses the splits, on the ranks of the values: its trees compute in float32, ranks are exact there. The
tree itself is kept in the units of the table: a split of a number is ``x <= t`` at the roundest t between the two
values that it separates, a split of a category is ``x = level``. A missing value has its side in every split.

Rows that are equal count as one with their weights, in an order of content, so that neither the order of rows nor
"weight or repetition" changes the tree. Of more than `MOST_ROWS` different rows those with the smallest hashes are
taken; fidelity and coverage are always those of all rows.
"""

from __future__ import annotations

import math
from calendar import monthrange
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from knoll._typing import Bools, Floats, Hashes, Ints
from knoll.explanation.columns import OTHER, AnyColumn, CategoryColumn, NumberColumn
from knoll.explanation.groups import Groups

__all__ = ["Leaf", "Node", "Split", "fit_tree", "leaves_of", "predict"]

MOST_ROWS = 30_000  # of different contents
_INDICATORS = 24  # levels of a category that may be split on, the most frequent
_LEAST_LEAF = 0.005  # of the weight, or a quarter of the smallest cluster
_GAIN = 0.01  # of the weight: a split must give so much of it its cluster, or give a cluster its only leaf
_DIGITS = 2  # of a threshold: one with more may be moved to a rounder number nearby,
_SLACK = 0.005  # across so many of the rows at its node
_DATES = (-354_285.0, 2_932_896.0)  # years 1000 to 9999: dates in these are ordered as their texts are


@dataclass(frozen=True)
class Split:
    """A question to a row: is the value at most `threshold`, or is it this `level`? With neither: is it known?"""

    column: int  # of the used columns
    threshold: float | None
    level: int | None
    missing: bool  # whether a missing value counts as yes

    def test(self, column: AnyColumn) -> Bools:
        """Answer it for every row."""
        if self.level is None and self.threshold is None:
            return np.logical_not(column.missing)
        if isinstance(column, CategoryColumn):
            yes = column.codes == self.level
        else:
            assert self.threshold is not None
            with np.errstate(invalid="ignore"):
                yes = column.values <= self.threshold
        return np.where(column.missing, self.missing, yes)


@dataclass(frozen=True)
class Leaf:
    """The end of a path: the group that it stands for, and what there is in it."""

    group: int
    counts: tuple[float, ...]  # the weight of each group


@dataclass(frozen=True)
class Branch:
    """A split with a tree for each answer."""

    split: Split
    yes: Node
    no: Node
    counts: tuple[float, ...]


Node = Leaf | Branch


def fit_tree(columns: Sequence[AnyColumn], groups: Groups, depth: int) -> tuple[Node, bool]:
    """Fit the tree; also return whether only a sample of the rows chose its splits."""
    total = Leaf(int(np.argmax(groups.sizes)), tuple(groups.sizes.tolist()))
    if len(groups) < 2 or not columns or depth < 1:
        return total, False
    ranks, features = _features(columns, groups)  # (n, f) float32, −1 missing
    if not features:
        return total, False
    rows, weights, sampled = _distinct(ranks, groups)
    least = min(_LEAST_LEAF, 0.25 * float(groups.sizes.min() / groups.sizes.sum()))
    known = np.where(ranks[rows] < 0, np.nan, ranks[rows])
    models = [
        DecisionTreeClassifier(criterion=name, max_depth=depth, min_weight_fraction_leaf=least, random_state=0).fit(
            known, groups.at[rows], sample_weight=weights
        )
        for name in ("entropy", "gini")  # the former for many clusters, whose splits are more balanced
    ]
    best = max(models, key=lambda model: float(model.score(known, groups.at[rows], sample_weight=weights)))
    tree = _converted(best.tree_, 0, np.arange(groups.at.size), columns, groups, features)
    return _pruned(tree, float(groups.sizes.sum())), sampled


def predict(node: Node, columns: Sequence[AnyColumn], n_rows: int) -> Ints:
    """Return the group that the tree gives to each row."""
    out = np.empty(n_rows, dtype=np.int64)
    _fill(node, columns, np.arange(n_rows), out)
    return out


def _fill(node: Node, columns: Sequence[AnyColumn], rows: Ints, out: Ints) -> None:
    if isinstance(node, Leaf):
        out[rows] = node.group
        return
    yes = node.split.test(columns[node.split.column].take(rows))
    _fill(node.yes, columns, rows[yes], out)
    _fill(node.no, columns, rows[~yes], out)


def leaves_of(
    node: Node, path: tuple[tuple[Split, bool], ...] = ()
) -> list[tuple[tuple[tuple[Split, bool], ...], Leaf]]:
    """Return every leaf with the splits on the way to it and their answers."""
    if isinstance(node, Leaf):
        return [(path, node)]
    split = node.split
    return leaves_of(node.yes, (*path, (split, True))) + leaves_of(node.no, (*path, (split, False)))


# ---- what scikit-learn sees ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Feature:
    """What a feature of scikit-learn's is: the rank of a number, or the indicator of a level."""

    column: int
    level: int | None
    smallest: Floats  # of a number: the smallest value of each rank


def _features(columns: Sequence[AnyColumn], groups: Groups) -> tuple[Any, list[_Feature]]:
    """Return ranks of numbers and indicators of levels, and what each of them is."""
    found: list[Any] = []
    features: list[_Feature] = []
    for j, column in enumerate(columns):
        missing = column.missing
        if isinstance(column, NumberColumn):
            if not _splittable(column):
                continue
            found.append(column.bins.at.astype(np.float32))
            features.append(_Feature(j, None, column.bins.lower))
            continue
        for level in _frequent_levels(column, groups):
            found.append(np.where(missing, -1, column.codes == level).astype(np.float32))
            features.append(_Feature(j, level, np.empty(0)))
    n = len(groups.at)
    return (np.column_stack(found) if found else np.empty((n, 0), np.float32)), features


def _splittable(column: NumberColumn) -> bool:
    known = column.values[~column.missing]
    return column.type != "date" or (_DATES[0] <= known.min() and known.max() <= _DATES[1])


def _frequent_levels(column: CategoryColumn, groups: Groups) -> list[int]:
    """Return the levels that are most frequent in any group; two levels need one indicator."""
    known = ~column.missing
    shares = groups.counts(np.where(known, column.codes, 0), len(column.levels), known) / groups.sizes[:, None]
    there = np.flatnonzero(shares.max(axis=0) > 0).tolist()
    usable = [at for at in there if column.levels[at] != OTHER and "\0" not in column.levels[at]]
    order = sorted(usable, key=lambda at: (-shares[:, at].max(), at))[:_INDICATORS]
    return sorted(order)[-1:] if len(there) == 2 and len(order) == 2 else sorted(order)


def _distinct(features: Any, groups: Groups) -> tuple[Ints, Floats, bool]:
    """Return one row for each content and group, with their weight, ordered by a hash of the content."""
    hashes = content_hashes(features, groups.at)
    order, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    weights = np.bincount(inverse, weights=groups.weights)
    sampled = len(order) > MOST_ROWS
    return first[:MOST_ROWS].astype(np.int64), weights[:MOST_ROWS].astype(np.float64), sampled


def content_hashes(features: Any, at: Ints) -> Hashes:
    """Return 64 bits for each row that depend on its contents alone (the finaliser of splitmix64).

    Features are float32 or float64; −0 is 0.
    """
    hashes: Hashes = at.astype(np.uint64)
    for column in np.asarray(features).T:
        bits = np.ascontiguousarray(column + 0.0).view(f"u{column.itemsize}").astype(np.uint64)
        hashes = (hashes ^ bits) + np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            hashes = (hashes ^ (hashes >> np.uint64(shift))) * np.uint64(factor)
        hashes ^= hashes >> np.uint64(31)
    return hashes


# ---- in the units of the table ---------------------------------------------------------------------------------------


def _converted(
    tree: Any, at: int, rows: Ints, columns: Sequence[AnyColumn], groups: Groups, features: list[_Feature]
) -> Node:
    """Convert the tree below a node of scikit-learn's, with the rows of the table that come there."""
    counts = np.bincount(groups.at[rows], weights=groups.weights[rows], minlength=len(groups))
    leaf = Leaf(int(np.argmax(counts)), tuple(counts.tolist()))
    if tree.children_left[at] < 0 or not len(rows):
        return leaf
    feature = features[tree.feature[at]]
    column = columns[feature.column].take(rows)
    left_missing = bool(tree.missing_go_to_left[at])
    yes_child, no_child = tree.children_left[at], tree.children_right[at]
    if np.isinf(tree.threshold[at]):  # all known values on the left
        split = Split(feature.column, None, None, False)
    elif isinstance(column, NumberColumn):
        threshold = _threshold(column, feature.smallest, math.floor(tree.threshold[at]))
        split = Split(feature.column, threshold, None, left_missing)
    else:  # the indicator of the level is 1 on the right
        split = Split(feature.column, None, feature.level, not left_missing)
        yes_child, no_child = no_child, yes_child
    yes = split.test(column)
    return Branch(
        split,
        _converted(tree, yes_child, rows[yes], columns, groups, features),
        _converted(tree, no_child, rows[~yes], columns, groups, features),
        leaf.counts,
    )


def _threshold(here: NumberColumn, smallest: Floats, rank: int) -> float:
    """Return the roundest number between the values of the node's rows that a split above a rank separates."""
    edge = float(smallest[min(rank + 1, len(smallest) - 1)])  # the smallest value on the other side
    known = here.values[~here.missing]
    below, above = known[known < edge], known[known >= edge]
    low = float(below.max()) if len(below) else float(smallest[rank])
    high = float(above.min()) if len(above) else edge
    if here.type == "date":
        return _round_date(low, high)
    if here.type == "time":
        return max(low, math.floor((low + high) * 1800) / 3600)  # a whole second
    found = round_between(low, high, here.whole)
    slack = int(_SLACK * len(known))
    if _digits(found) <= _DIGITS or not 0 < slack < min(len(below), len(above)):
        return found
    wider = np.partition(below, -slack - 1)[-slack - 1], np.partition(above, slack)[slack]
    rounder = round_between(float(wider[0]), float(wider[1]), here.whole)
    return rounder if _digits(rounder) < _digits(found) else found


def _digits(value: float) -> int:
    """Return the number of significant digits."""
    return len(f"{value:.15e}".partition("e")[0].replace(".", "").lstrip("-").rstrip("0"))


def round_between(low: float, high: float, whole: bool = False) -> float:
    """Return a number with few digits, low <= t < high, near the middle.

    Examples
    --------
    >>> from knoll.explanation.tree import round_between
    >>> round_between(1180.37, 1262.9), round_between(5.0, 6.0, whole=True), round_between(0.1, 0.1000001)
    (1220.0, 5.0, 0.10000005)
    """
    if whole:
        low, high = math.floor(low), math.ceil(high)
        return float(low) if high - low <= 2 else _roundest(low + (high - low) / 4, high - (high - low) / 4, 0)
    width = high / 2 - low / 2
    if not width > 0:
        return low
    found = _roundest(low + width / 2, high - width / 2, None)
    return found if low <= found < high else low


def _roundest(low: float, high: float, least_exponent: int | None) -> float:
    """Return the multiple of the largest 1, 2 or 5 times a power of ten that lies between two numbers."""
    middle, exponent = low / 2 + high / 2, math.floor(math.log10(high - low)) if high > low else 0
    for power in (exponent + 1, exponent, exponent - 1):
        if least_exponent is not None and power < least_exponent:
            break
        for digit in (5, 2, 1):
            step = float(f"{digit}e{power}")  # 0 or infinite where float64 has no such number
            if not 0 < step < math.inf:
                continue
            found = float(f"{round(middle / step) * digit}e{power}")
            if low <= found <= high:
                return found
    return float(math.floor(middle)) if least_exponent is not None else middle


def _round_date(low: float, high: float) -> float:
    """Return the last moment before the first day of a year or month, or before a midnight, between two moments.

    Dates are split as ``x < t`` with low < t <= high, which is ``x <= t'`` for the last moment t' before t.
    """
    first, last = math.floor(low) + 1, math.floor(high)
    if first > last:  # on one day: a whole second between them, if there is one
        second = math.floor(high * 86400) / 86400
        return math.nextafter(second, -math.inf) if second > low else low
    quarter = (last - first) // 4
    for starts in (_years, _months, _days):
        for begin, end in ((first + quarter, last - quarter), (first, last)):
            good = [day for day in starts((begin + end) // 2) if begin <= day <= end]
            if good:
                return math.nextafter(float(good[0]), -math.inf)
    return math.nextafter(float(last), -math.inf)


_EPOCH = date(1970, 1, 1).toordinal()


def _years(day: int) -> list[int]:
    """Return the beginning of the year of a day, and of the next one."""
    year = date.fromordinal(_EPOCH + day).year
    return [date(one, 1, 1).toordinal() - _EPOCH for one in (year, min(year + 1, 9999))]


def _months(day: int) -> list[int]:
    here = date.fromordinal(_EPOCH + day)
    begin = here.replace(day=1).toordinal() - _EPOCH
    return [begin, begin + monthrange(here.year, here.month)[1]]


def _days(day: int) -> list[int]:
    return [day]


# ---- pruning ---------------------------------------------------------------------------------------------------------


def _pruned(node: Node, total: float) -> Node:
    """Remove splits that give hardly a row another group, from the bottom up."""
    while True:
        smaller = _prune_once(node, node, total)
        if smaller == node:
            return node
        node = smaller


def _prune_once(node: Node, root: Node, total: float) -> Node:
    if isinstance(node, Leaf):
        return node
    node = replace(node, yes=_prune_once(node.yes, root, total), no=_prune_once(node.no, root, total))
    below = [leaf for _, leaf in leaves_of(node)]
    leaf = Leaf(int(np.argmax(node.counts)), node.counts)
    right = sum(one.counts[one.group] for one in below)
    gain = (right - leaf.counts[leaf.group]) / (len(below) - 1)
    if gain >= _GAIN * total:
        return node
    needed = {one.group for one in below if one.counts[one.group] > 0} - {leaf.group}
    outside = [one for _, one in leaves_of(root)]
    only = {
        group
        for group in needed
        if sum(one.group == group for one in outside) <= sum(one.group == group for one in below)
    }
    return node if gain > 0 and only else leaf
