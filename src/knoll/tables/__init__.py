"""Reading tables: files become columns, columns become numbers.

One reader yields pieces of some megabytes; a whole table is its pieces, concatenated. Formats are CSV and TSV, also
compressed by gzip or Zstandard, JSON lines, Excel, Parquet, Feather (Arrow), NPY, NPZ, Matrix Market and AnnData,
recognised by their contents. Tables of pandas, polars and Arrow are read alike.

    with open_table("flowers.csv") as source:
        source.columns                             # names of all columns
        source.numeric_columns()                   # those that are numbers by the first rows
        for piece in source.pieces(["height"]):    # bounded memory
            piece.X
        source.read()                              # all rows, every numeric column, reasons for the others
        source.read_typed()                        # all rows, every column of a known type, encoded, with its schema

| module | what it does |
|---|---|
| reader | opens a file and finds out its format |
| reading | `Reading`: what the caller says about how a file is to be read |
| source, table | `TableSource`: pieces and whole tables; `Table`: a table that has been read |
| input | bytes: files, pipes, gzip, Zstandard |
| text, dialect, json_lines | CSV: encoding, delimiter, decimal mark, header; JSON lines |
| binary, sparse, spreadsheet, formats | Parquet, Arrow, NPY, NPZ; sparse matrices and AnnData; Excel; other files |
| columns | types of columns, reasons, numbers |
| schema | `Schema` and `Column`: the types of columns, applied to new tables, in files |
| recognition, cells, conversion | which type a column has by its cells; cells become numbers and codes |
| combined | what several columns are together: copies, one-hot columns, pairs of latitude and longitude; logarithms |
| positions, geojson | latitude and longitude as coordinates in km; points of GeoJSON |
| mixed, scores | categories as columns of numbers: scaled indicators; scores of what they have in common with others |
| frames, typed | tables of other libraries; a table, typed and encoded, for the command line and for Python |
| missing | missing values: an error, dropped rows, or medians |
| limits | bytes and columns that are too many |

Modules that need pyarrow are imported when one of their names is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from knoll._common.mixed_table import MixedTable
from knoll.tables.missing import MISSING, MissingValues, fill_missing
from knoll.tables.reading import Reading
from knoll.tables.schema import Column, Schema
from knoll.tables.table import NOT_REQUESTED, Table

if TYPE_CHECKING:
    from knoll.tables.reader import open_table, read_table
    from knoll.tables.recognition import Rules, recognise
    from knoll.tables.source import Piece, TableSource

__all__ = [
    "MISSING",
    "NOT_REQUESTED",
    "Column",
    "MissingValues",
    "MixedTable",
    "Piece",
    "Reading",
    "Rules",
    "Schema",
    "Table",
    "TableSource",
    "fill_missing",
    "open_table",
    "read_table",
    "recognise",
]

_HOME = {
    "open_table": "reader",
    "read_table": "reader",
    "Rules": "recognition",
    "recognise": "recognition",
    "Piece": "source",
    "TableSource": "source",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"knoll.tables.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
