"""`knoll explore`: its inputs, one line on standard output, and its end."""

from __future__ import annotations

import signal
import subprocess
import sys

import httpx
import numpy as np
import pytest

import knoll
from knoll.explorer.wire import decode, split


class Explorer:
    """The command in a process of its own."""

    def __init__(self, *args, cwd=None):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "knoll", "explore", *map(str, args), "--no-open"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            text=True,
        )
        self.address = self.process.stdout.readline().strip()

    def ask(self, **message):
        base, _, token = self.address.partition("#")
        headers = {"X-Knoll-Token": token}
        answer = httpx.post(f"{base}api/ask", json={"seq": 1, **message}, headers=headers, timeout=60, trust_env=False)
        return [decode(frame) for frame in split(answer.content)]

    def end(self, which=signal.SIGTERM):
        self.process.send_signal(which)
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out, err


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_with_a_signal(which):
    explorer = Explorer("iris", "--no-recommend")
    assert explorer.address.startswith("http://127.0.0.1:")
    assert explorer.ask(do="open")[0][0]["table"]["n"] == 150
    code, out, err = explorer.end(which)
    assert (code, out) == (0, "")
    assert err == "iris: 150 rows, 4 columns; Ctrl-C ends it.\n"


def test_it_ends_by_itself_without_a_page():
    explorer = Explorer("iris", "--no-recommend", "--idle", "0.02")
    assert explorer.process.wait(30) == 0
    explorer.process.communicate()


def test_a_file_with_options_and_a_recommendation(tmp_path):
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(size=(60, 2)), rng.normal(size=(60, 2)) + 8])
    lines = ["who,x,y,junk"] + [f"p{i},{a:.4f},{b:.4f},1" for i, (a, b) in enumerate(rows)]
    (tmp_path / "my.csv").write_text("\n".join(lines))
    explorer = Explorer("my.csv", "--id", "who", "--scale", "standard", "--methods", "kmeans,dbscan", cwd=tmp_path)
    base, _, token = explorer.address.partition("#")
    last, done = 0, False
    while not done:
        found = httpx.get(
            f"{base}api/events?after={last}", headers={"X-Knoll-Token": token}, timeout=60, trust_env=False
        ).json()
        last, done = found["last"], any(one.get("done") for one in found["events"])
    facts = explorer.ask(do="recommendation")[0][0]["recommendation"]
    assert facts["verdict"] == "clusters"
    assert {one["method"] for one in facts["answers"]} <= {"kmeans", "dbscan"}
    assert explorer.ask(do="explain_row", row=5)[0][0]["row"]["id"] == "p5"
    script = explorer.ask(do="log")[0][0]["script"]
    assert "Session.open('my.csv', ids='who', scale='standard')" in script
    assert explorer.end()[0] == 0


def test_a_folder_of_results(tmp_path):
    args = [sys.executable, "-m", "knoll", "compare", "iris", "--methods", "kmeans,gmm", "--budget", "10", "--quiet"]
    subprocess.run(args, cwd=tmp_path, check=True)
    labels = __import__("pyarrow.parquet").parquet.read_table(tmp_path / "comparison" / "labels.parquet")
    explorer = Explorer("comparison", "--no-recommend", cwd=tmp_path)
    header, arrays = explorer.ask(do="state")[-1]
    answer = header["state"]["answer"]
    assert answer["origin"] == "given"
    np.testing.assert_array_equal(arrays["labels"].astype(np.int16), np.asarray(labels[answer["method"]]))
    assert {one["method"] for one in header["state"]["answers"]} >= {"kmeans", "gaussian-mixture"}
    assert explorer.end()[0] == 0


@pytest.mark.parametrize(
    ("args", "text"),
    [(["nothing.csv"], "nothing.csv"), (["iris", "--port", "70000"], "--port"), (["iris", "--columns", "x"], "x")],
)
def test_errors_are_one_line(args, text):
    found = subprocess.run(
        [sys.executable, "-m", "knoll", "explore", *args, "--no-open"], capture_output=True, text=True, check=False
    )
    assert found.returncode == 2
    assert found.stdout == ""
    assert text in found.stderr
    assert found.stderr.count("\n") == 1


def test_a_port_that_is_taken():
    explorer = Explorer("iris", "--no-recommend")
    port = explorer.address.split(":")[2].split("/")[0]
    second = subprocess.run(
        [sys.executable, "-m", "knoll", "explore", "iris", "--no-open", "--port", port],
        capture_output=True,
        text=True,
        check=False,
    )
    assert second.returncode == 2
    assert f"port {port} cannot be used" in second.stderr
    explorer.end()


def test_the_default_is_the_paper_data():
    explorer = Explorer("--no-recommend")
    _, (_, arrays), _ = explorer.ask(do="open")
    assert arrays["points"].shape == (2, 1500)
    np.testing.assert_allclose(arrays["points"].T, knoll.explorer.Session.open("x1500").source.points, rtol=1e-6)
    explorer.end()
