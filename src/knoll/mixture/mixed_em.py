"""The step of EM for products of a Gaussian block and categorical blocks, with missing values integrated out.

Equations 2.15–2.20 of docs/theory/02-gaussian-mixture.md. Within a state numbers are in units of their own,
y = (x·2⁻ᵃ − origin)·2⁻ᵇ with a and b for each column (`Units`).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from knoll import _core
from knoll._common.loop import StepReport
from knoll._common.mixed_table import MixedTable, group_patterns
from knoll._common.rescale import exponents_of, times_power
from knoll._typing import Bools, Codes, Floats, Ints
from knoll.gaussian.covariance import Covariance
from knoll.gaussian.moments import SCATTER_COLUMNS, Moments
from knoll.mixture.em import DEAD

__all__ = [
    "MixedRows",
    "MixedState",
    "Prior",
    "Units",
    "arrange",
    "expect",
    "from_shares",
    "log_penalty",
    "reordered",
    "step",
]

# Squared distance of a new mean from the pivot of its moments, in variances, beyond which the pass is made again
# (docs/numerics/mixture.md, M5).
_FAR = 1e4
_LOG2 = math.log(2.0)


@dataclass(frozen=True)
class Units:
    """y = (x·2^−before − origin)·2^−after, column by column: y has mean 0 and a deviation near 1."""

    before: Ints  # (p,)
    origin: Floats  # (p,)
    after: Ints  # (p,)

    @classmethod
    def of(cls, sizes: Floats, origins: Floats, deviations: Floats, isotropic: bool) -> Units:
        """Make units of the largest magnitudes (p,), and of origins and deviations in the units of x over those."""
        before = exponents_of(sizes)
        if isotropic and (sizes > 0).any():  # a column without a value, or of zeros, has no unit
            before = np.full_like(before, before[sizes > 0].max())
        origin = times_power(origins, -before)
        after = exponents_of(times_power(deviations, -before))
        after = np.where(deviations > 0, after, 0)
        if isotropic and (deviations > 0).any():
            after = np.full_like(after, after[deviations > 0].max())
        return cls(before, np.asarray(origin), after)

    @property
    def exponents(self) -> Ints:
        """The power of two of one unit of y, (p,)."""
        return self.before + self.after

    def down(self, x: Floats) -> Floats:
        """Return y; NaN stays."""
        return np.asarray(times_power(times_power(x, -self.before) - self.origin, -self.after))

    def up(self, y: Floats) -> Floats:
        """Return x."""
        return np.asarray(times_power(times_power(y, self.after) + self.origin, self.before))

    def log_volumes(self, observed: Bools) -> Floats:
        """What the log-density of y has more than that of x, for rows (n, p) of which these columns are observed."""
        volumes: Floats = observed @ (self.exponents * _LOG2)
        return volumes


@dataclass(frozen=True)
class MixedRows:
    """Rows as the kernels read them: grouped by pattern, in the units of a state, codes as rows of its table."""

    y: Floats  # (n, p) 0 where a value is missing
    codes: Codes  # (n, q)
    weights: Floats | None  # (n,)
    starts: Ints  # (groups + 1,)
    observed: Bools  # (groups, p)
    order: Ints  # (n,) the row of the table that each is
    offsets: Ints  # (q + 1,) the first level of each column in the table; the last row of it stands for "missing"


@dataclass(frozen=True)
class Prior:
    """The Dirichlet prior of the level probabilities: pseudo-counts for each level of each column, (levels,)."""

    counts: Floats

    @classmethod
    def of(cls, strength: float, k: int, marginals: Floats) -> Prior:
        """Spread `strength` rows over k components, as all rows are spread over the levels (eq. 2.19)."""
        return cls(strength / k * marginals)


@dataclass(frozen=True)
class MixedState:
    """A mixture of products."""

    weights: Floats  # (k,) π
    covariance: Covariance | None  # means and covariances of the Gaussian block in units of y; None without one
    probabilities: Floats  # (levels, k) θ, the columns one after the other
    pivots: Floats | None = None  # (k, p) about which the next moments are taken; None: the means

    def parameters(self) -> tuple[Floats, Floats, Floats, bool, Floats]:
        """Return the mixture as the kernels read it."""
        k = len(self.weights)
        with np.errstate(divide="ignore"):
            log_weights, logs = np.log(self.weights), np.log(self.probabilities)
        table = np.vstack([logs, np.zeros((1, k))])
        if self.covariance is None:
            return log_weights, np.zeros((k, 0)), np.zeros((k, 0)), False, table
        means, full = self.covariance.means, self.full
        p = means.shape[1]
        if full:
            scales = self.covariance.as_matrices(self.covariance.covariances_, k, p).reshape(k, -1)
        else:
            factors = self.covariance.diagonals(self.covariance.precisions_cholesky_)
            scales = np.broadcast_to(factors, (k, p))
        return log_weights, means, scales, full, table

    @property
    def full(self) -> bool:
        """Whether covariances have off-diagonal entries."""
        return self.covariance is not None and self.covariance.scatter != SCATTER_COLUMNS


def arrange(table: MixedTable, weights: Floats | None, units: Units) -> MixedRows:
    """Group rows by pattern, and bring them into units."""
    missing = np.isnan(table.numeric)
    groups = group_patterns(missing)
    moved = len(groups.starts) > 2
    numeric = table.numeric[groups.order] if moved else table.numeric
    y = units.down(numeric)
    if missing.any():
        y = np.where(np.isnan(y), 0.0, y)
    offsets = np.append(0, np.cumsum(table.sizes)).astype(np.int64)
    codes = table.codes[groups.order] if moved else table.codes
    codes = np.where(codes < 0, offsets[-1], codes + offsets[:-1]).astype(np.int32)
    if weights is not None and moved:
        weights = weights[groups.order]
    return MixedRows(
        np.ascontiguousarray(y),
        np.ascontiguousarray(codes),
        weights,
        groups.starts.astype(np.int64),
        groups.observed,
        groups.order,
        offsets,
    )


# ---- where EM starts -----------------------------------------------------------------------------------------------


def from_shares(
    rows: MixedRows, observed: Bools, shares: Floats, shape: Covariance, deviations: Floats, reg: Floats, prior: Prior
) -> MixedState:
    """Make a state of responsibilities (n, k): moments of what is observed, without off-diagonal entries.

    `observed` (n, p) belongs to the rows as they are arranged, `deviations` (p,) are the pooled ones.
    """
    weighted = shares if rows.weights is None else shares * rows.weights[:, None]
    mass = weighted.sum(axis=0)  # (k,)
    k, p = len(mass), rows.y.shape[1]
    probabilities = _probabilities(_level_counts(rows, weighted), rows.offsets, prior, np.ones(k, dtype=np.bool_))
    weights = mass / mass.sum()
    if p == 0:
        return MixedState(weights, None, probabilities)
    seen = weighted.T @ observed  # (k, p)
    first, second = weighted.T @ rows.y, weighted.T @ np.square(rows.y)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(seen > 0, first / seen, 0.0)
        variance = np.where(seen > 0, np.maximum(second / seen - np.square(mean), 0.0), np.square(deviations))
    covariance = variance if shape.scatter == SCATTER_COLUMNS else variance[:, :, None] * np.eye(p)
    stats = Moments(np.maximum(mass, DEAD), mean, covariance, deviations, reg)
    return MixedState(weights, shape.update(stats), probabilities)


def _level_counts(rows: MixedRows, weighted: Floats) -> Floats:
    levels, k = int(rows.offsets[-1]), weighted.shape[1]
    counts = np.zeros((levels + 1, k))
    for j in range(rows.codes.shape[1]):
        for c in range(k):
            counts[:, c] += np.bincount(rows.codes[:, j], weighted[:, c], minlength=levels + 1)
    return counts[:levels]


def _probabilities(counts: Floats, offsets: Ints, prior: Prior, alive: Bools, old: Floats | None = None) -> Floats:
    """Return θ = (count + prior) / Σ (count + prior) for each column (eq. 2.19); a dead component keeps its own.

    Where counts and prior are below float64, levels are equally probable.
    """
    total = counts + prior.counts[:, None]
    found = np.empty_like(total)
    for begin, end in itertools.pairwise(offsets):
        sums = total[begin:end].sum(axis=0)
        with np.errstate(invalid="ignore"):
            found[begin:end] = np.where(sums > 0, total[begin:end] / sums, 1.0 / max(1, end - begin))
    return found if old is None else np.where(alive, found, old)


# ---- one step ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Sums:
    likelihood: float
    total: float
    mass: Floats  # (k,)
    seen: Floats  # (k, p) mass of the rows where a column is observed
    first: Floats  # (k, p)
    second: Floats  # (k, p) or lower triangles (k, p(p+1)/2)
    counts: Floats  # (levels, k)
    alive: Bools  # (k,)
    pivots: Floats  # (k, p)


def _total(rows: MixedRows, state: MixedState, threads: int) -> _Sums:
    log_weights, means, scales, full, table = state.parameters()
    k, p = means.shape
    pivots = means if state.pivots is None else state.pivots
    head, peaks, counts = np.empty(2), np.empty(k), np.empty((len(table), k))
    moments = np.empty((k, 1 + 2 * p + (p * (p + 1) // 2 if full else p)))
    _core.sum_mixed(
        rows.y,
        rows.codes,
        rows.weights,
        rows.starts,
        rows.observed,
        log_weights,
        means,
        scales,
        full,
        table,
        pivots,
        head,
        moments,
        counts,
        peaks,
        threads,
    )
    mass, seen, first, second = np.split(moments, [1, 1 + p, 1 + 2 * p], axis=1)
    alive = peaks >= DEAD
    mass = np.where(alive, mass[:, 0], 0.0)
    return _Sums(float(head[0]), float(head[1]), mass, seen, first, second, counts[:-1], alive, pivots)


def step(
    rows: MixedRows, state: MixedState, threads: int, *, reg: Floats, deviations: Floats, prior: Prior
) -> tuple[MixedState, StepReport]:
    """Take one step of EM (eq. 2.16–2.20).

    The report's objective is that of the state that went in, the log-likelihood and the log-prior per unit of weight,
    in units of y.
    """
    sums = _total(rows, state, threads)
    shape = state.covariance
    if shape is not None:
        moments = _moments(sums, state, deviations, reg)
        if state.pivots is None and _is_far(moments, sums.pivots):
            pivots = np.where(sums.alive[:, None], moments.mean, sums.pivots)
            sums = _total(rows, replace(state, pivots=pivots), threads)
            moments = _moments(sums, state, deviations, reg)
        shape = shape.update(moments)
    probabilities = _probabilities(sums.counts, rows.offsets, prior, sums.alive, state.probabilities)
    weights = np.minimum(sums.mass / sums.total, 1.0)
    objective = (sums.likelihood + log_penalty(state.probabilities, prior)) / sums.total
    after = MixedState(weights, shape, probabilities)
    return after, StepReport(objective, _change(after, state))


def log_penalty(probabilities: Floats, prior: Prior) -> float:
    """Return the logarithm of the Dirichlet prior up to a constant: Σ a log θ (eq. 2.20)."""
    return float((prior.counts[:, None] * np.log(probabilities, where=probabilities > 0, out=np.zeros_like(
        probabilities))).sum())  # fmt: skip


def _change(after: MixedState, before: MixedState) -> float:
    changes = [float(np.abs(after.weights - before.weights).max())]
    if after.covariance is not None and before.covariance is not None:
        changes.append(after.covariance.change_from(before.covariance))
    if len(after.probabilities):
        changes.append(float(np.abs(after.probabilities - before.probabilities).max()))
    return max(changes)


def _moments(sums: _Sums, state: MixedState, deviations: Floats, reg: Floats) -> Moments:
    """Return means and central moments from the sums about the pivots."""
    shape = state.covariance
    assert shape is not None
    alive = None if sums.alive.all() else sums.alive
    mass = np.where(sums.mass > 0, sums.mass, 1.0)[:, None]  # 0 of a dead component, or of tiny weights alone
    with np.errstate(divide="ignore", invalid="ignore"):
        if state.full:
            shift = sums.first / mass
            covariance = _square(sums.second / mass, shift)
            return Moments(sums.mass, sums.pivots + shift, covariance, deviations, reg, alive)
        seen = sums.seen > 0
        shift = np.where(seen, sums.first / sums.seen, 0.0)
        variance = np.where(seen, np.maximum(sums.second / sums.seen - np.square(shift), 0.0), 0.0)
    # a column that no row of a component has: its parameters stay
    before = np.broadcast_to(shape.diagonals(shape.covariances_), seen.shape)
    mean = np.where(seen, sums.pivots + shift, shape.means)
    variance = np.where(seen, variance, np.maximum(before - reg, 0.0))
    if shape.isotropic:  # the mean over columns becomes that over the values which are observed
        counts = np.where(seen, sums.seen, 0.0)
        total = counts.sum(axis=1, keepdims=True)
        variance = np.where(total > 0, variance * counts * counts.shape[1] / np.where(total > 0, total, 1.0), variance)
    return Moments(sums.mass, mean, variance, deviations, reg, alive)


def _square(second: Floats, shift: Floats) -> Floats:
    """Unpack lower triangles (k, p(p+1)/2) into (k, p, p) and subtract the outer products of the shifts."""
    k, p = shift.shape
    rows, columns = np.tril_indices(p)
    covariance = np.empty((k, p, p))
    covariance[:, rows, columns] = second
    covariance[:, columns, rows] = second
    covariance -= shift[:, :, None] * shift[:, None, :]
    diagonal = covariance.reshape(k, -1)[:, :: p + 1]
    np.maximum(diagonal, 0.0, out=diagonal)
    return covariance


def _is_far(moments: Moments, pivots: Floats) -> bool:
    """Whether a new mean lies so far from its pivot that the subtraction has cost digits."""
    assert moments.covariance is not None
    second = moments.covariance
    variances = second if second.ndim == 2 else np.diagonal(second, axis1=1, axis2=2)
    squares = np.square(moments.mean - pivots)
    if moments.alive is not None:
        squares = np.where(moments.alive[:, None], squares, 0.0)
    return bool((squares > _FAR * np.maximum(variances, 2.0**-1000)).any())


# ---- responsibilities and densities --------------------------------------------------------------------------------


def expect(
    rows: MixedRows,
    state: MixedState,
    threads: int,
    *,
    resp: Floats | None = None,
    labels: Ints | None = None,
    log_prob: Floats | None = None,
    joint: Floats | None = None,
    filled: Floats | None = None,
) -> None:
    """Fill the arrays that are not None, whose rows are those of the table, not as they are arranged.

    `filled` (n, p) gets E[y | what is observed] where a value is missing, in units of y.
    """
    wanted: dict[str, Any] = {"resp": resp, "labels": labels, "log_prob": log_prob, "joint": joint, "filled": filled}
    moved = len(rows.starts) > 2
    out: dict[str, Any] = {name: np.empty_like(a) if moved and a is not None else a for name, a in wanted.items()}
    if moved and filled is not None:
        out["filled"] = filled[rows.order]
    table = rows.y, rows.codes, rows.starts, rows.observed
    fill: Any = _core.expect_mixed  # the starred arguments have several types
    fill(*table, *state.parameters(), *out.values(), threads)
    for name, array in wanted.items():
        if moved and array is not None:
            array[rows.order] = out[name]


def reordered(shape: Covariance, order: Ints, deviations: Floats) -> Covariance:
    """Return the same Gaussians with their columns in another order."""
    if (order == np.arange(len(order))).all():
        return shape
    covariances: Any = shape.covariances_
    for axis, side in enumerate(shape.sides.split()):
        if side == "d":
            covariances = np.take(covariances, order, axis=axis)
    builder: Any = type(shape)
    made: Covariance = builder.from_covariances(shape.means[:, order], covariances, deviations[order])
    return made
