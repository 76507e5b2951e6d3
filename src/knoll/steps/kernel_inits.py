"""The start of each run of kernel k-means, as labels: drawn, relaxed, or given as labels or rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll import seeding
from knoll.exceptions import InvalidParameter, InvalidType
from knoll.steps.kernel_means import Problem
from knoll.steps.kernel_start import closest_rows, gathered, kmeans_plus_plus, relaxed
from knoll.validation import refuse_masked

__all__ = ["Starts", "check_init", "runs_of"]

Labels = NDArray[np.int32]
Rows = NDArray[np.int64]

_STARTS = ("k-means++", "random", "spectral")
_INIT = "KernelKMeans: init must be 'k-means++', 'random', 'spectral', labels or row indices"
_RESTARTS = 10  # runs of n_init="auto" where the start is not chosen with care


def check_init(init: Any) -> None:
    """Refuse what is neither a name nor an array."""
    if isinstance(init, str):
        if init not in _STARTS:
            raise InvalidParameter(f"{_INIT}, got {init!r}.")
    elif not (hasattr(init, "__len__") or hasattr(init, "shape")):
        raise InvalidType(f"{_INIT}, got {init!r}.")


def runs_of(init: Any, n_init: Any) -> int:
    """Tell how many runs are made: a given start is one."""
    if n_init == "auto":
        return _RESTARTS if isinstance(init, str) and init == "random" else 1
    return int(n_init) if isinstance(init, str) else 1


class Starts:
    """The start of each run, as labels of the rows that count."""

    def __init__(
        self, init: Any, n_init: Any, k: int, problem: Problem, kept: Any, present: Rows | None, n: int, seed: int
    ) -> None:
        """Take up the parameters; `kept` are the points that count, None where K is given."""
        self._init, self._k, self._problem, self._seed = init, k, problem, seed
        self._present, self._n = present, n
        self.runs = runs_of(init, n_init)
        if isinstance(init, str):
            self._distinct = (
                gathered(problem) if kept is None else seeding.multiset(kept, problem.weights, problem.threads)
            )
        elif n_init not in ("auto", 1):
            warnings.warn(
                f"KernelKMeans: a start was given, so one run is made instead of n_init={n_init}.",
                RuntimeWarning,
                stacklevel=4,  # __init__, fit, all_or_nothing's guard, the caller
            )

    def __call__(self, restart: int) -> Labels:
        """Return the labels that run number `restart` begins with."""
        init = self._init
        if isinstance(init, str):
            if init == "random":
                rows = seeding.random_rows(self._distinct, self._k, self._seed, restart=restart)
            else:
                rows = kmeans_plus_plus(self._problem, self._distinct, self._k, self._seed, restart)
            labels = relaxed(self._problem, rows) if init == "spectral" else closest_rows(self._problem, rows)
        else:
            refuse_masked(init, "init")
            labels = self._given(np.asarray(init))
        return labels

    def _given(self, init: NDArray[Any]) -> Labels:
        """Take given labels or row indices through the door."""
        k, n = self._k, self._n
        if init.ndim != 1 or init.dtype.kind not in "iu" or len(init) not in (n, k):
            raise InvalidParameter(
                f"KernelKMeans: init must be labels of {n} rows or {k} row indices, all whole numbers, got an array of "
                f"shape {init.shape} and type {init.dtype}."
            )
        is_labels, below = len(init) == n, k if len(init) == n else n
        what = "labels" if is_labels else "row indices"
        bad = np.flatnonzero((init < 0) | (init >= below))
        if len(bad):
            raise InvalidParameter(
                f"KernelKMeans: init must be {what} from 0 to {below - 1}, got {init[bad[0]]} at place {bad[0]}."
            )
        if is_labels:
            return np.asarray(init if self._present is None else init[self._present], dtype=np.int32)
        rows = init.astype(np.int64)
        if self._present is not None:
            absent = np.setdiff1d(rows, self._present)
            if len(absent):
                raise InvalidParameter(
                    f"KernelKMeans: init names row {absent[0]}, whose sample_weight is 0. Begin with rows that count."
                )
            rows = np.searchsorted(self._present, rows)
        return closest_rows(self._problem, rows)
