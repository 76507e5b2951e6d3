"""Tables as people have them, through the commands: types, formats, new rows, and one sentence for what cannot be."""

from __future__ import annotations

import csv
import io
import json
import os

import h5py
import numpy as np
import openpyxl
import pandas as pd
import pytest
import scipy.io
import scipy.sparse

from knoll import compare, models
from knoll.tables import Rules, open_table, read_table
from knoll.tables.typed import frame_table, typed_table

QUICK = ("--methods", "kmeans,dbscan", "--k", "2..5", "--budget", "5")
HEADER = [
    "customer_id", "age", "income", "visits", "city", "gender", "newsletter", "last_purchase", "store_version",
    "comment", "segment_code",
]  # fmt: skip
CITIES = np.array(["Berlin", "Hamburg", "München", "Köln"])


def customers(n=240, missing=0.06, seed=0):
    """Return the rows of a customer table with four groups, as texts, and the groups."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 4, n)
    age = rng.normal(np.array([25, 40, 55, 68])[group], 3).round().astype(int)
    income = np.exp(rng.normal(np.array([10.2, 10.9, 11.4, 10.5])[group], 0.1)).round().astype(int)
    city = CITIES[np.where(rng.random(n) < 0.6, group, rng.integers(0, 4, n))]
    days = np.datetime64("2025-01-01") + rng.integers(0, 300, n)
    rows = [
        [f"C{i:05}", str(age[i]), f"€{income[i]:,}", str(rng.poisson([20, 6, 10, 3][group[i]])), city[i],
         "fm"[rng.integers(2)], ["yes", "no"][rng.integers(2)], days[i].item().strftime("%d.%m.%Y"), "v2",
         f"customer {i} called us {i * 7} times", str(rng.integers(1, 4))]
        for i in range(n)
    ]  # fmt: skip
    for i, j in np.argwhere(rng.random((n, 8)) < missing):
        if j:
            rows[i][j] = ["", "n/a", "?", "NULL"][rng.integers(4)]
    return rows, group


def written(rows, path, header=HEADER):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rows, group = customers()
    return written(rows, tmp_path_factory.mktemp("customers") / "customers.csv"), group


@pytest.fixture(scope="module")
def results(table):
    from knoll.cli import main

    out = table[0].parent / "out"
    assert main(["compare", str(table[0]), "--out", str(out), "--format", "csv", "--quiet", *QUICK]) == 0
    return out


def test_a_customer_table_keeps_its_columns(table, tmp_path, call):
    code, text, _ = call("compare", table[0], "--out", tmp_path / "out", *QUICK)
    assert code == 0
    lines = text.splitlines()
    assert lines[0] == f"{table[0]}: 240 rows, used 8 of 11 columns; scaled (auto)"
    notes = " ".join(line.strip() for line in lines)
    assert "left out: customer_id (an identifier, a different text in every row), comment (free text)" in notes
    assert "store_version has a single value and was ignored." in notes
    assert "segment_code: 3 codes, taken as categories" in notes
    assert "dates, as numbers of days: last_purchase" in notes
    assert "categories, with their number of levels: city (4), gender (2), newsletter (2), segment_code (3)" in notes
    assert "rows: methods for mixed tables use what a row has; others take the mean of the column" in notes
    assert "Influence of the columns on distances: " in notes
    page = (tmp_path / "out" / "report.html").read_text()
    head = page[: page.index("<main>")]
    assert "240 rows, used 8 of 11 columns; 2 methods compared" in head
    assert "Left out: customer_id (an identifier, a different text in every row), comment (free text)." in head


def test_the_types_are_in_the_summary_and_in_the_models(results):
    summary = json.loads((results / "summary.json").read_text())
    types = {column["name"]: column["type"] for column in summary["data"]["types"]}
    assert types == dict(zip(HEADER, ["id", "number", "number", "number", "category", "boolean", "boolean", "date",
                                      "constant", "text", "category"])) | {"gender": "category"}  # fmt: skip
    made = models.read(results / "models" / "kmeans.knoll").preparation
    assert made.schema is not None
    assert [column.name for column in made.schema.used] == [
        "age", "income", "visits", "last_purchase", "city", "gender", "newsletter", "segment_code",
    ]  # fmt: skip
    assert made.columns == made.schema.encoded
    assert models.inspect(results / "models" / "kmeans.knoll").format == "4.0"


def test_python_gives_the_same_as_the_command(table, results):
    found = compare(pd.read_csv(table[0]), methods=["kmeans", "dbscan"], k=range(2, 6), budget=5.0)
    labels = pd.read_csv(results / "labels.csv")
    assert set(found.candidates) == {"kmeans", "dbscan"}
    for method, candidate in found.candidates.items():
        assert candidate.labels.tolist() == labels[method].tolist()
    frame = pd.read_csv(table[0], dtype=str, keep_default_na=False)
    best = found.candidates[found.recommendation.method]
    assert (best.model.predict(found.scaling.apply(frame)) == found.labels).all()
    assert found.table.left_out["comment"] == "free text"
    assert any(note.startswith("left out: customer_id") for note in found.notes)


def test_predict_reproduces_the_labels(table, results, call, tmp_path):
    labels = pd.read_csv(results / "labels.csv")
    for method in ("kmeans", "dbscan"):
        out = tmp_path / f"{method}.csv"
        assert call("predict", results / "models" / f"{method}.knoll", table[0], "--out", out, "--quiet")[0] == 0
        assert pd.read_csv(out)["label"].tolist() == labels[method].tolist()


@pytest.mark.parametrize(("method", "number"), [("mixed-mixture", "n_components"), ("k-prototypes", "n_clusters")])
def test_methods_for_mixed_tables_are_fitted_and_predict(table, tmp_path, call, method, number):
    """Categories as codes, missing values as they are, from the file of the model."""
    model, labels, out = (tmp_path / name for name in ("model.knoll", "labels.csv", "again.csv"))
    options = ("--missing", "model", "--param", f"{number}=4", "--out", model, "--labels", labels, "--quiet")
    assert call("fit", method, table[0], *options)[0] == 0
    made = models.read(model).preparation
    assert (made.encoding, made.missing, models.inspect(model).format) == ("codes", "model", "4.0")
    assert call("predict", model, table[0], "--out", out, "--quiet")[0] == 0
    assert pd.read_csv(out)["label"].tolist() == pd.read_csv(labels)["label"].tolist()


def test_new_rows_have_a_defined_answer(table, results, call, tmp_path):
    """An unknown category and a missing value count as missing; a cell of another type is an error."""
    rows, _ = customers(n=6, missing=0.0, seed=1)
    rows[0][4], rows[1][2], rows[2][6] = "Paris", "", "TRUE"
    model, new = results / "models" / "kmeans.knoll", tmp_path / "new.csv"
    written([row[::-1] for row in rows], new, HEADER[::-1])
    code, text, errors = call("predict", model, new)
    assert (code, len(text.splitlines())) == (0, 7)
    assert "2 missing values, 1 of them in a category that the fit did not have" in errors
    code, _, errors = call("predict", model, new, "--missing", "error")
    assert code == 2
    assert "has 2 missing values in 2 of 6 rows, the first in row 1, column 'city'. Use --missing drop" in errors
    assert "(fill in the median or the most frequent category of the column)" in errors
    assert len(call("predict", model, new, "--missing", "drop")[1].splitlines()) == 5
    rows[3][7] = "soon"
    written(rows, new)
    code, _, errors = call("predict", model, new)
    assert (code, errors) == (
        2, f"knoll: {new}: column 'last_purchase' is a date as %d.%m.%Y, but row 4 has 'soon'. Fix that cell.\n",
    )  # fmt: skip
    written([row[:4] for row in rows], new, HEADER[:4])
    assert "has no column" in call("predict", model, new)[2]


def test_an_error_names_the_row_of_the_file(results, call, tmp_path, monkeypatch):
    """Also in a later piece."""
    monkeypatch.setattr("knoll.tables.source._ROWS", 50)
    rows, _ = customers(n=120, missing=0.0, seed=2)
    rows[110][2] = "much"
    new = tmp_path / "new.parquet"
    pd.DataFrame(rows, columns=HEADER).astype({"age": int, "visits": int}).to_parquet(new)
    code, _, errors = call("predict", results / "models" / "kmeans.knoll", new)
    assert (code, errors) == (
        2, f"knoll: {new}: column 'income' is a number, but row 111 has 'much'. Fix that cell.\n",
    )  # fmt: skip


def test_options_about_columns(table, tmp_path, call):
    args = ("fit", "kmeans", table[0], "--param", "n_clusters=4", "--missing", "median", "--json")
    code, text, _ = call(*args, "--types", "segment_code=number,gender=ignore", "--types", "visits=category",
                         "--log", "income", "--ignore", "last_purchase,newsletter")  # fmt: skip
    assert code == 0
    output = json.loads(text)["data"]
    assert output["columns"][:3] == ["age", "log(income)", "segment_code"]
    assert output["columns"][3].startswith("visits=")
    assert output["left_out"]["gender"] == output["left_out"]["newsletter"] == "ignored by request"
    code, text, _ = call(*args, "--columns", "age,income,city", "--log", "auto")
    assert json.loads(text)["data"]["columns"] == ["age", "income", *(f"city={name}" for name in sorted(CITIES))]
    frame = pd.read_csv(table[0])
    found = compare(frame, methods=["kmeans"], k=[4], types={"visits": "category"}, log=["income"], missing="drop",
                    ignore=["city"])  # fmt: skip
    assert "log(income)" in found.profile.columns
    assert len(found.labels) == len(found.table.rows) < len(frame)


def bad(tmp_path, **columns):
    path = tmp_path / "bad.csv"
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


N = 120
X = np.arange(N) * 0.7
MIXED = [i if i % 2 else f"x{i}" for i in range(N)]
LEVELS = [f"level {i}" for i in range(10**5)]
DATES = ["2024-01-05", "05.01.2024", "Jan 5, 2024", "2024-02-05"] * 30
BAD = {
    "mixed types": ({"a": MIXED}, (), "has no column to cluster on ('a' is text and numbers mixed (50% numbers: row 2"),
    "mixed types, requested": ({"x": X, "a": MIXED}, ("--columns", "a"), "column 'a' cannot be used: text and numbers"),
    "levels": (
        {"x": np.arange(10**5) % 7, "a": LEVELS},
        ("--types", "a=category"),
        "it has 100000 levels, 1000 at most",
    ),
    "three formats": (
        {"x": X, "a": DATES},
        ("--types", "a=date"),
        "'a' cannot be a date: dates in several formats",
    ),
    "99 % missing": ({"a": [1.5, 2.5] + [None] * 298}, (), "('a' is 99.3 % of its values are missing; name it in"),
    "nothing": ({"a": [f"u{i}" for i in range(N)]}, (), "has no column to cluster on ('a' is an identifier"),
    "no such column": ({"x": X}, ("--types", "b=number"), "types: bad.csv has no column 'b'. It has: x."),
    "no such type": ({"x": X}, ("--types", "x=colour"), "types: 'x' cannot be 'colour'. Choose from: number, category"),
    "no type": ({"x": X}, ("--types", "x"), "--types takes COLUMN=TYPE, such as --types city=category, got 'x'."),
    "nothing to ignore": ({"x": X}, ("--ignore", "b"), "ignore: bad.csv has no column 'b'."),
    "no logarithm": ({"x": X - 5}, ("--log", "x"), "column 'x': row 1 has -5, which has no logarithm."),
}


@pytest.mark.parametrize(("columns", "args", "message"), BAD.values(), ids=BAD.keys())
@pytest.mark.parametrize("command", ["compare", "fit"])
def test_bad_input_is_one_sentence(tmp_path, call, command, columns, args, message):
    path = bad(tmp_path, **columns)
    start = ("compare", path, *QUICK) if command == "compare" else ("fit", "kmeans", path)
    code, text, errors = call(*start, "--out", tmp_path / "out", *args, *(("--quiet",) * (command == "compare")))
    assert (code, text) == (2, "")
    assert message in errors.replace(str(path), "bad.csv")
    assert errors.count("\n") == 1
    assert os.listdir(tmp_path) == ["bad.csv"]


def test_columns_of_bad_input_are_left_out_where_others_are_there(tmp_path, call):
    path = bad(
        tmp_path, x=X, y=X % 9, mixed=MIXED, dates=DATES, nearly=[1.0, 2.0] + [None] * (N - 2), target=["a", "b"] * 60
    )
    code, text, _ = call("fit", "kmeans", path, "--param", "n_clusters=2", "--json")
    output = json.loads(text)["data"]
    assert (code, output["columns"]) == (0, ["x", "y"])
    assert output["left_out"]["nearly"] == "98.3 % of its values are missing; name it in --columns to use it"
    assert output["left_out"]["target"].startswith("looks like known classes; use --truth target to compare with them")
    assert output["left_out"]["dates"].endswith("write them in one")


# ---- formats ---------------------------------------------------------------------------------------------------------

ROWS = np.array([[1.5, 0.0, 3.0], [0.0, 2.0, 0.0], [7.0, 0.0, 9.0], [0.0, 0.0, 1.0]])


def excel(path):
    book = openpyxl.Workbook()
    for row in (["a", "b", "c"], *ROWS.tolist()):
        book.active.append(row)
    book.create_sheet("more")
    book.save(path)


def anndata(path, sparse=True):
    matrix = scipy.sparse.csc_matrix(ROWS)
    with h5py.File(path, "w") as file:
        if sparse:
            group = file.create_group("X")
            group.attrs.update({"encoding-type": "csc_matrix", "shape": matrix.shape})
            for name in ("data", "indices", "indptr"):
                group[name] = getattr(matrix, name)
        else:
            file["X"] = ROWS.astype(np.float32)
        for name, names in (("var", ["a", "b", "c"]), ("obs", [f"cell {i}" for i in range(4)])):
            group = file.create_group(name)
            group.attrs["_index"] = "_index"
            group["_index"] = names


def lines(path):
    path.write_text("".join(json.dumps(dict(zip("abc", row))) + "\n" for row in ROWS.tolist()))


def short_header(path):
    path.write_text("a\tb\tc\n" + "".join(f"r{i}\t" + "\t".join(map(str, row)) + "\n" for i, row in enumerate(ROWS)))


def into(path, write):
    sink = io.BytesIO()
    write(sink)
    path.write_bytes(sink.getvalue())


FORMATS = {
    "excel": excel,
    "h5ad": anndata,
    "dense h5ad": lambda path: anndata(path, sparse=False),
    "json lines": lines,
    "R": short_header,
    "sparse npz": lambda path: into(path, lambda file: scipy.sparse.save_npz(file, scipy.sparse.coo_array(ROWS))),
    "mtx": lambda path: into(path, lambda file: scipy.io.mmwrite(file, scipy.sparse.coo_array(ROWS))),
    "dense mtx": lambda path: into(path, lambda file: scipy.io.mmwrite(file, ROWS)),
}


@pytest.mark.parametrize("make", FORMATS.values(), ids=FORMATS.keys())
def test_more_formats(tmp_path, call, knoll, make):
    path = tmp_path / "data"
    make(path)
    table = read_table(path)
    assert table.X.tolist() == ROWS.tolist()
    args = ("fit", "kmeans", "--param", "n_clusters=2", "--scale", "none", "--out", tmp_path / "m.knoll", "--json")
    code, text, _ = call(*args[:2], path, *args[2:])
    output = json.loads(text)
    assert (code, output["data"]["columns"]) == (0, list(table.columns))
    code, text, _ = call("predict", tmp_path / "m.knoll", path)
    assert code == 0
    assert len(text.splitlines()) == 5
    with path.open("rb") as file:
        done = knoll("fit", "kmeans", "-", *args[2:-3], "--json", stdin=file)
    assert json.loads(done.stdout)["sizes"] == output["sizes"]


def test_names_of_rows(tmp_path, call):
    anndata(tmp_path / "x.h5ad")
    args = ("--param", "n_clusters=2", "--labels", "-")
    for scale in ("none", "standard"):
        text = call("fit", "kmeans", tmp_path / "x.h5ad", "--scale", scale, "--id", "obs_names", *args)[1]
        assert [line.partition(",")[0] for line in text.splitlines()[:2]] == ["obs_names", '"cell 0"']
    short_header(tmp_path / "r.tsv")
    _, text, _ = call("fit", "kmeans", tmp_path / "r.tsv", "--param", "n_clusters=2")
    assert "the first column has the names of rows; --id row.names" in text


def test_a_sparse_fit_is_that_of_its_dense_rows(tmp_path, call):
    rng = np.random.default_rng(0)
    matrix = scipy.sparse.random_array((300, 40), density=0.1, rng=rng, format="csr")
    scipy.sparse.save_npz(tmp_path / "s.npz", matrix)
    np.save(tmp_path / "d.npy", matrix.toarray())
    for name in ("s.npz", "d.npy"):
        args = ("--param", "n_clusters=3", "--scale", "none", "--labels", tmp_path / f"{name}.csv", "--quiet")
        assert call("fit", "kmeans", tmp_path / name, *args) == (0, "", "")
    assert (tmp_path / "s.npz.csv").read_bytes() == (tmp_path / "d.npy.csv").read_bytes()


def test_formats_that_are_not_read_name_those_that_are(tmp_path, call):
    with h5py.File(tmp_path / "no.h5", "w") as file:
        file["Y"] = ROWS
    (tmp_path / "a.json").write_text(json.dumps([{"a": 1}, {"a": 2}], indent=1))
    for name in ("no.h5", "a.json"):
        code, _, errors = call("fit", "kmeans", tmp_path / name)
        assert code == 2
        assert "Supported formats: CSV, TSV, JSON lines, Excel (.xlsx), Parquet" in errors
        assert errors.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"%%MatrixMarket matrix coordinate real general\n2 2 1\n9 9 1.0\n", "is damaged"),
        (b"%%MatrixMarket matrix coordinate real general\n2 900000 0\n", "has 900000 columns; at most 50000"),
        (b"%%MatrixMarket matrix array real general\n99999999 9\n1\n", "unpacks to more than"),
        (b"\x89HDF\r\n\x1a\n and no more", "is damaged"),
        (b'{"a": 1}\n{"a": \n', "a line is no JSON object"),
        (b'{"a": 1, "b": 2}\n{"a": "x", "b": 3}\n[3]\n', "line 3 is no JSON object"),
    ],
)
def test_damaged_files_of_these_formats(tmp_path, call, content, message):
    path = tmp_path / "data"
    path.write_bytes(content)
    code, _, errors = call("fit", "kmeans", path)
    assert (code, errors.count("\n")) == (2, 1)
    assert message in errors


def test_cells_of_several_types_in_json_lines(tmp_path, call):
    lines = [json.dumps({"x": i * 0.5, "odd": i if i % 2 else "many"}) for i in range(40)]
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    output = json.loads(call("fit", "kmeans", tmp_path / "t.jsonl", "--param", "n_clusters=2", "--json")[1])
    assert output["data"]["left_out"]["odd"].startswith("text and numbers mixed (50% numbers")


def test_a_workbook_of_types(tmp_path):
    rows, _ = customers(n=40)
    book = openpyxl.Workbook()
    for row in (HEADER, *rows):
        book.active.append(row)
    sink = io.BytesIO()
    book.save(sink)
    (tmp_path / "t.xlsx").write_bytes(sink.getvalue())
    frame = pd.DataFrame(rows, columns=HEADER)
    with open_table(tmp_path / "t.xlsx") as source:
        found = typed_table(source, None, Rules(), "median")
    expected = frame_table(frame)
    assert found.columns == expected.columns
    np.testing.assert_array_equal(found.X, expected.X)
