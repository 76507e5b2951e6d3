"""The choice among the answers, its reasons in words and then in figures, and the runner-up."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from knoll._format import number_word, plural
from knoll.comparison.nulls import LEVEL
from knoll.comparison.result import Agreement, Candidate, Recommendation, Structure
from knoll.comparison.survey import Survey

__all__ = ["ALIKE", "CAUTION", "NOT_FOUND", "STABLE", "recommend"]

CAUTION = (
    "Internal scores say how well an answer fits its own idea of a cluster; they are not truth. "
    "Look at the pictures, and at what the clusters mean for you."
)
ALIKE = 0.75  # adjusted mutual information: two answers that share as much "agree" in the words of a recommendation
STABLE = 0.8  # adjusted Rand index of refits on halves: a division worth naming where there are no clusters
NOT_FOUND = "Clusters may exist, but none of these methods found them."
_MEETS = 0.6  # adjusted Rand index: an answer that matches the density less comes with a warning,
_LEAST_MATCH = 0.2  # and less than this is nearly chance (0): no answer to recommend
_MOST_NOISE = 0.9  # of the rows: with more, fewer than one row in ten has a cluster
_NEARLY = 0.05  # difference of two matches that counts for less than stability
_FAR_LESS_STABLE = 0.2  # difference of two stabilities that counts for more
_PART = 0.02  # of the rows: a division into smaller parts than this only sets a few rows aside


def recommend(
    candidates: Mapping[str, Candidate],
    meets: Mapping[str, float],
    agreement: Agreement,
    found: Survey,
    numbers: Collection[int] | None = None,
) -> Recommendation:
    """Take the answer that best matches the partition which the density suggests.

    `meets` is the adjusted Rand index of each answer with that partition, on the view. Answers that match it alike are
    ranked by how well the others agree with them, then by the order of the methods. With `numbers` of clusters that
    were asked for, the best answer with such a number is taken, whatever the density shows.
    """
    structure = found.structure

    def none(verdict: str, *reasons: str) -> Recommendation:
        return Recommendation(None, reasons, None, "", CAUTION, structure, verdict)

    if not candidates:
        return none("unknown", "No method gave an answer.")
    shared = _shared(agreement)
    if numbers is None and structure.verdict == "unknown":
        return none("unknown", f"No answer is recommended: {structure.reason}")
    if numbers is None and structure.verdict == "none":
        told = "No clusters: the rows look like one group."
        return none("no clusters", told, _sentence(structure), *_division(candidates, shared, found))
    faults = {name: _fault(one, None if numbers else meets[name]) for name, one in candidates.items()}
    good = [name for name, fault in faults.items() if not fault]
    good = [name for name in good if numbers and candidates[name].n_clusters in numbers] or good
    if not good:
        told = NOT_FOUND if structure.verdict == "clusters" else "None of these methods found two clusters or more."
        return none("not found", told, *(f"{name}: {fault}." for name, fault in faults.items()), _sentence(structure))
    ranked = sorted(good, key=lambda name: (-round(meets[name], 2), -round(shared[name], 2)))
    best = _stable(ranked, candidates, meets)
    others = [name for name in ranked if name != best]
    second, why_not = None, ""
    if others:
        second = others[0]
        why_not = _why_not(candidates[best], candidates[second], meets, shared, found, passed=best != ranked[0])
    reasons = _reasons(candidates[best], meets, shared, agreement, found)
    return Recommendation(best, tuple(reasons), second, why_not, CAUTION, structure, "recommended")


def _fault(one: Candidate, match: float | None) -> str:
    """Say why an answer cannot be recommended; "" where it can. Without a match only its clusters are judged."""
    if one.n_clusters < 2:
        return f"it has {plural(one.n_clusters, 'cluster')}"
    if one.noise > _MOST_NOISE:
        return f"{100 * one.noise:.1f} % of the rows are noise"
    if match is not None and match < _LEAST_MATCH:
        return f"its match with the clusters of the density is {match:.2f} (adjusted Rand index)"
    return ""


def _stable(ranked: list[str], candidates: Mapping[str, Candidate], meets: Mapping[str, float]) -> str:
    """Return the best match, or the next that matches nearly as well where the best is far less stable than others."""
    near = {name: candidates[name].stability for name in ranked if meets[ranked[0]] - meets[name] <= _NEARLY}
    known = {name: one for name, one in near.items() if one is not None}
    if ranked[0] not in known:
        return ranked[0]
    return next(name for name, one in known.items() if one >= max(known.values()) - _FAR_LESS_STABLE)


def _reasons(
    winner: Candidate, meets: Mapping[str, float], shared: Mapping[str, float], agreement: Agreement, found: Survey
) -> list[str]:
    """Say what was found, what the density shows, and how the answer compares with it and with the others."""
    best = winner.method
    reasons = [_plainly(winner, agreement)]
    if found.structure.verdict == "clusters":
        how = "matches them best" if meets[best] == max(meets.values()) else "matches them"
        noise = f" and {100 * winner.noise:.1f} % noise" if winner.noise > 0 else ""
        reasons += [
            f"The density shows {found.count} clusters: {found.structure.reason}",
            f"{best} {how}: adjusted Rand index {meets[best]:.2f}, with {plural(winner.n_clusters, 'cluster')}{noise}.",
        ]
        if meets[best] < _MEETS:
            reasons.append("Warning: no method found the groups that the density suggests. Do not rely on this result.")
    else:
        reasons.append(
            f"An answer is recommended because the number of clusters was given. {_sentence(found.structure)}"
        )
    if len(shared) > 1:
        reasons.append(
            f"Its mean agreement with the other methods is {shared[best]:.2f} (adjusted mutual information)."
        )
    if winner.stability is not None:
        reasons.append(f"Refits on random halves agree with it (adjusted Rand index {winner.stability:.2f}).")
    return reasons


def _why_not(
    best: Candidate,
    second: Candidate,
    meets: Mapping[str, float],
    shared: Mapping[str, float],
    found: Survey,
    *,
    passed: bool,
) -> str:
    """Say what decided between the recommended answer and the runner-up, which was `passed` over as less stable."""
    a, b = best.method, second.method
    alike = f"{b} matches the clusters of the density as well ({meets[b]:.2f})"
    if found.count < 2:
        alike = f"no clusters of the density speak against {b}"
    elif round(meets[b], 2) != round(meets[a], 2):
        alike = f"{b} matches the clusters of the density by {meets[b]:.2f}, {a} by {meets[a]:.2f}"
        if not passed:
            return f"{alike}."
    if passed:
        less = f"{second.stability:.2f}, and {best.stability:.2f} with {a}"
        return f"{alike}, but its refits on halves of the rows agree less with it: {less}."
    if round(shared[b], 2) == round(shared[a], 2):
        return f"{alike}, and the other methods agree with both alike ({shared[a]:.2f}): either will do."
    return f"{alike}, but the other methods agree less with it: {shared[b]:.2f}, and {shared[a]:.2f} with {a}."


def _sentence(structure: Structure) -> str:
    return structure.reason[:1].upper() + structure.reason[1:]


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
    others = f"; mean agreement with the other methods {shared[best]:.2f}" if len(candidates) > 1 else ""
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
