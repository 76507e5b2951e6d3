"""The choice among the answers, its reasons in words and then in figures, and the runner-up."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from knoll.comparison.nulls import LEVEL
from knoll.comparison.result import Agreement, Candidate, Recommendation
from knoll.comparison.survey import Survey

__all__ = ["ALIKE", "CAUTION", "STABLE", "number_word", "recommend"]

CAUTION = (
    "Internal scores say how well an answer fits its own idea of a cluster; they are not truth. "
    "Look at the pictures, and at what the clusters mean for you."
)
ALIKE = 0.75  # adjusted mutual information: two answers that share as much "agree" in the words of a recommendation
STABLE = 0.8  # adjusted Rand index of refits on halves: a division worth naming where there are no clusters
_MEETS = 0.6  # adjusted Rand index: an answer that meets the density less is the best of a bad lot
_PART = 0.02  # of the rows: a division into smaller parts than this only sets a few rows aside
_WORDS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


def number_word(number: int) -> str:
    """Return a small number as a word."""
    return _WORDS[number] if number < len(_WORDS) else str(number)


def recommend(
    candidates: Mapping[str, Candidate], meets: Mapping[str, float], agreement: Agreement, found: Survey
) -> Recommendation:
    """Take the answer that best meets the partition which the density suggests.

    `meets` is the adjusted Rand index of each answer with that partition, on the view. Answers that meet it alike are
    ranked by how well the others agree with them, then by the order of the methods.
    """
    structure = found.structure
    if not candidates:
        return Recommendation(None, ("No method gave an answer.",), None, "", CAUTION, structure)
    shared = _shared(agreement)
    if structure.verdict == "unknown":
        return Recommendation(None, (f"No answer is recommended: {structure.reason}",), None, "", CAUTION, structure)
    if structure.verdict == "none":
        reasons = ["No clusters: the rows look like one group.", structure.reason[:1].upper() + structure.reason[1:]]
        return Recommendation(None, (*reasons, *_division(candidates, shared, found)), None, "", CAUTION, structure)
    ranked = sorted(candidates, key=lambda name: (-round(meets[name], 2), -round(shared[name], 2)))
    best = ranked[0]
    winner = candidates[best]
    reasons = [
        _plainly(winner, agreement),
        f"The density shows {found.count} clusters: {structure.reason}",
        f"{best} meets them best: adjusted Rand index {meets[best]:.2f}, with {winner.n_clusters} clusters"
        + (f" and {100 * winner.noise:.1f} % noise." if winner.noise > 0 else "."),
    ]
    if meets[best] < _MEETS:
        reasons.append("That is little: no method's answer is the one that the density suggests. Take it with care.")
    if len(candidates) > 1:
        reasons.append(
            f"Its mean agreement with the other methods is {shared[best]:.2f} (adjusted mutual information)."
        )
    if winner.stability is not None:
        reasons.append(f"Refits on halves of the rows agree with it by {winner.stability:.2f} (adjusted Rand index).")
    second = ranked[1] if len(ranked) > 1 else None
    why_not = ""
    if second is not None:
        why_not = f"{second} meets the clusters of the density by {meets[second]:.2f}, {best} by {meets[best]:.2f}"
        if round(meets[second], 2) == round(meets[best], 2):
            why_not = _no_worse(best, second, meets, shared)
        why_not += "."
    return Recommendation(best, tuple(reasons), second, why_not, CAUTION, structure)


def _no_worse(best: str, second: str, meets: Mapping[str, float], shared: Mapping[str, float]) -> str:
    """Say what decided between two that meet the clusters alike."""
    alike = f"{second} meets the clusters of the density as well ({meets[second]:.2f})"
    if round(shared[second], 2) == round(shared[best], 2):
        return f"{alike}, and the other methods agree with both alike ({shared[best]:.2f}): either will do"
    return (
        f"{alike}, but the other methods agree less with it: {shared[second]:.2f}, and {shared[best]:.2f} with {best}"
    )


def _shared(agreement: Agreement) -> dict[str, float]:
    """Return the mean agreement of each answer with the others."""
    others = max(1, len(agreement.methods) - 1)
    return {name: float(row.sum() - 1) / others for name, row in zip(agreement.methods, agreement.matrix, strict=True)}


def _plainly(winner: Candidate, agreement: Agreement) -> str:
    """Say how many groups there are, who found them, and how many of the methods agree."""
    groups = f"{number_word(winner.n_clusters).capitalize()} group{'' if winner.n_clusters == 1 else 's'}"
    alike = int((agreement.matrix[agreement.methods.index(winner.method)] >= ALIKE).sum())  # itself among them
    asked = len(agreement.methods)
    told = f"{groups}, found by {winner.method}"
    if asked == 1:
        return f"{told}."
    if alike == asked:
        return f"{told}; {'both' if asked == 2 else f'all {number_word(asked)}'} methods agree."
    if alike == 1:
        return f"{told}; no other method agrees."
    return f"{told}; {number_word(alike)} of {number_word(asked)} methods agree."


def _division(candidates: Mapping[str, Candidate], shared: Mapping[str, float], found: Survey) -> list[str]:
    """Where rows form one hill but no simple one, name the division that comes back and that most methods share."""
    nulls = found.structure.nulls
    if not nulls or any(null.p_value > LEVEL + 1e-12 for null in nulls):
        return []
    stable = [
        name
        for name, one in candidates.items()
        if one.n_clusters > 1 and (one.stability or 0.0) >= STABLE and _smallest(one) >= _PART
    ]
    told = "The rows are neither one Gaussian nor uniform, though."
    if not stable:
        return [told]
    best = max(stable, key=lambda name: round(shared[name], 2))
    one = candidates[best]
    others = f"; the other methods agree with it by {shared[best]:.2f}" if len(candidates) > 1 else ""
    return [
        f"{told} If you want them divided all the same: {best} parts them in {number_word(one.n_clusters)} and comes "
        f"back on halves of the rows ({one.stability:.2f}){others}. "
        "No valley lies between these parts, so where one ends is a choice."
    ]


def _smallest(one: Candidate) -> float:
    """Return the share of the rows that the smallest cluster holds."""
    labels = one.labels[one.labels >= 0]
    sizes = np.unique(labels, return_counts=True)[1]
    return float(sizes.min()) / len(one.labels) if len(sizes) else 0.0
