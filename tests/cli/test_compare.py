"""The files of ``knoll compare``: all of them, with the same content, and the same again."""

from __future__ import annotations

import json
import os

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

from knoll.cli import main
from knoll.metrics import adjusted_rand_score
from knoll.registry import compared

QUICK = ("--methods", "kmeans,gmm,dbscan", "--k", "2..4", "--budget", "5")


@pytest.fixture(scope="module")
def results(table):
    """All methods on that table, once for all who read the files."""
    out = table.parent / "all"
    assert main(["compare", str(table), "--id", "name", "--truth", "kind", "--k", "2..5", "--budget", "20",
                 "--out", str(out), "--quiet"]) == 0  # fmt: skip
    return out


def test_everything_is_written(results):
    assert sorted(path.name for path in results.iterdir()) == [
        "labels.parquet", "models", "report.html", "summary.json",
    ]  # fmt: skip
    models = sorted(path.stem for path in (results / "models").iterdir())
    assert [name for name in models if not name.startswith("alternative-")] == sorted(compared())


def test_the_labels_have_a_column_for_each_method(results):
    labels = pyarrow.parquet.read_table(results / "labels.parquet")
    others = [name for name in labels.column_names if name.startswith("alternative-")]
    first = 1 + len(compared()) + len(others)
    assert labels.column_names[:first] == ["name", *compared(), *others]
    assert labels["name"].to_pylist()[:2] == ["p0-0", "p0-1"]
    shares = np.column_stack([labels[name] for name in labels.column_names[first:]])
    assert all(name.startswith("gaussian-mixture-p") for name in labels.column_names[first:])
    assert np.allclose(shares.sum(axis=1), 1.0)
    truth = np.repeat([0, 1, 2], 40)
    assert adjusted_rand_score(truth, labels["gaussian-mixture"].to_numpy()) == 1.0


def test_the_summary_reports_what_the_labels_hold(results):
    summary = json.loads((results / "summary.json").read_text())
    labels = pyarrow.parquet.read_table(results / "labels.parquet")
    for method, output in summary["candidates"].items():
        found = labels[method].to_numpy()
        assert output["n_clusters"] == len(np.unique(found[found >= 0]))
        assert output["noise"] == (found < 0).mean()
        assert sum(output["sizes"]) == (found >= 0).sum()
    assert summary["recommendation"]["method"] in compared()
    assert summary["truth_scores"]["gaussian-mixture"]["ari"] == 1.0
    assert summary["data"]["columns"] == ["height", "width", "seen"]
    assert summary["data"]["left_out"] == {"planet": "a single value, 3"}
    types = {column["name"]: column["type"] for column in summary["data"]["types"]}
    assert types == {"height": "number", "width": "number", "seen": "date", "planet": "constant"}
    assert not summary["interrupted"]


def test_the_models_label_the_table_as_the_labels_do(results, table, call):
    again = results.parent / "again.csv"
    code, _, errors = call("predict", results / "models" / "kmeans.knoll", table, "--out", again)
    assert (code, errors) == (0, "")
    labels = pyarrow.parquet.read_table(results / "labels.parquet")
    assert pyarrow.csv.read_csv(again)["label"].to_pylist() == labels["kmeans"].to_pylist()


def test_the_same_command_again_writes_the_same(results, table, tmp_path, call):
    command = json.loads((results / "summary.json").read_text())["command"]
    args = command.split()
    assert args[:3] == ["knoll", "compare", str(table)]
    args[args.index("--out") + 1] = str(tmp_path / "again")
    code, _, _ = call(*args[1:], "--jobs", 1, "--quiet")
    assert code == 0
    assert (tmp_path / "again" / "labels.parquet").read_bytes() == (results / "labels.parquet").read_bytes()


def without_times(output):
    """A summary without what depends on the clock or on paths: times, the command, digests of such files."""
    if isinstance(output, dict):
        timed = ("seconds", "command", "manifest", "sha256")
        return {key: without_times(value) for key, value in output.items() if key not in timed}
    return [without_times(value) for value in output] if isinstance(output, list) else output


def test_the_same_seed_gives_the_same_bytes_for_any_number_of_threads(table, tmp_path, call):
    for jobs in (1, 2):
        args = ("--out", tmp_path / str(jobs), "--jobs", jobs, "--format", "csv", "--k", "2..4", "--quiet")
        assert call("compare", table, *args) == (0, "", "")
    one, two = (tmp_path / "1", tmp_path / "2")
    assert (one / "labels.csv").read_bytes() == (two / "labels.csv").read_bytes()
    output = [without_times(json.loads((out / "summary.json").read_text())) for out in (one, two)]
    assert json.dumps(output[0]) == json.dumps(output[1])
    for model in os.listdir(one / "models"):
        assert (one / "models" / model).stat().st_size == (two / "models" / model).stat().st_size


def test_labels_as_csv(table, tmp_path, call):
    code, text, errors = call("compare", table, "--out", tmp_path / "out", "--format", "csv", *QUICK)
    assert code == 0
    labels = pyarrow.csv.read_csv(tmp_path / "out" / "labels.csv")
    assert labels.column_names[:4] == ["row", "gaussian-mixture", "kmeans", "dbscan"]
    assert labels["row"].to_pylist() == list(range(120))
    assert not (tmp_path / "out" / "labels.parquet").exists()
    assert "labels.csv" in text
    assert " % judge: scoring the answers, " in errors
