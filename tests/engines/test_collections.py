"""Dask collections: the bits of an array in memory, lazy answers, and nothing computed whole by accident."""

from __future__ import annotations

import inspect
import pickle
import warnings

import numpy as np
import pytest

import knoll
from knoll import DBSCAN, Gaussian, GaussianMixture, KMeans
from knoll.exceptions import BadData, CostError, InvalidParameter

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")

N, D = 9_000, 4
MODELS = {
    "kmeans": (KMeans(6, random_state=0), ("cluster_centers_", "inertia_", "cluster_weights_", "labels_")),
    "mixture": (GaussianMixture(3, random_state=0, max_iter=3), ("means_", "covariances_", "lower_bounds_", "labels_")),
    "gaussian": (Gaussian(), ("mean_", "covariance_")),
}
CUTS = {"one": (N,), "ragged": (1, 4095, 904, 4000), "seven": (1300, 1300, 1300, 1300, 1300, 1300, 1200)}


def table(dtype=np.float64):
    rng = np.random.default_rng(0)
    return (rng.normal(size=(N, D)) + 5 * rng.integers(0, 3, size=(N, 1))).astype(dtype)


def fresh(name):
    model, names = MODELS[name]
    return type(model)(**model.get_params()), names


def values(model, names):
    return {name: np.asarray(getattr(model, name)).tobytes() for name in names}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("workers", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", MODELS)
def test_a_collection_gives_the_bits_of_the_array(request, name, dtype, workers):
    X, w = table(dtype), np.random.default_rng(1).uniform(0, 3, N)
    if workers:
        request.getfixturevalue("active")
    for cuts, weights in (("ragged", None), ("seven", w)):
        (lazy, names), (here, _) = fresh(name), fresh(name)
        lazy.fit(da.from_array(X, chunks=(CUTS[cuts], 3)), sample_weight=weights)
        here.fit(X, sample_weight=weights)
        assert values(lazy, names) == values(here, names)


@pytest.fixture
def active(client):
    with client.as_current():
        yield


def test_answers_are_lazy_and_equal():
    X = table()
    lazy = da.from_array(X, chunks=(CUTS["ragged"], D))
    for model, names in (
        (KMeans(4, random_state=0), ("predict", "transform")),
        (GaussianMixture(3, random_state=0), ("predict", "predict_proba", "score_samples")),
        (Gaussian(), ("score_samples", "mahalanobis")),
        (DBSCAN(0.8), ("predict", "predict_kind")),
    ):
        model.fit(X)
        for name in names:
            found = getattr(model, name)(lazy)
            expected = getattr(model, name)(X)
            assert isinstance(found, da.Array)
            assert (found.chunks[0], found.shape, found.dtype) == (lazy.chunks[0], expected.shape, expected.dtype)
            np.testing.assert_array_equal(found.compute(), expected, strict=True)


def test_labels_are_those_of_the_fit_and_stay_so():
    X = table()
    lazy = da.from_array(X, chunks=(2_000, D))
    model = KMeans(4, random_state=0).fit(lazy)
    labels, expected = model.labels_, KMeans(4, random_state=0).fit(X).labels_
    assert isinstance(labels, da.Array)
    assert (KMeans(4, random_state=0).fit_predict(lazy).compute() == expected).all()
    model.set_params(n_clusters=7).fit(X)
    assert (labels.compute() == expected).all()


def test_the_model_is_an_ordinary_one(tmp_path):
    X = table()
    model = KMeans(4, random_state=0).fit(da.from_array(X, chunks=(2_000, D)))
    knoll.save(model, tmp_path / "model.knoll")
    for again in (knoll.load(tmp_path / "model.knoll"), pickle.loads(pickle.dumps(model))):
        assert not hasattr(again, "labels_")
        assert (again.predict(X) == model.predict(X)).all()
    assert len(pickle.dumps(model)) < 20_000
    assert hasattr(model, "labels_")


def test_data_frames(same_bits):
    dd = pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    X = table()
    frame = pd.DataFrame(X, columns=list("abcd"))
    lazy = dd.from_pandas(frame, npartitions=4)
    model, here = KMeans(4, random_state=0).fit(lazy), KMeans(4, random_state=0).fit(frame)
    same_bits(model, here, ("cluster_centers_", "inertia_", "feature_names_in_", "labels_"))
    assert isinstance(model.predict(lazy), da.Array)
    weighted = frame.assign(w=np.arange(N) % 3)
    lazy = dd.from_pandas(weighted, npartitions=3)
    names = list("abcd")
    there = KMeans(4, random_state=0).fit(lazy[names], sample_weight=lazy["w"])
    same_bits(
        there, KMeans(4, random_state=0).fit(frame, sample_weight=weighted["w"]), ("cluster_centers_", "inertia_")
    )
    with pytest.raises(BadData, match=r"column 'name' is of type .*, where numbers are needed"):
        KMeans(2).fit(dd.from_pandas(frame.assign(name="x"), npartitions=2))


def poisoned(n=N):
    """An array none of which may be computed."""

    def fail(block):
        raise AssertionError("computed")

    return da.zeros((n, 3), chunks=(1_000, 3)).map_blocks(fail, dtype=float, meta=np.empty((0, 0)))


def test_nothing_is_computed_whole_by_accident():
    """Every estimator and method: a lazy answer, or one sentence with what to do; never a computation."""
    X = np.random.default_rng(0).normal(size=(60, 3))
    lazy, refused = poisoned(), 0
    for name in knoll.__all__:
        cls = getattr(knoll, name)
        if not inspect.isclass(cls) or not hasattr(cls, "fit"):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = cls().fit(X)
        if not hasattr(cls, "fit_blocks"):
            with pytest.raises(CostError, match=r"X is a dask collection, .* Take a sample, such as X") as error:
                cls().fit(lazy)
            assert ("and predict the others" in str(error.value)) == hasattr(cls, "predict")
            refused += 1
        for method in ("predict", "transform", "predict_proba", "score_samples", "mahalanobis", "predict_kind"):
            if hasattr(cls, method):
                assert isinstance(getattr(model, method)(lazy), da.Array), (name, method)
        for method in ("score", "bic", "aic", "icl", "partial_fit", "estimate_cost"):
            if hasattr(cls, method):
                with pytest.raises(CostError, match="is a dask collection"):
                    getattr(model, method)(lazy)
    assert refused >= 8
    with pytest.raises(CostError, match="X is a dask collection"):
        knoll.compare(lazy)
    with pytest.raises(CostError, match="sample_weight is a dask collection"):
        KMeans(2).fit(X, sample_weight=da.ones(60))
    with pytest.raises(CostError, match="X is a dask collection"):
        knoll.scales.estimate_eps(lazy)


def test_one_partition_at_a_time():
    """Without a client, blocks come one after the other, and answers read nothing before they are computed."""
    open_now, most = [0], [0]

    def made(block):
        open_now[0] += 1
        most[0] = max(most[0], open_now[0])
        found = block + 1.0
        open_now[0] -= 1
        return found

    lazy = da.from_array(table(), chunks=(1_000, D)).map_blocks(made, dtype=float, meta=np.empty((0, 0)))
    model = KMeans(3, random_state=0).fit(lazy)
    assert most[0] == 1
    before = open_now[0]
    model.predict(lazy)
    assert open_now[0] == before


def test_what_is_wrong_is_reported():
    X = table()
    lazy = da.from_array(X, chunks=(2_000, D))
    bad = X.copy()
    bad[7_654, 2] = np.nan
    with pytest.raises(BadData, match="a NaN at row 7654, column 2"):
        KMeans(3, random_state=0).fit(da.from_array(bad, chunks=(1_000, D)))
    with pytest.raises(BadData, match="a dask array of two dimensions or a data frame is needed, got one of 1 dim"):
        KMeans(3).fit(lazy[:, 0])
    with pytest.raises(InvalidParameter, match="sample_weight has 3 partitions and X has 5"):
        KMeans(3).fit(lazy, sample_weight=da.ones(N, chunks=3_000))
    unknown = lazy[lazy[:, 0] > 0]
    with pytest.raises(InvalidParameter, match="the lengths of the partitions of X are not known"):
        KMeans(3).fit(unknown, sample_weight=np.ones(10))
    here, there = KMeans(3, random_state=0).fit(X[X[:, 0] > 0]), KMeans(3, random_state=0).fit(unknown)
    assert here.inertia_ == there.inertia_
    with pytest.raises(BadData, match="no rows"):
        KMeans(3).fit(lazy[lazy[:, 0] > 1e9])
    with pytest.raises(BadData, match="X is of dtype complex128, where real numbers are needed"):
        KMeans(3).fit(lazy.astype(complex))
