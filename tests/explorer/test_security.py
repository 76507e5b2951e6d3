"""Each line of the explorer's security: what another site, another user, a script in a cell or a flood meet."""

from __future__ import annotations

import base64
import json
import logging
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import numpy as np
import pytest

from knoll.exceptions import BadData, KnollError
from knoll.explorer import Session, asking
from knoll.explorer.guard import POLICY, Guard
from knoll.explorer.runner import error
from knoll.explorer.server import MOST_BODY
from knoll.explorer.wire import decode, encode

from .conftest import Client

BODY = b'{"seq":1,"do":"state"}'


def exchange(page, lines, body=b""):
    """Send a request as it is, and return all that comes back."""
    with socket.create_connection(("127.0.0.1", page.port), timeout=20) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode() + body)
        found = b""
        while piece := connection.recv(65536):
            found += piece
    return found


def request(page, *, host=None, token=True, path="/api/ask", method="POST", more=(), body=BODY):
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host or f'127.0.0.1:{page.port}'}", "Connection: close", *more]
    lines += [f"X-Knoll-Token: {page.token}"] if token is True else [f"X-Knoll-Token: {token}"] if token else []
    lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return exchange(page, lines, body)


def status(found):
    return int(found.split(b" ", 2)[1])


def is_refused(found):
    head, _, body = found.partition(b"\r\n\r\n")
    return status(head) == 403 and body == b""


def test_the_right_request_is_answered(client):
    assert status(request(client.page)) == 200


# ---- another site in the same browser ------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/api/ask", "/api/events", "/explorer.js", "/nothing"])
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "127.0.0.1:{port}.evil.example",
        "[::1]:{port}",
    ],
)
def test_a_foreign_host_is_refused(client, path, host):
    method = "POST" if path == "/api/ask" else "GET"
    assert is_refused(request(client.page, host=host.format(port=client.page.port), path=path, method=method))


def test_two_hosts_or_none_are_refused(client):
    page = client.page
    own = f"Host: 127.0.0.1:{page.port}"
    for hosts in ([own, "Host: evil.example"], ["Host: evil.example", own], []):
        found = exchange(page, ["POST /api/ask HTTP/1.1", *hosts, f"X-Knoll-Token: {page.token}", "Connection: close"])
        assert status(found) in (400, 403)
        assert b"arrays" not in found


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:1", "file://"]
)
def test_a_foreign_origin_is_refused(client, origin):
    assert is_refused(request(client.page, more=[f"Origin: {origin.format(port=client.page.port)}"]))


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none", "anything"])
def test_a_request_that_another_site_caused_is_refused(client, site):
    assert is_refused(request(client.page, more=[f"Sec-Fetch-Site: {site}"]))
    own = [f"Origin: http://127.0.0.1:{client.page.port}", "Sec-Fetch-Site: same-origin"]
    assert status(request(client.page, more=own)) == 200


def test_other_sites_cannot_load_our_files(client):
    embedded = ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: script"]
    assert is_refused(request(client.page, method="GET", path="/explorer.js", more=embedded, body=b""))
    framed = ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"]
    assert is_refused(request(client.page, method="GET", path="/", more=framed, body=b""))
    opened = ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"]
    assert status(request(client.page, method="GET", path="/", more=opened, body=b"")) == 200  # it has no data


def test_there_is_no_cors_and_no_cookie(client):
    found = request(
        client.page, method="OPTIONS", more=["Origin: http://evil.example", "Access-Control-Request-Method: POST"]
    )
    assert is_refused(found)
    answer = client.http.get("/")
    assert not [name for name in answer.headers if name.startswith("access-control") or name == "set-cookie"]


# ---- another user of the machine -----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/api/ask", "/api/events", "/api", "/api/", "/api/nothing"])
@pytest.mark.parametrize("token", [None, "x", "{token}x", "{half}"])
def test_without_the_token_nothing_is_answered(client, path, token):
    page = client.page
    sent_token = token and token.format(token=page.token, half=page.token[:-1])
    for method in ("GET", "POST", "PUT", "DELETE"):
        assert is_refused(request(page, token=sent_token, path=path, method=method))


def test_the_token_counts_in_its_header_alone(client):
    page = client.page
    for path in (f"/api/events?token={page.token}", f"/api/events?X-Knoll-Token={page.token}"):
        assert is_refused(request(page, token=None, path=path, method="GET", body=b""))
    assert is_refused(request(page, token=None, more=[f"Cookie: X-Knoll-Token={page.token}"]))
    assert is_refused(request(page, token=None, more=[f"Authorization: Bearer {page.token}"]))
    assert is_refused(request(page, more=[f"X-Knoll-Token: {page.token}"]))  # twice


def test_the_token_is_long_new_and_compared_in_constant_time(serve, monkeypatch):
    pages = [serve(Session.open("iris")) for _ in range(3)]
    assert len({page.token for page in pages}) == 3
    assert all(len(base64.urlsafe_b64decode(page.token + "=")) == 32 for page in pages)
    compared = []
    monkeypatch.setattr("knoll.explorer.guard.compare_digest", lambda a, b: compared.append((a, b)) or a == b)
    assert status(request(pages[0])) == 200
    assert compared == [(pages[0].token.encode(),) * 2]


def test_the_token_is_in_no_log_line_and_no_response(client, caplog):
    caplog.set_level(logging.DEBUG)
    page, seen = client.page, b""
    for found in (
        request(page),
        request(page, token="x"),
        request(page, path="/", method="GET"),
        request(page, body=b"{"),
    ):
        seen += found
    for do in ("open", "log", "nothing"):
        for header, _ in client.frames(do):
            seen += json.dumps(header).encode()
    client.ask("fit", method="kmeans", parameters={"n_clusters": page.token})
    header, arrays = client.result("export", kind="script")
    seen += arrays["file"].tobytes()
    assert page.token.encode() not in seen
    assert page.token not in caplog.text


def test_the_command_shows_its_address_once_and_other_users_cannot_see_it(tmp_path):
    command = [sys.executable, "-m", "knoll", "explore", "iris", "--no-open", "--no-recommend", "--idle", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as process:
        address = process.stdout.readline().decode().strip()
        base, _, token = address.partition("#")
        command_line = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        assert httpx.get(base, trust_env=False).status_code == 200
        assert httpx.post(f"{base}api/ask", content=BODY, trust_env=False).status_code == 403
        process.terminate()
        output, errors = process.communicate(timeout=20)
    assert process.returncode == 0
    assert output == b""
    assert token.encode() not in errors + command_line
    assert list(tmp_path.iterdir()) == []


def test_the_browser_is_opened_by_a_file_that_only_the_user_can_read(serve, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    page = serve(Session.open("iris"))
    page.open_browser()
    assert page.token not in opened[0]
    path = opened[0].removeprefix("file://")
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert page.address in Path(path).read_text(encoding="utf-8")
    page.stop()
    for _ in range(100):
        if not os.path.exists(path):
            break
        time.sleep(0.05)
    assert not os.path.exists(path)


# ---- every scope -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/api/ask", "/api/events"])
def test_a_websocket_is_refused(client, path):
    page = client.page
    upgrade = [
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
    ]
    found = exchange(
        page, [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{page.port}", f"X-Knoll-Token: {page.token}", *upgrade]
    )
    assert is_refused(found)


def test_the_guard_is_outermost_and_refuses_every_other_scope(client):
    import asyncio

    assert type(client.page.server.config.app) is Guard

    async def inner(scope, receive, send):
        raise AssertionError("reached")

    sent = []

    async def send(message):
        sent.append(message)

    guard = Guard(inner, "t", 1)
    asyncio.run(guard({"type": "websocket", "path": "/api/ask", "headers": []}, None, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]
    with pytest.raises(RuntimeError):
        asyncio.run(guard({"type": "another"}, None, send))


def test_only_the_loopback_interface_listens(client):
    assert client.page.socket.getsockname()[0] == "127.0.0.1"
    own = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in own - {"127.0.0.1"}:
        with socket.socket() as other:
            other.settimeout(2)
            assert other.connect_ex((address, client.page.port)) != 0 or address.startswith("127.")


def test_there_is_no_host_option():
    found = subprocess.run(
        [sys.executable, "-m", "knoll", "explore", "--host", "0.0.0.0"], capture_output=True, text=True, check=False
    )
    assert found.returncode == 2
    assert "--host" in found.stderr


# ---- a script in a cell ----------------------------------------------------------------------------------------------


def test_every_response_has_the_policy(client):
    for answer in (
        client.http.get("/"),
        client.http.get("/nothing"),
        client.http.post("/api/ask", content=b"{"),
        client.http.get("/", headers={"X-Knoll-Token": "x", "Host": "evil.example"}),
        client.http.get("/api/events?after=x"),
    ):
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
    assert "unsafe" not in POLICY
    assert POLICY.startswith("default-src 'none'; script-src 'self';")


def test_texts_of_a_hostile_table_are_data(serve, tmp_path):
    evil = "</script><img src=x onerror=alert(1)>"
    path = tmp_path / "evil.csv"
    lines = [f'"{evil}","{evil}2",=cmd|x'] + [f"{i % 7},{(i * 5) % 11},{evil} {i % 3}" for i in range(90)]
    path.write_text("\n".join(lines), encoding="utf-8")
    client = Client(serve(Session.open(str(path))))
    client.result("fit", method="kmeans", parameters={"n_clusters": 2})
    client.result("rename", cluster=0, name=evil)
    assert any(evil in column["name"] for column in client.frames("open")[0][0]["table"]["columns"])
    for answer in (client.http.get("/"), client.http.get(f"/{evil}")):
        assert evil not in answer.text
    stream = client.http.post("/api/ask", content=BODY, headers={"Content-Type": "application/json"})
    assert stream.headers["content-type"] == "application/octet-stream"
    page = bytes(client.result("export", kind="page")[1]["file"]).decode()
    assert evil not in page
    assert "<img" not in page.replace(page.split("<style>")[1].split("</style>")[0], "")
    script = bytes(client.result("export", kind="script")[1]["file"]).decode()
    found: dict = {}
    exec(script, found)  # names are texts in it
    assert found["s"].answer.notes[0].name == evil
    client.http.close()


def test_cells_of_exports_are_no_formulas(serve):
    session = Session.open(np.arange(12.0).reshape(6, 2), labels={"a": [0, 0, 0, 1, 1, 1]})
    session.rename(0, "=cmd|' /C calc'!A0")
    client = Client(serve(session))
    text = bytes(client.result("export", kind="labels.csv")[1]["file"]).decode()
    assert "'=cmd" in text
    assert ",=cmd" not in text
    client.http.close()


# ---- code or files from messages -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "../__init__.py",
        "..%2fserver.py",
        "source/main.js",
        "%2e%2e/guard.py",
        "index.html%00.js",
        "/etc/passwd",
        "__pycache__",
    ],
)
def test_files_are_a_closed_list(client, name):
    assert client.http.get(f"/{name}").status_code in (404, 403)
    found = request(client.page, method="GET", path=f"/{name}", body=b"")
    assert status(found) == 404
    assert b"import" not in found


@pytest.mark.parametrize("kind", ["../x", "/etc/passwd", "labels.csv/../../x", "labels", "", "page\0", "MODEL"])
def test_exports_are_a_closed_list(serve, tmp_path, kind):
    out = tmp_path / "out"
    session = Session.open("iris", out=out)
    session.fit("kmeans", n_clusters=3)
    client = Client(serve(session))
    header, _ = client.ask("export", kind=kind, to="folder")
    assert header["kind"] == "error"
    assert header["code"] == "refused"
    assert list(tmp_path.iterdir()) == []
    header, arrays = client.result("export", kind="labels.csv", to="folder")
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "labels.csv"]
    assert arrays == {}
    client.http.close()


def test_without_a_folder_no_file_is_written(client):
    client.result("fit", method="kmeans", parameters={"n_clusters": 3})
    assert client.ask("export", kind="labels.csv", to="folder")[0]["code"] == "refused"


WRONG = [
    None,
    True,
    -1,
    0,
    1,
    3.5,
    1e308,
    2**60,
    "",
    "x",
    "__class__",
    "../x",
    "a" * 3000,
    [],
    [1],
    ["x"],
    [[]],
    [None],
    {},
    {"cluster": 0},
    {"cluster": "x"},
    {"a": 1},
    {"column": "x"},
    [{"column": "x"}],
    [{"column": "petal width (cm)", "low": "x"}],
]


def refusal_of(session, message):
    """Ask, and return why it was refused; None if it was answered."""
    try:
        for frame in asking.ask(session, message):
            b"".join(encode(dict(frame.fields), frame.arrays))
    except KnollError as caught:
        return str(caught)
    return None


def test_every_message_with_wrong_fields_is_answered_or_refused(client):
    """Thousands of random messages: each is a result or a refusal of one sentence, never a fault of the server."""
    session, rng = client.page.session, np.random.default_rng(0)
    session.fit("kmeans", n_clusters=3)
    heavy = {"recommend", "refit", "morph", "stability"}
    answered = refused = 0
    for name, action in asking.ACTIONS.items():
        for _ in range(12 if name in heavy else 60):
            fields = {key: WRONG[rng.integers(len(WRONG))] for key in action.fields if rng.random() < 0.7}
            if name in heavy:
                fields["nothing" if rng.random() < 0.3 else "budget"] = "x"
            message = {"seq": int(rng.integers(1e6)), "do": name, **fields}
            refusal = refusal_of(session, message)
            if refusal is None:
                answered += 1
            else:
                assert 0 < len(error("refused", refusal).fields["message"]) <= 1000
                refused += 1
    assert answered > 50
    assert refused > 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b'{"seq":NaN,"do":"log"}',
        b'{"seq":1,"seq":2,"do":"log"}',
        b"[" * 100_000,
        b"\xff\xfe",
        b'{"seq":1,"do":"log"' + b" " * 100,
    ],
)
def test_a_body_that_is_no_message_is_refused(client, body):
    answer = client.http.post("/api/ask", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert answer.content == b""


@pytest.mark.parametrize(
    "message", [{}, {"seq": 1}, {"seq": "1", "do": "log"}, {"seq": 1, "do": "__init__"}, {"seq": 1, "do": ["log"]}]
)
def test_a_message_without_seq_or_action_is_an_error(client, message):
    answer = client.http.post("/api/ask", json=message)
    assert decode(answer.content)[0]["code"] == "refused"


def test_other_media_are_refused(client):
    for media in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        assert client.http.post("/api/ask", content=BODY, headers={"Content-Type": media}).status_code == 400


def test_damaged_frames_are_refused():
    rng = np.random.default_rng(0)
    whole = b"".join(encode({"seq": 1, "do": "select"}, {"mask": np.arange(40, dtype=np.uint8), "x": np.ones((2, 3))}))
    header, arrays = decode(whole)
    assert header == {"seq": 1, "do": "select"}
    np.testing.assert_array_equal(arrays["x"], np.ones((2, 3)))
    for cut in range(len(whole)):
        with pytest.raises(BadData):
            decode(whole[:cut])
    for _ in range(3000):
        damaged = bytearray(whole)
        for _ in range(rng.integers(1, 4)):
            damaged[rng.integers(len(damaged))] = rng.integers(256)
        try:
            found = decode(bytes(damaged))[1]
        except BadData:
            continue
        assert sum(array.nbytes for array in found.values()) <= len(damaged)
    huge = json.dumps(
        {"arrays": [{"name": "a", "dtype": "float64", "shape": [2**39], "offset": 0, "bytes": 2**42}]}
    ).encode()
    huge += b" " * (-(len(huge) + 4) % 8)
    with pytest.raises(BadData):
        decode(struct.pack("<I", len(huge)) + huge)


# ---- load ------------------------------------------------------------------------------------------------------------


def test_a_body_that_is_too_large_is_not_read(client):
    page = client.page
    lines = ["POST /api/ask HTTP/1.1", f"Host: 127.0.0.1:{page.port}", f"X-Knoll-Token: {page.token}"]
    found = exchange(page, [*lines, f"Content-Length: {MOST_BODY + 1}", "Connection: close"])
    assert status(found) == 413
    chunk = b"%x\r\n" % 1_000_000 + b"x" * 1_000_000 + b"\r\n"
    with socket.create_connection(("127.0.0.1", page.port), timeout=20) as connection:
        connection.sendall("\r\n".join([*lines, "Transfer-Encoding: chunked", "", ""]).encode())
        found = b""
        for _ in range(MOST_BODY // 1_000_000 + 2):
            try:
                connection.sendall(chunk)
            except OSError:
                break
        found = connection.recv(200)
    assert status(found) == 413


def test_a_flood_is_refused_and_the_page_lives_on(serve):
    rng = np.random.default_rng(0)
    page = serve(Session.open(rng.normal(size=(30_000, 8))))
    codes, lock = [], threading.Lock()

    def flood(number):
        own = Client(page, f"flood {number}")
        message = {
            "seq": 1,
            "do": "fit",
            "page": own.name,
            "method": "mean-shift",
            "parameters": {"bandwidth": 2.0 + number / 1e3},
        }
        with own.http as http:
            try:
                with http.stream("POST", "/api/ask", json=message) as answer:
                    with lock:
                        codes.append(answer.status_code)
                    answer.read()
            except httpx.HTTPError:
                pass

    threads = [threading.Thread(target=flood, args=(number,)) for number in range(90)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + 30
    while len(codes) < 90 and time.monotonic() < end:
        time.sleep(0.05)
    assert codes.count(429) >= 90 - 64 - 10
    assert set(codes) <= {200, 429}
    page.runner.cancel()
    for thread in threads:
        thread.join(30)
    client = Client(page)
    with client.http:
        assert client.result("state")[0]["state"]["answer"] is None


def test_two_tabs_see_one_state(client):
    other = Client(client.page, "b")
    client.result("fit", method="kmeans", parameters={"n_clusters": 3})
    events = other.http.get("/api/events", params={"after": 0}).json()
    assert [one["kind"] for one in events["events"]] == ["state"]
    header, arrays = other.result("state")
    assert header["state"]["answer"]["method"] == "kmeans"
    other.result("merge", clusters=[0, 1])
    assert client.result("state")[0]["state"]["answer"]["n_clusters"] == 2
    assert len(arrays["labels"]) == 150
    other.http.close()
