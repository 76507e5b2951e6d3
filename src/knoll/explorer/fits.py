"""Fits of the scaled rows: by the plain estimators, kept by setting; a density tree serves every ε at once."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np

from knoll import _core, scales
from knoll._format import percent
from knoll._system import resolve_threads
from knoll._typing import Floats, Ints
from knoll.base import collect_warnings
from knoll.density.tree import DensityTree
from knoll.explorer.methods import checked, method_of, rows_for
from knoll.explorer.source import SAMPLE, Source
from knoll.explorer.state import Answer, answer_id, frozen
from knoll.neighbors import NearestRows
from knoll.registry import Method

__all__ = ["Fits"]

_KEPT_BYTES = 1 << 29  # of labels
_LEAST_KEPT = 8  # answers
_TREES = 2  # kept: of the last values of min_samples
_PREVIEW = 1.0  # seconds, as estimated, from which a preview comes first
Key = tuple[Any, ...]


class Fits:
    """The answers of a table by setting. A fit changes nothing but what is kept here."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.settings_tried: set[Key] = set()
        self._answers: OrderedDict[Key, Answer] = OrderedDict()
        self._trees: OrderedDict[int, DensityTree] = OrderedDict()
        self._means: tuple[Ints, Ints, Floats] | None = None
        self._lock = Lock()

    # ---- answers ---------------------------------------------------------------------------------------------------

    def settings(self, method: Any, parameters: Any) -> tuple[Method, dict[str, Any]]:
        """Return the method and all its parameters; a scale that is not set is estimated."""
        found = method_of(method)
        values = checked(found, parameters)
        if found.name == "dbscan" and parameters.get("eps") is None:
            values["eps"] = self.suggested_eps(int(values["min_samples"]))
        return found, values

    def answer(self, method: Method, values: Mapping[str, Any], preview: bool) -> Iterator[tuple[str, Answer]]:
        """Yield ("preview", answer) if a fit takes long, then ("result", answer)."""
        key = (method.name, *sorted(values.items(), key=lambda item: item[0]))
        with self._lock:
            known = self._answers.get(key)
            if known is not None:
                self._answers.move_to_end(key)
        if known is None:
            n, d = self.source.points.shape
            rows = rows_for(method, n, d)
            if preview and n > SAMPLE and method.seconds(rows, d) > _PREVIEW:
                yield "preview", self._fitted(method, values, SAMPLE)
            known = self._of_tree(method, values) if rows == n else None
            known = known or self._fitted(method, values, rows)
            self._keep(key, known)
        yield "result", known

    def _keep(self, key: Key, answer: Answer) -> None:
        most = max(_LEAST_KEPT, _KEPT_BYTES // max(1, answer.labels.nbytes))
        with self._lock:
            self.settings_tried.add(key)
            self._answers[key] = answer
            while len(self._answers) > most:
                self._answers.popitem(last=False)

    def all(self) -> list[Answer]:
        """Return the answers that are kept, the oldest first."""
        with self._lock:
            return list(self._answers.values())

    def estimator(self, method: Method, values: Mapping[str, Any]) -> Any:
        """Return the plain estimator of a setting."""
        made = method.estimator_class()(**values)
        known = made.get_params()
        if method.mixed:
            assert self.source.mixed is not None
            mixed = self.source.mixed
            made.set_params(categorical_features=list(range(mixed.n_numeric, mixed.values.shape[1])))
        if "random_state" in known:
            made.set_params(random_state=self.source.seed)
        return made.set_params(n_jobs=self.source.n_jobs) if "n_jobs" in known else made

    def rows_of(self, method: Method) -> Floats:
        """Return the rows that a method takes: scaled numbers, or typed rows."""
        if not method.mixed:
            return self.source.points
        assert self.source.mixed is not None
        return self.source.mixed.values

    def _fitted(self, method: Method, values: Mapping[str, Any], rows: int) -> Answer:
        points, begun = self.rows_of(method), time.perf_counter()
        n = len(points)
        model, how = self.estimator(method, values), "all rows"
        with collect_warnings() as warned:
            if rows >= n:
                labels = model.fit(points).labels_
            else:
                chosen = self.source.sample(rows)
                how = f"sample of {rows} ({percent(rows / n)} of the rows), the others by predict"
                labels, model = _predicted(model.fit(points[chosen]), points, chosen, self.source.n_jobs)
        return self._made(method, values, labels, how, time.perf_counter() - begun, tuple(map(str, warned)), model)

    def _made(
        self,
        method: Method,
        values: Mapping[str, Any],
        labels: Ints,
        how: str,
        seconds: float,
        warned: tuple[str, ...],
        model: Any,
    ) -> Answer:
        labels = frozen(labels)
        rows = "rows" if method.mixed else "points"
        line = f"{method.estimator_name}({_arguments(self.estimator(method, values))}).fit({rows}).labels_"
        return Answer(
            answer_id(method.name, values, labels),
            method.name,
            method.title,
            dict(values),
            labels,
            how=how,
            seconds=seconds,
            warnings=warned,
            python=line,
            model=model,
        )

    # ---- the density tree ------------------------------------------------------------------------------------------

    def tree(self, min_samples: int, grow: bool = True) -> DensityTree | None:
        """Return the density tree of `min_samples`, which is kept; None if there is none and it must not be grown."""
        with self._lock:
            found = self._trees.get(min_samples)
        if found is None and grow:
            found = DensityTree(min_samples=min_samples, n_jobs=self.source.n_jobs).fit(self.source.points)
            with self._lock:
                self._trees[min_samples] = found
                while len(self._trees) > _TREES:
                    self._trees.popitem(last=False)
        return found

    def suggested_eps(self, min_samples: int) -> float:
        """Return the knee of the sorted distances."""
        found = float(scales.estimate_eps(self.source.points, min_samples, n_jobs=self.source.n_jobs))
        return found if found > 0 else 1.0

    def _of_tree(self, method: Method, values: Mapping[str, Any]) -> Answer | None:
        """Return an answer of DBSCAN from the tree, if there is one; its labels are those of the estimator."""
        plain = values.get("metric") == "euclidean" and values.get("noise") == "keep"
        if method.name != "dbscan" or not plain or values["border"] == "first":
            return None
        tree = self.tree(int(values["min_samples"]), grow=False)
        if tree is None:
            return None
        begun = time.perf_counter()
        labels = tree.cut(float(values["eps"]), border=values["border"])
        return self._made(method, values, labels, "all rows", time.perf_counter() - begun, (), None)

    # ---- of one row ------------------------------------------------------------------------------------------------

    @cached_property
    def _index(self) -> Any:
        threads = resolve_threads(self.source.n_jobs)
        return _core.Index(self.source.points, 0.0, "euclidean", 2.0, "auto", threads)

    def nearest(self, row: int, count: int) -> tuple[Ints, Floats]:
        """Return the rows that are nearest to a row in all columns, without itself, and their distances."""
        points = self.source.points
        k = min(count + 1, len(points))
        distances, near = np.empty((1, k)), np.empty((1, k), dtype=np.int64)
        self._index.knn(points[row : row + 1], k, distances, near, 1)
        other = near[0] != row
        return near[0][other][:count], distances[0][other][:count]

    def within(self, row: int, eps: float) -> int:
        """Count the rows within ε of a row, itself included."""
        out = np.empty(1)
        self._index.count(self.source.points[row : row + 1], eps, np.inf, None, out, 1)
        return int(out[0])

    def means(self, labels: Ints) -> tuple[Ints, Floats]:
        """Return the clusters of some labels and their means, which are kept for the last labels."""
        kept = self._means
        if kept is None or kept[0] is not labels:
            there, points = labels >= 0, self.source.points
            found, at = np.unique(labels[there], return_inverse=True)
            sums = np.array([np.bincount(at, points[there, j], len(found)) for j in range(points.shape[1])]).T
            kept = (labels, found, sums / np.maximum(1, np.bincount(at, minlength=len(found)))[:, None])
            self._means = kept
        return kept[1], kept[2]

    def model_of(self, answer: Answer) -> Any:
        """Return the fitted estimator of an answer, fitted anew where the tree has answered."""
        if answer.model is not None:
            return answer.model
        method = method_of(answer.method)
        return self.estimator(method, answer.parameters).fit(self.rows_of(method))


def _predicted(model: Any, points: Floats, chosen: Ints, n_jobs: int | None) -> tuple[Ints, Any]:
    """Label all rows by a model of some; one that cannot predict gives every row the label of the nearest one."""
    if not hasattr(model, "predict"):
        model = NearestRows(n_jobs=n_jobs).fit(points[chosen], model.labels_)
    return np.asarray(model.predict(points)), model


def _arguments(estimator: Any) -> str:
    """Return the arguments that are not left to their defaults."""
    usual = type(estimator)().get_params()
    changed = {name: value for name, value in estimator.get_params().items() if value != usual[name]}
    return ", ".join(f"{name}={value!r}" for name, value in changed.items())
