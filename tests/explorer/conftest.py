"""A page on a loopback port, and a client that speaks its protocol."""

from __future__ import annotations

import json

import httpx
import pytest

from knoll.explorer import Session
from knoll.explorer.server import Page
from knoll.explorer.wire import decode, encode, split


class Client:
    """What the page's script does, in Python."""

    def __init__(self, page, name="a"):
        self.page, self.name, self.seq = page, name, 0
        self.base = f"http://127.0.0.1:{page.port}"
        self.http = httpx.Client(base_url=self.base, headers={"X-Knoll-Token": page.token}, timeout=60, trust_env=False)

    def frames(self, do, arrays=None, **fields):
        """Ask, and return [(header, arrays)] of all frames."""
        self.seq += 1
        message = {"seq": self.seq, "do": do, "page": self.name, **fields}
        if arrays:
            body, media = b"".join(encode(message, arrays)), "application/x-knoll"
        else:
            body, media = json.dumps(message).encode(), "application/json"
        answer = self.http.post("/api/ask", content=body, headers={"Content-Type": media})
        assert answer.status_code == 200, answer.status_code
        return [decode(frame) for frame in split(answer.content)]

    def ask(self, do, arrays=None, **fields):
        """Ask, and return the last frame."""
        return self.frames(do, arrays, **fields)[-1]

    def result(self, do, arrays=None, **fields):
        """Ask for a result."""
        header, found = self.ask(do, arrays, **fields)
        assert header["kind"] == "result", header
        assert header["last"]
        assert header["seq"] == self.seq
        return header, found


@pytest.fixture
def serve():
    """Make pages of sessions; they end with the test."""
    pages = []

    def made(session, **options):
        page = Page(session, **options)
        pages.append((page, page.start()))
        return page

    yield made
    for page, thread in pages:
        page.stop()
        thread.join(10)
        assert not thread.is_alive()


@pytest.fixture
def client(serve):
    """A client of a page on iris."""
    made = Client(serve(Session.open("iris")))
    yield made
    made.http.close()
