"""``knoll inspect``: what a model file contains, and whether it is whole."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from knoll._format import byte_size, listed, plural
from knoll.cli import _options
from knoll.cli._terminal import echo, json_text

if TYPE_CHECKING:
    from knoll.models import Info


@click.command("inspect")
@click.argument("model", type=click.Path(path_type=Path), metavar="MODEL")
@_options.quiet("Print nothing; exit 0 if the file is whole, 2 if it is not.")
@_options.as_json("Print it as JSON.")
def command(model: Path, quiet: bool, as_json: bool) -> None:
    """Show what a model file contains, and check that it is whole.

    Class, parameters, columns and scales, the sizes of its arrays, who wrote it, and the SHA-256 of its contents. The
    arrays are not loaded. The check sum finds damage; it does not show who wrote the file.

    \b
    Example:
      knoll inspect flowers.knoll
    """
    from knoll import models

    info = models.inspect(model)
    if quiet:
        return
    if as_json:
        click.echo(json_text(_plain(info)))
    else:
        _show(info)


def _plain(info: Info) -> dict[str, Any]:
    return {
        "path": info.path,
        "bytes": info.nbytes,
        "format": info.format,
        "knoll": info.knoll,
        "class": info.kind,
        "parameters": info.parameters,
        "fitted": info.fitted,
        "arrays": info.arrays,
        "preparation": None if info.preparation is None else info.preparation.plain(),
        "clusters": None if info.clusters is None else list(info.clusters),
        "sha256": info.digest,
    }


def _show(info: Info) -> None:
    from knoll.models._classes import find_class

    estimator = find_class(info.kind)
    assert estimator is not None  # the reader has refused other classes
    usual = estimator().get_params()
    own = [f"{name}={value!r}" for name, value in info.parameters.items() if name not in usual or usual[name] != value]
    lines = [
        f"{info.path}: {info.kind}, {byte_size(info.nbytes)}, format {info.format}, by knoll {info.knoll}",
        f"parameters  {', '.join(own) or 'all'}{'; the others' if own else ''} as by default",
    ]
    if info.preparation is not None:
        lines.append(f"columns     {listed(info.preparation.columns)}")
        lines.append(f"scale       {info.preparation.scale}; missing values: {info.preparation.missing}")
        lines += [f"            {note}" for note in info.preparation.notes()]
    if info.clusters is not None:
        found = plural(len(set(info.clusters)), "cluster")
        lines.append(f"clusters    {found} of {len(info.clusters)} labels: {listed([str(c) for c in info.clusters])}")
    for title, (name, value) in zip(["fitted", *[""] * len(info.fitted)], _flat(info.fitted)):
        lines.append(f"{title:11} {name} = {value}")
    lines.append(f"arrays      {len(info.arrays)}, {byte_size(sum(info.arrays.values()))}")
    lines.append(f"SHA-256     {info.digest} (verified)")
    for line in lines:
        echo(line)


def _flat(fitted: dict[str, Any]) -> list[tuple[str, str]]:
    """Return a line per attribute: the keys of a mapping, the beginning of a long text."""
    found = []
    for name, value in fitted.items():
        text = f"{', '.join(value)}" if isinstance(value, dict) else str(value)
        found.append((name, text if len(text) <= 80 else text[:79] + "…"))
    return found
