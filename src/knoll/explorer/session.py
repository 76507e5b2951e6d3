"""A session: a table, the answers that were tried, and the steps of a person among them. No web is in it.

Page, widget, tests and scripts speak to it alike. An action that changes the state makes one step, with the Python line
that does it again; `script` is those lines. Everything else is in the modules beside: fits, edits, what is asked
about rows and groups. Methods may be called by several threads: what takes long works on a state as it was, and the
step is made at the end.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from knoll._format import plural
from knoll._typing import Bools, Ints
from knoll.exceptions import BadData, InvalidParameter
from knoll.explorer import edits
from knoll.explorer.fits import Fits
from knoll.explorer.methods import method_of, usual
from knoll.explorer.opening import open_source
from knoll.explorer.recommending import Background, compare_rows, refit_options
from knoll.explorer.rows import check_where, mask_of_clusters, mask_of_rows, mask_to_text, matching, shown
from knoll.explorer.source import Source
from knoll.explorer.state import Answer, Filter, History, Note, Selection, State, Step, answer_id, frozen
from knoll.kmeans.estimator import KMeans

if TYPE_CHECKING:
    from knoll.comparison import Candidate, Comparison

__all__ = ["Session"]

_MOST_NAME = 200  # characters of the name of a cluster
Group = Mapping[str, Any] | str
_MODES: dict[str, Callable[[Bools, Bools], Bools]] = {
    "replace": lambda old, new: new,
    "add": lambda old, new: old | new,
    "remove": lambda old, new: old & ~new,
    "keep": lambda old, new: old & new,
}


class Host(Protocol):
    """What shows a session: a page or a widget."""

    def stop(self) -> None:
        """End it."""
        ...


class Session:
    """An exploration of one table.

    Parameters
    ----------
    source : Source
        The table; `Session.open` reads one.
    labels : mapping, default=None
        Labels of the rows by any other program, by the name of the answer.
    comparison : Comparison, default=None
        A comparison of the same rows, whose answers are there from the beginning.
    out : path, default=None
        The only folder that files are written to; None: exports are downloads.

    Examples
    --------
    >>> from knoll.explorer import Session
    >>> session = Session.open("x1500")
    >>> session.fit("kmeans", n_clusters=3).sizes()
    {0: 489, 1: 515, 2: 496}
    >>> session.merge([0, 1]).answer.sizes()
    {0: 1004, 2: 496}
    >>> session.undo().n_clusters
    3
    """

    def __init__(
        self,
        source: Source,
        *,
        labels: Mapping[str, Any] | None = None,
        comparison: Comparison | None = None,
        out: str | Path | None = None,
    ) -> None:
        self.source, self.fits = source, Fits(source)
        self.out = None if out is None else Path(out)
        self.comparison: Comparison | None = None
        self.compared = ""  # the Python line of the comparison
        self.background = Background(self)
        self.paths: OrderedDict[Any, Any] = OrderedDict()  # of relations
        self.supplied: dict[str, Answer] = {}  # by id
        self.lock = RLock()
        self.changed: Callable[[], None] = lambda: None  # called after each step
        self.host: Host | None = None  # what shows it
        self.version = 0  # counts the changes of the state: a page knows by it whether it has missed one
        for name, column in (labels or {}).items():
            self.give(str(name), column)
        first = next(iter(self.supplied.values()), None)
        if comparison is not None:
            first = self._compared(comparison) if first is None else first
        self.history = History((Step("open", f"opened {source.name}", "", State(answer=first)),))

    @classmethod
    def open(
        cls,
        data: Any = "x1500",
        *,
        labels: Mapping[str, Any] | None = None,
        out: str | Path | None = None,
        **options: Any,
    ) -> Self:
        """Open a table: a file, a built-in data set by its name, a data frame or an array.

        Parameters
        ----------
        data : str, path, data frame or array
            The table.
        labels, out :
            As in the class.
        options :
            Those of `knoll.compare` that define how a table is read and scaled: columns, types, log, ignore, missing,
            scale, metric, seed, n_jobs; of a file also header, ids and truth.
        """
        return cls(open_source(data, **options), labels=labels, out=out)

    # ---- what is there -----------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """What is on screen."""
        return self.history.state

    @property
    def labels(self) -> Ints:
        """The labels of the shown answer."""
        return self.answer.labels

    @property
    def answer(self) -> Answer:
        """The shown answer; an error if there is none yet."""
        if self.state.answer is None:
            raise BadData("nothing has been fitted yet.")
        return self.state.answer

    @property
    def n_clusters(self) -> int:
        """The number of clusters of the shown answer."""
        return len(self.answer.sizes())

    @property
    def attempts(self) -> int:
        """How many settings were tried."""
        return len(self.fits.settings_tried)

    @property
    def digest(self) -> str:
        """A digest of the state: what a script must come to."""
        return self.state.digest()

    def close(self) -> None:
        """End the server or the widget that shows it; the session stays."""
        host, self.host = self.host, None
        if host is not None:
            host.stop()

    def answers(self) -> list[Answer]:
        """Return every answer that can be shown: supplied ones, recommended ones, fits."""
        return [*self.supplied.values(), *self.fits.all()]

    def find(self, answer: Any) -> Answer:
        """Return an answer by its id."""
        current = self.state.answer
        if current is not None and answer in ("shown", current.id):
            return current
        for found in self.answers():
            if found.id == answer:
                return found
        raise InvalidParameter(f"there is no answer {answer!r:.80}.")

    def shown(self) -> Bools:
        """Return the rows that the filter leaves."""
        return shown(self.source, self.state.filter, self.state.answer)

    def rows(self, group: Group, other: Bools | None = None) -> Bools:
        """Return the rows of a cluster, of clusters, of the selection, or the complement of another group."""
        if group == "selection":
            selection = self.state.selection
            if selection is None or not selection.size:
                raise BadData("no row is selected.")
            return selection.mask
        if group == "rest" and other is not None:
            return ~other
        if isinstance(group, Mapping) and set(group) in ({"cluster"}, {"clusters"}):
            chosen = group.get("clusters", [group.get("cluster")])
            if isinstance(chosen, list | tuple) and all(type(one) is int for one in chosen):
                mask = mask_of_clusters(self.labels, chosen)
                if not mask.any():
                    raise BadData(f"there is no cluster {', '.join(map(str, chosen))}.")
                return mask
        raise InvalidParameter(
            f"a group is {{'cluster': 2}}, {{'clusters': [1, 2]}}, 'selection' or 'rest'; got {group!r:.80}."
        )

    # ---- steps -------------------------------------------------------------------------------------------------------

    def _step(
        self,
        do: str,
        text: str,
        python: str,
        change: Callable[[State], State],
        *,
        begun: float | None = None,
        since: History | None = None,
    ) -> Self:
        """Make a step; with `since` only if nothing was changed since then."""
        seconds = 0.0 if begun is None else time.perf_counter() - begun
        with self.lock:
            if since is not None and self.history is not since:
                raise BadData("the clusters were changed meanwhile, so nothing was done. Do it once more.")
            self.history = self.history.after(Step(do, text, python, change(self.state), seconds))
            self.version += 1
        self.changed()
        return self

    def _move_to(self, position: int) -> Self:
        with self.lock:
            self.history = self.history.at(position)
            self.version += 1
        self.changed()
        return self

    def undo(self, steps: int = 1) -> Self:
        """Go back."""
        return self._move_to(self.history.position - steps)

    def redo(self, steps: int = 1) -> Self:
        """Do again what was undone."""
        return self._move_to(self.history.position + steps)

    def go(self, step: int) -> Self:
        """Go to a step; 0 is the beginning."""
        if not 0 <= step < len(self.history.steps):
            raise InvalidParameter(f"step must be from 0 to {len(self.history.steps) - 1}, got {step}.")
        return self._move_to(step)

    # ---- answers -----------------------------------------------------------------------------------------------------

    def fit(self, method: str, **parameters: Any) -> Answer:
        """Fit a method to all rows, and show its answer."""
        (found,) = (answer for _, answer in self.fitting(method, parameters, preview=False))
        return found

    def fitting(
        self, method: str, parameters: Mapping[str, Any], *, preview: bool = True, commit: bool = True
    ) -> Iterator[tuple[str, Answer]]:
        """Yield a preview of a slow fit, then the answer, which is shown with `commit`."""
        begun = time.perf_counter()
        chosen, values = self.fits.settings(method, parameters)
        for kind, found in self.fits.answer(chosen, values, preview):
            if kind == "result" and commit:
                self._show(found, self._fit_line(found), begun)
            yield kind, found

    def cut(self, *, commit: bool = True, **setting: Any) -> Answer:
        """Show DBSCAN at an ε, or HDBSCAN at a least size, from the density tree, which is kept."""
        method = "dbscan" if "eps" in setting else "hdbscan"
        chosen, values = self.fits.settings(method, setting)
        if chosen.name == "dbscan":
            self.fits.tree(int(values["min_samples"]))
        found = next(answer for kind, answer in self.fits.answer(chosen, values, False) if kind == "result")
        if commit:
            self._show(found, self._fit_line(found), time.perf_counter())
        return found

    def show(self, answer: str) -> Self:
        """Show an answer that is there: of a fit, of a comparison, or given."""
        found = self.find(answer)
        line = self._fit_line(found) if found.origin == "fit" else f"s.show({found.id!r})"
        return self._show(found, line, time.perf_counter())

    def _show(self, answer: Answer, python: str, begun: float) -> Self:
        setting = ", ".join(f"{name}={value!r}" for name, value in self._set(answer).items())
        text = f"{answer.title}{': ' if setting else ''}{setting}, {plural(len(answer.sizes()), 'cluster')}"
        hidden = replace(self.state.filter, hide=())
        return self._step("show", text, python, lambda state: replace(state, answer=answer, filter=hidden), begun=begun)

    def _set(self, answer: Answer) -> dict[str, Any]:
        """Return the parameters that are not the usual ones."""
        if answer.origin != "fit":
            return dict(answer.parameters)
        default = usual(method_of(answer.method))
        return {name: value for name, value in answer.parameters.items() if value != default[name]}

    def _fit_line(self, answer: Answer) -> str:
        settings = "".join(f", {name}={value!r}" for name, value in self._set(answer).items())
        return f"s.fit({answer.method!r}{settings})  # {answer.python}"

    def give(self, name: str, labels: Any) -> Answer:
        """Take labels of any program as one more answer."""
        found = np.asarray(labels)
        notes: dict[int, Note] = {}
        if found.shape != (len(self.source),):
            raise BadData(f"labels[{name!r}] has shape {found.shape}; the table has {len(self.source)} rows.")
        if found.dtype.kind not in "biu":
            if found.dtype.kind == "f" and np.isfinite(found).all() and (found == np.rint(found)).all():
                found = found.astype(np.int64)
            else:
                levels, found = np.unique(found.astype(str), return_inverse=True)
                notes = {at: Note(str(level)) for at, level in enumerate(levels)}
        found = found.astype(np.int64)
        whole = np.where(found < 0, -1, found)
        if whole.max(initial=0) >= 2 * len(whole):  # numbers that mean something else, such as years
            levels, whole = np.unique(whole, return_inverse=True)
            notes = {at: Note(str(level)) for at, level in enumerate(levels)}
        made = Answer(answer_id(name, {}, frozen(whole)), name, name, {}, frozen(whole), "given", notes=notes)
        self.supplied[made.id] = made
        return made

    def adopt(self, found: Comparison, settings: Mapping[str, Any] | None = None) -> Answer:
        """Take over the answers of a comparison of the same rows, and return the recommended one.

        It is shown, as a step, if nothing else has been shown yet. `settings` are the options of the comparison.
        """
        with self.lock:
            best = self._compared(found, settings)
            return best if self.state.answer is not None else self._recommended(best).answer

    def _compared(self, found: Comparison, settings: Mapping[str, Any] | None = None) -> Answer:
        from knoll.registry import title

        self.comparison = found
        arguments = ", ".join(f"{name}={value!r}" for name, value in (settings or {}).items())
        self.compared = f"s.recommend({arguments})"
        for key in [key for key, one in self.supplied.items() if one.origin == "recommended"]:
            del self.supplied[key]
        first = None
        for name, one in found.answers().items():
            values = {
                key: value for key, value in one.parameters.items() if isinstance(value, str | int | float | bool)
            }
            labels = frozen(one.labels)
            made = Answer(
                answer_id(name, values, labels),
                one.method,
                title(one.method),
                values,
                labels,
                "recommended",
                one.how,
                one.seconds,
                (*one.warnings, *_grouped(one)),
                f"found.answers()[{name!r}].labels",
                one.model,
                one.stability,
            )
            self.supplied[made.id] = made
            first = made if name == found.recommendation.method else first
        assert first is not None
        return first

    def recommend(self, **settings: Any) -> Self:
        """Compare the methods on all rows, as `knoll.compare` does, and show what it recommends."""
        begun = time.perf_counter()
        found = compare_rows(self.source, **settings)
        with self.lock:
            return self._recommended(self._compared(found, settings), begun)

    def _recommended(self, best: Answer, begun: float | None = None) -> Self:
        text = f"recommended: {best.title}, {plural(len(best.sizes()), 'cluster')}"

        def change(state: State) -> State:
            return replace(state, answer=best, filter=replace(state.filter, hide=()))

        return self._step("recommend", text, self.compared, change, begun=begun)

    def refit(self, *, apply: bool | str = "auto", **settings: Any) -> dict[str, Any]:
        """Cluster the selected rows again, by the same judgement; "no clusters in here" is an answer, too.

        With ``apply="auto"`` the new clusters replace the old labels of these rows unless the verdict is "none".
        """
        since, begun = self.history, time.perf_counter()
        rows = self.rows("selection")
        chosen = np.flatnonzero(rows)
        if len(chosen) < 2:
            raise BadData("a row alone cannot be clustered. Select at least two.")
        found = compare_rows(self.source.subset(chosen), **refit_options(len(chosen), settings))
        advice = found.recommendation
        best = found.candidates[advice.method]
        facts = {
            "verdict": advice.verdict,
            "level": advice.level,
            "confidence": advice.confidence,
            "reasons": list(advice.reasons),
            "method": advice.method,
            "n_clusters": best.n_clusters,
            "noise": best.noise,
            "rows": len(chosen),
            "notes": list(found.notes),
            "parameters": {k: v for k, v in best.parameters.items() if isinstance(v, str | int | float | bool)},
        }
        if apply is True or (apply == "auto" and advice.verdict != "none"):
            origin = self.state.selection.origin if self.state.selection is not None else "selection"
            made = f"{advice.method} of the selected rows ({origin})"
            arguments = "".join(f", {name}={value!r}" for name, value in settings.items())

            def divided(one: Answer, _: State) -> edits.Edited:
                return edits.divide(one.labels, one.notes, rows, best.labels, made)

            text = (
                f"clustered {plural(len(chosen), 'row')} again: {plural(best.n_clusters, 'cluster')} by {advice.method}"
            )
            self._edit("refit", text, f"s.refit(apply=True{arguments})", divided, since, begun)
        return facts

    # ---- rows --------------------------------------------------------------------------------------------------------

    def select(
        self,
        *,
        rows: Sequence[int] | str | None = None,
        clusters: Sequence[int] | None = None,
        where: Sequence[Mapping[str, Any]] | None = None,
        mask: Bools | None = None,
        mode: str = "replace",
        origin: str = "",
    ) -> Self:
        """Select rows: by number, by cluster, or by values; `mode` determines what becomes of those selected before."""
        n, line = len(self.source), ""
        if mode not in _MODES:
            raise InvalidParameter(f"mode must be one of {', '.join(_MODES)}, got {mode!r:.60}.")
        criteria = [one is not None for one in (rows, clusters, where, mask)]
        if sum(criteria) > 1:
            raise InvalidParameter("select takes one of rows, clusters and where.")
        if clusters is not None:
            found, line = mask_of_clusters(self.labels, clusters), f"clusters={list(clusters)!r}"
            origin = origin or f"cluster {', '.join(map(str, clusters))}"
        elif where is not None:
            conditions = check_where(where)
            found, line = matching(self.source, conditions), f"where={list(conditions)!r}"
            origin = origin or "values of " + ", ".join(one["column"] for one in conditions)
        elif rows is not None or mask is not None:
            found = mask_of_rows(rows, n) if rows is not None else np.asarray(mask, dtype=bool)
            line, origin = f"rows={mask_to_text(found)!r}", origin or "rows by number"
        else:
            found, mode, origin = np.zeros(n, dtype=bool), "replace", ""
        python = f"s.select({line}{f', mode={mode!r}' if mode != 'replace' else ''}"
        python += f"{', ' if line and origin else ''}{f'origin={origin!r}' if line and origin else ''})"

        def change(state: State) -> State:
            before = np.zeros(n, dtype=bool) if state.selection is None else state.selection.mask
            chosen = _MODES[mode](before, found)
            chosen.setflags(write=False)
            sources = [state.selection.origin] if mode != "replace" and state.selection else []
            text = "; ".join(dict.fromkeys([*sources, origin]))
            return replace(state, selection=Selection(chosen, text[:400]) if chosen.any() else None)

        size = int(found.sum())
        return self._step(
            "select", f"{mode}: {plural(size, 'row')} ({origin})" if line else "select none", python, change
        )

    def filter(self, *, where: Sequence[Mapping[str, Any]] = (), hide: Sequence[int] = (), noise: bool = True) -> Self:
        """Show only rows that fulfil conditions, without some clusters or the noise; nothing is fitted again."""
        chosen = Filter(check_where(where), tuple(sorted(set(map(int, hide)))), bool(noise))
        matching(self.source, chosen.where)  # an unknown column is refused
        arguments = f"where={list(chosen.where)!r}, hide={list(chosen.hide)!r}, noise={chosen.noise!r}"
        return self._step("filter", "filter", f"s.filter({arguments})", lambda state: replace(state, filter=chosen))

    # ---- clusters ----------------------------------------------------------------------------------------------------

    def merge(self, clusters: Sequence[int], name: str | None = None) -> Self:
        """Join clusters; the smallest number stays."""
        chosen = edits.check_clusters(self.labels, clusters, 2)
        called = None if name is None else _name(name)
        python = f"s.merge({chosen!r}{'' if called is None else f', name={called!r}'})"
        return self._edit(
            "merge",
            f"merged clusters {', '.join(map(str, chosen))}",
            python,
            lambda one, _: edits.merge(one.labels, one.notes, chosen, called),
        )

    def split(self, cluster: int | None = None, into: int = 2, *, group: Group | None = None) -> Self:
        """Split a cluster by k-means, or make a cluster of a group of rows."""
        if group is not None:
            return self.move(group, edits.next_label(self.labels))
        if cluster is None:
            raise InvalidParameter("split needs a cluster or a group.")
        edits.check_clusters(self.labels, [cluster])
        since, rows = self.history, self.labels == cluster
        if not 2 <= into <= int(rows.sum()):
            raise InvalidParameter(f"into must be from 2 to the {int(rows.sum())} rows of the cluster, got {into}.")
        points = self.source.points[rows]
        model = KMeans(int(into), n_init=2, random_state=self.source.seed, n_jobs=self.source.n_jobs).fit(points)
        subclusters = model.labels_.astype(np.int64)
        origin = f"cluster {cluster} divided into {into} by k-means"
        return self._edit(
            "split",
            f"split cluster {cluster} into {into}",
            f"s.split({cluster}, {into})",
            lambda one, _: edits.divide(one.labels, one.notes, rows, subclusters, origin),
            since,
        )

    def move(self, group: Group, to: int) -> Self:
        """Give the rows of a group to a cluster, to the noise (−1), or to a new cluster, the next number."""
        rows = self.rows(group)
        selection = self.state.selection
        origin = selection.origin if group == "selection" and selection else f"rows of {group!r}"
        python = f"s.move({group!r}, {int(to)})"
        return self._edit(
            "move",
            f"moved {plural(int(rows.sum()), 'row')} to {to if to >= 0 else 'noise'}",
            python,
            lambda one, _: edits.move(one.labels, one.notes, rows, int(to), f"by hand: {origin}"),
        )

    def rename(self, cluster: int, name: str) -> Self:
        """Give a cluster a name."""
        edits.check_clusters(self.labels, [cluster])
        called = _name(name)

        def change(one: Answer, _: State) -> edits.Edited:
            note = one.notes.get(cluster, Note())
            return one.labels, {**one.notes, cluster: replace(note, name=called)}

        return self._edit("rename", f"cluster {cluster} is {called!r}", f"s.rename({cluster}, {called!r})", change)

    def _edit(
        self,
        do: str,
        text: str,
        python: str,
        change: Callable[[Answer, State], edits.Edited],
        since: History | None = None,
        begun: float | None = None,
    ) -> Self:
        def edited(state: State) -> State:
            if state.answer is None:
                raise BadData("nothing has been fitted yet.")
            return replace(state, answer=state.answer.noted(*change(state.answer, state)))

        return self._step(do, text, python, edited, begun=begun or time.perf_counter(), since=since)

    # ---- to take away ------------------------------------------------------------------------------------------------

    def _opened(self) -> str:
        """Return the line that opens the table; labels of others are to be at hand under their names."""
        names = [one.title for one in self.supplied.values() if one.origin == "given"]
        if not names:
            return self.source.opened
        return f"{_with_labels(self.source.opened)}  # labels: a mapping of {', '.join(map(repr, names))}"

    def script(self) -> str:
        """Return a Python script that comes to the same state, and checks it."""
        import knoll

        kept = self.history.steps[1 : self.history.position + 1]
        tried = f"{plural(self.attempts, 'setting')} {'was' if self.attempts == 1 else 'were'} tried in all."
        recommended = {one.id for one in self.supplied.values() if one.origin == "recommended"}
        shown = (step.do == "recommend" for step in kept if step.do == "recommend" or _shows(step, recommended))
        compared = [] if next(shown, True) else [self.compared]  # an answer of the comparison is shown before its step
        return "\n".join(
            [
                f'"""An exploration of a table, written by knoll {knoll.__version__}. {tried}"""',
                "",
                "from knoll.explorer import Session",
                "",
                f"s = {self._opened()}",
                *compared,
                *(step.python for step in kept),
                "",
                f'assert s.digest == "{self.digest}", "the table or knoll is another one"',
                "labels = s.labels",
                "",
            ]
        )

    def log(self) -> list[dict[str, Any]]:
        """Return every step, with its Python line."""
        return [
            {
                "step": at,
                "do": step.do,
                "text": step.text,
                "python": step.python,
                "seconds": step.seconds,
                "current": at == self.history.position,
            }
            for at, step in enumerate(self.history.steps)
        ]


def _with_labels(opened: str) -> str:
    """Return a line that opens a table, with labels beside its other arguments."""
    code, comment, more = opened.partition("  #")
    return f"{code.rstrip()[:-1]}, labels=labels){comment}{more}"


def _shows(step: Step, answers: set[str]) -> bool:
    """Whether a step shows one of some answers that no fit of the session made."""
    return any(step.python == f"s.show({one!r})" for one in answers)


def _grouped(found: Candidate) -> tuple[str, ...]:
    """Note it if components of a mixture are joined to clusters."""
    k, n = found.parameters.get("n_components"), found.n_clusters
    return (
        (f"{k} components make {plural(n, 'cluster')}: components that overlap are joined.",)
        if k not in (None, n)
        else ()
    )


def _name(name: Any) -> str:
    if not isinstance(name, str) or len(name) > _MOST_NAME:
        raise InvalidParameter(f"a name is a text of at most {_MOST_NAME} characters, got {name!r:.60}.")
    return name
