"""The preparation of a table for a model, to be repeated on new rows.

Where the table had categories, dates or numbers in other than plain figures, a `knoll.tables.Schema` belongs to it: its
encoded columns are the model's, and the indicators of one category are scaled together (`knoll.tables.mixed`).
"""

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
from knoll.tables.frames import is_frame
from knoll.tables.missing import MissingValues
from knoll.tables.mixed import block_fill, block_spread
from knoll.tables.schema import Column, Schema
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
        The median of each column, which stands in for a missing value; of a category the indicators of its most
        frequent level.
    schema : Schema or None
        The types of the columns; None where all are plain numbers.

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
    schema: Schema | None = None

    @classmethod
    def fit(
        cls,
        X: ArrayLike,
        columns: Sequence[str],
        *,
        scale: str = "standard",
        missing: str = "error",
        schema: Schema | None = None,
    ) -> Self:
        """Compute the scales from the rows of X, without missing values; their order does not matter.

        With a `schema` X is what its `apply(table).encode()` returned, and `columns` are the encoded ones.
        """
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
        if schema is not None and not schema.is_plain:
            return cls._fit_types(points, scale, missing, schema.only_used())
        measured = [_measures(column, scale) for column in points.T]
        center, spread, fill = zip(*measured) if measured else ((), (), ())
        if scale == "auto":
            scale = "common" if _comparable(spread, points) else "standard"
        if scale == "common":
            spread = (_common_spread(spread, points),) * len(spread)
        return cls(tuple(columns), scale, missing, center, spread, fill)

    @classmethod
    def unscaled(cls, columns: Sequence[str]) -> Self:
        """Return the preparation of complete rows that stay as they are, such as sparse ones."""
        count = len(columns)
        return cls(tuple(columns), "none", "error", (0.0,) * count, (1.0,) * count, (0.0,) * count)

    @classmethod
    def _fit_types(cls, points: Floats, scale: str, missing: str, schema: Schema) -> Self:
        """Scale numbers column by column, and the indicators of each category together."""
        count = len(schema.numeric)
        scale = "standard" if scale == "auto" else scale  # the columns have different units
        numbers = cls.fit(points[:, :count], schema.encoded[:count], scale=scale, missing=missing)
        center, spread, fill = [*numbers.center], [*numbers.spread], [*numbers.fill]
        for block in schema.blocks:
            indicators = points[:, block]
            width = indicators.shape[1]
            center += [0.0] * width if scale == "none" else indicators.mean(axis=0).tolist()
            spread += [1.0 if scale == "none" else block_spread(indicators)] * width
            fill += block_fill(indicators).tolist()
        return cls(schema.encoded, scale, missing, tuple(center), tuple(spread), tuple(fill), schema)

    def apply(self, X: Any) -> Floats:
        """Scale the rows of X, whose columns are those of the model; what is not finite stays so.

        X may be a data frame: its columns are found by their names, and missing values are treated as in the fit.
        """
        if is_frame(X):
            X = self._of_frame(X)
        refuse_masked(X, "X")
        points = np.array(X, dtype=np.float64, order="C", ndmin=2)
        if points.shape[1] != len(self.columns):
            raise BadData(f"X has {points.shape[1]} columns; the model takes {len(self.columns)}.")
        if self.scale != "none":
            with np.errstate(over="ignore", invalid="ignore"):
                points -= self.center
                points /= self.spread
        return points

    def _of_frame(self, X: Any) -> Any:
        """Return the columns of the model, encoded and complete; a frame without them as it is."""
        if self.schema is None:
            names = [str(name) for name in getattr(X, "columns", ())]
            if len(names) == len(self.columns) or not set(self.columns) <= set(names):
                return X
            schema = Schema(tuple(Column(name, "number") for name in self.columns))
        else:
            schema = self.schema
        return self.missing_values("X").apply(schema.apply(X).encode())[0]

    def missing_values(self, name: str, rule: str | None = None) -> MissingValues:
        """Return what is done about missing values of a table: as in the fit, unless there is another rule."""
        blocks = () if self.schema is None else self.schema.blocks
        sources = self.columns if self.schema is None else self.schema.sources
        return MissingValues(rule or self.missing, name, sources, self.fill, blocks=blocks)

    # ---- in a file -------------------------------------------------------------------------------------------------

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        lists = {name: list(getattr(self, name)) for name in ("columns", "center", "spread", "fill")}
        types = {} if self.schema is None else {"types": self.schema.plain()}
        return {"scale": self.scale, "missing": self.missing, **lists, **types}

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
                schema = _schema(plain["types"], columns) if "types" in plain else None
                if good:
                    return cls(tuple(columns), scale, missing, tuple(center), tuple(spread), tuple(fill), schema)
        raise Damage("the preparation of its data makes no sense")


def _schema(plain: Any, columns: Sequence[str]) -> Schema:
    try:
        schema = Schema.from_plain(plain)
    except BadData as error:
        raise Damage(str(error).rstrip(".")) from None
    if schema.encoded != tuple(columns) or len(schema.used) != len(schema.columns):
        raise Damage("the types of its columns are not those of its columns")
    return schema


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
