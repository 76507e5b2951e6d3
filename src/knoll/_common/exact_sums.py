"""Exact sums that can be sent: m wide integers, of which only the words in use are merged, pickled and read.

A sum is Σᵢ words[i]·2^(32i − 1074) (docs/numerics/sums.md), so an array of them is (SUM_WORDS, m), 560 bytes a sum.
Sums of ordinary numbers use four to six words. The others are zero, or were never written: a kernel that reports the
words it used gets memory that is not initialised. So what is sent, or kept for a later merge, is the words in use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from knoll import _core
from knoll._typing import Floats, Ints

__all__ = ["ExactSums", "from_wire"]

_LIMIT = 1 << 60  # words below this may be added once more without a carry (docs/numerics/sums.md, S3)
_ONE = 1074 // 32, 1074 % 32  # the word of 2⁰, and its bit in there
_MOST_COUNT = 1 << 40  # a count below this, shifted by that bit, stays far below the limit


@dataclass(frozen=True, eq=False)
class ExactSums:
    """m exact sums. Words outside of `used` count as zero, whatever is in them."""

    words: Ints  # (SUM_WORDS, m)
    used: Ints  # (2,) from, to

    @classmethod
    def zeros(cls, m: int) -> Self:
        """Make m sums that nothing was added to."""
        return cls(np.zeros((_core.SUM_WORDS, m), dtype=np.int64), np.array([0, _core.SUM_WORDS]))

    @classmethod
    def of_words(cls, words: Ints) -> Self:
        """Copy the words in use, (SUM_WORDS, m), of sums that go on changing."""
        numbers = np.flatnonzero(words.any(axis=1))
        return cls._of_planes(numbers, words[numbers])

    @classmethod
    def workspace(cls, m: int) -> Self:
        """Make memory for m sums of a kernel that writes the words it uses, and which those are."""
        return cls(np.empty((_core.SUM_WORDS, m), dtype=np.int64), np.zeros(2, dtype=np.int64))

    @classmethod
    def of_counts(cls, counts: Ints) -> Self:
        """Make sums that are whole numbers, 0 ≤ count < 2⁴⁰."""
        assert counts.max(initial=0) < _MOST_COUNT
        word, bit = _ONE
        return cls._of_planes(np.array([word]), counts[None] << bit)

    @classmethod
    def of_groups(cls, values: Floats, group: Ints, m: int, threads: int = 1) -> ExactSums:
        """Add up the values (n,) of each of m groups; `group` (n,) has the group of each value."""
        both = cls.zeros(2 * m)
        _core.add_cluster_sums(values[:, None], None, group.astype(np.int32), both.words, threads)
        return both.take(np.arange(1, 2 * m, 2))

    def __len__(self) -> int:
        """Return how many sums there are."""
        return self.words.shape[1]

    def merge(self, other: ExactSums, threads: int = 1) -> ExactSums:
        """Add two arrays of sums; neither is changed."""
        first = min(int(self.used[0]), int(other.used[0]))
        last = max(int(self.used[1]), int(other.used[1]))
        (here, mine), (there, theirs) = self._planes(), other._planes()
        if _has_grown(mine) or _has_grown(theirs):  # the core carries
            total = ExactSums(self.whole(copy=True), np.array([0, _core.SUM_WORDS]))
            _core.exact_merge(total.words, other.whole(), threads)
            return total
        total = ExactSums(np.empty_like(self.words), np.array([first, last]))
        total.words[first:last] = 0
        total.words[here] += mine
        total.words[there] += theirs
        return total

    def take(self, columns: Ints) -> ExactSums:
        """Return some of the sums."""
        numbers, planes = self._planes()
        return self._of_planes(numbers, planes[:, columns])

    def join(self, other: ExactSums, group: Ints, m: int) -> ExactSums:
        """Concatenate with other sums and add up those of each of m groups, at most two a group."""
        numbers = np.union1d(self._planes()[0], other._planes()[0])
        planes = np.concatenate([each.whole()[numbers] for each in (self, other)], axis=1)
        size = len(self)
        assert planes.shape[1] == len(group)
        sums = []
        for columns in (slice(0, size), slice(size, None)):
            plane = np.zeros((len(numbers), m), dtype=np.int64)
            plane[:, group[columns]] = planes[:, columns]
            sums.append(self._of_planes(numbers, plane))
        return sums[0].merge(sums[1])

    def whole(self, copy: bool = False) -> Ints:
        """Return all words, (SUM_WORDS, m), zero where none are in use."""
        first, last = self.used.tolist()
        if (first, last) == (0, _core.SUM_WORDS):
            return self.words.copy() if copy else self.words
        words = np.zeros_like(self.words)
        words[first:last] = self.words[first:last]
        return words

    def round(self, threads: int = 1, low: Floats | None = None) -> Floats:
        """Round each sum once, (m,); write into `low`, if set, what that leaves, rounded likewise."""
        rounded = np.empty(len(self))
        _core.exact_round(self.whole(), rounded, threads, low)
        return rounded

    # ---- on the wire -----------------------------------------------------------------------------------------------

    def to_wire(self) -> tuple[NDArray[np.uint8], Ints]:
        """Return the numbers of the words in use, (p,), and those words, (p, m)."""
        numbers, planes = self._planes()
        return numbers.astype(np.uint8), np.ascontiguousarray(planes)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the words in use and no others, which may be memory of something else."""
        return from_wire, self.to_wire()

    @classmethod
    def _of_planes(cls, numbers: Ints, planes: Ints) -> Self:
        first, last = (int(numbers[0]), int(numbers[-1]) + 1) if len(numbers) else (0, 0)
        words = np.empty((_core.SUM_WORDS, planes.shape[1]), dtype=np.int64)
        words[first:last] = 0
        words[numbers] = planes
        return cls(words, np.array([first, last]))

    def _planes(self) -> tuple[Ints, Ints]:
        """Return the numbers of the words that are not zero in all sums, and those words."""
        first, last = self.used.tolist()
        numbers = first + np.flatnonzero(self.words[first:last].any(axis=1))
        return numbers, self.words[numbers]


def from_wire(numbers: NDArray[np.uint8], planes: Ints) -> ExactSums:
    """Make the sums of what `to_wire` returned."""
    return ExactSums._of_planes(numbers.astype(np.int64), planes)


def _has_grown(planes: Ints) -> bool:
    return bool(planes.size) and (int(planes.max()) >= _LIMIT or int(planes.min()) < -_LIMIT)
