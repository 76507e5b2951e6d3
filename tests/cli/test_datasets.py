"""``knoll datasets``: the list, and tables that come back bit for bit."""

from __future__ import annotations

import csv
import io
import subprocess

import numpy as np
import pytest

from knoll import datasets


def test_the_list_has_a_line_for_each(knoll):
    done = knoll("datasets")
    assert done.returncode == 0
    by_name = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert list(by_name) == datasets.names()
    assert " 1500 x 2 " in by_name["x1500"]
    assert "3 classes" in by_name["x1500"]
    assert "no classes" in by_name["one_gaussian"]


@pytest.mark.parametrize("name", ["x1500", "one_gaussian", "iris"])
def test_a_table_comes_back_bit_for_bit(call, name):
    code, text, errors = call("datasets", name)
    assert (code, errors) == (0, "")
    header, *rows = csv.reader(io.StringIO(text))
    data = datasets.load(name)
    width = data.X.shape[1]
    assert header[:width] == list(data.feature_names)
    assert np.array_equal(np.array([[float(x) for x in row[:width]] for row in rows]), data.X)
    if data.y is None:
        assert len(header) == width
    else:
        assert header[width:] == ["target"]
        assert [int(row[width]) for row in rows] == data.y.tolist()


def test_a_file_holds_what_stdout_would(call, tmp_path):
    out = tmp_path / "iris.csv"
    out.write_text("older")
    line = f"knoll: {out} already exists. Choose another name, or replace it with --force.\n"
    assert call("datasets", "iris", "--out", out) == (2, "", line)
    assert out.read_text() == "older"
    assert call("datasets", "iris", "--out", out, "--force") == (0, f"{out}: 150 rows of iris\n", "")
    assert out.read_bytes() == call("datasets", "iris")[1].encode()
    assert [p.name for p in tmp_path.iterdir()] == ["iris.csv"]


def test_a_path_that_cannot_be_written_to(call, tmp_path):
    (tmp_path / "file").write_text("kept")
    below_a_file, nowhere = tmp_path / "file" / "iris.csv", tmp_path / "no" / "iris.csv"
    for out, reason in [
        (below_a_file, "Not a directory"),
        (nowhere, "No such file or directory"),
        (tmp_path, "Is a directory"),
    ]:
        line = f"knoll: cannot write {out}: {reason}. Choose another path with --out.\n"
        assert call("datasets", "iris", "--out", out) == (2, "", line)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert list(tmp_path.parent.glob(f".{tmp_path.name}.*.part")) == []


def test_a_reader_that_goes_away_is_no_error(warm_knoll):
    command = [*warm_knoll, "datasets", "digits"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().startswith("pixel_0_0,")
        process.stdout.close()
        assert process.wait(60) == 141
        assert process.stderr.read() == ""
