"""A path from one algorithm to another: a sequence of states, to draw or to animate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from knoll._typing import Floats, Ints


@dataclass(frozen=True)
class Frame:
    """One state on the path.

    Attributes
    ----------
    value : float
        The parameter of the path: ε, the level, the power.
    title : str
        The value as text.
    labels : (n,) integers or None
        The partition; −1 is noise.
    arrays : mapping of arrays
        Further data for a picture: means, responsibilities, positions, edges.
    """

    value: float
    title: str
    labels: Ints | None
    arrays: Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Path:
    """The states from `source` to `target` on one data set, in order."""

    relation: str
    parameter: str  # what the frames' value is, with its symbol
    points: Floats  # (n, d)
    frames: tuple[Frame, ...]

    def __len__(self) -> int:
        return len(self.frames)

    def __iter__(self) -> Iterator[Frame]:
        return iter(self.frames)

    def __getitem__(self, i: int) -> Frame:
        return self.frames[i]
