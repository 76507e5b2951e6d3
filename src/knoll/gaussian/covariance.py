"""The types of covariance: one class each, with the same methods, so that no caller has to branch.

Full, every Σ_c free (docs/theory/01-gaussian.md); Tied, one Σ for all; Diagonal; Spherical; Fixed, Σ_c = εI fixed.
To add one, write its class here, enter it into `COVARIANCE_TYPES`, and add its line to the docstring of GaussianMixture
and to docs/theory/02-gaussian-mixture.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from knoll import _core
from knoll._schema import no_factor, no_variances
from knoll._typing import Floats, Ints
from knoll.gaussian import factorisation
from knoll.gaussian.moments import (
    FLOOR,
    LEAST,
    NOTHING,
    SCATTER_COLUMNS,
    SCATTER_FULL,
    SCATTER_NONE,
    Moments,
    positive_scale,
    rounding_of,
    variances_of,
    without_rounding,
)

_FULL, _TIED, _DIAGONAL, _ISOTROPIC = range(4)  # the shapes of the E step, as the kernels number them
# Squared whitened distance of a mean from the origin. Up to here the tied Σ may be taken as a difference of two large
# matrices, which costs the logarithm of this many of float64's sixteen digits.
_NEAR = 1e4

Pairs = tuple[tuple[int, int], ...]  # (component, column)


class Covariance(ABC):
    """k Gaussians whose covariances are of one type: what EM and its callers use.

    A subclass and its entry in `COVARIANCE_TYPES` add a type. Class methods take arrays in scikit-learn's shape, that
    of `covariances_`.
    """

    sides: ClassVar[str]  # of `covariances_`, such as "k d d"
    own_matrices: ClassVar[bool] = False  # each component has a matrix of its own
    isotropic: ClassVar[bool] = False  # one variance for all columns, which therefore keep one unit
    pooled_matrix: ClassVar[bool] = False  # EM needs the covariance matrix of all rows, not only their variances
    free_type: ClassVar[str | None] = None  # set where the variance is fixed: the type that estimates it
    compared: ClassVar[tuple[str, ...]] = ()  # by `knoll.compare`, on tables of "numbers" and on "mixed" ones

    means: Floats  # (k, d) μ_c

    # ---- the state of EM -------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def scatter(self) -> int:
        """Which second moments the M step needs."""

    @property
    @abstractmethod
    def floored(self) -> Pairs:
        """The (component, column) pairs where eigenvalues were clipped; component −1: the one that all share."""

    @property
    @abstractmethod
    def constrained(self) -> Pairs:
        """The pairs that were ever clipped: they stay above the floor from then on, which keeps the ascent."""

    @property
    @abstractmethod
    def covariances_(self) -> Floats:
        """The covariances in scikit-learn's shape."""

    @property
    def precisions_(self) -> Floats:
        """Their inverses, in the same shape."""
        return 1.0 / self.covariances_

    @property
    def precisions_cholesky_(self) -> Floats:
        """The upper triangles U with Σ⁻¹ = UUᵀ, in the same shape."""
        return 1.0 / np.sqrt(self.covariances_)

    @abstractmethod
    def update(self, stats: Moments) -> Self:
        """Return the covariance that maximises the likelihood of the components' moments (the M step)."""

    @abstractmethod
    def with_floor(self, components: Collection[int], scale: Floats) -> Self:
        """Return the same with the components clipped at the floor, and kept above it from now on."""

    def prepared(self, direct: bool) -> Self:
        """Choose how the next pass is made; `direct`: the responsibilities of a point may not add up to 1."""
        return self

    @abstractmethod
    def change_from(self, old: Self) -> float:
        """Return the largest change: of means in standard deviations, of covariances relative to the variances."""

    @abstractmethod
    def moved(self, origin: Floats, scale: float) -> Self:
        """Return the same Gaussians for the points (x − origin)·scale, scale a power of two."""

    @abstractmethod
    def singular_without(self, reg_covar: float | Floats, variances: Floats) -> dict[int, int]:
        """Find the components that reg_covar alone keeps from being singular, and the first column where it shows.

        `variances` (d,) are those of all rows. A component −1 is the one that all share.
        """

    # ---- densities -------------------------------------------------------------------------------------------------

    def log_norms(self) -> Floats:
        """Return −½ log |2πΣ_c| as a (k,) array."""
        norms: Floats = -0.5 * (self.means.shape[1] * np.log(2 * np.pi) + self._log_dets())
        return norms

    @abstractmethod
    def _log_dets(self) -> Floats: ...

    @abstractmethod
    def kernel(self) -> tuple[int, Floats, Floats]:
        """Return shape, means and factors as `_core.add_mixture` reads them."""

    def log_density(self, X: NDArray[Any], threads: int, origin: Floats | None = None, scale: float = 1.0) -> Floats:
        """Return log N(y_i | μ_c, Σ_c) as an (n, k) array (the logarithm of eq. 1.1), y = (x − origin)·scale."""
        shape, means, factors = self.kernel()
        k, d = self.means.shape
        origin = np.zeros(d) if origin is None else origin
        densities = np.empty((len(X), k))
        nobody = (None, None, None)
        _core.expect_mixture(
            X, shape, origin, scale, means, factors, self.log_norms(), -np.inf, *nobody, densities, threads
        )
        return densities

    # ---- where EM starts -------------------------------------------------------------------------------------------

    @classmethod
    def blank(cls, variance: float | None = None) -> Self:
        """Make one that has no means yet; `variance` is the fixed one, None for types that estimate it."""
        return cls()

    def with_pooled(self, means: Floats, covariance: Floats, deviations: Floats, scale: float) -> Self:
        """Return components at the means (k, d) that all have the pooled covariance, before the first M step.

        It is (d, d), or (d,) the variances for types that need no more. `scale` is the unit that a variance which is
        fixed is brought into.
        """
        k = len(means)
        stats = Moments(np.ones(k), means, np.repeat(covariance[None], k, axis=0), deviations)
        # It stands in for the covariances of the first M step. That step adds reg_covar, which this one does not, so
        # what was clipped here need not be clipped there.
        return replace(type(self)().update(stats), floored=(), constrained=())  # type: ignore[type-var]

    def at_least(self, variance: float) -> Self:
        """Return the same with a fixed variance raised to this one; the others are estimated."""
        return self

    def narrow(self, means: Floats, factor: float) -> Self:
        """Return components at the means (k, d) with standard deviation 1/factor in every direction."""
        return self.from_precisions_cholesky(means, np.full(self.shape_of(*means.shape), factor))

    @classmethod
    @abstractmethod
    def from_precisions_cholesky(
        cls, means: Floats, precisions_cholesky: Floats, variance: float | None = None
    ) -> Self:
        """Build from U with Σ⁻¹ = UUᵀ; from `variance`, which no root has rounded, where that is fixed."""

    @classmethod
    @abstractmethod
    def from_precisions(cls, means: Floats, precisions: Floats) -> Self:
        """Build from Σ⁻¹."""

    # ---- arrays in scikit-learn's shape ----------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def n_parameters(cls, k: int, d: int) -> int:
        """Count the free numbers of k covariances in d dimensions."""

    @classmethod
    def shape_of(cls, k: int, d: int) -> tuple[int, ...]:
        """Return the shape of `covariances_`."""
        return tuple({"k": k, "d": d}[side] for side in cls.sides.split())

    @classmethod
    @abstractmethod
    def diagonals(cls, array: Floats) -> Floats:
        """Return the diagonals of all components; they broadcast to (k, d)."""

    @classmethod
    def as_matrices(cls, array: Floats, k: int, d: int) -> Floats:
        """Return the array as k matrices, (k, d, d), which may be read-only."""
        return cls.diagonals(array)[:, :, None] * np.eye(d)

    @classmethod
    def covariance_powers(cls, powers: Ints) -> Ints:
        """Return the powers of two of the entries of Σ where the columns of X have these powers (d,)."""
        return 2 * cls.factor_powers(powers)

    @classmethod
    def factor_powers(cls, powers: Ints) -> Ints:
        """Return the same for its factor L, Σ = LLᵀ; U of Σ⁻¹ = UUᵀ has minus those."""
        return powers

    @classmethod
    def color(cls, rows: Floats, means: Floats, factors: Floats, component: int, threads: int) -> None:
        """Turn standard normal rows into rows of one component, in place; `factors` are `precisions_cholesky_`."""
        rows[:] = means[component] + rows / factors[component]

    @classmethod
    def covariance_fault(cls, array: Floats) -> str:
        """Return what is wrong with covariances or precisions, "" where nothing is."""
        return "" if (array >= 0).all() else "has a negative variance"

    @classmethod
    def factor_fault(cls, array: Floats) -> str:
        """Return what is wrong with `precisions_cholesky_`, "" where nothing is."""
        return "" if (array > 0).all() else "has entries that are not > 0"

    @classmethod
    def precision_fault(cls, array: Floats) -> str:
        """Return what the precisions of a start should be, "" where they are."""
        return "" if (array > 0).all() else f"positive, got {array.min():.5g}."

    @classmethod
    def collapse_reason(cls, column: str) -> str:
        """Return why a component is singular, where this column shows it first."""
        return f"column {column} is constant in it, or a combination of the columns before it"


def _nothing() -> Floats:
    return np.zeros(0)


class _Matrices(Covariance):
    """What types with matrices share."""

    pooled_matrix: ClassVar[bool] = True

    @classmethod
    def diagonals(cls, array: Floats) -> Floats:
        """(k, d), or (d,) of a matrix that all share."""
        return array.diagonal(axis1=-2, axis2=-1)

    @classmethod
    def as_matrices(cls, array: Floats, k: int, d: int) -> Floats:
        """(k, d, d), read-only."""
        return np.broadcast_to(array, (k, d, d))

    def narrow(self, means: Floats, factor: float) -> Self:
        """Return components at the means (k, d) with standard deviation 1/factor in every direction."""
        k, d = means.shape
        return self.from_precisions_cholesky(means, np.broadcast_to(factor * np.eye(d), self.shape_of(k, d)))

    @classmethod
    def covariance_powers(cls, powers: Ints) -> Ints:
        """(d, d)."""
        return powers[:, None] + powers

    @classmethod
    def factor_powers(cls, powers: Ints) -> Ints:
        """(d, 1)."""
        return powers[:, None]

    @classmethod
    def color(cls, rows: Floats, means: Floats, factors: Floats, component: int, threads: int) -> None:
        """Multiply by L, Σ = LLᵀ."""
        factor = factors if factors.ndim == 2 else factors[component]
        lower = np.empty(factor.shape)
        _core.invert_lower(np.ascontiguousarray(factor.T), lower)
        _core.colour(rows, means[component], lower, threads)

    @classmethod
    def covariance_fault(cls, array: Floats) -> str:
        """Return what is wrong with covariances or precisions, "" where nothing is."""
        return no_variances(array)

    @classmethod
    def factor_fault(cls, array: Floats) -> str:
        """Return what is wrong with `precisions_cholesky_`, "" where nothing is."""
        return no_factor(np.swapaxes(array, -1, -2))

    @classmethod
    def precision_fault(cls, array: Floats) -> str:
        """Return what the precisions of a start should be, "" where they are."""
        matrices = array.reshape(-1, *array.shape[-2:])
        if factorisation.positive_definite(matrices):
            return ""
        return "symmetric, positive-definite. Invert covariances that are."


@dataclass(frozen=True)
class Full(_Matrices):
    """Every Σ_c is free. Kept as its whitener F_c = L_c⁻¹, Σ_c = L_c L_cᵀ: Mahalanobis is ‖F_c (x − μ_c)‖."""

    compared: ClassVar[tuple[str, ...]] = ("numbers", "mixed")
    means: Floats = field(default_factory=_nothing)  # (k, d)
    covariances: Floats = field(default_factory=_nothing)  # (k, d, d)
    whiteners: Floats = field(default_factory=_nothing)  # (k, d, d)
    log_dets: Floats = field(default_factory=_nothing)  # (k,)
    floored: Pairs = ()  # (component, column that failed) where eigenvalues were clipped
    constrained: Pairs = ()

    sides: ClassVar[str] = "k d d"
    own_matrices: ClassVar[bool] = True
    scatter: ClassVar[int] = SCATTER_FULL

    @classmethod
    def from_covariances(cls, means: Floats, covariances: Floats, scale: Floats | None = None) -> Self:
        """Build from Σ_c (k, d, d); those that cannot be factorised are clipped as in `update`."""
        unit = np.sqrt(cls.diagonals(covariances).mean(axis=0)) if scale is None else scale  # (d,)
        return cls().update(Moments(np.ones(len(means)), means, covariances, unit))

    @classmethod
    def from_precisions_cholesky(
        cls, means: Floats, precisions_cholesky: Floats, variance: float | None = None
    ) -> Self:
        """Build from U_c (k, d, d), upper triangular with Σ_c⁻¹ = U_c U_cᵀ."""
        whiteners = np.ascontiguousarray(precisions_cholesky.transpose(0, 2, 1), dtype=np.float64)
        return cls(means, factorisation.covariances_of(whiteners), whiteners, factorisation.log_dets_of(whiteners))

    @classmethod
    def from_precisions(cls, means: Floats, precisions: Floats) -> Self:
        """Build from Σ_c⁻¹ (k, d, d)."""
        return cls.from_precisions_cholesky(means, np.stack([factorisation.upper_root(p) for p in precisions]))

    @classmethod
    def n_parameters(cls, k: int, d: int) -> int:
        """Count the free numbers of k symmetric d × d matrices."""
        return k * d * (d + 1) // 2

    def update(self, stats: Moments) -> Self:
        """Take the components' own covariances (eq. 2.8); clip the eigenvalues of those that cannot be factorised."""
        assert stats.covariance is not None
        covariances = factorisation.regularised(stats.covariance, stats.reg_covar)
        whiteners, log_dets, failed = factorisation.factorise(
            covariances, rounding_of(stats.mean, stats.scale), stats.threads
        )
        floored, means, alive, constrained = [], stats.mean, stats.alive, dict(self.constrained)
        weak = [c for c, column in enumerate(failed.tolist()) if column >= 0 and c not in constrained]
        weak = weak if alive is None else [c for c in weak if alive[c]]
        for c, found in zip(
            weak, factorisation.propped(stats, weak, stats.covariance[weak]) if weak else (), strict=True
        ):
            if found is not None:
                (covariances[c], whiteners[c], log_dets[c]), failed[c] = found, -1
        for c, column in enumerate(failed.tolist()):
            if (column >= 0 or c in constrained) and (alive is None or alive[c]):
                covariances[c], whiteners[c], log_dets[c], lifted = factorisation.clipped(covariances[c], stats.unit())
                if lifted:
                    floored.append((c, column if column >= 0 else constrained[c]))
        if alive is not None:
            one, two = alive[:, None], alive[:, None, None]
            means, covariances = np.where(one, means, self.means), np.where(two, covariances, self.covariances)
            whiteners, log_dets = np.where(two, whiteners, self.whiteners), np.where(alive, log_dets, self.log_dets)
        return replace(
            self,
            means=means,
            covariances=covariances,
            whiteners=whiteners,
            log_dets=log_dets,
            floored=tuple(floored),
            constrained=_joined(self.constrained, tuple(pair for pair in floored if pair[0] not in constrained)),
        )

    def with_floor(self, components: Collection[int], scale: Floats) -> Self:
        """Return the same with the components clipped at the floor, and kept above it from now on."""
        covariances, whiteners, log_dets = self.covariances.copy(), self.whiteners.copy(), self.log_dets.copy()
        for c in components:
            covariances[c], whiteners[c], log_dets[c], _ = factorisation.clipped(covariances[c], positive_scale(scale))
        constrained = _joined(self.constrained, tuple((c, 0) for c in components))
        return replace(self, covariances=covariances, whiteners=whiteners, log_dets=log_dets, constrained=constrained)

    @property
    def covariances_(self) -> Floats:
        """(k, d, d)."""
        return self.covariances

    @property
    def precisions_cholesky_(self) -> Floats:
        """(k, d, d)."""
        return self.whiteners.transpose(0, 2, 1)

    @property
    def precisions_(self) -> Floats:
        """(k, d, d)."""
        return np.matmul(self.whiteners.transpose(0, 2, 1), self.whiteners)

    def _log_dets(self) -> Floats:
        return self.log_dets

    def kernel(self) -> tuple[int, Floats, Floats]:
        """Return shape, means and factors as `_core.add_mixture` reads them."""
        return _FULL, self.means, self.whiteners.reshape(len(self.means), -1)

    def mahalanobis2(self, X: NDArray[Any], component: int, threads: int) -> Floats:
        """Return (x_i − μ)ᵀ Σ⁻¹ (x_i − μ) for one component (eq. 1.9)."""
        squared = np.empty(len(X))
        _core.mahalanobis2(X, self.means[component], self.whiteners[component], squared, threads)
        return squared

    def singular_without(self, reg_covar: float | Floats, variances: Floats) -> dict[int, int]:
        """Find the components that reg_covar alone keeps from being singular, and the first column where it shows."""
        columns = {c: factorisation.singular_column(matrix, reg_covar) for c, matrix in enumerate(self.covariances)}
        return {c: column for c, column in columns.items() if column >= 0}

    def change_from(self, old: Self) -> float:
        """Return the largest change, in standard deviations and relative to the variances."""
        sigma = np.sqrt(np.diagonal(old.covariances, axis1=1, axis2=2))  # (k, d)
        unit = sigma[:, :, None] * sigma[:, None, :]
        return _change(self.means, old.means, sigma, self.covariances, old.covariances, unit)

    def moved(self, origin: Floats, scale: float) -> Self:
        """Return the same Gaussians for the points (x − origin)·scale."""
        return replace(
            self,
            means=(self.means - origin) * scale,
            covariances=self.covariances * scale * scale,
            whiteners=self.whiteners / scale,
            log_dets=factorisation.log_dets_of(
                self.whiteners / scale
            ),  # anew: a function of the new units' numbers alone
        )


@dataclass(frozen=True)
class Tied(_Matrices):
    """One Σ for all components, kept as its whitener F.

    With responsibilities that add up to 1 the scatter of all points about 0 never changes, so that
    Σ = T − Σ_c π_c μ_c μ_cᵀ needs no second moments. Where the means lie too far out for that (see `prepared`), Σ
    is summed directly.
    """

    compared: ClassVar[tuple[str, ...]] = ("numbers",)
    means: Floats = field(default_factory=_nothing)  # (k, d)
    covariance: Floats = field(default_factory=_nothing)  # (d, d)
    whitener: Floats = field(default_factory=_nothing)  # (d, d)
    log_det: float = 0.0
    floored: Pairs = ()  # (−1, column)
    constrained: Pairs = ()
    direct: bool = True

    sides: ClassVar[str] = "d d"

    @classmethod
    def from_covariances(cls, means: Floats, covariances: Floats, scale: Floats) -> Self:
        """Build from Σ (d, d)."""
        one = cls().update(Moments(np.ones(1), means[:1], np.asarray(covariances)[None], scale))
        return replace(one, means=means)

    @classmethod
    def from_precisions_cholesky(
        cls, means: Floats, precisions_cholesky: Floats, variance: float | None = None
    ) -> Self:
        """Build from U (d, d), upper triangular with Σ⁻¹ = UUᵀ."""
        whitener = np.ascontiguousarray(precisions_cholesky.T, dtype=np.float64)[None]
        return cls(
            means, factorisation.covariances_of(whitener)[0], whitener[0], float(factorisation.log_dets_of(whitener)[0])
        ).prepared(False)

    @classmethod
    def from_precisions(cls, means: Floats, precisions: Floats) -> Self:
        """Build from Σ⁻¹ (d, d)."""
        return cls.from_precisions_cholesky(means, factorisation.upper_root(precisions))

    @classmethod
    def n_parameters(cls, k: int, d: int) -> int:
        """Count the free numbers of one symmetric d × d matrix."""
        return d * (d + 1) // 2

    @property
    def scatter(self) -> int:
        """Which second moments the M step needs."""
        return SCATTER_FULL if self.direct else SCATTER_NONE

    def prepared(self, direct: bool) -> Self:
        """Sum Σ directly where `direct` is set, or where a mean is far from 0 in whitened units."""
        with np.errstate(over="ignore", invalid="ignore"):
            white = self.means @ self.whitener.T  # (k, d)
            far = not (np.square(white).sum(axis=1) <= _NEAR).all()
        return replace(self, direct=bool(direct or far))

    def update(self, stats: Moments) -> Self:
        """Average the components' covariances by their mass; clip the eigenvalues if that cannot be factorised."""
        mass, means = stats.mass, stats.mean
        if stats.alive is not None:
            mass, means = np.where(stats.alive, mass, 0.0), np.where(stats.alive[:, None], means, self.means)
        share = mass / mass.sum()  # (k,)
        if stats.covariance is not None:
            covariance = np.einsum("c,cij->ij", share, without_rounding(stats.covariance, means, stats.scale))
            rounding = np.full((1, means.shape[1]), LEAST)
        else:
            rounding = np.maximum(NOTHING * np.square(stats.scale), LEAST)[None]
            assert stats.total is not None
            weighted = means * share[:, None]
            covariance = stats.total - weighted.T @ means
            covariance = (covariance + covariance.T) / 2
            diagonal = covariance.reshape(-1)[:: len(covariance) + 1]
            np.maximum(diagonal, 0.0, out=diagonal)
        covariances = factorisation.regularised(covariance[None], stats.reg_covar)
        whiteners, log_dets, failed = factorisation.factorise(covariances, rounding)
        floored: Pairs = ()
        if failed[0] >= 0 and not self.constrained:
            found = factorisation.propped_average(stats, share, means, covariance)
            if found is not None:
                (covariances[0], whiteners[0], log_dets[0]), failed[0] = found, -1
        if failed[0] >= 0 or self.constrained:
            covariances[0], whiteners[0], log_dets[0], lifted = factorisation.clipped(covariances[0], stats.unit())
            if lifted:
                floored = ((-1, int(failed[0]) if failed[0] >= 0 else self.constrained[0][1]),)
        return replace(
            self,
            means=means,
            covariance=covariances[0],
            whitener=whiteners[0],
            log_det=float(log_dets[0]),
            floored=floored,
            constrained=self.constrained or floored,
        )

    def with_floor(self, components: Collection[int], scale: Floats) -> Self:
        """Return the same, clipped at the floor and kept above it from now on."""
        if not components:
            return self
        covariance, whitener, log_det, _ = factorisation.clipped(self.covariance, positive_scale(scale))
        return replace(self, covariance=covariance, whitener=whitener, log_det=log_det, constrained=((-1, 0),))

    @property
    def covariances_(self) -> Floats:
        """(d, d)."""
        return self.covariance

    @property
    def precisions_cholesky_(self) -> Floats:
        """(d, d)."""
        return self.whitener.T

    @property
    def precisions_(self) -> Floats:
        """(d, d)."""
        return self.whitener.T @ self.whitener

    def _log_dets(self) -> Floats:
        return np.full(len(self.means), self.log_det)

    def kernel(self) -> tuple[int, Floats, Floats]:
        """Return shape, means and factors: whitened once and for all, or each distance from its own difference."""
        if self.direct:
            k = len(self.means)
            return _FULL, self.means, np.broadcast_to(self.whitener.reshape(1, -1), (k, self.whitener.size))
        return _TIED, _row_products(self.means, self.whitener), self.whitener.reshape(1, -1)

    def singular_without(self, reg_covar: float | Floats, variances: Floats) -> dict[int, int]:
        """Return {−1: the first column where it shows} if reg_covar alone keeps Σ from being singular."""
        column = factorisation.singular_column(self.covariance, reg_covar)
        return {-1: column} if column >= 0 else {}

    def change_from(self, old: Self) -> float:
        """Return the largest change, in standard deviations and relative to the variances."""
        sigma = np.sqrt(old.covariance.diagonal())
        unit = np.outer(sigma, sigma)
        return _change(self.means, old.means, sigma, self.covariance, old.covariance, unit)

    def moved(self, origin: Floats, scale: float) -> Self:
        """Return the same Gaussians for the points (x − origin)·scale."""
        changed = replace(
            self,
            means=(self.means - origin) * scale,
            covariance=self.covariance * scale * scale,
            whitener=self.whitener / scale,
            log_det=float(factorisation.log_dets_of(self.whitener[None] / scale)[0]),
        )
        return changed.prepared(self.direct)


@dataclass(frozen=True)
class _Variances(Covariance):
    """What types share that estimate variances: one per component and column, (k, d), or one per component, (k,)."""

    means: Floats = field(default_factory=_nothing)  # (k, d)
    variances: Floats = field(default_factory=_nothing)  # (k, d) or (k,)
    floored: Pairs = ()  # (component, column), or (component, 0)
    constrained: Pairs = ()

    scatter: ClassVar[int] = SCATTER_COLUMNS

    @classmethod
    def from_covariances(cls, means: Floats, covariances: Floats, scale: Floats) -> Self:
        """Build from the variances (k, d) or (k,)."""
        variances = np.asarray(covariances).reshape(len(means), -1)
        columns = np.ascontiguousarray(np.broadcast_to(variances, means.shape))
        return cls().update(Moments(np.ones(len(means)), means, columns, scale))

    @classmethod
    def from_precisions_cholesky(
        cls, means: Floats, precisions_cholesky: Floats, variance: float | None = None
    ) -> Self:
        """Build from 1/σ."""
        return cls(means, np.asarray(precisions_cholesky, dtype=np.float64) ** -2.0)

    @classmethod
    def from_precisions(cls, means: Floats, precisions: Floats) -> Self:
        """Build from 1/σ²."""
        return cls(means, 1.0 / np.asarray(precisions, dtype=np.float64))

    @property
    def covariances_(self) -> Floats:
        """The variances."""
        return self.variances

    def moved(self, origin: Floats, scale: float) -> Self:
        """Return the same Gaussians for the points (x − origin)·scale."""
        return replace(self, means=(self.means - origin) * scale, variances=self.variances * scale * scale)


@dataclass(frozen=True)
class Diagonal(_Variances):
    """Every Σ_c is diagonal: its variances σ²_cj."""

    compared: ClassVar[tuple[str, ...]] = ("numbers", "mixed")
    sides: ClassVar[str] = "k d"

    @classmethod
    def n_parameters(cls, k: int, d: int) -> int:
        """Count k times d variances."""
        return k * d

    @classmethod
    def diagonals(cls, array: Floats) -> Floats:
        """(k, d)."""
        return array

    def update(self, stats: Moments) -> Self:
        """Take the variances of the columns; floor those that are nothing but rounding."""
        assert stats.covariance is not None
        variances = variances_of(stats.covariance) + stats.reg_covar
        unit = np.square(positive_scale(stats.scale))
        bad = ~(variances > rounding_of(stats.mean, positive_scale(stats.scale)))
        for c, j in self.constrained:
            bad[c, j] |= variances[c, j] < FLOOR * unit[j]
        variances = np.where(bad, FLOOR * unit, variances)
        means = stats.mean
        if stats.alive is not None:
            alive = stats.alive[:, None]
            bad &= alive
            means, variances = np.where(alive, means, self.means), np.where(alive, variances, self.variances)
        floored = tuple((int(c), int(j)) for c, j in np.argwhere(bad)) if bad.any() else ()
        constrained = _joined(self.constrained, floored)
        return replace(self, means=means, variances=variances, floored=floored, constrained=constrained)

    def with_floor(self, components: Collection[int], scale: Floats) -> Self:
        """Return the same with the components clipped at the floor, and kept above it from now on."""
        chosen = list(components)
        variances = self.variances.copy()
        variances[chosen] = np.maximum(variances[chosen], FLOOR * np.square(positive_scale(scale)))
        constrained = _joined(self.constrained, tuple((c, j) for c in chosen for j in range(variances.shape[1])))
        return replace(self, variances=variances, constrained=constrained)

    def _log_dets(self) -> Floats:
        dets: Floats = np.log(self.variances).sum(axis=1)
        return dets

    def kernel(self) -> tuple[int, Floats, Floats]:
        """Return shape, means and factors as `_core.add_mixture` reads them."""
        return _DIAGONAL, self.means, self.precisions_cholesky_

    def singular_without(self, reg_covar: float | Floats, variances: Floats) -> dict[int, int]:
        """Find the components that reg_covar alone keeps from being singular, and the first column where it shows."""
        return _small_variances(self.variances - reg_covar, variances)

    def change_from(self, old: Self) -> float:
        """Return the largest change, in standard deviations and relative to the variances."""
        return _change(self.means, old.means, np.sqrt(old.variances), self.variances, old.variances, old.variances)


class _Isotropic(Covariance):
    """One variance per component."""

    sides: ClassVar[str] = "k"
    isotropic: ClassVar[bool] = True

    def _log_dets(self) -> Floats:
        return self.means.shape[1] * np.log(self.covariances_)

    def kernel(self) -> tuple[int, Floats, Floats]:
        """Return shape, means and factors as `_core.add_mixture` reads them."""
        return _ISOTROPIC, self.means, self.precisions_[:, None]

    @classmethod
    def diagonals(cls, array: Floats) -> Floats:
        """(k, 1)."""
        return array[:, None]

    @classmethod
    def factor_powers(cls, powers: Ints) -> Ints:
        """One number: the columns have one power."""
        return powers[:1]

    @classmethod
    def collapse_reason(cls, column: str) -> str:
        """Return why a component is singular."""
        return "its points are equal"


@dataclass(frozen=True)
class Spherical(_Isotropic, _Variances):
    """Every Σ_c = σ²_c I."""

    @classmethod
    def n_parameters(cls, k: int, d: int) -> int:
        """Count k variances."""
        return k

    def update(self, stats: Moments) -> Self:
        """Take the mean of the columns' variances; floor one that is nothing but rounding."""
        assert stats.covariance is not None
        variances = (variances_of(stats.covariance) + stats.reg_covar).mean(axis=1)
        unit = np.square(positive_scale(stats.scale)).mean()
        bad = ~(variances > rounding_of(stats.mean, positive_scale(stats.scale)).mean(axis=1))
        for c, _ in self.constrained:
            bad[c] |= variances[c] < FLOOR * unit
        variances = np.where(bad, FLOOR * unit, variances)
        means = stats.mean
        if stats.alive is not None:
            bad &= stats.alive
            means = np.where(stats.alive[:, None], means, self.means)
            variances = np.where(stats.alive, variances, self.variances)
        floored = tuple((int(c), 0) for c in np.flatnonzero(bad))
        constrained = _joined(self.constrained, floored)
        return replace(self, means=means, variances=variances, floored=floored, constrained=constrained)

    def with_floor(self, components: Collection[int], scale: Floats) -> Self:
        """Return the same with the components clipped at the floor, and kept above it from now on."""
        chosen = list(components)
        variances = self.variances.copy()
        variances[chosen] = np.maximum(variances[chosen], FLOOR * np.square(positive_scale(scale)).mean())
        return replace(self, variances=variances, constrained=_joined(self.constrained, tuple((c, 0) for c in chosen)))

    def singular_without(self, reg_covar: float | Floats, variances: Floats) -> dict[int, int]:
        """Find the components that reg_covar alone keeps from being singular; the column is 0."""
        return _small_variances(self.variances[:, None] - reg_covar, variances.mean())

    def change_from(self, old: Self) -> float:
        """Return the largest change, in standard deviations and relative to the variances."""
        sigma = np.sqrt(old.variances)[:, None]
        return _change(self.means, old.means, sigma, self.variances, old.variances, old.variances)


@dataclass(frozen=True)
class Fixed(_Isotropic):
    """Every Σ_c = εI, and ε stays what it is: the paper's road to k-means (eq. 3.1)."""

    means: Floats = field(default_factory=_nothing)  # (k, d)
    variance: float = 1.0  # ε

    scatter: ClassVar[int] = SCATTER_NONE
    floored: ClassVar[Pairs] = ()
    constrained: ClassVar[Pairs] = ()
    free_type: ClassVar[str] = "spherical"

    @classmethod
    def blank(cls, variance: float | None = None) -> Self:
        """Make one that has no means yet."""
        return cls(variance=variance or 0.0)

    @classmethod
    def from_precisions_cholesky(
        cls, means: Floats, precisions_cholesky: Floats, variance: float | None = None
    ) -> Self:
        """Build from ε itself: the root of its square would round it."""
        return cls(means, float(variance or 0.0))

    @classmethod
    def from_precisions(cls, means: Floats, precisions: Floats) -> Self:
        """Build from 1/ε (k,), all equal."""
        return cls(means, float(1.0 / precisions[0]))

    @classmethod
    def n_parameters(cls, k: int, d: int) -> int:
        """Count none."""
        return 0

    def with_pooled(self, means: Floats, covariance: Floats, deviations: Floats, scale: float) -> Self:
        """Return components at the means (k, d), with ε brought into the unit."""
        return replace(self.moved(np.zeros(0), scale), means=means)

    def at_least(self, variance: float) -> Self:
        """Return the same with ε raised to the variance."""
        return replace(self, variance=max(self.variance, variance))

    def narrow(self, means: Floats, factor: float) -> Self:
        """Return components at the means (k, d); ε stays."""
        return replace(self, means=means)

    def update(self, stats: Moments) -> Self:
        """Move the means only."""
        if stats.alive is None:
            return replace(self, means=stats.mean)
        return replace(self, means=np.where(stats.alive[:, None], stats.mean, self.means))

    def with_floor(self, components: Collection[int], scale: Floats) -> Self:
        """Return the same: nothing collapses."""
        return self

    @property
    def covariances_(self) -> Floats:
        """(k,)."""
        return np.full(len(self.means), self.variance)

    def singular_without(self, reg_covar: float | Floats, variances: Floats) -> dict[int, int]:
        """Find none: ε is fixed."""
        return {}

    def change_from(self, old: Self) -> float:
        """Return the largest change of a mean, in standard deviations."""
        return float(np.max(np.abs(self.means - old.means), initial=0.0) / np.sqrt(self.variance))

    def moved(self, origin: Floats, scale: float) -> Self:
        """Return the same Gaussians for the points (x − origin)·scale."""
        return replace(self, means=(self.means - origin) * scale, variance=float(self.variance * scale * scale))


# The one table of types: parameters, model files, tuning and comparison read it.
COVARIANCE_TYPES: dict[str, type[Covariance]] = {
    "full": Full,
    "tied": Tied,
    "diag": Diagonal,
    "spherical": Spherical,
    "fixed": Fixed,
}


def estimated_types() -> tuple[str, ...]:
    """Return the names of the types whose covariances are estimated from the data."""
    return tuple(name for name, shape in COVARIANCE_TYPES.items() if shape.free_type is None)


def compared_types(table: str) -> tuple[str, ...]:
    """Return the names of the types that `knoll.compare` tries on "numbers" or "mixed" tables, richest first."""
    return tuple(name for name, shape in COVARIANCE_TYPES.items() if table in shape.compared)


# ---- inside --------------------------------------------------------------------------------------------------------


def _small_variances(variances: Floats, pooled: Floats) -> dict[int, int]:
    """Map each component to the first column whose variance (k, d) is nothing beside the pooled one."""
    return {
        int(c): int(column) for c, column in reversed(np.argwhere(variances <= factorisation.PIVOT * pooled).tolist())
    }


def _joined(constrained: Pairs, more: Pairs) -> Pairs:
    return constrained if set(more) <= set(constrained) else tuple(sorted({*constrained, *more}))


def _row_products(rows: Floats, matrix: Floats) -> Floats:
    """Return matrix @ row for every row, added in one order whatever BLAS does."""
    return np.einsum("ij,cj->ci", matrix, rows, optimize=False)


def _change(means: Floats, old: Floats, sigma: Floats, values: Floats, before: Floats, unit: Floats) -> float:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        moved = np.abs((means - old) / sigma).max()
        grown = values - before  # (k, d, d): wide data has many, so one array for all that follows
        grown /= unit
    return float(max(moved, np.abs(grown, out=grown).max()))
