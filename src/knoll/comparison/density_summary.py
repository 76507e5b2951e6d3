"""The density summary: how many clusters the density shows, and which rows belong to them, before any method is fitted.

It combines two sources of evidence. The kernel density estimate finds modes of any shape but needs deep density drops
between them. A mixture of Gaussians also finds shallow ones, but only if the data is a mixture of Gaussians, which is
tested. Where there are too many columns for the first, projections onto lines are a third. Each of them tends to find
too few clusters, so the one with the most is used. The partitions of the methods are then compared with this one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from knoll._common.rescale import exponent_of, times_power
from knoll._typing import Floats, Ints
from knoll.comparison.density_modes import Modes, find_modes, kernel_estimate, squared_distances
from knoll.comparison.line_projections import LineProjections, find_density_drops, is_high_dimensional
from knoll.comparison.mixture_evidence import MixtureEvidence, assess_mixture, fit_mixtures
from knoll.comparison.null_tests import LEVEL, describe, null_tests, without_flat_axes
from knoll.comparison.result import Evidence, Null, Structure

_EXTREME = 100  # powers of two
_MAX_EXPONENT = 950  # differences and sums of larger numbers might overflow
MIN_ROWS = 20  # the density of fewer rows is not estimated


@dataclass(frozen=True)
class DensitySummary:
    """The partition that the density suggests, and the evidence for it."""

    labels: Ints  # (m,)
    count: int
    structure: Structure
    model: Any | None  # the mixture with the smallest BIC; None with too few rows
    bic: Evidence | None
    groups: tuple[int, ...] | None  # the cluster of each component, if the source is the mixture


def summarize_density(
    points: Floats,
    numbers: tuple[int, ...],
    overrides: Mapping[str, Any],
    seed: int,
    n_jobs: int | None,
    progress: Callable[[str, float], None] = lambda stage, share: None,
) -> DensitySummary:
    """Summarize the density of the subsample; `overrides` are parameters of the mixture set by the user."""
    m = len(points)
    if m < MIN_ROWS:
        return no_density(m, f"{m} rows are too few to estimate a density (at least {MIN_ROWS})")
    rescaled = _rescaled(points)
    rows = without_flat_axes(rescaled)
    if rows.shape[1] == 0:
        return no_density(m, "all rows are equal")
    in_columns = rescaled is points and rows.shape == points.shape  # else the mixture is not one of the table's columns
    model, bic = fit_mixtures(rows, numbers, overrides, seed, n_jobs, lambda share: progress("mixtures", 0.4 * share))
    progress("kernel density", 0.4)
    gaps = squared_distances(rows)
    kernel = kernel_estimate(gaps, rows.shape[1])
    modes = find_modes(gaps, kernel, rows.shape[1])
    del gaps
    progress("goodness of fit", 0.6)
    mixture = assess_mixture(rows, model, kernel, seed)
    progress("data without clusters", 0.8)
    labels, count, source = modes.labels, modes.count, "modes"
    if mixture.count > modes.count or (mixture.trusted and mixture.count == modes.count):
        labels, count, source = mixture.labels, mixture.count, "mixture"
    projections = None
    if is_high_dimensional(*rows.shape):
        projections = find_density_drops(rows, numbers, kernel.log_density, count, seed, n_jobs)
        if projections.count > count:
            labels, count, source = projections.labels, projections.count, "projections"
    structure = _structure(null_tests(rows, model, seed), mixture, modes, projections, count, source)
    if structure.verdict == "none":
        labels, count, source = np.zeros(m, np.int64), 1, "none"
    if not in_columns:
        return DensitySummary(labels, count, structure, None, None, None)
    return DensitySummary(labels, count, structure, model, bic, mixture.groups if source == "mixture" else None)


def _rescaled(points: Floats) -> Floats:
    """Shift extreme rows and multiply them by one power of two; others, whose squares are finite, are returned.

    Columns far smaller than the largest become 0: they do not contribute to a distance either.
    """
    top = exponent_of(points)
    shrink = 70 if top > _MAX_EXPONENT else 0
    shifted = times_power(points, -shrink)
    shifted = shifted - shifted.min(axis=0)  # exactly 0 in a constant column of any size
    exponent = exponent_of(shifted)
    if top <= _EXTREME and abs(exponent + shrink) <= _EXTREME:
        return points
    rescaled: Floats = times_power(shifted, -exponent)
    return rescaled


def no_density(m: int, reason: str) -> DensitySummary:
    """Return the summary where the density could not be estimated."""
    structure = Structure("unknown", 0.0, _NAME, (), 1, reason + ".")
    return DensitySummary(np.zeros(m, np.int64), 1, structure, None, None, None)


_NAME = "largest prominence of a density mode, relative to the level expected by chance"


def _structure(
    nulls: tuple[Null, ...],
    mixture: MixtureEvidence,
    modes: Modes,
    projections: LineProjections | None,
    count: int,
    source: str,
) -> Structure:
    ratio = f"{modes.strength:.2f}" if modes.strength < 100 else "more than 100"
    prominence = f"the prominence of the second density mode is {ratio} times the level expected by chance"
    weak = next((null for null in nulls if null.p_value > LEVEL + 1e-12), None)
    if count == 1:
        verdict = "none"
        reason = f"the density has one mode{f' ({prominence})' if len(modes.strengths) else ''}, and {mixture.reason}"
        reason += f"; {projections.reason}" if projections is not None else ""
    elif weak is not None:
        verdict, reason = "none", f"the data cannot be distinguished from data without clusters: {describe(weak)}"
    else:
        verdict = "clusters"
        reason = mixture.reason if source == "mixture" else f"{prominence}; {modes.count} modes are significant"
        if projections is not None and source == "projections":
            reason = f"no density drop is significant in all columns at once, but {projections.reason}"
        reason += f"; {'; '.join(describe(null) for null in nulls)}"
    return Structure(verdict, modes.strength, _NAME, nulls, count, reason + ".")
