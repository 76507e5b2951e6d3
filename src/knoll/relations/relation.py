"""The base class of the relations: a name, two methods, a statement, a formula, and a certificate for any data."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from knoll._typing import Floats
from knoll.exceptions import BadData, InvalidParameter
from knoll.relations._rules import rules_of
from knoll.relations.certificate import Certificate
from knoll.relations.path import Path
from knoll.validation import Number, check_parameters, check_points

_LARGEST = 2.0**500  # its square, and that of its inverse, are finite in float64


class Relation(ABC):
    """A relation between two algorithms.

    A subclass defines its statement in class attributes, the parameters of `certify` with their defaults in `_defaults`
    (their constraints are in _rules.py), and the measurement in `_certify`.
    """

    name: ClassVar[str]
    source: ClassVar[str]
    target: ClassVar[str]
    statement: ClassVar[str]
    formula: ClassVar[str]
    most_rows: ClassVar[int | None] = None  # a limit for dense or quadratic computations
    least_rows: ClassVar[int] = 2
    _defaults: ClassVar[Mapping[str, Any]] = {}

    def certify(self, X: ArrayLike, **parameters: Any) -> Certificate:
        """Measure the relation on X and compare every number with its limit."""
        points, chosen = self._checked(X, parameters)
        begun = time.perf_counter()
        certificate = self._certify(points, **chosen)
        return replace(certificate, seconds=time.perf_counter() - begun)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The parameters of `certify` and their defaults."""
        return dict(self._defaults)

    @abstractmethod
    def _certify(self, X: Floats, **parameters: Any) -> Certificate: ...

    def _checked(self, X: ArrayLike, parameters: Mapping[str, Any]) -> tuple[Floats, dict[str, Any]]:
        for name in parameters:
            if name not in self._defaults:
                raise InvalidParameter(
                    f"{self.name} has no parameter {name!r}. It takes: {', '.join(self._defaults) or 'none'}."
                )
        chosen = {**self._defaults, **parameters}
        check_parameters(self.name, chosen, rules_of(self._defaults))
        points = np.ascontiguousarray(check_points(X), dtype=np.float64)
        n = len(points)
        if n < self.least_rows:
            raise BadData(f"{self.name} needs at least {self.least_rows} rows, got {n}.")
        if self.most_rows is not None and n > self.most_rows:
            raise BadData(
                f"{self.name} is measured on at most {self.most_rows} rows, got {n}: it compares with a dense or "
                "quadratic computation. Pass a sample of the rows, such as X[::10]."
            )
        for scale in ("eps", "bandwidth", "sigma"):
            if (length := chosen.get(scale)) is not None and not 1 / _LARGEST <= length <= _LARGEST:
                raise InvalidParameter(
                    f"{self.name}: {scale} must lie between {1 / _LARGEST:.0e} and {_LARGEST:.0e}, got {length:g}: its "
                    f"square overflows or underflows. Multiply X and {scale} by the same power of two."
                )
        self._refuse_extreme(points)
        return points, chosen

    def _refuse_extreme(self, points: Floats) -> None:
        """Raise an error for data whose squared distances overflow or underflow."""
        low, high = points.min(axis=0), points.max(axis=0)  # (d,)
        largest = float(np.maximum(np.abs(low), np.abs(high)).max())
        if largest > _LARGEST:
            raise BadData(
                f"{self.name}: X has values up to {largest:.3g}, whose squares overflow. Divide X by a power of two "
                "near its largest value, which is exact."
            )
        span = float((high - low).max())
        if 0 < span < 1 / _LARGEST:
            raise BadData(
                f"{self.name}: the rows of X lie within {span:.3g} of each other, and the squares underflow. "
                f"Multiply X by a power of two near {1 / max(span, 1e-300):.0e}, which is exact."
            )

    def _certificate(self, **fields: Any) -> Certificate:
        return Certificate(self.name, self.statement, **fields)

    def __repr__(self) -> str:
        return f"<relation {self.name}: {self.source} → {self.target}>"


class Limit(Relation):
    """A relation that is a limit: it has a path from one algorithm to the other."""

    def path(self, X: ArrayLike, steps: int = 24, **parameters: Any) -> Path:
        """Return the states between one algorithm and the other."""
        check_parameters(self.name, {"steps": steps}, {"steps": (Number(2, whole=True),)})
        points, chosen = self._checked(X, parameters)
        return self._path(points, int(steps), **chosen)

    @abstractmethod
    def _path(self, X: Floats, steps: int, **parameters: Any) -> Path: ...
