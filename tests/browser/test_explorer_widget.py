"""The widget's front end in a browser: the bundle as a module of anywidget, and a model that speaks to Python."""

from __future__ import annotations

import base64
import queue
import time
from pathlib import Path

import numpy as np
import pytest

import knoll
from knoll import KMeans

WEB = Path(knoll.__file__).parent / "explorer/web"
# What anywidget gives to render: messages go to Python with their buffers, and come back as msg:custom with DataViews.
HOST = """async (source) => {
  const module = await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
  const heard = new Set(), text = (view) => {
    const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
    return btoa(String.fromCharCode(...bytes));
  };
  window.deliver = (content, buffers) => {
    const bytes = (one) => Uint8Array.from(atob(one), (letter) => letter.charCodeAt(0)).buffer;
    heard.forEach((listener) => listener(content, buffers.map((one) => new DataView(bytes(one)))));
  };
  const model = {
    get: () => undefined, set() {}, save_changes() {},
    on: (event, listener) => { if (event === "msg:custom") heard.add(listener); },
    off: (event, listener) => heard.delete(listener),
    send: (content, callbacks, buffers = []) => window.toKernel(content, buffers.map(text)),
  };
  window.leave = module.default.render({ model, el: document.getElementById("cell") });
}"""


def test_a_cell_of_a_notebook(browser):
    module = pytest.importorskip("knoll.explorer.widget", reason="anywidget is not installed")
    widget = module.ExplorerWidget(knoll.explore("iris", show=False))
    messages, sent = [], queue.SimpleQueue()
    widget.send = lambda content, buffers=None: sent.put((content, buffers or []))
    page = browser.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.expose_function("toKernel", lambda content, buffers: messages.append((content, buffers)))
    page.set_content('<div id="cell"></div>')
    page.add_style_tag(path=WEB / "explorer.css")
    page.evaluate(HOST, (WEB / "explorer.js").read_text(encoding="utf-8"))

    def pump(done, seconds=20.0):
        """Carry messages both ways until something holds."""
        end = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < end, page.inner_text("body")
            page.wait_for_timeout(10)
            while messages:
                content, buffers = messages.pop(0)
                widget._hear(widget, content, [base64.b64decode(one) for one in buffers])
            while not sent.empty():
                content, buffers = sent.get()
                page.evaluate(
                    "([content, buffers]) => deliver(content, buffers)",
                    [content, [base64.b64encode(one).decode() for one in buffers]],
                )

    pump(lambda: page.query_selector(".kx[data-state=open]"))
    page.select_option("[data-key=method]", "kmeans")
    pump(lambda: page.query_selector("[data-key=cluster-1]") is not None)
    plain = KMeans(2, n_init=2, random_state=0).fit(widget.session.source.points).labels_
    np.testing.assert_array_equal(widget.labels, plain)  # the next cell sees what the page shows
    page.click("[data-key=tool-box]")
    box = page.query_selector("[data-key=map]").bounding_box()
    page.mouse.move(box["x"] + 3, box["y"] + 3)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 3, box["y"] + box["height"] - 3)
    page.mouse.up()
    pump(lambda: page.query_selector(".kx-selection h2") and "150 rows" in page.inner_text(".kx-selection h2"))
    widget.session.undo()  # a cell changes what the widget shows
    pump(lambda: "Nothing is selected" in page.inner_text(".kx-selection"))
    page.evaluate("leave()")
    assert page.query_selector(".kx") is None
    assert complaints == []
    widget.runner.close()
    page.close()
