"""The types of covariance: one class each, with the same methods, so that no caller has to branch.

Full, every Σ_c free (docs/theory/01-gaussian.md); Tied, one Σ for all; Diagonal; Spherical; Fixed, Σ_c = εI held fast.
To add one, write its class here, enter it into `COVARIANCE_TYPES`, and add its line to the docstring of GaussianMixture
and to docs/theory/02-gaussian-mixture.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from knoll import _core
from knoll._common.rescale import exponent_of, times_power
from knoll._schema import no_factor, no_variances
from knoll._typing import Floats
from knoll.exceptions import BadData

__all__ = [
    "COVARIANCE_TYPES",
    "Covariance",
    "Diagonal",
    "Fixed",
    "Full",
    "Moments",
    "Spherical",
    "Tied",
    "estimated_types",
]

FLOOR = 1e-6  # of the pooled variance: where eigenvalues are clipped when a factorisation would fail
PIVOT = 1e-12  # of its variance: below this, what a column keeps when those before it are known is little but rounding
# Of the pooled variance, and of the squared distance from the origin, whose rounding is 2⁻¹⁰⁶ of it: a variance below
# both is the rounding of equal points.
NOTHING = 2.0**-96
NARROWEST = 1e-290  # a fixed variance below this, in units of the data's, is as hard as k-means already
_ULP = 2.0**-52
LEAST = 2.0**-1000  # a smaller variance has lost digits to underflow, and its inverse may leave float64

# What the kernels call the shapes of the E step and the second moments of the M step.
_FULL, _TIED, _DIAGONAL, _ISOTROPIC = range(4)
SCATTER_NONE, SCATTER_COLUMNS, SCATTER_FULL = range(3)
# Squared whitened distance of a mean from the origin. Up to here the tied Σ may be taken as a difference of two large
# matrices, which costs the logarithm of this many of float64's sixteen digits.
_NEAR = 1e4

Pairs = tuple[tuple[int, int], ...]  # (component, column)


@dataclass(frozen=True)
class Moments:
    """The central moments of k components: what an M step hands to a covariance."""

    mass: Floats  # (k,)
    mean: Floats  # (k, d)
    covariance: Floats | None  # (k, d, d), or (k, d) the variances of the columns, or None, as `scatter` selects
    scale: Floats  # (d,) pooled standard deviation of each column
    reg_covar: float | Floats = 0.0  # added to every variance; (d,) where the columns have units of their own
    alive: NDArray[np.bool_] | None = None  # (k,) the others keep what they have; None: all
    total: Floats | None = None  # (d, d) second moment of all points about 0, divided by their mass
    threads: int = 1
    # Another pass: the covariances (m, d, d) of some components in the coordinates A(y − μ), from their numbers, their
    # means (m, d) and the matrices A (m, d, d). None where the data is not at hand.
    covariances_in: Callable[[list[int], Floats, Floats], Floats] | None = None

    def unit(self) -> Floats:
        """Return the standard deviations (d,) in which eigenvalues are measured; no less than what reg_covar adds."""
        variances = np.square(self.scale)
        drowned = variances < self.reg_covar
        return _unit(np.where(drowned, np.sqrt(self.reg_covar), self.scale) if drowned.any() else self.scale)


def narrowest(reach: int, d: int) -> float:
    """Return the least fixed variance, in units of the data's, for rows within 2^reach squared deviations of the mean.

    Two of them are at most 4d · 2^reach apart, squared, and that over the variance stays below 2^1000: beyond it all
    distances would count as equally far. It is as hard as k-means all the same.
    """
    return max(NARROWEST, float(times_power(1.0, reach + 2 + exponent_of(d) - 1000)))


class Covariance(ABC):
    """k Gaussians whose covariances are of one type: what EM and its callers use.

    A subclass and its entry in `COVARIANCE_TYPES` add a type. Class methods take arrays in scikit-learn's shape, that
    of `covariances_`.
    """

    sides: ClassVar[str]  # of `covariances_`, such as "k d d"
    own_matrices: ClassVar[bool] = False  # each component has a matrix of its own
    own_shapes: ClassVar[bool] = False  # each component has a shape of its own, not only a size
    isotropic: ClassVar[bool] = False  # one variance for all columns, which therefore keep one unit
    free_type: ClassVar[str | None] = None  # set where the variance is held: the type that estimates it

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
    def held(self) -> Pairs:
        """The pairs that were ever clipped: they stay above the floor from then on, which keeps the ascent."""

    @property
    @abstractmethod
    def covariances_(self) -> Floats:
        """The covariances in scikit-learn's shape."""

    @property
    @abstractmethod
    def precisions_(self) -> Floats:
        """Their inverses, in the same shape."""

    @property
    @abstractmethod
    def precisions_cholesky_(self) -> Floats:
        """The upper triangles U with Σ⁻¹ = UUᵀ, in the same shape."""

    @abstractmethod
    def update(self, stats: Moments) -> Self:
        """Return the covariance that maximises the likelihood of the components' moments (the M step)."""

    @abstractmethod
    def with_floor(self, components: Collection[int], scale: Floats) -> Self:
        """Return the same with the components clipped at the floor, and held above it from now on."""

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
        """Make one that has no means yet; `variance` is the one that is held, None for types that estimate it."""
        return cls()

    def with_pooled(self, means: Floats, covariance: Floats, deviations: Floats, scale: float) -> Self:
        """Return components at the means (k, d) that all have the pooled covariance (d, d), before the first M step.

        `scale` is the unit that a variance which is held is brought into.
        """
        k = len(means)
        stats = Moments(np.ones(k), means, np.repeat(covariance[None], k, axis=0), deviations)
        # It stands in for the covariances of the first M step. That step adds reg_covar, which this one does not, so
        # what was clipped here need not be clipped there.
        return replace(type(self)().update(stats), floored=(), held=())  # type: ignore[type-var]

    def at_least(self, variance: float) -> Self:
        """Return the same with a variance that is held raised to this one; the others are estimated."""
        return self

    def narrow(self, means: Floats, factor: float) -> Self:
        """Return components at the means (k, d) with standard deviation 1/factor in every direction."""
        return self.from_precisions_cholesky(means, np.full(self.shape_of(*means.shape), factor))

    @classmethod
    @abstractmethod
    def from_precisions_cholesky(
        cls, means: Floats, precisions_cholesky: Floats, variance: float | None = None
    ) -> Self:
        """Build from U with Σ⁻¹ = UUᵀ; from `variance`, which no root has rounded, where that is held."""

    @classmethod
    @abstractmethod
    def from_precisions(cls, means: Floats, precisions: Floats) -> Self:
        """Build from Σ⁻¹."""

    @classmethod
    @abstractmethod
    def precisions_of(cls, covariances: Sequence[Floats], sizes: NDArray[np.int64]) -> Floats | None:
        """Return the precisions of clusters with these covariances (d, d) and sizes; None where none are estimated."""

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
    def covariance_powers(cls, powers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the powers of two of the entries of Σ where the columns of X have these powers (d,)."""
        return 2 * cls.factor_powers(powers)

    @classmethod
    def factor_powers(cls, powers: NDArray[np.int64]) -> NDArray[np.int64]:
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

    @classmethod
    def diagonals(cls, array: Floats) -> Floats:
        """(k, d), or (d,) of a matrix that all share."""
        return np.diagonal(array, axis1=-2, axis2=-1)

    @classmethod
    def as_matrices(cls, array: Floats, k: int, d: int) -> Floats:
        """(k, d, d), read-only."""
        return np.broadcast_to(array, (k, d, d))

    def narrow(self, means: Floats, factor: float) -> Self:
        """Return components at the means (k, d) with standard deviation 1/factor in every direction."""
        k, d = means.shape
        return self.from_precisions_cholesky(means, np.broadcast_to(factor * np.eye(d), self.shape_of(k, d)))

    @classmethod
    def covariance_powers(cls, powers: NDArray[np.int64]) -> NDArray[np.int64]:
        """(d, d)."""
        return powers[:, None] + powers

    @classmethod
    def factor_powers(cls, powers: NDArray[np.int64]) -> NDArray[np.int64]:
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
        if _positive_definite(matrices):
            return ""
        return "symmetric, positive-definite. Invert covariances that are."


@dataclass(frozen=True)
class Full(_Matrices):
    """Every Σ_c is free. Kept as its whitener F_c = L_c⁻¹, Σ_c = L_c L_cᵀ: Mahalanobis is ‖F_c (x − μ_c)‖."""

    means: Floats = field(default_factory=_nothing)  # (k, d)
    covariances: Floats = field(default_factory=_nothing)  # (k, d, d)
    whiteners: Floats = field(default_factory=_nothing)  # (k, d, d)
    log_dets: Floats = field(default_factory=_nothing)  # (k,)
    floored: Pairs = ()  # (component, column that failed) where eigenvalues were clipped
    held: Pairs = ()

    sides: ClassVar[str] = "k d d"
    own_matrices: ClassVar[bool] = True
    own_shapes: ClassVar[bool] = True
    scatter: ClassVar[int] = SCATTER_FULL

    @classmethod
    def from_covariances(cls, means: Floats, covariances: Floats, scale: Floats | None = None) -> Self:
        """Build from Σ_c (k, d, d); those that cannot be factorised are clipped as in `update`."""
        unit = _own_scale(covariances) if scale is None else scale
        return cls().update(Moments(np.ones(len(means)), means, covariances, unit))

    @classmethod
    def from_precisions_cholesky(
        cls, means: Floats, precisions_cholesky: Floats, variance: float | None = None
    ) -> Self:
        """Build from U_c (k, d, d), upper triangular with Σ_c⁻¹ = U_c U_cᵀ."""
        whiteners = np.ascontiguousarray(precisions_cholesky.transpose(0, 2, 1), dtype=np.float64)
        return cls(means, _covariances_of(whiteners), whiteners, _log_dets_of(whiteners))

    @classmethod
    def from_precisions(cls, means: Floats, precisions: Floats) -> Self:
        """Build from Σ_c⁻¹ (k, d, d)."""
        return cls.from_precisions_cholesky(means, np.stack([_upper_root(p) for p in precisions]))

    @classmethod
    def precisions_of(cls, covariances: Sequence[Floats], sizes: NDArray[np.int64]) -> Floats:
        """(k, d, d)."""
        return np.linalg.inv(np.array(covariances))

    @classmethod
    def n_parameters(cls, k: int, d: int) -> int:
        """Count the free numbers of k symmetric d × d matrices."""
        return k * d * (d + 1) // 2

    def update(self, stats: Moments) -> Self:
        """Take the components' own covariances (eq. 2.8); clip the eigenvalues of those that cannot be factorised."""
        assert stats.covariance is not None
        covariances = _regularised(stats.covariance, stats.reg_covar)
        whiteners, log_dets, failed = _factorise(covariances, _rounding(stats.mean, stats.scale), stats.threads)
        floored, means, alive, held = [], stats.mean, stats.alive, dict(self.held)
        weak = [c for c in np.flatnonzero(failed >= 0).tolist() if c not in held and (alive is None or alive[c])]
        for c, found in zip(weak, _propped(stats, weak, stats.covariance[weak]), strict=True):
            if found is not None:
                (covariances[c], whiteners[c], log_dets[c]), failed[c] = found, -1
        for c, column in enumerate(failed.tolist()):
            if (column >= 0 or c in held) and (alive is None or alive[c]):
                covariances[c], whiteners[c], log_dets[c], lifted = _clipped(covariances[c], stats.unit())
                if lifted:
                    floored.append((c, column if column >= 0 else held[c]))
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
            held=_joined(self.held, tuple(pair for pair in floored if pair[0] not in held)),
        )

    def with_floor(self, components: Collection[int], scale: Floats) -> Self:
        """Return the same with the components clipped at the floor, and held above it from now on."""
        covariances, whiteners, log_dets = self.covariances.copy(), self.whiteners.copy(), self.log_dets.copy()
        for c in components:
            covariances[c], whiteners[c], log_dets[c], _ = _clipped(covariances[c], _unit(scale))
        held = _joined(self.held, tuple((c, 0) for c in components))
        return replace(self, covariances=covariances, whiteners=whiteners, log_dets=log_dets, held=held)

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
        columns = {c: _singular_column(matrix, reg_covar) for c, matrix in enumerate(self.covariances)}
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
            log_dets=_log_dets_of(self.whiteners / scale),  # anew: a function of the new units' numbers alone
        )


@dataclass(frozen=True)
class Tied(_Matrices):
    """One Σ for all components, kept as its whitener F.

    With responsibilities that add up to 1 the scatter of all points about 0 never changes, so that
    Σ = T − Σ_c π_c μ_c μ_cᵀ needs no second moments. Where the means lie too far out for that (see `prepared`), Σ
    is summed directly.
    """

    means: Floats = field(default_factory=_nothing)  # (k, d)
    covariance: Floats = field(default_factory=_nothing)  # (d, d)
    whitener: Floats = field(default_factory=_nothing)  # (d, d)
    log_det: float = 0.0
    floored: Pairs = ()  # (−1, column)
    held: Pairs = ()
    direct: bool = True

    sides: ClassVar[str] = "d d"

    @classmethod
    def from_covariances(cls, means: Floats, covariances: Floats, scale: Floats | None = None) -> Self:
        """Build from Σ (d, d)."""
        unit = _own_scale(np.asarray(covariances)[None]) if scale is None else scale
        one = cls().update(Moments(np.ones(1), means[:1], np.asarray(covariances)[None], unit))
        return replace(one, means=means)

    @classmethod
    def from_precisions_cholesky(
        cls, means: Floats, precisions_cholesky: Floats, variance: float | None = None
    ) -> Self:
        """Build from U (d, d), upper triangular with Σ⁻¹ = UUᵀ."""
        whitener = np.ascontiguousarray(precisions_cholesky.T, dtype=np.float64)[None]
        return cls(means, _covariances_of(whitener)[0], whitener[0], float(_log_dets_of(whitener)[0])).prepared(False)

    @classmethod
    def from_precisions(cls, means: Floats, precisions: Floats) -> Self:
        """Build from Σ⁻¹ (d, d)."""
        return cls.from_precisions_cholesky(means, _upper_root(precisions))

    @classmethod
    def precisions_of(cls, covariances: Sequence[Floats], sizes: NDArray[np.int64]) -> Floats:
        """(d, d): of the covariances' average by size."""
        return np.linalg.inv(sum(s * size for s, size in zip(covariances, sizes, strict=True)) / sizes.sum())

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
            covariance = np.einsum("c,cij->ij", share, _without_rounding(stats.covariance, means, stats.scale))
            rounding = np.full((1, means.shape[1]), LEAST)
        else:
            rounding = np.maximum(NOTHING * np.square(stats.scale), LEAST)[None]
            assert stats.total is not None
            weighted = means * share[:, None]
            covariance = stats.total - weighted.T @ means
            covariance = (covariance + covariance.T) / 2
            diagonal = covariance.reshape(-1)[:: len(covariance) + 1]
            np.maximum(diagonal, 0.0, out=diagonal)
        covariances = _regularised(covariance[None], stats.reg_covar)
        whiteners, log_dets, failed = _factorise(covariances, rounding)
        floored: Pairs = ()
        if failed[0] >= 0 and not self.held:
            found = _propped_average(stats, share, means, covariance)
            if found is not None:
                (covariances[0], whiteners[0], log_dets[0]), failed[0] = found, -1
        if failed[0] >= 0 or self.held:
            covariances[0], whiteners[0], log_dets[0], lifted = _clipped(covariances[0], stats.unit())
            if lifted:
                floored = ((-1, int(failed[0]) if failed[0] >= 0 else self.held[0][1]),)
        return replace(
            self,
            means=means,
            covariance=covariances[0],
            whitener=whiteners[0],
            log_det=float(log_dets[0]),
            floored=floored,
            held=self.held or floored,
        )

    def with_floor(self, components: Collection[int], scale: Floats) -> Self:
        """Return the same, clipped at the floor and held above it from now on."""
        if not components:
            return self
        covariance, whitener, log_det, _ = _clipped(self.covariance, _unit(scale))
        return replace(self, covariance=covariance, whitener=whitener, log_det=log_det, held=((-1, 0),))

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
        column = _singular_column(self.covariance, reg_covar)
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
            log_det=float(_log_dets_of(self.whitener[None] / scale)[0]),
        )
        return changed.prepared(self.direct)


@dataclass(frozen=True)
class Diagonal(Covariance):
    """Every Σ_c is diagonal: its variances σ²_cj."""

    means: Floats = field(default_factory=_nothing)  # (k, d)
    variances: Floats = field(default_factory=_nothing)  # (k, d)
    floored: Pairs = ()  # (component, column)
    held: Pairs = ()

    sides: ClassVar[str] = "k d"
    own_shapes: ClassVar[bool] = True
    scatter: ClassVar[int] = SCATTER_COLUMNS

    @classmethod
    def from_covariances(cls, means: Floats, covariances: Floats, scale: Floats | None = None) -> Self:
        """Build from the variances (k, d)."""
        unit = _own_scale(covariances) if scale is None else scale
        return cls().update(Moments(np.ones(len(means)), means, covariances, unit))

    @classmethod
    def from_precisions_cholesky(
        cls, means: Floats, precisions_cholesky: Floats, variance: float | None = None
    ) -> Self:
        """Build from 1/σ_cj (k, d)."""
        return cls(means, np.asarray(precisions_cholesky, dtype=np.float64) ** -2.0)

    @classmethod
    def from_precisions(cls, means: Floats, precisions: Floats) -> Self:
        """Build from 1/σ²_cj (k, d)."""
        return cls(means, 1.0 / np.asarray(precisions, dtype=np.float64))

    @classmethod
    def precisions_of(cls, covariances: Sequence[Floats], sizes: NDArray[np.int64]) -> Floats:
        """(k, d)."""
        return np.array([1 / np.diag(s) for s in covariances])

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
        variances = _variances(stats.covariance) + stats.reg_covar
        unit = np.square(_unit(stats.scale))
        bad = ~(variances > _rounding(stats.mean, _unit(stats.scale)))
        for c, j in self.held:
            bad[c, j] |= variances[c, j] < FLOOR * unit[j]
        variances = np.where(bad, FLOOR * unit, variances)
        means = stats.mean
        if stats.alive is not None:
            alive = stats.alive[:, None]
            bad &= alive
            means, variances = np.where(alive, means, self.means), np.where(alive, variances, self.variances)
        floored = tuple((int(c), int(j)) for c, j in np.argwhere(bad)) if bad.any() else ()
        held = _joined(self.held, floored)
        return replace(self, means=means, variances=variances, floored=floored, held=held)

    def with_floor(self, components: Collection[int], scale: Floats) -> Self:
        """Return the same with the components clipped at the floor, and held above it from now on."""
        chosen = list(components)
        variances = self.variances.copy()
        variances[chosen] = np.maximum(variances[chosen], FLOOR * np.square(_unit(scale)))
        held = _joined(self.held, tuple((c, j) for c in chosen for j in range(variances.shape[1])))
        return replace(self, variances=variances, held=held)

    @property
    def covariances_(self) -> Floats:
        """(k, d)."""
        return self.variances

    @property
    def precisions_cholesky_(self) -> Floats:
        """(k, d)."""
        return 1.0 / np.sqrt(self.variances)

    @property
    def precisions_(self) -> Floats:
        """(k, d)."""
        return 1.0 / self.variances

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

    def moved(self, origin: Floats, scale: float) -> Self:
        """Return the same Gaussians for the points (x − origin)·scale."""
        return replace(self, means=(self.means - origin) * scale, variances=self.variances * scale * scale)


class _Isotropic(Covariance):
    """One variance per component."""

    sides: ClassVar[str] = "k"
    isotropic: ClassVar[bool] = True

    @property
    @abstractmethod
    def covariances_(self) -> Floats:
        """(k,)."""

    @property
    def precisions_cholesky_(self) -> Floats:
        """(k,)."""
        return 1.0 / np.sqrt(self.covariances_)

    @property
    def precisions_(self) -> Floats:
        """(k,)."""
        return 1.0 / self.covariances_

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
    def factor_powers(cls, powers: NDArray[np.int64]) -> NDArray[np.int64]:
        """One number: the columns have one power."""
        return powers[:1]

    @classmethod
    def collapse_reason(cls, column: str) -> str:
        """Return why a component is singular."""
        return "its points are equal"


@dataclass(frozen=True)
class Spherical(_Isotropic):
    """Every Σ_c = σ²_c I."""

    means: Floats = field(default_factory=_nothing)  # (k, d)
    variances: Floats = field(default_factory=_nothing)  # (k,)
    floored: Pairs = ()  # (component, 0)
    held: Pairs = ()

    scatter: ClassVar[int] = SCATTER_COLUMNS

    @classmethod
    def from_covariances(cls, means: Floats, covariances: Floats, scale: Floats | None = None) -> Self:
        """Build from the variances (k,)."""
        columns = np.repeat(np.asarray(covariances)[:, None], means.shape[1], axis=1)
        return cls().update(
            Moments(np.ones(len(means)), means, columns, _own_scale(columns) if scale is None else scale)
        )

    @classmethod
    def from_precisions_cholesky(
        cls, means: Floats, precisions_cholesky: Floats, variance: float | None = None
    ) -> Self:
        """Build from 1/σ_c (k,)."""
        return cls(means, np.asarray(precisions_cholesky, dtype=np.float64) ** -2.0)

    @classmethod
    def from_precisions(cls, means: Floats, precisions: Floats) -> Self:
        """Build from 1/σ²_c (k,)."""
        return cls(means, 1.0 / np.asarray(precisions, dtype=np.float64))

    @classmethod
    def precisions_of(cls, covariances: Sequence[Floats], sizes: NDArray[np.int64]) -> Floats:
        """(k,)."""
        return np.array([len(s) / np.trace(s) for s in covariances])

    @classmethod
    def n_parameters(cls, k: int, d: int) -> int:
        """Count k variances."""
        return k

    def update(self, stats: Moments) -> Self:
        """Take the mean of the columns' variances; floor one that is nothing but rounding."""
        assert stats.covariance is not None
        variances = (_variances(stats.covariance) + stats.reg_covar).mean(axis=1)
        unit = np.square(_unit(stats.scale)).mean()
        bad = ~(variances > _rounding(stats.mean, _unit(stats.scale)).mean(axis=1))
        for c, _ in self.held:
            bad[c] |= variances[c] < FLOOR * unit
        variances = np.where(bad, FLOOR * unit, variances)
        means = stats.mean
        if stats.alive is not None:
            bad &= stats.alive
            means = np.where(stats.alive[:, None], means, self.means)
            variances = np.where(stats.alive, variances, self.variances)
        floored = tuple((int(c), 0) for c in np.flatnonzero(bad))
        held = _joined(self.held, floored)
        return replace(self, means=means, variances=variances, floored=floored, held=held)

    def with_floor(self, components: Collection[int], scale: Floats) -> Self:
        """Return the same with the components clipped at the floor, and held above it from now on."""
        chosen = list(components)
        variances = self.variances.copy()
        variances[chosen] = np.maximum(variances[chosen], FLOOR * np.square(_unit(scale)).mean())
        return replace(self, variances=variances, held=_joined(self.held, tuple((c, 0) for c in chosen)))

    @property
    def covariances_(self) -> Floats:
        """(k,)."""
        return self.variances

    def singular_without(self, reg_covar: float | Floats, variances: Floats) -> dict[int, int]:
        """Find the components that reg_covar alone keeps from being singular; the column is 0."""
        return _small_variances(self.variances[:, None] - reg_covar, variances.mean())

    def change_from(self, old: Self) -> float:
        """Return the largest change, in standard deviations and relative to the variances."""
        sigma = np.sqrt(old.variances)[:, None]
        return _change(self.means, old.means, sigma, self.variances, old.variances, old.variances)

    def moved(self, origin: Floats, scale: float) -> Self:
        """Return the same Gaussians for the points (x − origin)·scale."""
        return replace(self, means=(self.means - origin) * scale, variances=self.variances * scale * scale)


@dataclass(frozen=True)
class Fixed(_Isotropic):
    """Every Σ_c = εI, and ε stays what it is: the paper's road to k-means (eq. 3.1)."""

    means: Floats = field(default_factory=_nothing)  # (k, d)
    variance: float = 1.0  # ε

    scatter: ClassVar[int] = SCATTER_NONE
    floored: ClassVar[Pairs] = ()
    held: ClassVar[Pairs] = ()
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
    def precisions_of(cls, covariances: Sequence[Floats], sizes: NDArray[np.int64]) -> None:
        """Return nothing: ε is held."""

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
        """Find none: ε is held."""
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


# ---- inside --------------------------------------------------------------------------------------------------------


def _singular_column(matrix: Floats, reg_covar: float | Floats) -> int:
    """Return the first column that depends on those before it without reg_covar, −1 where there is none."""
    return int(_core.cholesky(matrix - np.diag(np.broadcast_to(reg_covar, len(matrix))), PIVOT))


def _small_variances(variances: Floats, pooled: Floats) -> dict[int, int]:
    """Map each component to the first column whose variance (k, d) is nothing beside the pooled one."""
    return {int(c): int(column) for c, column in reversed(np.argwhere(variances <= PIVOT * pooled).tolist())}


def _positive_definite(matrices: Floats) -> bool:
    if not np.allclose(matrices, matrices.transpose(0, 2, 1)):
        return False
    try:
        np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        return False
    return True


def _regularised(covariances: Floats, reg_covar: float | Floats) -> Floats:
    """Return a copy with `reg_covar` added to the diagonals."""
    copy = np.array(covariances)  # (k, d, d)
    if np.any(reg_covar):
        d = copy.shape[1]
        copy.reshape(len(copy), -1)[:, :: d + 1] += reg_covar
    return copy


def _variances(covariance: Floats) -> Floats:
    """Return the variances of the columns (k, d), whichever second moments were summed."""
    return covariance if covariance.ndim == 2 else np.diagonal(covariance, axis1=1, axis2=2)


def _own_scale(covariance: Floats) -> Floats:
    """Return the standard deviations (d,) of covariances that come without data to compare them with."""
    scale: Floats = np.sqrt(_variances(np.asarray(covariance)).mean(axis=0))
    return scale


def _rounding(means: Floats, scale: Floats) -> Floats:
    """Return the variances (k, d) that the rounding of equal points may have, about means in the frame."""
    with np.errstate(over="ignore"):
        return np.maximum(NOTHING * np.square(np.minimum(scale, np.abs(means))), LEAST)


def _without_rounding(covariances: Floats, means: Floats, scale: Floats) -> Floats:
    """Return covariances (k, d, d) with 0 for the rounding of equal points: far out it is much beside others'."""
    lost = ~(_variances(covariances) > _rounding(means, scale))  # (k, d)
    if not lost.any():
        return covariances
    return np.where(lost[:, :, None] | lost[:, None, :], 0.0, covariances)


def _factorise(covariances: Floats, rounding: Floats, threads: int = 1) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Return whiteners, log-determinants and the column whose pivot is nothing but rounding, −1 where there is none."""
    k, d = covariances.shape[:2]
    whiteners, log_dets, failed = np.empty((k, d, d)), np.empty(k), np.empty(k, dtype=np.int64)
    _core.factorise(covariances.reshape(k, -1), PIVOT, whiteners.reshape(k, -1), log_dets, failed, threads)
    variances = covariances.reshape(k, -1)[:, :: d + 1]
    lost = ~(variances > rounding)  # (k, d)
    if lost.any():
        failed = np.where((failed < 0) & lost.any(axis=1), lost.argmax(axis=1), failed)
    return whiteners, log_dets, failed


# ---- what reg_covar alone keeps from being singular --------------------------------------------------------------

Factored = tuple[Floats, Floats, float]  # Σ (d, d), its whitener (d, d) and log |Σ|


def _propped(stats: Moments, components: list[int], covariances: Floats) -> list[Factored | None]:
    """Factorise S + reg_covar for some components whose S (m, d, d) are singular to rounding; None: reg_covar is, too.

    The small eigenvalues of a computed S are the rounding of its largest, which may be far above reg_covar. So the rows
    are taken in coordinates that are white for S with that rounding added: there the small ones are summed by
    themselves, and err by the square of the rounding.
    """
    d = stats.mean.shape[1]
    reg = np.broadcast_to(np.asarray(stats.reg_covar, dtype=np.float64), d)
    enough = np.all(reg > _rounding(stats.mean[components], stats.scale), axis=1).tolist()
    starts = [_White.of(s, reg) if ok and reg.all() else None for s, ok in zip(covariances, enough, strict=True)]
    for _ in range(_ROUNDS):
        blurred = [i for i, white in enumerate(starts) if white is not None and white.blurred]
        if not blurred or stats.covariances_in is None:
            break
        chosen = [components[i] for i in blurred]
        axes = np.stack([starts[i].axes for i in blurred])  # type: ignore[union-attr]
        seen = stats.covariances_in(chosen, stats.mean[chosen], axes)
        for i, covariance in zip(blurred, seen, strict=True):
            starts[i] = starts[i].refined(covariance)  # type: ignore[union-attr]
    return [None if white is None else white.factored() for white in starts]


def _propped_average(stats: Moments, share: Floats, means: Floats, covariance: Floats) -> Factored | None:
    """Do the same for the one covariance (d, d) that all components share."""
    reg = np.broadcast_to(np.asarray(stats.reg_covar, dtype=np.float64), len(covariance))
    white = _White.of(covariance, reg) if reg.all() else None
    present = np.flatnonzero(share > 0)
    for _ in range(_ROUNDS):
        if white is None or not white.blurred or stats.covariances_in is None:
            break
        axes = np.repeat(white.axes[None], len(present), axis=0)
        seen = stats.covariances_in(present.tolist(), means[present], axes)
        white = white.refined(np.einsum("c,cij->ij", share[present], seen))
    return None if white is None else white.factored()


_ROUNDS = 2  # one squares the rounding; a second serves columns of very unlike sizes
_CLEAR = 1e-4  # of an eigenvalue: rounding below this share changes a log-density by less than 1e-4


@dataclass(frozen=True)
class _White:
    """Coordinates A in which A Σ Aᵀ is near I, for Σ = S + diag(reg); `blurred`: rounding hides an eigenvalue of it."""

    axes: Floats  # (d, d) A: each row an eigenvector over its standard deviation
    reg: Floats  # (d,)
    blurred: bool

    @classmethod
    def of(cls, covariance: Floats, reg: Floats) -> _White | None:
        """Make them from S; None where reg is nothing beside it."""
        unit = np.sqrt(reg)
        with np.errstate(over="ignore"):
            relative = covariance / np.outer(unit, unit)
        if not np.isfinite(relative).all() or NOTHING * relative.diagonal().max() >= 1:
            return None
        values, vectors = scipy.linalg.eigh(relative)
        noise = 4 * len(values) * _ULP * float(values[-1])
        deviations = np.sqrt(np.maximum(values, noise) + 1.0)
        return cls(vectors.T / deviations[:, None] / unit, reg, noise > _CLEAR)

    def refined(self, covariance: Floats) -> _White:
        """Return them with the eigenvalues that S, seen in these coordinates, has."""
        covariance = covariance + (self.axes * self.reg) @ self.axes.T
        values, vectors = scipy.linalg.eigh((covariance + covariance.T) / 2)
        noise = 4 * len(values) * _ULP * float(values[-1])
        axes = (vectors.T @ self.axes) / np.sqrt(np.maximum(values, noise))[:, None]
        return _White(axes, self.reg, bool(values[0] * _CLEAR < noise))

    def factored(self) -> Factored | None:
        """Return Σ, its whitener and log-determinant: A = QF with F lower triangular."""
        with np.errstate(over="ignore"):  # beside a huge constant column a deviation may be below 2^−512
            size = np.square(self.axes).sum(axis=1)
        rows = self.axes[np.argsort(-size, kind="stable")]  # large rows first: then the small ones keep their digits
        (upper,) = scipy.linalg.qr(rows[:, ::-1], mode="r", check_finite=False)
        signs = np.where(upper.diagonal()[::-1] < 0, -1.0, 1.0)
        whitener: Floats = np.ascontiguousarray(upper[::-1, ::-1] * signs[:, None], dtype=np.float64)
        if not (np.isfinite(whitener).all() and (whitener.diagonal() > 0).all()):
            return None
        lower = np.empty_like(whitener)
        _core.invert_lower(whitener, lower)
        return lower @ lower.T, whitener, float(-2.0 * np.log(whitener.diagonal()).sum())


def _joined(held: Pairs, more: Pairs) -> Pairs:
    return held if set(more) <= set(held) else tuple(sorted({*held, *more}))


def _clipped(covariance: Floats, unit: Floats) -> tuple[Floats, Floats, float, bool]:
    """Return the covariance with clipped eigenvalues, its whitener, its log-determinant, and if any was lifted."""
    clipped, root, lifted = _clip_eigenvalues(covariance, unit)
    try:
        lower = scipy.linalg.cholesky(clipped, lower=True)
    except scipy.linalg.LinAlgError:  # the floor is below the rounding of the largest eigenvalue
        lower = _lower_root(root)
        clipped = lower @ lower.T
    whitener = np.empty_like(lower)
    _core.invert_lower(lower, whitener)
    return clipped, whitener, float(2.0 * np.log(lower.diagonal()).sum()), lifted


def _lower_root(root: Floats) -> Floats:
    """Return L, lower triangular with a positive diagonal, LLᵀ = RᵀR: it loses half the digits that RᵀR would."""
    triangle = scipy.linalg.qr(root, mode="r", check_finite=False)[0]
    lower: Floats = np.ascontiguousarray((triangle * np.where(triangle.diagonal() < 0, -1.0, 1.0)[:, None]).T)
    if not (np.isfinite(lower).all() and (np.square(lower.diagonal()) >= LEAST).all()):
        raise _ill_defined()
    return lower


def _ill_defined() -> BadData:
    return BadData(
        "The fit failed because some components have ill-defined empirical covariance: columns of very unlike sizes "
        "depend on each other. Increase reg_covar, take fewer components, or scale the columns."
    )


def _unit(scale: Floats) -> Floats:
    """Return the scale; a column without any takes the mean one of the others, and where there is none, 1."""
    here = scale >= np.sqrt(LEAST)
    present = scale[here]
    return np.where(here, scale, np.sqrt(np.mean(present**2)) if len(present) else 1.0)


def _clip_eigenvalues(covariance: Floats, unit: Floats) -> tuple[Floats, Floats, bool]:
    """Clip the eigenvalues at FLOOR in units of the pooled variances: the exact M step under Σ ⪰ FLOOR·diag(unit²).

    Also return R with RᵀR = Σ, and whether any eigenvalue was lifted.
    """
    if not np.isfinite(covariance).all():
        raise _ill_defined()
    values, vectors = scipy.linalg.eigh(covariance / np.outer(unit, unit))
    lifted = bool(values.min() < FLOOR)
    values = np.maximum(values, FLOOR)
    root = np.sqrt(values)[:, None] * vectors.T * unit
    if not lifted:
        return covariance, root, False
    clipped = (vectors * values) @ vectors.T
    clipped = np.outer(unit, unit) * (clipped + clipped.T) / 2
    return np.asarray(clipped), root, True


def _upper_root(precision: Floats) -> Floats:
    """Return U, upper triangular, with precision = UUᵀ: Cholesky from the last row to the first."""
    lower = scipy.linalg.cholesky(np.asarray(precision, dtype=np.float64)[::-1, ::-1], lower=True)
    return np.asarray(lower[::-1, ::-1])


def _covariances_of(whiteners: Floats) -> Floats:
    lower = np.empty_like(whiteners)
    for c in range(len(whiteners)):
        _core.invert_lower(whiteners[c], lower[c])
    return np.matmul(lower, lower.transpose(0, 2, 1))


def _log_dets_of(whiteners: Floats) -> Floats:
    dets: Floats = -2.0 * np.log(np.diagonal(whiteners, axis1=1, axis2=2)).sum(axis=1)
    return dets


def _row_products(rows: Floats, matrix: Floats) -> Floats:
    """Return matrix @ row for every row, added in one order whatever BLAS does."""
    return np.einsum("ij,cj->ci", matrix, rows, optimize=False)


def _change(means: Floats, old: Floats, sigma: Floats, values: Floats, before: Floats, unit: Floats) -> float:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        moved = np.abs((means - old) / sigma).max()
        grown = values - before  # (k, d, d): wide data has many, so one array for all that follows
        grown /= unit
    return float(max(moved, np.abs(grown, out=grown).max()))
