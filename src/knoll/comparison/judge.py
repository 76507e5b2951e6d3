"""The judge: the adjusted Rand index that an answer would have with the true clusters, predicted from its figures.

Two sums of trees were trained on generated tables with known clusters (`make judge`). One predicts the index itself,
the other was trained to put the best answers of each table first. Answers are ranked by the mean of the first and a
tenth of the second. A monotone curve, from tables that were not trained on, turns the predicted index into the
confidence. The trees never saw real data.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Self

import numpy as np

from knoll._typing import Bools, Floats, Ints
from knoll.comparison.boosting import Boosted, encode
from knoll.comparison.features import measure
from knoll.comparison.pool import Pool
from knoll.comparison.subsample import Subsample

__all__ = ["GRAIN", "Judge", "Judgement", "beside", "rank", "ranked", "shortlist", "the_judge", "tiny"]

_ORDER = 0.1  # weight of the order beside the index
GRAIN = 1e-3  # scores that differ by less are equal: rounding must not decide
_LEAST = 5  # rows of a cluster
_NEAR, _SAME = 0.05, 0.9  # scores, and the adjusted Rand index of answers, that are about equal
_ALIKE = 0.75  # adjusted Rand index below which two answers differ


@dataclass(frozen=True)
class Judgement:
    """The answers of a pool with their figures and scores."""

    pool: Pool
    figures: Floats  # (p, f)
    score: Floats  # (p,) by which they are ranked
    expected: Floats  # (p,) the adjusted Rand index with the true clusters, calibrated
    none_below: float  # the score below which the verdict is that there are no clusters
    clusters_from: float  # the score from which it is that there are; between them it is open
    allowed: tuple[int, ...] | None = None  # the numbers of clusters that were requested

    @property
    def tiny(self) -> Bools:
        """(p,) whether an answer has a cluster of so few rows that the answer comes last."""
        return tiny(self.pool.least_sizes, self.pool.labels.shape[1])


@dataclass(frozen=True)
class Judge:
    """Two sums of trees, the curve of the confidence and the thresholds of the verdict."""

    names: tuple[str, ...]  # (f) the figures
    thresholds: Floats  # (f, t)
    index: Boosted
    order: Boosted
    curve: Floats  # (2, c) predicted and real index
    none_lead: float  # of the score of one cluster over that of the answer: more means that there are no clusters
    clear_lead: float  # less means that there are clusters; between them the verdict is open

    def judge(self, subsample: Subsample, pool: Pool) -> Judgement:
        """Measure and score the answers."""
        figures, names = measure(subsample, pool)
        assert names == self.names
        score, index = self.scores(figures)
        one = float(score[0])
        confidence = self.confidence(index)
        return Judgement(pool, figures, score, confidence, one - self.none_lead, one - self.clear_lead)

    def scores(self, figures: Floats) -> tuple[Floats, Floats]:
        """Return the scores of rows of figures, by which answers are ranked, and the index, not calibrated."""
        codes = encode(figures, self.thresholds)
        index = self.index.predict(codes)
        return (index + _ORDER * self.order.predict(codes)) / 2, index

    def confidence(self, index: Floats) -> Floats:
        """Return the real index that answers with such predictions have on average."""
        return np.asarray(np.interp(index, *self.curve))

    def save(self, path: Path) -> None:
        """Write the tables."""
        np.savez_compressed(path, **self._tables())

    def digest(self) -> str:
        """Return the SHA-256 of the tables; the file itself has the time at which it was written."""
        found = hashlib.sha256()
        for name, table in sorted(self._tables().items()):
            found.update(name.encode() + str(table.dtype).encode() + np.ascontiguousarray(table).tobytes())
        return found.hexdigest()

    def _tables(self) -> dict[str, Any]:
        own = {"names": np.array(self.names), "thresholds": self.thresholds, "curve": self.curve}
        own |= {"none_lead": np.array(self.none_lead), "clear_lead": np.array(self.clear_lead)}
        trees = {"index": self.index, "order": self.order}
        return own | {key: array for name, one in trees.items() for key, array in one.arrays(name).items()}

    @classmethod
    def from_tables(cls, tables: Mapping[str, Any]) -> Self:
        """Make the judge of what `save` wrote."""
        return cls(
            tuple(str(name) for name in tables["names"]),
            tables["thresholds"],
            Boosted.from_arrays(tables, "index"),
            Boosted.from_arrays(tables, "order"),
            tables["curve"],
            float(tables["none_lead"]),
            float(tables["clear_lead"]),
        )


@cache
def the_judge() -> Judge:
    """Return the judge that comes with knoll, read once."""
    with resources.files("knoll.comparison").joinpath("judge.npz").open("rb") as file, np.load(file) as tables:
        return Judge.from_tables(tables)


def ranked(judged: Judgement) -> Ints:
    """Order the answers, the best first: those with a number of clusters that was requested, if there are any.

    The order is that of `rank`; near ties of one number of clusters go to the answer that most kinds of method found.
    """
    pool, score = judged.pool, judged.score
    rows = pool.labels.shape[1]
    order = rank(score, pool.n_clusters, pool.least_sizes, pool.ari, rows, judged.allowed)
    if not len(order):
        order = rank(score, pool.n_clusters, pool.least_sizes, pool.ari, rows)
    return _most_found(order, score, pool)


def _most_found(order: Ints, score: Floats, pool: Pool) -> Ints:
    """Of the answers about as good and about the same as the first, with its number, put the most found one first."""
    if not len(order):
        return order
    found = np.array([len({one.source for one in members}) for members in pool.members])
    k, first = pool.n_clusters, order[0]
    near = order[(k[order] == k[first]) & (score[order] >= score[first] - _NEAR) & (pool.ari[first, order] >= _SAME)]
    best = near[np.argmax(found[near])]
    return np.concatenate([[best], order[order != best]])


def rank(score: Floats, k: Ints, least: Ints, ari: Floats, rows: int, allowed: Sequence[int] | None = None) -> Ints:
    """Order answers by score, number of clusters, least size of a cluster, and agreement with each other.

    Answers with a cluster of fewer than five rows, or of 5 % of the rows of a smaller table, come last. Of answers that
    are about as good as the best (to 0.05) and about the same as it (adjusted Rand index of at least 0.9), the one with
    the fewest clusters is first. Otherwise scores decide, to a thousandth; then fewer clusters; then the earlier.
    """
    at = np.flatnonzero(k > 1 if allowed is None else np.isin(k, list(allowed)))
    last = tiny(least[at], rows)
    order = at[np.lexsort((at, k[at], -np.round(score[at] / GRAIN), last))]
    if not len(order):
        return order
    best, usable = order[0], order[: int((~last).sum())] if not last.all() else order
    near = usable[(score[usable] >= score[best] - _NEAR) & (ari[best, usable] >= _SAME)]
    first = near[np.argmin(k[near])]
    return np.concatenate([[first], order[order != first]])


def beside(expected: Floats, ari: Floats, first: int) -> Floats:
    """Return the expected indices of all answers once one of them is ranked first.

    The curve of the confidence comes from first answers, so it promises too much of others. If the first answer is
    right, the index of another is its agreement with the first; the confidence is the weight of that case.
    """
    own = expected[first]
    return np.asarray(np.minimum(own, own * ari[first] + (1 - own) * expected))


def tiny(least: Ints, rows: int) -> Bools:
    """Whether the smallest cluster of an answer has fewer than five rows, or than 5 % of those of a smaller table."""
    return np.asarray(least < min(_LEAST, rows // 20))


def shortlist(ari: Floats, order: Sequence[int], count: int) -> list[int]:
    """Return the first answers of an order that differ from each other."""
    chosen: list[int] = []
    for at in order:
        if len(chosen) == count:
            break
        if all(ari[at, other] < _ALIKE for other in chosen):
            chosen.append(at)
    return chosen
