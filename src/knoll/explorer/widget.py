"""The explorer below a cell of a notebook: the same front end, which speaks to the session by the kernel's messages."""

from __future__ import annotations

import math
from typing import Any

import anywidget
import numpy as np

from knoll.comparison.result import plain
from knoll.exceptions import BadData, KnollError
from knoll.explorer.runner import Busy, Runner, error
from knoll.explorer.session import Session
from knoll.explorer.wire import DTYPES, WEB, Frame

__all__ = ["ExplorerWidget"]


class ExplorerWidget(anywidget.AnyWidget):
    """A session as a widget of Jupyter.

    Parameters
    ----------
    session : Session
        What it shows.
    """

    _esm = WEB / "explorer.js"
    _css = WEB / "explorer.css"

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.runner = Runner(session)
        session.changed = lambda: self._post(kind="state", version=session.version)
        session.background.on_change = self._progress
        self.on_msg(self._hear)

    @property
    def labels(self) -> Any:
        """The labels on screen."""
        return self.session.labels

    def stop(self) -> None:
        """Stop what runs; the page reports that nothing new is computed."""
        self._post(kind="end")
        self.runner.close()

    def _hear(self, _: Any, content: Any, buffers: list[Any]) -> None:
        """Answer a message of the page; the frames are sent by the thread that makes them."""
        message = dict(content) if isinstance(content, dict) else {}
        facts = {"seq": message.get("seq"), "do": message.get("do")}

        def sink(frame: Frame) -> None:
            entries = [
                {"name": name, "dtype": array.dtype.name, "shape": list(array.shape)}
                for name, array in frame.arrays.items()
            ]
            header = {**facts, "kind": frame.kind, "last": frame.last, **frame.fields, "arrays": entries}
            self.send(plain(header), [np.ascontiguousarray(array).tobytes() for array in frame.arrays.values()])

        try:
            self.runner.submit(message, _arrays(message.pop("arrays", []), buffers or []), sink)
        except Busy:
            sink(error("refused", "too many messages wait; try again in a moment."))
        except KnollError as caught:
            sink(error("refused", str(caught)))

    def _post(self, **event: Any) -> None:
        self.send({"event": event})

    def _progress(self) -> None:
        progress = self.session.background.progress
        self._post(**{"kind": "recommend", "done": not progress["running"], **plain(progress)})


def _arrays(entries: Any, buffers: list[Any]) -> dict[str, Any]:
    """Return the arrays of a message by name."""
    if not isinstance(entries, list) or len(entries) != len(buffers):
        raise BadData("the message has other arrays than it lists.")
    found: dict[str, Any] = {}
    for entry, buffer in zip(entries, buffers, strict=True):
        shape = entry.get("shape") if isinstance(entry, dict) else None
        if not isinstance(shape, list) or entry.get("dtype") not in DTYPES or not isinstance(entry.get("name"), str):
            raise BadData(f"the message has a wrong entry of an array: {entry!r:.80}.")
        array = np.frombuffer(buffer, dtype=np.dtype(entry["dtype"]).newbyteorder("<"))
        if not all(type(size) is int and size >= 0 for size in shape) or math.prod(shape) != array.size:
            raise BadData(f"the message has a wrong entry of an array: {entry!r:.80}.")
        found[entry["name"]] = array.reshape(shape)
    return found
