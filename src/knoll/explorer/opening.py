"""Opening a table: a file, a built-in data set by its name, a data frame or an array."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from knoll import datasets
from knoll.exceptions import BadData
from knoll.explorer.source import Source
from knoll.tables.reading import Reading
from knoll.tables.table import Table

__all__ = ["open_source"]


def open_source(data: Any, *, seed: int = 0, n_jobs: int | None = None, **options: Any) -> Source:
    """Read and scale a table; the options are those of `Session.open`."""
    kept = {name: value for name, value in options.items() if value is not None}
    more = "".join(f", {name}={value!r}" for name, value in kept.items())
    more += f", seed={seed}" if seed else ""
    if not isinstance(data, str | os.PathLike):
        return Source.read(data, opened=f"Session.open(X{more})  # X: the table", seed=seed, n_jobs=n_jobs, **kept)
    reading = Reading.taken_from(kept)
    how: dict[str, Any] = {name: kept.pop(name) for name in ("scale", "metric") if name in kept}
    table = _read(str(data), reading, **kept)
    if len(table.X) < 1:
        raise BadData(f"{table.name} has no rows.")
    how |= {"missing": kept["missing"]} if "missing" in kept else {}
    opened = f"Session.open({str(data)!r}{more})"
    return Source.read(table, name=Path(table.name).name, opened=opened, seed=seed, n_jobs=n_jobs, **how)


def _read(
    data: str,
    reading: Reading,
    *,
    columns: Sequence[str] | None = None,
    types: Mapping[str, str] | None = None,
    log: Sequence[str] | str | None = None,
    ignore: Sequence[str] | None = None,
    missing: str = "model",
    ids: str | None = None,
    truth: str | None = None,
) -> Table:
    """Read a file, or a built-in data set of that name, as the command line does."""
    from knoll.tables.reader import open_table
    from knoll.tables.recognition import Rules
    from knoll.tables.typed import typed_table

    logs = "mixed" if log is None else log if log in ("auto", "mixed") else [log] if isinstance(log, str) else list(log)
    rules = Rules(dict(types or {}), logs, [ignore] if isinstance(ignore, str) else list(ignore or ()))
    expected = [name for name in (*(columns or ()), ids, truth) if name is not None]
    if data in datasets.names() and not Path(data).exists():
        return _of_dataset(data, columns, rules, missing, ids, truth)
    with open_table(data, reading=reading, expected=expected) as source:
        return typed_table(source, columns, rules, missing, ids, truth)


def _of_dataset(name: str, columns: Any, rules: Any, missing: str, ids: str | None, truth: str | None) -> Table:
    import pyarrow as pa

    from knoll.tables.source import in_memory
    from knoll.tables.typed import typed_table

    known = datasets.load(name)
    source = in_memory(pa.table(dict(zip(known.feature_names, known.X.T.copy()))), name)
    table = typed_table(source, columns, rules, missing, ids, truth)
    if truth is None and known.y is not None:
        return replace(table, truth=np.asarray(known.target_names)[known.y] if known.target_names else known.y)
    return table
