"""The guard: the outermost ASGI application, which every scope passes. What it refuses gets 403 and no body.

It stops other sites of the same browser (Host, Origin, Sec-Fetch-Site), other users of the machine (a token that only
the user's page has), and scripts in a page (a strict Content-Security-Policy on every response).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from secrets import compare_digest
from typing import Any

__all__ = ["POLICY", "TOKEN_HEADER", "Guard"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

TOKEN_HEADER = b"x-knoll-token"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; worker-src 'self'; "
    "img-src 'self' blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
_HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]


class Guard:
    """Let the requests of the user's own page through, and nothing else.

    Parameters
    ----------
    app : ASGI application
        What answers.
    token : str
        What a request of /api must have in its header X-Knoll-Token.
    port : int
        The port that Host and Origin must name.
    """

    def __init__(self, app: App, token: str, port: int) -> None:
        self._app, self._token = app, token.encode()
        self._hosts = {f"{name}:{port}".encode() for name in ("127.0.0.1", "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a permitted request on; refuse every other, whatever its type."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            if self._permits(scope):
                await self._app(scope, receive, _with_headers(send))
            else:
                await _refuse(send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})  # before it is accepted: 403
        else:
            raise RuntimeError(f"the explorer has no {scope['type']}")

    def _permits(self, scope: Scope) -> bool:
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value)
        host = headers.get(b"host", [])
        if len(host) != 1 or host[0].lower() not in self._hosts or b"upgrade" in headers:
            return False
        if any(origin.lower() != b"http://" + host[0].lower() for origin in headers.get(b"origin", [])):
            return False
        sites = headers.get(b"sec-fetch-site", [])
        if not scope["path"].startswith("/api"):
            # a link or the redirecting file of the start may lead to the page, which has no data and no token
            opened = headers.get(b"sec-fetch-mode") == [b"navigate"] and headers.get(b"sec-fetch-dest") == [b"document"]
            return scope["method"] in ("GET", "HEAD") and (opened or _all_in(sites, (b"same-origin", b"none")))
        token = headers.get(TOKEN_HEADER, [])
        return _all_in(sites, (b"same-origin",)) and len(token) == 1 and compare_digest(token[0], self._token)


def _all_in(values: list[bytes], known: tuple[bytes, ...]) -> bool:
    return all(value in known for value in values)


def _with_headers(send: Send) -> Send:
    """Add the headers of the policy to every response."""

    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            own = {name for name, _ in _HEADERS}
            kept = [(name, value) for name, value in message.get("headers", []) if name.lower() not in own]
            message = {**message, "headers": [*kept, *_HEADERS]}
        await send(message)

    return sending


async def _refuse(send: Send) -> None:
    headers = [(b"content-length", b"0"), *_HEADERS]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
