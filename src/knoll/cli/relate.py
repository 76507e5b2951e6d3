"""``knoll relate``: the relations between the algorithms, certified on a table."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from knoll._format import plural
from knoll.cli import _options
from knoll.cli._files import STANDARD, whole_file
from knoll.cli._output import check_outputs
from knoll.cli._progress import counting
from knoll.cli._terminal import echo

if TYPE_CHECKING:
    from knoll._typing import Floats
    from knoll.relations import Certificate, Relation
    from knoll.tables import Reading

EMBEDDED = "x1500"


def _positive(_: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """Refuse a scale that is not positive, before any relation takes it for a property of the data."""
    if value is not None and not 0 < value < math.inf:
        raise click.BadParameter(f"must be > 0 and finite, got {value:g}.", param=parameter)
    return value


@click.command("relate")
@_options.table_argument(required=False)
@_options.columns()
@_options.reading()
@_options.missing(default="error")
@click.option("--only", metavar="NAME,…", help="Only these relations; see --list.")
@click.option("--clusters", type=click.IntRange(1), help="k where a relation needs one; each has its own default.")
@click.option("--eps", type=float, callback=_positive, help="ε; from the k-distance curve if not given.")
@click.option("--min-samples", type=click.IntRange(1), help="minPts; 2·columns if not given.")
@click.option("--bandwidth", type=float, callback=_positive, help="Mean Shift's radius; from the data if not given.")
@click.option(
    "--sigma", type=float, callback=_positive, help="Width of the Gaussian kernel; from the data if not given."
)
@_options.seed("Random seed of the starts.")
@click.option("--details", is_flag=True, help="Show every certificate in full.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), metavar="FILE",
              help="Write the certificates to this file; - is standard output.")  # fmt: skip
@_options.force("Replace the FILE of --json if it exists.")
@_options.quiet("Print errors only; exit 1 if a relation fails.")
@click.option("--list", "list_only", is_flag=True, help="List the relations and what they state.")
def command(
    data: str | None,
    columns: str | None,
    reading: Reading,
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

    DATA is a file (CSV, TSV, JSON lines, Excel, Parquet, Feather, NPY, NPZ, Matrix Market, AnnData; text also .gz and
    .zst), "-" for standard input, or the name of a
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
    check_outputs(json_file, force=force, inputs=[] if data is None else [data])
    from knoll.cli._data import read_data, shape

    table = read_data(data or EMBEDDED, columns, reading, missing)
    beside = str(json_file) == STANDARD  # standard output has something else to carry
    show: Callable[[str], object] = str if quiet else partial(echo, err=beside)
    show("; ".join([shape(table), *table.notes]))
    parameters = {**scales, "n_clusters": clusters, "n_components": clusters, "random_state": seed}
    parameters = {name: value for name, value in parameters.items() if value is not None}
    certificates = []
    with counting(len(chosen), plain=False) as step:
        for relation in chosen:
            step(relation.name)
            certificates.append(_certify(relation, table.X, parameters))
    if details:
        for certificate in certificates:
            for line in ("", *str(certificate).splitlines()):
                show(line)
    else:
        _print_table(certificates, show)
    if json_file is not None:
        text = json.dumps([_plain(c) for c in certificates], indent=1, ensure_ascii=False, allow_nan=False)
        with whole_file(json_file, option="--json") as file:
            file.write(text + "\n")
        show(f"{json_file}: {plural(len(certificates), 'certificate')}")
    if any(certificate.verdict == "fails" for certificate in certificates):
        raise click.exceptions.Exit(1)


def _certify(relation: Relation, X: Floats, parameters: dict[str, Any]) -> Certificate:
    """Certify on as many rows as the relation takes; data that it cannot take is a verdict too."""
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
        found = relation.certify(
            rows, **{name: value for name, value in parameters.items() if name in relation.parameters}
        )
    except KnollError as error:
        return Certificate(
            relation.name,
            relation.statement,
            checks=(),
            preconditions=(Precondition("the data fits", False, str(error)),),
        )
    return replace(found, notes=(*found.notes, *notes))


def _print_table(certificates: list[Certificate], show: Callable[[str], object]) -> None:
    """Print a line per relation: verdict, seconds, the number that comes closest to its limit."""
    width = max(len(certificate.relation) for certificate in certificates)
    for certificate in certificates:
        if certificate.verdict == "does not apply":
            reason = next(condition for condition in certificate.preconditions if not condition.holds)
            result = f"{reason.what}: no{', ' + reason.detail if reason.detail else ''}"
        else:
            result = str(certificate.tightest)
        mark = {"holds": "✓", "fails": "✗", "does not apply": "–"}[certificate.verdict]
        show(f"{mark} {certificate.relation:{width}}  {certificate.seconds:6.2f} s  {result}")
        for note in certificate.notes:
            show(f"  {'':{width}}            {note}")
    count = sum(certificate.holds for certificate in certificates)
    out = sum(not certificate.applies for certificate in certificates)
    show(f"{count} of {len(certificates)} hold{f', {out} do not apply' if out else ''}. --details shows all numbers.")


def _plain(certificate: Certificate) -> dict[str, Any]:
    """Return a certificate as what JSON has; numbers that are not finite become null."""
    from knoll.comparison.result import plain

    values = {
        **vars(certificate),
        "verdict": certificate.verdict,
        "checks": [{**vars(check), "holds": check.holds} for check in certificate.checks],
        "preconditions": [vars(condition) for condition in certificate.preconditions],
    }
    return cast(dict[str, Any], plain(values))
