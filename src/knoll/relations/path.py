"""A path from one algorithm to the other: a sequence of states, ready to be drawn, stepped through or animated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Frame", "Path"]


@dataclass(frozen=True)
class Frame:
    """One state on the way.

    Attributes
    ----------
    value : float
        Where on the path we are: the ε, the level, the power.
    title : str
        That value in words.
    labels : (n,) integers or None
        The partition here; −1 is noise.
    arrays : mapping of arrays
        What a picture of this state needs beside the points: means, responsibilities, positions, edges.
    """

    value: float
    title: str
    labels: NDArray[np.int64] | None
    arrays: Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Path:
    """The states from `source` to `target` on one data set, in order."""

    relation: str
    parameter: str  # what the frames' value is, with its symbol
    points: NDArray[np.float64]  # (n, d)
    frames: tuple[Frame, ...]

    def __len__(self) -> int:
        return len(self.frames)

    def __iter__(self) -> Iterator[Frame]:
        return iter(self.frames)

    def __getitem__(self, i: int) -> Frame:
        return self.frames[i]
