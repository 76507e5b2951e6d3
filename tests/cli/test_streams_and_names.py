"""Every command with closed streams, into a pipe that ends early, and with odd names: an answer or one line."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys

import pytest

import knoll as package
from knoll.cli import main
from knoll.cli._app import COMMANDS

TABLE = "a,b\n1,2\n1.1,2.1\n9,8\n9.1,8.2\n1.2,2.2\n9.2,8.1\n"
MODEL = package.KMeans(2, random_state=0).fit([[1.0, 2.0], [1.1, 2.1], [9.0, 8.0], [9.1, 8.2]])

# A command that reads a named table and one that reads standard input; None: the command reads none.
CASES = {
    "compare": ("compare t.csv --methods kmeans --out c", "compare - --methods kmeans --out d"),
    "fit": ("fit kmeans t.csv --param n_clusters=2 --out f.knoll", "fit kmeans - --out g.knoll"),
    "predict": ("predict m.knoll t.csv", "predict m.knoll -"),
    "explore": ("explore t.csv --no-open --idle 0.005", "explore - --no-open --idle 0.005"),
    "relate": (
        "relate t.csv --only gaussian-is-mixture-of-one",
        "relate - --only gaussian-is-mixture-of-one",
    ),
    "tree": ("tree t.csv --out t", "tree - --out u"),
    "inspect": ("inspect m.knoll", None),
    "datasets": ("datasets digits", None),
    "info": ("info", None),
    "demo": ("demo --help", None),
    "tour": ("tour --help", None),
}
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")


def test_every_command_is_here():
    assert set(CASES) == set(COMMANDS)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "t.csv").write_text(TABLE)
    package.save(MODEL, tmp_path / "m.knoll")
    return tmp_path


@pytest.fixture
def shell(warm_knoll, folder):
    """Run a command with these redirections."""

    def run(args, streams, command=warm_knoll):
        line = f"{shlex.join(command)} {args} {streams}"
        done = subprocess.run(
            ["bash", "-c", line], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300
        )
        assert "bug in knoll" not in done.stderr
        assert "Traceback" not in done.stderr
        return done

    return run


@pytest.mark.parametrize("command", CASES)
def test_closed_streams(command, shell):
    named, piped = CASES[command]
    assert shell(named, "<&-").returncode == 0
    if piped is not None:
        done = shell(piped, "<&-")
        assert (done.returncode, done.stderr) == (2, "knoll: standard input is closed. Open it, or name a file.\n")
    done = shell(named, ">&-")
    assert (done.returncode, done.stderr) == (
        2,
        "knoll: standard output is closed. Open it, or redirect it to a file.\n",
    )


@pytest.mark.parametrize("command", CASES)
def test_a_pipe_that_ends_early(command, shell):
    done = shell(CASES[command][0], "| head -c 1; exit ${PIPESTATUS[0]}")
    assert done.returncode in (0, 141)
    assert "Broken pipe" not in done.stderr


def test_an_interpreter_that_starts_so(shell):
    """As above, in a process that is started with these streams, not forked."""
    command = [sys.executable, "-m", "knoll"]
    assert shell("datasets iris", "<&-", command).returncode == 0
    assert shell("predict m.knoll -", "<&-", command).stderr.startswith("knoll: standard input is closed.")
    assert shell("datasets iris", ">&-", command).stderr.startswith("knoll: standard output is closed.")
    done = shell("datasets digits", "| head -c 1; exit ${PIPESTATUS[0]}", command)
    assert (done.returncode, done.stderr) == (141, "")


ODD = {
    "bytes": os.fsdecode(b"\xff\xfe.csv"),
    "line break": "a\nb.csv",
    "escape": "\x1b[2Ja.csv",
    "backwards": "\u202ea.csv",
    "space": " a b .csv",
    "quotes": "'a\"b`.csv",
    "percent": "100%s{0}.csv",
    "accents": "ä€😀.csv",
    "two dots": "a..csv",
    "hidden": ".csv",
    "no ending": "table",
    "brackets": "[a]*?.csv",
}
NAMED = {
    "compare": lambda name: ["compare", name, "--methods", "kmeans", "--out", "c"],
    "fit": lambda name: ["fit", "kmeans", name, "--param", "n_clusters=2", "--out", "f.knoll"],
    "predict": lambda name: ["predict", "m.knoll", name, "--out", "l.csv"],
    "relate": lambda name: ["relate", name, "--only", "gaussian-is-mixture-of-one"],
    "inspect": lambda name: ["inspect", name],
    "datasets": lambda name: ["datasets", "iris", "--out", name],
}
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("command", NAMED)
def test_odd_names(command, odd, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    name = ODD[odd]
    args = NAMED[command](name)
    assert main(list(args)) == (0 if command == "datasets" else 2)  # there is no such file yet, and datasets writes it
    message = capsys.readouterr()
    assert command == "datasets" or message.err.count("\n") == 1
    assert not CONTROL.search(message.out + message.err)
    if command == "inspect":
        package.save(MODEL, name)
    elif command != "datasets":
        (folder / name).write_text(TABLE)
    code = main([*args, *(["--force"] if command == "datasets" else [])])
    message = capsys.readouterr()
    assert code == 0, message.err
    assert not CONTROL.search(message.out + message.err)
