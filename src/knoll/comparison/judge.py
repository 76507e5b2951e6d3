"""The judge: the adjusted Rand index that an answer would have with the true clusters, predicted from its figures.

Sums of trees were trained on generated tables with known clusters (`make judge`): one predicts the index itself,
another how near the answer is to the best of its table. Answers are ranked by their mean. A third predicts the index of
answers with about the true number of clusters; it ranks them if the number is given. A monotone curve, from
tables that were not trained on, turns the first into a probability-like confidence. The tables never saw real data.
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

from knoll._typing import Floats, Ints
from knoll.comparison.boosting import Boosted, encode
from knoll.comparison.features import measure
from knoll.comparison.pool import Pool
from knoll.comparison.subsample import Subsample

__all__ = ["Judge", "Judgement", "rank", "ranked", "shortlist", "the_judge"]

_GRAIN = 1e-3  # scores that differ by less are equal: rounding must not decide
_LEAST = 5  # rows of a cluster
_NEAR, _SAME = 0.05, 0.9  # scores, and the adjusted Rand index of answers, that are about equal
_ALIKE = 0.75  # adjusted Rand index below which two answers differ


@dataclass(frozen=True)
class Judgement:
    """The answers of a pool with their figures and scores."""

    pool: Pool
    figures: Floats  # (p, f)
    score: Floats  # (p,) by which they are ranked
    of_number: Floats  # (p,) by which they are ranked if the number of clusters is given
    expected: Floats  # (p,) the adjusted Rand index with the true clusters, calibrated
    one: float  # the score that an answer needs for the verdict that there are clusters


@dataclass(frozen=True)
class Judge:
    """Three sums of trees, the curve of the confidence and the threshold of the verdict."""

    names: tuple[str, ...]  # (f) the figures
    thresholds: Floats  # (f, t)
    index: Boosted
    nearness: Boosted
    of_number: Boosted  # the index again, of answers with about the true number of clusters
    curve: Floats  # (2, c) predicted and real index
    none_lead: float  # of the score of one cluster over that of the answer: more means that there are no clusters

    def judge(self, subsample: Subsample, pool: Pool) -> Judgement:
        """Measure and score the answers."""
        figures, names = measure(subsample, pool)
        assert names == self.names
        score, index = self.scores(figures)
        of_number = self.score_of_number(figures)
        return Judgement(pool, figures, score, of_number, self.confidence(index), float(score[0]) - self.none_lead)

    def scores(self, figures: Floats) -> tuple[Floats, Floats]:
        """Return the scores of rows of figures, by which answers are ranked, and the index, not calibrated."""
        codes = encode(figures, self.thresholds)
        index = self.index.predict(codes)
        return (index + self.nearness.predict(codes)) / 2, index

    def score_of_number(self, figures: Floats) -> Floats:
        """Return the scores of rows of figures, by which answers with a number of clusters that is given are ranked."""
        return self.of_number.predict(encode(figures, self.thresholds))

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
        own["none_lead"] = np.array(self.none_lead)
        trees = {"index": self.index, "nearness": self.nearness, "of_number": self.of_number}
        return own | {key: array for name, one in trees.items() for key, array in one.arrays(name).items()}

    @classmethod
    def from_tables(cls, tables: Mapping[str, Any]) -> Self:
        """Make the judge of what `save` wrote."""
        return cls(
            tuple(str(name) for name in tables["names"]),
            tables["thresholds"],
            Boosted.from_arrays(tables, "index"),
            Boosted.from_arrays(tables, "nearness"),
            Boosted.from_arrays(tables, "of_number"),
            tables["curve"],
            float(tables["none_lead"]),
        )


@cache
def the_judge() -> Judge:
    """Return the judge that comes with knoll, read once."""
    with resources.files("knoll.comparison").joinpath("judge.npz").open("rb") as file, np.load(file) as tables:
        return Judge.from_tables(tables)


def ranked(judged: Judgement, allowed: Sequence[int] | None = None) -> Ints:
    """Order the answers, the best first; with `allowed`, those with other numbers of clusters are left out.

    The order is that of `rank`; near ties of one number of clusters go to the answer that most kinds of method found.
    """
    pool = judged.pool
    score = judged.of_number if allowed is not None and len(allowed) == 1 else judged.score
    order = rank(score, pool.n_clusters, pool.least_sizes, pool.ari, pool.labels.shape[1], allowed)
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
    tiny = least[at] < min(_LEAST, rows // 20)
    order = at[np.lexsort((at, k[at], -np.round(score[at] / _GRAIN), tiny))]
    if not len(order):
        return order
    best, usable = order[0], order[: int((~tiny).sum())] if not tiny.all() else order
    near = usable[(score[usable] >= score[best] - _NEAR) & (ari[best, usable] >= _SAME)]
    first = near[np.argmin(k[near])]
    return np.concatenate([[first], order[order != first]])


def shortlist(ari: Floats, order: Sequence[int], count: int) -> list[int]:
    """Return the first answers of an order that differ from each other."""
    chosen: list[int] = []
    for at in order:
        if len(chosen) == count:
            break
        if all(ari[at, other] < _ALIKE for other in chosen):
            chosen.append(at)
    return chosen
