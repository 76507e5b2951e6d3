"""The layout of a .knoll file: what is written where, and what must be true of it before anything is allocated.

    from  bytes
    0     8      magic: 0x89, "knoll", carriage return, line feed (a transfer as text spoils it, and shows)
    8     2 + 2  format version: major (1, or one of those below), minor; any minor is read
    12    4      zero
    16    8      length of the header
    24    8      length of the file
    32           header: JSON in UTF-8 (class, parameters, fitted attributes, the table of arrays)
    …            arrays, raw, little-endian, each from a multiple of 64, in the order of the table
    end − 32     SHA-256 of everything before it

Numbers are little-endian. The choices are in docs/decisions/0018-model-files.md.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

MAGIC = b"\x89knoll\r\n"
MAJOR, MINOR = 1, 0
RELABELED = 2  # major version of a file with a relabeling: a reader of version 1 would give other labels
TYPED = 3  # of a file with types of columns, relabeled or not: an earlier reader would take other columns
ENCODED = 4  # of a file whose categories are scores or codes: an earlier reader would take indicators
LOCATED = 5  # of a file with positions, or rows of length one: an earlier reader would take the numbers as they are
LATEST = LOCATED  # every major version from MAJOR to this one is read
ALIGN = 64
DIGEST = 32
MOST_HEADER = 1 << 26  # bytes
MOST_DEPTH = 64  # of brackets within brackets
MOST_DIMENSIONS = 32

# Every type of number has one spelling; anything else (objects, records, dates, long doubles) cannot be saved.
DTYPES = frozenset(["|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8", "<c8", "<c16"])
TEXT = re.compile(r"<U[1-9]\d{0,5}")

_FIELDS = struct.Struct("<8sHHIQQ")
PREFIX = _FIELDS.size
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')


class Damage(ValueError):
    """What is wrong with a file; the reader adds the file's name and the remedy."""


class Prefix(NamedTuple):
    """The first 32 bytes."""

    major: int
    minor: int
    header: int  # bytes
    file: int  # bytes

    def packed(self) -> bytes:
        """Return the bytes."""
        return _FIELDS.pack(MAGIC, self.major, self.minor, 0, self.header, self.file)

    @classmethod
    def of(cls, data: bytes) -> Self:
        """Read the bytes, whose magic has been checked."""
        _, major, minor, _, header, file = _FIELDS.unpack(data)
        return cls(major, minor, header, file)

    @property
    def arrays(self) -> int:
        """Where the arrays begin."""
        return aligned(PREFIX + self.header)

    @property
    def size(self) -> int:
        """How many bytes the arrays have."""
        return self.file - DIGEST - self.arrays


class ArrayEntry(NamedTuple):
    """Where an array lies and how it is to be read."""

    dtype: str
    shape: tuple[int, ...]
    order: str  # "C" or "F"
    offset: int  # from where the arrays begin

    @property
    def nbytes(self) -> int:
        """How many bytes it takes."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    @classmethod
    def checked(cls, name: str, entry: Any) -> Self:
        """Read an entry of the table of arrays, trusting nothing in it."""
        match entry:
            case {"dtype": str(dtype), "shape": list(shape), "order": "C" | "F" as order, "offset": int(offset)}:
                pass
            case _:
                raise Damage(f"the entry of array {name!r} is {entry!r:.60}")
        if dtype not in DTYPES and not TEXT.fullmatch(dtype):
            raise Damage(f"array {name!r} has the unknown dtype {dtype!r:.30}")
        if len(shape) > MOST_DIMENSIONS or not all(type(side) is int and side >= 0 for side in shape):
            raise Damage(f"array {name!r} has the shape {shape!r:.60}")
        if math.prod(max(side, 1) for side in shape) * max(np.dtype(dtype).itemsize, 1) >= 1 << 62:
            raise Damage(f"array {name!r} has the shape {shape!r:.60}, more than memory can address")
        return cls(dtype, tuple(shape), order, offset)


def aligned(position: int) -> int:
    """Return the next position that is a multiple of 64."""
    return -(-position // ALIGN) * ALIGN


def lay(arrays: Mapping[str, NDArray[Any]]) -> dict[str, ArrayEntry]:
    """Return an entry for each array."""
    entries, end = {}, 0
    for name, array in arrays.items():
        dtype = array.dtype.newbyteorder("<").str
        if dtype not in DTYPES and not TEXT.fullmatch(dtype):
            raise Damage(f"{name} is an array of {array.dtype}")
        if array.dtype.kind == "U" and not is_text(array.astype(np.dtype(dtype)).reshape(-1).view("<u4")):
            raise Damage(f"{name} has a letter that is not Unicode")
        order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        entries[name] = ArrayEntry(dtype, array.shape, order, aligned(end))
        end = entries[name].offset + entries[name].nbytes
    return entries


def is_text(letters: NDArray[np.uint32]) -> bool:
    """Whether all these numbers are letters of Unicode, none of them half of one."""
    return bool(((letters < 0xD800) | ((letters > 0xDFFF) & (letters < 0x110000))).all())


def check_entries(table: Any, size: int) -> dict[str, ArrayEntry]:
    """Check the table of arrays: consecutive, and together of exactly this size."""
    if not isinstance(table, dict):
        raise Damage("it has no table of arrays")
    entries, end = {}, 0
    for name, raw in table.items():
        entry = ArrayEntry.checked(name, raw)
        if entry.offset != aligned(end):
            raise Damage(f"array {name!r} lies at {entry.offset}, not at {aligned(end)}")
        end = entry.offset + entry.nbytes
        if end > size:
            raise Damage(f"array {name!r} ends {end - size} bytes beyond the section of arrays")
        entries[name] = entry
    if end != size:
        raise Damage(f"{size - end} bytes belong to no array")
    return entries


# ---- the header ------------------------------------------------------------------------------------------------------


def dump(header: Mapping[str, Any]) -> bytes:
    """Write the header; every float is read back to the same bits."""
    try:
        text = json.dumps(header, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        raise
    except ValueError:
        raise Damage("a number in its header is not finite") from None
    if len(text) > MOST_HEADER:
        raise Damage(f"the parameters take {len(text)} bytes as text, {MOST_HEADER} at most. Give lists as arrays")
    if depth(text) > MOST_DEPTH:
        raise Damage(f"the parameters are nested {depth(text)} deep, {MOST_DEPTH} at most")
    return text


def parse(text: bytes) -> dict[str, Any]:
    """Read a header of anybody's: bounded in depth, every name once, no numbers that JSON does not have."""
    if depth(text) > MOST_DEPTH:
        raise Damage(f"its header is nested {depth(text)} deep, {MOST_DEPTH} at most")
    try:
        header = json.loads(text.decode(), object_pairs_hook=_once, parse_constant=_refuse)
    except Damage:
        raise
    except (ValueError, RecursionError) as error:
        raise Damage(f"its header is no JSON ({error})") from None
    if not isinstance(header, dict):
        raise Damage("its header is no mapping")
    return header


def depth(text: bytes) -> int:
    """Count how deep brackets are nested, those in strings left out, before a parser recurses into them."""
    marks = np.frombuffer(_STRING.sub(b"", text), dtype=np.uint8)
    steps = np.isin(marks, list(b"[{")).astype(np.int32) - np.isin(marks, list(b"]}"))
    return int(np.cumsum(steps, dtype=np.int64).max(initial=0))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Damage("its header has a name twice")
    return found


def _refuse(constant: str) -> Any:
    raise Damage(f"its header has {constant}, which is no JSON")
