"""The recommendation among the answers, its reasons, and the runner-up."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from knoll._format import number_word, plural
from knoll.comparison.density_summary import DensitySummary
from knoll.comparison.null_tests import LEVEL
from knoll.comparison.result import Agreement, Candidate, Recommendation, Structure

CAUTION = (
    "Internal scores measure how well an answer fits the assumptions of its own method; they are not ground truth. "
    "Check the pictures, and whether the clusters are meaningful for you."
)
AGREE = 0.75  # adjusted mutual information from which two answers are said to agree
STABLE = 0.8  # adjusted Rand index of refits on halves: a partition worth naming where there are no clusters
NOT_FOUND = "Clusters may exist, but none of these methods found them."
_GOOD_MATCH = 0.6  # adjusted Rand index with the density clusters: below, the reasons contain a warning
_MIN_MATCH = 0.2  # below, the answer is not recommended (chance gives 0)
_MAX_NOISE = 0.9  # of the rows
_SIMILAR_MATCH = 0.05  # a smaller difference of two matches counts less than stability
_FAR_LESS_STABLE = 0.2  # difference of two stabilities
_MIN_CLUSTER = 0.02  # of the rows: a partition with a smaller cluster only separates a few outliers


def recommend(
    candidates: Mapping[str, Candidate],
    matches: Mapping[str, float],
    agreement: Agreement,
    density: DensitySummary,
    numbers: Collection[int] | None = None,
) -> Recommendation:
    """Recommend the answer with the best agreement with the density clusters.

    `matches` are the adjusted Rand indices of the answers with them, on the subsample. Equal answers are ranked by
    their mean agreement with the other methods, then by the order of the methods. With `numbers` of clusters that were
    requested, the best answer with such a number is recommended, whatever the density shows.
    """
    structure = density.structure

    def none(verdict: str, *reasons: str) -> Recommendation:
        return Recommendation(None, reasons, None, "", CAUTION, structure, verdict)

    if not candidates:
        return none("unknown", "No method gave an answer.")
    shared = _shared(agreement)
    if numbers is None and structure.verdict == "unknown":
        return none("unknown", f"No answer is recommended: {structure.reason}")
    if numbers is None and structure.verdict == "none":
        summary = "No clusters: the rows look like one group."
        return none("no clusters", summary, _sentence(structure), *_stable_partition(candidates, shared, structure))
    faults = {name: _fault(one, None if numbers else matches[name]) for name, one in candidates.items()}
    good = [name for name, fault in faults.items() if not fault]
    good = [name for name in good if numbers and candidates[name].n_clusters in numbers] or good
    if not good:
        summary = NOT_FOUND if structure.verdict == "clusters" else "None of these methods found at least two clusters."
        each = (f"{name}: {fault}." for name, fault in faults.items())
        return none("not found", summary, *each, _sentence(structure))
    ranked = sorted(good, key=lambda name: (-round(matches[name], 2), -round(shared[name], 2)))
    best = _stable(ranked, candidates, matches)
    others = [name for name in ranked if name != best]
    second, why_not = None, ""
    if others:
        second = others[0]
        why_not = _why_not(
            candidates[best], candidates[second], matches, shared, density, less_stable=best != ranked[0]
        )
    reasons = _reasons(candidates[best], matches, shared, agreement, density)
    return Recommendation(best, tuple(reasons), second, why_not, CAUTION, structure, "recommended")


def _fault(one: Candidate, match: float | None) -> str:
    """Return why an answer cannot be recommended, "" if it can; the match is only tested if there is one."""
    if one.n_clusters < 2:
        return f"it has {plural(one.n_clusters, 'cluster')}"
    if one.noise > _MAX_NOISE:
        return f"{100 * one.noise:.1f} % of the rows are noise"
    if match is not None and match < _MIN_MATCH:
        return f"its adjusted Rand index with the density clusters is {match:.2f}"
    return ""


def _stable(ranked: list[str], candidates: Mapping[str, Candidate], matches: Mapping[str, float]) -> str:
    """Return the best match, or a similar one if the best is far less stable."""
    near = {name: candidates[name].stability for name in ranked if matches[ranked[0]] - matches[name] <= _SIMILAR_MATCH}
    known = {name: one for name, one in near.items() if one is not None}
    if ranked[0] not in known:
        return ranked[0]
    return next(name for name, one in known.items() if one >= max(known.values()) - _FAR_LESS_STABLE)


def _reasons(
    winner: Candidate,
    matches: Mapping[str, float],
    shared: Mapping[str, float],
    agreement: Agreement,
    density: DensitySummary,
) -> list[str]:
    """Explain what was found, what the density shows, and how the answer compares with it and with the others."""
    best = winner.method
    reasons = [_summary(winner, agreement)]
    if density.structure.verdict == "clusters":
        how = "agrees best with them" if matches[best] == max(matches.values()) else "agrees with them"
        count = plural(winner.n_clusters, "cluster")
        noise = f" and {100 * winner.noise:.1f} % noise" if winner.noise > 0 else ""
        reasons += [
            f"The density shows {density.count} clusters: {density.structure.reason}",
            f"{best} {how}: adjusted Rand index {matches[best]:.2f}, with {count}{noise}.",
        ]
        if matches[best] < _GOOD_MATCH:
            reasons.append("Warning: no method found the clusters of the density. Do not rely on this result.")
    else:
        reasons.append(
            f"An answer is recommended because the number of clusters was specified. {_sentence(density.structure)}"
        )
    if len(shared) > 1:
        reasons.append(f"Its mean adjusted mutual information with the other methods is {shared[best]:.2f}.")
    if winner.stability is not None:
        reasons.append(
            f"Stability: refits on random halves of the rows have an adjusted Rand index of {winner.stability:.2f}."
        )
    return reasons


def _why_not(
    best: Candidate,
    second: Candidate,
    matches: Mapping[str, float],
    shared: Mapping[str, float],
    density: DensitySummary,
    *,
    less_stable: bool,
) -> str:
    """Explain why the recommended answer comes before the runner-up, which may be `less_stable`."""
    a, b = best.method, second.method
    text = f"{b} agrees equally with the density clusters ({matches[b]:.2f})"
    if density.count < 2:
        text = f"{b} cannot be compared with the density, which has no clusters"
    elif round(matches[b], 2) != round(matches[a], 2):
        text = f"the agreement with the density clusters is {matches[b]:.2f} for {b}, {matches[a]:.2f} for {a}"
        if not less_stable:
            return f"{text}."
    if less_stable:
        return f"{text}, but {b} is less stable under refits ({second.stability:.2f}) than {a} ({best.stability:.2f})."
    if round(shared[b], 2) == round(shared[a], 2):
        return f"{text}, and the other methods agree equally with both ({shared[a]:.2f}): either can be used."
    return f"{text}, but the other methods agree less with {b} ({shared[b]:.2f}) than with {a} ({shared[a]:.2f})."


def _sentence(structure: Structure) -> str:
    return structure.reason[:1].upper() + structure.reason[1:]


def _shared(agreement: Agreement) -> dict[str, float]:
    """Return the mean agreement of each answer with the others."""
    others = max(1, len(agreement.methods) - 1)
    return {name: float(row.sum() - 1) / others for name, row in zip(agreement.methods, agreement.matrix, strict=True)}


def _summary(winner: Candidate, agreement: Agreement) -> str:
    """Summarize how many groups there are, which method found them, and how many methods agree."""
    groups = f"{number_word(winner.n_clusters).capitalize()} group{'' if winner.n_clusters == 1 else 's'}"
    agreeing = int(
        (agreement.matrix[agreement.methods.index(winner.method)] >= AGREE).sum()
    )  # including the method itself
    total = len(agreement.methods)
    text = f"{groups}, found by {winner.method}"
    if total == 1:
        return f"{text}."
    if agreeing == total:
        return f"{text}; {'both' if total == 2 else f'all {number_word(total)}'} methods agree."
    if agreeing == 1:
        return f"{text}; no other method agrees."
    return f"{text}; {number_word(agreeing)} of {number_word(total)} methods agree."


def _stable_partition(
    candidates: Mapping[str, Candidate], shared: Mapping[str, float], structure: Structure
) -> list[str]:
    """Name the stable partition that most methods share, if the one mode is neither Gaussian nor uniform."""
    nulls = structure.nulls
    if not nulls or any(null.p_value > LEVEL + 1e-12 for null in nulls):
        return []
    stable = [
        name
        for name, one in candidates.items()
        if one.n_clusters > 1 and (one.stability or 0.0) >= STABLE and _smallest(one) >= _MIN_CLUSTER
    ]
    text = "However, the rows are neither a single Gaussian nor uniform."
    if not stable:
        return [text]
    best = max(stable, key=lambda name: round(shared[name], 2))
    one = candidates[best]
    others = f", mean agreement with the other methods {shared[best]:.2f}" if len(candidates) > 1 else ""
    return [
        f"{text} If you need a partition: {best} divides them into {number_word(one.n_clusters)} clusters (stability "
        f"{one.stability:.2f}{others}). The density does not drop between them, so their boundary is arbitrary."
    ]


def _smallest(one: Candidate) -> float:
    """Return the share of the rows in the smallest cluster."""
    labels = one.labels[one.labels >= 0]
    sizes = np.unique(labels, return_counts=True)[1]
    return float(sizes.min()) / len(one.labels) if len(sizes) else 0.0
