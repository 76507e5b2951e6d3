"""A session from Python: knoll.explore, Comparison.explore, the widget, and what a notebook shows without either."""

from __future__ import annotations

import queue
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import knoll
from knoll import KMeans
from knoll.exceptions import BadData
from knoll.explorer import hosts
from knoll.explorer.wire import packed


@pytest.fixture(scope="module")
def iris():
    return knoll.datasets.iris()


@pytest.fixture(scope="module")
def found(iris):
    return knoll.compare(iris.X, methods=["kmeans", "dbscan"], progress=False)


def test_labels_of_any_library_are_explored_and_replayed(iris):
    table = pd.DataFrame(iris.X, columns=list("abcd"), index=[f"r{i}" for i in range(150)])
    labels = {"other": iris.y, "names": np.array(["x", "y", "z"])[iris.y]}
    session = knoll.explore(table, labels=labels, show=False)
    np.testing.assert_array_equal(session.labels, iris.y)
    assert session.answer.title == "other"
    assert session.source.id(7) == "r7"
    session.merge([0, 1]).rename(0, "both")
    replayed = {"X": table, "labels": labels}
    exec(session.script(), replayed)  # it has an assertion of its own
    np.testing.assert_array_equal(replayed["labels"], np.where(iris.y == 2, 2, 0))


def test_a_comparison_is_explored_with_its_answers(found):
    session = found.explore(show=False)
    np.testing.assert_array_equal(session.labels, found.labels)
    assert {one.method for one in session.answers()} >= {"kmeans", "dbscan"}
    other = next(one for one in session.answers() if one.id != session.answer.id)
    session.show(other.id)
    replayed = {"found": found}
    exec(session.script(), replayed)
    np.testing.assert_array_equal(replayed["labels"], session.labels)


def test_it_opens_the_browser_and_returns_where_python_is_interactive(iris, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    session = knoll.explore(iris.X, wait=False, browser=True, recommend=False)
    try:
        assert opened[0].startswith("file://")
        assert not session.background.progress["running"]
        with pytest.raises(BadData, match=r"is shown already\. Close it first"):
            hosts.show_session(session, browser=True, wait=False)
    finally:
        session.close()
    assert session.host is None


@pytest.fixture
def widget(iris):
    """A widget with what it sends to the page."""
    module = pytest.importorskip("knoll.explorer.widget", reason="anywidget is not installed")
    made = module.ExplorerWidget(knoll.explore(iris.X, show=False))
    made.sent = queue.SimpleQueue()
    made.send = lambda content, buffers=None: made.sent.put((content, buffers))
    yield made
    made.runner.close()


def answer(widget, content, buffers=()):
    """Send a message as the page does, and return the last frame of its answer."""
    widget._hear(widget, content, list(buffers))
    while True:
        header, arrays = widget.sent.get(timeout=30)
        if header.get("seq") == content["seq"] and header.get("last"):
            return header, dict(zip([one["name"] for one in header["arrays"]], arrays, strict=True))


def test_the_widget_answers_as_the_page_does(widget, iris):
    header, arrays = answer(widget, {"seq": 1, "do": "fit", "method": "kmeans", "parameters": {"n_clusters": 3}})
    plain = KMeans(3, n_init=2, random_state=0).fit(widget.session.source.points).labels_
    np.testing.assert_array_equal(np.frombuffer(arrays["labels"], np.uint16), plain)
    np.testing.assert_array_equal(widget.labels, plain)  # the next cell sees them
    assert header["state"]["answer"]["n_clusters"] == 3
    bits = packed(iris.y == 1)
    entry = {"name": "mask", "dtype": "uint8", "shape": [len(bits)]}
    header, _ = answer(widget, {"seq": 2, "do": "select", "arrays": [entry]}, [memoryview(bits.tobytes())])
    assert header["state"]["selection"]["size"] == 50


@pytest.mark.parametrize(
    ("message", "buffers", "text"),
    [
        ({"seq": 1, "do": "format_disk"}, [], "there is no action"),
        (
            {"seq": 1, "do": "select", "arrays": [{"name": "mask", "dtype": "object", "shape": [1]}]},
            [b"x"],
            "wrong entry",
        ),
        (
            {"seq": 1, "do": "select", "arrays": [{"name": "mask", "dtype": "uint8", "shape": [9]}]},
            [b"x"],
            "wrong entry",
        ),
        ({"seq": 1, "do": "select", "arrays": []}, [b"x"], "other arrays"),
    ],
)
def test_the_widget_refuses_wrong_messages(widget, message, buffers, text):
    header, _ = answer(widget, message, buffers)
    assert (header["kind"], header["code"]) == ("error", "refused")
    assert text in header["message"]


def test_a_notebook_gets_a_widget_and_others_a_browser(monkeypatch):
    assert not hosts.in_notebook()

    shell = SimpleNamespace(config={"IPKernelApp": {}})
    ipython = pytest.importorskip("IPython", reason="IPython is not installed")
    monkeypatch.setattr(ipython, "get_ipython", lambda: shell)
    assert hosts.in_notebook()


def test_estimates_and_certificates_are_static_html(iris, found):
    certificate = knoll.relations.get("mixture-to-kmeans").certify(iris.X, n_clusters=3)
    eps, sigma = knoll.scales.estimate_eps(iris.X), knoll.scales.estimate_sigma(iris.X)
    shown = [one._repr_html_() for one in (certificate, eps, sigma, found)]
    for html in shown:
        assert not re.search(r"<script|<link|https?:|\son\w+=|url\(", html.lower())
    assert f"{eps.eps:.6g}" in eps._repr_html_()
    assert f"{sigma.sigma:.6g}" in sigma._repr_html_()
    text = certificate._repr_html_()
    assert certificate.verdict in text
    assert text.count("<tr>") == 1 + len(certificate.checks)


def test_what_a_certificate_quotes_is_escaped():
    bad = "<img src=x onerror=alert(1)>"
    made = knoll.relations.Certificate(
        bad, bad, (knoll.relations.Check(bad, 0.0, 1.0),), notes=(bad,), numbers={bad: bad}
    )
    assert "<img" not in made._repr_html_()
