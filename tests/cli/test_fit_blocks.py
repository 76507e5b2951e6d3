"""``knoll fit`` of a table that exceeds --memory: the same model and labels, read in blocks."""

from __future__ import annotations

import json

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
        (["dbscan", "x.npy", "--memory", "1kB"], "DBSCAN needs all rows at once. Fit a sample and predict the others"),
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
