"""An answer of a comparison, explained: the labels, the typed table, and refits of its model for the stability."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from knoll._typing import Floats, Ints
from knoll.base import collect_warnings
from knoll.exceptions import BadData
from knoll.explanation import Explanation
from knoll.explanation.columns import Columns, columns_of
from knoll.explanation.engine import check_options, explained, ids_of, names_of, weights_of
from knoll.explanation.stability import merged_like
from knoll.models._relabeled import Relabeled, bare
from knoll.neighbors import NearestRows

if TYPE_CHECKING:
    from knoll.comparison.result import Candidate, Comparison

__all__ = ["explain_answer"]

MOST_ROWS = 1000  # of a refit
_BY_ROWS = ("min_samples", "min_cluster_size")  # parameters that grow with the number of rows
_ERRORS = (ValueError, TypeError, ArithmeticError, RuntimeError, MemoryError)


def explain_answer(
    comparison: Comparison,
    chosen: Candidate,
    table: Any = None,
    *,
    names: Mapping[int, str] | None,
    ids: Any,
    sample_weight: Any,
    depth: int,
    rows: int,
    resamples: int,
    seconds: float | None,
) -> Explanation:
    """Explain an answer; `table` may have more columns than were compared."""
    check_options(depth, rows, resamples)
    read, source = _columns(comparison, table)
    if read.n_rows != len(chosen.labels):
        raise BadData(f"the table has {read.n_rows} rows, the comparison {len(chosen.labels)}.")
    points = None if comparison.X is None else comparison.scaling.apply(comparison.X)
    fit = None if points is None or not resamples else refit(chosen, points, seconds)
    if ids is None and comparison.index is not None:
        ids = comparison.index
    return explained(
        chosen.labels, read, weights=weights_of(sample_weight, read.n_rows), names=names_of(names, chosen.labels),
        ids=ids_of(ids, source, read.n_rows), depth=depth, rows=rows, resamples=resamples, seed=comparison.seed,
        points=points, fit=fit, most_rows=MOST_ROWS,
    )  # fmt: skip


def _columns(comparison: Comparison, table: Any) -> tuple[Columns, Any]:
    """Return the columns to describe, and the table that they are from."""
    own = comparison.table
    if table is None:
        source = own if own is not None else comparison.X
        return columns_of(source, None if own is not None else comparison.profile.columns), source
    known = comparison.profile.columns if own is None or own.schema is None else [c.name for c in own.schema.used]
    found = columns_of(table)
    there = [column.name for column in found.described]
    used = [name for name in known if name in there]
    return (columns_of(table, None, used) if used else found), table


def refit(chosen: Candidate, points: Floats, seconds: float | None) -> Callable[[Ints], Ints | None] | None:
    """Return a function that labels some rows by a model of the same setting fitted to them; None if there is none."""
    model = bare(chosen.model)
    if isinstance(model, NearestRows) or not hasattr(model, "get_params"):
        return None
    begun: list[float] = []  # when the first refit began

    def fit(rows: Ints) -> Ints | None:
        begun.append(time.perf_counter())
        if seconds is not None and begun[-1] - begun[0] > seconds:
            return None
        with collect_warnings():
            try:
                again = _like(model, len(rows) / max(1, chosen.fitted_rows)).fit(points[rows])
            except _ERRORS:
                return None
        labels = np.asarray(again.labels_, dtype=np.int64)
        return merged_like(labels, chosen.labels[rows]) if isinstance(chosen.model, Relabeled) else labels

    return fit


def _like(model: Any, share: float) -> Any:
    """Return an estimator of the same density: parameters that count rows shrink with them."""
    made = clone(model)
    counted = {name: value for name in _BY_ROWS if isinstance(value := getattr(model, name, None), int)}
    return made.set_params(**{name: max(2, round(value * share)) for name, value in counted.items()})
