"""Frames: a JSON header and raw little-endian arrays, as page and server exchange them.

    from    bytes
    0       4      length of the header, a multiple of 8 less 4, so that the arrays begin at a multiple of 8
    4              header: JSON in UTF-8, padded with spaces
    …              arrays, in C order, each from a multiple of 8, as in its list "arrays"

docs/guide/explorer-protocol.md has the messages.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll.comparison.result import plain
from knoll.exceptions import BadData
from knoll.models._format import Damage, parse

__all__ = ["Frame", "decode", "encode", "encoded_size", "packed", "split", "unpacked", "wire_labels"]

DTYPES = ("uint8", "uint16", "int32", "uint32", "float32", "float64")
NOISE16 = 0xFFFF
WEB = Path(__file__).parent / "web"  # the front end
MOST_HEADER = 1 << 24  # bytes
_LENGTH = struct.Struct("<I")
_ENTRY = {"name", "dtype", "shape", "offset", "bytes"}


@dataclass(frozen=True)
class Frame:
    """One message of an answer."""

    kind: str  # "progress", "preview", "part", "result" or "error"
    fields: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    last: bool = False


def encode(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Iterator[bytes]:
    """Yield the bytes of a frame: its length and header, then each array with its padding."""
    entries, end = [], 0
    for name, array in arrays.items():
        if array.dtype.name not in DTYPES:
            raise BadData(f"array {name} has dtype {array.dtype}; a frame has {', '.join(DTYPES)}.")
        entry = {"name": name, "dtype": array.dtype.name, "shape": list(array.shape), "offset": end}
        entries.append(entry | {"bytes": array.nbytes})
        end = _aligned(end + array.nbytes)
    text = json.dumps(plain({**header, "arrays": entries}), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    data = text.encode("utf-8", errors="replace")
    data += b" " * (-(len(data) + _LENGTH.size) % 8)
    yield _LENGTH.pack(len(data)) + data
    for array in arrays.values():
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        yield little.tobytes() + b"\0" * (-little.nbytes % 8)


def encoded_size(data: bytes) -> int:
    """Return how many bytes the frame has that begins here; BadData if its header is damaged."""
    _, entries, begin = _header(data)
    return begin + (_aligned(entries[-1]["offset"] + entries[-1]["bytes"]) if entries else 0)


def split(data: bytes) -> Iterator[bytes]:
    """Yield the frames of a stream."""
    at = 0
    while at < len(data):
        size = encoded_size(data[at:])
        yield data[at : at + size]
        at += size


def decode(data: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read a frame of anybody's; raise BadData with what is wrong."""
    header, entries, begin = _header(data)
    arrays: dict[str, NDArray[Any]] = {}
    for entry in entries:
        dtype = np.dtype(entry["dtype"]).newbyteorder("<")
        count, at = math.prod(entry["shape"]), begin + entry["offset"]
        arrays[entry["name"]] = np.frombuffer(data, dtype, count, at).reshape(entry["shape"])
    return header, arrays


def _header(data: bytes) -> tuple[dict[str, Any], list[dict[str, Any]], int]:
    """Return the header, the checked entries of its arrays, and where these begin."""
    if len(data) < _LENGTH.size:
        raise BadData("the frame has no header.")
    (length,) = _LENGTH.unpack_from(data)
    begin = _LENGTH.size + length
    if length > MOST_HEADER or begin > len(data) or begin % 8:
        raise BadData(f"the frame has a header of {length} bytes, and {len(data)} bytes in all.")
    try:
        header = parse(bytes(data[_LENGTH.size : begin]))
    except Damage as error:
        raise BadData(f"the frame is damaged: {error}.") from None
    entries = header.pop("arrays", [])
    if not isinstance(entries, list):
        raise BadData("the frame's list of arrays is no list.")
    end, names = 0, set()
    for entry in entries:
        if not _is_entry(entry) or entry["offset"] != end or entry["name"] in names:
            raise BadData(f"the frame has a wrong entry of an array: {entry!r:.80}.")
        names.add(entry["name"])
        end = _aligned(end + entry["bytes"])
        if begin + end > len(data):
            raise BadData(f"array {entry['name']!r:.40} ends beyond the frame.")
    return header, entries, begin


def _is_entry(entry: Any) -> bool:
    if not isinstance(entry, dict) or set(entry) != _ENTRY or entry["dtype"] not in DTYPES:
        return False
    shape, sizes = entry["shape"], (entry["offset"], entry["bytes"])
    if not isinstance(entry["name"], str) or not all(type(size) is int and 0 <= size < 1 << 40 for size in sizes):
        return False
    if (
        not isinstance(shape, list)
        or len(shape) > 4
        or not all(type(side) is int and 0 <= side < 1 << 40 for side in shape)
    ):
        return False
    return math.prod(shape) * np.dtype(entry["dtype"]).itemsize == entry["bytes"]


def _aligned(position: int) -> int:
    return -(-position // 8) * 8


# ---- what has one entry per row ------------------------------------------------------------------------------------


def wire_labels(labels: NDArray[Any]) -> NDArray[Any]:
    """Return labels as uint16 with 65535 for noise, or as int32 if there are too many clusters.

    Examples
    --------
    >>> import numpy as np
    >>> from knoll.explorer.wire import wire_labels
    >>> wire_labels(np.array([0, 2, -1]))
    array([    0,     2, 65535], dtype=uint16)
    """
    if labels.max(initial=-1) >= NOISE16:
        return labels.astype(np.int32)
    return labels.astype(np.uint16)  # −1 is 65535 modulo 2¹⁶


def packed(mask: NDArray[Any]) -> NDArray[np.uint8]:
    """Return a mask as bits, the first row in the lowest bit."""
    return np.packbits(mask.astype(bool), bitorder="little")


def unpacked(bits: NDArray[Any], n: int) -> NDArray[np.bool_]:
    """Return the mask of n rows that `packed` made bits of."""
    if bits.dtype != np.uint8 or bits.shape != (-(-n // 8),):
        raise BadData(f"mask must have {-(-n // 8)} bytes for {n} rows, got {bits.dtype} of shape {bits.shape}.")
    return np.unpackbits(bits, count=n, bitorder="little").astype(bool)
