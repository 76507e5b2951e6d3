"""Parquet, Arrow (Feather of version 2), NPY and NPZ; by their first bytes also Excel and sparse matrices.

How much a file unpacks to is checked by its metadata before anything is unpacked: Parquet has the rows and bytes of
each row group, Arrow the rows of each batch. Texts of Parquet stay in the dictionary that they are stored in. Nested
columns of Parquet, which may have any number of values per row, are not read.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from knoll.exceptions import BadData
from knoll.tables.columns import array_column, check_distinct
from knoll.tables.formats import check_archive, is_sparse, is_workbook
from knoll.tables.input import Input
from knoll.tables.limits import check_unpacked, check_width
from knoll.tables.source import Request, TableSource, in_memory, slices
from knoll.tables.sparse import open_hdf5, open_matrix_market, open_sparse_npz
from knoll.tables.spreadsheet import open_workbook

__all__ = ["READERS"]

_HEAD = 100  # rows
_NUMBER = 8  # bytes of a number that a cell becomes
_REMEDY = "save it as CSV, or take fewer of its rows"  # where a format cannot be unpacked by itself


# ---- Parquet ---------------------------------------------------------------------------------------------------------


def _open_parquet(data: Input) -> TableSource:
    schema = pyarrow.parquet.read_schema(data.random_access())
    check_width(len(schema), data.name)
    check_distinct(schema.names, data.name)
    text = [field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)]
    flat = {field.name: None for field in schema if not pa.types.is_nested(field.type)}
    file = pyarrow.parquet.ParquetFile(
        data.random_access(), pre_buffer=False, buffer_size=1 << 20, read_dictionary=text
    )
    _check_head(file.metadata, data)

    def tables(request: Request) -> Iterator[pa.Table]:
        names = [name for name in request.names or flat if name in flat]
        if request.whole:
            _check_parquet(file.metadata, names, data)
        size = max(file.metadata.num_rows, 1) if request.whole else request.rows(len(names))
        rows = 0
        for batch in file.iter_batches(batch_size=size, columns=names, use_threads=request.whole):
            rows += batch.num_rows
            yield pa.Table.from_batches([batch])
        if names and rows != file.metadata.num_rows:
            raise ValueError(f"it claims {file.metadata.num_rows} rows and has {rows}")

    first = next(file.iter_batches(batch_size=_HEAD, columns=list(flat), use_threads=False), None)
    head = schema.empty_table().select(list(flat)) if first is None else pa.Table.from_batches([first])
    columns = [head[each.name] if each.name in flat else pa.nulls(head.num_rows, each.type) for each in schema]
    return TableSource(data.name, pa.table(columns, names=schema.names), tables)


def _check_head(facts: Any, data: Input) -> None:
    """Refuse a file whose first rows, which are read for the types, unpack to more than can be meant."""
    if facts.num_row_groups == 0 or facts.row_group(0).num_rows <= 0:
        return
    group = facts.row_group(0)
    size = sum(group.column(i).total_uncompressed_size for i in range(group.num_columns))
    check_unpacked(size * min(_HEAD, group.num_rows) // group.num_rows, data.size, data.name, _REMEDY)


def _check_parquet(facts: Any, names: Collection[str], data: Input) -> None:
    """Refuse a file whose metadata claims more than can be read."""
    groups = [facts.row_group(i) for i in range(facts.num_row_groups)]
    check = partial(check_unpacked, packed=data.size, name=data.name, remedy=_REMEDY)
    check(_NUMBER * max(facts.num_rows, sum(group.num_rows for group in groups)) * len(names))
    check(sum(group.total_byte_size for group in groups))


# ---- Arrow -----------------------------------------------------------------------------------------------------------


def _open_arrow(data: Input) -> TableSource:
    schema = pa.ipc.open_file(data.random_access()).schema
    check_width(len(schema), data.name)
    check_distinct(schema.names, data.name)

    def tables(request: Request) -> Iterator[pa.Table]:
        names = schema.names if request.names is None else request.names
        packed = data.size if request.whole else None
        if request.whole:
            check_unpacked(_NUMBER * _claimed_rows(data) * len(names), packed, data.name, _REMEDY)
        before = pa.total_allocated_bytes()
        for table in _batches(data, names):
            check_unpacked(pa.total_allocated_bytes() - before, packed, data.name, _REMEDY)
            yield from slices(table, request)

    first = next(_batches(data, schema.names), schema.empty_table())
    return TableSource(data.name, first.slice(0, _HEAD), tables)


def _batches(data: Input, names: Collection[str]) -> Iterator[pa.Table]:
    """Yield the batches of a file, each checked to lead nowhere outside of its buffers."""
    schema = pa.ipc.open_file(data.random_access()).schema
    wanted = set(names)
    fields = [i for i, name in enumerate(schema.names) if name in wanted]
    reader = pa.ipc.open_file(data.random_access(), options=pa.ipc.IpcReadOptions(included_fields=fields))
    for i in range(reader.num_record_batches):
        table = pa.Table.from_batches([reader.get_batch(i)])
        table.validate(full=True)
        yield table


def _claimed_rows(data: Input) -> int:
    """Return the rows of all batches by their metadata alone."""
    import pyarrow.dataset

    return int(pyarrow.dataset.IpcFileFormat().make_fragment(data.random_access()).count_rows())


# ---- NumPy -----------------------------------------------------------------------------------------------------------


def _open_npy(data: Input) -> TableSource:
    if data.path is None:
        array = np.load(data.random_access(), allow_pickle=False)
    else:
        array = np.load(data.path, mmap_mode="r", allow_pickle=False)
    head = _array_table(array[:_HEAD] if array.ndim else array, data.name)

    def tables(request: Request) -> Iterator[pa.Table]:
        rows = len(array) if request.whole else request.rows(head.num_columns)
        for begin in range(0, len(array), rows):
            yield _array_table(np.asarray(array[begin : begin + rows]), data.name, request.names or ())

    return TableSource(data.name, head, tables)


def _open_npz(data: Input) -> TableSource:
    with zipfile.ZipFile(data.random_access()) as members:
        names = members.namelist()
        check_unpacked(sum(member.file_size for member in members.infolist()), data.size, data.name)
    if is_workbook(names):
        return open_workbook(data)
    check_archive(names, data.name)
    if is_sparse(names):
        return open_sparse_npz(data)
    with np.load(data.random_access(), allow_pickle=False) as arrays:
        named = {key: array for key in arrays.files if isinstance(array := arrays[key], np.ndarray)}
    wide = [key for key, array in named.items() if array.ndim == 2]
    if not wide:
        raise BadData(f"{data.name} has no array of two dimensions. It has: {', '.join(named)}.")
    key = "X" if "X" in wide else wide[0]
    table = _array_table(named[key], data.name)
    excluded = {}
    for other, array in named.items():  # labels and the like, one entry per row
        if other != key and array.ndim == 1 and len(array) == table.num_rows and other not in table.column_names:
            table = table.append_column(other, array_column(array, data.name))
            excluded[other] = f"an array beside {key}; name it in --columns to use it, or in --truth"
    others = ", ".join(f"{other} {named[other].shape}" for other in wide if other != key)
    note = f"array {key} {named[key].shape} was taken, not {others}; the one called X has precedence"
    return in_memory(table, data.name, (note,) if others else (), excluded)


def _array_table(array: NDArray[Any], name: str, names: Collection[str] = ()) -> pa.Table:
    """Return an array of numbers or of records as a table, or some of its columns."""
    records = array.dtype.names
    most = 1 if records and array.shape[1:] != (1,) else 2
    if not 1 <= array.ndim <= most:
        what = "array of records" if records else "array"
        raise BadData(f"{name} contains an {what} of {array.ndim} dimensions; a table has {('one', 'two')[most - 1]}.")
    if records:
        columns = {field: array[field].reshape(-1) for field in records}
    elif array.size == 0:
        raise BadData(f"{name} has no {'columns' if len(array) else 'rows'}: its array is of shape {array.shape}.")
    else:
        columns = {
            f"column {j + 1}": values for j, values in enumerate((array[:, None] if array.ndim == 1 else array).T)
        }
    check_width(len(columns), name)
    wanted = set(names or columns)
    return pa.table({key: array_column(values, name) for key, values in columns.items() if key in wanted})


READERS: tuple[tuple[bytes, Callable[[Input], TableSource]], ...] = (
    (b"PAR1", _open_parquet),
    (b"ARROW1", _open_arrow),
    (b"\x93NUMPY", _open_npy),
    (b"PK", _open_npz),
    (b"%%Matrix", open_matrix_market),
    (b"\x89HDF\r\n\x1a\n", open_hdf5),
)
