"""The files of ``knoll compare``: the report, labels, models, and a summary of it all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from knoll import __version__
from knoll._typing import Ints
from knoll.cli._manifest import SUMMARY, manifest, sealed
from knoll.cli._output import LabelsFile
from knoll.cli._terminal import json_text
from knoll.comparison import Comparison
from knoll.exceptions import InvalidParameter, ModelFileError
from knoll.explanation import Explanation
from knoll.explanation.engine import names_of
from knoll.models import save
from knoll.models._relabeled import n_labels
from knoll.report.comparison import comparison_page
from knoll.tables.geojson import degrees_of
from knoll.tables.missing import FALLBACK

if TYPE_CHECKING:
    from knoll.tables import Table

STEPS = ("explanation", "pictures", "clusters", "relations", "page", "labels", "models")
_RELATIONS = 0.05  # of the budget goes to the report's certificates,
_MOST_SECONDS = 6.0  # and no more than this
_REFITS = 0.25  # of the budget, at most, goes to refits of the recommended model
_RESAMPLES = 10  # refits, for the stability of each cluster


def write_results(
    found: Comparison,
    *,
    table: Table,
    folder: Path,
    command: str,
    form: str,
    missing: str,
    id_column: str | None,
    names: Mapping[int, str],
    step: Callable[[str], None],
    hurried: bool = False,
) -> tuple[dict[str, Any], Explanation]:
    """Write everything into the folder and return the summary and the explanation of the recommended clusters.

    With `hurried`, after a Ctrl-C, without certificates and refits.
    """
    step("explanation")
    explanation = found.explain(
        names=names, ids=table.rows if table.ids is None else table.ids, resamples=0 if hurried else _RESAMPLES,
        seconds=_REFITS * found.budget,
    )  # fmt: skip
    page = comparison_page(
        found, table.X, name=Path(table.name).name, ids=table.rows if table.ids is None else table.ids,
        truth=table.truth, facts=table.notes, used=table.used, command=command, done=step, explanation=explanation,
        seconds=0.0 if hurried else min(_MOST_SECONDS, _RELATIONS * found.budget),
    )  # fmt: skip
    (folder / "report.html").write_text(page, encoding="utf-8", errors="replace")
    step("labels")
    called = explanation.names if form == "geojson" else None
    _write_labels(found, table, id_column or "row", folder / f"labels.{form}", called)
    step("models")
    _write_models(found, missing, folder / "models")
    summary: dict[str, Any] = {
        "knoll": __version__,
        "command": command,
        "data": {
            "name": table.name, "rows": len(table.X), "columns": list(table.columns), "left_out": table.left_out,
            "types": [] if table.schema is None else table.schema.plain(), "facts": list(table.notes),
        },
        "files": {
            "report": "report.html", "labels": f"labels.{form}",
            "models": {name: f"models/{name}.knoll" for name in found.answers()},
        },
        **found.summary(),
        "explanation": explanation.to_dict(),
        "manifest": manifest(folder),
    }  # fmt: skip
    summary = sealed(summary)
    _write_summary(summary, folder / SUMMARY)
    return summary, explanation


def check_names(names: Mapping[int, str], labels: Ints) -> None:
    """Refuse names of clusters that there are not."""
    try:
        names_of(names, labels)
    except InvalidParameter as error:
        raise click.UsageError(f"--{error}") from None


def _write_summary(summary: dict[str, Any], path: Path) -> None:
    """Write it as strict JSON, without NaN."""
    path.write_text(json_text(summary, allow_nan=False) + "\n", encoding="utf-8")


def _write_labels(
    found: Comparison, table: Table, id_name: str, path: Path, names: Mapping[int, str] | None = None
) -> None:
    """Write for each row its id, its label by every answer, and the probabilities of the mixture.

    With `names` first the recommended cluster and its name.
    """
    columns: dict[str, Any] = {}
    if names is not None:
        columns = {"cluster": found.labels, "name": [names[int(label)] for label in found.labels]}
    columns |= {name: candidate.labels for name, candidate in found.answers().items()}
    for name, candidate in found.candidates.items():
        if candidate.probabilities is not None:
            count = n_labels(candidate.model)
            columns |= {
                f"{name}-p{c if c < count else '-noise'}": share for c, share in enumerate(candidate.probabilities.T)
            }
    while id_name in columns:
        id_name += "'"
    with path.open("wb") as file:
        labels = LabelsFile(file, path)
        labels.write(table.rows if table.ids is None else table.ids, id_name, columns, degrees_of(table))
        labels.close()


def _write_models(found: Comparison, missing: str, folder: Path) -> None:
    """Write a file per answer; each stores columns and scales, so that knoll predict does the same to new rows."""
    rule = found.scaling.missing if found.scaling.missing == "model" else FALLBACK if missing == "model" else missing
    folder.mkdir(exist_ok=True)
    for name, candidate in found.answers().items():
        try:
            made = replace(found.preparation(candidate), missing=rule)
            save(candidate.model, folder / f"{name}.knoll", preparation=made)
        except ModelFileError as error:
            if isinstance(error.__cause__, OSError):  # no space left: reported as for any other file
                raise error.__cause__ from error
            raise
