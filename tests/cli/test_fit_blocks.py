"""``knoll fit`` of a table that exceeds --memory: the same model and labels, read in blocks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import knoll
from knoll._common.blocks import Block
from knoll._common.passes import LocalPasses
from knoll.models import Preparation
from knoll.models._streamed import prepare_blocks


def table(n=9000, d=3):
    rng = np.random.default_rng(0)
    return (rng.normal(size=(n, d)) + 5 * rng.integers(0, 3, size=(n, 1))) * [1.0, 100.0, 0.01][:d] + 7


@pytest.mark.parametrize("scale", ["standard", "common", "auto", "none"])
@pytest.mark.parametrize("values", ["plain", "constant", "huge"])
def test_scales_of_blocks_are_those_of_the_table(scale, values):
    X = table(5000)
    if values == "constant":
        X[:, 1] = 0.1
    elif values == "huge":
        X *= 1e250
    names = ("a", "b", "c")
    passes = LocalPasses(lambda: (Block(chunk, None) for chunk in np.array_split(X, 7)), X.dtype, 2)
    found, expected = prepare_blocks(passes, names, scale), Preparation.fit(X, names, scale=scale)
    assert (found.scale, found.center, found.spread) == (expected.scale, expected.center, expected.spread)


def test_quartiles_need_all_rows():
    with pytest.raises(knoll.exceptions.InvalidParameter, match="scale 'robust' needs the quartiles of all rows"):
        prepare_blocks(None, ("a",), "robust")


@pytest.mark.parametrize("method", ["kmeans", "gmm", "gaussian"])
def test_a_small_memory_changes_nothing_but_the_method(call, tmp_path, monkeypatch, method):
    monkeypatch.chdir(tmp_path)
    np.savetxt(tmp_path / "x.csv", table(), delimiter=",", header="a,b,c", comments="", fmt="%.17g")
    args = ["fit", method, "x.csv", *([] if method == "gaussian" else ["--labels"])]
    models = []
    for memory in ("1GB", "100kB"):
        out = ["--out", f"{memory}.knoll", *args[3:], *([f"{memory}.csv"] if "--labels" in args else [])]
        code, stdout, stderr = call(*args[:3], "--memory", memory, *out)
        assert code == 0, stderr
        assert ("read in blocks" in stdout) == (memory == "100kB")
        models.append(knoll.models.read(tmp_path / f"{memory}.knoll").estimator)
    whole, blocks = (vars(model) for model in models)
    for name in ("cluster_centers_", "means_", "covariances_", "mean_", "covariance_", "inertia_"):
        np.testing.assert_array_equal(blocks.get(name, 0), whole.get(name, 0), err_msg=name)
    if method != "gaussian":
        assert (tmp_path / "100kB.csv").read_text() == (tmp_path / "1GB.csv").read_text()


def test_a_pattern_of_files(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = table()
    for number, chunk in enumerate(np.array_split(X, 3)):
        np.save(tmp_path / f"part-{number}.npy", chunk)
    code, stdout, stderr = call("fit", "kmeans", "part-*.npy", "--scale", "none", "--json")
    assert code == 0, stderr
    assert json.loads(stdout)["data"]["rows"] == 9000


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ["mean-shift", "x.npy", "--memory", "1kB"],
            "MeanShift needs all rows at once. Fit a sample and predict the others",
        ),
        (["dbscan", "x.npy", "--memory", "1kB"], "gives labels and keeps no model. Leave --out out, or fit a sample"),
        (["kmeans", "x.npy", "--memory", "1kB", "--scratch", "."], "--scratch is for DBSCAN, of a table that exceeds"),
        (
            ["kmeans", "x.npy", "--memory", "1kB", "--log", "auto"],
            "which --log cannot be. Leave it out, or raise",
        ),
        (["kmeans", "x.npy", "--memory", "1kB", "--scale", "robust"], "scale 'robust' needs the quartiles"),
        (["kmeans", "x.npy", "--memory", "much"], "'much' is not a size. Write 500MB or 4GB."),
        (["kmeans", "nan.npy", "--memory", "1kB"], "a NaN at row 6789, column 'column 2'"),
        (["kmeans", "none-*.npy"], "There is no file none-*.npy"),
    ],
)
def test_what_blocks_cannot_do(call, tmp_path, monkeypatch, args, message):
    monkeypatch.chdir(tmp_path)
    X = table()
    np.save(tmp_path / "x.npy", X)
    X[6789, 1] = np.nan
    np.save(tmp_path / "nan.npy", X)
    code, _, stderr = call("fit", *args, "--out", "m.knoll")
    assert code == 2, stderr
    assert message in " ".join(stderr.split())
    assert not (tmp_path / "m.knoll").exists()


def test_dbscan_by_regions_writes_the_labels_of_the_table(call, tmp_path, monkeypatch):
    """One file of labels, a folder of them, or none; standard output too."""
    monkeypatch.chdir(tmp_path)
    np.savetxt(tmp_path / "x.csv", table(d=2), delimiter=",", header="a,b", comments="", fmt="%.17g")
    fit = ["fit", "dbscan", "x.csv", "--set", "eps=0.05", "--quiet"]
    code, _, stderr = call(*fit, "--labels", "whole.csv")
    assert code == 0, stderr
    code, _, stderr = call(*fit, "--memory", "150kB", "--labels", "regions.csv", "--scratch", ".")
    assert code == 0, stderr
    assert (tmp_path / "regions.csv").read_text() == (tmp_path / "whole.csv").read_text()

    expected = np.loadtxt(tmp_path / "whole.csv", delimiter=",", skiprows=1, dtype=int)[:, 1]
    code, stdout, stderr = call(*fit[:-1], "--memory", "150kB", "--labels", "parts/", "--json")
    assert code == 0, stderr
    parquet = pytest.importorskip("pyarrow.parquet")
    parts = [parquet.read_table(path)["label"].to_numpy() for path in sorted((tmp_path / "parts").iterdir())]
    np.testing.assert_array_equal(np.concatenate(parts), expected)
    summary = json.loads(stdout)
    assert summary["clusters"] == len(summary["sizes"]) == expected.max() + 1
    assert summary["noise"] == (expected < 0).sum()
    assert any("regions, with" in note for note in summary["data"]["notes"])
    assert sorted(os.listdir(tmp_path)) == ["parts", "regions.csv", "whole.csv", "x.csv"]

    code, _, stderr = call(*fit, "--labels", "parts")
    assert code == 2
    assert "parts already exists. Name a folder that is empty" in stderr
    code, _, stderr = call(*fit, "--memory", "150kB", "--workers", "2")
    assert code == 2
    assert "DBSCAN reads blocks in this process alone. Leave --workers out." in stderr
    code, stdout, stderr = call(*fit[:-1], "--memory", "150kB")
    assert code == 0, stderr
    assert "clustered in" in stdout


@pytest.mark.skipif(not hasattr(signal, "SIGTERM") or sys.platform == "win32", reason="no SIGTERM")
def test_a_terminated_fit_leaves_nothing(tmp_path):
    np.save(tmp_path / "x.npy", table(d=2))
    (tmp_path / "scratch").mkdir()
    words = ["fit", "dbscan", "x.npy", "--set", "eps=0.05", "--memory", "150kB", "--labels", "parts/"]
    words += ["--scratch", "scratch"]
    slow = (
        "import sys, time; from knoll.density import region_fit; from knoll.cli import main\n"
        "cluster = region_fit.Rule.cluster\n"
        "def slowly(self, points, weights):\n"
        "    print('at work', flush=True); time.sleep(60)\n"
        "region_fit.Rule.cluster = slowly\n"
        f"sys.exit(main({words!r}))"
    )
    with subprocess.Popen([sys.executable, "-c", slow], cwd=tmp_path, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"at work\n"
        process.terminate()
        assert process.wait(30) != 0
    assert sorted(os.listdir(tmp_path)) == ["scratch", "x.npy"]
    assert not os.listdir(tmp_path / "scratch")
