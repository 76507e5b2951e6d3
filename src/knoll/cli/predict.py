"""``knoll predict``: new rows through a model file, piece by piece, so that a table may be larger than memory."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from knoll.cli._files import STANDARD, whole_file
from knoll.cli._output import LabelsFile, header_option, listed, read_columns, refuse_existing, some
from knoll.cli._terminal import echo, json_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from knoll.models import Model
    from knoll.tables.text import Piece, Stream

__all__ = ["command"]


@click.command("predict")
@click.argument("model", type=click.Path(path_type=Path), metavar="MODEL")
@click.argument("data", type=click.Path(allow_dash=True), metavar="DATA")
@click.option("--columns", metavar="A,B,…", help="Use these columns in the place of the model's, in its order.")
@header_option
@click.option("--missing", type=click.Choice(["error", "drop", "median"]),
              help="What to do about missing values; as in the fit if not given.")  # fmt: skip
@click.option(
    "--id", "id_column", metavar="COLUMN", help="Column that identifies rows; the row number, from 0, if not given."
)
@click.option("--proba", is_flag=True, help="Add the probability of each cluster, where the model has it.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", default=STANDARD, show_default=True,
              help="Write the labels here, as CSV or, if so named, Parquet; - is standard output.")  # fmt: skip
@click.option("--format", "form", type=click.Choice(["csv", "parquet"]), help="Whatever the name of the file says.")
@click.option("--jobs", type=int, help="Threads; as in the fit if not given. The result is the same.")
@click.option("--force", is_flag=True, help="Replace a file that is there already.")
@click.option("--quiet", is_flag=True, help="Print errors only.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def command(
    model: Path,
    data: str,
    columns: str | None,
    header: bool | None,
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

    MODEL is a file that knoll fit, knoll compare or knoll.save wrote. DATA is a file (CSV, TSV, Parquet, Feather, NPY,
    NPZ, also .gz and .zst), "-" for standard input, or the name of a built-in data set; it is read and labelled piece
    by piece. Columns are found by their names and scaled as in the fit. A model of one Gaussian gives densities.

    \b
    Example:
      knoll predict flowers.knoll tomorrow.csv --out labels.csv
    """
    refuse_existing(out, force=force, inputs=[model, data])
    from knoll import models
    from knoll.models._relabeled import bare
    from knoll.tables.text import open_stream

    begun = time.perf_counter()
    read = models.read(model)
    kind = type(bare(read.estimator)).__name__
    if jobs is not None:
        bare(read.estimator).set_params(n_jobs=jobs)
    if proba and not hasattr(read.estimator, "predict_proba"):
        raise click.ClickException(f"{kind} knows no probabilities. Leave --proba out.")
    counts: dict[int, int] = {}
    named = _named(read, columns, model)
    with open_stream(data, header, [*(named or ()), *([] if id_column is None else [id_column])]) as stream:
        gaps = _Gaps(read, missing, stream.name)
        wanted = _found(named, stream, model) if named else _numeric(read, stream, model)
        with whole_file(out, "wb") as file:
            labels = LabelsFile(file, out, form)
            for piece in stream.read(wanted, id_column):
                X, keep = gaps.fill(piece, wanted)
                values = _answers(read, X, proba)
                labels.write(_names(piece, keep), id_column or "row", values)
                _count(values, counts)
            labels.close()
    summary: dict[str, Any] = {
        "model": str(model),
        "class": kind,
        "data": stream.name,
        "columns": wanted,
        "rows": labels.rows,
        "left_out": gaps.dropped,
        "filled_in": gaps.filled,
        "counts": {str(label): count for label, count in sorted(counts.items())},
        "out": str(out),
        "seconds": time.perf_counter() - begun,
        "notes": list(stream.notes),
    }
    if as_json:
        click.echo(json_text(summary), err=str(out) == STANDARD)
    elif not quiet:
        _show(summary, err=str(out) == STANDARD)


def _named(read: Model, columns: str | None, model: Path) -> list[str] | None:
    """Return the names of the columns to take: those asked for, or those that the model remembers; None if neither."""
    from knoll.models._relabeled import bare

    count = int(read.estimator.n_features_in_)
    names = vars(bare(read.estimator)).pop("feature_names_in_", None)  # what it is given from here on are arrays
    if columns is not None:
        wanted = read_columns(columns) or []
        if len(wanted) != count:
            raise click.UsageError(f"{model} takes {count} columns; --columns names {len(wanted)}.")
        return wanted
    if read.preparation is not None:
        return list(read.preparation.columns)
    return None if names is None else [str(name) for name in names]


def _found(names: list[str], stream: Stream, model: Path) -> list[str]:
    """Return the names if the table has them; where it has none of them, say how to go by the order of columns."""
    there: list[str] = stream.look.column_names
    if set(names).isdisjoint(there) and len(numeric := stream.numeric()) == len(names):
        notes = "".join(f" Note: {note}." for note in stream.notes)
        order = ",".join(f'"{name}"' if "," in name else name for name in numeric[:12]) + (",…" * (len(numeric) > 12))
        raise click.ClickException(
            f"{model} takes the columns {listed(names)}, and {stream.name} has none of them. It has: {listed(there)}. "
            f"If they are the same in the same order, add --columns {shlex.quote(order)}.{notes}"
        )
    return names


def _numeric(read: Model, stream: Stream, model: Path) -> list[str]:
    """Return all columns that are numbers, where the model has no names for its own."""
    from knoll.exceptions import BadData

    count = int(read.estimator.n_features_in_)
    numeric = stream.numeric()
    if stream.look.num_rows == 0:
        raise BadData(f"{stream.name} has no rows.")
    if len(numeric) != count:
        raise click.ClickException(
            f"{model} takes {count} columns without names, and {stream.name} has {len(numeric)} of numbers. "
            "Name them, in the order of the fit, with --columns."
        )
    return numeric


class _Gaps:
    """What is done about missing values, by the model's medians where they are to be filled in."""

    def __init__(self, read: Model, missing: str | None, name: str) -> None:
        made = read.preparation
        self.rule = missing or (made.missing if made is not None else "error")
        self._medians = () if made is None else made.fill
        self._name, self.dropped, self.filled = name, 0, 0
        if self.rule == "median" and made is None:
            raise click.ClickException(
                "the model does not know the medians of its columns, since knoll fit did not make it. "
                "Use --missing drop (leave those rows out)."
            )

    def fill(self, piece: Piece, columns: list[str]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return rows without gaps, and which rows of the piece they are."""
        import numpy as np

        from knoll.exceptions import BadData

        gaps = ~np.isfinite(piece.X)
        keep = np.ones(len(piece.X), dtype=bool)
        if not gaps.any():
            return piece.X, keep
        if self.rule == "error":
            row, column = (int(first) for first in np.argwhere(gaps)[0])
            raise BadData(
                f"{self._name} has a missing value in row {piece.first + row + 1}, column {columns[column]!r}. "
                "Use --missing drop (leave such rows out) or --missing median (fill in the median of the fit)."
            )
        if self.rule == "drop":
            keep = np.logical_not(gaps.any(axis=1))
            self.dropped += int((~keep).sum())
            return piece.X[keep], keep
        self.filled += int(gaps.sum())
        return np.where(gaps, self._medians, piece.X), keep


def _names(piece: Piece, keep: NDArray[np.bool_]) -> Any:
    """Return what names the rows that are kept."""
    import numpy as np
    import pyarrow as pa

    if piece.ids is None:
        return piece.first + np.flatnonzero(keep)
    return piece.ids.filter(pa.array(keep))


def _answers(read: Model, X: NDArray[np.float64], proba: bool) -> dict[str, NDArray[Any]]:
    """Return the label of each row and, if asked for, its probabilities; densities where there is nothing to label."""
    import numpy as np

    from knoll.models._relabeled import n_labels

    model = read.estimator
    points = X if read.preparation is None else read.preparation.apply(X)
    if not len(points):  # a piece whose rows were all left out; an estimator wants one at least
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


def _show(summary: dict[str, Any], err: bool) -> None:
    notes = [f"{some(summary['rows'], 'row')} in {summary['seconds']:.2f} s"]
    if summary["counts"]:
        noise = summary["counts"].get("-1", 0)
        notes.append(some(len(summary["counts"]) - (noise > 0), "cluster"))
        notes += [f"{some(noise, 'row')} of noise"] if noise else []
    notes += [f"{some(summary['left_out'], 'row')} with missing values left out"] if summary["left_out"] else []
    notes += [f"{some(summary['filled_in'], 'missing value')} filled in"] if summary["filled_in"] else []
    for note in summary["notes"]:
        echo(f"{summary['data']}: {note}", err=err)
    place = "" if summary["out"] == STANDARD else f" → {summary['out']}"
    echo(f"{summary['data']} by {summary['class']}{place}: {', '.join(notes)}", err=err)
