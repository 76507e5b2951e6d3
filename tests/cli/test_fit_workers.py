"""``knoll fit --workers``, ``--scheduler``, ``--checkpoint``, ``--resume``: the same model, or one line and exit 2."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

import knoll
from knoll.engines import checkpoint

pytest.importorskip("distributed")


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Three files in the current folder."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(9_000, 3)) + 5 * rng.integers(0, 3, size=(9_000, 1))) * [1.0, 100.0, 0.01] + 7
    for number, chunk in enumerate(np.array_split(X, 3)):
        np.save(tmp_path / f"part-{number}.npy", chunk)
    return tmp_path


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


FIT = ("fit", "kmeans", "part-*.npy", "--set", "n_clusters=5")


def test_workers_write_the_same_model_and_labels(call, files):
    found = []
    for name, args in (("here", ()), ("there", ("--workers", "2", "--checkpoint", "fit.checkpoint"))):
        code, stdout, stderr = call(*FIT, *args, "--out", f"{name}.knoll", "--labels", f"{name}.csv", "--json")
        assert code == 0, stderr
        found.append(json.loads(stdout))
    assert_same(files / "here.knoll", files / "there.knoll")
    here, there = found
    assert here["data"]["rows"] == there["data"]["rows"] == 9_000
    assert digest(files / "here.csv") == digest(files / "there.csv")
    assert "computed by 2 worker processes" in there["data"]["notes"]
    assert not (files / "fit.checkpoint").exists()


def test_a_killed_fit_goes_on(call, files):
    """SIGKILL of the command in the middle; --resume gives the model of an undisturbed run."""
    args = [
        *FIT,
        "--set",
        "tol=0",
        "--set",
        "max_iter=40",
        "--set",
        "init_size=2000",
        "--checkpoint",
        "fit.checkpoint",
    ]
    slow = (
        "import sys, time; from knoll.engines import checkpoint; from knoll.cli import main\n"
        "whole = checkpoint._Log.result\n"
        "def result(self, name, compute):\n"
        "    time.sleep(0.2); return whole(self, name, compute)\n"
        "checkpoint._Log.result = result; sys.exit(main(sys.argv[1:]))"
    )
    killed = subprocess.Popen([sys.executable, "-c", slow, *args, "--out", "m.knoll"], stderr=subprocess.PIPE)
    end = time.monotonic() + 60
    while records(files / "fit.checkpoint") < 6 and time.monotonic() < end:
        time.sleep(0.02)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert not (files / "m.knoll").exists()
    before = records(files / "fit.checkpoint")
    assert 6 <= before < 20
    with (files / "fit.checkpoint").open("ab") as file:
        file.write(b"\x07 a record that was cut off")
    code, _, stderr = call(*args, "--out", "m.knoll")
    assert code == 2
    assert "the checkpoint fit.checkpoint exists. Go on from it by resume (--resume), or remove it." in stderr
    code, _, stderr = call(*args, "--resume", "--seed", "1", "--out", "m.knoll")
    assert code == 2
    assert "fit.checkpoint is of another fit: parameter 'random_state' differs" in stderr
    assert records(files / "fit.checkpoint") == before
    code, stdout, stderr = call(*args, "--resume", "--out", "m.knoll", "--json")
    assert code == 0, stderr
    assert json.loads(stdout)["data"]["rows"] == 9_000
    code, _, stderr = call(*args[:-2], "--out", "n.knoll")
    assert code == 0, stderr
    assert_same(files / "m.knoll", files / "n.knoll")
    assert not (files / "fit.checkpoint").exists()


def assert_same(a, b):
    """Two models have the same bits."""
    one, two = (knoll.models.read(path).estimator for path in (a, b))
    for name in ("cluster_centers_", "cluster_weights_"):
        assert getattr(one, name).tobytes() == getattr(two, name).tobytes(), name
    assert (one.inertia_, one.n_iter_) == (two.inertia_, two.n_iter_)


def records(path):
    """How many whole records a checkpoint has."""
    if not path.exists():
        return 0
    data = path.read_bytes()
    at, count = data.find(b"\n", len(checkpoint._MAGIC)) + 1, 0
    while at > 0 and len(data) - at >= checkpoint._RECORD.size:
        at += checkpoint._RECORD.size + checkpoint._RECORD.unpack_from(data, at)[0]
        count += at <= len(data)
    return count


def test_a_file_that_runs_something_is_refused(files):
    """Records are numbers and statistics; anything else is refused before it is called."""
    import pickle
    import struct
    import zlib

    from knoll.engines import Checkpoint
    from knoll.exceptions import BadData

    model = knoll.KMeans(2, random_state=0)
    rows = knoll.blocks.open("part-*.npy")
    model.fit_blocks(rows, engine=Checkpoint("c"))
    header = (files / "c").read_bytes()
    header = header[: header.index(b"\n", len(checkpoint._MAGIC)) + 1]

    class Evil:
        def __reduce__(self):
            return os.system, ("touch stolen",)

    for value in (Evil(), np.load, knoll.load):
        record = pickle.dumps(("total x", value))
        (files / "c").write_bytes(header + struct.pack("<QI", len(record), zlib.crc32(record)) + record)
        with pytest.raises(BadData, match="the checkpoint c is damaged: it names"):
            model.fit_blocks(rows, engine=Checkpoint("c", resume=True))
    assert not (files / "stolen").exists()


def closed_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--workers", "2", "--scheduler", "tcp://x:1"], "--workers starts processes here, --scheduler takes those of"),
        (["--resume"], "--resume needs --checkpoint FILE"),
        (
            ["--checkpoint", "none", "--resume"],
            "There is no checkpoint none to go on from. Leave resume (--resume) out.",
        ),
        (["--checkpoint", "part-0.npy", "--resume"], "part-0.npy is not a checkpoint of this version of knoll."),
        (["--checkpoint", "no/folder"], "cannot write the checkpoint no/folder: No such file or directory."),
        (["--scheduler", "nonsense"], "no dask scheduler answers at nonsense"),
        (["--workers", "2", "--log", "auto"], "--workers reads part-*.npy in blocks, which --log cannot be. Leave it"),
        (["--workers", "0"], "Invalid value for '--workers'"),
        (["--checkpoint", "m.knoll"], "m.knoll is named for two outputs. Give each its own name."),
        (["--labels", "l.csv", "--checkpoint", "l.csv"], "l.csv is named for two outputs. Give each its own name."),
        (["--labels", "part-1.npy", "--force"], "part-1.npy is an input of this command. Choose another name."),
    ],
)
def test_what_is_wrong_is_one_line(call, files, args, message):
    code, _, stderr = call(*FIT, *args, "--out", "m.knoll")
    assert code == 2, stderr
    assert message in " ".join(stderr.split())
    assert len(stderr.strip().splitlines()) == 1
    assert sorted(path.name for path in files.iterdir()) == [f"part-{i}.npy" for i in range(3)]


def test_a_link_to_an_input_is_no_output(call, files):
    """A pattern names inputs as well as a path does: --force replaced them."""
    (files / "link.npy").symlink_to("part-0.npy")
    before = digest(files / "part-0.npy")
    code, _, stderr = call(*FIT, "--out", "link.npy", "--force")
    assert (code, stderr) == (2, "knoll: link.npy is an input of this command. Choose another name.\n")
    assert digest(files / "part-0.npy") == before


def test_a_scheduler_that_does_not_answer(call, files, monkeypatch):
    monkeypatch.setattr("knoll.cli._engine._CONNECT", 2)
    address = f"tcp://127.0.0.1:{closed_port()}"
    code, _, stderr = call(*FIT, "--scheduler", address)
    assert code == 2
    assert f"no dask scheduler answers at {address}" in stderr
    assert len(stderr.strip().splitlines()) == 1


def test_other_methods_and_sources(call, files):
    code, _, stderr = call("fit", "dbscan", "part-0.npy", "--workers", "2")
    assert (code, "DBSCAN reads blocks in this process alone. Leave --workers out." in stderr) == (2, True)
    code, _, stderr = call("fit", "hdbscan", "part-0.npy", "--workers", "2")
    assert (code, "HDBSCAN needs all rows at once. Fit a sample and predict the others" in stderr) == (2, True)
    code, _, stderr = call("fit", "kmeans", "iris", "--workers", "2")
    assert (code, "--workers reads files, and iris is none. Name a file or a pattern." in stderr) == (2, True)


def test_without_the_extra(call, files, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    code, _, stderr = call(*FIT, "--workers", "2", "--out", "m.knoll")
    assert code == 2
    assert '--workers needs dask, which is not installed. Run: pip install "knoll[dask]"' in stderr
    assert not (files / "m.knoll").exists()


def test_ctrl_c_ends_the_workers(files):
    """Exit 130, one line, no model, and no process is left."""
    args = [*FIT, "--set", "tol=0", "--set", "max_iter=100000", "--workers", "2", "--out", "m.knoll"]
    args += ["--set", "n_clusters=60", "--set", "n_init=1000"]  # longer than any wait below
    code = "import sys; from knoll.cli import main; sys.exit(main(sys.argv[1:]))"
    running = subprocess.Popen(
        [sys.executable, "-c", code, *args], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    end = time.monotonic() + 60
    while len(children(running.pid)) < 3 and time.monotonic() < end:  # two workers and the resource tracker
        time.sleep(0.1)
    time.sleep(3.0)
    os.killpg(running.pid, signal.SIGINT)
    _, stderr = running.communicate(timeout=60)
    assert running.returncode == 130, stderr
    assert stderr.strip().splitlines()[-1:] == ["knoll: interrupted; unfinished files were removed."]
    assert not (files / "m.knoll").exists()
    end = time.monotonic() + 10
    while (left := members(running.pid)) and time.monotonic() < end:
        time.sleep(0.1)
    assert not left


def children(pid):
    return [each for each in members(pid) if each != pid]


def members(group):
    """The living processes of a group."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[2]) == group and fields[0] != "Z":
                found.append(int(name))
    return found
