"""The bytes of a file or of standard input, with gzip and Zstandard undone."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from knoll.exceptions import BadData
from knoll.tables.limits import check_unpacked

__all__ = ["Input", "open_input"]

_CHUNK = 1 << 24  # bytes unpacked at a time
_START = 8  # bytes that identify the format
_CODECS = ((b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"))


@contextlib.contextmanager
def open_input(path: str | Path, name: str) -> Iterator[Input]:
    """Open a file, or standard input for "-"."""
    with _opened(path, name) as file:
        try:
            data = Input(file, name, regular=str(path) != "-" and Path(path).is_file())
        except OSError as error:
            raise _unreadable(error, name) from None
        yield data


class Input:
    """Bytes that can be read once in order or, where memory permits, in any order.

    Attributes
    ----------
    name : str
        Where they come from, for messages.
    start : bytes
        The first of them.
    path : str or None
        The file, if it is a regular one that is not packed: such a file can be opened again.
    """

    def __init__(self, file: IO[bytes], name: str, regular: bool) -> None:
        self.name, self.start = name, file.read(_START)
        self._packed = self._bytes = _Prefixed(self.start, file)
        self._codec = next((codec for magic, codec in _CODECS if self.start.startswith(magic)), None)
        if self._codec:
            unpacked = _Unpacker(self._packed, name, self._codec)
            self.start = unpacked.read(_START)
            self._bytes = _Prefixed(self.start, unpacked)
        self.path = str(file.name) if regular and not self._codec else None
        self._descriptor = file.fileno() if self.path is not None else None

    def stream(self) -> pa.NativeFile:
        """Return the bytes in order; those of a pipe, or of a packed file, once."""
        return self._native() or pa.PythonFile(self._bytes, mode="r")

    def read(self, size: int) -> bytes:
        """Read some bytes in order and keep them for `stream`."""
        sample = self._bytes.read(size)
        self._bytes.put_back(sample)
        return sample

    def random_access(self) -> pa.NativeFile:
        """Return the bytes in any order, from memory where they are not in a regular file."""
        return self._native() or pa.BufferReader(self._whole)

    @cached_property
    def size(self) -> int:
        """The bytes that all of it takes before it is unpacked by us."""
        return int(self.random_access().size())

    def _native(self) -> pa.NativeFile | None:
        """Open a regular file without Python, whose end the threads of a reader might outlive.

        By its number, as not every name can be encoded.
        """
        if self._descriptor is None:
            return None
        try:
            file = pa.OSFile(f"/dev/fd/{self._descriptor}")
            file.seek(0)
        except OSError:  # a system without /dev/fd
            return None
        return file

    @cached_property
    def _whole(self) -> pa.Buffer:
        """All bytes, in memory of Arrow's own: its threads may release that after Python has ended, too."""
        out, total = pa.BufferOutputStream(), 0
        while chunk := self._bytes.read(_CHUNK):
            total += len(chunk)
            if self._codec:  # a small file that unpacks to a huge one is found out on the way
                check_unpacked(total, self._packed.n_read, self.name)
            out.write(chunk)
        return out.getvalue()


@contextlib.contextmanager
def _opened(path: str | Path, name: str) -> Iterator[IO[bytes]]:
    if str(path) == "-":
        if sys.stdin is None:
            raise BadData("standard input is closed. Open it, or name a file.")
        yield sys.stdin.buffer
        return
    try:
        file = open(path, "rb")  # noqa: SIM115  (closed below; only opening it may fail here)
    except FileNotFoundError:
        raise BadData(f"There is no file {name}.") from None
    except (OSError, ValueError) as error:
        raise _unreadable(error, name) from None
    with file:
        yield file


def _unreadable(error: Exception, name: str) -> BadData:
    return BadData(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}.")


class _Prefixed(io.RawIOBase):
    """A file whose first bytes have been read already."""

    def __init__(self, start: bytes, file: Any) -> None:
        self._start, self._file = start, file
        self.n_read = 0  # bytes so far

    def readable(self) -> bool:
        return True

    def put_back(self, data: bytes) -> None:
        """Let these bytes be read once more."""
        self._start = data + self._start
        self.n_read -= len(data)

    def read(self, size: int = -1, /) -> bytes:
        """Read so many bytes; fewer only at the end."""
        if size is None or size < 0:
            got, self._start = self._start + self._file.read(), b""
        else:
            got, self._start = self._start[:size], self._start[size:]
            while len(got) < size and (more := self._file.read(size - len(got))):
                got += more
        self.n_read += len(got)
        return got


class _Unpacker:
    """A compressed stream whose damage is reported as such."""

    def __init__(self, packed: _Prefixed, name: str, codec: str) -> None:
        self._stream = pa.CompressedInputStream(pa.PythonFile(packed, mode="r"), codec)
        self._name, self._codec = name, codec

    def read(self, size: int = -1, /) -> bytes:
        try:
            data: bytes = self._stream.read(None if size < 0 else size)
        except OSError as error:
            raise BadData(f"{self._name} looks like {self._codec} and cannot be unpacked: {error}.") from None
        return data
