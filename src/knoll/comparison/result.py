"""The result of a comparison: one answer per method, their agreement, and the recommendation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, is_dataclass
from typing import Any

import numpy as np

from knoll._format import percent
from knoll._typing import Floats, Ints
from knoll.comparison.profile import Profile
from knoll.models import Preparation
from knoll.tables.table import Table


@dataclass(frozen=True)
class Event:
    """The progress of a comparison."""

    method: str  # a method, or "judge"
    stage: str  # in a few words
    fraction: float  # of the whole comparison, from 0 to 1
    seconds_left: float | None  # estimated from the time so far; None at first
    memory: int  # peak memory of the process so far, in bytes


@dataclass(frozen=True)
class Evidence:
    """A curve that a parameter was chosen from, and the point that was chosen."""

    name: str  # "BIC", "eigengap", "12-distances", ...
    parameter: str  # chosen from it
    x: Floats  # (m,)
    y: Mapping[str, Floats]  # one or more curves, each (m,)
    chosen: float  # on the axis of x
    reason: str  # one sentence
    x_label: str = ""
    y_label: str = ""


@dataclass(frozen=True)
class Shortcut:
    """The evidence for an answer that was not fitted to every row."""

    share: float  # of the rows in the fit; the others were labelled by predict
    others: int  # rows of a second fit, to other rows
    agreement: float  # adjusted Rand index of the two answers on the subsample
    residual: float | None  # spectral: the largest residual of its eigenpairs under the exact operator

    def __str__(self) -> str:
        text = (
            f"fitted on {percent(self.share)} of the rows, the others labelled by predict; "
            f"adjusted Rand index {self.agreement:.2f} with a fit to {self.others} other rows"
        )
        return text if self.residual is None else f"{text}; largest eigenvalue residual {self.residual:.1g}"


@dataclass(frozen=True)
class Candidate:
    """One method's answer."""

    method: str
    model: Any  # the fitted estimator, of scaled data; a knoll.models.Relabeled if components were merged
    labels: Ints  # (n,), −1 noise
    probabilities: Floats | None  # (n, clusters), where the method has them; with noise one column more
    parameters: Mapping[str, Any]  # chosen, or set by the user
    evidence: tuple[Evidence, ...]
    n_clusters: int
    noise: float  # the share of rows labelled −1
    scores: Mapping[str, float]  # internal scores by name
    stability: float | None  # mean adjusted Rand index of refits on resamples
    stability_spread: float | None  # standard deviation of the same
    fitted_rows: int
    how: str  # "all rows", or what was fitted and how the other rows were labelled
    certificate: float | None  # spectral: the largest residual of its eigenpairs under the exact operator
    seconds: float
    warnings: tuple[str, ...] = ()
    groups: tuple[int, ...] | None = None  # the cluster of each component, if components were merged
    expected: float = 0.0  # the adjusted Rand index with the true clusters, as the judge expects it
    sources: tuple[str, ...] = ()  # the methods and variants that found about this answer
    shortcut: Shortcut | None = None  # None: fitted to every row
    mixed: bool = False  # whether the model takes categories and missing values as they are


@dataclass(frozen=True)
class Failure:
    """A method without an answer."""

    method: str
    reason: str
    seconds: float


@dataclass(frozen=True)
class Alternative:
    """The best answer that differs from those before it."""

    candidate: Candidate
    defensible: bool  # whether its score is nearly that of the recommended answer
    relation: str  # to the recommended answer: "finer", "coarser" or "different"
    agreement: float  # adjusted Rand index with it


@dataclass(frozen=True)
class Recommendation:
    """The recommended clustering, the verdict on whether there are clusters at all, and the reasons."""

    method: str
    verdict: str  # "clusters"; "none": one continuous cloud, which the labels divide; "unclear"
    confidence: float  # the expected adjusted Rand index with the true clusters, from 0 to 1
    level: str  # the same in words: "clear", "likely", "a guess"
    reasons: tuple[str, ...]
    alternatives: tuple[Alternative, ...]
    caution: str


@dataclass(frozen=True)
class Agreement:
    """The adjusted mutual information of each pair of answers."""

    methods: tuple[str, ...]
    matrix: Floats  # (m, m), ones on the diagonal


@dataclass(frozen=True)
class Comparison:
    """The result of `knoll.compare`; `summary` returns it as plain values, for a file.

    `labels` are those of the recommended answer, also where the verdict is "none": then they divide one cloud.
    """

    profile: Profile
    scaling: Preparation
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
    notes: tuple[str, ...] = field(default=())  # what was sampled, and the evidence for it
    table: Table | None = None  # the rows with the types of their columns; None where X was an array of numbers

    def preparation(self, candidate: Candidate) -> Preparation:
        """Return what is done to the table before a model of this comparison takes it."""
        return self.scaling.with_codes() if candidate.mixed else self.scaling

    @property
    def verdict(self) -> str:
        """Whether there are clusters: "clusters", "none" or "unclear"."""
        return self.recommendation.verdict

    @property
    def confidence(self) -> float:
        """The expected adjusted Rand index of the recommended answer with the true clusters."""
        return self.recommendation.confidence

    @property
    def alternatives(self) -> tuple[Alternative, ...]:
        """The next best answers that differ, at most two."""
        return self.recommendation.alternatives

    def __repr__(self) -> str:
        """Return a short table and the recommendation."""
        lines = table_lines(self)
        advice = self.recommendation
        lines.append(
            f"recommended: {advice.method}, {advice.level} ({advice.confidence:.2f}); verdict: {advice.verdict}"
        )
        lines += [f"  {reason}" for reason in advice.reasons]
        return "\n".join(lines)

    def summary(self) -> dict[str, Any]:
        """Return everything but labels, models and probabilities as plain dicts, lists, numbers and strings."""
        scaling = {"kind": self.scaling.scale, "centre": self.scaling.center, "spread": self.scaling.spread}
        return {
            "profile": plain(self.profile),
            "scaling": plain(scaling),
            "candidates": {name: _of_candidate(found) for name, found in self.candidates.items()},
            "failures": plain(self.failures),
            "agreement": {"methods": list(self.agreement.methods), "ami": plain(self.agreement.matrix)},
            "recommendation": _of_recommendation(self.recommendation),
            "verdict": self.verdict,
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
    lines = [f"  {'method':<25}{'clusters':>9}{'noise':>8}{'stability':>11}{head}{'seconds':>9}{last}"]
    for method, found in comparison.candidates.items():
        mark = "→" if method == comparison.recommendation.method else " "
        stable = "–" if found.stability is None else f"{found.stability:.2f}"
        known = "" if truth is None else f"{truth[method]['ari']:>7.2f}"
        lines.append(
            f"{mark} {name(method):<25}{found.n_clusters:>9}{100 * found.noise:>6.1f} %{stable:>11}{known}"
            f"{found.seconds:>9.2f}{f'  {found.how}' if sampled else ''}"
        )
    for failure in comparison.failures:
        lines.append(f"  {name(failure.method):<25} no answer: {' '.join(failure.reason.split())}")
    return lines


def _of_recommendation(advice: Recommendation) -> dict[str, Any]:
    others = [
        {
            "method": one.candidate.method,
            "n_clusters": one.candidate.n_clusters,
            "parameters": one.candidate.parameters,
            "expected": one.candidate.expected,
            "defensible": one.defensible,
            "relation": one.relation,
            "agreement": one.agreement,
        }
        for one in advice.alternatives
    ]
    return plain(vars(advice) | {"alternatives": others})


def _of_candidate(found: Candidate) -> dict[str, Any]:
    sizes = np.unique(found.labels[found.labels >= 0], return_counts=True)[1]
    fields = {name: value for name, value in vars(found).items() if name not in ("model", "labels", "probabilities")}
    return plain(fields | {"sizes": sizes})


def plain(value: Any) -> Any:
    """Convert records, arrays, NumPy numbers and mappings to JSON's types; NaN and infinities become None."""
    if is_dataclass(value):
        return plain(vars(value))
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
