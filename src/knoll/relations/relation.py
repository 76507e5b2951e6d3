"""What every arrow of the map has: a name, two ends, a sentence, a formula, and a certificate for any data."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from knoll.exceptions import BadData, InvalidParameter
from knoll.relations._rules import rules_of
from knoll.relations.certificate import Certificate
from knoll.relations.path import Path
from knoll.validation import Number, check_parameters, check_points

__all__ = ["Limit", "Relation"]

_FAR = 2.0**500  # the square of this, and of its inverse, still has room in float64


class Relation(ABC):
    """One algorithm turning into another.

    A subclass states itself in class attributes, names the parameters of `certify` with their defaults in `_defaults`
    (what they may be stands in _rules.py), and measures in `_certify`.
    """

    name: ClassVar[str]
    source: ClassVar[str]
    target: ClassVar[str]
    statement: ClassVar[str]
    formula: ClassVar[str]
    most_rows: ClassVar[int | None] = None  # what is dense or quadratic has a limit
    least_rows: ClassVar[int] = 2
    _defaults: ClassVar[Mapping[str, Any]] = {}

    def certify(self, X: ArrayLike, **parameters: Any) -> Certificate:
        """Measure the relation on X and hold every number against its limit."""
        points, chosen = self._checked(X, parameters)
        begun = time.perf_counter()
        certificate = self._certify(points, **chosen)
        return replace(certificate, seconds=time.perf_counter() - begun)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The parameters of `certify` and their defaults."""
        return dict(self._defaults)

    @abstractmethod
    def _certify(self, X: NDArray[np.float64], **parameters: Any) -> Certificate: ...

    def _checked(self, X: ArrayLike, parameters: Mapping[str, Any]) -> tuple[NDArray[np.float64], dict[str, Any]]:
        for given in parameters:
            if given not in self._defaults:
                raise InvalidParameter(
                    f"{self.name} has no parameter {given!r}. It takes: {', '.join(self._defaults) or 'none'}."
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
                "quadratic computation. Pass a sample of the rows, say X[::10]."
            )
        for scale in ("eps", "bandwidth", "sigma"):
            if (length := chosen.get(scale)) is not None and not 1 / _FAR <= length <= _FAR:
                raise InvalidParameter(
                    f"{self.name}: {scale} must lie between {1 / _FAR:.0e} and {_FAR:.0e}, got {length:g}: float64 "
                    f"cannot hold its square. Multiply X and {scale} by the same power of two."
                )
        self._refuse_extreme(points)
        return points, chosen

    def _refuse_extreme(self, points: NDArray[np.float64]) -> None:
        """Refuse data whose squared distances float64 cannot hold: there both sides would be rounding alone."""
        low, high = points.min(axis=0), points.max(axis=0)  # (d,)
        largest = float(np.maximum(np.abs(low), np.abs(high)).max())
        if largest > _FAR:
            raise BadData(
                f"{self.name}: X has values up to {largest:.3g}, whose squares leave float64. Divide X by a power of "
                "two near its largest value, which rounds nothing."
            )
        span = float((high - low).max())
        if 0 < span < 1 / _FAR:
            raise BadData(
                f"{self.name}: the rows of X lie within {span:.3g} of each other, and float64 cannot hold the squares. "
                f"Multiply X by a power of two near {1 / max(span, 1e-300):.0e}, which rounds nothing."
            )

    def _certificate(self, **fields: Any) -> Certificate:
        return Certificate(self.name, self.statement, **fields)

    def __repr__(self) -> str:
        return f"<relation {self.name}: {self.source} → {self.target}>"


class Limit(Relation):
    """A relation that is a limit or a sweep: there is a path to walk from one algorithm to the other."""

    def path(self, X: ArrayLike, steps: int = 24, **parameters: Any) -> Path:
        """Return the states on the way from one algorithm to the other."""
        check_parameters(self.name, {"steps": steps}, {"steps": (Number(2, whole=True),)})
        points, chosen = self._checked(X, parameters)
        return self._path(points, int(steps), **chosen)

    @abstractmethod
    def _path(self, X: NDArray[np.float64], steps: int, **parameters: Any) -> Path: ...
