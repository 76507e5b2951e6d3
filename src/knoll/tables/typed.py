"""From a table to the numbers of a method, for the command line and for Python.

A source or a data frame becomes a `Table`: columns are typed and encoded, missing values are treated, and the notes
report what was done.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from knoll._format import listed
from knoll.exceptions import BadData, InvalidParameter
from knoll.tables.frames import arrow_table, is_frame
from knoll.tables.missing import fill_missing
from knoll.tables.table import NOT_REQUESTED, Table

if TYPE_CHECKING:
    import pyarrow as pa

    from knoll.tables.recognition import Rules
    from knoll.tables.source import TableSource

__all__ = ["as_table", "frame_table", "typed_table"]

MISSING = ("model", "median", "drop", "error")
_SAME_REASON = 8  # columns named for one reason


def typed_table(
    source: TableSource,
    columns: Sequence[str] | None,
    rules: Rules,
    missing: str,
    ids: str | None = None,
    truth: str | None = None,
) -> Table:
    """Read all rows of a source; the notes of the table report what was left out and what was done."""
    if missing not in MISSING:
        raise InvalidParameter(f"missing must be one of {', '.join(MISSING)}, got {missing!r}.")
    read = source.read_typed(columns, ids, truth, rules)
    table, filled = fill_missing(read, missing)
    notes = [*source.notes, *omissions(table), *table.notes[len(source.notes) :], filled]
    return replace(table, notes=tuple(note for note in notes if note))


def omissions(table: Table) -> list[str]:
    """Return sentences on the columns that are left out."""
    assert table.schema is not None
    constant = [column.name for column in table.schema.columns if column.type == "constant" and not column.used]
    reasons: dict[str, list[str]] = {}
    for name, reason in table.left_out.items():
        if reason != NOT_REQUESTED and name not in constant:
            reasons.setdefault(reason, []).append(name)
    others = [f"{listed(names, _SAME_REASON)} ({reason})" for reason, names in reasons.items()]
    notes = [f"left out: {listed(others)}"] if others else []
    if constant:
        verb = "has a single value and was" if len(constant) == 1 else "have a single value each and were"
        notes.append(f"{listed(constant, 5)} {verb} ignored.")
    return notes


# ---- from Python -----------------------------------------------------------------------------------------------------


def as_table(
    X: Any,
    columns: Sequence[str] | None,
    types: Mapping[str, str] | None,
    log: Sequence[str] | str | None,
    ignore: Sequence[str] | None,
    missing: str | None,
) -> Table | None:
    """Return the table that X is, or None for an array of numbers without any option about its columns."""
    if isinstance(X, Table):
        return X
    options = (types, log, ignore, missing)
    plain = all(option is None for option in options)
    if plain and (not is_frame(X) or find_spec("pyarrow") is None):  # then a frame must have numbers only
        return None
    if find_spec("pyarrow") is None:
        raise InvalidParameter('types, log, ignore and missing need pyarrow. Run: pip install "knoll[cli]"')
    options = (types, "mixed" if log is None else log, ignore, missing)
    return frame_table(X, columns, *options) if is_frame(X) else _of_array(X, columns, *options)


def _of_array(X: Any, columns: Sequence[str] | None, *options: Any) -> Table:
    """Give the columns of an array names, as a comparison does."""
    import pyarrow as pa

    array = np.asarray(X)
    if array.ndim != 2:
        raise BadData(f"X must have rows and columns; its shape is {array.shape}.")
    names = [str(name) for name in (range(array.shape[1]) if columns is None else columns)]
    if len(names) != array.shape[1]:
        raise InvalidParameter(f"columns has {len(names)} names for {array.shape[1]} columns. Give one for each.")
    table = pa.table([pa.array(np.ascontiguousarray(column), from_pandas=True) for column in array.T], names=names)
    return frame_table(table, None, *options)


def frame_table(
    X: Any,
    columns: Sequence[str] | None = None,
    types: Mapping[str, str] | None = None,
    log: Sequence[str] | str | None = None,
    ignore: Sequence[str] | None = None,
    missing: str | None = None,
) -> Table:
    """Read a table of pandas, polars or Arrow as the command line reads a file.

    Examples
    --------
    >>> import pandas as pd
    >>> from knoll.tables.typed import frame_table
    >>> table = frame_table(pd.DataFrame({"paid": ["$1,200", "$30", "$70"], "name": ["Ann", "Bob", "Cy"]}))
    >>> table.columns, table.X[:, 0].tolist(), table.left_out
    (('paid',), [1200.0, 30.0, 70.0], {'name': 'an identifier, a different text in every row'})
    """
    from knoll.tables.recognition import Rules
    from knoll.tables.source import in_memory

    found = arrow_table(X)
    chosen = None if columns is None else [str(name) for name in columns]
    if chosen is not None and not set(chosen) <= set(found.column_names):
        found, chosen = arrow_table(found, chosen), None
    logs: Sequence[str] | str = log if isinstance(log, str) and log in ("auto", "mixed") else _names(log)
    rules = Rules(dict(types or {}), logs, _names(ignore))
    try:
        table = typed_table(in_memory(found, "the table"), chosen, rules, missing or "model")
    except (BadData, InvalidParameter) as error:
        raise type(error)(_in_python(str(error))) from None
    reasons = {name: _in_python(reason) for name, reason in table.left_out.items()}
    X = table.X.astype(np.float32) if _single(found, table) else table.X
    return replace(table, X=X, left_out=reasons, notes=tuple(_in_python(note) for note in table.notes))


def _names(names: Sequence[str] | str | None) -> list[str]:
    return [] if names is None else [names] if isinstance(names, str) else [str(name) for name in names]


def _single(found: pa.Table, table: Table) -> bool:
    """Whether all numbers are stored as float32, which a method then computes in."""
    assert table.schema is not None
    return table.schema.is_plain and all(str(found.schema.field(name).type) == "float" for name in table.columns)


def _in_python(text: str) -> str:
    """Write the options of the command line as arguments."""
    text = re.sub(r"--types (\S+?)=([\w:%/.,-]*[\w%])", r"types={'\1': '\2'}", text)
    text = re.sub(r"--missing (\w+)", r"missing='\1'", text)
    return re.sub(r"--truth \S+", "truth", text).replace("--types", "types").replace("--columns", "columns")
