"""Processor time of a fit of the kernel methods, estimated before it runs.

The cost of a kernel value is measured on a subset of the rows. The number of values follows from the data, except for
the number of applications (steps), which is not known beforehand: hence the bounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll import _core
from knoll._typing import Floats
from knoll.kernels.functions import Kernel

_SAMPLE = 1024  # rows on which a product is timed
_BEST_OF = 3


def _best(work: Callable[[], Any]) -> float:
    """Time a call in processor time: the best of a few."""
    taken = []
    for _ in range(_BEST_OF):
        begun = time.process_time()
        work()
        taken.append(time.process_time() - begun)
    return max(min(taken), 1e-7)


def pair_seconds(kernel: Kernel, points: NDArray[Any], columns: int) -> float:
    """Time a pair of rows in a product K·B with this number of columns, on one thread."""
    subset = np.ascontiguousarray(points[np.linspace(0, len(points) - 1, min(len(points), _SAMPLE)).astype(np.intp)])
    operator: Any = kernel.operator(subset, 1)
    B = np.ones((len(subset), columns))
    return _best(lambda: operator.apply(B)) / (0.5 * len(subset) * (len(subset) + 1))


def knn_seconds(points: Floats, k: int) -> float:
    """Time the search for the k nearest rows of one row."""
    index = _core.Index(points, 0.0, "euclidean", 2.0, "auto", 1)
    subset = np.ascontiguousarray(points[np.linspace(0, len(points) - 1, min(len(points), _SAMPLE)).astype(np.intp)])
    distances, rows = np.empty((len(subset), k)), np.empty((len(subset), k), dtype=np.int64)
    return _best(lambda: index.knn(subset, k, distances, rows, 1)) / len(subset)
