"""Tools to take model files apart and to forge them, check sum and all."""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any

MAGIC = b"\x89knoll\r\n"


def split(data: bytes) -> tuple[dict[str, Any], bytes]:
    """Header, and the bytes of the arrays."""
    (length,) = struct.unpack_from("<Q", data, 16)
    start = -(-(32 + length) // 64) * 64
    return json.loads(data[32 : 32 + length]), data[start:-32]


def forged(
    header: dict[str, Any] | bytes, arrays: bytes = b"", *, version: tuple[int, int] = (1, 0), length: int | None = None
) -> bytes:
    """A file with any header, well-formed around it: lengths and digest are right, or wrong as requested."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    start = -(-(32 + len(text)) // 64) * 64
    size = start + len(arrays) + 32
    prefix = struct.pack("<8sHHIQQ", MAGIC, *version, 0, len(text) if length is None else length, size)
    body = prefix + text + bytes(start - 32 - len(text)) + arrays
    return body + hashlib.sha256(body).digest()


def of_state(header: dict[str, Any], arrays: dict[str, Any]) -> bytes:
    """A file of any state, laid out as the format requires, its contents unchecked."""
    table, raw = {}, b""
    for name, array in arrays.items():
        raw += bytes(-len(raw) % 64)
        order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        entry = {"dtype": array.dtype.newbyteorder("<").str, "shape": list(array.shape), "order": order}
        table[name] = {**entry, "offset": len(raw)}
        raw += array.astype(array.dtype.newbyteorder("<")).tobytes(order)
    return forged({**header, "arrays": table}, raw)


def resigned(data: bytes) -> bytes:
    """The same bytes with a digest that fits them."""
    return data[:-32] + hashlib.sha256(data[:-32]).digest()
