"""A model file of ``knoll compare`` labels the table as the report does: for every method, table and scale."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import knoll
from knoll import models
from knoll.cli import main
from knoll.comparison import compare


def skewed(n: int, d: int = 2, seed: int = 0) -> np.ndarray:
    """Three clusters with a long side each: a mixture takes several Gaussians for one."""
    rng = np.random.default_rng(seed)
    centres = 14 * np.eye(3, d)
    return np.concatenate([c + rng.exponential(1.5, size=(n, d)) for c in centres])


def moons(n: int = 200) -> np.ndarray:
    """Two bent clusters: a mixture takes several Gaussians for one."""
    t = np.linspace(0, np.pi, n)
    X = np.r_[np.c_[np.cos(t), np.sin(t)], np.c_[1 - np.cos(t), 0.5 - np.sin(t)]]
    return X + 0.05 * np.random.default_rng(0).normal(size=X.shape)


def with_gaps(X: np.ndarray) -> np.ndarray:
    X = X.copy()
    X[np.random.default_rng(1).random(X.shape) < 0.02] = np.nan
    return X


def write(path, X: np.ndarray, dtype=np.float64) -> None:
    names = [f"row {i}" for i in range(len(X))]
    columns = {f"x{j}": pa.array(column.astype(dtype), from_pandas=True) for j, column in enumerate(X.T)}
    pa.parquet.write_table(pa.table({"name": names, **columns}), path)


TABLES = {
    "two columns": (skewed(220), (), np.float64),
    "unscaled": (skewed(220, seed=2), ("--scale", "none"), np.float64),
    "robust, float32": (skewed(220, seed=3), ("--scale", "robust"), np.float32),
    "wide, with gaps": (with_gaps(skewed(150, 9)), ("--missing", "median"), np.float64),
    "rows left out": (with_gaps(skewed(150, 3)), ("--missing", "drop"), np.float64),
    "sampled": (skewed(800, seed=1), ("--budget", "0.02"), np.float64),
    "noise": (np.r_[skewed(150), np.random.default_rng(4).uniform(-5, 30, size=(60, 2))],
              ("--set", "gaussian-mixture.noise=true"), np.float64),
    "bent": (moons(), (), np.float64),
    "no clusters": (np.random.default_rng(0).normal(size=(300, 3)), (), np.float64),
}  # fmt: skip


def columns(path) -> dict[str, list]:
    return pa.csv.read_csv(path).to_pydict()


@pytest.fixture(scope="module", params=TABLES)
def results(request, tmp_path_factory):
    """The name of the table, the folder, and the file of labels."""
    X, args, dtype = TABLES[request.param]
    folder = tmp_path_factory.mktemp("deployed")
    write(folder / "table.parquet", X, dtype)
    assert main(["compare", str(folder / "table.parquet"), "--id", "name", "--out", str(folder / "out"),
                 "--format", "csv", "--quiet", *args]) == 0  # fmt: skip
    return request.param, folder, columns(folder / "out" / "labels.csv")


def predicted(folder, method: str, *args: str) -> dict[str, list]:
    model, out = folder / "out" / "models" / f"{method}.knoll", folder / f"{method}.csv"
    call = ["predict", str(model), str(folder / "table.parquet"), "--id", "name", "--out", str(out), "--quiet"]
    assert main([*call, *args, "--force"]) == 0
    return columns(out)


def test_predict_gives_the_labels_of_the_report(results):
    name, folder, labels = results
    output = json.loads((folder / "out" / "summary.json").read_text())["candidates"]
    assert len(output) >= 7
    for method in (*output, *(name for name in labels if name.startswith("alternative-"))):
        found = predicted(folder, method)
        assert found["name"] == labels["name"], method
        assert found["label"] == labels[method], method
    assert output["gaussian-mixture"]["groups"] is not None or name != "bent"  # else nothing would be tested
    assert output["gaussian-mixture"]["n_clusters"] == len(
        {label for label in labels["gaussian-mixture"] if label >= 0}
    )


def test_probabilities_are_those_of_the_report_and_the_label_is_the_largest(results):
    name, folder, labels = results
    found = predicted(folder, "gaussian-mixture", "--proba")
    shares = {key: value for key, value in found.items() if key.startswith("p_")}
    assert shares == {
        key.removeprefix("gaussian-mixture-").replace("p", "p_").replace("p_-", "p_"): value
        for key, value in labels.items()
        if key.startswith("gaussian-mixture-p")
    }
    assert ("p_noise" in shares) == (name == "noise")
    table = np.column_stack(list(shares.values()))  # (n, clusters), the noise last
    np.testing.assert_allclose(table.sum(axis=1), 1.0, rtol=1e-12)
    best = [list(shares)[c].removeprefix("p_").replace("noise", "-1") for c in table.argmax(axis=1)]
    assert [int(label) for label in best] == labels["gaussian-mixture"] == found["label"]


def test_inspect_reports_the_clusters(results, capsys):
    _, folder, _ = results
    output = json.loads((folder / "out" / "summary.json").read_text())["candidates"]["gaussian-mixture"]
    path = str(folder / "out" / "models" / "gaussian-mixture.knoll")
    assert main(["inspect", path, "--json"]) == 0
    info = json.loads(capsys.readouterr().out)
    assert (info["class"], info["clusters"]) == ("GaussianMixture", output["groups"])
    assert main(["inspect", path]) == 0
    line = f"clusters    {output['n_clusters']} clusters of {output['parameters']['n_components']} labels: "
    assert (line in capsys.readouterr().out) == (output["groups"] is not None)


@pytest.mark.parametrize("scale", ["standard", "none"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_models_in_python_give_the_labels(dtype, scale, tmp_path):
    X = moons().astype(dtype)
    found = compare(X, scale=scale, budget=20)
    rows = found.scaling.apply(X)
    for method, one in found.candidates.items():
        knoll.models.save(one.model, tmp_path / "m.knoll", preparation=found.scaling)
        model, made = models.read(tmp_path / "m.knoll")
        for answer, points in ((one.model, rows), (model, made.apply(X))):
            np.testing.assert_array_equal(answer.predict(points), one.labels, err_msg=method)
            pieces = [answer.predict(piece) for piece in np.array_split(points, 7)]
            np.testing.assert_array_equal(np.concatenate(pieces), one.labels, err_msg=method)
            assert hasattr(answer, "predict_proba") == (one.probabilities is not None)
            if one.probabilities is not None:
                np.testing.assert_array_equal(answer.predict_proba(points), one.probabilities)
    mixture = found.candidates["gaussian-mixture"]
    assert isinstance(mixture.model, models.Relabeled)
    assert mixture.model.clusters == mixture.groups
