"""The result of a comparison: one answer per method, their agreement, and the recommendation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, is_dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from knoll._format import percent, plural
from knoll._typing import Floats, Ints
from knoll.comparison.profile import Profile
from knoll.exceptions import BadData, InvalidParameter
from knoll.explanation import Explanation
from knoll.models import Preparation, save
from knoll.models._relabeled import bare
from knoll.registry import display_names, title
from knoll.tables.positions import Position, unwrapped
from knoll.tables.table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from knoll.explorer import Session


@dataclass(frozen=True)
class Event:
    """The progress of a comparison."""

    method: str  # a method, or "judge"
    stage: str  # a short phrase
    fraction: float  # of the whole comparison, from 0 to 1
    seconds_left: float | None  # estimated from the time so far; None at first
    memory: int  # peak memory of the process so far, in bytes


@dataclass(frozen=True)
class Evidence:
    """A curve that a parameter was chosen from, and the point that was chosen."""

    name: str  # "BIC", "eigengap", "12-distances", ...
    parameter: str  # chosen from it
    x: Floats  # (m,)
    y: Mapping[str, Floats]  # one or more curves, each (m,)
    chosen: float  # on the axis of x
    reason: str  # one sentence
    x_label: str = ""
    y_label: str = ""


@dataclass(frozen=True)
class Shortcut:
    """The evidence for an answer that was not fitted to every row."""

    share: float  # of the rows in the fit; the others were labelled by predict
    others: int  # rows of a second fit, to other rows
    agreement: float  # adjusted Rand index of the two answers on the subsample
    residual: float | None  # spectral: the largest residual of its eigenpairs under the exact operator

    def __str__(self) -> str:
        text = (
            f"fitted on {percent(self.share)} of the rows, the others labelled by predict; "
            f"adjusted Rand index {self.agreement:.2f} with a fit to {self.others} other rows"
        )
        return text if self.residual is None else f"{text}; largest eigenvalue residual {self.residual:.1g}"


@dataclass(frozen=True)
class Candidate:
    """One method's answer."""

    method: str
    model: Any  # of scaled data; a knoll.models.Relabeled if components were merged or clusters renumbered
    labels: Ints  # (n,), −1 noise
    probabilities: Floats | None  # (n, clusters), where the method has them; with noise one column more
    parameters: Mapping[str, Any]  # chosen, or set by the user
    evidence: tuple[Evidence, ...]
    n_clusters: int
    noise: float  # the share of rows labelled −1
    scores: Mapping[str, float]  # internal scores by name
    stability: float | None  # mean adjusted Rand index of refits on resamples
    stability_spread: float | None  # standard deviation of the same
    fitted_rows: int
    how: str  # "all rows", or what was fitted and how the other rows were labelled
    certificate: float | None  # spectral: the largest residual of its eigenpairs under the exact operator
    seconds: float
    warnings: tuple[str, ...] = ()
    groups: tuple[int, ...] | None = None  # the cluster of each label of the estimator, if these differ
    expected: float = 0.0  # the adjusted Rand index with the true clusters, as the judge expects it
    sources: tuple[str, ...] = ()  # the methods and variants that found about this answer
    shortcut: Shortcut | None = None  # None: fitted to every row
    mixed: bool = False  # whether the model takes categories and missing values as they are

    @property
    def estimator(self) -> Any:
        """The fitted estimator itself, whose labels may have other numbers than those of `model`."""
        return bare(self.model)


@dataclass(frozen=True)
class Failure:
    """A method without an answer."""

    method: str
    reason: str
    seconds: float


@dataclass(frozen=True)
class Alternative:
    """The best answer that differs from those before it."""

    candidate: Candidate
    defensible: bool  # whether its score is nearly that of the recommended answer
    relation: str  # to the recommended answer: "finer", "coarser" or "different"
    agreement: float  # adjusted Rand index with it


@dataclass(frozen=True)
class Recommendation:
    """The recommended clustering, the verdict on whether there are clusters at all, and the reasons."""

    method: str
    verdict: str  # "clusters"; "none": one continuous cloud, which the labels divide; "unclear"
    confidence: float  # the expected adjusted Rand index with the true clusters, from 0 to 1
    level: str  # the same in words: "clear", "likely", "a guess"
    reasons: tuple[str, ...]
    alternatives: tuple[Alternative, ...]
    caution: str


@dataclass(frozen=True)
class Agreement:
    """The adjusted mutual information of each pair of answers."""

    methods: tuple[str, ...]
    matrix: Floats  # (m, m), ones on the diagonal


@dataclass(frozen=True)
class Comparison:
    """The result of `knoll.compare`; `summary` returns it as plain values, for a file.

    `labels` are those of the recommended answer, also where the verdict is "none": then they divide one cloud.
    """

    profile: Profile
    scaling: Preparation
    candidates: Mapping[str, Candidate]  # by method, in the order of knoll.registry
    failures: tuple[Failure, ...]
    agreement: Agreement
    recommendation: Recommendation
    truth_scores: Mapping[str, Mapping[str, float]] | None  # by method: "ari", "ami"
    labels: Ints  # (n,)
    seed: int
    budget: float
    seconds: float
    interrupted: bool
    notes: tuple[str, ...] = field(default=())  # what was sampled, and the evidence for it
    table: Table | None = None  # the rows with the types of their columns; None where X was an array of numbers
    X: Any = field(default=None, repr=False)  # (n, d) the numbers that were scaled, in the units of the table
    index: Any = field(default=None, repr=False)  # of the rows of a data frame

    def preparation(self, candidate: Candidate) -> Preparation:
        """Return what is done to the table before a model of this comparison takes it."""
        return self.scaling.with_codes() if candidate.mixed else self.scaling

    @property
    def verdict(self) -> str:
        """Whether there are clusters: "clusters", "none" or "unclear"."""
        return self.recommendation.verdict

    @property
    def confidence(self) -> float:
        """The expected adjusted Rand index of the recommended answer with the true clusters."""
        return self.recommendation.confidence

    @property
    def alternatives(self) -> tuple[Alternative, ...]:
        """The next best answers that differ, at most two."""
        return self.recommendation.alternatives

    def __repr__(self) -> str:
        """Return a short table and the recommendation."""
        lines = table_lines(self)
        advice = self.recommendation
        lines.append(
            f"recommended: {advice.method}, {advice.level} ({advice.confidence:.2f}); verdict: {advice.verdict}"
        )
        lines += [f"  {reason}" for reason in advice.reasons]
        return "\n".join(lines)

    def summary(self) -> dict[str, Any]:
        """Return everything but labels, models and probabilities as plain dicts, lists, numbers and strings."""
        scaling = {"kind": self.scaling.scale, "centre": self.scaling.center, "spread": self.scaling.spread}
        return {
            "profile": plain(self.profile),
            "scaling": plain(scaling),
            "candidates": {name: _of_candidate(found) for name, found in self.candidates.items()},
            "failures": plain(self.failures),
            "agreement": {"methods": list(self.agreement.methods), "ami": plain(self.agreement.matrix)},
            "recommendation": _of_recommendation(self.recommendation),
            "verdict": self.verdict,
            "truth_scores": plain(self.truth_scores),
            "seed": self.seed,
            "budget": self.budget,
            "seconds": self.seconds,
            "interrupted": self.interrupted,
            "notes": list(self.notes),
        }

    def label(self, rows: Any, *, method: str | None = None) -> Iterator[Ints]:
        """Label all rows of a table in blocks by the model of an answer.

        Parameters
        ----------
        rows : TableBlocks
            What `knoll.blocks.open` returned; it has the columns of this comparison.
        method : str, default=None
            Whose answer; None is the recommended one.

        Yields
        ------
        ndarray of int64
            The labels of the next rows.
        """
        from knoll.comparison.streamed import labels_by_block

        yield from labels_by_block(self, self._answer(method), rows)

    # ---- what one does with it ---------------------------------------------------------------------------------------

    def answers(self) -> dict[str, Candidate]:
        """Return the answer of every method, and "alternative-1" and so on, the next best to the recommended one."""
        others = {f"alternative-{at}": one.candidate for at, one in enumerate(self.alternatives, 1)}
        return {**self.candidates, **others}

    def explain(
        self,
        table: Any = None,
        *,
        method: str | None = None,
        names: Mapping[int, str] | None = None,
        ids: Any = None,
        sample_weight: Any = None,
        depth: int = 4,
        rows: int = 5,
        resamples: int = 10,
        seconds: float | None = None,
    ) -> Explanation:
        """Explain the clusters of an answer: `knoll.explain` with the columns and the points that were clustered.

        Parameters
        ----------
        table : data frame, default=None
            The table with further columns, in the same order of rows; None is the table that was compared.
        method : str, default=None
            Whose answer; None is the recommended one.
        names, ids, sample_weight, depth, rows, resamples :
            As in `knoll.explain`.
        seconds : float, default=None
            No refit begins after so many seconds.

        Returns
        -------
        Explanation
            The columns that set each cluster apart, rules, example rows, names, and the stability of each cluster.
        """
        from knoll.comparison.explaining import explain_answer

        chosen = self.answers().get(self.recommendation.method if method is None else method)
        if chosen is None:
            raise InvalidParameter(f"Unknown method {method!r}. Choose from: {', '.join(self.answers())}.")
        return explain_answer(
            self, chosen, table, names=names, ids=ids, sample_weight=sample_weight, depth=depth, rows=rows,
            resamples=resamples, seconds=seconds,
        )  # fmt: skip

    def to_frame(self) -> Any:
        """Return a data frame of pandas: a row of labels for each row of the table, under its index.

        The first column, "cluster", is the recommended answer; then one column for each answer.
        """
        try:
            import pandas as pd
        except ImportError:
            raise InvalidParameter("to_frame needs pandas. Run: pip install pandas") from None
        labels = {name: found.labels for name, found in self.answers().items()}
        index = self.index if self.index is not None else None if self.table is None else self.table.rows
        return pd.DataFrame({"cluster": self.labels, **labels}, index=index)

    def plot(self, ax: Axes | None = None, *, method: str | None = None) -> Axes:
        """Draw the rows by cluster, on two columns or on the first two principal components of the scaled columns.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.
        method : str, default=None
            Whose answer; None is the recommended one.

        Returns
        -------
        matplotlib Axes
            Where it was drawn.
        """
        from knoll.plots.scatter import scatter

        chosen = self.recommendation.method if method is None else method
        if chosen not in self.answers():
            raise InvalidParameter(f"Unknown method {method!r}. Choose from: {', '.join(self.answers())}.")
        found = self.answers()[chosen]
        points = np.asarray(self._rows())
        narrow = points.shape[1] <= 2  # then the axes have the units of the table
        position = self.scaling.on_map
        if position is not None:
            return self._map(points, position, found, ax)
        drawn = scatter(points if narrow else self.scaling.apply(points), found.labels, ax)
        drawn.set_title(f"{title(found.method)}, {_counted(found)}")
        return drawn

    def _map(self, points: Floats, position: Position, found: Candidate, ax: Axes | None) -> Axes:
        """Draw longitude across and latitude up, with equal scales at the mean latitude."""
        from knoll.plots.scatter import scatter

        up, across = points[:, position.latitude], unwrapped(points[:, position.longitude])
        drawn = scatter(np.column_stack([across, up]), found.labels, ax)
        drawn.set_aspect(1 / max(0.05, float(np.cos(np.radians(np.mean(up))))))
        drawn.set_xlabel(self.scaling.columns[position.longitude])
        drawn.set_ylabel(self.scaling.columns[position.latitude])
        drawn.set_title(f"{title(found.method)}, {_counted(found)}")
        return drawn

    def to_geojson(self, path: str | Path, *, names: Mapping[int, str] | None = None) -> Path:
        """Write the rows as points of GeoJSON, with their clusters as properties.

        Parameters
        ----------
        path : str or Path
            The file.
        names : mapping, default=None
            Names of the recommended clusters, by number; None proposes them.

        Returns
        -------
        Path
            The file. The table needs a latitude and a longitude. Each point has "id", "cluster" and "name", and the
            cluster by every method.
        """
        from knoll.tables.geojson import WITHOUT, PointsFile, degrees_of

        degrees = None if self.table is None else degrees_of(self.table)
        if degrees is None:
            raise BadData(WITHOUT)
        called = self.explain(names=names, resamples=0).names
        labels = {name: found.labels for name, found in self.answers().items()}
        values = {"cluster": self.labels, "name": [called[int(one)] for one in self.labels], **labels}
        assert self.table is not None
        ids = self.index if self.index is not None else self.table.rows if self.table.ids is None else self.table.ids
        with Path(path).open("wb") as file:
            points = PointsFile(file)
            points.write(ids, "id", values, degrees)
            points.close()
        return Path(path)

    def report(self, path: str | Path, *, name: str = "the table", names: Mapping[int, str] | None = None) -> Path:
        """Write the HTML report that ``knoll compare`` writes.

        Parameters
        ----------
        path : str or Path
            The file.
        name : str, default="the table"
            What the table is called in the report.
        names : mapping, default=None
            Names of the recommended clusters, by number; None proposes them.

        Returns
        -------
        Path
            The file.
        """
        from knoll.report.comparison import comparison_page

        table = self.table
        page = comparison_page(
            self,
            self._rows(),
            name=name,
            ids=self.index if self.index is not None else None if table is None else table.ids,
            truth=None if table is None else table.truth,
            facts=() if table is None else table.notes,
            used="" if table is None else table.used,
            explanation=self.explain(names=names),
        )
        target = Path(path)
        target.write_text(page, encoding="utf-8", errors="replace")
        return target

    def explore(
        self,
        *,
        labels: Mapping[str, Any] | None = None,
        out: str | Path | None = None,
        show: bool = True,
        browser: bool | None = None,
        wait: bool | None = None,
    ) -> Session:
        """Open the interactive page of ``knoll explore`` on these rows and answers.

        Parameters
        ----------
        labels, out, show, browser, wait :
            As in `knoll.explore`.

        Returns
        -------
        Session
            What is explored; its `labels` are those on screen.
        """
        from knoll.explorer.hosts import explore_comparison

        return explore_comparison(self, labels=labels, out=out, show=show, browser=browser, wait=wait)

    def save(self, path: str | Path, *, method: str | None = None) -> Path:
        """Write the model of an answer, with columns and scales, for `knoll.models.read` and ``knoll predict``.

        Parameters
        ----------
        path : str or Path
            The file.
        method : str, default=None
            Whose answer; None is the recommended one.

        Returns
        -------
        Path
            The file.
        """
        candidate = self._answer(method)
        save(candidate.model, path, preparation=self.preparation(candidate))
        return Path(path)

    def _answer(self, method: str | None) -> Candidate:
        chosen = self.recommendation.method if method is None else method
        if chosen not in self.answers():
            raise InvalidParameter(f"Unknown method {method!r}. Choose from: {', '.join(self.answers())}.")
        return self.answers()[chosen]

    def _rows(self) -> Any:
        if self.X is None:
            raise BadData("this comparison has no rows: it was made without them.")
        return self.X

    def _repr_html_(self) -> str:
        """Return the table of methods and the recommendation, for notebooks."""
        return comparison_html(self)


def table_lines(comparison: Comparison, name: Callable[[str], str] = str) -> list[str]:
    """Draw the short table of a comparison; `name` is how a method is called in it."""
    truth = comparison.truth_scores
    sampled = any(found.fitted_rows < len(comparison.labels) for found in comparison.candidates.values())
    head, last = "" if truth is None else f"{'truth':>7}", "  fitted on" if sampled else ""
    lines = [f"  {'method':<25}{'clusters':>9}{'noise':>8}{'stability':>11}{head}{'seconds':>9}{last}"]
    for method, found in comparison.candidates.items():
        mark = "→" if method == comparison.recommendation.method else " "
        stable = "–" if found.stability is None else f"{found.stability:.2f}"
        known = "" if truth is None else f"{truth[method]['ari']:>7.2f}"
        lines.append(
            f"{mark} {name(method):<25}{found.n_clusters:>9}{100 * found.noise:>6.1f} %{stable:>11}{known}"
            f"{found.seconds:>9.2f}{f'  {found.how}' if sampled else ''}"
        )
    for failure in comparison.failures:
        lines.append(f"  {name(failure.method):<25} no answer: {' '.join(failure.reason.split())}")
    return lines


def comparison_html(comparison: Comparison) -> str:
    """Return the short table of a comparison as HTML; what comes from the table is escaped."""
    advice = comparison.recommendation
    best = comparison.candidates[advice.method]
    head = "No clear clusters. The best division" if advice.verdict == "none" else "Recommended"
    lines = [
        f"<p><b>{head}: {escape(title(advice.method))}, {_counted(best)}</b><br>{escape(advice.level.capitalize())}: "
        f"expected agreement with the true clusters {advice.confidence:.2f} (adjusted Rand index).</p>"
    ]
    reasons = "".join(f"<li>{escape(display_names(reason))}</li>" for reason in advice.reasons)
    cells = "".join(_html_row(comparison, method, found) for method, found in comparison.candidates.items())
    failed = "".join(
        f'<tr><th style="text-align:left">{escape(title(one.method))}</th>'
        f'<td colspan="4" style="text-align:left">no answer: {escape(one.reason)}</td></tr>'
        for one in comparison.failures
    )
    titles = "".join(f"<th>{name}</th>" for name in ("clusters", "noise", "stability", "seconds"))
    lines += [
        f"<ul>{reasons}</ul>",
        f'<table><thead><tr><th style="text-align:left">method</th>{titles}</tr></thead>',
        f"<tbody>{cells}{failed}</tbody></table><p>{escape(advice.caution)}</p>",
    ]
    return "".join(lines)


def _html_row(comparison: Comparison, method: str, found: Candidate) -> str:
    name = escape(title(method))
    name = f"<b>{name}</b>" if method == comparison.recommendation.method else name
    stable = "–" if found.stability is None else f"{found.stability:.2f}"
    cells = (str(found.n_clusters), f"{100 * found.noise:.1f} %", stable, f"{found.seconds:.2f}")
    return f'<tr><th style="text-align:left">{name}</th>' + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _counted(found: Candidate) -> str:
    noise = f", {100 * found.noise:.1f} % noise" if found.noise > 0 else ""
    return plural(found.n_clusters, "cluster") + noise


def _of_recommendation(advice: Recommendation) -> dict[str, Any]:
    others = [
        {
            "method": one.candidate.method,
            "n_clusters": one.candidate.n_clusters,
            "parameters": one.candidate.parameters,
            "expected": one.candidate.expected,
            "defensible": one.defensible,
            "relation": one.relation,
            "agreement": one.agreement,
        }
        for one in advice.alternatives
    ]
    return plain(vars(advice) | {"alternatives": others})


def _of_candidate(found: Candidate) -> dict[str, Any]:
    sizes = np.unique(found.labels[found.labels >= 0], return_counts=True)[1]
    fields = {name: value for name, value in vars(found).items() if name not in ("model", "labels", "probabilities")}
    return plain(fields | {"sizes": sizes})


def plain(value: Any) -> Any:
    """Convert records, arrays, NumPy numbers and mappings to JSON's types; NaN and infinities become None."""
    if is_dataclass(value):
        return plain(vars(value))
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | range):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
