"""The curve that an answer was chosen by: the best score of its method at each number of clusters, and the reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from knoll.comparison.judge import GRAIN, Judgement
from knoll.comparison.methods import Partition
from knoll.comparison.result import Evidence

__all__ = ["scores_by_number"]


def scores_by_number(judged: Judgement, method: str, chosen: Partition) -> tuple[Evidence, ...]:
    """Return the best score of a method's answers at each number of clusters it has answers for."""
    answers = [
        (one.n_clusters, float(judged.score[at]), bool(judged.tiny[at]))
        for at, members in enumerate(judged.pool.members)
        for one in members
        if one.method == method
    ]
    best = _best((k, score) for k, score, _ in answers)
    if len(best) < 2:
        return ()
    x = np.array(sorted(best), dtype=np.float64)
    y = {"score": np.array([best[int(k)] for k in x])}
    reason = _reason(answers, chosen.n_clusters, judged.allowed)
    return (Evidence("score", "clusters", x, y, float(chosen.n_clusters), reason, "clusters", "score of the judge"),)


def _best(scores: Iterable[tuple[int, float]]) -> dict[int, float]:
    best: dict[int, float] = {}
    for k, score in scores:
        best[k] = max(best.get(k, -np.inf), score)
    return best


def _reason(answers: Sequence[tuple[int, float, bool]], k: int, allowed: Sequence[int] | None) -> str:
    """Report by which rule of `rank` the number was taken."""
    best = _best((number, score) for number, score, _ in answers)
    among = "numbers of clusters"
    if allowed is not None and k in allowed:
        best = {number: score for number, score in best.items() if number in allowed}
        among = "numbers that were requested"
    if len(best) == 1:
        return f"{k} clusters were requested."
    first = max(best, key=best.__getitem__)
    if best[k] >= best[first] - GRAIN:
        return f"{k} clusters have the best score of {len(best)} {among}."
    usable = _best((number, score) for number, score, tiny in answers if number in best and not tiny)
    if k in usable and usable[k] >= max(usable.values()) - GRAIN:
        return f"{k} clusters have the best score of the answers without a cluster of very few rows."
    return f"{k} clusters: nearly as good as {first}, which have the best score, and about the same answer."
