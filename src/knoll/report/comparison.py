"""A comparison as one self-contained HTML page: the recommendation, the pictures, and the evidence.

Everything from the table (names, ids, cells) is text on the page: the template escapes it, data is embedded as JSON
without "<", and a content-security policy permits the page's own script only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from knoll._format import ColumnFormat, number, number_word, thousands, two_digits
from knoll._typing import Ints
from knoll.comparison.other_scales import DIFFERS
from knoll.registry import display_names, title
from knoll.report.comparison_charts import HEIGHT, WIDTH, chart
from knoll.report.comparison_clusters import clusters_of, distinguishing_columns
from knoll.report.comparison_relations import related
from knoll.report.comparison_view import Shown, same_colours, shown_rows
from knoll.report.explained import explained_view, writers
from knoll.report.pieces import (
    MAX_CLUSTERS,
    MAX_COLUMNS,
    chips,
    cluster_cells,
    drawn_rows,
    palette_rules,
    points_block,
    source_hash,
    swatch,
)
from knoll.report.template import read, render

if TYPE_CHECKING:
    from knoll.comparison import Candidate, Comparison
    from knoll.explanation import Explanation

_MAX_CLASSES = 30  # of the truth: more are not drawn


def comparison_page(
    comparison: Comparison,
    X: NDArray[np.generic],
    *,
    name: str,
    ids: Sequence[Any] | NDArray[Any] | None = None,
    truth: NDArray[Any] | None = None,
    facts: Sequence[str] = (),
    used: str = "",
    command: str = "",
    explanation: Explanation | None = None,
    seconds: float = 6.0,
    done: Callable[[str], object] = lambda text: None,
) -> str:
    """Return the page.

    Parameters
    ----------
    comparison : Comparison
        The result of `knoll.compare`.
    X : ndarray of shape (n, d)
        The table, in its own units.
    name : str
        The name of the table.
    ids : sequence of length n, optional
        The identifiers of the rows; by default their numbers.
    truth : array of shape (n,), optional
        Known classes of the rows, shown in one more picture.
    facts : sequence of str
        Remarks on the table, such as omitted columns and rows.
    used : str
        How many columns of the table are used, in words; by default those of X.
    command : str
        The command that reproduces this page.
    explanation : Explanation, optional
        What the recommended clusters are; by default that of `comparison.explain`, without refits.
    seconds : float
        Time for the certificates of relations.
    done : callable
        Called with the name of each section that is begun.

    Examples
    --------
    >>> from knoll import datasets
    >>> from knoll.comparison import compare
    >>> from knoll.report.comparison import comparison_page
    >>> X = datasets.load("iris").X
    >>> found = compare(X, methods=["kmeans", "dbscan"], k=range(2, 5))
    >>> page = comparison_page(found, X, name="iris")
    >>> page[:15], "k-means" in page
    ('<!doctype html>', True)
    """
    done("pictures")
    rows = drawn_rows(X.shape[0], X.shape[1], comparison.seed)
    scaled = comparison.scaling.apply(X[rows])
    shown = shown_rows(scaled, comparison.scaling, rows, len(X), X[rows])
    colours = _colours(comparison)
    done("clusters")
    found = comparison.explain(ids=ids, resamples=0) if explanation is None else explanation
    write = writers(comparison, X, found.used)
    answers = {method: _answer(comparison, method, X, colours, write) for method in comparison.candidates}
    pictures = _pictures(comparison, colours, shown, truth, found.names)
    done("relations")
    arrows, arrows_note = related(comparison, scaled, seconds)
    done("page")
    style, script = read("tour.css") + read("compare.css") + palette_rules(), read("compare.js")
    return render(
        "compare.html",
        name=name, title=title, display_names=display_names, two_digits=two_digits, counted=thousands,
        advice=comparison.recommendation, answers=answers, pictures=pictures,
        shown=shown, data=points_block(pictures, shown, ids), agreement=_agreement(comparison), arrows=arrows,
        arrows_note=arrows_note, number=number, profile=_profile(comparison, write),
        explained=explained_view(found, _paints(comparison, colours)), count_word=number_word,
        facts=[*facts, *comparison.profile.remarks, *map(display_names, comparison.notes)],
        used=used, omitted=[*_omitted(facts), *(note.rstrip(".") for note in comparison.scaling.notes())],
        doubts=[display_names(note) for note in comparison.notes if DIFFERS in note],
        failures=comparison.failures, interrupted=comparison.interrupted, width=WIDTH, height=HEIGHT,
        truth_scores=comparison.truth_scores, scale=comparison.scaling.scale, seed=comparison.seed, command=command,
        css=style, css_hash=source_hash(style), script=script, script_hash=source_hash(script),
        seconds=f"{comparison.seconds:.1f}",
    )  # fmt: skip


def _omitted(facts: Sequence[str]) -> list[str]:
    """Return what the first lines report about columns that are not used."""
    return [fact.rstrip(".") for fact in facts if fact.startswith("left out: ") or fact.endswith(" ignored.")]


# ---- pictures ------------------------------------------------------------------------------------------------------


def _colours(comparison: Comparison) -> dict[str, Ints]:
    """Number the clusters of every method so that matching clusters have the colour of the recommended method's."""
    model = comparison.candidates[comparison.recommendation.method].labels
    return {method: same_colours(model, found.labels) for method, found in comparison.candidates.items()}


def _pictures(
    comparison: Comparison,
    colours: Mapping[str, Ints],
    shown: Shown,
    truth: NDArray[Any] | None,
    names: Mapping[int, str],
) -> list[dict[str, Any]]:
    first = [comparison.recommendation.method]
    out = []
    for method in [*first, *(other for other in comparison.candidates if other not in first)]:
        found = comparison.candidates[method]
        out.append({
            "id": method, "title": title(method), "role": _role(comparison, method),
            "counts": _counts(found),
            "chips": chips(found.labels, colours[method], names if method in first else {}),
            "colours": colours[method][shown.rows].tolist(), "labels": found.labels[shown.rows].tolist(),
        })  # fmt: skip
    if truth is not None:
        classes, at = np.unique(np.asarray(truth).astype(str), return_inverse=True)
        if len(classes) <= _MAX_CLASSES:
            leader = comparison.candidates[first[0]].labels
            painted = same_colours(leader, at.astype(np.int64))
            out.append({
                "id": "truth", "title": "known classes", "role": "truth",
                "counts": f"{len(classes)} known classes", "chips": chips(classes[at], painted),
                "colours": painted[shown.rows].tolist(),
                "labels": classes[at][shown.rows].tolist(),
            })  # fmt: skip
    for picture in out:
        picture["alt"] = f"The rows by cluster, {picture['title']}: {picture['counts']}."
    return out


def _paints(comparison: Comparison, colours: Mapping[str, Ints]) -> dict[int, str]:
    """Return the class of the colour of each recommended cluster."""
    method = comparison.recommendation.method
    labels, first = np.unique(comparison.candidates[method].labels, return_index=True)
    return {int(label): swatch(int(colours[method][at])) for label, at in zip(labels, first, strict=True)}


def _role(comparison: Comparison, method: str) -> str:
    return "recommended" if method == comparison.recommendation.method else ""


def _counts(found: Candidate) -> str:
    clusters = f"{found.n_clusters} cluster{'' if found.n_clusters == 1 else 's'}"
    return clusters + (f", {100 * found.noise:.1f} % noise" if found.noise > 0 else "")


# ---- tables --------------------------------------------------------------------------------------------------------


def _answer(
    comparison: Comparison, method: str, X: NDArray[np.generic], colours: Mapping[str, Ints], write: Sequence[Any]
) -> dict[str, Any]:
    """Return everything about one method's answer that the page shows."""
    found = comparison.candidates[method]
    clusters = clusters_of(X, found.labels, comparison.profile.columns)
    largest = [cluster for cluster in clusters if cluster.label >= 0][:MAX_CLUSTERS]
    noise = [cluster for cluster in clusters if cluster.label < 0]
    columns = distinguishing_columns(clusters, MAX_COLUMNS)
    paint = {int(label): int(colours[method][at]) for label, at in zip(*np.unique(found.labels, return_index=True))}
    return {
        "method": method, "title": title(method), "role": _role(comparison, method), "counts": _counts(found),
        "found": found, "parameters": {key: _plain(value) for key, value in found.parameters.items()},
        "scores": {key.replace("_", " "): number(value) for key, value in found.scores.items()},
        "charts": [drawn for evidence in found.evidence if (drawn := chart(evidence))],
        "columns": [comparison.profile.columns[j] for j in columns], "all_columns": len(comparison.profile.columns),
        "clusters": [
            cluster_cells(cluster, columns, paint[cluster.label], write, comparison.profile.columns)
            for cluster in largest + noise
        ],
        "more": found.n_clusters - len(largest),
        "truth": None if comparison.truth_scores is None else comparison.truth_scores.get(method),
    }  # fmt: skip


def _plain(value: Any) -> str:
    return number(float(value)) if isinstance(value, float | np.floating) else str(value)


def _agreement(comparison: Comparison) -> dict[str, Any]:
    methods, matrix = comparison.agreement.methods, comparison.agreement.matrix
    return {
        "methods": [title(method) for method in methods],
        "rows": [
            [(two_digits(matrix[i, j]), max(0, min(10, round(10 * float(matrix[i, j]))))) for j in range(len(methods))]
            for i in range(len(methods))
        ],
    }


def _profile(comparison: Comparison, write: Sequence[Any]) -> dict[str, Any]:
    table = comparison.profile
    measured = zip(table.columns, write, table.means, table.deviations, table.minima, table.maxima, strict=True)
    rows = [
        (name, form(float(mean)), _extent(form, float(deviation)), form(float(low)), form(float(high)))
        for name, form, mean, deviation, low, high in measured
    ]
    return {"rows": rows[:40], "more": max(0, len(rows) - 40), "n": table.n_rows, "d": table.n_columns}


def _extent(form: Any, value: float) -> str:
    """Return a standard deviation: that of a date in days."""
    if isinstance(form, ColumnFormat) and form.type != "number":
        return f"{number(value, 3)} {'days' if form.type == 'date' else 'hours'}"
    return str(form(value))
