"""One fit at a time: cancelling is quick, a later position of a slider replaces the earlier one."""

from __future__ import annotations

import threading
import time

import httpx
import numpy as np
import pytest

from knoll import DBSCAN
from knoll.explorer import Session
from knoll.explorer.runner import MOST_WAITING, Busy, Runner
from knoll.explorer.wire import decode

from .conftest import Client


@pytest.fixture(scope="module")
def large():
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(size=(10_000, 6)) + 4 * rng.normal(size=6) for _ in range(6)])


class Request(threading.Thread):
    """A message that is sent in a thread of its own, with the time of its answer."""

    def __init__(self, page, seq, do, **fields):
        super().__init__(daemon=True)
        self.page, self.message = page, {"seq": seq, "do": do, "page": "a", **fields}
        self.header = self.end = None
        self.start()

    def run(self):
        address = f"http://127.0.0.1:{self.page.port}/api/ask"
        answer = httpx.post(
            address, json=self.message, headers={"X-Knoll-Token": self.page.token}, timeout=120, trust_env=False
        )
        self.end = time.monotonic()
        data = answer.content
        while True:
            self.header, arrays = decode(data)
            size = 4 + int.from_bytes(data[:4], "little") + sum(-(-array.nbytes // 8) * 8 for array in arrays.values())
            data = data[size:]
            if self.header["last"]:
                return


def until(holds):
    """Wait, a minute at most."""
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


def running(page):
    """Wait until a fit has begun."""
    until(lambda: any(job.begun for job in list(page.runner._jobs)))
    time.sleep(0.3)


SLOW = {"method": "mean-shift", "parameters": {"bandwidth": 2.0}, "preview": False}


def test_cancel_is_quick(serve, large):
    page = serve(Session.open(large))
    client, waits = Client(page), []
    for _ in range(4):  # the best counts: other processes may have the processor
        slow = Request(page, 7, "fit", **SLOW)
        running(page)
        begun = time.monotonic()
        assert client.result("cancel", of=7)[0]["cancelled"] == 1
        slow.join(60)
        waits.append(slow.end - begun)
        assert slow.header["code"] == "cancelled"
    assert min(waits) <= 0.1
    assert page.session.state.answer is None
    assert page.session.attempts == 0
    assert client.result("cancel", of=7)[0]["cancelled"] == 0
    client.http.close()


def test_a_later_position_replaces_the_earlier(serve, large):
    page = serve(Session.open(large))
    first = Request(page, 1, "fit", slot="slider", **SLOW)
    running(page)
    second = Request(page, 2, "fit", slot="slider", method="mean-shift", parameters={"bandwidth": 2.1}, preview=False)
    until(lambda: any(job.message["seq"] == 2 for job in list(page.runner._jobs)))
    third = Request(page, 3, "fit", slot="slider", method="dbscan", parameters={"eps": 1.0, "min_samples": 5})
    for one in (first, second, third):
        one.join(100)
    assert (first.header["code"], second.header["code"]) == ("superseded", "superseded")
    assert third.header["kind"] == "result"
    plain = DBSCAN(1.0, min_samples=5).fit(page.session.source.points).labels_
    np.testing.assert_array_equal(page.session.labels, plain)


def test_a_slider_dragged_while_a_fit_stops_is_never_refused():
    stuck, release, found = threading.Event(), threading.Event(), []
    runner = Runner(Session.open("iris"))
    runner._run, run = (lambda job: (stuck.set(), release.wait(60), run(job))), runner._run
    move = {"do": "fit", "seq": 1, "slot": "slider", "method": "kmeans", "parameters": {"n_clusters": 2}}
    for _ in range(300):
        runner.submit(move, {}, found.append)
        assert stuck.wait(60)
    assert [frame.fields["code"] for frame in found] == ["superseded"] * 299
    for _ in range(MOST_WAITING - 1):
        runner.submit({"do": "state", "seq": 2}, {}, found.append)
    with pytest.raises(Busy):
        runner.submit({"do": "state", "seq": 3}, {}, found.append)
    release.set()
    until(lambda: not runner._jobs)
    assert found[-1].last
    runner.close()


def test_another_page_and_what_is_quick_are_not_disturbed(serve, large):
    page = serve(Session.open(large))
    slow = Request(page, 1, "fit", slot="slider", **SLOW)
    running(page)
    client = Client(page, "b")
    begun = time.monotonic()
    client.result("select", rows=[1, 2, 3])
    assert client.result("explain_row", row=3)[0]["row"]["row"] == 3
    assert slow.is_alive()
    assert time.monotonic() - begun < 20
    assert client.result("cancel")[0]["cancelled"] == 0  # of its own page
    page.runner.cancel()
    slow.join(60)
    assert slow.header["code"] == "cancelled"
    client.http.close()


def test_a_page_that_goes_away_stops_its_fit(serve, large):
    page = serve(Session.open(large))
    with httpx.Client(trust_env=False) as http:
        headers = {"X-Knoll-Token": page.token}
        message = {"seq": 1, "do": "fit", **SLOW}
        with pytest.raises(httpx.ReadTimeout):
            http.post(f"http://127.0.0.1:{page.port}/api/ask", json=message, headers=headers, timeout=1.5)
    end = time.monotonic() + 20
    while page.runner._jobs and time.monotonic() < end:
        time.sleep(0.02)
    assert not page.runner._jobs
    assert page.session.state.answer is None


def test_an_edit_during_a_fit_of_a_split_is_not_overwritten(serve):
    session = Session.open("x1500")
    session.fit("kmeans", n_clusters=2)
    since = session.history
    session.rename(0, "kept")
    from knoll.exceptions import BadData

    with pytest.raises(BadData, match="changed meanwhile"):
        session._edit("split", "", "", lambda one, _: (one.labels, {}), since)
    assert session.answer.notes[0].name == "kept"


def test_the_server_ends_without_a_page(serve):
    page = serve(Session.open("iris"), idle=1.0)
    begun = time.monotonic()
    while not page.server.should_exit and time.monotonic() - begun < 20:
        time.sleep(0.05)
    assert page.server.should_exit
    assert time.monotonic() - begun >= 0.9
