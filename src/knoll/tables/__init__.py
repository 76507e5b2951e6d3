"""Reading tables: files become columns, columns become numbers.

One reader yields pieces of some megabytes; a whole table is its pieces, concatenated. Formats are CSV and TSV, also
compressed by gzip or Zstandard, Parquet, Feather (Arrow), NPY and NPZ, recognised by their contents.

    with open_table("flowers.csv") as source:
        source.columns                             # names of all columns
        source.numeric_columns()                   # those that are numbers by the first rows
        for piece in source.pieces(["height"]):    # bounded memory
            piece.X
        source.read()                              # all rows, every numeric column, reasons for the others

| module | what it does |
|---|---|
| reader | opens a file and finds out its format |
| source | `TableSource`: pieces and whole tables |
| input | bytes: files, pipes, gzip, Zstandard |
| text, dialect | CSV: encoding, delimiter, decimal mark, header |
| binary, formats | Parquet, Arrow, NPY, NPZ; files that are no tables |
| columns | types of columns, reasons, numbers |
| missing | missing values: an error, dropped rows, or medians |
| limits | bytes and columns that are too many |
"""

from knoll.tables.missing import MISSING, MissingValues, fill_missing
from knoll.tables.reader import open_table, read_table
from knoll.tables.source import NOT_REQUESTED, Piece, Table, TableSource

__all__ = [
    "MISSING",
    "NOT_REQUESTED",
    "MissingValues",
    "Piece",
    "Table",
    "TableSource",
    "fill_missing",
    "open_table",
    "read_table",
]
