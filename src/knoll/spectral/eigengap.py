"""The number of clusters from the eigenvalues of D^-½AD^-½: where the odds of leaving jump   (eq. 4.28 to 4.30)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knoll._typing import Floats

LEAST_JUMP = float(np.log(2.5))  # beyond the expected: a single ring, whose eigenvalues come in pairs, reaches log 2.3
_CLOSED = 1e-4  # of the last 1 − λ: a set that is left with less probability counts as closed
_MIXED = 0.1  # eigenvalues well below this separate no clusters
_TAIL = 4  # eigenvalues that a law of growth is fitted to, at least
_LINE = 2.0  # 1 − λ_k grows as (k − 1)^(2/q) in q dimensions (Weyl), at most as fast as on a line


@dataclass(frozen=True)
class Eigengap:
    """A number of clusters, with the evidence for each."""

    best: int
    jumps: Floats  # (m − 1,) for k = 1, 2, …: the jump beyond the expected one; LEAST_JUMP for k = 1
    reason: str


def eigengap(values: Floats, n: int) -> Eigengap:
    """Choose k from eigenvalues in descending order, of n rows."""
    last = len(values) - 1
    if last < 1:
        return Eigengap(1, np.full(last, LEAST_JUMP), "one eigenvalue allows one cluster only")
    leaving = np.maximum(1.0 - values, 0.0)
    rounding = 8 * n * 2.0**-52
    if leaving[-1] <= rounding:
        text = f"all {last + 1} eigenvalues are one: the graph has at least {last + 1} components"
        return Eigengap(last, np.full(last, LEAST_JUMP), text + "; a larger sigma joins them")
    floor = max(_CLOSED * leaving[-1], rounding)
    odds = np.log(leaving + floor) - np.log(np.maximum(values, 0.0) + _MIXED)  # (m,) eq. 4.28
    jumps = np.full(last, LEAST_JUMP)
    for k in range(2, last + 1):
        growth = _LINE
        if k + _TAIL <= last:  # the law of the eigenvalues after k is expected to hold before it too
            growth = min(_LINE, (odds[-1] - odds[k]) / np.log(last / k))  # eq. 4.29
        jumps[k - 1] = odds[k] - odds[k - 1] - growth * np.log(k / (k - 1))  # eq. 4.30
    best = int(np.argmax(jumps)) + 1  # ties to the smaller number
    return Eigengap(best, jumps, _reason(values, leaving, jumps, best, rounding))


def _reason(
    values: Floats,
    leaving: Floats,
    jumps: Floats,
    best: int,
    rounding: float,
) -> str:
    if best == 1:
        text = "no gap stands out from those of one uniform cluster"
        if len(jumps) > 1:
            k = int(np.argmax(jumps[1:])) + 2
            text += f"; the widest is after {k}, {np.exp(jumps[k - 1] - LEAST_JUMP):.2g} of the smallest that counts"
        return text
    components = int(np.count_nonzero(leaving <= rounding))
    last, following = apart(values[best - 1], values[best])
    if components == best:
        return f"{best} eigenvalues are one, the next is {following}: the graph has {best} components"
    width = np.exp(jumps[best - 1])
    text = (
        f"after {best} eigenvalues ({last}) the next is {following}, a gap {width:{'.2g' if width < 99 else '.0f'}} "
        "times as wide as in one uniform cluster"
    )
    if len(jumps) > 2:
        order = np.argsort(-jumps[1:], kind="stable") + 2
        behind = jumps[best - 1] - jumps[order[1] - 1]
        if behind < LEAST_JUMP:
            text += f"; {order[1]} is close behind, so compare both"
    return text


def apart(a: float, b: float) -> tuple[str, str]:
    """Format two numbers with as many digits as distinguish them, four at least."""
    for digits in range(4, 18):
        texts = f"{a:.{digits}g}", f"{b:.{digits}g}"
        if texts[0] != texts[1]:
            break
    return texts
