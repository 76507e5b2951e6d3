"""``knoll tree``: the density tree of a table as a page, with labels and a model of one cut."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from knoll._format import byte_size, plural
from knoll.cli import _options
from knoll.cli._compare_options import command_line
from knoll.cli._interrupt import DeferredInterrupt
from knoll.cli._progress import counting
from knoll.cli._results import check_results, whole_results
from knoll.cli._terminal import echo, json_text

if TYPE_CHECKING:
    from knoll.tables import Reading, Table

EMBEDDED = "iris"
STEPS = ("tree", "page", "labels", "model")


@click.command("tree")
@_options.table_argument(required=False)
@_options.columns()
@_options.reading()
@_options.scale(default="auto")
@_options.missing(default="error")
@_options.id_column()
@click.option("--min-samples", type=click.IntRange(1), metavar="N",
              help="How many rows within a distance make a core row, itself included; 10 if not given.")  # fmt: skip
@click.option("--min-cluster-size", type=click.FloatRange(2), metavar="N", help="The least number of rows of a "
              "cluster; 1 % of the rows, but at least 10, if not given.")  # fmt: skip
@click.option("--eps", type=click.FloatRange(0, min_open=True), metavar="E",
              help="Take the clusters of DBSCAN at this distance of the scaled rows.")  # fmt: skip
@click.option("--k", type=click.IntRange(1), metavar="K", help="Take exactly so many clusters, the most stable ones.")
@click.option("--leaves", is_flag=True, help="Take the smallest clusters of the tree.")
@click.option("--noise", type=click.Choice(["keep", "nearest"]), default="keep", show_default=True,
              help="Whether rows in no cluster stay noise, or have the label of the nearest row in one.")  # fmt: skip
@_options.seed("Random seed of the rows that are drawn.")
@_options.jobs()
@_options.results("tree")
def command(
    data: str | None,
    columns: str | None,
    reading: Reading,
    scale: str,
    missing: str,
    id_column: str | None,
    min_samples: int | None,
    min_cluster_size: float | None,
    eps: float | None,
    k: int | None,
    leaves: bool,
    noise: str,
    seed: int,
    jobs: int | None,
    out: Path,
    force: bool,
    form: str,
    quiet: bool,
    as_json: bool,
) -> None:
    """Show the clusters of your table at every density, as one page.

    DATA is a file (CSV, TSV, Parquet, Feather, NPY, NPZ, also .gz and .zst), "-" for standard input, or the name of a
    built-in data set; without it the table iris, which comes with scikit-learn, is taken. One fit holds DBSCAN for
    every ε and HDBSCAN. The page has the condensed tree, the reachability plot and a slider for ε that colours the
    rows. The labels and the model, for knoll predict, are those of HDBSCAN, or of DBSCAN with --eps. Writes
    DIR/report.html, DIR/labels.parquet, DIR/summary.json and DIR/models/*.knoll, all or nothing.

    \b
    Examples:
      knoll tree
      knoll tree customers.csv --id customer --min-cluster-size 50 --out customers
      knoll tree flowers.csv --eps 0.4 --noise nearest
    """
    if sum((eps is not None, k is not None, leaves)) > 1:
        raise click.UsageError("--eps, --k and --leaves exclude each other. Give one of them.")
    if eps is not None and eps != eps:
        raise click.UsageError("--eps must be a number > 0, got nan.")
    method = "hdbscan" if eps is None else "dbscan"
    check_results(out, ["summary.json", "report.html", f"labels.{form}", f"models/{method}.knoll"], force, data)
    from knoll.cli._data import read_data
    from knoll.cli._tree_files import fit_tree, write_tree

    table = read_data(data or EMBEDDED, columns, reading, missing, id_column)
    silent = quiet or as_json
    if not silent:
        _print_table(table, data)
    context, deferred = click.get_current_context(), DeferredInterrupt()
    try:
        with whole_results(out, force) as scratch, counting(len(STEPS), plain=False) as step:
            started = time.perf_counter()
            step("tree")
            found = fit_tree(
                table, scale=scale, missing=missing, min_samples=min_samples, min_cluster_size=min_cluster_size,
                eps=eps, k=k, leaves=leaves, noise=noise, n_jobs=jobs,
            )  # fmt: skip
            summary = write_tree(
                found, table, scratch, command=command_line(context, "tree"),
                cut_command=command_line(context, "tree", without=("eps", "k", "leaves", "seed")), form=form,
                id_column=id_column, seed=seed, seconds=time.perf_counter() - started, step=step,
            )  # fmt: skip
            deferred.begin()
    finally:
        late = deferred.end()
    if as_json:
        click.echo(json_text(summary))
    elif not quiet:
        _print_result(summary, out)
    if late:
        raise KeyboardInterrupt


def _print_table(table: Table, data: str | None) -> None:
    from knoll.cli._data import embedded_note, shape

    echo(shape(table))
    if data is None:
        echo(f"  {embedded_note('tree')}")
    for note in table.notes:
        echo(f"  {note}")


def _print_result(summary: dict[str, Any], out: Path) -> None:
    """Show the clusters, and where the files are."""
    (method,) = summary["candidates"]
    answer, files = summary["candidates"][method], summary["files"]
    sizes = answer["sizes"]
    shown = ", ".join(map(str, sizes[:10])) + (", …" if len(sizes) > 10 else "")
    noise = f" and {plural(answer['noise'], 'row')} of noise" if answer["noise"] else ""
    parameters = ", ".join(f"{name}={value!r}" for name, value in answer["parameters"].items())
    echo(f"{answer['class']}({parameters}), columns scaled ({summary['scale']}):")
    echo(f"  {plural(len(sizes), 'cluster')}{f' ({shown} rows)' if sizes else ''}{noise}; {summary['seconds']:.1f} s")
    for warning in answer["warnings"]:
        echo(f"note: {' '.join(warning.split())}", err=True)
    described = {
        files["report"]: "the tree at every ε, HTML",
        files["labels"]: "every row's cluster",
        files["models"][method]: "for knoll predict",
        "summary.json": "the same in numbers",
    }
    width = max(map(len, described))
    for name, what in described.items():
        size = summary["manifest"].get(name, {}).get("bytes")
        echo(f"{out}/{name:{width}}  {what}" + (f", {byte_size(size)}" if size else ""))
