"""Equal rows: distinct rows with their counts, so that pairs are computed once, and digests of rows by content.

Where many rows repeat (whole numbers, categories, rounded values), a pair of distinct rows stands for (n/m)² pairs of
rows, and a tree cannot separate equal rows. So equal rows are merged first, and their count is a weight
(docs/decisions/0020-unique-rows.md).

Random choices need an order that the contents decide: `seeding.multiset`, by the same function of the core. Two places
order rows by other means: `hierarchy.merges.SortedRows` by coordinates, by which ties are broken, and
`sample.SampledRows` by hashes that blocks on other machines agree upon.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from knoll import _core
from knoll._common.sparse import is_sparse
from knoll._typing import Floats, Ints, Labels

_FEWEST = 16384  # rows: the pairs of fewer are done in a fraction of a second, equal or not
_SAMPLE = 1024  # rows that are compared, to decide whether merging pays
_REPEATED = 4  # of them that equal another one: then a row of n has about n/2¹⁷ equals or more
_ADDENDS = 40  # float64 numbers that add up to any exact sum of float64


@dataclass(frozen=True)
class UniqueRows:
    """The distinct rows, in the order of their first appearance; the fields are those of `np.unique`."""

    index: Ints  # (m,) the first row that equals each distinct row
    inverse: Ints  # (n,) the distinct row that each row equals
    counts: Floats  # (m,) how many rows equal each

    def sum_weights(self, weights: Floats | None, threads: int = 1) -> tuple[Ints, Floats]:
        """Return rows of X, `index` first, and weights whose sum over equal rows is that of the originals, exactly.

        A sum that float64 cannot hold is written as several addends, each with a copy of its row. Some of them may be
        negative.
        """
        if weights is None:
            return self.index, self.counts
        m = len(self.index)
        labels = self.inverse.astype(np.int32)
        sums = np.zeros((_core.SUM_WORDS, 2 * m), dtype=np.int64)
        _core.add_cluster_sums(weights[:, None], None, labels, sums, threads)
        rows: list[Ints] = []
        addends: list[Floats] = []
        every = np.arange(m, dtype=np.int32)
        for _ in range(_ADDENDS):
            rounded = np.empty(2 * m)
            _core.exact_round(sums, rounded, threads)
            addend = rounded[1::2].copy()
            nonzero = np.flatnonzero(addend) if addends else every
            if not len(nonzero):
                break
            rows.append(self.index[nonzero])
            addends.append(addend[nonzero])
            _core.add_cluster_sums(-addend[:, None], None, every, sums, threads)
        return np.concatenate(rows), np.concatenate(addends)


def find_unique_rows(points: NDArray[Any], threads: int = 1) -> UniqueRows:
    """Number the distinct rows by first appearance; 0 and −0 are equal."""
    n = len(points)
    index, counts, inverse = np.empty(n, dtype=np.int64), np.empty(n), np.empty(n, dtype=np.int64)
    m = _core.unique_rows(points, None, index, counts, inverse, threads)
    return UniqueRows(index[:m].copy(), inverse, counts[:m].copy())


def merge_equal_rows(points: NDArray[Any], threads: int = 1) -> UniqueRows | None:
    """Return the distinct rows if many rows repeat; None where few do, judged by a sample of rows."""
    n = len(points)
    if n < _FEWEST:
        return None
    drawn = np.unique(np.random.default_rng(0).integers(n, size=min(_SAMPLE, n // 64)))
    sample = np.ascontiguousarray(points[drawn]) + 0.0  # no −0
    lines = sample.view(np.dtype((np.void, sample.itemsize * sample.shape[1])))
    if len(drawn) - len(np.unique(lines)) < _REPEATED:
        return None
    return find_unique_rows(points, threads)


# ---- digests: rows and graphs recognised by their contents ---------------------------------------------------------


def row_digests(rows: Any) -> NDArray[np.uint64]:
    """Hash the contents of each row, (n,): equal rows have equal digests, whether zeros are stored or not."""
    if is_sparse(rows):
        table: Any = scipy.sparse.csr_array(rows, dtype=np.float64, copy=True)
        table.sum_duplicates()
        table.eliminate_zeros()
        bounds = zip(table.indptr[:-1], table.indptr[1:], strict=True)
        entries = ((table.indices[a:b], table.data[a:b]) for a, b in bounds)
    else:
        entries = ((at := np.flatnonzero(row), np.asarray(row[at], dtype=np.float64)) for row in rows)
    contents = (columns.astype(np.int64).tobytes() + values.tobytes() for columns, values in entries)
    digests = [hashlib.blake2b(content, digest_size=8).digest() for content in contents]
    return np.frombuffer(b"".join(digests), dtype=np.uint64).copy()


def equal_rows(rows: Any) -> Ints:
    """Number the distinct rows by first appearance and return the number of each row, (n,); sparse rows too."""
    if isinstance(rows, np.ndarray):
        return find_unique_rows(np.asarray(rows, dtype=np.float64)).inverse
    _, first, inverse = np.unique(row_digests(rows), return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse.ravel()]


def labels_by_digest(queries: Any, digests: Any, labels: Labels) -> Labels:
    """Return the label of each query that equals a row of the fit, known by `row_digests`; −1 for the others."""
    known = dict(zip(digests.tolist(), labels.tolist(), strict=True))
    return np.array([known.get(digest, -1) for digest in row_digests(queries).tolist()], dtype=np.int32)


def graph_digest(graph: Any) -> str:
    """Hash the contents of a sparse graph; "" for a dense matrix."""
    if isinstance(graph, np.ndarray):
        return ""
    arrays = (graph.indptr.astype(np.int64), graph.indices.astype(np.int64), graph.data)
    return hashlib.blake2b(b"".join(array.tobytes() for array in arrays), digest_size=16).hexdigest()
