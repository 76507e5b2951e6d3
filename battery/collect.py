"""Answers of generated or given sets, with their figures and their real adjusted Rand index."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from battery.generator import Floats, Ints, Sample
from battery.peers import ari
from knoll.comparison.features import measure
from knoll.comparison.fitting import content_order, drawn_rows
from knoll.comparison.methods import propose_all
from knoll.comparison.pool import GRID, join_answers, numbers_for
from knoll.comparison.subsample import Subsample
from knoll.models import Preparation
from knoll.registry import compared

SUBSAMPLE = 2000


@dataclass(frozen=True)
class Collected:
    """The answers of one set."""

    recipe: str
    features: Floats  # (p, f)
    ari: Floats  # (p,) real, the best over the labelings
    clusters: Ints  # (p,)
    between: Floats  # (p, p) adjusted Rand index of each pair of answers
    names: tuple[str, ...]
    sources: tuple[str, ...]  # (p,)
    numbers: tuple[int, ...]  # of clusters in the reference labelings; empty: a set without clusters


def collect(
    sample: Sample,
    seed: int = 0,
    *,
    drop: float = 0.0,
    without: Sequence[str] = (),
    numbers: Sequence[int] | None = None,
    threads: int = 1,
) -> Collected:
    """Make the pool of a set, measure and score it.

    With the probability `drop` the pool is that of a random subset of the methods; the methods `without` are left out.
    """
    X = Preparation.fit(sample.X, list(map(str, range(sample.X.shape[1]))), scale="auto").apply(sample.X)
    order = content_order(X)
    rows = drawn_rows(order, SUBSAMPLE, seed)
    subsample = Subsample(np.ascontiguousarray(X[rows]), seed, threads)
    names = [name for name in compared() if name not in without]
    rng = np.random.default_rng([seed, 5, zlib.crc32(sample.recipe.encode())])
    if rng.random() < drop:
        kept = rng.choice(len(names), size=rng.integers(1, len(names)), replace=False)
        names = [name for i, name in enumerate(names) if i in kept]
    pool = join_answers(subsample, propose_all(subsample, numbers_for(subsample.n, numbers or GRID), names))
    features, columns = measure(subsample, pool)
    every = _nearest(X, rows)
    scores = [max(ari(y, p.labels[every]) for y in sample.labelings) for p in pool.partitions]
    if not sample.structured:
        scores = [1.0 if p.n_clusters == 1 else 0.0 for p in pool.partitions]
    return Collected(
        sample.recipe,
        features,
        np.array(scores),
        np.array([p.n_clusters for p in pool.partitions]),
        pool.ari,
        columns,
        tuple(p.source for p in pool.partitions),
        sample.numbers,
    )


def _nearest(X: Floats, rows: Ints) -> Ints:
    """Return for each row the position of the nearest row of the subsample."""
    out = np.empty(len(X), np.int64)
    out[rows] = np.arange(len(rows))
    left = np.setdiff1d(np.arange(len(X)), rows)
    for chunk in np.array_split(left, max(1, len(left) // 500)):
        if len(chunk):
            gaps = (X[rows] ** 2).sum(axis=1) - 2 * X[chunk] @ X[rows].T
            out[chunk] = np.argmin(gaps, axis=1)
    return out


def save(path: Path, one: Collected) -> None:
    """Write it as one file."""
    np.savez_compressed(
        path, kind=one.recipe, features=one.features.astype(np.float32), ari=one.ari, clusters=one.clusters,
        between=one.between.astype(np.float32), names=np.array(one.names), sources=np.array(one.sources),
        numbers=np.array(one.numbers, np.int64),
    )  # fmt: skip


def load(path: Path) -> Collected:
    """Read it again."""
    with np.load(path) as file:
        return Collected(
            str(file["kind"]), file["features"].astype(float), file["ari"], file["clusters"],
            file["between"].astype(float), tuple(file["names"].tolist()), tuple(file["sources"].tolist()),
            tuple(file["numbers"].tolist()),
        )  # fmt: skip
