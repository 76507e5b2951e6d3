"""What can be taken away: a closed list of files, as a download or in the folder of --out."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from knoll._format import plural, share
from knoll._typing import Bools
from knoll.exceptions import BadData, InvalidParameter
from knoll.explanation.engine import explained
from knoll.explanation.result import Explanation
from knoll.explorer.frozen import Ask, frozen_page
from knoll.explorer.methods import method_of
from knoll.explorer.state import Note
from knoll.models import save
from knoll.neighbors import NearestRows

if TYPE_CHECKING:
    from knoll.explorer.session import Session

__all__ = ["EXPORTS", "export", "offered"]

_SKETCH = 0.9  # fidelity below which a rule is called a sketch
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a cell that begins so is a formula to a spreadsheet


@dataclass(frozen=True)
class Export:
    """A file that can be exported."""

    name: str
    media: str
    make: Callable[[Session], bytes] | None  # None: the page, which is made of the answers to messages
    needs: str = "answer"  # "answer", "selection" or "": what there must be


def offered(session: Session) -> list[dict[str, Any]]:
    """Return every export, and whether it is available now."""
    out = []
    for kind, found in EXPORTS.items():
        reason = _missing(session, found.needs)
        out.append({"kind": kind, "name": found.name, "available": not reason, "reason": reason})
    return out


def _missing(session: Session, needs: str) -> str:
    if needs == "answer" and session.state.answer is None:
        return "nothing has been fitted yet"
    if needs == "selection" and session.state.selection is None:
        return "no row is selected"
    return ""


def export(session: Session, ask: Ask, kind: str = "", to: str = "download") -> tuple[dict[str, Any], dict[str, Any]]:
    """Make a file; into the folder, if the explorer was started with one."""
    found = EXPORTS.get(kind)
    if found is None:
        raise InvalidParameter(f"kind must be one of {', '.join(EXPORTS)}, got {kind!r:.60}.")
    if reason := _missing(session, found.needs):
        raise BadData(f"{reason}, so there is nothing to export.")
    data = frozen_page(session, ask) if found.make is None else found.make(session)
    facts: dict[str, Any] = {"name": found.name, "media": found.media, "bytes": len(data), "path": None}
    if to != "folder":
        return facts, {"file": np.frombuffer(data, dtype=np.uint8)}
    if session.out is None:
        raise BadData("the explorer was started without --out, so it writes no files. Download it instead.")
    session.out.mkdir(parents=True, exist_ok=True)
    target = session.out / found.name
    with tempfile.NamedTemporaryFile(dir=session.out, prefix=f".{found.name}.", delete=False) as file:
        file.write(data)
    Path(file.name).replace(target)  # at no time is there half a file
    return facts | {"path": str(target)}, {}


# ---- tables --------------------------------------------------------------------------------------------------------


def _columns(session: Session, mask: Bools | None = None) -> dict[str, Any]:
    """Return the id, the cluster, its name and how it was made, for every row."""
    source, every = session.source, slice(None) if mask is None else mask
    ids = np.arange(len(source)) if source.ids is None else source.ids
    found: dict[str, Any] = {"id": ids[every]}
    answer = session.state.answer
    if answer is None:
        return found
    labels = answer.labels[every]
    levels, at = np.unique(labels, return_inverse=True)
    notes = [answer.notes.get(int(label), Note()) for label in levels]
    texts = {"name": [note.name for note in notes], "by_hand": [note.by_hand for note in notes]}
    return found | {"cluster": labels} | {name: np.array(one, dtype=object)[at] for name, one in texts.items()}


def _as_csv(columns: dict[str, Any]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in zip(*(column.tolist() for column in columns.values())):
        writer.writerow([_cell(cell) for cell in row])
    return text.getvalue().encode("utf-8", errors="replace")


def _cell(cell: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


def _labels_csv(session: Session) -> bytes:
    return _as_csv(_columns(session))


def _labels_parquet(session: Session) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet

    columns = _columns(session)
    if columns["id"].dtype == object:
        columns["id"] = [str(one) for one in columns["id"]]
    facts = {"knoll.attempts": str(session.attempts), "knoll.answer": session.answer.python or session.answer.id}
    file = io.BytesIO()
    table = pa.table({name: pa.array(column) for name, column in columns.items()})
    pyarrow.parquet.write_table(table.replace_schema_metadata(facts), file)
    return file.getvalue()


def _selection_csv(session: Session) -> bytes:
    assert session.state.selection is not None
    mask = session.state.selection.mask
    rows = np.flatnonzero(mask)
    columns = {"row": rows, **_columns(session, mask)}
    for column in session.source.columns.described:
        name = column.name if column.name not in columns else f"{column.name} (column)"
        columns[name] = np.array([column.text(int(row)) for row in rows], dtype=object)
    return _as_csv(columns)


# ---- models, rules and scripts ---------------------------------------------------------------------------------------


def _model(session: Session) -> bytes:
    answer, source = session.answer, session.source
    own = not answer.by_hand and answer.origin != "given"
    prepared = source.scaling
    if own:
        model = answer.model if answer.model is not None else session.fits.model_of(answer)
        mixed = answer.method in ("mixed-mixture", "k-prototypes") and method_of(answer.method).mixed
        prepared = source.scaling.with_codes() if mixed else prepared
    if not own or not hasattr(model, "predict"):
        model = NearestRows(n_jobs=source.n_jobs).fit(source.points, answer.labels)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.knoll"
        save(model, path, preparation=prepared)
        return path.read_bytes()


def rules(session: Session) -> Explanation:
    """Explain the clusters that are shown by a tree."""
    source, answer = session.source, session.answer
    if not source.columns.described:
        raise BadData("every column has a single value, so there is no rule.")
    names = {label: note.name for label, note in answer.notes.items() if note.name}
    return explained(
        answer.labels,
        source.columns,
        weights=np.ones(len(source)),
        names=names,
        ids=np.arange(len(source)),
        rows=0,
        seed=source.seed,
        points=source.points,
    )


def _rule(session: Session, mark: str, write: Callable[[Explanation], str]) -> bytes:
    found = rules(session)
    title = "A sketch of the clusters" if found.fidelity < _SKETCH else "A rule for the clusters"
    facts = [
        f"{title}: it gives {share(found.fidelity)} of the rows their cluster.",
        f"Written by knoll's explorer; {plural(session.attempts, 'setting')} tried.",
        *(f"Cluster {label} was made by hand." for label, note in session.answer.notes.items() if note.by_hand),
    ]
    return "\n".join([*(f"{mark} {fact}" for fact in facts), write(found), ""]).encode("utf-8", errors="replace")


def _sql(session: Session) -> bytes:
    return _rule(session, "--", lambda found: found.to_sql())


def _python(session: Session) -> bytes:
    return _rule(session, "#", lambda found: found.to_python())


def _script(session: Session) -> bytes:
    return session.script().encode("utf-8", errors="replace")


EXPORTS: dict[str, Export] = {
    "labels.csv": Export("labels.csv", "text/csv", _labels_csv),
    "labels.parquet": Export("labels.parquet", "application/vnd.apache.parquet", _labels_parquet),
    "selection.csv": Export("selection.csv", "text/csv", _selection_csv, "selection"),
    "model": Export("model.knoll", "application/octet-stream", _model),
    "script": Export("exploration.py", "text/x-python", _script, ""),
    "sql": Export("clusters.sql", "text/plain", _sql),
    "python": Export("clusters.py", "text/x-python", _python),
    "page": Export("exploration.html", "text/html", None, ""),
}
