"""Factors of covariance matrices: Cholesky, and what replaces it where a matrix is singular, or nearly so.

Σ = LLᵀ is kept as its whitener F = L⁻¹. A matrix that reg_covar alone keeps from being singular is factorised in
coordinates that show its small eigenvalues (`propped`); of one that is singular the eigenvalues are clipped
(`clipped`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from knoll import _core
from knoll._typing import Floats, Ints
from knoll.exceptions import BadData
from knoll.gaussian.moments import FLOOR, LEAST, NOTHING, Moments, rounding_of

PIVOT = 1e-12  # of its variance: below this, what a column keeps when those before it are known is little but rounding
_ULP = 2.0**-52


def factorise(covariances: Floats, rounding: Floats, threads: int = 1) -> tuple[Floats, Floats, Ints]:
    """Return whiteners, log-determinants and the column whose pivot is nothing but rounding, −1 where there is none."""
    k, d = covariances.shape[:2]
    whiteners, log_dets, failed = np.empty((k, d, d)), np.empty(k), np.empty(k, dtype=np.int64)
    _core.factorise(covariances.reshape(k, -1), PIVOT, whiteners.reshape(k, -1), log_dets, failed, threads)
    variances = covariances.reshape(k, -1)[:, :: d + 1]
    lost = ~(variances > rounding)  # (k, d)
    if lost.any():
        failed = np.where((failed < 0) & lost.any(axis=1), lost.argmax(axis=1), failed)
    return whiteners, log_dets, failed


def regularised(covariances: Floats, reg_covar: float | Floats) -> Floats:
    """Return a copy with `reg_covar` added to the diagonals."""
    copy = np.array(covariances)  # (k, d, d)
    if reg_covar if isinstance(reg_covar, float) else reg_covar.any():
        d = copy.shape[1]
        copy.reshape(len(copy), -1)[:, :: d + 1] += reg_covar
    return copy


def singular_column(matrix: Floats, reg_covar: float | Floats) -> int:
    """Return the first column that depends on those before it without reg_covar, −1 where there is none."""
    return int(_core.cholesky(matrix - np.diag(np.broadcast_to(reg_covar, len(matrix))), PIVOT))


def positive_definite(matrices: Floats) -> bool:
    """Return whether all matrices (k, d, d) are symmetric and positive-definite."""
    if not np.allclose(matrices, matrices.transpose(0, 2, 1)):
        return False
    try:
        np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        return False
    return True


def upper_root(precision: Floats) -> Floats:
    """Return U, upper triangular, with precision = UUᵀ: Cholesky from the last row to the first."""
    lower = scipy.linalg.cholesky(np.asarray(precision, dtype=np.float64)[::-1, ::-1], lower=True)
    return np.asarray(lower[::-1, ::-1])


def covariances_of(whiteners: Floats) -> Floats:
    """Return Σ_c = L_c L_cᵀ (k, d, d) from the whiteners L_c⁻¹."""
    lower = np.empty_like(whiteners)
    for c in range(len(whiteners)):
        _core.invert_lower(whiteners[c], lower[c])
    return np.matmul(lower, lower.transpose(0, 2, 1))


def log_dets_of(whiteners: Floats) -> Floats:
    """Return log |Σ_c| (k,)."""
    dets: Floats = -2.0 * np.log(np.diagonal(whiteners, axis1=1, axis2=2)).sum(axis=1)
    return dets


# ---- what reg_covar alone keeps from being singular --------------------------------------------------------------

Factored = tuple[Floats, Floats, float]  # Σ (d, d), its whitener (d, d) and log |Σ|


def propped(stats: Moments, components: list[int], covariances: Floats) -> list[Factored | None]:
    """Factorise S + reg_covar for some components whose S (m, d, d) are singular to rounding; None: reg_covar is, too.

    The small eigenvalues of a computed S are the rounding of its largest, which may be far above reg_covar. So the rows
    are taken in coordinates that are white for S with that rounding added: there the small ones are summed by
    themselves, and err by the square of the rounding.
    """
    d = stats.mean.shape[1]
    reg = np.broadcast_to(np.asarray(stats.reg_covar, dtype=np.float64), d)
    enough = np.all(reg > rounding_of(stats.mean[components], stats.scale), axis=1).tolist()
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


def propped_average(stats: Moments, share: Floats, means: Floats, covariance: Floats) -> Factored | None:
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


# ---- clipped eigenvalues ----------------------------------------------------------------------------------------


def clipped(covariance: Floats, unit: Floats) -> tuple[Floats, Floats, float, bool]:
    """Return the covariance with clipped eigenvalues, its whitener, its log-determinant, and if any was lifted."""
    covariance, root, lifted = _clip_eigenvalues(covariance, unit)
    try:
        lower = scipy.linalg.cholesky(covariance, lower=True)
    except scipy.linalg.LinAlgError:  # the floor is below the rounding of the largest eigenvalue
        lower = _lower_root(root)
        covariance = lower @ lower.T
    whitener = np.empty_like(lower)
    _core.invert_lower(lower, whitener)
    return covariance, whitener, float(2.0 * np.log(lower.diagonal()).sum()), lifted


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
