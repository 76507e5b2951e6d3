"""The preparation of a table for a model, to be repeated on new rows.

Where the table had categories, dates or numbers in other than plain figures, a `knoll.tables.Schema` belongs to it: its
encoded columns are the model's, and the indicators of one category are scaled together (`knoll.tables.mixed`). A model
may take categories as scores instead (`knoll.tables.scores`), or as codes, with missing values as they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from knoll.tables.scores import category_units, influences, score_loadings
from knoll.validation import refuse_masked

SCALES = ("standard", "robust", "common", "none")  # of a preparation; "auto" becomes one of them
_FEW = 3  # columns up to which a common factor is considered,
_ALIKE = 5.0  # if no standard deviation is more than this many times another one
MISSING = ("error", "drop", "median")  # of indicators; scores and codes also have "model"
ENCODINGS = ("indicators", "scores", "codes")


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
    missing : {"error", "drop", "median", "model"}
        How missing values were treated; "model": they stay, and `encoding` says what becomes of them.
    center, spread : tuple of float
        What is subtracted, and what is divided by.
    fill : tuple of float
        The median of each column, which stands in for a missing value; of a category the indicators of its most
        frequent level.
    schema : Schema or None
        The types of the columns; None where all are plain numbers.
    encoding : {"indicators", "scores", "codes"}
        What the model takes for a category: scaled indicators; the scores that `loadings` make of all columns, with
        means for missing values; or the number of its level, with NaN for missing values.
    loadings : tuple of tuple of float
        For "scores", a row for each column and a last one that is added, with an entry for each score.

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
    encoding: str = "indicators"
    loadings: tuple[tuple[float, ...], ...] = ()

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
        scale, center, spread, fill = _measured(list(points.T), scale)
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

    @classmethod
    def fit_scores(cls, X: Floats, schema: Schema, *, scale: str = "standard", missing: str = "model") -> Self:
        """Compute the scales and the scores of a table with categories or missing values.

        X is what `schema.apply(table).encode()` returned, with NaN for missing values; its rows are in an order that
        does not matter, such as that of their contents. Every figure is that of the values which are there. Each column
        must have one.
        """
        schema = schema.only_used()
        count = len(schema.numeric)
        observed = [column[np.isfinite(column)] for column in X.T]
        for name, values in zip(schema.sources, observed, strict=True):
            if not len(values):
                raise BadData(f"column {name!r} has no values. Leave it out with --columns.")
        # columns with categories beside them have different units
        scale = "standard" if scale == "auto" and schema.categorical else scale
        scale, center, spread, fill = _measured(observed[:count], scale)
        _, means, units, _ = _measured(observed[:count], "standard")
        for block in schema.blocks:
            shares = np.array([values.mean() for values in observed[block]])  # of counts: the order does not matter
            means += tuple(shares.tolist())
            units += tuple(category_units(shares).tolist())
            fill += tuple(block_fill(X[:, block]).tolist())
        center, spread = center + means[count:], spread + units[count:]
        made = cls(
            schema.encoded, scale, missing, center, spread, means if missing == "model" else fill, schema, "scores"
        )
        return made._with_loadings(X, np.array(means), np.array(units))

    def _with_loadings(self, X: Floats, means: Floats, units: Floats) -> Self:
        """Add the loadings; they take the columns as `center` and `spread` leave them."""
        assert self.schema is not None
        Z = np.where(np.isfinite(X), X - means, 0.0) / units  # (n, D)
        loadings = score_loadings(Z, len(self.schema.numeric), self.schema.levels) / units[:, None]
        shift = np.array(self.center) - means
        rows = np.vstack([np.array(self.spread)[:, None] * loadings, shift @ loadings])  # (D + 1, r)
        return replace(self, loadings=tuple(tuple(row) for row in rows.tolist()))

    def with_codes(self) -> Self:
        """Return the preparation of a model that takes categories by the numbers of their levels."""
        return replace(self, encoding="codes", loadings=())

    @property
    def categorical(self) -> list[int]:
        """The columns that `apply` returns as codes of categories."""
        count = 0 if self.encoding != "codes" or self.schema is None else len(self.schema.categorical)
        return list(range(len(self.names) - count, len(self.names)))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns that `apply` returns."""
        if self.encoding == "indicators" or self.schema is None:
            return self.columns
        numbers = self.columns[: len(self.schema.numeric)]
        if self.encoding == "codes":
            return numbers + tuple(column.name for column in self.schema.categorical)
        return numbers + tuple(f"score {j + 1} of the categories" for j in range(len(self.loadings[0])))

    def units(self, column: int) -> tuple[float, float]:
        """Return what is subtracted from a column of `names`, and what it is divided by."""
        if self.encoding != "indicators" and self.schema is not None and column >= len(self.schema.numeric):
            return 0.0, 1.0
        return self.center[column], self.spread[column]

    def influences(self, X: Floats) -> dict[str, float]:
        """Return the share of each column of the table in the mean squared distance of two rows of X, for scores."""
        assert self.schema is not None
        loadings = np.array(self.loadings)[:-1].reshape(len(self.columns), -1)
        Z = np.where(np.isfinite(X), (X - np.array(self.center)) / self.spread, 0.0)
        shares = influences(Z - Z.mean(axis=0), loadings, len(self.schema.numeric), self.schema.blocks)
        return dict(zip((column.name for column in self.schema.used), shares.tolist(), strict=True))

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
        if self.encoding == "scores":
            points = np.where(np.isfinite(points), points, self.fill)
        codes = self._codes(points) if self.encoding == "codes" else None
        if self.scale != "none" or self.encoding != "indicators":
            with np.errstate(over="ignore", invalid="ignore"):
                points -= self.center
                points /= self.spread
        if self.encoding == "indicators":
            return points
        assert self.schema is not None
        numbers = points[:, : len(self.schema.numeric)]
        if codes is not None:
            return np.hstack([numbers, codes])
        loadings = np.array(self.loadings)  # (D + 1, r)
        return np.hstack([numbers, points @ loadings[:-1] + loadings[-1]])

    def _codes(self, points: Floats) -> Floats:
        """Return the number of the level of each category, NaN where it is missing, (n, q)."""
        assert self.schema is not None
        codes = np.empty((len(points), len(self.schema.blocks)))
        for j, block in enumerate(self.schema.blocks):
            indicators = points[:, block]
            level = indicators[:, 0] if indicators.shape[1] == 1 else indicators.argmax(axis=1)
            codes[:, j] = np.where(np.isfinite(indicators[:, 0]), level, np.nan)
        return codes

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
        types: dict[str, Any] = {} if self.schema is None else {"types": self.schema.plain()}
        if self.encoding != "indicators":
            types |= {"encoding": self.encoding, "loadings": [list(row) for row in self.loadings]}
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
                    and (missing in MISSING or (missing == "model" and plain.get("encoding") in ENCODINGS[1:]))
                )
                schema = _schema(plain["types"], columns) if "types" in plain else None
                encoding, loadings = _encoding(plain, schema, len(columns))
                if good:
                    lists = tuple(columns), scale, missing, tuple(center), tuple(spread), tuple(fill)
                    return cls(*lists, schema, encoding, loadings)
        raise Damage("the preparation of its data makes no sense")


def _encoding(plain: Any, schema: Schema | None, width: int) -> tuple[str, tuple[tuple[float, ...], ...]]:
    """Read the encoding and its loadings, trusting nothing."""
    encoding, rows = plain.get("encoding", "indicators"), plain.get("loadings", [])
    if encoding not in ENCODINGS or not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise Damage("the preparation of its data makes no sense")
    lengths = {len(row) for row in rows}
    numbers = (x for row in rows for x in row)
    good = (
        len(rows) == (width + 1 if encoding == "scores" else 0)
        and len(lengths) <= 1
        and (encoding == "indicators" or schema is not None)
        and all(type(x) is float and math.isfinite(x) for x in numbers)
    )
    if not good:
        raise Damage("the preparation of its data makes no sense")
    return str(encoding), tuple(tuple(row) for row in rows)


def _schema(plain: Any, columns: Sequence[str]) -> Schema:
    try:
        schema = Schema.from_plain(plain)
    except BadData as error:
        raise Damage(str(error).rstrip(".")) from None
    if schema.encoded != tuple(columns) or len(schema.used) != len(schema.columns):
        raise Damage("the types of its columns are not those of its columns")
    return schema


def _measured(
    columns: Sequence[Floats], scale: str
) -> tuple[str, tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
    """Return the scale that "auto" becomes, and centres, scales and medians of the columns."""
    measured = [_measures(column, scale) for column in columns]
    center, spread, fill = zip(*measured) if measured else ((), (), ())
    varying = np.array(spread)[[bool((column != column[:1]).any()) for column in columns]] if spread else np.zeros(0)
    if scale == "auto":
        scale = "common" if _comparable(varying, len(spread)) else "standard"
    if scale == "common":
        spread = (_common_spread(varying, len(spread)),) * len(spread)
    return scale, center, spread, fill


def _comparable(varying: Floats, count: int) -> bool:
    """Whether there are few columns, of similar standard deviations; `varying` has those of columns not constant."""
    return count <= _FEW and (not len(varying) or bool(varying.max() / _ALIKE <= varying.min()))


def _common_spread(varying: Floats, count: int) -> float:
    """Return the root mean square of the standard deviations; a constant column has 0."""
    if not len(varying):
        return 1.0
    largest = float(varying.max())
    return largest * math.sqrt(math.fsum(np.square(varying / largest).tolist()) / count)


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
