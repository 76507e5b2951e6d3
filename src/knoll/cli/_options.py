"""Options that several commands share, declared once, and the values of options that are more than a word."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

__all__ = [
    "as_json",
    "columns",
    "force",
    "header",
    "id_column",
    "jobs",
    "missing",
    "out_folder",
    "parse_columns",
    "parse_value",
    "quiet",
    "scale",
    "seed",
    "table_argument",
]

Decorator = Callable[[Any], Any]
_CONSTANTS = {"true": True, "false": False, "none": None, "null": None}


def _shared(*names: str, help: str, **settings: Any) -> Callable[..., Decorator]:
    """Return a maker of an option; a command may have its own help and settings."""

    def option(help: str = help, **own: Any) -> Decorator:
        return click.option(*names, help=help, **{**settings, **own})

    return option


columns = _shared("--columns", metavar="A,B,…", help="Use these columns, and no others; a name with a comma in quotes.")
header = _shared(
    "--header/--no-header",
    default=None,
    help="Whether the first line of a text file has the names of the columns. If not given, it has unless all of its "
    "cells are numbers.",
)
scale = _shared(
    "--scale",
    type=click.Choice(["auto", "standard", "robust", "common", "none"]),
    default="standard",
    show_default=True,
    help="Scale columns by mean and standard deviation, by median and quartiles, by one common factor, or not; auto is "
    "a common factor for up to three columns of similar standard deviations, else standard.",
)
missing = _shared(
    "--missing",
    type=click.Choice(["error", "drop", "median"]),
    show_default=True,
    help="What to do about missing values.",
)
id_column = _shared(
    "--id", "id_column", metavar="COLUMN", help="Column that identifies rows; the row number, from 0, if not given."
)
seed = _shared(
    "--seed", type=click.IntRange(0, 2**64 - 1), default=0, show_default=True, help="Random seed of samples and starts."
)
jobs = _shared("--jobs", type=int, help="Threads; every CPU if not given. The result is the same.")
out_folder = _shared("--out", type=click.Path(path_type=Path), show_default=True, metavar="DIR", help="Output folder.")
force = _shared("--force", is_flag=True, help="Replace files that exist.")
quiet = _shared("--quiet", is_flag=True, help="Print errors only.")
as_json = _shared("--json", "as_json", is_flag=True, help="Print the summary as JSON.")


def table_argument(*, required: bool = True) -> Decorator:
    """Return the argument DATA."""
    metavar = "DATA" if required else "[DATA]"
    return click.argument("data", type=click.Path(allow_dash=True), required=required, metavar=metavar)


def parse_columns(text: str | None) -> list[str] | None:
    """Parse names of columns with commas between them; a name that has a comma itself is quoted."""
    if text is None:
        return None
    from knoll.tables.dialect import SPACE

    names = [name.strip(SPACE) for name in next(csv.reader([text], skipinitialspace=True), [])]
    if not any(names):
        raise click.UsageError(
            "--columns is empty. Name some, such as --columns height,width, or leave it out for all."
        )
    return names


def parse_value(text: str) -> Any:
    """Parse a number, true, false, none or a list; anything else is text."""
    if text.lower() in _CONSTANTS:
        return _CONSTANTS[text.lower()]
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return float(text)  # as .5 and 1e-3 are written by people
    except ValueError:
        return text
