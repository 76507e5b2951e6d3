"""Files that are not tables, known by their first bytes, so that the error names what they are."""

from __future__ import annotations

import re
from collections.abc import Sequence

from knoll.exceptions import BadData

__all__ = ["READABLE", "check_archive", "check_format", "is_sparse", "is_workbook"]

READABLE = "CSV, TSV, JSON lines, Excel (.xlsx), Parquet, Feather, NPY, NPZ (also sparse), Matrix Market and .h5ad"

_AS_CSV = "Save it as CSV"
_UNPACK = "Unpack it first"
_STARTS = (  # first bytes, what the file is, the remedy
    # Arrow's reader of this one is deprecated, and a damaged file ends the process.
    (b"FEA1", "of the first version of Feather", "Save it as Parquet, or as Feather of version 2"),
    (b"\xd0\xcf\x11\xe0", "an older Excel workbook (.xls)", _AS_CSV),
    (b"SQLite format 3\x00", "an SQLite database", "Export the table as CSV"),
    (b"MATLAB 5.0", "a MATLAB file", "Save its table as NPY or CSV"),
    (b"Obj\x01", "an Avro file", "Save it as Parquet"),
    (b"ORC", "an ORC file", "Save it as Parquet"),
    (b"RDX", "a file of R", _AS_CSV),
    (b"\x89knoll\r\n", "a model file of knoll", "Name the table as DATA"),
    (b"\x80\x03", "a pickle", "Save it as NPY or Parquet"),
    (b"\x80\x04", "a pickle", "Save it as NPY or Parquet"),
    (b"\x80\x05", "a pickle", "Save it as NPY or Parquet"),
    (b"\xff\xfe\x00\x00", "a text in UTF-32", "Save it as UTF-8"),
    (b"\x00\x00\xfe\xff", "a text in UTF-32", "Save it as UTF-8"),
    (b"%PDF-", "a PDF file", _AS_CSV),
    (b"BZh", "packed by bzip2", _UNPACK + ", or pack it by gzip or Zstandard"),
    (b"\xfd7zXZ\x00", "packed by xz", _UNPACK + ", or pack it by gzip or Zstandard"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", _UNPACK),
    (b"\x89PNG\r\n", "a picture", "Save its numbers as NPY"),
    (b"\xff\xd8\xff", "a picture", "Save its numbers as NPY"),
)
_BINARY = re.compile(rb"[\x00-\x08]")
_JSON = re.compile(rb'\s*(\{\s*["}]|\[\s*[\[{\]])')  # an object, or a list of objects or lists
_MARKUP = re.compile(rb"\s*<(!doctype|html|\?xml|table)\b", re.IGNORECASE)
_TAR = slice(257, 262), b"ustar"
_SPARSE = {"data", "indices", "indptr", "format", "shape"}  # what scipy.sparse.save_npz writes


def check_format(start: bytes, name: str) -> None:
    """Refuse a file of a format that is known not to be a table."""
    binary = _BINARY.search(start) is not None
    for magic, what, remedy in _STARTS:
        if start.startswith(magic) and (binary or not magic[:1].isalpha()):  # a column may be called ORCID
            raise _refusal(name, what, remedy)
    if start[_TAR[0]] == _TAR[1]:
        raise _refusal(name, "a tar archive", _UNPACK)
    if _JSON.match(start):
        raise _refusal(name, "JSON", "Write one object per line, or save it as CSV")
    if _MARKUP.match(start):
        raise _refusal(name, "HTML or XML", _AS_CSV)


def check_archive(members: Sequence[str], name: str) -> None:
    """Refuse a ZIP archive that `numpy.savez` did not write, by the names of its members."""
    if "content.xml" in members:
        raise _refusal(name, "an OpenDocument file", _AS_CSV)
    arrays = {member.removesuffix(".npy") for member in members if member.endswith(".npy")}
    if not arrays:
        raise _refusal(name, "a ZIP archive without arrays", _UNPACK)


def is_workbook(members: Sequence[str]) -> bool:
    """Whether a ZIP archive is an Excel workbook, by the names of its members."""
    return any(member.startswith("xl/") for member in members)


def is_sparse(members: Sequence[str]) -> bool:
    """Whether a ZIP archive is a sparse matrix that `scipy.sparse.save_npz` wrote."""
    arrays = {member.removesuffix(".npy") for member in members}
    return arrays >= _SPARSE or {"row", "col", "data", "format", "shape"} <= arrays


def _refusal(name: str, what: str, remedy: str) -> BadData:
    return BadData(f"{name} is {what}, which cannot be read. Supported formats: {READABLE}. {remedy}.")
