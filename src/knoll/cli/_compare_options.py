"""The options of ``knoll compare``: lists, ranges and settings become values, and the values a command again."""

from __future__ import annotations

import csv
import re
import shlex
from typing import Any

import click
from click.core import ParameterSource

from knoll.cli._options import parse_value
from knoll.registry import compared, find

ALTERNATIVES = ("alternative-1", "alternative-2")  # names of the files and columns of the next best answers
_SILENT = ("quiet", "as_json", "force")  # options that change nothing in the results


def parse_methods(text: str | None) -> list[str] | None:
    """Parse names of methods, gmm among them; None is all."""
    if text is None:
        return None
    known = compared(mixed=True)
    names = [_full_name(name.strip()) for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise click.UsageError(f"--methods: unknown method '{name}'. Choose from: {', '.join(known)}.")
    if not names:
        raise click.UsageError(f"--methods is empty. Choose from: {', '.join(known)}.")
    return names


def _full_name(name: str) -> str:
    """Return the name of a method that may be called by its short name."""
    found = find(name)
    return name if found is None else found.name


def parse_numbers(text: str | None) -> list[int] | None:
    """Parse 1..15, 3, or 2,4,8."""
    if text is None:
        return None
    numbers: set[int] = set()
    for item in text.split(","):
        found = re.fullmatch(r"\s*(\d{1,6})\s*(?:(?:\.\.|-)\s*(\d{1,6})\s*)?", item)
        if found is None:
            raise click.UsageError(f"--k takes a range such as 2..15, or numbers such as 2,4,8, got '{text}'.")
        first, last = int(found[1]), int(found[2] or found[1])
        if last < first:
            raise click.UsageError(f"--k: the range '{item.strip()}' ends before it begins. Write {last}..{first}.")
        numbers |= set(range(first, last + 1))
    if min(numbers) < 1 or max(numbers) < 2:
        raise click.UsageError(f"--k must be >= 1 and include a number >= 2, got '{text}'. For example 2..15.")
    if len(numbers) > 100:
        raise click.UsageError(f"--k asks for {len(numbers)} numbers of clusters; at most 100 are tried.")
    return sorted(numbers)


def parse_names(text: str | None) -> dict[int, str]:
    """Parse 0=Regulars,1=Rare; a name with a comma is quoted, as in a CSV."""
    names: dict[int, str] = {}
    for item in next(csv.reader([text], skipinitialspace=True)) if text else ():
        label, equals, name = (piece.strip() for piece in item.partition("="))
        if not (equals and name and re.fullmatch(r"-?\d{1,9}", label)):
            raise click.UsageError(f"--names takes NUMBER=NAME, such as 0=Regulars,1=Rare, got '{item}'.")
        if int(label) in names:
            raise click.UsageError(f"--names: cluster {label} has two names.")
        names[int(label)] = name
    return names


def parse_settings(settings: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Parse METHOD.NAME=VALUE; the comparison knows which there are."""
    parameters: dict[str, dict[str, Any]] = {}
    for setting in settings:
        key, equals, text = (piece.strip() for piece in setting.partition("="))
        method, dot, name = key.partition(".")
        if not (equals and dot and method and name and text):
            raise click.UsageError(f"--set takes METHOD.NAME=VALUE, such as dbscan.eps=0.3, got '{setting}'.")
        parameters.setdefault(_full_name(method), {})[name] = parse_value(text)
    return parameters


def command_line(context: click.Context, command: str = "compare", without: tuple[str, ...] = ()) -> str:
    """Return the command that does the same again, with what was not left to its default, and the seed.

    Options named in `without` are left out.
    """
    arguments = ["knoll", command]
    if context.params["data"] is not None:
        arguments.append(context.params["data"])
    for option in context.command.params:
        name = option.name or ""
        if not isinstance(option, click.Option) or name in (*_SILENT, *without):
            continue
        if context.get_parameter_source(name) == ParameterSource.DEFAULT and name != "seed":
            continue
        value = context.params[name]
        for one in value if option.multiple else (value,):
            if option.is_flag:
                arguments.append((option.opts if one else option.secondary_opts)[0])
            else:
                arguments += [option.opts[0], str(one)]
    return shlex.join(arguments)
