"""Where EM of a mixed mixture starts: labels of k-means on numbers and indicators, rows of the data, or chance."""

from __future__ import annotations

import numpy as np

from knoll._common import seeding
from knoll._typing import Bools, Codes, Floats, Ints
from knoll.kmeans import lloyd

__all__ = ["indicator_rows", "initial_shares", "sample_rows"]

SAMPLE = 5_000  # rows from which a start is made
_START, _SHUFFLE = 3, 5  # purposes of random numbers, numbered as in the core


# ---- starts --------------------------------------------------------------------------------------------------------


def sample_rows(n: int, seed: int) -> Ints:
    """Return the numbers of at most SAMPLE of n rows, in order."""
    if n <= SAMPLE:
        return np.arange(n)
    ranks = np.random.Generator(np.random.Philox(key=[seed, _SHUFFLE])).random(n)
    return np.sort(np.argpartition(ranks, SAMPLE - 1)[:SAMPLE])


def indicator_rows(y: Floats, observed: Bools, codes: Codes, offsets: Ints) -> Floats:
    """Return rows for k-means: numbers over their deviation, and an indicator for each level over √2.

    Two rows that differ in a category are then 1 apart, squared. A missing value takes the mean of its column, so that
    it moves a row neither way; the model itself integrates over it.
    """
    levels = int(offsets[-1])
    counts = np.maximum(observed.sum(axis=0), 1)
    deviations = np.sqrt(np.square(y).sum(axis=0) / counts)
    wide = np.zeros((len(y), max(y.shape[1] + levels, 1)))  # a table without a value has one column of zeros
    wide[:, : y.shape[1]] = y / np.where(deviations > 0, deviations, 1.0)
    for j in range(codes.shape[1]):
        block = wide[:, y.shape[1] + offsets[j] : y.shape[1] + offsets[j + 1]]
        here = codes[:, j] < levels
        block[np.flatnonzero(here), codes[here, j] - offsets[j]] = np.sqrt(0.5)
        if here.any():
            block[~here] = block[here].mean(axis=0)
    return wide


def initial_shares(
    name: str, wide: Floats, weights: Floats | None, k: int, seed: int, restart: int, threads: int
) -> Floats:
    """Return the responsibilities (n, k) of a start by name."""
    n = len(wide)
    if name == "random":
        generator = np.random.Generator(np.random.Philox(key=[seed, _START], counter=[0, 0, 0, restart]))
        shares = generator.random((n, k))
        return shares / shares.sum(axis=1, keepdims=True)
    distinct = seeding.multiset(wide, weights, threads)
    if name == "random_from_data":
        chosen = seeding.random_rows(distinct, k, seed, restart=restart)
    else:
        chosen = seeding.kmeans_plus_plus(wide, distinct, k, seed, restart=restart, threads=threads)
    found = lloyd.lloyd(wide, weights, wide[chosen], max_iter=300 if name == "kmeans" else 1, threads=threads)
    assert found.labels is not None
    return (found.labels[:, None] == np.arange(k)).astype(np.float64)
