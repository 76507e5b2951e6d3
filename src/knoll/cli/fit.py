"""``knoll fit``: one method on a person's table, kept as a model file."""

from __future__ import annotations

import contextlib
import difflib
import json
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from knoll.cli._files import STANDARD, whole_file
from knoll.cli._output import LabelsFile, header_option, listed, read_columns, refuse_existing, size, some
from knoll.cli._terminal import echo, json_text
from knoll.registry import METHODS, find

if TYPE_CHECKING:
    from knoll.tables.columns import Table

__all__ = ["command"]

_WORDS = {"true": True, "false": False, "none": None, "null": None}


class _MethodName(click.ParamType):  # type: ignore[type-arg]  # click before 8.2 has no arguments here
    """A name or a short name of a method that is registered when the command runs."""

    name = "method"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> str:
        if find(value) is None:
            self.fail(f"unknown method {value!r}. Choose from: {', '.join(_method_names())}.", param, context)
        return str(value)

    def shell_complete(
        self, context: click.Context, param: click.Parameter, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        names = (name for name in _method_names() if name.startswith(incomplete))
        return [click.shell_completion.CompletionItem(name) for name in names]


def _method_names() -> list[str]:
    """List the methods by their short names."""
    return [method.short or method.name for method in METHODS.values()]


@click.command("fit")
@click.argument("method", type=_MethodName(), metavar="METHOD")
@click.argument("data", type=click.Path(allow_dash=True), metavar="DATA")
@click.option("--columns", metavar="A,B,…", help="Use these columns, and no others.")
@header_option
@click.option("--scale", type=click.Choice(["standard", "robust", "none"]), default="standard", show_default=True,
              help="Bring columns to one scale by mean and deviation, by median and quartiles, or not.")  # fmt: skip
@click.option("--missing", type=click.Choice(["error", "drop", "median"]), default="error", show_default=True,
              help="What to do about missing values.")  # fmt: skip
@click.option(
    "--id",
    "id_column",
    metavar="COLUMN",
    help="Column that identifies rows in the labels; the row number if not given.",
)
@click.option("--param", "--set", "params", multiple=True, metavar="NAME=VALUE",
              help="A parameter of the method; repeatable.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True,
              help="Random seed of the starts.")  # fmt: skip
@click.option("--jobs", type=int, help="Threads; every CPU if not given. The result is the same.")
@click.option("--out", type=click.Path(path_type=Path), metavar="MODEL.knoll",
              help="Write the model here; - is standard output.")  # fmt: skip
@click.option("--labels", type=click.Path(path_type=Path), metavar="FILE",
              help="Write the labels here, as CSV or, if so named, Parquet; - is standard output.")  # fmt: skip
@click.option("--force", is_flag=True, help="Replace files that are there already.")
@click.option("--quiet", is_flag=True, help="Print errors only.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def command(
    method: str,
    data: str,
    columns: str | None,
    header: bool | None,
    scale: str,
    missing: str,
    id_column: str | None,
    params: tuple[str, ...],
    seed: int,
    jobs: int | None,
    out: Path | None,
    labels: Path | None,
    force: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Fit one method to your data and keep the model.

    METHOD is one of gaussian, gmm (or gaussian-mixture), kmeans, kernel-kmeans, spectral, dbscan and mean-shift. DATA
    is a file (CSV, TSV, Parquet, Feather, NPY, NPZ, also .gz and .zst), "-" for standard input, or the name of a
    built-in data set. The model remembers columns and scales, so that knoll predict does the same to new data.

    \b
    Example:
      knoll fit kmeans flowers.csv --param n_clusters=3 --out flowers.knoll --labels labels.csv
    """
    refuse_existing(out, labels, force=force, inputs=[data])
    from knoll.models import Preparation
    from knoll.models._write import write

    registered = find(method)
    assert registered is not None  # _MethodName has refused others
    kind = registered.estimator_class()
    if labels is not None and not hasattr(kind, "predict"):
        raise click.UsageError(f"{kind.__name__} is one cluster and labels nobody. Leave --labels out.")
    given = _parameters(kind, params, seed, jobs, scale)
    table, note = _table(data, columns, header, missing, id_column)
    made = Preparation.fit(table.X, table.columns, scale=scale, missing=missing)
    summary: dict[str, Any] = {
        "method": method,
        "class": kind.__name__,
        "data": {"name": table.name, "rows": len(table.X), "columns": list(table.columns),
                 "left_out": table.left_out, "note": note, "notes": list(table.notes)},
        "scale": scale,
        "parameters": given,
    }  # fmt: skip
    with contextlib.ExitStack() as files:  # opened first: a place that cannot be written to is told at once
        model_file = None if out is None else files.enter_context(whole_file(out, "wb"))
        labels_file = None if labels is None else files.enter_context(whole_file(labels, "wb"))
        begun = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = kind(**given).fit(made.apply(table.X))
        summary |= {"seconds": time.perf_counter() - begun, **_result(model)}
        summary["warnings"] = [str(each.message) for each in caught]
        if model_file is not None:
            summary |= {"out": str(out), "sha256": write(model, model_file, preparation=made)}
            summary["bytes"] = model_file.tell() if model_file.seekable() else None
        if labels_file is not None:
            assert labels is not None
            _write_labels(LabelsFile(labels_file, labels), table, id_column, model)
            summary["labels"] = str(labels)
    beside = STANDARD in (str(out), str(labels))  # standard output has something else to carry
    if as_json:
        click.echo(json_text(summary), err=beside)
    elif not quiet:
        _show(summary, err=beside)


def _parameters(kind: Any, params: tuple[str, ...], seed: int, jobs: int | None, scale: str) -> dict[str, Any]:
    """Read name=value pairs, and hold the names against the class's own."""
    known = kind().get_params()
    given: dict[str, Any] = {}
    if "random_state" in known:
        given["random_state"] = seed
    if jobs is not None:
        given["n_jobs"] = jobs
    for pair in params:
        name, equals, text = (part.strip() for part in pair.partition("="))
        if not equals:
            raise click.UsageError(f"--param takes NAME=VALUE, got '{pair}'.", click.get_current_context())
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            raise click.UsageError(f"{kind.__name__} has no parameter '{name}'.{hint} It has: {', '.join(known)}.")
        given[name] = _value(text)
    distances = [name for name, value in given.items() if isinstance(value, str) and value.startswith("precomputed")]
    if distances and scale != "none":
        raise click.UsageError(f"with {distances[0]}={given[distances[0]]} the columns are no measures: --scale none.")
    return given


def _value(text: str) -> Any:
    """Read a number, true, false, none or a list; anything else is text."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return float(text)  # as .5 and 1e-3 are written by people
    except ValueError:
        return text


def _table(
    data: str, columns: str | None, header: bool | None, missing: str, id_column: str | None
) -> tuple[Table, str]:
    import numpy as np

    from knoll import datasets
    from knoll.tables.columns import Table, complete, read_table

    wanted = read_columns(columns)
    if data in datasets.names() and not Path(data).exists():
        known = datasets.load(data)
        names = list(known.feature_names)
        unknown = [name for name in (*(wanted or ()), id_column) if name is not None and name not in names]
        if unknown:
            raise click.UsageError(f"{data} has no column '{unknown[0]}'. It has: {', '.join(names)}.")
        taken = names if wanted is None else wanted
        X = np.column_stack([known.X[:, names.index(name)] for name in taken])
        ids = None if id_column is None else known.X[:, names.index(id_column)]
        return Table(data, X, tuple(taken), {}, np.arange(len(X)), ids), ""
    table = read_table(data, columns=wanted, ids=id_column, header=header)
    table, note = complete(table, missing)
    return table, note


def _result(model: Any) -> dict[str, Any]:
    """Say what came out, in numbers that every method has."""
    import numpy as np

    found: dict[str, Any] = {}
    if hasattr(model, "labels_"):
        clusters, counts = np.unique(model.labels_[model.labels_ >= 0], return_counts=True)
        found |= {"clusters": len(clusters), "sizes": counts.tolist(), "noise": int((model.labels_ < 0).sum())}
    if hasattr(model, "n_iter_"):
        found["iterations"] = int(model.n_iter_)
    return found


def _write_labels(file: LabelsFile, table: Table, id_column: str | None, model: Any) -> None:
    names = table.rows if table.ids is None else table.ids
    file.write(names, id_column or "row", {"label": model.labels_})
    file.close()


def _show(summary: dict[str, Any], err: bool) -> None:
    data = summary["data"]
    left_out = [f"{name} ({why})" for name, why in data["left_out"].items() if why != "not asked for"]
    notes = [
        "" if summary["scale"] == "none" else f"scaled ({summary['scale']})",
        f"left out {listed(left_out)}" if left_out else "",
        data["note"],
    ]
    told = "".join(f"; {note}" for note in notes if note)
    echo(f"{data['name']}: {some(data['rows'], 'row')}, {some(len(data['columns']), 'column')}{told}", err=err)
    for note in data["notes"]:
        echo(f"  {note}", err=err)
    parameters = ", ".join(f"{name}={value!r}" for name, value in summary["parameters"].items())
    result = [f"{summary['seconds']:.2f} s"]
    if "clusters" in summary:
        sizes = summary["sizes"]
        shown = ", ".join(map(str, sizes[:10])) + (", …" if len(sizes) > 10 else "")
        noise = f" and {some(summary['noise'], 'row')} of noise" if summary["noise"] else ""
        result.insert(0, f"{some(summary['clusters'], 'cluster')}{f' ({shown} rows)' if sizes else ''}{noise}")
    echo(f"{summary['class']}({parameters}): {', '.join(result)}", err=err)
    for warning in summary["warnings"]:
        echo(f"note: {' '.join(warning.split())}", err=True)
    if "out" in summary:
        written = "" if summary["bytes"] is None else f"{size(summary['bytes'])}, "
        echo(f"{summary['out']}: {written}SHA-256 {summary['sha256'][:16]}…", err=err)
    if "labels" in summary:
        echo(f"{summary['labels']}: {some(data['rows'], 'label')}", err=err)
