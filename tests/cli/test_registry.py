"""One record adds a method everywhere: to `compare`, the terminal, the report, `knoll fit` and model files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

import knoll
from knoll import comparison, datasets, registry
from knoll._schema import Array
from knoll.base import Estimator
from knoll.comparison.methods import Partition, Proposer
from knoll.registry import METHODS, Method, compared, display_names, find


class MedianCut(ClusterMixin, Estimator):
    """Two clusters: below and above the median of the first column."""

    _fitted: ClassVar[Any] = {"cut_": Array("d"), "labels_": Array("n", dtype="int")}

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> MedianCut:
        self.n_features_in_ = X.shape[1]
        self.cut_ = np.median(X, axis=0)
        self.labels_ = self.predict(X)
        return self

    def predict(self, X: Any) -> Any:
        check_is_fitted(self)
        return (X[:, 0] > self.cut_[0]).astype(np.int64)


class MedianCutProposer(Proposer):
    """A proposer with a single setting."""

    estimator = MedianCut

    def propose(self, subsample: Any, numbers: Any, overrides: Any) -> Iterator[Partition]:
        model = MedianCut(**overrides).fit(subsample.points)
        yield Partition("median-cut", model.labels_, overrides, model)


@pytest.fixture
def toy(monkeypatch):
    """Register one more method."""
    method = Method(
        "median-cut", "median cut", f"{__name__}.MedianCut", proposer=f"{__name__}.MedianCutProposer", row_seconds=1e-6
    )
    monkeypatch.setitem(METHODS, method.name, method)
    return method


def test_a_registered_method_is_compared(toy):
    found = knoll.compare(datasets.x1500().X[:300], methods=["kmeans", "median-cut"], k=[2, 3])
    assert tuple(found.candidates) == ("kmeans", "median-cut")
    assert found.candidates["median-cut"].n_clusters == 2
    assert "median-cut" in repr(found)


def test_a_registered_method_is_in_terminal_report_models_and_fit(toy, call, tmp_path):
    """`call` runs the command line in this process, where the method is registered."""
    table, out = tmp_path / "t.csv", tmp_path / "out"
    np.savetxt(table, datasets.x1500().X[:200], delimiter=",", header="a,b", comments="")
    status, text, errors = call(
        "compare", table, "--methods", "kmeans,median-cut", "--k", "2..3", "--scale", "standard", "--out", out
    )
    assert status == 0, errors
    assert "median cut" in text
    assert "median cut" in (out / "report.html").read_text(encoding="utf-8")
    model, preparation = knoll.models.read(out / "models" / "median-cut.knoll")[:2]
    assert preparation is not None
    own = getattr(model, "estimator", model)  # clusters have the numbers of those that they match in k-means
    assert type(own) is MedianCut
    status, text, errors = call("fit", "median-cut", table, "--out", tmp_path / "m.knoll")
    assert status == 0, errors
    assert "2 clusters (100, 100 rows)" in text
    fitted = knoll.models.read(tmp_path / "m.knoll")[0]
    np.testing.assert_array_equal(fitted.cut_, own.cut_)


def test_an_unregistered_method_is_refused_with_the_list(call, tmp_path):
    with pytest.raises(knoll.exceptions.InvalidParameter, match=r"unknown method 'median-cut'\. Choose from: mixed-"):
        knoll.compare(np.eye(4), methods=["median-cut"])
    assert call("fit", "median-cut", "x.csv")[0] == 2


def test_every_record_names_what_exists():
    relations = {relation.name for relation in knoll.relations.all()}
    for name, method in METHODS.items():
        assert method.name == name
        if not method.estimator:
            assert method.proposer
            continue
        assert getattr(knoll, method.estimator_name) is method.estimator_class()
        assert {relation for relation, _ in method.related} <= relations
        assert {other for _, other in method.related} <= set(compared())
        assert set(method.scales) <= set(method.estimator_class()().get_params())
        if method.proposer:
            assert method.make_proposer().estimator is method.estimator_class()
            assert (method.row_seconds > 0) != (method.pair_seconds > 0)


def test_names_and_titles():
    assert find("gmm") is find("gaussian-mixture") is METHODS["gaussian-mixture"]
    assert find("nothing") is None
    assert display_names("kernel-kmeans, not kmeans-like") == "kernel k-means, not kmeans-like"
    assert registry.title("truth") == "truth"
    assert comparison.compare is knoll.compare


def test_the_registry_imports_no_estimator():
    code = "import sys, knoll.registry; print([m for m in sys.modules if m.startswith(('knoll.', 'numpy'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['knoll.registry']"
