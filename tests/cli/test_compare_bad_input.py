"""What bad tables get from ``knoll compare``: one line: what is wrong and what to do; exit 2, and no file."""

from __future__ import annotations

import gzip
import io
import json
import os
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from knoll.tables import limits

QUICK = ("--methods", "kmeans,gmm,dbscan", "--k", "2..3", "--budget", "5")
WIDE = 10**6


@pytest.fixture
def refused(tmp_path, call):
    """Write a file, run the command on it, and return the line of the refusal."""

    def run(content, *args, name="data.csv"):
        path = tmp_path / "in" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        code, text, errors = call("compare", path, "--out", tmp_path / "out", "--quiet", *QUICK, *args)
        assert (code, text) == (2, "")
        assert errors.startswith("knoll: ")
        assert errors.count("\n") == 1
        assert os.listdir(tmp_path) == ["in"]
        return errors.removeprefix("knoll: ").replace(str(path), name).rstrip("\n")

    return run


def two_groups(n=60):
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(0, 1, (n, 2)), rng.normal(9, 1, (n, 2))])


def npy(array):
    sink = io.BytesIO()
    np.save(sink, array)
    return sink.getvalue()


def parquet(**columns):
    sink = io.BytesIO()
    pa.parquet.write_table(pa.table(columns), sink)
    return sink.getvalue()


def test_a_missing_file(tmp_path, call):
    code, _, errors = call("compare", tmp_path / "nope.csv", "--out", tmp_path / "out")
    assert (code, errors) == (2, f"knoll: There is no file {tmp_path / 'nope.csv'}.\n")
    assert os.listdir(tmp_path) == []


def test_an_empty_file(refused):
    assert refused("") == "data.csv is empty."
    assert refused("\n \n\t\n") == "data.csv is empty."


def test_a_header_alone(refused):
    assert refused("x,y\n") == ("data.csv has one line and no numbers: a table has a line of names and then rows.")
    assert refused(parquet(x=pa.array([], pa.float64()))) == "data.csv has no rows."


def test_one_row(refused):
    assert refused("x,y\n1,2\n") == "data.csv has 1 row. At least two are needed."


def test_nothing_but_text(refused):
    output = refused("name,kind\nbob,a\neve,b\n")
    assert output == (
        "data.csv has no column to cluster on ('name' is an identifier, a different text in every row; "
        "'kind' is an identifier, a different text in every row)."
    )


def test_ragged_rows(refused):
    assert refused("x,y\n1,2\n1,2,3\n3,4\n") == "data.csv: line 3 has 3 cells where 2 are expected. Fix that line."


def test_mixed_encodings(refused, tmp_path, call):
    """The numbers can be used; a name in two encodings cannot name a row."""
    lines = [
        f"{'größe' * 120},{x},{y}".encode("latin-1" if i > 115 else "utf-8") for i, (x, y) in enumerate(two_groups())
    ]
    content = b"name,x,y\n" + b"\n".join(lines) + b"\n"
    output = refused(content, "--id", "name")
    assert output == "data.csv: column 'name' has text in more than one encoding. Save the file as UTF-8."
    code, text, _ = call("compare", tmp_path / "in" / "data.csv", "--out", tmp_path / "out", *QUICK)
    assert code == 0
    assert "left out: name (text in more than one encoding; save the file as UTF-8 to use it)" in text


def test_a_column_of_dates(refused, tmp_path, call):
    """They are numbers of days, unless they are in several formats."""
    days = ["2024-03-04", "05.03.2024", "Mar 6, 2024", "2024-03-09"] * 30
    output = refused("when\n" + "\n".join(f'"{day}"' for day in days) + "\n")
    assert output == (
        "data.csv has no column to cluster on ('when' is dates in several formats: row 1 has '2024-03-04', "
        "row 2 has '05.03.2024', row 3 has 'Mar 6, 2024'; write them in one)."
    )
    rows = [f"2024-03-{i % 28 + 1:02},{x},{y}" for i, (x, y) in enumerate(two_groups())]
    (tmp_path / "in" / "data.csv").write_text("when,x,y\n" + "\n".join(rows) + "\n")
    code, text, _ = call("compare", tmp_path / "in" / "data.csv", "--out", tmp_path / "out", *QUICK)
    assert code == 0
    assert "  dates, as numbers of days: when\n" in text


@pytest.mark.parametrize("value", ["", "NA", "nan", "inf", "-inf"])
def test_what_is_not_finite_is_named_by_row_and_column(refused, value):
    assert refused(f"x,y\n1,2\n3,{value}\n5,6\n", "--missing", "error") == (
        "data.csv has 1 missing value in 1 of 3 rows, the first in row 2, column 'y'. "
        "Use --missing drop (leave out such rows) or --missing median (fill in the median of the column)."
        + " Infinite, or beyond float64: 1 of these values."
        * value.endswith("inf")
    )


def test_what_is_not_finite_in_an_array(refused):
    output = refused(npy(np.array([[1.0, 2.0], [np.inf, 3.0]])), "--missing", "error", name="data.npy")
    assert "the first in row 2, column 'column 1'" in output


def test_missing_values_can_be_dropped_or_filled(tmp_path, call):
    rows = [f"{x},{y}" for x, y in two_groups()]
    rows[3] = ",1"
    (tmp_path / "data.csv").write_text("x,y\n" + "\n".join(rows) + "\n")
    for missing, count in (("drop", 119), ("median", 120)):
        out = tmp_path / missing
        code, text, _ = call("compare", tmp_path / "data.csv", "--missing", missing, "--out", out, *QUICK)
        assert code == 0
        assert "1 missing value in 1 of 120 rows" in text
        labels = pa.parquet.read_table(out / "labels.parquet")
        assert labels.num_rows == count
        assert (3 in labels["row"].to_pylist()) == (missing == "median")


def test_constant_columns(refused, tmp_path, call):
    assert refused("x,y\n" + "1,2\n" * 50) == "data.csv: all 50 rows are the same, so there is nothing to cluster."
    rows = [f"{x},7,{y}" for x, y in two_groups()]
    (tmp_path / "in" / "data.csv").write_text("x,seven,y\n" + "\n".join(rows) + "\n")
    code, text, _ = call("compare", tmp_path / "in" / "data.csv", "--out", tmp_path / "out", *QUICK)
    assert code == 0
    assert "  seven has a single value and was ignored.\n" in text


def test_a_hundred_thousand_copies_of_a_row(refused):
    output = refused("x,y\n" + "1,2\n" * 10**5)
    assert output == "data.csv: all 100000 rows are the same, so there is nothing to cluster."


def test_one_column_is_a_table(tmp_path, call):
    (tmp_path / "data.csv").write_text("x\n" + "".join(f"{x}\n" for x in two_groups()[:, 0]))
    code, text, _ = call("compare", tmp_path / "data.csv", "--out", tmp_path / "out", *QUICK)
    assert code == 0
    assert f"{tmp_path / 'data.csv'}: 120 rows, 1 column; scaled" in text
    assert "the vertical position has no meaning" in (tmp_path / "out" / "report.html").read_text()


def test_a_row_without_a_class(refused):
    rows = [f"{x},{y},{'' if i == 4 else 'k'}" for i, (x, y) in enumerate(two_groups())]
    output = refused("x,y,kind\n" + "\n".join(rows) + "\n", "--truth", "kind")
    assert output == (
        "data.csv: row 5 has no class in column 'kind' of --truth. "
        "Give it one, such as 'unknown', or leave the row out."
    )


def test_standard_input(tmp_path, knoll):
    rows = "".join(f"{x},{y}\n" for x, y in two_groups())
    done = knoll("compare", "-", "--out", tmp_path / "out", *QUICK, input="x,y\n" + rows)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("standard input: 120 rows, 2 columns; scaled (auto)\n")
    assert "<title>Clusters of standard input</title>" in (tmp_path / "out" / "report.html").read_text()


def test_a_million_columns(refused):
    message = (
        "has 1000000 columns; at most 50000 are supported. If rows and columns are swapped, transpose the table; "
        "else keep the columns that matter."
    )
    header = ",".join(f"c{i}" for i in range(WIDE))
    assert refused(f"{header}\n" + ",".join(["1"] * WIDE) + "\n") == f"data.csv {message}"
    assert refused(npy(np.zeros((2, WIDE), np.int8)), name="data.npy") == f"data.npy {message}"


def test_a_cell_without_end(refused):
    output = refused("x" * 200_000)
    assert output == (
        "data.csv cannot be read: a cell has more than 131072 characters. Shorten it, or leave that column out."
    )


BOMBS = {
    "gzip": gzip.compress(b"x,y\n" + b"1,2\n" * 2**20),
    "zstd": pa.compress(b"x,y\n" + b"1,2\n" * 2**20, codec="zstd", asbytes=True),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_decompression_bomb(refused, monkeypatch, bomb):
    """The size at which a file counts as a bomb is lowered, so that the test needs no gigabyte."""
    monkeypatch.setattr(limits, "_BOMB", (1 << 20, 300))
    assert refused(BOMBS[bomb]) == (
        "data.csv unpacks to more than 300 times its size, which no table does. If it is one, unpack it first."
    )
    monkeypatch.setattr(limits, "_BOMB", (1 << 40, 300))
    monkeypatch.setattr(limits, "free_memory", lambda: 1 << 21)
    assert refused(BOMBS[bomb]) == (
        "data.csv unpacks to more than 0.001 GB, half of the memory that is free. "
        "Take fewer rows, or the columns you need."
    )


def test_other_bombs(refused, monkeypatch):
    monkeypatch.setattr(limits, "_BOMB", (1 << 20, 300))
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", npy(np.zeros((2**18, 2))))
    assert "unpacks to more than 300 times its size" in refused(sink.getvalue(), name="data.npz")
    monkeypatch.setattr(limits, "free_memory", lambda: 1 << 21)
    assert "half of the memory that is free" in refused(parquet(x=np.zeros(2**18)), name="data.parquet")


def test_an_array_that_claims_to_be_huge(refused):
    claimed = npy(np.zeros((2, 2)))
    at = claimed.index(b"(2, 2), }")
    lie = b"(9000000000000, 2), }"
    content = claimed[:at] + lie + claimed[at + len(b"(2, 2), }") + len(lie) - len(b"(2, 2), }") :]
    assert refused(content, name="data.npy").startswith("data.npy is damaged: ")


def test_too_little_for_any_method_is_reported(tmp_path, call):
    """When no method can be fitted there is nothing to write, and each gives the reason."""
    (tmp_path / "data.csv").write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in two_groups()))
    args = ("--quiet", "--methods", "dbscan", "--set", "dbscan.metric=precomputed")
    code, _, errors = call("compare", tmp_path / "data.csv", "--out", tmp_path / "out", *args)
    assert code == 2
    assert errors.startswith("knoll: no method found two clusters in most of the rows (dbscan: ")
    assert "120" in errors
    assert os.listdir(tmp_path) == ["data.csv"]


def test_cells_that_look_like_formulas_stay_text(tmp_path, call):
    """Ids go into the labels as they are; the summary holds names of columns as they are."""
    ids = ["=cmd()|'/C calc'!A0", "<script>alert(1)</script>", 'a"b', "ünïcødé ☂", "@SUM(1)", "+1", "-1", "x,y"]
    rows = two_groups()
    table = pa.table({"id": (ids * 15)[:120], "=1+1": rows[:, 0], "</script><b>": rows[:, 1]})
    pa.parquet.write_table(table, tmp_path / "data.parquet")
    for form in ("csv", "parquet"):
        out = tmp_path / form
        code, _, _ = call("compare", tmp_path / "data.parquet", "--id", "id", "--out", out, "--format", form, *QUICK)
        assert code == 0
        read = pa.csv.read_csv if form == "csv" else pa.parquet.read_table
        assert read(out / f"labels.{form}")["id"].to_pylist() == (ids * 15)[:120]
    assert json.loads((out / "summary.json").read_text())["data"]["columns"] == ["=1+1", "</script><b>"]
