"""What a terminal gets to see of a stranger's table, and what happens where a stream is closed or a name is odd."""

from __future__ import annotations

import io
import json
import os
import pty
import shlex
import subprocess
import sys

import numpy as np
import pytest

from knoll.cli import _terminal, main
from knoll.cli._terminal import VisibleBytes, json_text, visible

EVIL = "\x1b[2J\x1b]0;owned\x07\x00\x7f\x9b\u202e\u2066\u200f\udcff\n\ta"


def test_all_that_cannot_be_printed_becomes_visible():
    assert visible("größe → [red] ☂") == "größe → [red] ☂"
    shown = visible(EVIL)
    assert shown.isprintable()
    assert shown == repr(EVIL)[1:-1]
    assert visible("a\nb\x1b", keep="\n") == "a\nb\\x1b"


def test_json_is_printable_and_the_same():
    value = {EVIL: [EVIL, "größe", 1.5, "\U000e0001"]}
    text = json_text(value)
    assert text.replace("\n", "").isprintable()
    assert "größe" in text
    assert json.loads(text) == value


def test_bytes_that_go_to_a_terminal():
    sink = io.BytesIO()
    file = VisibleBytes(sink)
    for byte in "é\x1b[2J☂\n".encode() + b"\xff\n":  # a letter comes in pieces
        file.write(bytes([byte]))
    assert sink.getvalue().decode() == "é\\x1b[2J☂\n\\xff\n"


def test_a_stream_that_lacks_a_letter(monkeypatch):
    sink = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(sink, encoding="ascii"))
    _terminal.echo("größe →")
    sys.stdout.flush()
    assert sink.getvalue() == b"gr\\xf6\\xdfe \\u2192\n"


@pytest.fixture
def evil(tmp_path):
    """A table whose names and ids are escape sequences, under such a name."""
    path = tmp_path / "e\x1b[31m\u202e\n[bold]vil.csv"
    rows = "".join(f"\x1b[3{i % 8}m\x07{i},{i % 2 * 9 + i / 99},{i % 2 * 9}\n" for i in range(30))
    path.write_text(f"\x1b]0;owned\x07id,\x1b[2Ja[red],\u202eb[/red]\n{rows}")
    return path


def test_no_escape_sequence_of_a_table_reaches_a_terminal(evil, tmp_path, warm_knoll):
    """On a pseudo-terminal, where rich draws and click keeps colours; what knoll draws itself moves the cursor only."""
    model, id_name = tmp_path / "m.knoll", "\x1b]0;owned\x07id"
    commands = [
        ("fit", "kmeans", evil, "--param", "n_clusters=2", "--out", model),
        ("fit", "kmeans", evil, "--columns", "nowhere"),
        ("fit", "kmeans", evil, "--json", "--param", "n_clusters=2", "--labels", tmp_path / "\x1b[2Jl.csv"),
        ("inspect", model),
        ("inspect", model, "--json"),
        ("predict", model, evil, "--id", id_name),
        ("compare", evil, "--methods", "kmeans", "--k", "2", "--budget", "1", "--out", tmp_path / "\x1b[2Jo"),
        ("compare", evil, "--methods", "kmeans", "--k", "2", "--budget", "1", "--out", tmp_path / "\x1b[2Jo"),
        ("relate", evil, "--only", "kernel-trick"),
        ("predict", evil, evil),
        ("predict", tmp_path / "\x1b[2J", evil),
    ]
    for args in commands:
        master, slave = pty.openpty()
        process = subprocess.Popen([*warm_knoll, *map(str, args)], stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        seen = b""
        while True:
            try:
                piece = os.read(master, 1 << 16)
            except OSError:
                break
            if not piece:
                break
            seen += piece
        os.close(master)
        assert process.wait(300) in (0, 2), seen
        for raw in (b"\x1b[2J", b"\x1b]0;", b"\x1b[31m", b"\x07", "\u202e".encode()):
            assert raw not in seen, (args, seen)
        assert b"internal error" not in seen


def test_ids_are_exact_where_a_program_reads_them(evil, tmp_path, call):
    assert call("fit", "kmeans", evil, "--param", "n_clusters=2", "--quiet", "--out", tmp_path / "m")[0] == 0
    code, text, _ = call("predict", tmp_path / "m", evil, "--id", "\x1b]0;owned\x07id", "--quiet")
    assert code == 0
    assert "\x1b[30m\x070" in text


def test_a_log_file_is_plain_text(monkeypatch, tmp_path, capsys):
    import knoll

    def broken():
        raise ZeroDivisionError(EVIL)

    monkeypatch.setattr(knoll, "show_build", broken, raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert main(["info"]) == 1
    (log,) = tmp_path.glob("knoll-*.log")
    assert log.read_text(encoding="utf-8").replace("\n", "").isprintable()
    assert capsys.readouterr().err.rstrip("\n").isprintable()


def test_too_little_memory_is_one_line(monkeypatch, capsys):
    import knoll

    def large():
        raise MemoryError("Unable to allocate 417. GiB")

    monkeypatch.setattr(knoll, "show_build", large, raising=False)
    assert main(["info"]) == 2
    line = "knoll: not enough memory (Unable to allocate 417. GiB). Use fewer rows or columns.\n"
    assert capsys.readouterr().err == line


@pytest.fixture
def model(tmp_path):
    import knoll

    knoll.save(knoll.KMeans(2, random_state=0).fit(np.arange(12.0).reshape(6, 2)), tmp_path / "m.knoll")
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,4\n")
    return tmp_path / "m.knoll"


@pytest.mark.parametrize("args", ["fit kmeans -", "predict m.knoll -", "compare -", "relate -"])
@pytest.mark.parametrize("redirect", ["<&-", "0>/dev/null"])
def test_a_standard_input_that_cannot_be_read(model, tmp_path, args, redirect, warm_knoll):
    line = f"{shlex.join(warm_knoll)} {args} {redirect}"
    done = subprocess.run(line, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("knoll: standard input ")
    assert done.stderr.count("\n") == 1


def test_a_closed_standard_error(model, tmp_path, warm_knoll):
    for args, code in (("fit kmeans nowhere.csv", 2), ("predict m.knoll t.csv", 0), ("relate t.csv", 0)):
        line = f"{shlex.join(warm_knoll)} {args} 2>&-"
        done = subprocess.run(line, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == code, (args, done.stdout)
        assert "knoll:" not in done.stdout


def test_a_name_that_is_no_text(model, tmp_path, warm_knoll):
    for content, ending in ((b"a,b\n1,2\n3,4\n9,9\n", b"csv"), (b"", b"parquet"), (b"", b"feather"), (b"", b"npy")):
        name = os.fsdecode(os.path.join(os.fsencode(tmp_path), b"\xff\xfe." + ending))
        with open(name, "wb") as file:
            file.write(content)
            if not content:
                _write(file, ending)
        for args in (("fit", "kmeans", name, "--param", "n_clusters=2", "--json"), ("predict", model, name)):
            done = subprocess.run([*warm_knoll, *args], capture_output=True, timeout=120)
            assert done.returncode == 0, done.stderr
            assert b"\\udcff\\udcfe." in done.stdout + done.stderr
        args = ("compare", name, "--methods", "kmeans", "--k", "2", "--budget", "1", "--out", f"{name}.out")
        done = subprocess.run([*warm_knoll, *args, "--quiet"], capture_output=True, timeout=120)
        assert (done.returncode, done.stderr) == (0, b"")


def _write(file, ending):
    import pyarrow as pa
    import pyarrow.feather
    import pyarrow.parquet

    X = np.array([[1.0, 2.0], [3.0, 4.0], [9.0, 9.0]])
    table = pa.table({"a": X[:, 0], "b": X[:, 1]})
    if ending == b"npy":
        np.save(file, X)
    else:
        (pa.parquet.write_table if ending == b"parquet" else pa.feather.write_feather)(table, file)


def test_a_pipe_that_is_a_file_by_name(tmp_path, call):
    import threading

    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for args in (("fit", "gaussian", pipe), ("compare", pipe, "--methods", "kmeans", "--k", "2", "--budget", "1")):
        writer = threading.Thread(target=pipe.write_text, args=("a,b\n1,2\n3,5\n9,9\n",))
        writer.start()
        code, text, errors = call(*args, *(("--out", tmp_path / "out") if args[0] == "compare" else ()))
        writer.join(10)
        assert code == 0, errors
        assert f"{pipe}: 3 rows, 2 columns" in text
