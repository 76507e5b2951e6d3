"""The files of ``knoll compare``: the report, labels, models, and a summary of it all."""

from __future__ import annotations

import contextlib
import json
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from knoll import __version__
from knoll.compare import Comparison, Event
from knoll.exceptions import ModelFileError
from knoll.models import Preparation, save
from knoll.report.comparison import comparison_page

if TYPE_CHECKING:
    from knoll.cli._table import Table

__all__ = ["write_results"]

_RELATIONS = 0.05  # of the budget goes to the report's certificates,
_MOST_SECONDS = 6.0  # and no more than this


def _write(
    found: Comparison,
    table: Table,
    facts: list[str],
    line: str,
    scratch: Path,
    form: str,
    missing: str,
    id_column: str | None,
    show: Show,
) -> dict[str, Any]:
    """Write everything into the scratch folder and return the summary."""
    from knoll import __version__
    from knoll.compare import Event
    from knoll.report.comparison import comparison_page

    def tell(text: str) -> None:
        show(Event("report", text, 1.0, None, _memory()))

    page = comparison_page(
        found, table.X, name=table.name, ids=table.rows if table.ids is None else table.ids, truth=table.truth,
        facts=facts, command=line, seconds=min(_MOST_SECONDS, _RELATIONS * found.budget), done=tell,
    )  # fmt: skip
    (scratch / "report.html").write_text(page, encoding="utf-8")
    tell("labels")
    _write_labels(found, table, id_column or "row", scratch / f"labels.{form}")
    tell("models")
    with _named_by_result(scratch):
        _write_models(found, table, missing, scratch / "models")
    summary = {
        "knoll": __version__, "command": line,
        "data": {"name": table.name, "rows": len(table.X), "columns": list(table.columns),
                 "left_out": table.left_out, "facts": facts},
        "files": {"report": "report.html", "labels": f"labels.{form}",
                  "models": {name: f"models/{name}.knoll" for name in found.candidates}},
        **found.summary(),
    }  # fmt: skip
    text = json.dumps(summary, indent=1, ensure_ascii=False, allow_nan=False)
    (scratch / "summary.json").write_text(text + "\n", encoding="utf-8")
    return summary


def _write_labels(found: Comparison, table: Table, id_name: str, path: Path) -> None:
    """One row for each of the table's: what names it, the label by every method, the mixture's probabilities."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    columns: dict[str, Any] = {}
    for name, candidate in found.candidates.items():
        columns[name] = candidate.labels
    for name, candidate in found.candidates.items():
        shares = candidate.probabilities
        for c in range(0 if shares is None else shares.shape[1]):
            columns[f"{name}-p{c}"] = shares[:, c]  # type: ignore[index]
    while id_name in columns:
        id_name += "'"
    ids = table.rows if table.ids is None else table.ids
    labels = pa.table({id_name: pa.array(ids), **{name: pa.array(values) for name, values in columns.items()}})
    if path.suffix == ".csv":
        with path.open("wb") as file:
            pa.csv.write_csv(labels, file)
    else:
        with path.open("wb") as file:
            pa.parquet.write_table(labels, file, compression="zstd")


def _write_models(found: Comparison, table: Table, missing: str, folder: Path) -> None:
    """One file a method; each remembers columns and scales, so that knoll predict does the same to new rows."""
    import numpy as np

    from knoll.models import Preparation, save

    scaling = found.scaling
    medians = [float(np.median(column)) for column in table.X.T]
    numbers = {"center": scaling.centre, "spread": scaling.spread, "fill": medians}
    made = Preparation(
        columns=table.columns, scale=scaling.kind, missing=missing,
        **{name: tuple(float(value) for value in values) for name, values in numbers.items()},
    )  # fmt: skip
    folder.mkdir()
    for name, candidate in found.candidates.items():
        save(candidate.model, folder / f"{name}.knoll", preparation=made)


@contextlib.contextmanager
def _named_by_result(scratch: Path) -> Iterator[None]:
    """A model that finds no room fails as any other file does: by the disk's reason."""
    from knoll.exceptions import ModelFileError

    try:
        yield
    except ModelFileError as error:
        if isinstance(error.__cause__, OSError):
            raise error.__cause__ from error
        raise


def _memory() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
