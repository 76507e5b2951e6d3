"""A case is a table, its weights and a set of parameters; family and seed determine all of it."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.forms import DENSE, in_form
from fuzz.tables import Table, draw_table, draw_weights

__all__ = ["SAME", "Case", "Family", "Law", "Refusal", "make_case"]

Rng = np.random.Generator
SAME: Any = object()  # "those of the case", where None has a meaning of its own


@dataclass(frozen=True)
class Refusal:
    """An error that is right for ordinary data: its message, when it may be raised, and why."""

    pattern: str  # a regular expression
    when: Callable[[Case], bool]
    reason: str


@dataclass(frozen=True)
class Family:
    """What is drawn, fitted and checked under one name."""

    name: str
    estimator: Callable[..., Any] | None  # None: nothing is fitted, laws call functions
    parameters: Callable[[Rng, Table], dict[str, Any]]
    laws: tuple[Law, ...]
    forms: tuple[str, ...] = tuple(DENSE)
    weighted: bool = True
    most_rows: int = 80
    most_columns: int = 8
    table: Callable[[Rng, int, int], Table] = draw_table
    refusals: tuple[Refusal, ...] = ()


@dataclass(frozen=True)
class Case:
    """One input of a family."""

    family: Family
    seed: int
    table: Table
    form: str
    weight_sort: str
    weights: NDArray[np.float64] | None
    parameters: dict[str, Any] = field(default_factory=dict)

    @property
    def X(self) -> NDArray[Any]:
        """The table as a C-contiguous array."""
        return self.table.X

    @property
    def ordinary(self) -> bool:
        """Whether neither the data nor the weights are near the limits of float64."""
        return self.table.ordinary and self.weight_sort in ("none", "ones", "integers", "with zeros", "reals")

    @property
    def present(self) -> NDArray[np.bool_]:
        """The rows of weight > 0."""
        return np.ones(len(self.X), dtype=bool) if self.weights is None else self.weights > 0

    @property
    def mass(self) -> NDArray[np.float64]:
        """The weights, ones where there are none."""
        return np.ones(len(self.X)) if self.weights is None else self.weights

    def rng(self, purpose: int) -> Rng:
        """Make the generator from which a law may draw: its draws do not depend on those of other laws."""
        return np.random.default_rng([zlib.crc32(self.family.name.encode()), self.seed, purpose])

    def make(self, **changes: Any) -> Any:
        """Make the estimator, unfitted."""
        assert self.family.estimator is not None
        return self.family.estimator(**{**self.parameters, **changes})

    def fit(self, X: Any = SAME, weights: Any = SAME, **changes: Any) -> Any:
        """Fit the estimator to the case's table in its form, or to another table, weights and parameters."""
        table = in_form(self.X, self.form) if X is SAME else X
        mass = self.weights if weights is SAME else weights
        model = self.make(**changes)
        return model.fit(table) if mass is None else model.fit(table, sample_weight=mass)

    def input(self, rows: slice = slice(None)) -> Any:
        """Return the table, or a slice of its rows, in the form of the case."""
        return self.formed(self.X[rows])

    def formed(self, X: Any) -> Any:
        """Return other rows in the form of the case."""
        return in_form(np.ascontiguousarray(X), self.form)

    def rows(self, kept: Any) -> Case:
        """Return the case with these rows only."""
        table = replace(self.table, X=np.ascontiguousarray(self.X[kept]))
        return replace(self, table=table, weights=None if self.weights is None else self.weights[kept])


Law = Callable[[Case, Any], "str | None"]


def make_case(family: Family, seed: int) -> Case:
    """Draw the case of a seed."""
    rng = np.random.default_rng([zlib.crc32(family.name.encode()), seed])
    table = family.table(rng, family.most_rows, family.most_columns)
    form = _form(rng, table, family.forms)
    sort, weights = draw_weights(rng, len(table.X)) if family.weighted else ("none", None)
    return Case(family, seed, table, form, sort, weights, family.parameters(rng, table))


def _form(rng: Rng, table: Table, forms: Sequence[str]) -> str:
    """Choose a form, half of the time a plain array.

    A list turns float32 into float64, and so does scikit-learn's validation where the bytes are swapped.
    """
    if rng.random() < 0.5:
        return "C"
    form = str(rng.choice(list(forms)))
    return "C" if form in ("list", "big-endian") and table.X.dtype == np.float32 else form
