"""The argument DATA: a file, standard input, or the name of a built-in data set."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from knoll import datasets
from knoll._format import listed, plural
from knoll.cli._options import parse_columns
from knoll.tables import NOT_REQUESTED, Reading, Rules, Table, TableSource, fill_missing, open_table
from knoll.tables.source import in_memory
from knoll.tables.typed import typed_table


def open_data(
    data: str, reading: Reading, expected: Sequence[str] = ()
) -> contextlib.AbstractContextManager[TableSource]:
    """Open DATA; a file takes precedence over a data set of its name.

    Arrow takes memory from the system for it, which gets it back column by column; pools of its own would keep it.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    if not _is_dataset(data):
        return open_table(data, reading=reading, expected=expected)
    known = datasets.load(data)
    table = pa.table(dict(zip(known.feature_names, known.X.T.copy())))
    return contextlib.nullcontext(in_memory(table, known.name))


def read_data(
    data: str,
    columns: str | None,
    reading: Reading,
    missing: str,
    ids: str | None = None,
) -> Table:
    """Read all rows; the notes of the table report what was left out and what was done about missing values."""
    requested = parse_columns(columns)
    expected = [name for name in (*(requested or ()), ids) if name is not None]
    with open_data(data, reading, expected) as source:
        table, filled = fill_missing(source.read(requested, ids), missing)
    left_out = [f"{name} ({reason})" for name, reason in table.left_out.items() if reason != NOT_REQUESTED]
    notes = [*table.notes, f"left out: {listed(left_out)}" if left_out else "", filled]
    return replace(table, notes=tuple(note for note in notes if note))


def embedded_note(command: str) -> str:
    """Return the message of a command without a file."""
    return f"No file was given, so this is a table that comes with scikit-learn. Yours: knoll {command} FILE"


def read_typed(
    data: str,
    columns: str | None,
    reading: Reading,
    missing: str,
    rules: Rules,
    ids: str | None = None,
    truth: str | None = None,
    sparse: bool = False,
) -> Table:
    """Read all rows, columns of every type; the notes of the table report what was left out and what was done.

    With `sparse` the rows of a sparse matrix stay sparse.
    """
    requested = parse_columns(columns)
    expected = [name for name in (*(requested or ()), ids, truth) if name is not None]
    with open_data(data, reading, expected) as source:
        if sparse and source.sparse is not None:
            return _sparse_table(source, ids)
        return typed_table(source, requested, rules, missing, ids, truth)


def _sparse_table(source: TableSource, ids: str | None) -> Table:
    """Return the rows of a sparse matrix as they are."""
    names = [name for name in source.columns if name not in source.excluded]
    found = None if ids is None else source.ids(ids)
    return Table(source.name, source.sparse, tuple(names), {}, np.arange(source.sparse.shape[0]), found)


def shape(table: Table) -> str:
    """Return the name and size of a table."""
    return f"{table.name}: {plural(table.X.shape[0], 'row')}, {table.used}"


def dataset_classes(data: str) -> NDArray[Any] | None:
    """Return the known classes of a built-in data set, by name where they have names."""
    known = datasets.load(data) if _is_dataset(data) else None
    if known is None or known.y is None:
        return None
    return np.asarray(known.target_names)[known.y] if known.target_names else known.y


def _is_dataset(data: str) -> bool:
    return data in datasets.names() and not Path(data).exists()
