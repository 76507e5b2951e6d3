"""The recommendation: the best judged answer, whether there are clusters, how sure that is, and why."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from knoll._format import number_word, plural
from knoll._typing import Ints
from knoll.comparison.features import FAR, GROUPS, border_drops
from knoll.comparison.judge import Judge, Judgement
from knoll.comparison.result import Alternative, Candidate
from knoll.comparison.subsample import Subsample

__all__ = ["AGREES", "STABLE", "caution_for", "level_of", "reasons_for", "relation_of", "verdict_of"]

FEW_ROWS = 40  # rows below which the verdict is open
CLEAR, LIKELY = 0.85, 0.5  # confidence from which an answer is called so
AGREES = 0.9  # adjusted Rand index from which two answers are about the same
STABLE = 0.6  # the same of refits on halves of the rows, from which a setting counts as giving its answer again
_MATTERS = 0.01  # a fact is given if the score would be lower by this without it
_HARDLY = 0.1  # of the log distance of neighbours: no drop of the density
_WIDE = 1.2  # times the typical distance: a gap
_SECOND_MODE = 0.35  # of the log distance of neighbours, between two dense regions
_REFINES = 0.95  # share of the pairs of rows of the finer answer that the coarser has together


def verdict_of(judged: Judgement, best: int, rows: int) -> str:
    """Compare the answer with one cluster of all rows; so few rows that the judge has not seen such tables are open."""
    score = float(judged.score[best])
    if rows < FEW_ROWS:
        return "unclear"
    return "none" if score < judged.none_below else "unclear" if score < judged.clusters_from else "clusters"


def level_of(confidence: float) -> str:
    """Return the confidence in words."""
    return "clear" if confidence >= CLEAR else "likely" if confidence >= LIKELY else "a guess"


def relation_of(judged: Judgement, best: int, other: int) -> str:
    """Whether another answer divides or joins the clusters of the best."""
    pool = judged.pool
    both = pool.together[best, other]
    finer, coarser = both / max(1.0, pool.together[other, other]), both / max(1.0, pool.together[best, best])
    k = pool.n_clusters
    if finer > _REFINES and k[other] > k[best]:
        return "finer"
    return "coarser" if coarser > _REFINES and k[other] < k[best] else "different"


def caution_for(
    verdict: str,
    level: str,
    alternatives: Sequence[Alternative],
    rows: int,
    *,
    required: bool,
    stability: float | None = None,
) -> str:
    """Return one sentence on how to use the answer."""
    if verdict == "none":
        return "The density does not drop between these clusters: they divide one continuous cloud."
    if rows < FEW_ROWS:
        return f"Fewer than {FEW_ROWS} rows are too few to decide whether there are clusters."
    if stability is not None and stability < STABLE:
        return (
            f"Refits on random halves of the rows find other clusters (adjusted Rand index {stability:.2f}): "
            "with more rows, compare again."
        )
    if level == "a guess":
        return "This is a guess. Compare it with the other answers, and with what you know of the rows."
    if any(one.defensible for one in alternatives):
        return "Several answers are defensible; look at the next one, too."
    if required:
        return "The number of clusters was given; whether there are so many was not tested."
    return "The confidence comes from measurements on these rows; they are not ground truth."


def reasons_for(
    judge: Judge, judged: Judgement, best: int, found: Candidate, subsample: Subsample, seen: Ints
) -> list[str]:
    """State what was measured on the answer, as far as its score depends on it; `seen`: its labels in the subsample."""
    figure = dict(zip(judge.names, judged.figures[best], strict=True))
    facts = {
        "agreement": _agreement(judged.pool.agreement[best]),
        "density": _density(subsample, judged.pool.filled[best], seen),
        "gap": _gap(figure["gap-typical-least"]),
        "inside": _inside(figure["inner-mode-large"]),
        "sizes": _sizes(found),
    }
    matters = _what_matters(judge, judged, best)
    return [_summary(found), *(text for name, text in facts.items() if text and matters[name] >= _MATTERS)]


def _what_matters(judge: Judge, judged: Judgement, best: int) -> dict[str, float]:
    """Return by how much the score falls if a group of figures is that of the median answer."""
    typical = np.median(judged.figures[1:], axis=0) if len(judged.figures) > 1 else judged.figures[0]
    rows = np.repeat(judged.figures[best][None, :], len(GROUPS), axis=0)
    for row, (_, members) in zip(rows, GROUPS.items(), strict=True):
        at = [judge.names.index(name) for name in members if name in judge.names]
        row[at] = typical[at]
    fall = judged.score[best] - judge.scores(rows)[0]
    return dict(zip(GROUPS, fall.tolist(), strict=True))


def _summary(found: Candidate) -> str:
    noise = f" and {100 * found.noise:.1f} % noise" if found.noise > 0 else ""
    return f"{number_word(found.n_clusters).capitalize()} clusters{noise}, found by {found.method}."


def _agreement(agreement: Sequence[float]) -> str:
    total, agreeing = len(agreement), int((np.asarray(agreement) >= AGREES).sum())
    if total < 2:
        return ""
    return (
        f"{agreeing} of {total} kinds of method find about the same clusters (adjusted Rand index at least {AGREES})."
    )


def _density(subsample: Subsample, labels: Ints, seen: Ints) -> str:
    """Name the cluster at whose border the density drops least, by its label in the result."""
    drops = border_drops(subsample, labels)[0]
    weakest = int(np.argmin(drops))
    own = seen[labels == weakest]
    name = int(np.argmax(np.bincount(own[own >= 0], minlength=1)))
    if drops[weakest] < _HARDLY:
        return f"Cluster {name} is the least certain: the density hardly drops at its border."
    far = "more than 20" if drops[weakest] >= FAR else f"at least {np.exp(drops[weakest]):.1f}"
    return f"Neighbours at the border of every cluster are {far} times as far apart as in its core."


def _gap(gap: float) -> str:
    """State the gap if it is one, relative to the typical distance in a cluster."""
    if np.exp(gap) < _WIDE:
        return ""
    return (
        f"The narrowest gap between two clusters is {np.exp(gap):.1f} times the typical distance of neighbours inside."
    )


def _inside(drop: float) -> str:
    return "No cluster has a second dense region of its own." if drop < _SECOND_MODE else ""


def _sizes(found: Candidate) -> str:
    sizes = np.bincount(found.labels[found.labels >= 0])
    return f"The smallest cluster has {plural(int(sizes.min()), 'row')}."
