"""The choice among the answers, its reasons, and the runner-up."""

from __future__ import annotations

from collections.abc import Mapping

from knoll.comparison.result import Agreement, Candidate, Recommendation
from knoll.comparison.survey import Survey

__all__ = ["CAUTION", "recommend"]

CAUTION = (
    "Internal scores say how well an answer fits its own idea of a cluster; they are not truth. "
    "Look at the pictures, and at what the clusters mean for you."
)


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
    if structure.verdict == "none":
        reason = f"The data shows no clusters: {structure.reason}"
        return Recommendation(None, (reason,), None, "", CAUTION, structure)
    others = max(1, len(agreement.methods) - 1)
    shared = {name: (row.sum() - 1) / others for name, row in zip(agreement.methods, agreement.matrix, strict=True)}
    ranked = sorted(candidates, key=lambda name: (-round(meets[name], 2), -round(shared[name], 2)))
    best = ranked[0]
    winner = candidates[best]
    reasons = [
        f"The density shows {found.count} clusters: {structure.reason}",
        f"{best} meets them best: adjusted Rand index {meets[best]:.2f}, with {winner.n_clusters} clusters"
        + (f" and {100 * winner.noise:.1f} % noise." if winner.noise > 0 else "."),
        f"Its mean agreement with the other methods is {shared[best]:.2f} (adjusted mutual information).",
    ]
    if winner.stability is not None:
        reasons.append(f"Refits on halves of the rows agree with it by {winner.stability:.2f} (adjusted Rand index).")
    second = ranked[1] if len(ranked) > 1 else None
    why_not = ""
    if second is not None:
        why_not = f"{second} meets the clusters of the density by {meets[second]:.2f}, {best} by {meets[best]:.2f}"
        if round(meets[second], 2) == round(meets[best], 2):
            why_not += f"; the other methods agree with {best} by {shared[best]:.2f}, with it by {shared[second]:.2f}"
        why_not += "."
    return Recommendation(best, tuple(reasons), second, why_not, CAUTION, structure)
