"""Labels that stand for other clusters: the sum of probabilities, in memory and in a file."""

from __future__ import annotations

import importlib.util
import struct
from pathlib import Path

import numpy as np
import pytest

import knoll
from knoll import models
from knoll.exceptions import InvalidParameter, InvalidType, ModelFileError
from knoll.models import Relabeled
from knoll.models._relabeled import n_labels

_spec = importlib.util.spec_from_file_location("files", Path(__file__).with_name("files.py"))
files = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(files)

X = np.concatenate([c + np.random.default_rng(0).normal(size=(40, 2)) for c in ([0, 0], [3, 0], [0, 4], [9, 9])])
FITTED = {
    "kmeans": knoll.KMeans(4, random_state=0),
    "gmm": knoll.GaussianMixture(4, random_state=0),
    "gmm with noise": knoll.GaussianMixture(4, random_state=0, noise=True),
    "kernel-kmeans": knoll.KernelKMeans(4, sigma=2.0, random_state=0),
    "spectral": knoll.SpectralClustering(4, sigma=1.0, random_state=0),
    "dbscan": knoll.DBSCAN(eps=0.9, min_samples=5),
    "mean-shift": knoll.MeanShift(bandwidth=1.5),
}


@pytest.fixture(scope="module", params=FITTED)
def model(request):
    return FITTED[request.param].fit(X)


def maps(count: int):
    """A few maps of so many labels: all one, each its own, reversed, pairs."""
    own = np.arange(count)
    return {tuple(map(int, clusters)) for clusters in (0 * own, own, own[::-1], own // 2)}


def brute_force(model, clusters, points):
    """The clusters by the definition: the largest sum of probabilities, or the cluster of the label."""
    if not hasattr(model, "predict_proba"):
        return None, np.array([-1 if label < 0 else clusters[label] for label in model.predict(points)])
    own = model.predict_proba(points)
    shares = np.array(
        [[row[: len(clusters)][np.array(clusters) == c].sum() for c in range(max(clusters) + 1)] for row in own]
    )
    if own.shape[1] > len(clusters):
        shares = np.c_[shares, own[:, -1]]
    best = shares.argmax(axis=1)
    return shares, np.where(best > max(clusters), -1, best)


def test_clusters_are_sums_over_their_labels(model):
    points = np.r_[X, np.random.default_rng(1).uniform(-6, 15, size=(300, 2))]
    for clusters in maps(n_labels(model)):
        answer = Relabeled(model, clusters)
        shares, labels = brute_force(model, clusters, points)
        np.testing.assert_array_equal(answer.predict(points), labels)
        assert answer.predict(points).dtype == np.int64
        assert hasattr(answer, "predict_proba") == (shares is not None)
        if shares is not None:
            np.testing.assert_allclose(answer.predict_proba(points), shares, rtol=1e-15, atol=1e-300)
        assert (answer.n_clusters, answer.n_features_in_) == (max(clusters) + 1, 2)


def test_each_label_its_own_cluster_changes_nothing(model):
    answer = Relabeled(model, range(n_labels(model)))
    np.testing.assert_array_equal(answer.predict(X), model.predict(X))


def test_a_file_brings_the_clusters_back(model, tmp_path):
    for clusters in maps(n_labels(model)):
        answer = Relabeled(model, clusters)
        knoll.save(answer, tmp_path / "m.knoll")
        again = knoll.load(tmp_path / "m.knoll")
        assert isinstance(again, Relabeled)
        assert again.clusters == clusters
        np.testing.assert_array_equal(again.predict(X), answer.predict(X))
        info = models.inspect(tmp_path / "m.knoll")
        assert (info.clusters, info.kind, info.format) == (clusters, type(model).__name__, "2.0")


def test_a_label_is_the_larger_sum_and_not_the_cluster_of_the_largest():
    """Components of probability 0.3, 0.3 and 0.4, the first two joined: the sum of 0.6 decides."""
    rows = np.linspace(-5, 5, 401)[:, None]
    mixture = knoll.GaussianMixture(
        3, means_init=[[-1.0], [-0.5], [1.0]], weights_init=[0.3, 0.3, 0.4], precisions_init=[[[1.0]]] * 3, max_iter=0
    ).fit(np.random.default_rng(0).normal(size=(200, 1)))
    answer = Relabeled(mixture, [0, 0, 1])
    by_component = np.array([0, 0, 1])[mixture.predict(rows)]
    shares = answer.predict_proba(rows)
    np.testing.assert_array_equal(answer.predict(rows), shares.argmax(axis=1))
    assert (answer.predict(rows) != by_component).any()


@pytest.mark.filterwarnings("ignore::knoll.exceptions.SuspiciousResultWarning")
def test_noise_alone_stays_noise():
    alone = knoll.DBSCAN(eps=1e-9, min_samples=3).fit(X)
    np.testing.assert_array_equal(Relabeled(alone, []).predict(X), np.full(len(X), -1))


def test_files_without_clusters_stay_as_they_were(tmp_path):
    knoll.save(knoll.KMeans(2, random_state=0).fit(X), tmp_path / "m.knoll")
    data = (tmp_path / "m.knoll").read_bytes()
    assert struct.unpack_from("<HH", data, 8) == (1, 0)
    assert "relabeling" not in files.split(data)[0]
    assert models.inspect(tmp_path / "m.knoll").clusters is None


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        (None, "make no sense"), ([0, 0], "make no sense"), ({}, "make no sense"),
        ({"clusters": "00"}, "make no sense"),
        ({"clusters": [0, 0.0]}, "make no sense"), ({"clusters": [0, True]}, "make no sense"),
        ({"clusters": [0, 0], "noise": "nearest"}, "make no sense"),
        ({"clusters": [0]}, "one number for each of 2 labels"), ({"clusters": [0, 1, 1]}, "one number for each of 2"),
        ({"clusters": [0, 2]}, "without a gap"), ({"clusters": [-1, 0]}, "without a gap"),
        ({"clusters": [0, 10**15]}, "without a gap"),
    ],
)  # fmt: skip
def test_forged_clusters_are_refused(put, small, plain, message):
    header, arrays = files.split(small)
    path = put(files.forged({**header, "relabeling": plain}, arrays, version=(2, 0)))
    with pytest.raises(ModelFileError, match=f"is damaged: .*{message}"):
        models.read(path)


def test_mistakes_are_named(tmp_path):
    two = knoll.KMeans(2, random_state=0).fit(X)
    with pytest.raises(InvalidParameter, match=r"clusters must have one number for each of 2 labels, got \[0\]\."):
        Relabeled(two, [0])
    with pytest.raises(InvalidParameter, match=r"clusters must be numbered from 0 without a gap, got \[1, 1\]\."):
        Relabeled(two, [1, 1])
    for wrong in (Relabeled(two, [0, 0]), knoll.Gaussian().fit(X), "model"):
        with pytest.raises(InvalidParameter, match="estimator must be a fitted estimator with predict, got "):
            Relabeled(wrong, [0, 0])
    with pytest.raises(InvalidType, match=r"knoll\.save takes a fitted estimator"):
        knoll.save("model", tmp_path / "m.knoll")
    assert repr(Relabeled(two, [0, 0])) == "Relabeled(KMeans(n_clusters=2, random_state=0), clusters=(0, 0))"
