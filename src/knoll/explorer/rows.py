"""Which rows: by number, by cluster, by values; as text in a script."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from knoll._typing import Bools, Ints
from knoll.exceptions import BadData, InvalidParameter
from knoll.explanation.columns import CategoryColumn
from knoll.explorer.source import Source
from knoll.explorer.state import Answer, Filter
from knoll.explorer.wire import packed, unpacked

__all__ = ["check_where", "mask_from_text", "mask_of_clusters", "mask_of_rows", "mask_to_text", "matching", "shown"]

_FEW = 20  # rows that a script names one by one
_WHERE = {"column", "low", "high", "values"}


def mask_of_rows(rows: Sequence[int] | str, n: int) -> Bools:
    """Return the mask of some rows, by their numbers or as `mask_to_text` wrote them."""
    if isinstance(rows, str):
        return mask_from_text(rows, n)
    chosen = np.asarray(rows, dtype=np.int64)
    if chosen.ndim != 1 or (len(chosen) and not 0 <= chosen.min() <= chosen.max() < n):
        raise BadData(f"rows must be numbers from 0 to {n - 1}.")
    mask = np.zeros(n, dtype=bool)
    mask[chosen] = True
    return mask


def mask_to_text(mask: Bools) -> list[int] | str:
    """Return a mask for a script: a few numbers, or compressed bits."""
    rows = np.flatnonzero(mask)
    if len(rows) <= _FEW:
        return [int(row) for row in rows]
    return base64.b85encode(zlib.compress(packed(mask).tobytes(), 9)).decode()


def mask_from_text(text: str, n: int) -> Bools:
    """Return the mask that `mask_to_text` wrote."""
    size = -(-n // 8)
    try:
        engine = zlib.decompressobj()
        bits = engine.decompress(base64.b85decode(text), size + 1)
    except (ValueError, zlib.error, binascii.Error):
        raise BadData("rows is no text that a script of the explorer has.") from None
    return unpacked(np.frombuffer(bits, dtype=np.uint8), n)


def mask_of_clusters(labels: Ints, clusters: Sequence[int]) -> Bools:
    """Return the rows of some clusters; −1 is the noise."""
    return np.isin(labels, list(clusters))


def check_where(where: Sequence[Any]) -> tuple[dict[str, Any], ...]:
    """Return conditions on columns, each a plain mapping of known names."""
    found = []
    for one in where:
        if not isinstance(one, Mapping) or not isinstance(one.get("column"), str) or not set(one) <= _WHERE:
            raise InvalidParameter(f"where: each condition has column, and low, high or values; got {one!r:.80}.")
        for side in ("low", "high"):
            value = one.get(side)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise InvalidParameter(f"where: {side} must be a number, got {value!r:.60}.")
        values = one.get("values")
        if values is not None and not (isinstance(values, list | tuple) and all(isinstance(v, str) for v in values)):
            raise InvalidParameter(f"where: values must be texts, got {values!r:.60}.")
        found.append(
            {key: list(value) if key == "values" else value for key, value in one.items() if value is not None}
        )
    return tuple(found)


def matching(source: Source, where: Sequence[Mapping[str, Any]]) -> Bools:
    """Return the rows that fulfil every condition; a missing value fulfils none."""
    mask = np.ones(len(source), dtype=bool)
    for one in where:
        column = source.column(one["column"])
        if isinstance(column, CategoryColumn):
            if "values" not in one:
                raise InvalidParameter(f"where: {column.name!r} is a category; it needs values.")
            levels = [at for at, level in enumerate(column.levels) if level in one["values"]]
            mask &= np.isin(column.codes, levels)
            continue
        if "values" in one:
            raise InvalidParameter(f"where: {column.name!r} is a number; it needs low or high.")
        with np.errstate(invalid="ignore"):
            mask &= (column.values >= one.get("low", -np.inf)) & (column.values <= one.get("high", np.inf))
    return mask


def shown(source: Source, filtered: Filter, answer: Answer | None) -> Bools:
    """Return the rows that a filter leaves."""
    mask = matching(source, filtered.where)
    if answer is not None:
        mask &= ~np.isin(answer.labels, filtered.hide)
        mask &= filtered.noise | (answer.labels >= 0)
    return mask
