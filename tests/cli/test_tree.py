"""``knoll tree``: a page, labels and a model of one cut, whole or not at all, and the same that the library gives."""

from __future__ import annotations

import json
import os
import re

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

from knoll import DBSCAN, HDBSCAN, DensityTree, models

CUTS = {
    "eom": ([], "hdbscan"),
    "k": (["--k", "2"], "hdbscan"),
    "leaves": (["--leaves", "--min-cluster-size", "6"], "hdbscan"),
    "eps": (["--eps", "0.4"], "dbscan"),
    "eom-nearest": (["--noise", "nearest"], "hdbscan"),
    "eps-nearest": (["--eps", "0.3", "--noise", "nearest"], "dbscan"),
}


def run(call, *args):
    code, out, errors = call("tree", *args)
    assert code == 0, errors
    return out


def block(page, name):
    return json.loads(re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', page, re.S)[1])


@pytest.mark.parametrize("cut", CUTS)
def test_labels_are_those_of_the_model_and_predict_gives_them_again(call, table, tmp_path, cut):
    options, method = CUTS[cut]
    out = tmp_path / "out"
    text = run(call, table, *options, "--id", "name", "--out", out, "--format", "csv")
    assert text.splitlines()[0] == f"{table}: 120 rows, 3 columns"
    assert sorted(path.name for path in out.iterdir()) == ["labels.csv", "models", "report.html", "summary.json"]
    labels = pyarrow.csv.read_csv(out / "labels.csv")
    assert labels.column_names[:2] == ["name", "label"]
    model, made = models.read(out / "models" / f"{method}.knoll")
    assert type(model) is {"hdbscan": HDBSCAN, "dbscan": DBSCAN}[method]
    assert made is not None
    np.testing.assert_array_equal(labels["label"].to_numpy(), model.labels_)
    again = tmp_path / "again.csv"
    assert call("predict", out / "models" / f"{method}.knoll", table, "--id", "name", "--out", again)[0] == 0
    np.testing.assert_array_equal(pyarrow.csv.read_csv(again)["label"].to_numpy(), model.labels_)
    summary = json.loads((out / "summary.json").read_text())
    answer = summary["candidates"][method]
    assert answer["clusters"] == model.labels_.max() + 1
    assert answer["sizes"] == np.bincount(model.labels_[model.labels_ >= 0]).tolist()
    assert summary["manifest"].keys() == {"labels.csv", f"models/{method}.knoll", "report.html"}
    if method == "hdbscan":
        np.testing.assert_array_equal(labels["probability"].to_numpy(), model.probabilities_)
        np.testing.assert_array_equal(labels["outlier"].to_numpy(), model.outlier_scores_)
    else:
        assert labels.column_names == ["name", "label"]
    if "nearest" in cut:
        assert model.labels_.min() == 0


def test_the_page_has_the_clusters_of_every_eps(call, table, tmp_path):
    run(call, table, "--out", tmp_path / "out", "--quiet")
    model, _ = models.read(tmp_path / "out" / "models" / "hdbscan.knoll")
    found = block((tmp_path / "out" / "report.html").read_text(), "tree")
    least = model.selection_["min_cluster_size"]
    for at in range(0, len(found["eps"]), 7):
        eps = found["eps"][at]
        labels = model.dbscan_clustering(eps, least)
        assert found["clusters"][at] == labels.max() + 1
        assert found["noise"][at] == pytest.approx((labels < 0).mean(), abs=1e-5)
        assert found["largest"][at] == np.bincount(labels[labels >= 0], minlength=1).max()
        shown = []  # the same loop as in tree.js
        for cluster, height in zip(found["row_cluster"], found["row_height"], strict=True):
            while found["birth"][cluster] is not None and found["birth"][cluster] <= eps:
                cluster = found["parent"][cluster]
            shown.append(found["colour"][cluster] if height <= eps else -1)
        pairs = set(zip(shown, labels.tolist(), strict=True))
        assert len(pairs) == len(set(shown)) == len(set(labels.tolist()))
        assert np.array_equal(np.array(shown) < 0, labels < 0)


def test_the_page_is_bounded(call, tmp_path):
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(c, 1, (15_000, 2)) for c in (0, 12)])
    np.save(tmp_path / "rows.npy", rows)
    out = tmp_path / "out"
    run(call, tmp_path / "rows.npy", "--out", out, "--min-cluster-size", "5", "--min-samples", "5")
    assert (out / "report.html").stat().st_size < 2_000_000
    page = (out / "report.html").read_text()
    assert "of 30\u202f000 rows are drawn, chosen at random." in page
    found = block(page, "tree")
    assert len(found["row_cluster"]) == 5_000
    assert len(found["plot"]["median"]) == 600
    model, made = models.read(out / "models" / "hdbscan.knoll")
    assert len(found["parent"]) == len(DensityTree(5).fit(made.apply(rows)).condense(30).parent)
    assert "Clusters of fewer than 30 rows (a thousandth of the table)" in page
    assert model.selection_["min_cluster_size"] == 5


def test_results_are_replaced_only_on_request_and_only_ours(call, table, tmp_path):
    out = tmp_path / "out"
    run(call, table, "--out", out)
    code, _, errors = call("tree", table, "--out", out)
    assert code == 2
    assert "already has results of knoll" in errors
    (out / "mine.txt").write_text("mine")
    run(call, table, "--out", out, "--force", "--eps", "0.4")
    assert sorted(path.name for path in (out / "models").iterdir()) == ["dbscan.knoll"]
    assert (out / "mine.txt").read_text() == "mine"
    (out / "report.html").write_text("changed")
    code, _, errors = call("tree", table, "--out", out, "--force")
    assert code == 2
    assert "knoll did not write it or it was changed since" in errors


def test_json_quiet_and_the_command_to_repeat(call, table, tmp_path):
    out = run(call, table, "--json", "--out", tmp_path / "a", "--eps", "0.4", "--seed", "3")
    summary = json.loads(out)
    assert summary == json.loads((tmp_path / "a" / "summary.json").read_text())
    assert summary["command"] == f"knoll tree {table} --eps 0.4 --seed 3 --out {tmp_path / 'a'}"
    page = (tmp_path / "a" / "report.html").read_text()
    assert block(page, "tree")["command"] == f"knoll tree {table} --out {tmp_path / 'a'}"
    assert run(call, table, "--quiet", "--out", tmp_path / "b") == ""
    assert len(summary["curves"]["ranges"]) > 0


def test_without_a_file_there_is_a_table(call, tmp_path):
    out = run(call, "--out", tmp_path / "out")
    assert "No file was given" in out
    assert pyarrow.parquet.read_table(tmp_path / "out" / "labels.parquet").num_rows == 150


@pytest.mark.parametrize(
    ("text", "options", "clusters", "note"),
    [
        ("a,b\n1,2\n", [], 0, "the tree has no two clusters of at least 5 rows"),
        ("a,b\n1,2\n", ["--eps", "1"], 1, ""),
        ("a,b\n1,2\n", ["--k", "1"], 1, ""),
        ("a,b\n" + "1,2\n" * 50, [], 0, "--k 1 takes all rows as one cluster"),
        ("a,b\n" + "1,2\n" * 50, ["--eps", "0.1"], 1, "all 50 points are in one cluster"),
        ("a\n" + "".join(f"{v}\n" for v in range(40)), ["--eps", "1e-6"], 0, "all 40 points are noise"),
        ("a,b\n" + "".join(f"{v}e300,{v % 3}e-300\n" for v in range(40)), [], 3, ""),
    ],
    ids=["one", "one-eps", "one-k", "equal", "equal-eps", "noise", "magnitudes"],
)
def test_little_and_odd_tables_have_a_page(knoll, tmp_path, text, options, clusters, note):
    (tmp_path / "t.csv").write_text(text)
    run = knoll("tree", tmp_path / "t.csv", *options, "--out", tmp_path / "out")
    assert run.returncode == 0, run.stderr
    assert f"{clusters} cluster" in run.stdout
    assert note in run.stderr
    assert (tmp_path / "out" / "report.html").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--eps", "1", "--k", "2"], "--eps, --k and --leaves exclude each other"),
        (["--eps", "nan"], "--eps must be a number > 0, got nan"),
        (["--eps", "inf"], "eps must be finite, got inf"),
        (["--eps", "0"], "0.0 is not in the range x>0"),
        (["--k", "500"], "n_clusters=500 is larger than the"),
        (["--min-samples", "500"], r"min_samples \(500\) must be at most the number of samples"),
        (["--min-cluster-size", "1"], "1.0 is not in the range x>=2"),
        (["--columns", "nothing"], "nothing"),
        (["--out", "-"], "--out must be a folder here"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(call, table, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    code, out, errors = call("tree", table, "--quiet", *options)
    assert (code, out) == (2, "")
    assert errors.startswith("knoll: ")
    assert errors.count("\n") == 1
    assert re.search(message, errors)
    assert os.listdir(tmp_path) == []


def test_what_the_table_brings_along_stays_text(call, tmp_path):
    nasty = "</script><img src=x onerror=alert(1)>"
    rows = np.random.default_rng(0).normal(size=(60, 2)).tolist()
    lines = [f'"{nasty} {i}",{a},{b}' for i, (a, b) in enumerate(rows)]
    (tmp_path / "t.csv").write_text(f'id,"{nasty}",b\n' + "\n".join(lines) + "\n")
    run(call, tmp_path / "t.csv", "--id", "id", "--out", tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<img" not in page
    assert block(page, "points")["ids"][3] == f"{nasty} 3"
