"""``knoll fit``: a table and a method become a model file and labels, whole or not at all."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow.parquet
import pytest

import knoll
import knoll as package
from knoll import models
from knoll.registry import METHODS, find

RANDOM = np.random.default_rng(0)
ROWS = RANDOM.normal(size=(90, 2)) * (1.0, 50.0) + np.arange(3).repeat(30)[:, None] * (8.0, 400.0)
SETTINGS = {
    "gaussian": [],
    "gmm": ["--param", "n_components=3"],
    "kmeans": ["--param", "n_clusters=3"],
    "kernel-kmeans": ["--param", "n_clusters=3", "--param", "sigma=0.5"],
    "spectral": ["--param", "n_clusters=3", "--param", "sigma=.5"],
    "dbscan": ["--param", "eps=0.4"],
    "hdbscan": ["--param", "noise=nearest"],
    "mean-shift": ["--param", "bandwidth=0.8"],
    "optics": ["--param", "cluster_method=dbscan", "--param", "eps=0.6"],
    "agglomerative": ["--param", "n_clusters=3"],
    "mixed-mixture": ["--param", "n_components=3"],
    "k-prototypes": ["--param", "n_clusters=3"],
}


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    lines = [f"r{i},{a!r},{b!r}" for i, (a, b) in enumerate(ROWS.tolist())]
    path.write_text("name,a,b\n" + "\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("method", SETTINGS)
def test_every_method_fits_and_keeps_its_model(call, table, tmp_path, method):
    out = tmp_path / "m.knoll"
    code, text, errors = call("fit", method, table, *SETTINGS[method], "--out", out)
    assert (code, errors) == (0, "")
    assert text.splitlines()[:2] == [
        f"{table}: 90 rows, used 2 of 3 columns; scaled (standard)",
        "  left out: name (an identifier, a different text in every row)",
    ]
    assert f"{out}: " in text
    model, made = models.read(out)
    assert type(model) is find(method).estimator_class()
    assert made is not None
    assert made.columns == ("a", "b")
    scaled = (ROWS - ROWS.mean(axis=0)) / ROWS.std(axis=0)
    np.testing.assert_allclose(made.apply(ROWS), scaled, rtol=0, atol=1e-13)
    if method != "gaussian":
        assert "3 clusters (30, 30, 30 rows)" in text
        if method not in ("optics", "agglomerative"):
            np.testing.assert_array_equal(model.predict(made.apply(ROWS)), model.labels_)


@pytest.mark.parametrize("method", ["optics", "agglomerative"])
def test_methods_without_predict_have_labels_and_report_it(call, table, tmp_path, method):
    model, labels = tmp_path / "m.knoll", tmp_path / "labels.csv"
    assert call("fit", method, table, *SETTINGS[method], "--out", model, "--labels", labels)[0] == 0
    assert len(labels.read_text().splitlines()) == 91
    code, _, errors = call("predict", model, table)
    assert code == 2
    assert "labels only the rows of its fit" in errors


def test_methods_are_all_the_public_estimators():
    assert {find(name).name for name in SETTINGS} == {name for name, method in METHODS.items() if method.estimator}
    public = {name for name in knoll.__all__ if hasattr(getattr(knoll, name), "fit")}
    no_labels = {"DensityTree"}
    assert {m.estimator_name for m in METHODS.values() if m.estimator} == public - no_labels


def test_the_names_of_compare_are_known_here_too(call, table, tmp_path):
    short, long = tmp_path / "short.knoll", tmp_path / "long.knoll"
    assert call("fit", "gmm", table, "--param", "n_components=3", "--out", short)[0] == 0
    assert call("fit", "gaussian-mixture", table, "--set", "n_components=3", "--out", long)[0] == 0
    assert np.array_equal(*(models.read(path)[0].means_ for path in (short, long)))


def test_labels_as_csv_and_parquet_with_row_numbers_or_ids(call, table, tmp_path):
    one, two = tmp_path / "one.csv", tmp_path / "two.parquet"
    assert call("fit", "kmeans", table, "--param", "n_clusters=3", "--labels", one)[0] == 0
    assert call("fit", "kmeans", table, "--param", "n_clusters=3", "--labels", two, "--id", "name")[0] == 0
    lines = one.read_text().splitlines()
    assert lines[0] == "row,label"
    assert [line.split(",")[0] for line in lines[1:]] == [str(i) for i in range(90)]
    stored = pyarrow.parquet.read_table(two)
    assert stored.column_names == ["name", "label"]
    assert stored["name"].to_pylist() == [f"r{i}" for i in range(90)]
    assert [int(line.split(",")[1]) for line in lines[1:]] == stored["label"].to_pylist()


def test_the_same_command_gives_the_same_labels_for_any_number_of_threads(call, table, tmp_path):
    for jobs in (1, 3):
        assert (
            call("fit", "gmm", table, "--param", "n_components=3", "--jobs", jobs, "--labels", tmp_path / f"{jobs}")[0]
            == 0
        )
    assert (tmp_path / "1").read_bytes() == (tmp_path / "3").read_bytes()


def test_json_reports_all(call, table, tmp_path):
    out = tmp_path / "m.knoll"
    code, text, errors = call("fit", "dbscan", table, "--param", "eps=0.4", "--out", out, "--json", "--scale", "robust")
    assert (code, errors) == (0, "")
    output = json.loads(text)
    assert output["class"] == "DBSCAN"
    assert output["parameters"] == {"eps": 0.4}
    assert output["data"]["columns"] == ["a", "b"]
    assert output["data"]["left_out"] == {"name": "an identifier, a different text in every row"}
    assert [column["type"] for column in output["data"]["types"]] == ["id", "number", "number"]
    assert sum(output["sizes"]) + output["noise"] == 90
    assert output["sha256"] == models.inspect(out).digest
    assert output["bytes"] == out.stat().st_size
    assert output["scale"] == "robust"


def test_quiet_reports_nothing(call, table, tmp_path):
    assert call("fit", "kmeans", table, "--quiet", "--param", "n_clusters=2", "--out", tmp_path / "m") == (0, "", "")


def test_warnings_become_notes(call, table):
    code, text, errors = call("fit", "dbscan", table, "--param", "eps=1e-9")
    assert code == 0
    assert errors.startswith("note: DBSCAN: all 90 points are noise")
    assert "0 clusters and 90 rows of noise" in text
    code, text, _ = call("fit", "dbscan", table, "--param", "eps=1e-9", "--json")
    assert json.loads(text)["warnings"][0].startswith("DBSCAN: all 90 points are noise")


@pytest.mark.parametrize(
    ("scale", "center", "spread"),
    [
        ("standard", ROWS.mean(axis=0), ROWS.std(axis=0)),
        ("robust", np.median(ROWS, axis=0), np.subtract(*np.quantile(ROWS, [0.75, 0.25], axis=0))),
        ("none", [0.0, 0.0], [1.0, 1.0]),
    ],
)
def test_scales(call, table, tmp_path, scale, center, spread):
    call("fit", "kmeans", table, "--scale", scale, "--param", "n_clusters=2", "--out", tmp_path / "m.knoll")
    made = models.read(tmp_path / "m.knoll").preparation
    assert made.scale == scale
    np.testing.assert_allclose(made.center, center, rtol=1e-12)
    np.testing.assert_allclose(made.spread, spread, rtol=1e-12)


def test_scales_do_not_depend_on_the_order_of_rows_nor_on_magnitude():
    columns = ["a", "b"]
    for scale in ("standard", "robust"):
        made = models.Preparation.fit(ROWS, columns, scale=scale)
        assert models.Preparation.fit(ROWS[::-1], columns, scale=scale) == made
        huge = models.Preparation.fit(ROWS * 2.0**900, columns, scale=scale)
        assert huge.spread == tuple(np.ldexp(made.spread, 900))
        assert huge.center == tuple(np.ldexp(made.center, 900))
        constant = models.Preparation.fit(np.full((7, 2), 0.1), columns, scale=scale)
        assert constant.spread == (1.0, 1.0)
        np.testing.assert_allclose(constant.apply([[0.1, 1.1]]), [[0.0, 1.0]], atol=1e-15)


def test_missing_values(call, tmp_path):
    path = tmp_path / "gaps.csv"
    path.write_text("a,b\n" + "".join(f"{a},{b}\n" for a, b in ROWS.tolist()) + ",3\n7,\n")
    args = ("fit", "kmeans", path, "--param", "n_clusters=3")
    code, _, errors = call(*args)
    assert code == 2
    assert "2 missing values in 2 of 92 rows, the first in row 91, column 'a'. Use --missing drop" in errors
    code, text, _ = call(*args, "--missing", "drop", "--labels", tmp_path / "l.csv")
    assert code == 0
    assert "2 missing values in 2 of 92 rows: these rows were left out" in text
    assert (tmp_path / "l.csv").read_text().count("\n") == 91
    assert call(*args, "--missing", "median", "--out", tmp_path / "m.knoll")[0] == 0
    made = models.read(tmp_path / "m.knoll").preparation
    assert (made.missing, made.fill) == ("median", (np.median([*ROWS[:, 0], 7.0]), np.median([*ROWS[:, 1], 3.0])))


def test_parameters_are_numbers_names_lists_and_text(call, table, tmp_path):
    start = json.dumps(((ROWS[[0, 30, 60]] - ROWS.mean(axis=0)) / ROWS.std(axis=0)).tolist())
    args = ["--param", "n_clusters=3", "--param", f"init={start}", "--param", "tol=1e-3", "--param", "copy_x=False"]
    args += ["--param", "algorithm = hamerly", "--param", "random_state=None"]
    assert call("fit", "kmeans", table, *args, "--out", tmp_path / "m.knoll")[0] == 0
    model = models.read(tmp_path / "m.knoll").estimator
    assert (model.n_clusters, model.tol, model.copy_x, model.algorithm) == (3, 1e-3, False, "hamerly")
    assert model.random_state is None
    assert np.shape(model.init) == (3, 2)


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["kmean"], "Invalid value for 'METHOD': unknown method 'kmean'. Choose from: gaussian, mixed-mixture,"),
        (["kmeans", "--param", "n_cluster=3"],
         "KMeans has no parameter 'n_cluster'. Did you mean 'n_clusters'? It has: algorithm, "),
        (["kmeans", "--param", "xyz=3"], "KMeans has no parameter 'xyz'. It has: algorithm, "),
        (["kmeans", "--param", "n_clusters"], "--param takes NAME=VALUE, got 'n_clusters'."),
        (["kmeans", "--param", "n_clusters=0"], "KMeans: n_clusters must be >= 1, got 0."),
        (["kmeans", "--param", "n_clusters=two"], "KMeans: n_clusters must be a whole number, got 'two'."),
        (["kmeans", "--param", "n_clusters=1000"], "n_samples=90 should be >= n_clusters=1000"),
        (["dbscan", "--param", "metric=precomputed"],
         "metric=precomputed needs columns that are not scaled. Add --scale none."),
        (["kmeans", "--columns", "a,z"], "has no column 'z'. It has: name, a, b."),
        (["kmeans", "--columns", "name"], "column 'name' cannot be used: an identifier, a different text in every row"),
        (["gaussian", "--labels", "l.csv"], "Gaussian is a single cluster and has no labels. Leave --labels out."),
        (["kmeans", "--scale", "log"], "Invalid value for '--scale'"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line_and_exit_2(call, table, tmp_path, monkeypatch, args, line):
    monkeypatch.chdir(tmp_path)
    method, *options = args
    code, text, errors = call("fit", method, table, *options, "--out", "m.knoll")
    assert (code, text) == (2, "")
    assert line in errors
    assert errors.count("\n") == 1
    assert os.listdir(tmp_path) == ["table.csv"]


def test_brackets_without_end_are_text(call, table):
    code, _, errors = call("fit", "dbscan", table, "--param", "eps=" + 3000 * "[")
    assert code == 2
    assert errors.startswith("knoll: DBSCAN: eps must be ")


def test_nothing_is_replaced_without_force(call, table, tmp_path):
    out, labels = tmp_path / "m.knoll", tmp_path / "l.csv"
    out.write_text("mine")
    args = ("fit", "kmeans", table, "--param", "n_clusters=3", "--out", out, "--labels", labels)
    code, text, errors = call(*args)
    assert (code, text) == (2, "")
    assert errors == f"knoll: {out} already exists. Choose another name, or replace it with --force.\n"
    assert out.read_text() == "mine"
    assert not labels.exists()
    assert call(*args, "--force")[0] == 0
    assert call(*args, "--force")[0] == 0
    assert models.inspect(out).kind == "KMeans"


def test_an_input_is_never_replaced(call, table, tmp_path):
    data, model = tmp_path / "data.csv", tmp_path / "m.knoll"
    data.write_bytes(table.read_bytes())
    (tmp_path / "link.csv").symlink_to(data)
    fit = ("fit", "kmeans", data, "--force")
    assert call(*fit, "--out", model, "--quiet") == (0, "", "")
    before = model.read_bytes()
    for args, path in (
        ((*fit, "--out", data), data),
        ((*fit, "--labels", tmp_path / "link.csv"), tmp_path / "link.csv"),
        (("predict", model, data, "--out", data, "--force"), data),
        (("predict", model, data, "--out", model, "--force"), model),
        (("relate", data, "--json", data, "--force"), data),
    ):
        assert call(*args) == (2, "", f"knoll: {path} is an input of this command. Choose another name.\n")
    assert (data.read_bytes(), model.read_bytes()) == (table.read_bytes(), before)


def test_outputs_that_cannot_be_written(call, table, tmp_path):
    code, _, errors = call("fit", "kmeans", table, "--out", tmp_path / "no" / "m.knoll")
    assert code == 2
    assert "cannot write" in errors
    code, _, errors = call("fit", "kmeans", table, "--out", tmp_path)
    assert (code, errors) == (2, f"knoll: {tmp_path} is a folder. Give the name of a file.\n")
    same = tmp_path / "same"
    code, _, errors = call("fit", "kmeans", table, "--out", same, "--labels", same)
    assert (code, errors) == (2, f"knoll: {same} is named for two outputs. Give each its own name.\n")
    assert os.listdir(tmp_path) == ["table.csv"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_full_disk_is_one_line(call, table):
    code, _, errors = call("fit", "kmeans", table, "--param", "n_clusters=3", "--out", "/dev/full")
    assert code == 2
    assert errors == "knoll: cannot write /dev/full: No space left on device. Choose another path with --out.\n"


def test_what_a_file_cannot_hold_leaves_no_file(call, table, tmp_path, monkeypatch):
    monkeypatch.setattr("knoll.models._format.MOST_HEADER", 10)
    code, _, errors = call("fit", "kmeans", table, "--out", tmp_path / "m.knoll", "--labels", tmp_path / "l.csv")
    assert code == 2
    assert "KMeans cannot be saved" in errors
    assert os.listdir(tmp_path) == ["table.csv"]


def test_a_data_set_by_name_and_standard_input(call, knoll, tmp_path):
    code, text, _ = call("fit", "kmeans", "iris", "--columns", "petal width (cm)", "--param", "n_clusters=3")
    assert code == 0
    assert text.startswith("iris: 150 rows, 1 column; scaled (standard)\n")
    code, _, errors = call("fit", "kmeans", "iris", "--columns", "x")
    assert code == 2
    assert "iris has no column 'x'. It has: sepal length (cm)" in errors
    assert call("fit", "kmeans", "nope.csv")[2] == "knoll: There is no file nope.csv.\n"
    done = knoll("fit", "kmeans", "-", "--param", "n_clusters=2", input="x,y\n1,2\n3,4\n5,9\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("standard input: 3 rows, 2 columns; scaled (standard)\n")


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_ctrl_c_leaves_nothing_behind(tmp_path):
    X = np.random.default_rng(0).uniform(size=(60_000, 6))
    np.save(tmp_path / "big.npy", X)
    args = ["fit", "mean-shift", "big.npy", "--param", "bandwidth=0.6", "--scale", "none", "--out", "m.knoll"]
    running = subprocess.Popen([sys.executable, "-m", "knoll", *args], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        end = time.monotonic() + 60
        while not list(tmp_path.glob(".m.knoll*")) and time.monotonic() < end:
            time.sleep(0.02)
        time.sleep(0.3)
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode == 130
    assert errors == "knoll: interrupted; unfinished files were removed.\n"
    assert os.listdir(tmp_path) == ["big.npy"]


def test_the_model_is_the_one_that_python_would_fit(call, table, tmp_path):
    call("fit", "gmm", table, "--scale", "none", "--param", "n_components=3", "--out", tmp_path / "m.knoll")
    expected = package.GaussianMixture(3, random_state=0).fit(ROWS)
    assert package.load(tmp_path / "m.knoll").means_.tobytes() == expected.means_.tobytes()


def test_the_help_lists_every_method():
    from knoll.cli.fit import _method_names, command

    listed = command.help.split("METHOD is one of ")[1].split(". DATA")[0]
    assert listed.split(", ") == _method_names()
