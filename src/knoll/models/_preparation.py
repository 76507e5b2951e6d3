"""The preparation of a table for a model, to be repeated on new rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from knoll._common.rescale import near_one, times_power
from knoll._typing import Floats
from knoll.exceptions import BadData, InvalidParameter
from knoll.models._format import Damage
from knoll.validation import refuse_masked

SCALES = ("standard", "robust", "common", "none")  # of a preparation; "auto" becomes one of them
_FEW = 3  # columns up to which a common factor is considered,
_ALIKE = 5.0  # if no standard deviation is more than this many times another one
MISSING = ("error", "drop", "median")


_MOST = float(np.finfo(np.float64).max)


@dataclass(frozen=True)
class Preparation:
    """Which columns of a table a model takes, and how they are scaled: (x − center) / spread, column by column.

    Attributes
    ----------
    columns : tuple of str
        The names of the columns, in the order of the model's.
    scale : {"standard", "robust", "common", "none"}
        "standard": the mean goes to 0 and the standard deviation to 1; "robust": the median to 0 and the distance
        between the quartiles to 1, or the standard deviation where half of the values are one and that distance is 0;
        "common": the means go to 0, and all columns are divided by the root mean square of their standard deviations,
        so that shapes stay as they are; "none": columns are left as they are. A constant column is only centered.
        `fit` also takes "auto": "common" for up to three columns whose standard deviations differ by at most a factor
        of 5, else "standard".
    missing : {"error", "drop", "median"}
        How missing values were treated.
    center, spread : tuple of float
        What is subtracted, and what is divided by.
    fill : tuple of float
        The median of each column, which stands in for a missing value.

    Examples
    --------
    >>> from knoll.models import Preparation
    >>> made = Preparation.fit([[1.0, 10.0], [3.0, 10.0]], ["a", "b"], scale="standard")
    >>> made.center, made.spread
    ((2.0, 10.0), (1.0, 1.0))
    >>> made.apply([[5.0, 11.0]])
    array([[3., 1.]])
    """

    columns: tuple[str, ...]
    scale: str
    missing: str
    center: tuple[float, ...]
    spread: tuple[float, ...]
    fill: tuple[float, ...]

    @classmethod
    def fit(cls, X: ArrayLike, columns: Sequence[str], *, scale: str = "standard", missing: str = "error") -> Self:
        """Compute the scales from the rows of X, without missing values; their order does not matter."""
        if scale not in ("auto", *SCALES):
            raise InvalidParameter(f"scale must be one of auto, {', '.join(SCALES)}, got {scale!r}.")
        if missing not in MISSING:
            raise InvalidParameter(f"missing must be one of {', '.join(MISSING)}, got {missing!r}.")
        refuse_masked(X, "X")
        points = np.asarray(X, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != len(columns) or not len(points) or not np.isfinite(points).all():
            raise BadData(
                f"X must be finite, with at least one row and a column for each of {len(columns)} names; "
                f"its shape is {points.shape}."
            )
        measured = [_measures(column, scale) for column in points.T]
        center, spread, fill = zip(*measured) if measured else ((), (), ())
        if scale == "auto":
            scale = "common" if _comparable(spread, points) else "standard"
        if scale == "common":
            spread = (_common_spread(spread, points),) * len(spread)
        return cls(tuple(columns), scale, missing, center, spread, fill)

    def apply(self, X: ArrayLike) -> Floats:
        """Scale the rows of X, whose columns are those of the model; what is not finite stays so."""
        refuse_masked(X, "X")
        points = np.array(X, dtype=np.float64, order="C", ndmin=2)
        if points.shape[1] != len(self.columns):
            raise BadData(f"X has {points.shape[1]} columns; the model takes {len(self.columns)}.")
        if self.scale != "none":
            with np.errstate(over="ignore", invalid="ignore"):
                points -= self.center
                points /= self.spread
        return points

    # ---- in a file -------------------------------------------------------------------------------------------------

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        lists = {name: list(getattr(self, name)) for name in ("columns", "center", "spread", "fill")}
        return {"scale": self.scale, "missing": self.missing, **lists}

    @classmethod
    def from_plain(cls, plain: Any) -> Self:
        """Read the result of `plain`, from an untrusted file."""
        match plain:
            case {
                "columns": list(columns), "scale": str(scale), "missing": str(missing), "center": list(center),
                "spread": list(spread), "fill": list(fill),
            }:  # fmt: skip
                numbers = [*center, *spread, *fill]
                good = (
                    all(isinstance(name, str) for name in columns)
                    and len({len(columns), len(center), len(spread), len(fill)}) == 1
                    and all(type(x) is float and math.isfinite(x) for x in numbers)
                    and all(x > 0 for x in spread)
                    and scale in SCALES
                    and missing in MISSING
                )
                if good:
                    return cls(tuple(columns), scale, missing, tuple(center), tuple(spread), tuple(fill))
        raise Damage("the preparation of its data makes no sense")


def _varying(spread: tuple[float, ...], points: Floats) -> Floats:
    """Return the standard deviations of the columns that are not constant."""
    return np.array(spread)[(points != points[:1]).any(axis=0)]


def _comparable(spread: tuple[float, ...], points: Floats) -> bool:
    varying = _varying(spread, points)
    return len(spread) <= _FEW and (not len(varying) or bool(varying.max() / _ALIKE <= varying.min()))


def _common_spread(spread: tuple[float, ...], points: Floats) -> float:
    """Return the root mean square of the standard deviations; a constant column has 0."""
    varying = _varying(spread, points)
    if not len(varying):
        return 1.0
    largest = float(varying.max())
    return largest * math.sqrt(math.fsum(np.square(varying / largest).tolist()) / len(spread))


def _measures(column: Floats, scale: str) -> tuple[float, float, float]:
    """Return centre, scale and median of a column; sums are rounded once, so that the order of rows does not matter."""
    values, exponent = near_one(column)  # squares stay within float64
    half = 0.5 if exponent > 1023 else 1.0  # the sum of the two middle values stays within float64
    median = float(np.median(half * column)) / half
    if scale == "none":
        return 0.0, 1.0, median
    center = math.fsum(values.tolist()) / len(values)
    spread = math.sqrt(math.fsum(np.square(values - center).tolist()) / len(values))
    if scale == "robust":
        low, center, high = (float(x) for x in np.quantile(values, [0.25, 0.5, 0.75]))
        spread = high - low or spread  # half of the rows may have one value, and the others still differ
    if spread < 1e-14 * abs(center) or spread == 0.0:  # rounding error of a constant column
        spread = 0.0
    if (values == values[0]).all():  # the mean may be one rounding away
        center, spread = float(values[0]), 0.0
    spread = min(float(times_power(spread, exponent)), _MOST)  # quartiles may be farther apart than the largest number
    return float(times_power(center, exponent)), spread or 1.0, median
