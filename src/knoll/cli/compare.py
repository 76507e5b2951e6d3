"""``knoll compare``: several methods on a person's table, judged alike; labels, models, a summary and a report."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from knoll.cli import INTERRUPTED
from knoll.cli._compare_words import command_line, read_methods, read_numbers, read_settings
from knoll.cli._hold import Hold
from knoll.cli._output import header_option, read_columns, size, some
from knoll.cli._progress import showing
from knoll.cli._results import refuse_results, whole_results
from knoll.cli._terminal import echo, json_text, on_terminal
from knoll.registry import compared, title

if TYPE_CHECKING:
    from knoll.cli._table import Table
    from knoll.comparison import Comparison

__all__ = ["command"]

EMBEDDED = "iris"
FITTED = 0.94  # of the way when all is fitted and judged; the report and the files are the rest


@click.command("compare")
@click.argument("data", required=False, metavar="[DATA]", type=click.Path(allow_dash=True))
@click.option("--columns", metavar="A,B,…", help="Use these columns, and no others; a name with a comma in quotes.")
@header_option
@click.option("--scale", type=click.Choice(["standard", "robust", "none"]), default="standard", show_default=True,
              help="Bring columns to one scale by mean and deviation, by median and quartiles, or not.")  # fmt: skip
@click.option("--methods", metavar="A,B,…", help="Some of gaussian-mixture (or gmm), kmeans, kernel-kmeans, spectral, "
              "dbscan, mean-shift; all if not given.")  # fmt: skip
@click.option("--k", default="1..15", show_default=True, metavar="A..B",
              help="Numbers of clusters to try; with 1 the outcome may be that there are none.")  # fmt: skip
@click.option("--missing", type=click.Choice(["error", "drop", "median"]), default="error", show_default=True,
              help="What to do about missing values.")  # fmt: skip
@click.option("--id", "id_column", metavar="COLUMN", help="Column that identifies rows; the row number if not given.")
@click.option(
    "--truth", metavar="COLUMN", help="Known classes: every answer is compared with them, none is chosen by them."
)
@click.option("--set", "settings", multiple=True, metavar="METHOD.NAME=VALUE",
              help="Set a parameter by hand, such as dbscan.eps=0.3; repeatable.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True,
              help="Random seed of samples and starts.")  # fmt: skip
@click.option("--jobs", type=int, help="Threads; every CPU if not given. The result is the same.")
@click.option("--budget", type=click.FloatRange(0, min_open=True), default=120.0, show_default=True, metavar="SECONDS",
              help="About how long it may take; methods that would take longer are fitted on a sample.")  # fmt: skip
@click.option(
    "--exact", is_flag=True, help="Fit every method on every row, whatever that takes; the cost is shown first."
)
@click.option("--out", type=click.Path(path_type=Path), default=Path("comparison"), show_default=True, metavar="DIR",
              help="Where the results go; made if it is not there.")  # fmt: skip
@click.option(
    "--force",
    is_flag=True,
    help="Replace results of an earlier run; files that knoll did not write are never replaced.",
)
@click.option("--format", "form", type=click.Choice(["parquet", "csv"]), default="parquet", show_default=True,
              help="Of the file of labels.")  # fmt: skip
@click.option("--quiet", is_flag=True, help="Print errors only.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def command(
    data: str | None,
    columns: str | None,
    header: bool | None,
    scale: str,
    methods: str | None,
    k: str,
    missing: str,
    id_column: str | None,
    truth: str | None,
    settings: tuple[str, ...],
    seed: int,
    jobs: int | None,
    budget: float,
    exact: bool,
    out: Path,
    force: bool,
    form: str,
    quiet: bool,
    as_json: bool,
) -> None:
    """Find out which clusters your table has, by several methods.

    DATA is a file (CSV, TSV, Parquet, Feather, NPY, NPZ, also .gz and .zst), "-" for standard input, or the name of a
    built-in data set; without it the table iris, which comes with scikit-learn, is taken. Parameters are chosen from
    the data, the answers are judged alike, and one is recommended, or none if the data shows no clusters. Writes
    DIR/report.html, DIR/labels.parquet, DIR/summary.json and DIR/models/*.knoll, all or nothing. Ctrl-C keeps what is
    finished.

    \b
    Examples:
      knoll compare
      knoll compare customers.csv --id customer --out customers
      knoll compare flowers.csv --truth species --methods gmm,dbscan --set dbscan.eps=0.3
    """
    silent = quiet or as_json
    asked, numbers, parameters = read_methods(methods), read_numbers(k), read_settings(settings)
    refuse_results(out, _names(asked, form), force, data)
    table, facts = _table(data, columns, header, missing, id_column, truth)
    if not silent:
        shape = f"{some(len(table.X), 'row')}, {some(len(table.columns), 'column')}"
        echo(f"{table.name}: {shape}; {'not scaled' if scale == 'none' else f'scaled ({scale})'}")
        for fact in facts:
            echo(f"  {fact}")
    from knoll.cli._compare_files import write_results
    from knoll.comparison import compare

    hold = Hold()
    try:
        # the place is made first, so that one which cannot be written to is told at once
        with whole_results(out, force) as scratch:
            if exact and not silent and not _agreed(table, asked, numbers, scale, budget, seed, jobs):
                echo("Nothing was done.")
                raise click.exceptions.Exit(0)
            with showing(silent) as show:
                found = compare(
                    table.X, methods=asked, k=numbers, scale=scale, truth=table.truth, columns=table.columns, seed=seed,
                    n_jobs=jobs, budget=budget, exact=exact, parameters=parameters,
                    progress=lambda event: show(replace(event, fraction=FITTED * event.fraction)),
                )  # fmt: skip
                if not found.candidates:
                    _nothing(found)
                words = command_line(click.get_current_context())
                write = partial(
                    write_results, table=table, folder=scratch, facts=facts, command=words, form=form, missing=missing,
                    id_column=id_column,
                )  # fmt: skip
                try:
                    summary = write(found, show=show)
                except KeyboardInterrupt:  # what is fitted is written all the same, in a hurry; twice means it
                    found = replace(found, interrupted=True)
                    summary = write(found, show=lambda event: None, hurried=True)
                hold.begin()
    finally:
        late = hold.end()
    interrupted = found.interrupted or late
    try:
        if as_json:
            click.echo(json_text(summary))
        elif not quiet:
            from knoll.cli._compare_terminal import tell

            tell(found, out, form)
    except KeyboardInterrupt:
        interrupted = True
    if interrupted:
        echo(f"knoll: interrupted; what had finished is in {out}.", err=True)
        raise click.exceptions.Exit(INTERRUPTED)


def _names(asked: list[str] | None, form: str) -> list[str]:
    """Return the names of all files that a run may write."""
    from knoll.cli._manifest import SUMMARY

    return [SUMMARY, "report.html", f"labels.{form}", *(f"models/{method}.knoll" for method in asked or compared())]


# ---- the table -------------------------------------------------------------------------------------------------------


def _table(
    data: str | None,
    columns: str | None,
    header: bool | None,
    missing: str,
    id_column: str | None,
    truth: str | None,
) -> tuple[Table, list[str]]:
    """Read the table and say what was done on the way."""
    import numpy as np

    from knoll import datasets
    from knoll.cli._table import complete, read_table
    from knoll.exceptions import BadData

    wanted = read_columns(columns)
    facts: list[str] = []
    if data is None or (data in datasets.names() and not Path(data).exists()):
        table = _embedded(data or EMBEDDED, wanted, id_column, truth)
        if data is None:
            facts.append(
                "No file was given, so this is a table that comes with scikit-learn. Yours: knoll compare FILE"
            )
    else:
        read = read_table(data, columns=wanted, ids=id_column, truth=truth, header=header)
        table, note = complete(read, missing)
        facts += table.notes
        left = [f"{name} ({why})" for name, why in table.left_out.items() if why != "not asked for"]
        if left:
            facts.append(
                "left out: " + ", ".join(left[:12]) + (f" and {len(left) - 12} more" if len(left) > 12 else "")
            )
        if note:
            facts.append(note)
    if len(table.X) < 2:
        raise BadData(f"{table.name} has {len(table.X)} row. At least two are needed.")
    if not np.ptp(table.X, axis=0).any():
        raise BadData(f"{table.name}: all {len(table.X)} rows are the same, so there is nothing to part.")
    if table.truth is not None:
        gap = next((row for row, known in zip(table.rows, table.truth) if known is None or known != known), None)
        if gap is not None:
            raise BadData(
                f"{table.name}: row {gap + 1} has no class in column {truth!r} of --truth. "
                "Give it one, such as 'unknown', or leave the row out."
            )
    return table, facts


def _embedded(name: str, wanted: list[str] | None, id_column: str | None, truth: str | None) -> Table:
    """Return a built-in data set; its classes are the truth, where it has some."""
    import numpy as np

    from knoll import datasets
    from knoll.cli._table import Table

    known = datasets.load(name)
    names = list(known.feature_names)
    for column in (*(wanted or ()), id_column, truth):
        if column is not None and column not in names:
            raise click.UsageError(f"{name} has no column '{column}'. It has: {', '.join(names)}.")
    beside = {id_column, truth}
    taken = [column for column in (wanted or names) if column not in beside]
    ids: Any = None if id_column is None else known.X[:, names.index(id_column)]
    given: Any = None if truth is None else known.X[:, names.index(truth)]
    if truth is None and known.y is not None:
        given = np.asarray(known.target_names)[known.y] if known.target_names else known.y
    X = np.ascontiguousarray(known.X[:, [names.index(column) for column in taken]])
    return Table(name, X, tuple(taken), {}, np.arange(len(X)), ids, given)


def _agreed(
    table: Table, asked: list[str] | None, numbers: list[int], scale: str, budget: float, seed: int, jobs: int | None
) -> bool:
    """Say what --exact will take before it is taken; on a terminal, ask whether that is meant if it is much."""
    from knoll._system import free_memory
    from knoll.comparison.cost import estimate_costs
    from knoll.comparison.plan import make_plan
    from knoll.models import Preparation

    n, d = table.X.shape
    plan = make_plan(n, d, tuple(name for name in compared() if asked is None or name in asked), budget, True)
    points = Preparation.fit(table.X, table.columns, scale=scale).apply(table.X)
    costs = estimate_costs(points, plan, tuple(numbers), seed, jobs)
    seconds, memory = sum(cost.seconds for cost in costs), max(cost.memory for cost in costs)
    echo(f"  --exact: every method on all {n} rows, about {_time(seconds)} of processor time")
    for cost in costs:
        echo(f"    {title(cost.method)}: about {_time(cost.seconds)}, {size(cost.memory)} beyond the data")
    much = seconds > budget or memory > free_memory()
    if not (much and on_terminal(sys.stdin, sys.stderr)):
        return True
    return click.confirm("  That is more than the budget or the memory that is free. Go on?", default=False, err=True)


def _time(seconds: float) -> str:
    """Return a time as a person reads it."""
    if seconds < 100:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.2g} min" if seconds < 6000 else f"{seconds / 3600:.2g} h"


def _nothing(found: Comparison) -> None:
    """There is no answer to write down."""
    if found.interrupted:
        raise KeyboardInterrupt  # no method had finished: there is nothing to keep
    from knoll.exceptions import BadData

    reasons = "; ".join(f"{title(failure.method)}: {failure.reason}" for failure in found.failures)
    raise BadData(f"no method could be fitted. {reasons}")
