"""Type aliases that the whole package shares."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bools", "Codes", "Floats", "Hashes", "Indices", "Ints", "Labels"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]  # indices, counts; also labels where −1 is noise
Bools = NDArray[np.bool_]
Labels = NDArray[np.int32]  # clusters 0 … k − 1, as the core writes them
Codes = NDArray[np.int32]  # levels of a categorical column; −1 is missing
Indices = NDArray[np.intp]  # what NumPy indexes and sorts by
Hashes = NDArray[np.uint64]
