"""Would another scaling give another answer? Some quick methods on some rows, scaled as the table suggests.

"auto" gives most columns the standard deviation 1. That is no choice without doubt: columns of one unit may be compared
as they are, a few far rows may decide a standard deviation, and a skewed column may be better in logarithms. Where the
table shows one of these, the quick methods answer on the other columns, too; a note reports if the answer would differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from knoll._common.cancel import CancelToken
from knoll._format import plural
from knoll._typing import Floats, Ints
from knoll.base import collect_warnings
from knoll.comparison.judge import ranked, the_judge
from knoll.comparison.methods import FIT_ERRORS, propose_all
from knoll.comparison.pool import join_answers, numbers_for
from knoll.comparison.subsample import Subsample
from knoll.exceptions import Cancelled
from knoll.metrics import adjusted_rand_score
from knoll.models import Preparation
from knoll.tables.combined import logarithm_for
from knoll.tables.conversion import logarithm

__all__ = ["DIFFERS", "scale_notes"]

DIFFERS = "the answer would differ"  # what such a note contains

_METHODS = ("kmeans", "gaussian-mixture", "hdbscan", "genie")  # quick, and of different kinds
_ROWS = 1000
_NUMBERS = range(2, 11)
_FEW = 3  # columns up to which "auto" takes a common factor itself
_SAME_UNIT = 30.0  # ratio of the standard deviations of columns that may share a unit
_FAR = 5.0  # times the interquartile range: of a normal column the standard deviation is 0.74
_AGREES = 0.75  # adjusted Rand index from which two answers are the same


@dataclass(frozen=True)
class _Other:
    """Another scaling: how it is called, the option that chooses it, and the rows."""

    text: str
    option: str
    rows: Floats  # (m, d)


def scale_notes(
    X: Floats, columns: tuple[str, ...], chosen: Preparation, labels: Ints, rows: Ints, seed: int, threads: int,
    seconds: float | None,
) -> tuple[str, ...]:  # fmt: skip
    """Report which other scalings give another answer than `labels`; `rows` are those to test, in order of content.

    Nothing is reported where the quick methods give the same other answer under the chosen scaling, too.
    """
    rows = rows[np.unique(np.linspace(0, len(rows) - 1, min(_ROWS, len(rows))).astype(np.int64))]
    token = CancelToken(seconds)
    notes = []
    try:
        with token, collect_warnings():
            usual: Ints | None = None
            for other in _others(X, columns, chosen, rows):
                found = _answer(other.rows, seed, threads)
                if found is None or (index := _agreement(found, labels[rows])) >= _AGREES:
                    continue
                usual = _answer(chosen.apply(X[rows]), seed, threads) if usual is None else usual
                if usual is not None and adjusted_rand_score(found, usual) < _AGREES:
                    notes.append(_note(other, found, index, len(rows)))
    except Cancelled:
        pass
    return tuple(notes)


def _note(other: _Other, found: Ints, index: float, rows: int) -> str:
    clusters = plural(int(found.max()) + 1, "cluster")
    return (
        f"{other.text} {DIFFERS}: {clusters}, adjusted Rand index {index:.2f} with this one "
        f"({len(_METHODS)} methods on {rows} rows). To compare on them: {other.option}."
    )


def _others(X: Floats, columns: tuple[str, ...], chosen: Preparation, rows: Ints) -> Iterator[_Other]:
    """Yield the scalings that the columns suggest beside the chosen one."""
    deviations = np.array(chosen.spread)
    varying = np.ptp(X, axis=0) > 0
    alike = deviations[varying].max(initial=1.0) <= _SAME_UNIT * deviations[varying].min(initial=np.inf)
    if len(columns) > _FEW and alike and _one_type(X[rows]):
        yield _Other(
            "If the columns have one unit: on columns as they are, not scaled,", 'scale="none" (--scale none)', X[rows]
        )
    quartiles = np.quantile(X[rows], [0.25, 0.75], axis=0)
    far = varying & (deviations > _FAR * (quartiles[1] - quartiles[0])) & (quartiles[1] > quartiles[0])
    if far.any():
        robust = Preparation.fit(X[rows], columns, scale="robust")
        yield _Other("On columns divided by their quartiles", 'scale="robust" (--scale robust)', robust.apply(X[rows]))
    logs = [logarithm_for(X[:, j]) for j in range(X.shape[1])]
    if any(logs):
        logged = np.column_stack([logarithm(X[rows, j], log) if log else X[rows, j] for j, log in enumerate(logs)])
        names = [name for name, log in zip(columns, logs, strict=True) if log]
        shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        standard = Preparation.fit(logged, columns, scale="auto")
        yield _Other(f"On logarithms of skewed columns ({shown})", 'log="auto" (--log auto)', standard.apply(logged))


def _one_type(X: Floats) -> bool:
    """Whether all columns have whole numbers, or all have fractions."""
    whole = (np.rint(X) == X).all(axis=0)
    return bool(whole.all() or not whole.any())


def _answer(points: Floats, seed: int, threads: int) -> Ints | None:
    """Return the best answer of the quick methods; None if they have none."""
    try:
        subsample = Subsample(np.ascontiguousarray(points), seed, threads)
        numbers = numbers_for(subsample.n, _NUMBERS)
        pool = join_answers(subsample, propose_all(subsample, numbers, _METHODS))
        if len(pool.partitions) < 2:
            return None
        judged = the_judge().judge(subsample, pool)
        return np.asarray(pool.filled[ranked(judged)[0]], dtype=np.int64)
    except FIT_ERRORS:
        return None


def _agreement(found: Ints, labels: Ints) -> float:
    """Return the adjusted Rand index of two answers on the rows that are in clusters of the second."""
    clustered = labels >= 0
    return float(adjusted_rand_score(found[clustered], labels[clustered]))
