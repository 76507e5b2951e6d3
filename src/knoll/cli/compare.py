"""``knoll compare``: several methods on a table, judged alike; labels, models, a summary and a report."""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from knoll._format import byte_size, duration
from knoll.cli import INTERRUPTED, _options
from knoll.cli._compare_options import command_line, parse_methods, parse_names, parse_numbers, parse_settings
from knoll.cli._interrupt import DeferredInterrupt
from knoll.cli._progress import Meter, showing
from knoll.cli._results import check_results, whole_results
from knoll.cli._terminal import echo, json_text, on_terminal
from knoll.registry import compared, title

if TYPE_CHECKING:
    from knoll.comparison import Comparison, Event
    from knoll.tables import Reading, Rules, Table

EMBEDDED = "iris"


@click.command("compare")
@_options.table_argument(required=False)
@_options.columns()
@_options.reading()
@_options.scale(default="auto")
@_options.metric()
@click.option("--methods", metavar="A,B,…",
              help=f"Some of {', '.join(compared(mixed=True))}; all that suit the table if not given.")  # fmt: skip
@click.option("--k", metavar="A..B", help="Numbers of clusters; 2 to 60 if not given. An answer with one of them is "
              "recommended.")  # fmt: skip
@_options.types()
@_options.log()
@_options.ignore()
@_options.missing_rule(default="model")
@_options.id_column()
@click.option(
    "--truth", metavar="COLUMN", help="Known classes: every answer is compared with them, none is chosen by them."
)
@click.option("--names", metavar="0=A,1=B,…", help="Names of the recommended clusters; proposed if not given.")
@click.option("--set", "settings", multiple=True, metavar="METHOD.NAME=VALUE",
              help="Set a parameter by hand, such as dbscan.eps=0.3; repeatable.")  # fmt: skip
@_options.seed()
@_options.jobs()
@click.option("--budget", type=click.FloatRange(0, min_open=True), default=120.0, show_default=True, metavar="SECONDS",
              help="About how long it may take; methods that would take longer are fitted on a sample.")  # fmt: skip
@click.option("--exact", is_flag=True, help="Fit every method on every row; the cost is shown first.")
@_options.results("comparison", positions=True)
def command(
    data: str | None,
    columns: str | None,
    reading: Reading,
    scale: str,
    metric: str | None,
    methods: str | None,
    k: str,
    types: tuple[str, ...],
    log: str | None,
    ignore: str | None,
    missing: str,
    id_column: str | None,
    truth: str | None,
    names: str | None,
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

    DATA is a file (CSV, TSV, JSON lines, Excel, Parquet, Feather, NPY, NPZ, Matrix Market, AnnData; text also .gz and
    .zst), "-" for standard input, or the name of a
    built-in data set; without it the table iris, which comes with scikit-learn, is taken. Parameters are chosen from
    the data, the answers are judged alike, and one is recommended, with a verdict on whether there are clusters. Writes
    DIR/report.html, DIR/labels.parquet, DIR/summary.json and DIR/models/*.knoll, all or nothing. Ctrl-C keeps what is
    finished.

    \b
    Examples:
      knoll compare
      knoll compare customers.csv --id customer --out customers
      knoll compare flowers.csv --truth species --methods gmm,dbscan --set dbscan.eps=0.3
    """
    silent = quiet or as_json
    requested, numbers, parameters = parse_methods(methods), parse_numbers(k), parse_settings(settings)
    called = parse_names(names)
    check_results(out, _names(requested, form), force, data)
    rules = _options.parse_rules(types, log, ignore, usual_log="mixed")
    table = _table(data, columns, reading, missing, rules, id_column, truth)
    if form == "geojson":
        _check_positions(table)
    if not silent:
        _print_table(table, scale)
    from knoll.cli._compare_files import STEPS, check_names, write_results
    from knoll.comparison import compare

    deferred = DeferredInterrupt()
    try:
        # the folder is made first, so that one which cannot be written to is reported at once
        with whole_results(out, force) as scratch:
            if exact and not silent and not _confirmed(table, requested, numbers, scale, budget, seed, jobs):
                echo("Nothing was done.")
                raise click.exceptions.Exit(0)
            with showing(silent) as show:
                meter = Meter(show, STEPS)
                progress = partial(_progress, meter, len(table.X), silent)
                found = compare(
                    table, methods=requested, k=numbers, scale=scale, metric=metric, truth=table.truth, missing=missing,
                    seed=seed, n_jobs=jobs, budget=budget, exact=exact, parameters=parameters, progress=progress,
                )  # fmt: skip
                _check_found(found)
                check_names(called, found.labels)
                write = partial(
                    write_results, table=table, folder=scratch, command=command_line(click.get_current_context()),
                    form=form, missing=missing, id_column=id_column, names=called,
                )  # fmt: skip
                try:
                    summary, explanation = write(found, step=meter.step)
                except KeyboardInterrupt:  # what is fitted is written all the same, quickly; a second Ctrl-C ends it
                    found = replace(found, interrupted=True)
                    summary, explanation = write(found, step=lambda name: None, hurried=True)
                deferred.begin()
    finally:
        late = deferred.end()
    interrupted = found.interrupted or late
    try:
        if as_json:
            click.echo(json_text(summary))
        elif not quiet:
            from knoll.cli._compare_terminal import print_result

            print_result(found, explanation, out, form)
    except KeyboardInterrupt:
        interrupted = True
    if interrupted:
        echo(f"knoll: interrupted; the finished results are in {out}.", err=True)
        raise click.exceptions.Exit(INTERRUPTED)


def _names(requested: list[str] | None, form: str) -> list[str]:
    """Return the names of all files that a run may write."""
    from knoll.cli._compare_options import ALTERNATIVES
    from knoll.cli._manifest import SUMMARY

    models = (f"models/{name}.knoll" for name in (*(requested or compared(mixed=True)), *ALTERNATIVES))
    return [SUMMARY, "report.html", f"labels.{form}", *models]


def _table(
    data: str | None,
    columns: str | None,
    reading: Reading,
    missing: str,
    rules: Rules,
    ids: str | None,
    truth: str | None,
) -> Table:
    """Read the table, and refuse one that cannot be clustered."""
    import numpy as np

    from knoll.cli._data import dataset_classes, embedded_note, read_typed
    from knoll.exceptions import BadData

    table = read_typed(data or EMBEDDED, columns, reading, missing, rules, ids, truth)
    if data is None:
        table = replace(table, notes=(embedded_note("compare"), *table.notes))
    if truth is None:
        table = replace(table, truth=dataset_classes(data or EMBEDDED))
    if len(table.X) < 2:
        raise BadData(f"{table.name} has {len(table.X)} row. At least two are needed.")
    if not np.ptp(table.X, axis=0).any():
        raise BadData(f"{table.name}: all {len(table.X)} rows are the same, so there is nothing to cluster.")
    if table.truth is not None:
        gap = next((row for row, known in zip(table.rows, table.truth) if known is None or known != known), None)
        if gap is not None:
            raise BadData(
                f"{table.name}: row {gap + 1} has no class in column {truth!r} of --truth. "
                "Give it one, such as 'unknown', or leave the row out."
            )
    return table


def _check_positions(table: Table) -> None:
    """Refuse, before any work is done, to write points of rows without a position."""
    from knoll.exceptions import BadData
    from knoll.tables.geojson import WITHOUT, degrees_of

    if degrees_of(table) is None:
        raise BadData(f"{table.name}: {WITHOUT}")


def _print_table(table: Table, scale: str) -> None:
    from knoll.cli._data import shape

    echo(f"{shape(table)}; {'not scaled' if scale == 'none' else f'scaled ({scale})'}")
    for note in table.notes:
        echo(f"  {note}")


def _progress(meter: Meter, n: int, silent: bool, event: Event) -> None:
    """Show what is done; the plan is printed if not every row is used throughout."""
    if event.method != "plan":
        meter.fit(event)
    elif not silent and f"on {n} rows" not in event.stage:
        for line, begin in zip(event.stage.splitlines(), itertools.chain(["  plan: "], itertools.repeat("    "))):
            echo(begin + line)


def _confirmed(
    table: Table,
    requested: list[str] | None,
    numbers: list[int] | None,
    scale: str,
    budget: float,
    seed: int,
    jobs: int | None,
) -> bool:
    """Show the cost of --exact before it is spent; on a terminal, ask for a confirmation if it is much."""
    from knoll._system import free_memory
    from knoll.comparison.cost import estimate_costs
    from knoll.comparison.plan import make_plan
    from knoll.comparison.pool import GRID
    from knoll.models import Preparation

    n, d = table.X.shape
    methods = tuple(name for name in compared() if requested is None or name in requested)
    plan = make_plan(n, d, methods, budget, True)
    points = Preparation.fit(table.X, table.columns, scale=scale, schema=table.schema).apply(table.X)
    costs = estimate_costs(points, plan, tuple(numbers or GRID), seed, jobs)
    seconds = {name: cost.seconds.expected for name, cost in costs.items() if cost.seconds is not None}
    total, memory = sum(seconds.values()), max(cost.memory for cost in costs.values())
    echo(f"  --exact: every method on all {n} rows, about {duration(total)} of processor time")
    for name, cost in costs.items():
        echo(f"    {title(name)}: about {duration(seconds[name])}, {byte_size(cost.memory)} beyond the data")
    much = total > budget or memory > free_memory()
    if not (much and on_terminal(sys.stdin, sys.stderr)):
        return True
    return click.confirm("  This exceeds the budget or the free memory. Continue?", default=False, err=True)


def _check_found(found: Comparison) -> None:
    """Refuse a comparison without any answer."""
    if found.candidates:
        return
    if found.interrupted:
        raise KeyboardInterrupt  # no method had finished
    from knoll.exceptions import BadData

    reasons = "; ".join(f"{title(failure.method)}: {failure.reason}" for failure in found.failures)
    raise BadData(f"no method could be fitted. {reasons}")
