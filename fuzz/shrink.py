"""Makes a failing case smaller: fewer rows, fewer columns, no weights, a plain array; and writes it as Python."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from fuzz.case import Case

__all__ = ["reproducer", "shrink"]

_SECONDS = 10.0


def shrink(case: Case, fails: Callable[[Case], bool]) -> Case:
    """Return a smaller case that fails by the same law, as far as a few seconds suffice."""
    deadline = time.monotonic() + _SECONDS
    moved = True
    while moved and time.monotonic() < deadline:
        moved = False
        for smaller in _smaller(case):
            if time.monotonic() > deadline:
                break
            if _still(smaller, fails):
                case, moved = smaller, True
                break
    return case


def _still(case: Case, fails: Callable[[Case], bool]) -> bool:
    try:
        return fails(case)
    except Exception:
        return False


def _smaller(case: Case) -> Iterator[Case]:
    """Yield cases that are one step simpler, the largest steps first."""
    n, d = case.X.shape
    if case.form != "C":
        yield replace(case, form="C")
    if case.weights is not None:
        yield replace(case, weights=None, weight_sort="none")
    size = n // 2
    while size >= 1:
        for begin in range(0, n, size):
            kept = np.r_[0:begin, min(n, begin + size) : n]
            if len(kept):
                yield case.rows(kept)
        size //= 2
    if d > 1 and not any(isinstance(value, np.ndarray) for value in case.parameters.values()):
        for column in range(d):
            table = replace(case.table, X=np.ascontiguousarray(np.delete(case.X, column, axis=1)))
            yield replace(case, table=table)
    with np.errstate(all="ignore"):
        rounded = _short(case.X)
    if not np.array_equal(rounded, case.X):
        yield replace(case, table=replace(case.table, X=rounded))


def _short(X: Any) -> Any:
    """Round entries to two digits."""
    if X.dtype.kind != "f":
        return X
    short = np.array([[float(f"{value:.2g}") for value in row] for row in X.tolist()]).reshape(X.shape).astype(X.dtype)
    return short if np.isfinite(short).all() else X


def reproducer(case: Case) -> str:
    """Write the case as a few lines of Python."""
    dtype = "" if case.X.dtype == np.float64 else f", dtype=np.{case.X.dtype}"
    lines = ["import numpy as np, knoll", f"X = np.array({_text(case.X)}{dtype})"]
    if case.form != "C":
        lines.append(f"X = fuzz.forms.in_form(X, {case.form!r})  # import fuzz.forms")
    weights = "" if case.weights is None else f", sample_weight={_text(case.weights)}"
    if case.family.estimator is None:
        weights = "" if case.weights is None else f"; weights = {_text(case.weights)}"
        return "\n".join([*lines, f"parameters = {case.parameters!r}{weights}"])
    arguments = ", ".join(f"{name}={_text(value)}" for name, value in case.parameters.items())
    name = getattr(case.family.estimator, "__name__", "estimator")
    return "\n".join([*lines, f"model = knoll.{name}({arguments}).fit(X{weights})"])


def _text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        flat = repr(value.tolist())
        return flat if len(flat) <= 600 else f"{flat[:600]}…"
    return repr(value)
