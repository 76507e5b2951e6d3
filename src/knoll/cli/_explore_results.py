"""A folder of results of ``knoll compare`` as the beginning of an exploration: its table, and its answers as given."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from knoll.cli import _options
from knoll.cli._explore_session import open_session
from knoll.cli._manifest import SUMMARY
from knoll.exceptions import BadData

if TYPE_CHECKING:
    from knoll.explorer import Session

_OPTIONS = (
    "columns",
    "reading",
    "types",
    "log",
    "ignore",
    "missing",
    "id_column",
    "truth",
    "scale",
    "metric",
    "seed",
    "jobs",
)


def is_results(path: Path) -> bool:
    """Whether this is a folder of results."""
    return path.is_dir() and (path / SUMMARY).is_file()


def open_results(folder: Path, out: Path | None) -> Session:
    """Read the table that the results are of, in the same way, and their labels."""
    from knoll.cli.compare import EMBEDDED

    try:
        summary = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
        arguments, labels, names = (
            shlex.split(summary["command"]),
            summary["files"]["labels"],
            list(summary["files"]["models"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        raise BadData(f"{folder / SUMMARY} is no summary of knoll compare.") from None
    options = _parsed(arguments)
    data = options.pop("data") or EMBEDDED
    session = open_session(data, out, {name: options[name] for name in _OPTIONS})
    found = _labels(folder / Path(labels).name, names)
    if any(len(column) != len(session.source) for column in found.values()):
        raise BadData(f"{data} has {len(session.source)} rows; the results in {folder} are of another table.")
    for name, column in found.items():
        session.give(name, column)
    recommended = summary.get("recommendation", {}).get("method")
    first = next((one for one in session.answers() if one.method == recommended), None)
    return session if first is None else session.show(first.id)


def _parsed(arguments: list[str]) -> dict[str, Any]:
    from knoll.cli.compare import command

    try:
        supplied = command.make_context("knoll compare", arguments[2:]).params
        return {"reading": _options.taken_reading(supplied), **supplied}
    except click.ClickException as error:
        raise BadData(f"the command of the results cannot be read: {error.format_message()}") from None


def _labels(path: Path, names: list[str]) -> dict[str, Any]:
    """Return the columns of labels, by the name of the answer."""
    import numpy as np

    if path.suffix == ".parquet":
        import pyarrow.parquet

        table = pyarrow.parquet.read_table(path, columns=names)
    elif path.suffix == ".csv":
        import pyarrow.csv

        table = pyarrow.csv.read_csv(path, convert_options=pyarrow.csv.ConvertOptions(include_columns=names))
    else:
        raise BadData(f"labels cannot be read from {path.name}. Run knoll compare with --format parquet.")
    return {name: np.asarray(table[name]) for name in names}
