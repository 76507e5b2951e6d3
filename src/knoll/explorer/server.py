"""The server of the page: static files, `POST /api/ask`, `GET /api/events`; on the loopback interface alone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import tempfile
import threading
import time
import webbrowser
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from secrets import token_urlsafe
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from knoll.exceptions import BadData, KnollError
from knoll.explorer.guard import Guard
from knoll.explorer.runner import Busy, Job, Runner, error
from knoll.explorer.session import Session
from knoll.explorer.wire import WEB, Frame, decode, encode
from knoll.models._format import Damage, parse

__all__ = ["MOST_BODY", "Page", "listen"]

HOST = "127.0.0.1"
MOST_BODY = 64_000_000  # bytes of a message
_MEDIA = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_PIECE = 1 << 20  # bytes that are sent at a time
_WAIT = 25.0  # seconds of a long poll
_KEPT = 500  # events
_MOST_POLLS = 32
_DAMAGED, _LARGE, _BUSY = 400, 413, 429


def listen(port: int = 0) -> socket.socket:
    """Bind a port of the loopback interface; 0 is a free one."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((HOST, port))
    except OSError as caught:
        made.close()
        raise BadData(f"port {port} cannot be used: {caught.strerror}. Choose another, or 0 for a free one.") from None
    return made


class Events:
    """What happens beside the answers, numbered; a page waits for what comes after the last that it knows."""

    def __init__(self) -> None:
        self._events: deque[dict[str, Any]] = deque(maxlen=_KEPT)
        self._last, self._lock = 0, threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news: asyncio.Event | None = None
        self.closed = False

    def post(self, **facts: Any) -> None:
        """Add an event, from any thread."""
        with self._lock:
            self._last += 1
            self._events.append({"id": self._last, **facts})
        if self._loop is not None and self._news is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        assert self._news is not None
        self._news.set()
        self._news = asyncio.Event()

    async def after(self, last: int, seconds: float) -> dict[str, Any]:
        """Return the events after one; wait if there are none."""
        self._loop = asyncio.get_running_loop()
        self._news = self._news or asyncio.Event()
        end = time.monotonic() + seconds
        while True:
            news = self._news
            with self._lock:
                found = [one for one in self._events if one["id"] > last]
                known = self._last
            left = end - time.monotonic()
            if found or left <= 0 or self.closed:
                return {"last": known, "events": found}
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), left)


class Page:
    """The page of a session, on a port.

    Parameters
    ----------
    session : Session
        What it shows.
    port : int, default=0
        The port; 0 is a free one.
    idle : float, default=0
        Seconds without any request after which it ends; 0: never.
    """

    def __init__(self, session: Session, *, port: int = 0, idle: float = 0.0) -> None:
        self.session, self.token = session, token_urlsafe(32)
        self.socket = listen(port)
        self.port: int = self.socket.getsockname()[1]
        self.runner, self.events = Runner(session), Events()
        self._idle, self._seen, self._polls = idle, time.monotonic(), 0
        session.changed = lambda: self.events.post(kind="state", version=session.version)
        session.background.on_change = self._report_progress
        self._files = {
            path.name: (path.read_bytes(), _MEDIA[path.suffix]) for path in WEB.iterdir() if path.suffix in _MEDIA
        }
        app = Starlette(
            routes=[
                Route("/api/ask", self._ask, methods=["POST"]),
                Route("/api/events", self._poll, methods=["GET"]),
                Route("/", self._file),
                Route("/{name}", self._file),
            ]
        )
        config = uvicorn.Config(
            Guard(app, self.token, self.port),
            access_log=False,
            log_level="critical",
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=1,
            server_header=False,
            limit_concurrency=200,
            proxy_headers=False,
        )
        self.server = _Server(config)
        self._opener: Path | None = None

    @property
    def address(self) -> str:
        """What a browser opens: the token is behind the #, which is never sent."""
        return f"http://{HOST}:{self.port}/#{self.token}"

    # ---- life --------------------------------------------------------------------------------------------------------

    def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Serve until a signal, `stop`, or too long a time without a page; `ready` is called when it listens."""
        self.server.ready = ready
        watch = threading.Thread(target=self._watch, daemon=True)
        with self._signals():
            watch.start()
            try:
                self.server.run(sockets=[self.socket])
            finally:
                self.close()

    def start(self) -> threading.Thread:
        """Serve in a thread, and return it when the server listens."""
        listening = threading.Event()
        thread = threading.Thread(target=self.run, args=(listening.set,), daemon=True, name="knoll-explore")
        thread.start()
        while not listening.wait(0.05):
            if not thread.is_alive():
                raise BadData("the server of the explorer did not start.")
        return thread

    def open_browser(self) -> None:
        """Open the address by a file that only the user can read: other users see the arguments of every command."""
        with tempfile.NamedTemporaryFile("w", prefix="knoll-", suffix=".html", delete=False, encoding="utf-8") as file:
            file.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={self.address}">')
        self._opener = Path(file.name)
        webbrowser.open(self._opener.as_uri())

    def stop(self) -> None:
        """End, from any thread or a signal."""
        self.events.closed = True
        self.events.post(kind="end")
        self.server.should_exit = True

    def close(self) -> None:
        """Stop what runs."""
        self.runner.close()
        self.socket.close()
        if self._opener is not None:
            self._opener.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """End at SIGINT and SIGTERM; signals are the main thread's."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {which: signal.signal(which, lambda *_: self.stop()) for which in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for which, handler in before.items():
                signal.signal(which, handler)

    def _watch(self) -> None:
        """End after the time without a page."""
        while self._idle > 0 and not self.server.should_exit:
            left = self._idle - (time.monotonic() - self._seen)
            if left <= 0 and not self._polls:
                self.stop()
                return
            time.sleep(max(0.05, min(1.0, left)))

    def _report_progress(self) -> None:
        progress = self.session.background.progress
        self.events.post(kind="recommend", done=not progress["running"], **progress)

    # ---- requests ----------------------------------------------------------------------------------------------------

    async def _file(self, request: Request) -> Response:
        self._seen = time.monotonic()
        found = self._files.get(request.path_params.get("name", "index.html"))
        return Response(status_code=404) if found is None else Response(found[0], media_type=found[1])

    async def _poll(self, request: Request) -> Response:
        self._seen = time.monotonic()
        text = request.query_params.get("after", "0")
        if not (text.isascii() and text.isdecimal() and len(text) < 16):
            return Response(status_code=_DAMAGED)
        if self._polls >= _MOST_POLLS:
            return Response(status_code=_BUSY)
        self._polls += 1
        try:
            found = await self.events.after(int(text), _WAIT)
        finally:
            self._polls -= 1
            self._seen = time.monotonic()
        return Response(json.dumps(found), media_type="application/json")

    async def _ask(self, request: Request) -> Response:
        self._seen = time.monotonic()
        body = await _body(request)
        if body is None:
            return Response(status_code=_LARGE)
        try:
            message, arrays = _message(request.headers.get("content-type", ""), body)
        except (BadData, Damage):
            return Response(status_code=_DAMAGED)
        stream = _Stream(message)
        try:
            stream.job = self.runner.submit(message, arrays, stream.put)
        except Busy:
            return Response(status_code=_BUSY)
        except KnollError as caught:
            stream.put(error("refused", str(caught)))
        return StreamingResponse(stream.pieces(), media_type="application/octet-stream")


class _Server(uvicorn.Server):
    """uvicorn without signal handlers of its own, which reports when it listens."""

    ready: Callable[[], None] = staticmethod(lambda: None)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the page."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then report it."""
        await super().startup(sockets=sockets)
        if self.started:
            self.ready()


class _Stream:
    """The frames of one answer, from the thread that makes them to the response."""

    def __init__(self, message: dict[str, Any]) -> None:
        self._loop = asyncio.get_running_loop()
        self._frames: asyncio.Queue[Frame] = asyncio.Queue()
        self._facts = {"seq": message.get("seq"), "do": message.get("do")}
        self.job: Job | None = None

    def put(self, frame: Frame) -> None:
        """Add a frame, from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._frames.put_nowait, frame)

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the bytes of the frames; a page that has gone cancels its job."""
        try:
            while True:
                frame = await self._frames.get()
                header = {**self._facts, "kind": frame.kind, "last": frame.last, **frame.fields}
                for data in encode(header, frame.arrays):
                    for begin in range(0, len(data), _PIECE):
                        yield data[begin : begin + _PIECE]
                if frame.last:
                    return
        finally:
            if self.job is not None and not self.job.ended:
                self.job.cancel()


async def _body(request: Request) -> bytes | None:
    """Return the body; None if it is too large."""
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > MOST_BODY:
        return None
    found = bytearray()
    try:
        async for piece in request.stream():
            found += piece
            if len(found) > MOST_BODY:
                return None
    except ClientDisconnect:
        return b""
    return bytes(found)


def _message(media: str, body: bytes) -> tuple[dict[str, Any], Any]:
    """Return the message and its arrays; an error if the body is neither JSON nor a frame."""
    if media.partition(";")[0].strip() == "application/x-knoll":
        return decode(body)
    if media.partition(";")[0].strip() != "application/json":
        raise BadData("the body is JSON or a frame.")
    return parse(body), {}
