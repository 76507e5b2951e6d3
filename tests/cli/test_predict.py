"""``knoll predict``: rows of any format through a model file, in pieces, with the answers of one call."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

import knoll as package
from knoll import models
from knoll.exceptions import BadData
from knoll.tables import dialect, open_table, source
from knoll.tables import text as text_reader

RANDOM = np.random.default_rng(0)
ROWS = (RANDOM.normal(size=(90, 2)) * (1.0, 50.0) + np.arange(3).repeat(30)[:, None] * (8.0, 400.0)).round(6)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A mixture on scaled columns a and b."""
    path = tmp_path_factory.mktemp("model") / "m.knoll"
    made = models.Preparation.fit(ROWS, ["a", "b"])
    models.save(package.GaussianMixture(3, random_state=0).fit(made.apply(ROWS)), path, preparation=made)
    return path


@pytest.fixture(scope="module")
def labels(model):
    return models.read(model).estimator.labels_.tolist()


def text(rows=ROWS, delimiter=",") -> str:
    lines = [delimiter.join(["a", "name", "b"])]
    lines += [delimiter.join([repr(a), f"r{i}", repr(b)]) for i, (a, b) in enumerate(rows.tolist())]
    return "\n".join(lines) + "\n"


ARROW = pa.table({"b": ROWS[:, 1], "name": [f"r{i}" for i in range(90)], "a": ROWS[:, 0]})


def binary(write, thing, **options) -> bytes:
    sink = io.BytesIO()
    write(thing, sink, **options)
    return sink.getvalue()


def npy(array) -> bytes:
    sink = io.BytesIO()
    np.save(sink, array)
    return sink.getvalue()


def npz(**arrays) -> bytes:
    sink = io.BytesIO()
    np.savez(sink, **arrays)
    return sink.getvalue()


RECORDS = np.array([tuple(row) for row in ROWS.tolist()], dtype=[("a", "f8"), ("b", "f8")])
FORMATS = {
    "csv": text().encode(),
    "tsv": text(delimiter="\t").encode(),
    "decimal-comma": text(delimiter=";").replace(".", ",").encode(),
    "utf16": text().encode("utf-16"),
    "bom": b"\xef\xbb\xbf" + text().encode(),
    "crlf": text().replace("\n", "\r\n").encode(),
    "gzip": gzip.compress(text().encode()),
    "zstd": pa.compress(text().encode(), codec="zstd", asbytes=True),
    "parquet": binary(pa.parquet.write_table, ARROW, row_group_size=40),
    "feather": binary(pa.feather.write_feather, ARROW, chunksize=40),
    "npy": npy(RECORDS),
    "npz": npz(X=RECORDS[:, None]["a"], a=ROWS[:, 0], b=ROWS[:, 1]),
    "gzipped-npy": gzip.compress(npy(RECORDS)),
}


@pytest.mark.parametrize("content", FORMATS.values(), ids=FORMATS.keys())
@pytest.mark.parametrize("small", [False, True], ids=["at once", "in pieces"])
def test_every_format_gives_the_labels_of_one_call(call, model, labels, tmp_path, monkeypatch, content, small):
    if small:
        monkeypatch.setattr(source, "_ROWS", 7)
        monkeypatch.setattr(text_reader, "_BLOCK", 300)
        monkeypatch.setattr(dialect, "_LINE", 1)
        monkeypatch.setattr(text_reader, "_SAMPLE", 256)
    path = tmp_path / "new"
    path.write_bytes(content)
    code, out, errors = call("predict", model, path)
    assert code == 0, errors
    rows = [line.split(",") for line in out.splitlines()]
    assert rows[0] == ["row", "label"]
    assert [int(row) for row, _ in rows[1:]] == list(range(90))
    assert [int(label) for _, label in rows[1:]] == labels
    assert errors.startswith(f"{path} by GaussianMixture: 90 rows in ")


@pytest.mark.parametrize("content", FORMATS.values(), ids=FORMATS.keys())
def test_standard_input(call, model, labels, monkeypatch, content):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    code, out, errors = call("predict", model, "-", "--quiet")
    assert (code, errors) == (0, "")
    assert [int(line.split(",")[1]) for line in out.splitlines()[1:]] == labels


def test_a_pipe(model, labels, warm_knoll):
    args = [*warm_knoll, "predict", str(model), "-", "--quiet"]
    done = subprocess.run(args, input=FORMATS["gzip"], capture_output=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, b"")
    assert [int(line.split(b",")[1]) for line in done.stdout.splitlines()[1:]] == labels


def test_ids_probabilities_and_parquet(call, model, labels, tmp_path):
    path, out = tmp_path / "new.csv", tmp_path / "labels.parquet"
    path.write_text(text())
    code, message, errors = call("predict", model, path, "--id", "name", "--proba", "--out", out)
    assert (code, errors) == (0, "")
    assert message.startswith(f"{path} by GaussianMixture → {out}: 90 rows in ")
    assert message.endswith("3 clusters\n")
    stored = pa.parquet.read_table(out)
    assert stored.column_names == ["name", "label", "p_0", "p_1", "p_2"]
    assert stored["name"].to_pylist() == [f"r{i}" for i in range(90)]
    assert stored["label"].to_pylist() == labels
    shares = np.column_stack([stored[f"p_{c}"].to_numpy() for c in range(3)])
    read = models.read(model)
    assert shares.tobytes() == read.estimator.predict_proba(read.preparation.apply(ROWS)).tobytes()


def test_a_table_without_rows_is_reported_so(call, tmp_path):
    """Also where the model has no names for its columns."""
    package.save(package.KMeans(2, random_state=0).fit(ROWS), tmp_path / "m.knoll")
    pa.parquet.write_table(ARROW.slice(0, 0), tmp_path / "t.parquet")
    code, _, errors = call("predict", tmp_path / "m.knoll", tmp_path / "t.parquet")
    assert (code, errors) == (2, f"knoll: {tmp_path / 't.parquet'} has no rows.\n")


def test_the_format_may_be_requested(call, model, tmp_path):
    path, out = tmp_path / "new.csv", tmp_path / "labels"
    path.write_text(text())
    assert call("predict", model, path, "--out", out, "--format", "parquet")[0] == 0
    assert out.read_bytes()[:4] == b"PAR1"


def test_ids_keep_their_letters(call, model, tmp_path):
    path = tmp_path / "new.csv"
    path.write_text('id,a,b\n007,1,2\n"a,""b",3,4\nNA,5,6\n')
    code, out, _ = call("predict", model, path, "--id", "id")
    assert code == 0
    assert [row["id"] for row in pa.csv.read_csv(io.BytesIO(out.encode()), convert_options=pa.csv.ConvertOptions(
        column_types={"id": pa.string()})).to_pylist()] == ["007", 'a,"b', "NA"]  # fmt: skip


def test_one_gaussian_gives_densities(call, tmp_path):
    path, file = tmp_path / "g.knoll", tmp_path / "new.csv"
    file.write_text(text())
    assert call("fit", "gaussian", file, "--out", path)[0] == 0
    code, out, _ = call("predict", path, file)
    assert code == 0
    rows = [line.split(",") for line in out.splitlines()]
    assert rows[0] == ["row", "log_density", "mahalanobis"]
    model, made = models.read(path)
    np.testing.assert_array_equal([float(row[1]) for row in rows[1:]], model.score_samples(made.apply(ROWS)))
    np.testing.assert_array_equal([float(row[2]) for row in rows[1:]], model.mahalanobis(made.apply(ROWS)))
    code, _, errors = call("predict", path, file, "--proba")
    assert (code, errors) == (2, "knoll: Gaussian has no probabilities. Leave --proba out.\n")


def test_the_noise_of_a_mixture_has_its_own_column(call, tmp_path):
    path = tmp_path / "m.knoll"
    package.save(package.GaussianMixture(3, noise=True, random_state=0).fit(ROWS), path)
    (tmp_path / "new.csv").write_text(text())
    code, out, _ = call("predict", path, tmp_path / "new.csv", "--proba")
    assert code == 0
    assert out.splitlines()[0] == "row,label,p_0,p_1,p_2,p_noise"


def test_models_that_do_not_know_their_columns(call, tmp_path, labels):
    path, new = tmp_path / "bare.knoll", tmp_path / "new.csv"
    package.save(package.KMeans(3, random_state=0).fit(ROWS), path)
    new.write_text(text())
    code, out, _ = call("predict", path, new)
    assert code == 0
    assert len(out.splitlines()) == 91
    new.write_text("a,b,c\n1,2,3\n")
    code, _, errors = call("predict", path, new)
    assert code == 2
    assert errors == (
        f"knoll: {path} has 2 columns without names, and {new} has 3 numeric columns. "
        "Name them, in the order of the fit, with --columns.\n"
    )
    assert call("predict", path, new, "--columns", "c,a")[0] == 0
    code, _, errors = call("predict", path, new, "--columns", "c")
    assert code == 2
    assert f"{path} has 2 columns; --columns names 1." in errors
    code, _, errors = call("predict", path, new, "--columns", "a,b", "--missing", "median")
    assert code == 2
    assert "the model does not store the medians of its columns, since knoll fit did not write it." in errors


def test_names_of_a_data_frame_are_found(call, tmp_path):
    import pandas as pd

    path, new = tmp_path / "named.knoll", tmp_path / "new.csv"
    package.save(package.KMeans(3, random_state=0).fit(pd.DataFrame(ROWS, columns=["a", "b"])), path)
    new.write_text(text())
    code, out, _ = call("predict", path, new, "--json", "--out", tmp_path / "l.csv")
    assert code == 0
    assert json.loads(out)["columns"] == ["a", "b"]


def test_missing_values(call, model, tmp_path):
    new = tmp_path / "new.csv"
    new.write_text("a,b\n1,2\n,4\n5,?\n0.5,inf\n3,6\n")
    code, out, errors = call("predict", model, new)
    assert code == 2
    assert out == ""
    assert errors == (
        f"knoll: {new} has 3 missing values in 3 of 5 rows, the first in row 2, column 'a'. Use --missing drop "
        "(leave out such rows) or --missing median (fill in the median of the column). Infinite, or beyond float64: "
        "1 of these values.\n"
    )
    code, out, errors = call("predict", model, new, "--missing", "drop")
    assert code == 0
    assert [line.split(",")[0] for line in out.splitlines()] == ["row", "0", "4"]
    assert errors.endswith(", 3 rows with missing values left out\n")
    code, out, errors = call("predict", model, new, "--missing", "median")
    assert code == 0
    assert len(out.splitlines()) == 6
    assert errors.endswith(", 3 missing values filled in\n")
    read = models.read(model)
    filled = [[1, 2], [read.preparation.fill[0], 4], [5, read.preparation.fill[1]], [0.5, read.preparation.fill[1]]]
    expected = read.estimator.predict(read.preparation.apply([*filled, [3, 6]]))
    assert [int(line.split(",")[1]) for line in out.splitlines()[1:]] == expected.tolist()
    new.write_text("a,b\n1,\n,4\n")
    code, out, _ = call("predict", model, new, "--missing", "drop")
    assert (code, out) == (0, "row,label\n")


def test_the_rule_of_the_fit_is_remembered(call, tmp_path):
    new, path = tmp_path / "new.csv", tmp_path / "m.knoll"
    new.write_text(text() + ",x,3\n")
    assert call("fit", "kmeans", new, "--param", "n_clusters=3", "--missing", "drop", "--out", path)[0] == 0
    code, out, _ = call("predict", path, new, "--id", "name", "--missing", "median")
    assert len(out.splitlines()) == 92
    code, out, _ = call("predict", path, new, "--id", "name")
    assert code == 0
    assert len(out.splitlines()) == 91


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("", "{new} is empty."),
        ("a,b\n", "{new} has one line and no numbers"),
        ("a,c\n1,2\n", "{new} has no column 'b'. It has: a, c."),
        ("a,b\n1,2\n3,x\n", "{new}: line 3 has 'x' in column 'b', where a number is needed. Fix that cell."),
        ("a,b\n1,2\n3,4,5\n", "{new}: line 3 has 3 cells where 2 are expected. Fix that line."),
        (b"PAR1 and no more", "{new} is damaged: "),
        (b"ARROW1 and no more", "{new} is damaged: "),
        (b"\x93NUMPY and no more", "{new} is damaged: "),
        (b"\x1f\x8b and no more", "{new} looks like gzip and cannot be unpacked: "),
        (gzip.compress(text().encode())[:-30], "{new} looks like gzip and cannot be unpacked: "),
        (b"\x00\x01\x02" * 50, "{new} cannot be read"),
        (binary(pa.parquet.write_table, pa.table({"a": ["x"], "b": [1]})), "{new}: column 'a' cannot be used: text."),
        (binary(pa.parquet.write_table, ARROW.slice(0, 0)), "{new} has no rows."),
        (binary(pa.feather.write_feather, ARROW.slice(0, 0)), "{new} has no rows."),
    ],
)
def test_tables_that_cannot_be_used(call, model, tmp_path, content, line):
    new = tmp_path / "new"
    new.write_bytes(content if isinstance(content, bytes) else content.encode())
    code, out, errors = call("predict", model, new, "--out", tmp_path / "labels.csv")
    assert (code, out) == (2, "")
    assert errors.startswith("knoll: " + line.format(new=new)), errors
    assert errors.count("\n") == 1
    assert os.listdir(tmp_path) == ["new"]


def test_an_error_far_down_leaves_no_file_and_names_the_line(call, model, tmp_path, monkeypatch):
    monkeypatch.setattr(text_reader, "_BLOCK", 1000)
    monkeypatch.setattr(source, "_ROWS", 500)
    monkeypatch.setattr(text_reader, "_SAMPLE", 4096)
    new = tmp_path / "new.csv"
    new.write_text("a,b\n" + "1,2\n" * 5000 + "1,oops\n")
    code, _, errors = call("predict", model, new, "--out", tmp_path / "labels.csv")
    assert code == 2
    assert errors == f"knoll: {new}: line 5002 has 'oops' in column 'b', where a number is needed. Fix that cell.\n"
    new.write_text("a,b\n" + "1,2\n" * 5000 + "1,,\n")
    code, _, errors = call("predict", model, new, "--out", tmp_path / "labels.csv", "--missing", "drop")
    assert "line 5002 has 3 cells where 2 are expected." in errors
    new.write_text("a,b\n" + "1,2\n" * 5000 + "1," + "2" * 3000 + "\n1,2\n")
    code, _, errors = call("predict", model, new, "--out", tmp_path / "labels.csv")
    assert "a line is longer than 1000 bytes, or a quotation mark is never closed. Fix it." in errors
    assert os.listdir(tmp_path) == ["new.csv"]


def test_other_mistakes_are_one_line(call, model, tmp_path):
    new, out = tmp_path / "new.csv", tmp_path / "l.csv"
    new.write_text(text())
    out.write_text("mine")
    assert call("predict", model, new, "--out", out)[2].startswith(f"knoll: {out} already exists. Choose another")
    assert out.read_text() == "mine"
    assert call("predict", model, new, "--out", out, "--force", "--quiet") == (0, "", "")
    assert call("predict", model, "nope.csv")[2] == "knoll: There is no file nope.csv.\n"
    assert call("predict", "nope.knoll", new)[2] == "knoll: There is no file nope.knoll.\n"
    assert "is not a knoll model file" in call("predict", new, new)[2]
    assert "has no column 'z'" in call("predict", model, new, "--id", "z")[2]
    assert "cannot be read: Is a directory" in call("predict", model, tmp_path)[2]
    (tmp_path / "bad.csv").write_text("label,a,b\n1,2,3\n")
    code, _, errors = call("predict", model, tmp_path / "bad.csv", "--id", "label")
    assert (code, errors) == (2, "knoll: the column 'label' of --id has the name of an output column. Rename it.\n")


def test_json_goes_where_labels_do_not(call, model, tmp_path):
    (tmp_path / "new.csv").write_text(text())
    _, out, errors = call("predict", model, tmp_path / "new.csv", "--json")
    assert out.startswith("row,label\n")
    message = json.loads(errors)
    assert message["rows"] == sum(message["counts"].values()) == 90
    _, out, errors = call("predict", model, tmp_path / "new.csv", "--json", "--out", tmp_path / "l.csv")
    assert json.loads(out)["class"] == "GaussianMixture"
    assert errors == ""


def test_quoted_cells_may_have_lines_where_the_sample_ends(monkeypatch, tmp_path):
    monkeypatch.setattr(text_reader, "_SAMPLE", 64)
    path = tmp_path / "new.csv"
    path.write_text("a,note\n1,x\n2,y\n3,x\n" + '4,"' + "\n".join(["line"] * 30) + '"\n5,z\n')
    with open_table(path) as opened:
        pieces = list(opened.pieces(["a"], "note"))
    assert np.concatenate([piece.X for piece in pieces]).ravel().tolist() == [1, 2, 3, 4, 5]


def test_columns_of_numbers_by_the_first_rows(tmp_path):
    path = tmp_path / "new.csv"
    path.write_text("id,when,a,b\n" + "".join(f"{i},2020-01-01,{i / 2},{i}\n" for i in range(10)))
    with open_table(path) as opened:
        assert opened.numeric_columns() == ["a", "b"]
        with pytest.raises(BadData, match="line 2 has '2020-01-01' in column 'when', where a number is needed"):
            list(opened.pieces(["when"]))


MEASURED = """
import resource, sys
from knoll.cli import main
code = main(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the memory of a process as Linux reports it")
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_large_table_takes_no_more_memory_than_a_small_one(tmp_path, form):
    """One file has five times the rows of the other; as numbers alone it would take 77 MB more, as text 180."""
    path = tmp_path / "m.knoll"
    X = np.random.default_rng(0).normal(size=(50_000, 8))
    package.save(package.KMeans(3, random_state=0, n_jobs=1).fit(X[:1000]), path)

    def megabytes(copies: int) -> int:
        new = tmp_path / f"{copies}.{form}"
        table = pa.table({f"x{j}": X[:, j] for j in range(8)})
        if form == "csv":
            with pa.csv.CSVWriter(new, table.schema) as writer:
                for _ in range(copies):
                    writer.write_table(table)
        else:
            with pa.parquet.ParquetWriter(new, table.schema) as writer:
                for _ in range(copies):
                    writer.write_table(table)
        out = tmp_path / f"labels-{copies}.csv"
        args = [sys.executable, "-c", MEASURED, "predict", str(path), str(new), "--quiet", "--out", str(out)]
        done = subprocess.run(args, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        with out.open() as file:
            assert sum(1 for _ in file) == copies * len(X) + 1
        return int(done.stderr)

    assert megabytes(30) - megabytes(6) < 50
