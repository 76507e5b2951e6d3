"""The choice among the answers, its reasons, and the runner-up."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from knoll.compare.result import Agreement, Candidate, Recommendation, Structure

__all__ = ["CAUTION", "recommend"]

CAUTION = (
    "Internal scores say how well an answer fits its own idea of a cluster; they are not truth. "
    "Look at the pictures, and at what the clusters mean for you."
)


def recommend(candidates: Mapping[str, Candidate], agreement: Agreement) -> Recommendation:
    """Take the answer that the others agree with most."""
    mean = (agreement.matrix.sum(axis=1) - 1) / max(1, len(agreement.methods) - 1)
    ranked = [agreement.methods[i] for i in np.argsort(-mean, kind="stable")]
    structure = Structure("clusters", 0.0, "depth", (), 1, "")
    if not ranked:
        return Recommendation(None, ("No method gave an answer.",), None, "", CAUTION, structure)
    return Recommendation(
        ranked[0], ("It agrees most with the others.",), ranked[1] if len(ranked) > 1 else None, "", CAUTION, structure
    )
