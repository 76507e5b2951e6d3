"""``knoll relate``: the relations between the algorithms, certified on a person's own data."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from knoll.cli._files import STANDARD, whole_file
from knoll.cli._output import header_option, read_columns, refuse_existing
from knoll.cli._terminal import echo, on_terminal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from knoll.relations import Certificate, Relation

__all__ = ["command"]


def _positive(_: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """Refuse a scale that is none, before any relation takes it for a property of the data."""
    if value is not None and not 0 < value < math.inf:
        raise click.BadParameter(f"must be > 0 and finite, got {value:g}.", param=parameter)
    return value


@click.command("relate")
@click.argument("data", type=click.Path(allow_dash=True), required=False, metavar="[DATA]")
@click.option("--columns", metavar="A,B,…", help="Use these columns, and no others.")
@header_option
@click.option("--missing", type=click.Choice(["error", "drop", "median"]), default="error", show_default=True,
              help="What to do about missing values.")  # fmt: skip
@click.option("--only", metavar="NAME,…", help="These relations alone; --list names them.")
@click.option("--clusters", type=click.IntRange(1), help="k where a relation needs one; each has its own default.")
@click.option("--eps", type=float, callback=_positive, help="ε; from the k-distance curve if not given.")
@click.option("--min-samples", type=click.IntRange(1), help="minPts; 2·columns if not given.")
@click.option("--bandwidth", type=float, callback=_positive, help="Mean Shift's radius; from the data if not given.")
@click.option(
    "--sigma", type=float, callback=_positive, help="Width of the Gaussian kernel; from the data if not given."
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**64 - 1),
    default=0,
    show_default=True,
    help="Random seed of the starts.",
)
@click.option("--details", is_flag=True, help="Show every certificate in full.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), metavar="FILE",
              help="Write the certificates here; - is standard output.")  # fmt: skip
@click.option("--force", is_flag=True, help="Replace a FILE of --json that is there already.")
@click.option("--quiet", is_flag=True, help="Print errors only; exit 1 if a relation fails.")
@click.option("--list", "list_only", is_flag=True, help="List the relations and what they say.")
def command(
    data: str | None,
    columns: str | None,
    header: bool | None,
    missing: str,
    only: str | None,
    json_file: Path | None,
    force: bool,
    details: bool,
    list_only: bool,
    quiet: bool,
    clusters: int | None,
    seed: int,
    **scales: Any,
) -> None:
    """Certify the relations between the algorithms on your data.

    DATA is a file (CSV, TSV, Parquet, Feather, NPY, NPZ, also .gz and .zst), "-" for standard input, or the name of a
    built-in data set; without it the paper's x1500 is taken. A relation that is measured by a dense computation takes
    evenly spaced rows where there are more than it can.

    \b
    Example:
      knoll relate flowers.csv --only gaussian-is-mixture-of-one,kernel-trick --details
    """
    from knoll import relations

    chosen = (
        relations.all()
        if only is None
        else tuple(relations.get(name.strip()) for name in dict.fromkeys(only.split(",")))
    )
    if list_only:
        for relation in chosen:
            echo(f"{relation.name}: {relation.source} → {relation.target}")
            echo(f"    {relation.statement}")
        return
    if json_file is not None and str(json_file) != STANDARD:
        refuse_existing(json_file, force=force, inputs=[] if data is None else [data])
    X, name, note = _points(data, columns, header, missing)
    beside = str(json_file) == STANDARD  # standard output has something else to carry
    say: Callable[[str], object] = str if quiet else partial(echo, err=beside)
    say(f"{name}: {X.shape[0]} rows, {X.shape[1]} columns{'; ' + note if note else ''}")
    given = {**scales, "n_clusters": clusters, "n_components": clusters, "random_state": seed}
    given = {parameter: value for parameter, value in given.items() if value is not None}
    certificates = []
    for number, relation in enumerate(chosen, 1):
        if on_terminal(sys.stderr):
            click.echo(f"\r\033[K{number}/{len(chosen)} {relation.name}", err=True, nl=False)
        certificates.append(_certify(relation, X, given))
    if on_terminal(sys.stderr):
        click.echo("\r\033[K", err=True, nl=False)
    if details:
        for certificate in certificates:
            say("")
            for line in str(certificate).splitlines():
                say(line)
    else:
        _show(certificates, say)
    if json_file is not None:
        text = json.dumps([_plain(c) for c in certificates], indent=1, ensure_ascii=False, allow_nan=False)
        with whole_file(json_file, option="--json") as file:
            file.write(text + "\n")
        say(f"{json_file}: {len(certificates)} certificates")
    if any(certificate.verdict == "fails" for certificate in certificates):
        raise click.exceptions.Exit(1)


def _points(
    data: str | None, columns: str | None, header: bool | None, missing: str
) -> tuple[NDArray[np.float64], str, str]:
    from knoll import datasets

    wanted = read_columns(columns)
    if data is None or (data in datasets.names() and not Path(data).exists()):
        table = datasets.load(data or "x1500")
        if wanted is None:
            return table.X, table.name, ""
        unknown = [column for column in wanted if column not in table.feature_names]
        if unknown:
            raise click.UsageError(
                f"{table.name} has no column '{unknown[0]}'. It has: {', '.join(table.feature_names)}."
            )
        return table.X[:, [list(table.feature_names).index(column) for column in wanted]], table.name, ""
    from knoll.tables.columns import complete, read_table

    read, note = complete(read_table(data, columns=wanted, header=header), missing)
    out = ", ".join(f"{column} ({reason})" for column, reason in read.left_out.items() if reason != "not asked for")
    return read.X, read.name, "; ".join(text for text in (*read.notes, f"left out: {out}" if out else "", note) if text)


def _certify(relation: Relation, X: NDArray[np.float64], given: dict[str, Any]) -> Certificate:
    """Certify on as many rows as the relation takes; what it cannot take is a verdict too."""
    from dataclasses import replace

    import numpy as np

    from knoll.exceptions import KnollError
    from knoll.relations import Certificate, Precondition

    rows = X
    notes: tuple[str, ...] = ()
    if relation.most_rows is not None and len(X) > relation.most_rows:
        rows = X[np.linspace(0, len(X) - 1, relation.most_rows).astype(np.int64)]
        notes = (f"measured on {len(rows)} evenly spaced rows of {len(X)}",)
    try:
        found = relation.certify(rows, **{name: value for name, value in given.items() if name in relation.parameters})
    except KnollError as error:
        return Certificate(
            relation.name,
            relation.statement,
            checks=(),
            preconditions=(Precondition("the data fits", False, str(error)),),
        )
    return replace(found, notes=(*found.notes, *notes))


def _show(certificates: list[Certificate], say: Callable[[str], object]) -> None:
    """One line a relation: verdict, the number that comes closest to its limit, seconds."""
    width = max(len(certificate.relation) for certificate in certificates)
    for certificate in certificates:
        if certificate.verdict == "does not apply":
            reason = next(condition for condition in certificate.preconditions if not condition.holds)
            told = f"{reason.what}: no{', ' + reason.detail if reason.detail else ''}"
        else:
            told = str(certificate.tightest)
        mark = {"holds": "✓", "fails": "✗", "does not apply": "–"}[certificate.verdict]
        say(f"{mark} {certificate.relation:{width}}  {certificate.seconds:6.2f} s  {told}")
        for note in certificate.notes:
            say(f"  {'':{width}}            {note}")
    count = sum(certificate.holds for certificate in certificates)
    out = sum(not certificate.applies for certificate in certificates)
    say(f"{count} of {len(certificates)} hold{f', {out} do not apply' if out else ''}. --details shows all numbers.")


def _plain(certificate: Certificate) -> dict[str, Any]:
    plain = {
        "relation": certificate.relation,
        "statement": certificate.statement,
        "verdict": certificate.verdict,
        "checks": [
            {"what": c.what, "value": c.value, "limit": c.limit, "at_least": c.at_least, "holds": c.holds}
            for c in certificate.checks
        ],
        "preconditions": [{"what": p.what, "holds": p.holds, "detail": p.detail} for p in certificate.preconditions],
        "numbers": dict(certificate.numbers),
        "notes": list(certificate.notes),
        "seconds": certificate.seconds,
    }
    return cast(dict[str, Any], _in_json(plain))


def _in_json(value: Any) -> Any:
    """Turn what JSON has no word for into what it has: not a number and infinite into null."""
    if isinstance(value, dict):
        return {name: _in_json(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_in_json(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
