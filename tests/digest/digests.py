"""What is digested: labels as they are, and every fitted attribute but seconds, byte by byte."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse

from tests.digest.cases import answer, cases

__all__ = ["of_bits", "of_labels", "table"]


def of_labels(found: dict[str, Any]) -> str:
    """Digest the labels, or the class of the error."""
    labels = found.get("labels_", found.get("error", "no labels"))
    return _digest(np.asarray(labels, dtype=np.int64) if isinstance(labels, np.ndarray) else labels)


def of_bits(found: dict[str, Any]) -> str:
    """Digest all fitted attributes; times differ from run to run and are left out."""
    return _digest({name: value for name, value in found.items() if name != "history_"} | _history(found))


def table() -> Iterator[tuple[str, str, str]]:
    """Yield name, digest of labels and digest of all attributes of each case that this knoll has the estimator for."""
    for name, fit in cases():
        try:
            found = answer(fit)
        except AttributeError as error:
            if "module 'knoll' has no attribute" not in str(error):
                raise
            continue  # an earlier version
        yield name, of_labels(found), of_bits(found)


def _history(found: dict[str, Any]) -> dict[str, Any]:
    return {f"history_.{name}": values for name, values in found.get("history_", {}).items() if name != "seconds"}


def _digest(value: Any) -> str:
    return hashlib.blake2b(b"".join(_bytes(value)), digest_size=6).hexdigest()


def _bytes(value: Any) -> Iterator[bytes]:
    if scipy.sparse.issparse(value):
        value = {"data": value.data, "indices": value.indices, "indptr": value.indptr}
    if isinstance(value, dict):
        for name in sorted(value):
            yield name.encode()
            yield from _bytes(value[name])
    elif isinstance(value, np.ndarray) and value.dtype != object:
        yield f"{value.dtype}{value.shape}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif hasattr(value, "__dataclass_fields__"):
        yield from _bytes({name: getattr(value, name) for name in value.__dataclass_fields__})
    else:
        yield repr(value).encode()
