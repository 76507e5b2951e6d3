"""Options that several commands share, declared once, and the values of options that have a syntax."""

from __future__ import annotations

import csv
import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from knoll.tables import Reading, Rules

Decorator = Callable[[Any], Any]
_CONSTANTS = {"true": True, "false": False, "none": None, "null": None}


def _shared(*names: str, help: str, **settings: Any) -> Callable[..., Decorator]:
    """Return a maker of an option; a command may have its own help and settings."""

    def option(help: str = help, **own: Any) -> Decorator:
        return click.option(*names, help=help, **{**settings, **own})

    return option


columns = _shared("--columns", metavar="A,B,…", help="Use these columns, and no others; a name with a comma in quotes.")
_header = _shared(
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
metric = _shared(
    "--metric",
    type=click.Choice(["euclidean", "cosine"]),
    help="Compare rows by distance or, as texts, by direction; if not given, by direction where rows have length 1.",
)
missing = _shared(
    "--missing",
    type=click.Choice(["error", "drop", "median"]),
    show_default=True,
    help="What to do about missing values.",
)
types = _shared(
    "--types",
    multiple=True,
    metavar="COLUMN=TYPE,…",
    help="Types of columns that are not to be guessed: number, category, boolean, date, date:FORMAT (such as "
    "date:%d/%m/%Y), time, latitude, longitude, ignore; repeatable.",
)
log = _shared(
    "--log",
    metavar="COLUMN,…|auto",
    help="Take the logarithm of these columns; auto takes that of skewed columns which are not skewed afterwards.",
)
ignore = _shared("--ignore", metavar="A,B,…", help="Leave these columns out.")
missing_rule = _shared(
    "--missing",
    type=click.Choice(["model", "median", "drop", "error"]),
    show_default=True,
    help="What to do about missing values: leave them to methods that model them (others take means; knoll fit, "
    "medians), fill in the median or the most frequent category, leave out such rows, or stop.",
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
labels_format = _shared(
    "--format",
    "form",
    type=click.Choice(["parquet", "csv"]),
    default="parquet",
    show_default=True,
    help="Format of the file of labels.",
)
_POINTS = {
    "type": click.Choice(["parquet", "csv", "geojson"]),
    "help": "Format of the file of labels; geojson, for a table with latitude and longitude, is points with cluster "
    "and name.",
}
quiet = _shared("--quiet", is_flag=True, help="Print errors only.")
as_json = _shared("--json", "as_json", is_flag=True, help="Print the summary as JSON.")


def results(folder: str, *, positions: bool = False) -> Decorator:
    """Return the options of a command that writes labels, models and a report to a folder; perhaps points on a map."""
    options = (
        out_folder("Write the results to this folder; it is made if it does not exist.", default=Path(folder)),
        force("Replace results of an earlier run; files that knoll did not write are never replaced."),
        labels_format(**(_POINTS if positions else {})),
        quiet(),
        as_json(),
    )
    return lambda command: functools.reduce(lambda made, option: option(made), reversed(options), command)


_READING = (_header(),)  # one for each field of `Reading`


def reading() -> Decorator:
    """Return the options that say how a file is read; the command has them as one argument, `reading`."""

    def decorated(command: Callable[..., Any]) -> Any:
        @functools.wraps(command)
        def with_reading(*args: Any, **values: Any) -> Any:
            return command(*args, reading=taken_reading(values), **values)

        return functools.reduce(lambda made, option: option(made), reversed(_READING), with_reading)

    return decorated


def taken_reading(values: dict[str, Any]) -> Reading:
    """Remove the options of `reading` from the values of all options of a command, and return them."""
    from knoll.tables.reading import Reading  # not for --help: it loads NumPy

    return Reading.taken_from(values)


def table_argument(*, required: bool = True) -> Decorator:
    """Return the argument DATA."""
    metavar = "DATA" if required else "[DATA]"
    return click.argument("data", type=click.Path(allow_dash=True), required=required, metavar=metavar)


def parse_columns(text: str | None, option: str = "--columns") -> list[str] | None:
    """Parse names of columns with commas between them; a name that has a comma itself is quoted."""
    if text is None:
        return None
    names = _split(text)
    if not any(names):
        raise click.UsageError(
            f"{option} is empty. Name some, such as {option} height,width, or leave it out"
            + (" for all." if option == "--columns" else ".")
        )
    return names


def _split(text: str) -> list[str]:
    from knoll.tables.dialect import SPACE

    return [name.strip(SPACE) for name in next(csv.reader([text], skipinitialspace=True), [])]


def parse_rules(types: tuple[str, ...], log: str | None, ignore: str | None, usual_log: str = "none") -> Rules:
    """Parse what is decided about columns by --types, --log and --ignore; `usual_log` is the rule without --log."""
    from knoll.tables import Rules

    chosen: dict[str, str] = {}
    for pair in (pair for text in types for pair in _split(text)):
        name, equals, value = pair.rpartition("=")
        if not equals or not name.strip():
            raise click.UsageError(f"--types takes COLUMN=TYPE, such as --types city=category, got '{pair}'.")
        chosen[name.strip()] = value.strip()
    log = log or usual_log
    logs = () if log == "none" else log if log in ("auto", "mixed") else parse_columns(log, "--log") or ()
    return Rules(chosen, logs, parse_columns(ignore, "--ignore") or ())


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
