"""The contingency of two labellings: n_ij rows have label i in the first and label j in the second.

Only cells that occur are kept: the cost is that of the rows, never of labels times labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll._typing import Ints
from knoll.exceptions import BadData, CostError, InvalidParameter
from knoll.metrics._labels import check_weights, factorise, is_noise, rank

NOISE_RULES = ("cluster", "drop", "singletons")
_MAX_CELLS = 10**8


@dataclass(frozen=True, eq=False)
class Contingency:
    """The cells of a contingency table that are not zero.

    Attributes
    ----------
    row_labels, col_labels : ndarray
        The labels of the first and of the second labelling, sorted where they have an order.
    rows, cols : ndarray of shape (n_cells,), int64
        Where each cell lies, sorted by row, then by column.
    counts : ndarray of shape (n_cells,), int64
        What it holds, at least 1.
    """

    row_labels: NDArray[Any]
    col_labels: NDArray[Any]
    rows: Ints
    cols: Ints
    counts: Ints

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of labels."""
        return len(self.row_labels), len(self.col_labels)

    @property
    def n(self) -> int:
        """The number of rows, counted with their weights."""
        return int(self.counts.sum())

    @property
    def row_sums(self) -> Ints:
        """The sizes of the clusters of the first labelling."""
        return _add_up(self.rows, self.counts, self.shape[0])

    @property
    def col_sums(self) -> Ints:
        """The sizes of the clusters of the second labelling."""
        return _add_up(self.cols, self.counts, self.shape[1])

    def to_array(self) -> Ints:
        """Return the table as a dense array of shape `shape`."""
        n_cells = self.shape[0] * self.shape[1]
        if n_cells > _MAX_CELLS:
            raise CostError(
                f"a dense table of {self.shape[0]} x {self.shape[1]} cells needs {8 * n_cells / 1e9:.1f} GB. "
                "Use to_sparse()."
            )
        table = np.zeros(self.shape, dtype=np.int64)
        table[self.rows, self.cols] = self.counts
        return table

    def to_sparse(self) -> Any:
        """Return the table as a :class:`scipy.sparse.csr_array`."""
        from scipy.sparse import csr_array

        return csr_array((self.counts, (self.rows, self.cols)), shape=self.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self.to_array().astype(dtype or np.int64, copy=False)


@dataclass(frozen=True, eq=False)
class Sizes:
    """How large the clusters of one labelling are: `times[i]` clusters of `size[i]` rows each."""

    size: Ints
    times: Ints

    @property
    def n_clusters(self) -> int:
        """The number of clusters."""
        return int(self.times.sum())


@dataclass(frozen=True, eq=False)
class Table:
    """All that the scores need: `times` cells of `count` rows in clusters of `row_size` and `col_size` rows.

    Equal singletons share an entry, so that a noise row of weight 10⁹ is one entry and not 10⁹ clusters.
    """

    n: int
    rows: Sizes
    cols: Sizes
    count: Ints
    times: Ints
    row_size: Ints
    col_size: Ints


@dataclass(frozen=True, eq=False)
class _Groups:
    """Rows with the same pair of labels, added up; `single_*` is the code of the noise rows, or -1."""

    row_labels: NDArray[Any]
    col_labels: NDArray[Any]
    rows: Ints
    cols: Ints
    counts: Ints
    single_row: int
    single_col: int


def contingency(
    labels_true: Any, labels_pred: Any, *, sample_weight: Any = None, noise: str = "cluster"
) -> Contingency:
    """Count how often each pair of labels occurs.

    Parameters
    ----------
    labels_true, labels_pred : array-like of shape (n,)
        Two labellings of the same rows: numbers, strings, booleans, pandas categoricals, hashable objects
        (tuples in a list).
    sample_weight : array-like of shape (n,), default=None
        Whole numbers: how often each row counts. 0 leaves it out.
    noise : {"cluster", "drop", "singletons"}, default="cluster"
        What the label -1 means: one more cluster; a row to leave out if it is noise in either labelling; or
        a cluster of its own for each such row (a row of weight w becomes w clusters).

    Returns
    -------
    Contingency
        Sparse; ``np.asarray`` or ``to_array()`` make it dense.

    Examples
    --------
    >>> from knoll.metrics import contingency
    >>> contingency(["a", "a", "b"], [1, 2, 2]).to_array()
    array([[1, 1],
           [0, 1]])
    """
    groups = _group(labels_true, labels_pred, sample_weight, noise)
    return _expand_singles(groups) if noise == "singletons" else Contingency(*_fields(groups))


def contingency_matrix(
    labels_true: Any,
    labels_pred: Any,
    *,
    eps: float | None = None,
    sparse: bool = False,
    dtype: Any = np.int64,
    sample_weight: Any = None,
    noise: str = "cluster",
) -> Any:
    """Return the contingency table as an array, as scikit-learn's function of this name does.

    Parameters
    ----------
    labels_true, labels_pred : array-like of shape (n,)
        Two labellings of the same rows.
    eps : float, default=None
        A number to add to every count; then the entries are floats. Not for a sparse matrix.
    sparse : bool, default=False
        Return a sparse matrix in CSR format.
    dtype : dtype, default=numpy.int64
        The type of the entries where `eps` is None.
    sample_weight : array-like of shape (n,), default=None
        Whole numbers: how often each row counts. 0 leaves it out.
    noise : {"cluster", "drop", "singletons"}, default="cluster"
        What the label -1 means, see :func:`contingency`.

    Returns
    -------
    ndarray or scipy.sparse.csr_matrix of shape (n_labels_true, n_labels_pred)
        How often each pair of labels occurs.

    See Also
    --------
    contingency : The same with the labels of rows and columns.

    Examples
    --------
    >>> from knoll.metrics import contingency_matrix
    >>> contingency_matrix([0, 0, 1, 1], [1, 0, 1, 0])
    array([[1, 1],
           [1, 1]])
    """
    if eps is not None and sparse:
        raise InvalidParameter("eps cannot be added to a sparse matrix: no entry would be 0. Give one of the two.")
    table = contingency(labels_true, labels_pred, sample_weight=sample_weight, noise=noise)
    if sparse:
        from scipy.sparse import csr_matrix

        return csr_matrix(table.to_sparse()).astype(dtype)
    return table.to_array().astype(dtype) if eps is None else table.to_array() + eps


def check_noise(noise: Any) -> None:
    """Refuse what is no rule for noise."""
    if not isinstance(noise, str) or noise not in NOISE_RULES:
        raise InvalidParameter(f"noise must be one of {', '.join(map(repr, NOISE_RULES))}, got {noise!r}.")


def tabulate(labels_true: Any, labels_pred: Any, sample_weight: Any, noise: str) -> Table:
    """Return what the scores need to know about two labellings."""
    groups = _group(labels_true, labels_pred, sample_weight, noise)
    rows, row_size = _sizes(groups.rows, groups.counts, len(groups.row_labels), groups.single_row)
    cols, col_size = _sizes(groups.cols, groups.counts, len(groups.col_labels), groups.single_col)
    single = (groups.rows == groups.single_row) | (groups.cols == groups.single_col)
    return Table(
        n=int(groups.counts.sum()),
        rows=rows,
        cols=cols,
        count=np.where(single, 1, groups.counts),
        times=np.where(single, groups.counts, 1),
        row_size=row_size[groups.rows],
        col_size=col_size[groups.cols],
    )


def _group(labels_true: Any, labels_pred: Any, sample_weight: Any, noise: str) -> _Groups:
    check_noise(noise)
    row_labels, i = factorise(labels_true, "labels_true")
    if labels_pred is labels_true:
        col_labels, j = row_labels, i
    else:
        col_labels, j = factorise(labels_pred, "labels_pred")
    if len(i) != len(j):
        raise BadData(f"labels_true has {len(i)} rows and labels_pred {len(j)}. Both must label the same rows.")
    weights = None if sample_weight is None else check_weights(sample_weight, len(i))
    noise_row, noise_col = is_noise(row_labels), is_noise(col_labels)

    keep = None if weights is None else weights > 0
    if noise == "drop":
        kept = ~(noise_row[i] | noise_col[j])
        keep = kept if keep is None else keep & kept
    if keep is not None and not keep.all():
        if not keep.any():
            why = "noise is 'drop' and every row is noise" if noise == "drop" else "every sample_weight is 0"
            raise BadData(f"no rows are left to compare: {why}. A score needs at least one row.")
        i, j = i[keep], j[keep]
        weights = None if weights is None else weights[keep]
        (used_rows, i), (used_cols, j) = rank(i), rank(j)
        row_labels, noise_row = row_labels[used_rows], noise_row[used_rows]
        col_labels, noise_col = col_labels[used_cols], noise_col[used_cols]

    cells, counts = _count(i * len(col_labels) + j, weights)
    rows, cols = np.divmod(cells, len(col_labels))
    apart = noise == "singletons"
    return _Groups(
        row_labels=row_labels,
        col_labels=col_labels,
        rows=rows,
        cols=cols,
        counts=counts,
        single_row=int(np.argmax(noise_row)) if apart and noise_row.any() else -1,
        single_col=int(np.argmax(noise_col)) if apart and noise_col.any() else -1,
    )


def _count(keys: Ints, weights: Ints | None) -> tuple[Ints, Ints]:
    """Return the sorted distinct keys, and how often each occurs."""
    if weights is not None:
        distinct, index = rank(keys)
        return distinct, _add_up(index, weights, len(distinct))
    if int(keys.max()) <= 4 * len(keys) + 1024:
        counts = np.bincount(keys)
        distinct = np.flatnonzero(counts)
        return distinct, counts[distinct]
    ordered = np.sort(keys)
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    return ordered[first], np.diff(first, append=len(keys))


def _add_up(index: Ints, weights: Ints, n: int) -> Ints:
    """Return the exact int64 sums of the weights of each index (bincount would add them as floats)."""
    if int(weights.sum()) < 2**53:
        return np.bincount(index, weights=weights, minlength=n).astype(np.int64)
    sums = np.zeros(n, dtype=np.int64)
    np.add.at(sums, index, weights)
    return sums


def _sizes(codes: Ints, counts: Ints, k: int, single: int) -> tuple[Sizes, Ints]:
    """Return the sizes with their multiplicities, and the size of the cluster behind each code."""
    size, times = _add_up(codes, counts, k), np.ones(k, dtype=np.int64)
    if single >= 0:
        times[single], size[single] = size[single], 1
    return Sizes(size, times), size


def _fields(groups: _Groups) -> tuple[NDArray[Any], NDArray[Any], Ints, Ints, Ints]:
    return groups.row_labels, groups.col_labels, groups.rows, groups.cols, groups.counts


def _expand_singles(groups: _Groups) -> Contingency:
    """Write out one cluster for each noise row, after the others."""
    row_labels, col_labels, rows, cols, counts = _fields(groups)
    single = (rows == groups.single_row) | (cols == groups.single_col)
    n_single = int(counts[single].sum())
    if n_single > _MAX_CELLS:
        raise CostError(
            f"{n_single} noise rows would become as many clusters. The scores can do that; for a table use "
            "noise='cluster' or 'drop'."
        )
    repeats = np.where(single, counts, 1)
    rows, cols, counts = np.repeat(rows, repeats), np.repeat(cols, repeats), np.repeat(counts, repeats)
    counts[np.repeat(single, repeats)] = 1
    row_labels, rows = _renumber(row_labels, rows, groups.single_row)
    col_labels, cols = _renumber(col_labels, cols, groups.single_col)
    order = np.lexsort((cols, rows))
    return Contingency(row_labels, col_labels, rows[order], cols[order], counts[order])


def _renumber(labels: NDArray[Any], codes: Ints, single: int) -> tuple[NDArray[Any], Ints]:
    if single < 0:
        return labels, codes
    k = len(labels) - 1
    alone = codes == single
    new = codes - (codes > single)
    new[alone] = k + np.arange(int(alone.sum()))
    return np.concatenate([np.delete(labels, single), np.repeat(labels[[single]], int(alone.sum()))]), new
