"""The preparation of a table for a model, to be repeated on new rows.

Where the table had categories, dates or numbers in other than plain figures, a `knoll.tables.Schema` belongs to it: its
encoded columns are the model's, and the indicators of one category are scaled together (`knoll.tables.mixed`). A model
may take categories as scores instead (`knoll.tables.scores`), or as codes, with missing values as they are. Latitude
and longitude become coordinates first (`knoll.tables.positions`), which are scaled together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from knoll._typing import Floats
from knoll.exceptions import BadData, InvalidParameter
from knoll.models._format import Damage
from knoll.models._located import chosen_scale, located, of_length_one, with_one_factor
from knoll.models._measures import measured
from knoll.tables.frames import is_frame
from knoll.tables.missing import MissingValues
from knoll.tables.mixed import block_deviation, block_fill
from knoll.tables.positions import Position
from knoll.tables.schema import Column, Schema
from knoll.tables.scores import category_units, influences, score_loadings
from knoll.validation import refuse_masked

SCALES = ("standard", "robust", "common", "none")  # of a preparation; "auto" becomes one of them
MISSING = ("error", "drop", "median")  # of indicators; scores and codes also have "model"
ENCODINGS = ("indicators", "scores", "codes")


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
        of 5, and where all columns are positions, else "standard".
    missing : {"error", "drop", "median", "model"}
        How missing values were treated; "model": they stay, and `encoding` defines what becomes of them.
    center, spread : tuple of float
        What is subtracted, and what is divided by: of each column; of positions on a sphere a third number each follows
        those of the numeric columns.
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
    positions : tuple of Position
        Which columns are latitude and longitude, and what they become. Together they are scaled by one factor: their
        mean squared distance is that of two standardised columns.
    unit_rows : bool
        Whether rows are divided by their lengths first, so that distances are those of directions; with one factor for
        all columns they have the order of cosine distances.

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
    positions: tuple[Position, ...] = ()
    unit_rows: bool = False

    @classmethod
    def fit(
        cls,
        X: ArrayLike,
        columns: Sequence[str],
        *,
        scale: str = "standard",
        missing: str = "error",
        schema: Schema | None = None,
        unit_rows: bool = False,
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
        fill = () if not unit_rows else measured(list(points.T), "none")[3]
        points = of_length_one(points) if unit_rows else points
        scale, center, spread, medians = measured(list(points.T), scale)
        return cls(tuple(columns), scale, missing, center, spread, fill or medians, unit_rows=unit_rows)

    @classmethod
    def unscaled(cls, columns: Sequence[str]) -> Self:
        """Return the preparation of complete rows that stay as they are, such as sparse ones."""
        count = len(columns)
        return cls(tuple(columns), "none", "error", (0.0,) * count, (1.0,) * count, (0.0,) * count)

    @classmethod
    def _fit_types(cls, points: Floats, scale: str, missing: str, schema: Schema) -> Self:
        """Scale numbers column by column, and the indicators of each category together."""
        count = len(schema.numeric)
        positions = tuple(each.fitted(points) for each in schema.positions)
        numbers = located(points[:, :count], positions)
        scale = chosen_scale(scale, schema)
        scale, *lists = measured(list(numbers.T), scale)
        columns = list(numbers.T)
        center, spread = [*lists[0]], [*with_one_factor(columns, lists[1], positions, count, scale)]
        fill = [*lists[2][:count]]
        for each in positions:
            fill[each.latitude], fill[each.longitude] = each.center
        for block in schema.blocks:
            indicators = points[:, block]
            width = indicators.shape[1]
            center += [0.0] * width if scale == "none" else indicators.mean(axis=0).tolist()
            spread += [1.0 if scale == "none" else block_deviation(indicators)] * width
            fill += block_fill(indicators).tolist()
        return cls(
            schema.encoded, scale, missing, tuple(center), tuple(spread), tuple(fill), schema, positions=positions
        )

    @classmethod
    def for_haversine(cls, X: ArrayLike, schema: Schema | None, missing: str) -> Self:
        """Return the preparation of latitude and longitude for the haversine metric: radians, without other columns."""
        if schema is None or len(schema.positions) != 1 or len(schema.used) != 2:
            raise BadData(
                "metric='haversine' takes a table with a latitude and a longitude, in degrees, and nothing else. "
                "Choose them with --columns lat,lon, or by type: --types a=latitude,b=longitude."
            )
        schema = schema.only_used()
        position = replace(schema.positions[0], form="radians")
        fill = tuple(float(np.median(column)) for column in np.asarray(X, dtype=np.float64).T)
        return cls(schema.encoded, "none", missing, (0.0, 0.0), (1.0, 1.0), fill, schema, positions=(position,))

    @classmethod
    def fit_scores(cls, X: Floats, schema: Schema, *, scale: str = "standard", missing: str = "model") -> Self:
        """Compute the scales and the scores of a table with categories or missing values.

        X is what `schema.apply(table).encode()` returned, with NaN for missing values; its rows are in an order that
        does not matter, such as that of their contents. Every figure is that of the values which are there. Each column
        must have one.
        """
        schema = schema.only_used()
        positions = tuple(each.fitted(X) for each in schema.positions)
        X = located(X, positions, len(schema.numeric))
        count = len(schema.numeric) + sum(each.width - 2 for each in positions)  # of numbers, located
        observed = [column[np.isfinite(column)] for column in X.T]
        extra = count - len(schema.numeric)
        for name, values in zip(schema.sources, observed[: len(schema.numeric)] + observed[count:], strict=True):
            if not len(values):
                raise BadData(f"column {name!r} has no values. Leave it out with --columns.")
        # columns with categories beside them have different units
        scale = chosen_scale(scale, schema) if schema.categorical or positions else scale
        scale, center, spread, fill = measured(observed[:count], scale)
        _, means, units, _ = measured(observed[:count], "standard")
        columns = [X[:, j] for j in range(count)]
        spread = with_one_factor(columns, spread, positions, len(schema.numeric), scale)
        units = with_one_factor(columns, units, positions, len(schema.numeric), "standard")
        for block in (slice(each.start + extra, each.stop + extra) for each in schema.blocks):
            shares = np.array([values.mean() for values in observed[block]])  # of counts: the order does not matter
            means += tuple(shares.tolist())
            units += tuple(category_units(shares).tolist())
            fill += tuple(block_fill(X[:, block]).tolist())
        center, spread = center + means[count:], spread + units[count:]
        gaps = [*(means if missing == "model" else fill)]
        del gaps[len(schema.numeric) : count]
        for each in positions:
            gaps[each.latitude], gaps[each.longitude] = each.center
        made = cls(schema.encoded, scale, missing, center, spread, tuple(gaps), schema, "scores", positions=positions)
        return made._with_loadings(X, np.array(means), np.array(units))

    def _with_loadings(self, X: Floats, means: Floats, units: Floats) -> Self:
        """Add the loadings; they take the columns as `center` and `spread` leave them."""
        assert self.schema is not None
        Z = np.where(np.isfinite(X), X - means, 0.0) / units  # (n, D)
        loadings = score_loadings(Z, self.n_numbers, self.schema.levels) / units[:, None]
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
    def n_numbers(self) -> int:
        """How many columns are numbers when latitude and longitude are coordinates."""
        count = len(self.columns) if self.schema is None else len(self.schema.numeric)
        return count + sum(each.width - 2 for each in self.positions)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns that `apply` returns."""
        found: list[str] = [*self.columns]
        more: list[str] = []
        for each in self.positions:
            names = each.names(self.columns)
            found[each.latitude], found[each.longitude] = names[:2]
            more += names[2:]
        if self.schema is not None:
            found[len(self.schema.numeric) : len(self.schema.numeric)] = more
        if self.encoding == "indicators" or self.schema is None:
            return tuple(found)
        numbers = tuple(found[: self.n_numbers])
        if self.encoding == "codes":
            return numbers + tuple(column.name for column in self.schema.categorical)
        return numbers + tuple(f"score {j + 1} of the categories" for j in range(len(self.loadings[0])))

    @property
    def on_map(self) -> Position | None:
        """The position that all columns of the table are, so that a picture of the rows is a map; None if none is."""
        return self.positions[0] if len(self.columns) == 2 and self.positions else None

    def notes(self) -> tuple[str, ...]:
        """Report what was made of latitude and longitude, and of the lengths of rows."""
        if self.unit_rows:
            return ("Distances are those of directions: rows are divided by their lengths (cosine).",)
        return tuple(each.text(self.columns) for each in self.positions)

    def units(self, column: int) -> tuple[float, float]:
        """Return what is subtracted from a column of `names`, and what it is divided by."""
        if self.encoding != "indicators" and self.schema is not None and column >= self.n_numbers:
            return 0.0, 1.0
        return self.center[column], self.spread[column]

    def influences(self, X: Floats) -> dict[str, float]:
        """Return the share of each column of the table in the mean squared distance of two rows of X, for scores."""
        assert self.schema is not None
        loadings = np.array(self.loadings)[:-1].reshape(len(self.center), -1)
        X = located(X, self.positions, len(self.schema.numeric))
        Z = np.where(np.isfinite(X), (X - np.array(self.center)) / self.spread, 0.0)
        count, extra = len(self.schema.numeric), self.n_numbers - len(self.schema.numeric)
        blocks = [slice(each.start + extra, each.stop + extra) for each in self.schema.blocks]
        shares = influences(Z - Z.mean(axis=0), loadings, count + extra, blocks).tolist()
        for each in reversed(self.positions):  # what a third coordinate has counts for the latitude
            shares[each.latitude] += shares.pop(count + extra - 1) if each.width == 3 else 0.0
            extra -= each.width - 2
        return dict(zip((column.name for column in self.schema.used), shares, strict=True))

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
        if self.unit_rows:
            points = of_length_one(points)
        codes = self._codes(points) if self.encoding == "codes" else None
        if self.positions and self.schema is not None:
            points = located(points, self.positions, len(self.schema.numeric))
        if self.scale != "none" or self.encoding != "indicators":
            with np.errstate(over="ignore", invalid="ignore"):
                points -= self.center
                points /= self.spread
        if self.encoding == "indicators":
            return points
        assert self.schema is not None
        numbers = points[:, : self.n_numbers]
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
        if self.unit_rows:
            types |= {"unit_rows": True}
        if self.positions:
            types |= {"positions": [each.plain() for each in self.positions]}
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
                positions = _positions(plain.get("positions", []), len(columns))
                inner = len(columns) + sum(each.width - 2 for each in positions)
                good = (
                    all(isinstance(name, str) for name in columns)
                    and (len(center), len(spread), len(fill)) == (inner, inner, len(columns))
                    and all(type(x) is float and math.isfinite(x) for x in numbers)
                    and all(x > 0 for x in spread)
                    and scale in SCALES
                    and (missing in MISSING or (missing == "model" and plain.get("encoding") in ENCODINGS[1:]))
                )
                schema = _schema(plain["types"], columns) if "types" in plain else None
                pairs = () if schema is None else schema.positions
                good &= [_pair(each) for each in pairs] == [_pair(each) for each in positions]
                encoding, loadings = _encoding(plain, schema, inner)
                unit_rows = plain.get("unit_rows", False)
                good &= unit_rows is False or (unit_rows is True and schema is None)
                if good:
                    lists = tuple(columns), scale, missing, tuple(center), tuple(spread), tuple(fill)
                    return cls(*lists, schema, encoding, loadings, positions, unit_rows)
        raise Damage("the preparation of its data makes no sense")


def _positions(plain: Any, width: int) -> tuple[Position, ...]:
    """Read the positions, trusting nothing."""
    found = [Position.from_plain(each, width) for each in plain] if isinstance(plain, list) else [None]
    if None in found:
        raise Damage("the preparation of its data makes no sense")
    return tuple(each for each in found if each is not None)


def _pair(position: Position) -> tuple[int, int]:
    return position.latitude, position.longitude


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
