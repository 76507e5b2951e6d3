"""``knoll predict``: new rows through a model file, piece by piece, so that a table may be larger than memory."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from knoll._format import listed, plural
from knoll.cli import _options
from knoll.cli._files import STANDARD, whole_file
from knoll.cli._output import FORMS, LabelsFile, check_outputs
from knoll.cli._terminal import echo, json_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from knoll._typing import Bools, Floats
    from knoll.models import Model
    from knoll.tables import MissingValues, Piece, Reading, TableSource


@click.command("predict")
@click.argument("model", type=click.Path(path_type=Path), metavar="MODEL")
@_options.table_argument()
@_options.columns("Use these columns instead of those of the model, in its order.")
@_options.reading()
@_options.missing("What to do about missing values, and about categories that the fit did not have; as in the fit if "
                  "not given.")  # fmt: skip
@_options.id_column()
@click.option("--proba", is_flag=True, help="Add the probability of each cluster, where the model has it.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", default=STANDARD, show_default=True,
              help="Write the labels to this file, as CSV or, by its name, Parquet or GeoJSON; - is standard "
                   "output.")  # fmt: skip
@click.option("--format", "form", type=click.Choice(FORMS),
              help="Format of the labels, whatever the name of the file.")  # fmt: skip
@_options.jobs("Threads; as in the fit if not given. The result is the same.")
@_options.force()
@_options.quiet()
@_options.as_json()
def command(
    model: Path,
    data: str,
    columns: str | None,
    reading: Reading,
    missing: str | None,
    id_column: str | None,
    proba: bool,
    out: Path,
    form: str | None,
    jobs: int | None,
    force: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Label new data by a model, in bounded memory.

    MODEL is a file that knoll fit, knoll compare or knoll.save wrote. DATA is a file (CSV, TSV, JSON lines,
    Excel, Parquet, Feather, NPY, NPZ, Matrix Market, AnnData; text also .gz and .zst), "-" for standard input, or the
    name of a built-in data set; it is read and labelled piece by piece. Columns are found by their names and converted
    and scaled as in the fit. A model of one Gaussian gives densities.

    \b
    Example:
      knoll predict flowers.knoll tomorrow.csv --out labels.csv
    """
    check_outputs(out, force=force, inputs=[model, data])
    from knoll import models
    from knoll.cli._data import open_data
    from knoll.models._relabeled import bare

    started = time.perf_counter()
    read = models.read(model)
    class_name = type(bare(read.estimator)).__name__
    if jobs is not None:
        bare(read.estimator).set_params(n_jobs=jobs)
    if proba and not hasattr(read.estimator, "predict_proba"):
        raise click.ClickException(f"{class_name} has no probabilities. Leave --proba out.")
    if not hasattr(read.estimator, "predict") and not hasattr(read.estimator, "score_samples"):
        raise click.ClickException(
            f"{class_name} labels only the rows of its fit. knoll fit --labels FILE writes them; for new rows take "
            "another method, such as kmeans or dbscan."
        )
    counts: dict[int, int] = {}
    expected = _expected(read, columns, model)
    with open_data(data, reading, [*(expected or ()), *([] if id_column is None else [id_column])]) as source:
        names = _check_names(expected, source, model) if expected else _numeric(read, source, model)
        gaps = _missing_values(read, missing, source.name, names)
        unknown = 0
        with whole_file(out, "wb") as file:
            labels = LabelsFile(file, out, form)
            for piece, strange in _pieces(read, source, names, id_column):
                unknown += strange
                X, keep = gaps.apply(piece.X, piece.first)
                values = _outputs(read, X, proba)
                labels.write(_ids(piece, keep), id_column or "row", values, _degrees(read, piece.X[keep]))
                _count(values, counts)
            labels.close()
    summary: dict[str, Any] = {
        "model": str(model),
        "class": class_name,
        "data": source.name,
        "columns": names,
        "rows": labels.rows,
        "left_out": gaps.rows if gaps.rule == "drop" else 0,
        "filled_in": gaps.values if gaps.rule == "median" else 0,
        "missing": gaps.values,
        "unknown_categories": unknown,
        "counts": {str(label): count for label, count in sorted(counts.items())},
        "out": str(out),
        "seconds": time.perf_counter() - started,
        "notes": list(source.notes),
    }
    if as_json:
        click.echo(json_text(summary), err=str(out) == STANDARD)
    elif not quiet:
        _print_summary(summary, err=str(out) == STANDARD)


def _expected(read: Model, columns: str | None, model: Path) -> list[str] | None:
    """Return the columns to use: those requested, or those that the model stores; None if neither."""
    from knoll.models._relabeled import bare

    schema = None if read.preparation is None else read.preparation.schema
    count = int(read.estimator.n_features_in_) if schema is None else len(schema.used)
    names = vars(bare(read.estimator)).pop("feature_names_in_", None)  # from here on it is given arrays
    if columns is not None:
        requested = _options.parse_columns(columns) or []
        if len(requested) != count:
            raise click.UsageError(f"{model} has {count} columns; --columns names {len(requested)}.")
        return requested
    if schema is not None:
        return [column.name for column in schema.used]
    if read.preparation is not None:
        return list(read.preparation.columns)
    return None if names is None else [str(name) for name in names]


def _check_names(names: list[str], source: TableSource, model: Path) -> list[str]:
    """Return the names; where the table has none of them, the error names the option to go by the order of columns."""
    if set(names).isdisjoint(source.columns) and len(numeric := source.numeric_columns()) == len(names):
        notes = "".join(f" Note: {note}." for note in source.notes)
        order = ",".join(f'"{name}"' if "," in name else name for name in numeric[:12]) + (",…" * (len(numeric) > 12))
        raise click.ClickException(
            f"{model} has the columns {listed(names)}, and {source.name} has none of them. It has: "
            f"{listed(source.columns)}. If they are the same in the same order, add --columns "
            f"{shlex.quote(order)}.{notes}"
        )
    return names


def _numeric(read: Model, source: TableSource, model: Path) -> list[str]:
    """Return all numeric columns, where the model has no names for its own."""
    from knoll.exceptions import BadData

    count = int(read.estimator.n_features_in_)
    numeric = source.numeric_columns()
    if source.head.num_rows == 0:
        raise BadData(f"{source.name} has no rows.")
    if len(numeric) != count:
        raise click.ClickException(
            f"{model} has {count} columns without names, and {source.name} has "
            f"{plural(len(numeric), 'numeric column')}. Name them, in the order of the fit, with --columns."
        )
    return numeric


def _missing_values(read: Model, missing: str | None, name: str, columns: list[str]) -> MissingValues:
    """Return what is done about missing values; medians are those of the fit."""
    from knoll.tables import MissingValues

    made = read.preparation
    rule = missing or (made.missing if made is not None else "error")
    if rule == "median" and made is None:
        raise click.ClickException(
            "the model does not store the medians of its columns, since knoll fit did not write it. "
            "Use --missing drop (leave out such rows)."
        )
    if made is not None and made.schema is not None:
        return made.missing_values(name, rule)
    return MissingValues(rule, name, columns, () if made is None else made.fill)


def _pieces(read: Model, source: TableSource, names: list[str], ids: str | None) -> Iterator[tuple[Piece, int]]:
    """Yield the rows, encoded by the types of the model, and how many categories the fit did not have."""
    from dataclasses import replace

    from knoll.tables import Schema

    schema = None if read.preparation is None else read.preparation.schema
    if schema is None:
        return ((piece, 0) for piece in source.pieces(names, ids))
    renamed = zip(schema.used, names, strict=True)
    return source.typed_pieces(Schema(tuple(replace(column, name=name) for column, name in renamed)), ids)


def _ids(piece: Piece, keep: Bools) -> Any:
    """Return the ids of the rows that are kept."""
    import numpy as np
    import pyarrow as pa

    if piece.ids is None:
        return piece.first + np.flatnonzero(keep)
    return piece.ids.filter(pa.array(keep))


def _degrees(read: Model, X: Floats) -> Floats | None:
    """Return longitude and latitude of rows, where the model has them."""
    from knoll.tables.geojson import degrees_in

    return None if read.preparation is None else degrees_in(read.preparation.schema, X)


def _outputs(read: Model, X: Floats, proba: bool) -> dict[str, NDArray[Any]]:
    """Return the label of each row and, if requested, its probabilities; densities where there are no labels."""
    import numpy as np

    from knoll.models._relabeled import n_labels

    model = read.estimator
    points = X if read.preparation is None else read.preparation.apply(X)
    if not len(points):  # all rows of the piece were left out; an estimator needs one at least
        points = np.zeros((1, X.shape[1]))
    if not hasattr(model, "predict"):
        values = {"log_density": model.score_samples(points), "mahalanobis": model.mahalanobis(points)}
    else:
        values = {"label": model.predict(points).astype(np.int64)}
        if proba:
            shares = model.predict_proba(points)
            for c in range(shares.shape[1]):
                values[f"p_{c}" if c < n_labels(model) else "p_noise"] = shares[:, c]
    return {name: value[: len(X)] for name, value in values.items()}


def _count(values: dict[str, NDArray[Any]], counts: dict[int, int]) -> None:
    import numpy as np

    for label, count in zip(*np.unique(values.get("label", np.empty(0, int)), return_counts=True)):
        counts[int(label)] = counts.get(int(label), 0) + int(count)


def _print_summary(summary: dict[str, Any], err: bool) -> None:
    notes = [f"{plural(summary['rows'], 'row')} in {summary['seconds']:.2f} s"]
    if summary["counts"]:
        noise = summary["counts"].get("-1", 0)
        notes.append(plural(len(summary["counts"]) - (noise > 0), "cluster"))
        notes += [f"{plural(noise, 'row')} of noise"] if noise else []
    notes += [f"{plural(summary['left_out'], 'row')} with missing values left out"] if summary["left_out"] else []
    if summary["missing"] and not summary["left_out"]:
        notes.append(f"{plural(summary['missing'], 'missing value')}{' filled in' * bool(summary['filled_in'])}")
    if summary["unknown_categories"]:
        notes.append(f"{summary['unknown_categories']} of them in a category that the fit did not have")
    for note in summary["notes"]:
        echo(f"{summary['data']}: {note}", err=err)
    target = "" if summary["out"] == STANDARD else f" → {summary['out']}"
    echo(f"{summary['data']} by {summary['class']}{target}: {', '.join(notes)}", err=err)
