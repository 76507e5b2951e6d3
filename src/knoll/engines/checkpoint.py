"""A fit that can go on where it was interrupted: the results of its passes are written to a file.

What a fit does between its passes is a function of their results, its parameters and its seed. So a fit that reads the
results of the first passes from the file, and computes the others, ends with the bits of one that was never
interrupted, whatever the method is. Only passes are skipped: the little that is done between them is done again.

The file is a header and records, each with its length and a checksum; one that was cut off by a crash is left out.
Records are pickles of numbers and of the statistics of knoll; anything else in them is refused, so that a file can run
nothing.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from knoll import _core
from knoll._common.blocks import Block, BlockSource
from knoll._common.exact_sums import from_wire
from knoll._common.passes import Build, Partial, Passes, Prepare
from knoll.engines.choice import passes_by
from knoll.exceptions import BadData, EngineError, InvalidParameter

__all__ = ["Checkpoint"]

Result = TypeVar("Result")
_MAGIC = b"knoll checkpoint 1\n"
_RECORD = struct.Struct("<QI")  # bytes of a record, and their CRC-32
_NUMPY = {"ndarray", "dtype", "_reconstruct", "scalar", "_frombuffer"}
_IRRELEVANT = {"n_jobs", "verbose", "verbose_interval", "copy_x"}  # parameters that change no bit


class Checkpoint:
    """An engine for `fit_blocks` that writes what another one computes to a file, and goes on from there.

    Parameters
    ----------
    path : str or path
        The file. It is not removed at the end.
    engine : engine of `knoll.engines`, optional
        Who computes; None: this process.
    resume : bool, default=False
        Go on from the file, which must be of this fit; else it must not exist.

    Examples
    --------
    >>> import numpy as np
    >>> from tempfile import TemporaryDirectory
    >>> from knoll import KMeans
    >>> from knoll.engines import Checkpoint
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> model = KMeans(3, random_state=0)
    >>> with TemporaryDirectory() as folder:
    ...     path = f"{folder}/fit.checkpoint"
    ...     first = model.fit_blocks(lambda: [X], engine=Checkpoint(path)).inertia_
    ...     again = model.fit_blocks(lambda: [X], engine=Checkpoint(path, resume=True)).inertia_
    >>> first == again
    True
    """

    def __init__(self, path: str | os.PathLike[str], engine: Any = None, resume: bool = False) -> None:
        self.path, self.engine, self.resume = Path(path), engine, resume

    def passes(self, source: BlockSource, dtype: Any, threads: int) -> Passes:
        """Return passes whose results are written down."""
        inner = passes_by(self.engine, source, threads)
        log = _Log(self.path, _identity(source, inner), self.resume)
        return _Logged(inner, log)


class _Logged:
    """Passes whose results are read from the log as long as it has some, then computed and written there."""

    def __init__(self, inner: Passes, log: _Log) -> None:
        self._inner, self._log = inner, log
        self.columns, self.dtype, self.threads = inner.columns, inner.dtype, inner.threads
        self.names = getattr(inner, "names", None)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self._log.result("rows", lambda: int(self._inner.rows))

    def first(self) -> Block:
        """Return the first rows."""
        return self._inner.first()

    def total(self, partial: Partial[Any, Any], state: Any) -> Any:
        """Apply the partial step to every block and merge what it returns."""
        return self._log.result(f"total {_name(partial)}", lambda: self._inner.total(partial, state))

    def map(self, partial: Partial[Any, Any], state: Any) -> Iterator[Any]:
        """Apply the partial step to every block and yield what it returns, in the order of the rows."""
        yield from self._log.result(f"map {_name(partial)}", lambda: list(self._inner.map(partial, state)))

    def prepared(self, prepare: Prepare) -> _Logged:
        """Return passes over the rows that `prepare` makes of a block."""
        return _Logged(self._inner.prepared(prepare), self._log)


class _Log:
    """The file."""

    def __init__(self, path: Path, identity: dict[str, Any], resume: bool) -> None:
        self._path, self._header = path, _MAGIC + json.dumps(identity, sort_keys=True).encode() + b"\n"
        self._known: list[bytes] = []
        self._done = 0
        if resume:
            self._read(identity)
            return
        try:
            with path.open("xb") as file:
                file.write(self._header)
        except FileExistsError:
            raise InvalidParameter(
                f"the checkpoint {path} exists. Go on from it by resume (--resume), or remove it."
            ) from None
        except OSError as error:
            raise InvalidParameter(f"cannot write the checkpoint {path}: {error.strerror}.") from None

    def result(self, name: str, compute: Callable[[], Result]) -> Result:
        """Return the next result from the file, or compute it and add it there."""
        if self._done < len(self._known):
            found, value = self._loaded(self._known[self._done])
            if found != name:
                raise self._other(f"it has {found!r} where this fit has {name!r}")
            self._done += 1
            return value
        try:
            value = compute()
        except EngineError as error:
            raise EngineError(
                f"{error} The {self._done} passes before are in {self._path}: resume (--resume) goes on there."
            ) from error
        record = pickle.dumps((name, value), protocol=4)
        with self._path.open("ab") as file:
            file.write(_RECORD.pack(len(record), zlib.crc32(record)) + record)
        self._done += 1
        self._known.append(b"")
        return value

    def _read(self, identity: dict[str, Any]) -> None:
        """Read the records of an earlier run; cut off one that is not whole."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            raise BadData(f"There is no checkpoint {self._path} to go on from. Leave resume (--resume) out.") from None
        except OSError as error:
            raise BadData(f"cannot read the checkpoint {self._path}: {error.strerror}.") from None
        if not data.startswith(_MAGIC) or b"\n" not in data[len(_MAGIC) :]:
            raise BadData(f"{self._path} is not a checkpoint of this version of knoll.")
        end = data.index(b"\n", len(_MAGIC)) + 1
        if data[:end] != self._header:
            raise self._other(_difference(data[len(_MAGIC) : end], identity))
        while len(data) - end >= _RECORD.size:
            size, checksum = _RECORD.unpack_from(data, end)
            record = data[end + _RECORD.size : end + _RECORD.size + size]
            if len(record) < size or zlib.crc32(record) != checksum:
                break
            self._known.append(record)
            end += _RECORD.size + size
        if end < len(data):
            os.truncate(self._path, end)

    def _loaded(self, record: bytes) -> tuple[str, Any]:
        try:
            name, value = _Statistics(io.BytesIO(record)).load()
        except (pickle.UnpicklingError, ValueError, TypeError, AttributeError, EOFError) as error:
            raise BadData(f"the checkpoint {self._path} is damaged: {error}.") from None
        return name, value

    def _other(self, reason: str) -> BadData:
        return BadData(f"the checkpoint {self._path} is of another fit: {reason}. Remove it, or name another.")


class _Statistics(pickle.Unpickler):
    """Reads arrays, plain values and the statistics of knoll."""

    def find_class(self, module: str, name: str) -> Any:
        package = module.partition(".")[0]
        if package == "numpy" and name in _NUMPY:
            return super().find_class(module, name)
        if package == "knoll" and "." not in name:
            found = super().find_class(module, name)
            if found is from_wire or (isinstance(found, type) and (is_dataclass(found) or issubclass(found, tuple))):
                return found
        raise pickle.UnpicklingError(f"it names {module}.{name}")


# ---- which fit it is -----------------------------------------------------------------------------------------------


def _identity(source: BlockSource, passes: Passes) -> dict[str, Any]:
    """Describe a fit: whatever is different in another one whose results are not those of this."""
    estimator, build, first = source._estimator, Build.here(), passes.first().rows(0, _core.GRAIN)
    parameters = estimator.get_params(deep=False)
    seed = parameters.get("random_state", 0)
    if not isinstance(seed, int | np.integer):
        raise InvalidParameter(
            f"a checkpoint needs random_state to be a number, got {seed!r:.40}: each run would draw another start."
        )
    return {
        "knoll": build.version,
        "instruction set": build.instruction_set,
        "class": type(estimator).__name__,
        "parameters": {name: _described(value) for name, value in parameters.items() if name not in _IRRELEVANT},
        "columns": [] if source.names is None else list(source.names),
        "dtype": str(source.dtype),
        "files": [repr(file) for file in getattr(source.make_blocks, "parts", ())],
        "first rows": _described(first.points) + _described(first.weights),
    }


def _described(value: Any) -> str:
    if isinstance(value, np.ndarray | list | tuple):
        array = np.ascontiguousarray(value)
        return f"{array.dtype} {array.shape} {hashlib.sha256(array.tobytes()).hexdigest()[:32]}"
    if callable(value):
        return f"{value.__module__}.{getattr(value, '__qualname__', '')}"
    return repr(value)


def _difference(header: bytes, identity: dict[str, Any]) -> str:
    """Name what differs first."""
    try:
        before = json.loads(header)
        differs = next(name for name, value in identity.items() if before.get(name) != value)
    except (ValueError, AttributeError, StopIteration):
        return "its header is damaged"
    if differs == "parameters":
        names = [name for name, value in identity[differs].items() if before[differs].get(name) != value]
        differs = f"parameter {names[0]!r}" if names else differs
    return f"{differs} differs"


def _name(partial: Any) -> str:
    return f"{partial.__module__}.{partial.__qualname__}"
