"""Tables of other libraries as Arrow tables: pandas, polars, and anything with ``__arrow_c_stream__``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from knoll.exceptions import BadData, InvalidType
from knoll.tables.limits import check_width

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["arrow_table", "is_frame"]


def is_frame(X: Any) -> bool:
    """Whether X is a table with named columns, and no array.

    Examples
    --------
    >>> import pandas as pd
    >>> from knoll.tables.frames import is_frame
    >>> is_frame(pd.DataFrame({"a": [1]})), is_frame([[1.0]])
    (True, False)
    """
    if hasattr(X, "__arrow_c_stream__") and any(hasattr(X, name) for name in ("columns", "column_names", "schema")):
        return True
    return hasattr(X, "columns") and hasattr(X, "dtypes") and getattr(X, "ndim", 0) == 2


def arrow_table(X: Any, names: Sequence[str] | None = None) -> pa.Table:
    """Convert a table; `names` replace those of its columns."""
    import pyarrow as pa

    if isinstance(X, pa.Table):
        table = X
    elif _is_pandas(X):
        table = _of_pandas(X)
    elif hasattr(X, "__arrow_c_stream__"):
        table = pa.RecordBatchReader.from_stream(X).read_all()
    else:
        raise InvalidType(f"a table of pandas, polars or Arrow is needed, got {type(X).__name__}.")
    check_width(table.num_columns, "the table")
    if names is not None:
        if len(names) != table.num_columns:
            raise BadData(f"columns has {len(names)} names for {table.num_columns} columns. Give one for each.")
        table = table.rename_columns([str(name) for name in names])
    return table


def _is_pandas(X: Any) -> bool:
    return type(X).__module__.partition(".")[0] == "pandas"


def _of_pandas(X: Any) -> pa.Table:
    """Convert column by column: a column of Python objects of several types becomes text."""
    import pyarrow as pa

    columns: dict[str, Any] = {}
    for j, name in enumerate(X.columns):
        if str(name) in columns:
            raise BadData(f"the table has two columns named {str(name)!r}. Rename one of them.")
        series = X.iloc[:, j]
        try:
            columns[str(name)] = pa.chunked_array([pa.Array.from_pandas(series)])
        except (pa.ArrowException, TypeError, ValueError):
            columns[str(name)] = pa.chunked_array([_texts(series)])
    return pa.table(columns)


def _texts(series: Any) -> pa.Array:
    import pyarrow as pa

    missing = series.isna()
    return pa.array([None if gap else str(cell) for cell, gap in zip(series, missing)], pa.string())
