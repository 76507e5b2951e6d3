"""``knoll datasets``: the list, or one table as CSV."""

from __future__ import annotations

import contextlib
import csv
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from knoll.cli import _options
from knoll.cli._files import STANDARD, whole_file
from knoll.cli._output import check_new
from knoll.cli._terminal import echo

if TYPE_CHECKING:
    from knoll.datasets import Dataset


@click.command("datasets")
@click.argument("name", required=False)
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write the CSV to this file.")
@_options.force()
def command(name: str | None, out: Path | None, force: bool) -> None:
    """List the data sets, or export one as CSV.

    Without NAME: a line for each. With it: a header and one row per point; the last column, 'target', is the
    class, where the data set has classes. Numbers are written so that reading them gives the same doubles.

    \b
    Example:
      knoll datasets iris --out flowers.csv
    """
    from knoll import datasets

    if name is None:
        if out is not None:
            raise click.UsageError("--out needs the name of a data set.", click.get_current_context())
        for line in _listing([datasets.load(each) for each in datasets.names()]):
            echo(line)
        return
    data = datasets.load(name)
    if out is not None and str(out) != STANDARD:
        check_new(out, force)
    with whole_file(out) if out is not None else contextlib.nullcontext(sys.stdout) as file:
        write_csv(data, file)
    if out is not None and str(out) != STANDARD:
        echo(f"{out}: {len(data.X)} rows of {data.name}")


def _listing(tables: list[Dataset]) -> list[str]:
    width = max(len(data.name) for data in tables)
    lines = []
    for data in tables:
        n, d = data.X.shape
        lines.append(f"{data.name:{width}}  {n:5d} x {d:<3d} {_classes(data):10s}  {data.description}")
    return lines


def _classes(data: Dataset) -> str:
    return "no classes" if data.y is None else f"{len(data.target_names)} classes"


def write_csv(data: Dataset, file: IO[str]) -> None:
    """Write a data set, header first."""
    writer = csv.writer(file, lineterminator="\n")
    has_classes = data.y is not None
    writer.writerow([*data.feature_names, *(["target"] if has_classes else [])])
    classes = [[c] for c in data.y.tolist()] if data.y is not None else [[]] * len(data.X)
    writer.writerows([*row, *target] for row, target in zip(data.X.tolist(), classes))
