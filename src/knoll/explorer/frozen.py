"""The frozen page: one HTML file with the bundle and the recorded answers, which makes no request.

It has at most 20 000 rows, every cluster among them, chosen by the content of the rows. Its policy permits its own
script and style alone, by their digests.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
from collections.abc import Callable, Iterable, Iterator
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from knoll._typing import Ints
from knoll.exceptions import BadData, KnollError
from knoll.explorer.wire import WEB, Frame, encode

if TYPE_CHECKING:
    from knoll.explorer.session import Session

__all__ = ["MOST_ROWS", "Ask", "chosen_rows", "frozen_page"]

MOST_ROWS = 20_000
Ask = Callable[["Session", dict[str, Any]], Iterable[Frame]]  # takes a message and returns the frames of its answer
MOST_BYTES = 5_000_000
_LEAST_OF_EACH = 20  # rows of a cluster, if it has so many
_CLUSTERS = 12  # that are explained
_PER_ROW = ("points", "labels")  # arrays with an entry for each drawn row, along the last axis


def frozen_page(session: Session, ask: Ask) -> bytes:
    """Return the page, with what `ask` answers; where columns are many, fewer rows are drawn."""
    script, style = ((WEB / name).read_text(encoding="utf-8") for name in ("explorer.js", "explorer.css"))
    rows, answers = MOST_ROWS, _answers(session, ask)
    while True:
        data = b"".join(_stream(session, answers, chosen_rows(session, rows)))
        page = _page(script, style, data, session.source.name)
        if len(page) <= MOST_BYTES or rows <= 100:
            break
        rows = max(100, int(rows * 0.9 * (MOST_BYTES - len(script) - len(style)) / len(page)))
    if len(page) > MOST_BYTES:
        raise BadData(f"the page would have {len(page)} bytes; {MOST_BYTES} at most. Leave columns out.")
    return page


def chosen_rows(session: Session, most: int) -> Ints:
    """Return the rows to draw, in order: all, or a sample with some of every cluster."""
    source, answer = session.source, session.state.answer
    rows = source.order if source.drawn is None else source.order[np.isin(source.order, source.drawn)]
    n = len(rows)
    if n <= most:
        return np.sort(rows)
    order = rows[np.random.default_rng([source.seed, 43]).permutation(n)]
    if answer is None:
        return np.sort(order[:most])
    labels = answer.labels[order]
    rank = np.empty(n, dtype=np.int64)  # of a row among those of its cluster
    by_label = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(labels[by_label]) != 0])
    rank[by_label] = np.arange(n) - np.repeat(starts, np.diff(np.r_[starts, n]))
    few = max(1, min(_LEAST_OF_EACH, most // max(1, len(starts))))
    first = np.argsort(rank >= few, kind="stable")[:most]
    return np.sort(order[first])


def _answers(session: Session, ask: Ask) -> list[tuple[dict[str, Any], list[Frame]]]:
    """Return the messages that the page may send, each with the frames of its answer."""
    messages: list[dict[str, Any]] = [{"do": "open"}, {"do": "state"}, {"do": "log"}, {"do": "recommendation"}]
    messages += [{"do": "view", "kind": "principal"}, {"do": "view", "kind": "separating"}]
    if session.state.answer is not None:
        sizes = session.answer.sizes()
        largest = sorted(sizes, key=lambda label: (-sizes[label], label))[:_CLUSTERS]
        messages += [{"do": "compare_groups", "a": {"cluster": label}} for label in sorted(largest)]
    found = []
    for message in messages:
        with contextlib.suppress(KnollError):  # such as a plane that separates one cluster
            found.append((message, list(ask(session, {"seq": 0, **message}))))
    return found


def _stream(session: Session, answers: list[tuple[dict[str, Any], list[Frame]]], rows: Ints) -> Iterator[bytes]:
    """Yield the frames of every answer for the drawn rows alone, each with the message that it answers."""
    for message, frames in answers:
        for frame in frames:
            header = {"seq": 0, "do": message["do"], "kind": frame.kind, "last": frame.last, "ask": message}
            yield from encode({**header, **_fields(frame, rows)}, _arrays(session, frame, rows))


def _fields(frame: Frame, rows: Ints) -> dict[str, Any]:
    fields = dict(frame.fields)
    if "table" in fields:
        fields["table"] = {**fields["table"], "drawn": len(rows), "frozen": True}
    return fields


def _arrays(session: Session, frame: Frame, rows: Ints) -> dict[str, NDArray[Any]]:
    """Return the arrays of a frame for the drawn rows alone."""
    out: dict[str, NDArray[Any]] = {}
    drawn = session.source.drawn
    at = rows if drawn is None else np.searchsorted(drawn, rows)  # positions among the rows that the page draws
    n = len(session.source) if drawn is None else len(drawn)
    for name, array in frame.arrays.items():
        if name in ("selection", "shown"):
            bits = np.unpackbits(array, count=n, bitorder="little")
            out[name] = np.packbits(bits[at], bitorder="little")
        elif name in _PER_ROW:
            out[name] = np.ascontiguousarray(array[..., at])
        elif name != "rows":
            out[name] = array
    if "points" in out and len(rows) < len(session.source):
        out["rows"] = rows.astype(np.int32)
    return out


def _page(script: str, style: str, data: bytes, name: str) -> bytes:
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; img-src blob: data:; "
        "base-uri 'none'; form-action 'none'"
    )
    if "</script" in script.lower() or "</style" in style.lower():
        raise BadData("the bundle of the explorer cannot stand in a page.")
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="referrer" content="no-referrer">',
            f"<title>{escape(name)} · knoll explore</title>",
            f"<style>{style}</style>",
            "</head>",
            "<body>",
            '<div id="knoll" data-page></div>',
            f'<script id="knoll-frozen" type="text/plain">{base64.b64encode(data).decode()}</script>',
            f'<script type="module">{script}</script>',
            "</body>",
            "</html>",
            "",
        ]
    ).encode("utf-8", errors="replace")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
