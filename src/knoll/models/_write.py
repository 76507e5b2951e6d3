"""A fitted estimator goes into a file: whole, or not at all."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from knoll.base import Estimator
from knoll.exceptions import InvalidType, ModelFileError
from knoll.models._classes import class_names, find_class
from knoll.models._format import (
    ENCODED,
    LOCATED,
    MAJOR,
    MINOR,
    PREFIX,
    RELABELED,
    TYPED,
    ArrayEntry,
    Damage,
    Prefix,
    aligned,
    dump,
    lay,
    parse,
)
from knoll.models._preparation import Preparation
from knoll.models._read import model_of
from knoll.models._relabeled import Relabeled, bare

_CHUNK = 1 << 24  # bytes
_SECONDS = "fitted.history_.seconds"  # of the clock: written as zeros, so that equal fits make equal files
_NO_DISK = (None, errno.EINVAL, errno.ENOTSUP)  # what fsync of a pipe or a buffer raises


def save(model: Any, path: str | os.PathLike[str], *, preparation: Preparation | None = None) -> None:
    """Save a fitted estimator in a .knoll file, which `knoll.load` reads; a file of that name is replaced.

    The file holds numbers, text and arrays, and nothing that runs. What is written is checked by the rules of
    `knoll.load` first, then written under another name and renamed when it is complete: at no time is there half a
    model under `path`. Equal fits make equal files: the seconds in `history_` are written as zeros.

    Parameters
    ----------
    model : estimator
        A fitted estimator of knoll, or a `knoll.models.Relabeled` one. One with a callable among its parameters (a
        start, a metric, a kernel), or with a random generator, is refused by name.
    path : str or path
        Where to.
    preparation : Preparation, optional
        What was done to the data before: kept in the file for `knoll predict` and `knoll.models.read`.

    Raises
    ------
    ModelFileError
        The model holds what a file cannot, or an attribute breaks a rule of its class, or the file cannot be written.

    Examples
    --------
    >>> import knoll
    >>> X = knoll.datasets.load("iris").X
    >>> model = knoll.KMeans(3, random_state=0).fit(X)
    >>> knoll.save(model, "iris.knoll")
    >>> again = knoll.load("iris.knoll")
    >>> bool((again.predict(X) == model.labels_).all())
    True
    """
    packed = _packed(model, preparation)  # raises an error before a file is opened
    target = Path(os.path.realpath(path))  # a link stays a link
    try:
        if target.exists() and not target.is_file() and not target.is_dir():
            with target.open("wb") as device:  # it cannot be replaced, only written to
                _put(packed, device)
            return
        scratch = target.with_name(f".{target.name}.{secrets.token_hex(8)}.part")
        with contextlib.ExitStack() as cleanup:
            with scratch.open("xb") as file:
                cleanup.callback(scratch.unlink, missing_ok=True)
                _put(packed, file)
            os.replace(scratch, target)
            cleanup.pop_all()
        _settle(target.parent)
    except OSError as error:
        raise ModelFileError(f"cannot write {path}: {error.strerror or error}. Choose another path.") from error


def write(model: Any, file: IO[bytes], *, preparation: Preparation | None = None) -> str:
    """Write a model into an open file, force it to the disk, and return its SHA-256."""
    return _put(_packed(model, preparation), file)


# ---- what is written -------------------------------------------------------------------------------------------------

_Packed = tuple[int, bytes, dict[str, NDArray[Any]], dict[str, ArrayEntry]]


def _packed(model: Any, preparation: Preparation | None) -> _Packed:
    """Convert a model to a major version, a header, arrays, and their entries."""
    relabeled = model if isinstance(model, Relabeled) else None
    model = bare(model)
    if not isinstance(model, Estimator):
        raise InvalidType(f"knoll.save takes a fitted estimator of knoll, got {model!r:.60}.")
    cls = type(model)
    if find_class(cls.__name__) is not cls:
        raise InvalidType(
            f"{cls.__module__}.{cls.__qualname__} is not a class that a model file can name: "
            f"{', '.join(class_names())} are."
        )
    _refuse_generators(model)
    try:
        state, arrays = model.to_state()
    except ModelFileError as error:
        raise ModelFileError(f"{cls.__name__} cannot be saved: {error}") from None
    if _SECONDS in arrays:
        arrays[_SECONDS] = np.zeros_like(arrays[_SECONDS])
    header = {name: state[name] for name in ("knoll", "class", "parameters", "fitted")}
    if preparation is not None:
        header["preparation"] = preparation.plain()
    if relabeled is not None:
        header["relabeling"] = relabeled.plain()
    try:
        entries = lay(arrays)
        text = dump({**header, "arrays": {name: entry._asdict() for name, entry in entries.items()}})
        model_of(parse(text), arrays)  # what is written can be read
    except Damage as error:
        raise ModelFileError(f"{cls.__name__} cannot be saved: {error}.") from None
    except UnicodeEncodeError:
        raise ModelFileError(f"{cls.__name__} cannot be saved: a text in it is not Unicode.") from None
    return _major(relabeled, preparation), text, arrays, entries


def _major(relabeled: Relabeled | None, preparation: Preparation | None) -> int:
    """Return the earliest version whose readers support all that the file has."""
    if preparation is not None and (preparation.positions or preparation.unit_rows):
        return LOCATED
    if preparation is not None and preparation.schema is not None:
        return TYPED if preparation.encoding == "indicators" and preparation.missing != "model" else ENCODED
    return MAJOR if relabeled is None else RELABELED


def _refuse_generators(model: Estimator) -> None:
    """Refuse a random generator by name: a state leaves it out, and a file must bring back what was saved."""
    for name, value in vars(model).items():
        if isinstance(value, np.random.RandomState | np.random.Generator):
            raise ModelFileError(
                f"{type(model).__name__} cannot be saved: {name} is {value!r:.60}, a random generator. "
                f"Call set_params({name}=None) first (the fit has used it), or fit with a whole number."
            )


# ---- bytes -----------------------------------------------------------------------------------------------------------


def _put(packed: _Packed, file: IO[bytes]) -> str:
    major, text, arrays, entries = packed
    end = max((entry.offset + entry.nbytes for entry in entries.values()), default=0)
    start = aligned(PREFIX + len(text))
    prefix = Prefix(major, MINOR, len(text), start + end + hashlib.sha256().digest_size)
    digest = hashlib.sha256()
    position = 0

    def put(data: bytes | memoryview) -> None:
        nonlocal position
        for i in range(0, len(data), _CHUNK):
            digest.update(data[i : i + _CHUNK])
            file.write(data[i : i + _CHUNK])
        position += len(data)

    put(prefix.packed())
    put(text)
    put(bytes(start - position))
    for name, entry in entries.items():
        put(bytes(start + entry.offset - position))
        array = arrays[name].astype(np.dtype(entry.dtype), copy=False)
        flat = np.ascontiguousarray(array.T if entry.order == "F" else array).reshape(-1)
        if flat.nbytes:
            put(flat.view(np.uint8).data)
    file.write(digest.digest())
    file.flush()
    try:
        os.fsync(file.fileno())
    except OSError as error:
        if error.errno not in _NO_DISK:
            raise
    return digest.hexdigest()


def _settle(folder: Path) -> None:
    """Force the new name to the disk too, where folders can be opened."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
