"""The name - is standard output for every option that takes a file, and no folder; what people read goes elsewhere."""

from __future__ import annotations

import csv
import io
import json
import subprocess

import pytest

import knoll as package
from knoll.cli._app import COMMANDS


@pytest.fixture
def bare(tmp_path, warm_knoll):
    """Run the command line in an empty folder, standard output as bytes; nothing may be written there."""

    def run(*args):
        done = subprocess.run([*warm_knoll, *args], capture_output=True, cwd=tmp_path, timeout=120)
        assert list(tmp_path.iterdir()) == []
        return done.returncode, done.stdout, done.stderr.decode()

    return run


def test_certificates(bare):
    args = ("relate", "iris", "--only", "gaussian-is-mixture-of-one", "--json", "-")
    code, text, message = bare(*args)
    assert code == 0
    assert [each["verdict"] for each in json.loads(text)] == ["holds"]
    assert message.startswith("iris: 150 rows, 4 columns\n✓ gaussian-is-mixture-of-one")
    code, text, message = bare(*args, "--quiet")
    assert (code, message) == (0, "")
    assert len(json.loads(text)) == 1


def test_a_model(bare, tmp_path):
    code, data, message = bare("fit", "kmeans", "iris", "--param", "n_clusters=3", "--out", "-")
    assert code == 0
    assert "KMeans(random_state=0, n_clusters=3): 3 clusters" in message
    assert "-: SHA-256 " in message
    (tmp_path / "m.knoll").write_bytes(data)
    assert package.models.read(tmp_path / "m.knoll").estimator.n_clusters == 3


def test_labels(bare):
    for more in ((), ("--json",), ("--quiet",)):
        code, text, message = bare("fit", "kmeans", "iris", "--param", "n_clusters=3", "--labels", "-", *more)
        assert code == 0
        rows = list(csv.reader(io.StringIO(text.decode())))
        assert (rows[0], len(rows)) == (["row", "label"], 151)
        assert message == "" if "--quiet" in more else "3" in message
        if "--json" in more:
            assert json.loads(message)["labels"] == "-"
    code, text, message = bare("fit", "kmeans", "iris", "--labels", "-", "--out", "-")
    assert (code, text, message) == (2, b"", "knoll: - is named for two outputs. Give each its own name.\n")


def test_a_data_set(bare):
    code, text, message = bare("datasets", "iris", "--out", "-")
    assert (code, message) == (0, "")
    assert len(text.splitlines()) == 151


@pytest.mark.parametrize("command", ["compare", "demo", "tour"])
def test_a_folder_is_none(bare, command):
    assert command in COMMANDS
    code, text, message = bare(command, "--out", "-")
    assert (code, text) == (2, b"")
    assert message.startswith(
        "knoll: --out must be a folder here, got - (standard output). Use a folder such as ./out."
    )
    assert message.count("\n") == 1
