"""What a comparison hands back: one answer a method, what they agree on, and the one that is recommended."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from knoll._format import percent
from knoll._typing import Floats, Ints
from knoll.comparison.profile import Profile
from knoll.comparison.scaling import Scaling

__all__ = [
    "Agreement",
    "Candidate",
    "Comparison",
    "Event",
    "Evidence",
    "Failure",
    "Null",
    "Recommendation",
    "Shortcut",
    "Structure",
    "table_lines",
]


@dataclass(frozen=True)
class Event:
    """How far a comparison is."""

    method: str  # a method, or "data", "density", "judge"
    stage: str  # what it is doing, in a few words
    fraction: float  # of the whole comparison, from 0 to 1
    seconds_left: float | None  # a guess from the time so far; None at first
    memory: int  # the most bytes that the process has used so far


@dataclass(frozen=True)
class Evidence:
    """A curve that a parameter was chosen from, and the point that was chosen."""

    name: str  # "BIC", "eigengap", "12-distances", ...
    parameter: str  # what was chosen from it
    x: Floats  # (m,)
    y: Mapping[str, Floats]  # one or more curves, each (m,)
    chosen: float  # on the axis of x
    reason: str  # one sentence
    x_label: str = ""
    y_label: str = ""


@dataclass(frozen=True)
class Shortcut:
    """What speaks for an answer that did not see every row."""

    share: float  # of the rows that was fitted; the rest was labelled by predict
    others: int  # rows of a second fit, to other rows
    agreement: float  # adjusted Rand index of the two answers on the view
    residual: float | None  # spectral: the largest residual of its eigenpairs under the exact operator

    def __str__(self) -> str:
        text = (
            f"fitted on {percent(self.share)} of the rows, the rest labelled by predict; "
            f"a fit to {self.others} other rows gives similar clusters (adjusted Rand index {self.agreement:.2f})"
        )
        return text if self.residual is None else f"{text}; largest eigenvalue residual {self.residual:.1g}"


@dataclass(frozen=True)
class Candidate:
    """One method's answer."""

    method: str
    model: Any  # the fitted estimator; its data was scaled. A knoll.models.Relabeled one where components were joined
    labels: Ints  # (n,), −1 noise
    probabilities: Floats | None  # (n, clusters), where the method has them; with noise one column more
    parameters: Mapping[str, Any]  # chosen or given
    evidence: tuple[Evidence, ...]
    n_clusters: int
    noise: float  # the share of rows labelled −1
    scores: Mapping[str, float]  # internal scores by name
    stability: float | None  # mean adjusted Rand index of refits on resamples
    stability_spread: float | None  # and their standard deviation
    fitted_rows: int
    how: str  # "all rows", or what was fitted and how the rest was labelled
    certificate: float | None  # spectral: the largest residual of its eigenpairs under the exact operator
    seconds: float
    warnings: tuple[str, ...] = ()
    groups: tuple[int, ...] | None = None  # the cluster of each component, where components were joined
    shortcut: Shortcut | None = None  # None: every row was fitted


@dataclass(frozen=True)
class Failure:
    """A method that gave no answer."""

    method: str
    reason: str
    seconds: float


@dataclass(frozen=True)
class Null:
    """How far the data is from one kind of data without clusters."""

    name: str  # "uniform", "gaussian"
    statistic: float  # of the data
    statistics: Floats  # (draws,) of data without clusters
    p_value: float


@dataclass(frozen=True)
class Structure:
    """Whether the data shows clusters at all."""

    verdict: str  # "clusters", "none", or "unknown" where the density could not be looked at
    statistic: float
    statistic_name: str
    nulls: tuple[Null, ...]
    n_hills: int
    reason: str


@dataclass(frozen=True)
class Recommendation:
    """The clustering to take, and why."""

    method: str | None  # None: no answer is recommended
    reasons: tuple[str, ...]
    runner_up: str | None
    why_not: str  # what the runner-up lacks
    caution: str
    structure: Structure
    verdict: str  # "recommended"; "no clusters"; "not found": no method found usable ones; "unknown": too little data


@dataclass(frozen=True)
class Agreement:
    """How alike the answers are: adjusted mutual information of each pair."""

    methods: tuple[str, ...]
    matrix: Floats  # (m, m), ones on the diagonal


@dataclass(frozen=True)
class Comparison:
    """Everything that a comparison found; `summary` is the plain form for a file.

    `labels` are those of the recommended method, all 0 where none is recommended.
    """

    profile: Profile
    scaling: Scaling
    candidates: Mapping[str, Candidate]  # by method, in the order of knoll.registry
    failures: tuple[Failure, ...]
    agreement: Agreement
    recommendation: Recommendation
    truth_scores: Mapping[str, Mapping[str, float]] | None  # by method: "ari", "ami"
    labels: Ints  # (n,)
    seed: int
    budget: float
    seconds: float
    interrupted: bool
    notes: tuple[str, ...] = field(default=())  # what was sampled, and what speaks for it

    def __repr__(self) -> str:
        """Draw the short table and the recommendation."""
        lines = table_lines(self)
        advice = self.recommendation
        nothing = {"no clusters": "none, the data shows no clusters", "not found": "none, no method found clusters"}
        lines.append(f"recommended: {advice.method or nothing.get(advice.verdict, 'none')}")
        lines += [f"  {reason}" for reason in advice.reasons]
        return "\n".join(lines)

    def summary(self) -> dict[str, Any]:
        """Return all but the labels, models and probabilities as plain dicts, lists, numbers and words."""
        advice = self.recommendation
        return {
            "profile": plain(self.profile.summary()),
            "scaling": plain(self.scaling.summary()),
            "candidates": {name: _of_candidate(found) for name, found in self.candidates.items()},
            "failures": [plain(vars(failure)) for failure in self.failures],
            "agreement": {"methods": list(self.agreement.methods), "ami": plain(self.agreement.matrix)},
            "recommendation": {
                "method": advice.method,
                "verdict": advice.verdict,
                "reasons": list(advice.reasons),
                "runner_up": advice.runner_up,
                "why_not": advice.why_not,
                "caution": advice.caution,
                "structure": {
                    **{k: plain(v) for k, v in vars(advice.structure).items() if k != "nulls"},
                    "nulls": [plain(vars(null)) for null in advice.structure.nulls],
                },
            },
            "truth_scores": plain(self.truth_scores),
            "seed": self.seed,
            "budget": self.budget,
            "seconds": self.seconds,
            "interrupted": self.interrupted,
            "notes": list(self.notes),
        }


def table_lines(comparison: Comparison, name: Callable[[str], str] = str) -> list[str]:
    """Draw the short table of a comparison; `name` is how a method is called in it."""
    truth = comparison.truth_scores
    sampled = any(found.fitted_rows < len(comparison.labels) for found in comparison.candidates.values())
    head, last = "" if truth is None else f"{'truth':>7}", "  fitted on" if sampled else ""
    lines = [f"  {'method':<20}{'clusters':>9}{'noise':>8}{'stability':>11}{head}{'seconds':>9}{last}"]
    for method, found in comparison.candidates.items():
        mark = "→" if method == comparison.recommendation.method else " "
        stable = "–" if found.stability is None else f"{found.stability:.2f}"
        known = "" if truth is None else f"{truth[method]['ari']:>7.2f}"
        lines.append(
            f"{mark} {name(method):<20}{found.n_clusters:>9}{100 * found.noise:>6.1f} %{stable:>11}{known}"
            f"{found.seconds:>9.2f}{f'  {found.how}' if sampled else ''}"
        )
    for failure in comparison.failures:
        lines.append(f"  {name(failure.method):<20} no answer: {' '.join(failure.reason.split())}")
    return lines


def _of_candidate(found: Candidate) -> dict[str, Any]:
    left_out = {"model", "labels", "probabilities", "evidence", "shortcut"}
    flat = {name: plain(value) for name, value in vars(found).items() if name not in left_out}
    sizes = np.unique(found.labels[found.labels >= 0], return_counts=True)[1]
    return flat | {
        "sizes": plain(sizes),
        "shortcut": None if found.shortcut is None else plain(vars(found.shortcut)),
        "evidence": [plain(vars(evidence)) for evidence in found.evidence],
    }


def plain(value: Any) -> Any:
    """Turn arrays, NumPy numbers and mappings into what JSON knows; NaN and infinities become None."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | range):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
