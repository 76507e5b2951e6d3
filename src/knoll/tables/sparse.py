"""Sparse matrices: SciPy's .npz, Matrix Market (.mtx), and X of AnnData (.h5ad).

The matrix stays sparse for methods that take sparse rows; other readers get dense slices of it.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from knoll._format import listed
from knoll.exceptions import BadData
from knoll.tables.columns import array_column, check_distinct
from knoll.tables.formats import READABLE
from knoll.tables.input import Input
from knoll.tables.limits import check_unpacked, check_width
from knoll.tables.source import Request, TableSource, in_memory

__all__ = ["open_hdf5", "open_matrix_market", "open_sparse_npz"]

_HEAD = 100  # rows
_ENTRY = 16  # bytes of an entry of a sparse matrix: its value and its column
_NUMBER = 8  # bytes
_ROWS = "obs_names"  # of AnnData


def open_sparse_npz(data: Input) -> TableSource:
    """Open what `scipy.sparse.save_npz` wrote, whose size has been checked; its shape may be any."""
    import scipy.sparse

    content = data.random_access().read()
    matrix = scipy.sparse.load_npz(io.BytesIO(content))
    check_width(matrix.shape[1], data.name)
    check_unpacked(_NUMBER * matrix.shape[0], len(content), data.name)
    return _source(matrix, _numbered(matrix.shape[1]), data)


def open_matrix_market(data: Input) -> TableSource:
    """Open a Matrix Market file; its header is checked before anything is allocated."""
    import scipy.io

    content = data.random_access().read()
    rows, columns, entries, form, field, _ = scipy.io.mminfo(io.BytesIO(content))
    check_width(columns, data.name)
    size = _ENTRY * entries if form == "coordinate" else _NUMBER * rows * columns
    check_unpacked(max(size, _NUMBER * rows), len(content), data.name)
    if field == "complex":
        raise BadData(f"{data.name} contains complex numbers; a table must have real numbers.")
    return _source(scipy.io.mmread(io.BytesIO(content)), _numbered(columns), data)


def open_hdf5(data: Input) -> TableSource:
    """Open an AnnData file: X, with the names of its columns and rows."""
    try:
        import h5py
    except ImportError:
        raise BadData(
            f'{data.name} is an HDF5 file; reading it needs h5py. Run: pip install "knoll[formats]"'
        ) from None
    content = b"" if data.path is not None else data.random_access().read()
    file = data.path if data.path is not None else io.BytesIO(content)
    packed = len(content) if data.path is None else os.path.getsize(data.path)
    with contextlib.closing(h5py.File(file, "r")) as opened:
        if "X" not in opened:
            raise BadData(
                f"{data.name} is an HDF5 file without X, and not AnnData (.h5ad). It has: {listed(list(opened))}. "
                f"Supported formats: {READABLE}."
            )
        matrix = _of_group(opened["X"], data, packed)
        names = _index(opened, "var", matrix.shape[1]) or _numbered(matrix.shape[1])
        ids = _index(opened, "obs", matrix.shape[0])
    return _source(matrix, names, data, ids)


def _of_group(X: Any, data: Input, packed: int) -> Any:
    """Return X as an array or a sparse matrix; the file has `packed` bytes."""
    import h5py
    import scipy.sparse

    if isinstance(X, h5py.Dataset):
        if X.ndim != 2:
            raise BadData(f"{data.name}: X has {X.ndim} dimensions; a table has two.")
        check_width(X.shape[1], data.name)
        check_unpacked(_NUMBER * X.size, packed, data.name)
        return np.asarray(X[...])
    form = X.attrs.get("encoding-type", "")
    shape = X.attrs.get("shape", X.attrs.get("h5sparse_shape"))
    if form not in ("csr_matrix", "csc_matrix") or shape is None:
        raise BadData(f"{data.name}: X is of the unknown type {form!r:.40}. Save it as a dense or CSR matrix.")
    rows, columns = (int(side) for side in shape)
    check_width(columns, data.name)
    arrays = [X[name] for name in ("data", "indices", "indptr")]
    sizes = (entry * array.size for entry, array in zip((_ENTRY, _NUMBER, _NUMBER), arrays))
    check_unpacked(max(_NUMBER * rows, *sizes), packed, data.name)
    loaded = tuple(np.asarray(array[...]) for array in arrays)
    make: Any = scipy.sparse.csr_matrix if form == "csr_matrix" else scipy.sparse.csc_matrix
    return make(loaded, shape=(rows, columns))


def _index(file: Any, group: str, count: int) -> list[str] | None:
    """Return the names of rows or columns, where there are as many as needed."""
    if group not in file or not hasattr(file[group], "attrs"):
        return None
    name = file[group].attrs.get("_index", "_index")
    if not isinstance(name, str) or name not in file[group]:
        return None
    values = file[group][name]
    if values.shape != (count,):  # which may be far longer
        return None
    found = [text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text) for text in values[...]]
    return found if len(found) == count and len(set(found)) == count else None


def _numbered(count: int) -> list[str]:
    return [f"column {j + 1}" for j in range(count)]


def _compressed(matrix: Any) -> Any:
    """Return compressed sparse rows, each entry once."""
    import scipy.sparse

    rows = scipy.sparse.csr_array(matrix)
    rows.sum_duplicates()
    return rows


def _source(matrix: Any, names: Sequence[str], data: Input, ids: Sequence[str] | None = None) -> TableSource:
    """Make a source of a matrix, with the names of its rows as a column that identifies them."""
    import scipy.sparse

    check_width(matrix.shape[1], data.name)
    check_distinct(names, data.name)
    if 0 in matrix.shape:
        raise BadData(f"{data.name} has no {'rows' if matrix.shape[0] == 0 else 'columns'}.")
    rows = _ROWS
    while rows in names:
        rows += "'"
    extra = {} if ids is None else {rows: pa.array(ids, pa.string())}
    reasons = {rows: f"names of rows; use them with --id {rows}"}
    if not scipy.sparse.issparse(matrix):
        dense = {name: array_column(values, data.name) for name, values in zip(names, np.asarray(matrix).T)}
        return in_memory(pa.table({**extra, **dense}), data.name, excluded=reasons)
    if hasattr(matrix, "check_format"):
        matrix.check_format(full_check=True)  # indices of a file that lead outside, before a conversion follows them
    sparse = _compressed(matrix)
    position = {name: j for j, name in enumerate(names)}

    def dense_rows(begin: int, end: int, wanted: Sequence[str]) -> pa.Table:
        numbers = [name for name in wanted if name in position]
        chunk = sparse[begin:end]
        block = (
            chunk.toarray() if len(numbers) == len(names) else chunk[:, [position[name] for name in numbers]].toarray()
        )
        columns = dict(zip(numbers, block.T))
        return pa.table(
            {name: array_column(columns[name], data.name) if name in columns else extra[name].slice(begin, end - begin)
             for name in wanted}
        )  # fmt: skip

    def tables(request: Request) -> Iterator[pa.Table]:
        wanted = [*extra, *names] if request.names is None else request.names
        if request.whole:
            check_unpacked(2 * _NUMBER * sparse.shape[0] * len(wanted), None, data.name)
        size = sparse.shape[0] if request.whole else request.rows(len(wanted))
        for begin in range(0, sparse.shape[0], size):
            yield dense_rows(begin, min(begin + size, sparse.shape[0]), wanted)

    head = dense_rows(0, min(_HEAD, sparse.shape[0]), [*extra, *names])
    return TableSource(data.name, head, tables, excluded=reasons, sparse=sparse)
