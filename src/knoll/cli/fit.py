"""``knoll fit``: one method on a table, saved as a model file."""

from __future__ import annotations

import contextlib
import difflib
import inspect
import os
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from knoll._format import byte_size, plural
from knoll.cli import _engine, _options
from knoll.cli._files import STANDARD, whole_file
from knoll.cli._output import LabelsFile, check_outputs
from knoll.cli._stream import StreamedTable, parse_size, streamed
from knoll.cli._terminal import echo, json_text
from knoll.registry import METHODS, find

if TYPE_CHECKING:
    from knoll.tables import Reading, Table


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
    return [method.short or method.name for method in METHODS.values() if method.estimator]


@click.command("fit")
@click.argument("method", type=_MethodName(), metavar="METHOD")
@_options.table_argument()
@_options.columns()
@_options.reading()
@_options.scale()
@_options.types()
@_options.log()
@_options.ignore()
@_options.missing_rule(default="error")
@_options.id_column("Column that identifies rows in the labels; the row number, from 0, if not given.")
@click.option("--param", "--set", "params", multiple=True, metavar="NAME=VALUE",
              help="A parameter of the method; repeatable.")  # fmt: skip
@click.option("--memory", metavar="SIZE", callback=parse_size,
              help="Read a table of more than this, such as 4GB, in blocks, where the method can; half of the free "
                   "memory if not given.")  # fmt: skip
@_engine.options()
@_options.seed("Random seed of the starts.")
@_options.jobs()
@click.option("--out", type=click.Path(path_type=Path), metavar="MODEL.knoll",
              help="Write the model to this file; - is standard output.")  # fmt: skip
@click.option("--labels", type=click.Path(), metavar="FILE",
              help="Write the labels to this file, as CSV or, by its name, Parquet or GeoJSON; - is standard "
                   "output. DBSCAN of a table that is read in blocks also takes a folder, such as labels/, for one "
                   "Parquet file a block.")  # fmt: skip
@click.option("--scratch", type=click.Path(path_type=Path), metavar="DIR",
              help="A folder for the rows of a table that DBSCAN reads in blocks; that of temporary files if not "
                   "given.")  # fmt: skip
@_options.force()
@_options.quiet()
@_options.as_json()
def command(
    method: str,
    data: str,
    columns: str | None,
    reading: Reading,
    scale: str,
    types: tuple[str, ...],
    log: str | None,
    ignore: str | None,
    missing: str,
    id_column: str | None,
    params: tuple[str, ...],
    memory: int | None,
    workers: int | None,
    scheduler: str | None,
    checkpoint: Path | None,
    resume: bool,
    seed: int,
    jobs: int | None,
    out: Path | None,
    labels: str | None,
    scratch: Path | None,
    force: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Fit one method to your data and keep the model.

    METHOD is one of {methods}. DATA is a file (CSV, TSV, JSON lines, Excel, Parquet, Feather, NPY, NPZ, Matrix Market,
    AnnData; text also .gz and .zst), "-" for standard input, or the name of a built-in data set. The model remembers
    columns, their types and scales, so that knoll predict does the same to new data.

    \b
    Example:
      knoll fit kmeans flowers.csv --param n_clusters=3 --out flowers.knoll --labels labels.csv
    """
    labels_path = None if labels is None else Path(labels)
    into_folder = labels is not None and (labels.endswith(("/", os.sep)) or os.path.isdir(labels))
    check_outputs(out, None if into_folder else labels_path, force=force, inputs=[data], also=[checkpoint])
    import numpy as np

    from knoll.cli._data import read_typed
    from knoll.models import Preparation
    from knoll.models._write import write
    from knoll.tables.missing import FALLBACK

    registered = find(method)
    assert registered is not None  # _MethodName has refused others
    estimator = registered.estimator_class()
    if labels_path is not None and not hasattr(estimator, "fit_predict"):
        raise click.UsageError(f"{estimator.__name__} is a single cluster and has no labels. Leave --labels out.")
    parameters = _parameters(estimator, params, seed, jobs, scale)
    rules = _options.parse_rules(types, log, ignore)
    needs_all = {"--types": types, "--log": log, "--ignore": ignore, "--missing": missing != "error", "--id": id_column}
    computing = _engine.Computing(workers, scheduler, checkpoint, resume)
    whole = [name for name, value in needs_all.items() if value]
    by_regions = _writes_labels(estimator)
    if into_folder and not by_regions:
        raise click.ClickException(f"{labels} is a folder. Give the name of a file.")
    if scratch is not None and not by_regions:
        raise click.UsageError("--scratch is for DBSCAN, of a table that exceeds --memory. Leave it out.")
    forced = f"--labels {labels}" if into_folder else computing.option
    large = streamed(data, columns, reading, memory, estimator, whole, forced)
    if large is not None and by_regions:
        _refuse_for_regions(estimator, out, computing)
        found = _fit_regions(large, estimator, parameters, scale, method, labels_path, into_folder, memory, scratch)
        _report(found, None, out, labels_path, quiet, as_json)
        return
    if large is not None:
        with computing.engine() as client:
            found = _fit_streamed(large, estimator, parameters, scale, method, out, labels_path, computing, client)
        computing.done()
        _report(found, None, out, labels_path, quiet, as_json)
        return
    plain = scale == "none" and not (columns or types or log or ignore)
    rule = FALLBACK if missing == "model" and not registered.mixed else missing
    table = read_typed(data, columns, reading, rule, rules, id_column, sparse=plain and _takes_sparse(estimator))
    sparse = not isinstance(table.X, np.ndarray)
    if sparse:
        preparation = Preparation.unscaled(table.columns)
    elif registered.mixed:
        encoded = table.mixed.encode() if missing == "model" and table.mixed is not None else table.X
        assert table.schema is not None
        preparation = Preparation.fit_scores(encoded, table.schema, scale=scale, missing=rule).with_codes()
        parameters |= {"categorical_features": preparation.categorical}
        table = replace(table, X=encoded)
    elif parameters.get("metric") == "haversine":
        scale = "none"
        preparation = Preparation.for_haversine(table.X, table.schema, rule)
    else:
        preparation = Preparation.fit(table.X, table.columns, scale=scale, missing=rule, schema=table.schema)
    table = replace(table, notes=(*table.notes, *preparation.notes()))
    summary: dict[str, Any] = {
        "method": method,
        "class": estimator.__name__,
        "data": {"name": table.name, "rows": table.X.shape[0], "columns": list(table.columns),
                 "left_out": table.left_out, "types": [] if table.schema is None else table.schema.plain(),
                 "notes": list(table.notes)},
        "scale": scale,
        "parameters": parameters,
    }  # fmt: skip
    with contextlib.ExitStack() as files:  # opened first: a file that cannot be written is reported at once
        model_file = None if out is None else files.enter_context(whole_file(out, "wb"))
        labels_file = None if labels_path is None else files.enter_context(whole_file(labels_path, "wb"))
        started = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = estimator(**parameters).fit(table.X if sparse else preparation.apply(table.X))
        summary |= {"seconds": time.perf_counter() - started, **_result(model)}
        summary["warnings"] = [str(each.message) for each in caught]
        if model_file is not None:
            summary |= {"out": str(out), "sha256": write(model, model_file, preparation=preparation)}
            summary["bytes"] = model_file.tell() if model_file.seekable() else None
        if labels_file is not None:
            assert labels_path is not None
            _write_labels(LabelsFile(labels_file, labels_path), table, id_column, model)
            summary["labels"] = str(labels_path)
    _report(summary, table, out, labels_path, quiet, as_json)


def _report(
    summary: dict[str, Any], table: Table | None, out: Path | None, labels: Path | None, quiet: bool, as_json: bool
) -> None:
    err = STANDARD in (str(out), str(labels))  # standard output has something else to carry
    if as_json:
        click.echo(json_text(summary), err=err)
    elif not quiet:
        _print_summary(summary, table, err=err)


_names = ", ".join(_method_names())
command.help = (command.help or "").format(methods=_names)


def _fit_streamed(
    table: StreamedTable,
    estimator: Any,
    parameters: dict[str, Any],
    scale: str,
    method: str,
    out: Path | None,
    labels: Path | None,
    computing: _engine.Computing,
    client: Any,
) -> dict[str, Any]:
    """Fit a table in blocks, and return the summary."""
    import numpy as np

    from knoll.models._streamed import prepare_blocks
    from knoll.models._write import write

    model = estimator(**parameters)
    passes = table.passes(estimator(**parameters), model._threads(), client)
    rows = passes.rows
    preparation = prepare_blocks(passes, table.blocks.columns, scale)
    del passes  # the workers need not keep the rows as they were
    with contextlib.ExitStack() as files:
        model_file = None if out is None else files.enter_context(whole_file(out, "wb"))
        labels_file = None if labels is None else files.enter_context(whole_file(labels, "wb"))
        started = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit_blocks(table.scaled(preparation), engine=computing.checked(client))
        summary = _streamed_summary(table, rows, model, method, scale, parameters, [computing.note])
        summary |= {"seconds": time.perf_counter() - started, "warnings": [str(each.message) for each in caught]}
        if model_file is not None:
            summary |= {"out": str(out), "sha256": write(model, model_file, preparation=preparation)}
            summary["bytes"] = model_file.tell() if model_file.seekable() else None
        if labels_file is not None:
            assert labels is not None
            written = LabelsFile(labels_file, labels)
            first = 0
            for block in table.scaled(preparation)():
                written.write(np.arange(first, first + len(block)), "row", {"label": model.predict(block)})
                first += len(block)
            written.close()
            summary["labels"] = str(labels)
    return summary


def _streamed_summary(
    table: StreamedTable,
    rows: int,
    model: Any,
    method: str,
    scale: str,
    parameters: dict[str, Any],
    notes: list[str],
) -> dict[str, Any]:
    """Return what is said of a fit in blocks."""
    return {
        "method": method,
        "class": type(model).__name__,
        "data": {"name": table.name, "rows": rows, "columns": list(table.blocks.columns), "left_out": {}, "types": [],
                 "notes": [table.note, *filter(None, notes)]},
        "scale": scale,
        "parameters": parameters,
        **_result(model),
    }  # fmt: skip


def _writes_labels(estimator: Any) -> bool:
    """Return whether the method finds the labels of a table in blocks itself, on scratch, instead of a model."""
    fit_blocks = getattr(estimator, "fit_blocks", None)
    return fit_blocks is not None and "labels" in inspect.signature(fit_blocks).parameters


def _refuse_for_regions(estimator: Any, out: Path | None, computing: _engine.Computing) -> None:
    name = estimator.__name__
    if out is not None:
        raise click.ClickException(
            f"{name} of a table in blocks gives labels and keeps no model. Leave --out out, or fit a sample of the "
            "rows, which predicts."
        )
    if computing.option is not None:
        raise click.ClickException(f"{name} reads blocks in this process alone. Leave {computing.option} out.")


def _fit_regions(
    table: StreamedTable,
    estimator: Any,
    parameters: dict[str, Any],
    scale: str,
    method: str,
    labels: Path | None,
    into_folder: bool,
    memory: int | None,
    scratch: Path | None,
) -> dict[str, Any]:
    """Label a table in blocks, region by region, and return the summary."""
    from knoll.models._streamed import prepare_blocks

    model = estimator(**parameters)
    preparation = prepare_blocks(table.passes(estimator(**parameters), model._threads()), table.blocks.columns, scale)
    with contextlib.ExitStack() as files:
        target: Any = labels if into_folder else _Discarded()
        if labels is not None and not into_folder:
            target = _Appended(LabelsFile(files.enter_context(whole_file(labels, "wb")), labels))
        started = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit_blocks(table.scaled(preparation), labels=target, form="parquet", memory=memory, scratch=scratch)
        if isinstance(target, _Appended):
            target.file.close()
        found = model.regions_
        note = f"clustered in {plural(found['regions'], 'region')}, with {found['halo_rows']} rows in halos"
        summary = _streamed_summary(table, found["rows"], model, method, scale, parameters, [note])
        summary |= {"seconds": time.perf_counter() - started, "warnings": [str(each.message) for each in caught]}
    return summary if labels is None else summary | {"labels": str(labels)}


class _Discarded:
    """Where labels go that nobody wants: without it they would be kept in memory."""

    def __call__(self, labels: Any) -> None:
        pass


class _Appended:
    """Labels that come in the order of the rows, appended to a file."""

    def __init__(self, file: LabelsFile) -> None:
        self.file = file

    def __call__(self, labels: Any) -> None:
        import numpy as np

        rows = np.arange(self.file.rows, self.file.rows + len(labels))
        self.file.write(rows, "row", {"label": labels})


def _takes_sparse(estimator: Any) -> bool:
    return bool(estimator().__sklearn_tags__().input_tags.sparse)


def _parameters(estimator: Any, params: tuple[str, ...], seed: int, jobs: int | None, scale: str) -> dict[str, Any]:
    """Parse NAME=VALUE pairs, and check the names against those of the class."""
    known = estimator().get_params()
    parameters: dict[str, Any] = {}
    if "random_state" in known:
        parameters["random_state"] = seed
    if jobs is not None:
        parameters["n_jobs"] = jobs
    for pair in params:
        name, equals, text = (piece.strip() for piece in pair.partition("="))
        if not equals:
            raise click.UsageError(f"--param takes NAME=VALUE, got '{pair}'.", click.get_current_context())
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            raise click.UsageError(f"{estimator.__name__} has no parameter '{name}'.{hint} It has: {', '.join(known)}.")
        parameters[name] = _options.parse_value(text)
    for name, value in parameters.items():
        if isinstance(value, str) and value.startswith("precomputed") and scale != "none":
            raise click.UsageError(f"{name}={value} needs columns that are not scaled. Add --scale none.")
    return parameters


def _result(model: Any) -> dict[str, Any]:
    """Return clusters and iterations, where the method has them."""
    import numpy as np

    found: dict[str, Any] = {}
    if hasattr(model, "cluster_sizes_"):  # of a table in blocks, whose labels are in files
        sizes = model.cluster_sizes_.tolist()
        found |= {"clusters": len(sizes), "sizes": sizes, "noise": model.regions_["noise"]}
    elif hasattr(model, "labels_"):
        clusters, counts = np.unique(model.labels_[model.labels_ >= 0], return_counts=True)
        found |= {"clusters": len(clusters), "sizes": counts.tolist(), "noise": int((model.labels_ < 0).sum())}
    if hasattr(model, "n_iter_"):
        found["iterations"] = int(model.n_iter_)
    return found


def _write_labels(file: LabelsFile, table: Table, id_column: str | None, model: Any) -> None:
    from knoll.tables.geojson import degrees_of

    ids = table.rows if table.ids is None else table.ids
    file.write(ids, id_column or "row", {"label": model.labels_}, degrees_of(table))
    file.close()


def _print_summary(summary: dict[str, Any], table: Table | None, err: bool) -> None:
    from knoll.cli._data import shape

    scaled = "" if summary["scale"] == "none" else f"; scaled ({summary['scale']})"
    facts = summary["data"]
    size = f"{facts['name']}: {plural(facts['rows'], 'row')}, {plural(len(facts['columns']), 'column')}"
    echo(f"{size if table is None else shape(table)}{scaled}", err=err)
    for note in facts["notes"]:
        echo(f"  {note}", err=err)
    parameters = ", ".join(f"{name}={value!r}" for name, value in summary["parameters"].items())
    result = [f"{summary['seconds']:.2f} s"]
    if "clusters" in summary:
        sizes = summary["sizes"]
        shown = ", ".join(map(str, sizes[:10])) + (", …" if len(sizes) > 10 else "")
        noise = f" and {plural(summary['noise'], 'row')} of noise" if summary["noise"] else ""
        result.insert(0, f"{plural(summary['clusters'], 'cluster')}{f' ({shown} rows)' if sizes else ''}{noise}")
    echo(f"{summary['class']}({parameters}): {', '.join(result)}", err=err)
    for warning in summary["warnings"]:
        echo(f"note: {' '.join(warning.split())}", err=True)
    if "out" in summary:
        written = "" if summary["bytes"] is None else f"{byte_size(summary['bytes'])}, "
        echo(f"{summary['out']}: {written}SHA-256 {summary['sha256'][:16]}…", err=err)
    if "labels" in summary:
        echo(f"{summary['labels']}: {plural(summary['data']['rows'], 'label')}", err=err)
