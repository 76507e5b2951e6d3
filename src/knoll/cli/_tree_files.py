"""The fit and the files of ``knoll tree``: the page, labels, a model, and a summary of it all."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from knoll import __version__
from knoll._typing import Floats
from knoll.cli._manifest import SUMMARY, manifest, sealed
from knoll.cli._output import LabelsFile
from knoll.cli._terminal import json_text
from knoll.density import DBSCAN, HDBSCAN, DensityTree
from knoll.exceptions import ModelFileError
from knoll.models import Preparation, save
from knoll.registry import title
from knoll.report.tree import tree_page

if TYPE_CHECKING:
    from knoll.tables import Table

_MIN_SAMPLES = 10
_LEAST_SHARE = 0.01  # of the rows are in the smallest cluster, if nothing else is requested


@dataclass(frozen=True)
class TreeFit:
    """A tree and the clusters taken from it."""

    tree: DensityTree
    model: Any  # HDBSCAN, the tree itself, or DBSCAN
    method: str
    parameters: dict[str, Any]
    min_cluster_size: float
    eps: float | None
    preparation: Preparation
    warnings: list[str]


def fit_tree(
    table: Table,
    *,
    scale: str,
    missing: str,
    min_samples: int | None,
    min_cluster_size: float | None,
    eps: float | None,
    k: int | None,
    leaves: bool,
    noise: str,
    n_jobs: int | None,
) -> TreeFit:
    """Scale the table, grow its tree, and take the clusters."""
    n = len(table.X)
    preparation = Preparation.fit(table.X, table.columns, scale=scale, missing=missing)
    points = preparation.apply(table.X)
    least = min_cluster_size or max(5, min(_MIN_SAMPLES, n // 10), math.ceil(_LEAST_SHARE * n))
    least = int(least) if float(least).is_integer() else least
    near = min_samples or int(min(_MIN_SAMPLES, least, n))
    parameters: dict[str, Any] = {"min_cluster_size": least, "min_samples": near, "noise": noise}
    if k is not None:
        parameters["n_clusters"] = k
    if leaves:
        parameters["cluster_selection_method"] = "leaf"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if eps is None:
            tree: DensityTree = HDBSCAN(**parameters, n_jobs=n_jobs).fit(points)
            model: Any = tree
        else:
            parameters = {"eps": eps, "min_samples": near, "noise": noise}
            tree = DensityTree(near, n_jobs=n_jobs).fit(points)
            model = DBSCAN(**parameters, n_jobs=n_jobs).fit(points)
    method = "hdbscan" if eps is None else "dbscan"
    notes = [str(each.message) for each in caught]
    if eps is None and model.labels_.max(initial=-1) < 0:
        notes.append(
            f"the tree has no two clusters of at least {least:g} rows. --k 1 takes all rows as one cluster; a smaller "
            "--min-cluster-size finds smaller ones."
        )
    return TreeFit(tree, model, method, parameters, least, eps, preparation, notes)


def write_tree(
    found: TreeFit,
    table: Table,
    folder: Path,
    *,
    command: str,
    cut_command: str,
    form: str,
    id_column: str | None,
    seed: int,
    seconds: float,
    step: Callable[[str], None],
) -> dict[str, Any]:
    """Write everything into the folder and return the summary."""
    begun = time.perf_counter()
    step("page")
    ids = table.rows if table.ids is None else table.ids
    page = tree_page(
        found.tree, table.X, found.model.labels_, name=Path(table.name).name, title=title(found.method),
        scaling=found.preparation, min_cluster_size=found.min_cluster_size, eps=found.eps,
        parameters=found.parameters, ids=ids, facts=table.notes, command=command, cut_command=cut_command, seed=seed,
        seconds=seconds,
    )  # fmt: skip
    (folder / "report.html").write_text(page, encoding="utf-8", errors="replace")
    step("labels")
    _write_labels(found, ids, id_column or "row", folder / f"labels.{form}")
    step("model")
    _write_model(found, folder / "models")
    summary: dict[str, Any] = {
        "knoll": __version__,
        "command": command,
        "data": {
            "name": table.name, "rows": len(table.X), "columns": list(table.columns), "left_out": table.left_out,
            "facts": list(table.notes),
        },
        "files": {
            "report": "report.html", "labels": f"labels.{form}",
            "models": {found.method: f"models/{found.method}.knoll"},
        },
        "scale": found.preparation.scale,
        "candidates": {found.method: _answer(found)},
        "curves": _curves(found),
        "seconds": seconds + time.perf_counter() - begun,
        "manifest": manifest(folder),
    }  # fmt: skip
    summary = sealed(summary)
    (folder / SUMMARY).write_text(json_text(summary, allow_nan=False) + "\n", encoding="utf-8")
    return summary


def _answer(found: TreeFit) -> dict[str, Any]:
    labels = found.model.labels_
    answer: dict[str, Any] = {
        "class": type(found.model).__name__,
        "parameters": found.parameters,
        "clusters": int(labels.max(initial=-1)) + 1,
        "sizes": np.bincount(labels[labels >= 0]).tolist(),
        "noise": int((labels < 0).sum()),
        "warnings": found.warnings,
    }
    if isinstance(found.model, HDBSCAN):
        answer["persistence"] = [float(value) for value in found.model.cluster_persistence_]
    return answer


def _curves(found: TreeFit) -> dict[str, Any]:
    """Return the widest ranges of ε with one number of clusters: the most that a table of numbers should hold."""
    curves = found.tree.curves(found.min_cluster_size)
    positive = curves.eps > 0
    eps, clusters = curves.eps[positive], curves.clusters[positive]
    if len(eps) < 2:
        return {"min_cluster_size": found.min_cluster_size, "ranges": []}
    starts = np.append(0, np.flatnonzero(np.diff(clusters)) + 1)
    ends: Floats = np.append(eps[starts[1:]], eps[-1])
    widest = np.argsort(-np.log(ends / eps[starts]), kind="stable")[:10]
    ranges = [
        {"from": float(eps[starts[i]]), "to": float(ends[i]), "clusters": int(clusters[starts[i]])} for i in widest
    ]
    return {"min_cluster_size": found.min_cluster_size, "ranges": ranges}


def _write_labels(found: TreeFit, ids: Any, id_name: str, path: Path) -> None:
    """Write for each row its id, its label, and what HDBSCAN has beside it."""
    columns: dict[str, Any] = {"label": found.model.labels_}
    if isinstance(found.model, HDBSCAN):
        columns |= {"probability": found.model.probabilities_, "outlier": found.model.outlier_scores_}
    while id_name in columns:
        id_name += "'"
    with path.open("wb") as file:
        labels = LabelsFile(file, path)
        labels.write(ids, id_name, columns)
        labels.close()


def _write_model(found: TreeFit, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    try:
        save(found.model, folder / f"{found.method}.knoll", preparation=found.preparation)
    except ModelFileError as error:
        if isinstance(error.__cause__, OSError):  # no space left: reported as for any other file
            raise error.__cause__ from error
        raise
