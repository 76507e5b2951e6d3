"""A file becomes a fitted estimator again; whatever it contains, no code is run and nothing large allocated."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import knoll
from knoll.base import Estimator, warn_caller
from knoll.exceptions import ModelFileError, SuspiciousResultWarning
from knoll.models._classes import class_names, find_class
from knoll.models._format import (
    DIGEST,
    LATEST,
    MAGIC,
    MAJOR,
    MOST_HEADER,
    PREFIX,
    ArrayEntry,
    Damage,
    Prefix,
    check_entries,
    is_text,
    parse,
)
from knoll.models._preparation import Preparation
from knoll.models._relabeled import Relabeled, clusters_of

_CHUNK = 1 << 20  # bytes


class Model(NamedTuple):
    """What a model file holds.

    Attributes
    ----------
    estimator : estimator
        The fitted estimator; a `Relabeled` one where its labels stand for other clusters.
    preparation : Preparation or None
        What was done to its data; None where the file has none.
    """

    estimator: Any
    preparation: Preparation | None


@dataclass(frozen=True)
class Info:
    """The description of a model file, without its arrays.

    Attributes
    ----------
    path : str
        The file.
    nbytes : int
        Its length.
    format : str
        The version of its format.
    knoll : str
        The version of knoll that wrote it.
    kind : str
        The class.
    parameters, fitted : dict
        Parameters and fitted attributes; an array by its dtype and shape.
    arrays : dict
        The bytes of each array.
    preparation : Preparation or None
        What was done to the data.
    clusters : tuple of int or None
        The cluster of each label of the estimator; None where labels are clusters.
    digest : str
        The SHA-256 of the contents, which was found to be right.
    """

    path: str
    nbytes: int
    format: str
    knoll: str
    kind: str
    parameters: dict[str, Any]
    fitted: dict[str, Any]
    arrays: dict[str, int]
    preparation: Preparation | None
    clusters: tuple[int, ...] | None
    digest: str


def load(path: str | os.PathLike[str]) -> Any:
    """Load the estimator that `knoll.save` wrote.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    estimator
        With the same parameters and fitted attributes, to the bit, but the seconds in `history_`, which are 0; a
        `knoll.models.Relabeled` one if it was.

    Raises
    ------
    ModelFileError
        The file is no model, of a later format, cut short, damaged, or makes no sense.

    Notes
    -----
    The check sum at the end finds damage. It does not authenticate the file: anybody can compute it. Nothing in a
    file is run, but numbers from a stranger are a stranger's numbers.

    Examples
    --------
    >>> import knoll
    >>> knoll.save(knoll.Gaussian().fit([[1.0], [3.0]]), "one.knoll")
    >>> knoll.load("one.knoll").mean_
    array([2.])
    """
    model = read(path)
    if model.preparation is not None and model.preparation.scale != "none":
        warn_caller(
            f"{os.fspath(path)}: the columns were scaled ({model.preparation.scale}) before this model was fitted, so "
            "it must be given scaled ones. knoll.models.read(path) returns the estimator and the preparation, whose "
            "apply(X) does it.",
            SuspiciousResultWarning,
        )
    return model.estimator


def read(path: str | os.PathLike[str]) -> Model:
    """Read a model file: the estimator, and the preparation of its data.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    Model
        estimator and preparation.

    Examples
    --------
    >>> import knoll
    >>> from knoll import models
    >>> X = [[1.0, 100.0], [3.0, 500.0], [2.0, 900.0]]
    >>> made = models.Preparation.fit(X, ["a", "b"], scale="robust")
    >>> models.save(knoll.KMeans(2, random_state=0).fit(made.apply(X)), "two.knoll", preparation=made)
    >>> model = models.read("two.knoll")
    >>> model.estimator.predict(model.preparation.apply(X)).shape
    (3,)
    """
    with _opened(path) as (file, prefix, header, _):
        entries = check_entries(header.get("arrays"), prefix.size)
        _class(header)  # before the arrays, which may be long
        arrays = {name: _array(file, prefix.arrays, name, entry) for name, entry in entries.items()}
        return model_of(header, arrays)


def inspect(path: str | os.PathLike[str]) -> Info:
    """Describe a model file without reading its arrays into memory; its check sum is verified.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    Info
        Class, parameters, sizes, versions, columns, digest.

    Examples
    --------
    >>> import knoll
    >>> from knoll import models
    >>> knoll.save(knoll.KMeans(2, random_state=0).fit([[1.0], [3.0], [4.0]]), "two.knoll")
    >>> info = models.inspect("two.knoll")
    >>> info.kind, info.parameters["n_clusters"], info.fitted["cluster_centers_"]
    ('KMeans', 2, 'float64 (2, 1)')
    """
    with _opened(path) as (_, prefix, header, digest):
        entries = check_entries(header.get("arrays"), prefix.size)
        sections = {name: header.get(name) for name in ("parameters", "fitted")}
        if not all(isinstance(section, dict) for section in sections.values()):
            raise Damage("its header has no parameters or no fitted attributes")
        shown = {
            name: {key: _shown(value, entries) for key, value in (section or {}).items()}
            for name, section in sections.items()
        }
        return Info(
            os.fspath(path),
            prefix.file,
            f"{prefix.major}.{prefix.minor}",
            _version(header),
            _class(header).__name__,
            shown["parameters"],
            shown["fitted"],
            {name: entry.nbytes for name, entry in entries.items()},
            _preparation(header),
            _clusters(header),
            digest,
        )


# ---- the file --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[tuple[IO[bytes], Prefix, dict[str, Any], str]]:
    """Open a file, verify it, and yield its prefix, header and digest; errors name the file."""
    name = os.fspath(path)
    header: dict[str, Any] = {}
    try:
        with Path(path).open("rb") as file:
            prefix, digest = _verified(file, name)
            file.seek(PREFIX)
            header = parse(_exactly(file, prefix.header))
            yield file, prefix, header, digest
    except FileNotFoundError:
        raise ModelFileError(f"There is no file {name}.") from None
    except OSError as error:
        raise ModelFileError(f"{name} cannot be read: {error.strerror or error}.") from None
    except Damage as damage:
        later = _version(header, strict=False)
        if _numbers(later) > _numbers(knoll.__version__):
            raise ModelFileError(
                f"{name} was written by knoll {later} and this is {knoll.__version__}, which does not know it all: "
                f"{damage}. Upgrade knoll."
            ) from None
        raise ModelFileError(f"{name} is damaged: {damage}. Save the model again.") from None


def _verified(file: IO[bytes], name: str) -> tuple[Prefix, str]:
    """Check magic, version, lengths and digest, in that order."""
    facts = os.fstat(file.fileno())
    if not stat.S_ISREG(facts.st_mode):
        raise ModelFileError(f"{name} is not a file on a disk. Copy it to one first.")
    start = file.read(PREFIX)
    if not start:
        raise ModelFileError(f"{name} is empty.")
    if start[: len(MAGIC)] != MAGIC[: len(start)]:
        raise ModelFileError(f"{name} is not a knoll model file: it begins with {start[:8]!r}. knoll.save writes one.")
    if len(start) < PREFIX:
        raise ModelFileError(f"{name} is cut short: it has only {len(start)} bytes. Copy it again.")
    prefix = Prefix.of(start)
    if not MAJOR <= prefix.major <= LATEST:
        raise ModelFileError(
            f"{name} has format {prefix.major}.{prefix.minor}, and knoll {knoll.__version__} reads {MAJOR}.x to "
            f"{LATEST}.x. Upgrade knoll."
        )
    if facts.st_size < prefix.file:
        raise ModelFileError(f"{name} is cut short: it has {facts.st_size} of {prefix.file} bytes. Copy it again.")
    if facts.st_size > prefix.file:
        raise ModelFileError(
            f"{name} has {facts.st_size - prefix.file} bytes after the end of the model. Copy it again."
        )
    digest = hashlib.sha256(start)
    left = prefix.file - PREFIX - DIGEST
    while left > 0:
        chunk = _exactly(file, min(left, _CHUNK))
        digest.update(chunk)
        left -= len(chunk)
    if left < 0 or _exactly(file, DIGEST) != digest.digest():
        raise ModelFileError(
            f"{name} is damaged: its contents do not match their SHA-256. Copy it again, or save the model again."
        )
    if prefix.header > MOST_HEADER or prefix.size < 0:
        raise Damage(f"its header has {prefix.header} bytes")
    return prefix, digest.hexdigest()


def _exactly(file: IO[bytes], count: int) -> bytes:
    data = file.read(count)
    if len(data) != count:
        raise Damage("it grew shorter while it was read")
    return data


def _array(file: IO[bytes], start: int, name: str, entry: ArrayEntry) -> NDArray[Any]:
    """Read an array whose entry has been checked against the length of the file."""
    raw = np.empty(entry.nbytes, dtype=np.uint8)
    file.seek(start + entry.offset)
    if raw.nbytes and file.readinto(raw.data) != raw.nbytes:  # type: ignore[attr-defined]
        raise Damage("it grew shorter while it was read")
    if entry.dtype == "|b1" and raw.max(initial=0) > 1:
        raise Damage(f"array {name!r} has an entry that is neither true nor false")
    if entry.dtype.startswith("<U") and not is_text(raw.view("<u4")):
        raise Damage(f"array {name!r} has a letter that is not Unicode")
    dtype = np.dtype(entry.dtype)
    if not raw.nbytes:
        return np.empty(entry.shape, dtype.newbyteorder("="), order=entry.order)  # type: ignore[call-overload]
    values = raw.view(dtype).astype(dtype.newbyteorder("="), copy=False)
    return values.reshape(entry.shape[::-1]).T if entry.order == "F" else values.reshape(entry.shape)


# ---- the model ------------------------------------------------------------------------------------------------------


def model_of(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Model:
    """Make the model that a header and arrays describe, or raise Damage: the rules of the reader and of the writer."""
    cls, preparation = _class(header), _preparation(header)
    try:
        estimator: Any = cls._of_state(header, arrays)
        if "relabeling" in header:
            estimator = Relabeled.from_plain(estimator, header["relabeling"])
        return Model(estimator, preparation)
    except Damage:
        raise
    except ModelFileError as error:
        raise Damage(_reason(error)) from None
    except Exception as error:  # whatever a strange header can bring about
        raise Damage(f"it makes no {cls.__name__} ({type(error).__name__}: {error})") from None


# ---- the header ------------------------------------------------------------------------------------------------------


def _class(header: dict[str, Any]) -> type[Estimator]:
    name = header.get("class")
    found = find_class(name) if isinstance(name, str) else None
    if found is None:
        raise Damage(f"its class is {name!r:.60}, which is none of {', '.join(class_names())}")
    return found


def _preparation(header: dict[str, Any]) -> Preparation | None:
    return Preparation.from_plain(header["preparation"]) if "preparation" in header else None


def _clusters(header: dict[str, Any]) -> tuple[int, ...] | None:
    """Return the clusters as the header lists them; `read` decides whether they fit the estimator."""
    return tuple(clusters_of(header["relabeling"])) if "relabeling" in header else None


def _version(header: dict[str, Any], *, strict: bool = True) -> str:
    version = header.get("knoll")
    if isinstance(version, str) and len(version) < 40:
        return version
    if strict:
        raise Damage("its header does not name the knoll that wrote it")
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d{1,9}", version)[:3])


def _reason(error: ModelFileError) -> str:
    """Take the middle out of a message that a state is damaged, and to save it again."""
    found = re.search(r"is damaged: (.*)\. Save the model again\.$", str(error), re.DOTALL)
    return found[1] if found else str(error)


def _shown(value: Any, entries: dict[str, ArrayEntry]) -> Any:
    """Return a packed value as a person reads it; arrays by dtype and shape."""
    match value:
        case {"array": str(path), "object": bool()} if path in entries:
            entry = entries[path]
            dtype = "text" if entry.dtype.startswith("<U") else np.dtype(entry.dtype).name
            return f"{dtype} ({', '.join(map(str, entry.shape))}{',' if len(entry.shape) == 1 else ''})"
        case {"scalar": str(path)} if path in entries:
            return f"{np.dtype(entries[path].dtype).name} scalar"
        case {"csr": list(), "shape": list(shape)}:
            return f"sparse {tuple(shape)!r}"
        case {"float": str(text)}:
            return text
        case {"mapping": dict(items)}:
            return {name: _shown(item, entries) for name, item in items.items()}
        case {"list": list(items)} | {"tuple": list(items)}:
            return [_shown(item, entries) for item in items]
        case dict():
            raise Damage(f"its header has the unknown entry {value!r:.60}")
        case _:
            return value
