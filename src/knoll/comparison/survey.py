"""What the density says before any method is asked: how many clusters there are, and which rows lie in which.

Two witnesses are heard. The kernel estimate sees hills of any shape but needs deep valleys; a mixture of Gaussians sees
shallow ones, too, but only if the data is made of Gaussians, which is tested. Where there are so many columns that the
first sees little, a third looks along lines. All err on the side of too few, so the one that sees most is believed.
The answers of the methods are then judged by how well they meet this partition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from knoll._common.rescale import exponent_of, times_power
from knoll._typing import Floats, Ints
from knoll.comparison.density import Hills, find_hills, kernel_estimate, squared_distances
from knoll.comparison.lines import Lines, is_blind, seek_lines
from knoll.comparison.mixture import MixtureEvidence, fit_mixtures, weigh_mixture
from knoll.comparison.nulls import LEVEL, describe, essential, null_tests
from knoll.comparison.result import Evidence, Structure

__all__ = ["FEWEST", "Survey", "nothing", "survey"]


_EXTREME = 100  # powers of two
_MOST_EXPONENT = 950  # differences and sums of larger numbers might leave float64
FEWEST = 20  # rows; with fewer nothing can be said about density


@dataclass(frozen=True)
class Survey:
    """The partition that the density suggests, and the witnesses."""

    labels: Ints  # (m,)
    count: int
    witness: str  # "mixture", "hills", "lines", or "none" where all is one
    structure: Structure
    model: Any | None  # the mixture of least BIC; None where there were too few rows
    bic: Evidence | None
    groups: tuple[int, ...] | None  # of the mixture's components, where the mixture is the witness
    hills: Hills | None
    mixture: MixtureEvidence | None
    lines: Lines | None = None  # where there are many columns


def survey(
    points: Floats,
    numbers: tuple[int, ...],
    given: Mapping[str, Any],
    seed: int,
    n_jobs: int | None,
    tick: Callable[[str, float], None] = lambda stage, share: None,
) -> Survey:
    """Look at the rows of the view; `given` are parameters of the mixture set by hand."""
    m = len(points)
    usual = _rescaled(points)
    filled = essential(usual) if m >= FEWEST else points
    if m < FEWEST or filled.shape[1] == 0:
        why = f"{m} rows are too few to tell (at least {FEWEST})" if m < FEWEST else "all rows are equal"
        return nothing(m, why)
    turned = (
        usual is not points or filled.shape != points.shape
    )  # then the mixture of the survey is not one of the columns
    model, bic = fit_mixtures(filled, numbers, given, seed, n_jobs, lambda share: tick("mixtures", 0.4 * share))
    tick("kernel density", 0.4)
    gaps = squared_distances(filled)
    kernel = kernel_estimate(gaps, filled.shape[1])
    hills = find_hills(gaps, kernel, filled.shape[1])
    del gaps
    tick("is the mixture true", 0.6)
    mixture = weigh_mixture(filled, model, kernel, seed)
    tick("data without clusters", 0.8)
    labels, count, witness = hills.labels, hills.count, "hills"
    if mixture.count > hills.count or (mixture.trusted and mixture.count == hills.count):
        labels, count, witness = mixture.labels, mixture.count, "mixture"
    lines = None
    if is_blind(*filled.shape):
        lines = seek_lines(filled, numbers, kernel.log_density, count, seed, n_jobs)
        if lines.count > count:
            labels, count, witness = lines.labels, lines.count, "lines"
    structure = _structure(filled, model, mixture, hills, lines, count, witness, seed)
    if structure.verdict == "none":
        labels, count, witness = np.zeros(m, np.int64), 1, "none"
    return Survey(
        labels, count, witness, structure, None if turned else model, None if turned else bic,
        mixture.groups if witness == "mixture" and not turned else None, hills, mixture, lines,
    )  # fmt: skip


def _rescaled(points: Floats) -> Floats:
    """Shift extreme rows and rescale them all by one power of two; others, whose squares float64 has, are returned.

    Columns far smaller than the largest become 0: unscaled, they have no say in a distance either.
    """
    top = exponent_of(points)
    shrink = 70 if top > _MOST_EXPONENT else 0
    shifted = times_power(points, -shrink)
    shifted = shifted - shifted.min(axis=0)  # exactly 0 in a constant column, however large
    exponent = exponent_of(shifted)
    if top <= _EXTREME and abs(exponent + shrink) <= _EXTREME:
        return points
    rescaled: Floats = times_power(shifted, -exponent)
    return rescaled


def nothing(m: int, why: str) -> Survey:
    """Return what is known where the density could not be looked at."""
    structure = Structure("unknown", 0.0, _NAME, (), 1, why + ".")
    return Survey(np.zeros(m, np.int64), 1, "none", structure, None, None, None, None, None)


_NAME = "largest prominence of a hill over what chance would give"


def _structure(
    points: Floats,
    model: Any,
    mixture: MixtureEvidence,
    hills: Hills,
    lines: Lines | None,
    count: int,
    witness: str,
    seed: int,
) -> Structure:
    nulls = null_tests(points, model, seed)
    times = f"{hills.strength:.2f}" if hills.strength < 100 else "more than 100"
    strength = f"the gap around the most prominent density peak is {times} times what random data would show"
    alone = f" ({strength})" if len(hills.strengths) else ""
    if count == 1:
        verdict = "none"
        reason = f"the density has one peak{alone}, and {mixture.reason}"
        reason += f"; {lines.reason}" if lines is not None else ""
    elif any(null.p_value > LEVEL + 1e-12 for null in nulls):
        weak = next(null for null in nulls if null.p_value > LEVEL + 1e-12)
        verdict, reason = "none", f"the data cannot be distinguished from data without clusters: {describe(weak)}"
    else:
        verdict = "clusters"
        reason = mixture.reason if witness == "mixture" else f"{strength}; {hills.count} peaks stand out"
        if lines is not None and witness == "lines":
            reason = f"no gap is seen in all {points.shape[1]} columns at once, but {lines.reason}"
        reason += f"; {'; '.join(describe(null) for null in nulls)}"
    return Structure(verdict, hills.strength, _NAME, nulls, count, reason + ".")
