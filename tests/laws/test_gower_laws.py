"""Laws of Gower's distance: every method with it is that method on the matrix of the reference, to the bit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import knoll
from knoll.exceptions import BadData, InvalidParameter, SuspiciousResultWarning
from knoll.neighbors import gower_distances
from knoll.reference import gower

pytestmark = pytest.mark.filterwarnings("ignore::knoll.exceptions.SuspiciousResultWarning")


def table(n=200, p=3, q=3, missing=0.15, seed=0, levels=4):
    """Rows of p numbers, then q categories, in three groups; some rows twice, one without any value."""
    rng = np.random.default_rng(seed)
    group = rng.integers(3, size=n)
    numbers = (rng.normal(size=(n, p)) + 3 * group[:, None]) * 10.0 ** rng.integers(-3, 4, size=p)
    codes = np.where(rng.random((n, q)) < 0.8, group[:, None], rng.integers(levels, size=(n, q)))
    X = np.column_stack([numbers, codes.astype(float)])
    X[rng.random(X.shape) < missing] = np.nan
    if n > 10:
        X[5:9] = X[1:5]
        X[9] = np.nan if missing else X[9]
    return X


def matrix(X, p, weights=None, ranges=None):
    codes = np.where(np.isnan(X[:, p:]), -1, X[:, p:]).astype(int)
    return gower(X[:, :p], codes, weights=weights, ranges=ranges)


def params(X, p, **more):
    return {"metric": "gower", "metric_params": {"categorical_features": np.arange(X.shape[1]) >= p, **more}}


SHAPES = [
    {"missing": 0.0},
    {"missing": 0.1},
    {"missing": 0.6},
    {"q": 0},
    {"p": 0},
    {"p": 0, "missing": 0.0},
    {"n": 33},
    {"n": 1, "missing": 0.0},
    {"n": 2, "missing": 0.5},
    {"p": 1, "q": 1},
    {"n": 80, "p": 2, "q": 1, "levels": 600},
    {"n": 64, "p": 1, "q": 300, "missing": 0.3},
]
WEIGHTED = [False, True]


def weights_of(X, weighted):
    return np.random.default_rng(3).uniform(0.1, 3.0, size=X.shape[1]) if weighted else None


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("weighted", WEIGHTED)
def test_distances_are_those_of_the_reference_to_the_bit(shape, weighted):
    X, p = table(**shape), shape.get("p", 3)
    w = weights_of(X, weighted)
    scaled = None if w is None else w * 2.0 ** -np.frexp(w.max())[1]  # the same distances, up to rounding none
    found = gower_distances(X, categorical_features=np.arange(X.shape[1]) >= p, weights=w, n_jobs=2)
    assert (found == matrix(X, p, scaled)).all()
    np.testing.assert_allclose(found, matrix(X, p, w), atol=1e-14)
    assert (found == gower_distances(X, X, categorical_features=np.arange(X.shape[1]) >= p, weights=w)).all()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("weighted", WEIGHTED)
def test_dbscan_is_that_of_the_matrix(shape, weighted):
    X, p = table(**shape), shape.get("p", 3)
    w = weights_of(X, weighted)
    D = gower_distances(X, categorical_features=np.arange(X.shape[1]) >= p, weights=w)
    for eps in {0.05, 0.2, 0.45, float(np.median(D)), float(D.max()), 3.0} - {0.0}:
        for border in ("closest", "first", "noise"):
            options = {"min_samples": 4, "border": border}
            ours = knoll.DBSCAN(eps, n_jobs=2, **options, **params(X, p, weights=w)).fit(X)
            other = knoll.DBSCAN(eps, metric="precomputed", **options).fit(D)
            assert (ours.core_sample_indices_ == other.core_sample_indices_).all()
            if border != "closest":  # ties of the closest core point go by rows in a matrix, by contents here
                assert (ours.labels_ == other.labels_).all()
            assert ((ours.labels_ < 0) == (other.labels_ < 0)).all()
            assert (ours.predict(X) == ours.labels_).all()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("weighted", WEIGHTED)
@pytest.mark.parametrize("min_samples", [1, 4])
def test_density_tree_is_that_of_the_matrix(shape, weighted, min_samples):
    X, p = table(**shape), shape.get("p", 3)
    if len(X) < min_samples:
        min_samples = len(X)
    w = weights_of(X, weighted)
    D = gower_distances(X, categorical_features=np.arange(X.shape[1]) >= p, weights=w)
    ours = knoll.DensityTree(min_samples, n_jobs=2, **params(X, p, weights=w)).fit(X)
    other = knoll.DensityTree(min_samples, metric="precomputed").fit(D)
    assert (ours.core_distances_ == other.core_distances_).all()
    assert (ours.order_ == other.order_).all()
    assert (ours.bars_ == other.bars_).all()
    for eps in (0.1, 0.3, 0.5):
        assert (
            ours.cut(eps) == knoll.DBSCAN(eps, min_samples=min_samples, **params(X, p, weights=w)).fit(X).labels_
        ).all()
    found = ours.attach(X)
    assert (found.height == ours.core_distances_).all()


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("alpha", [1.0, 1.5])
def test_hdbscan_is_that_of_the_matrix(missing, alpha):
    X = table(missing=missing)
    ours = knoll.HDBSCAN(10, alpha=alpha, store_centers="medoid", **params(X, 3)).fit(X)
    other = knoll.HDBSCAN(10, alpha=alpha, metric="precomputed").fit(matrix(X, 3))
    assert (ours.labels_ == other.labels_).all()
    np.testing.assert_allclose(ours.probabilities_, other.probabilities_, rtol=1e-14)  # d/α is rounded once more
    assert (ours.predict(X) == ours.labels_).all()
    filled = knoll.HDBSCAN(10, noise="nearest", **params(X, 3)).fit(X)
    assert (filled.labels_ >= 0).all()
    assert (filled.predict(X) == filled.labels_).all()


def test_optics_is_that_of_the_matrix():
    X = table()
    ours = knoll.OPTICS(min_samples=5, **params(X, 3)).fit(X)
    other = knoll.OPTICS(min_samples=5, metric="precomputed").fit(matrix(X, 3))
    for name in ("labels_", "ordering_", "reachability_", "core_distances_", "predecessor_"):
        assert (getattr(ours, name) == getattr(other, name)).all()


@pytest.mark.parametrize("linkage", ["single", "average", "complete"])
def test_linkages_are_those_of_the_matrix(linkage):
    X = table(q=0, missing=0.05)[10:]  # numbers alone: no distance is there twice
    options = {"linkage": linkage, "n_clusters": 4, "compute_distances": True}
    ours = knoll.AgglomerativeClustering(**options, **params(X, 3)).fit(X)
    other = knoll.AgglomerativeClustering(**options, metric="precomputed").fit(matrix(X, 3))
    np.testing.assert_allclose(ours.distances_, other.distances_, atol=1e-14)
    assert (ours.labels_ == other.labels_).all()


MODELS = {
    "dbscan": lambda X, p: knoll.DBSCAN(0.2, min_samples=4, **params(X, p)),
    "nearest": lambda X, p: knoll.DBSCAN(0.1, min_samples=6, noise="nearest", **params(X, p)),
    "hdbscan": lambda X, p: knoll.HDBSCAN(12, min_samples=4, **params(X, p)),
    "spectral": lambda X, p: knoll.SpectralClustering(
        3, affinity="gower", kernel_params=params(X, p)["metric_params"], random_state=0
    ),
    "kernel": lambda X, p: knoll.KernelKMeans(
        3, kernel="gower", kernel_params=params(X, p)["metric_params"], random_state=0
    ),
}


def same(a, b):
    """Whether two partitions are the same, however numbered."""
    return len({*zip(a.tolist(), b.tolist(), strict=True)}) == len(set(a.tolist())) == len(set(b.tolist()))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_orders_repetition_dtype_and_threads_change_nothing(name, missing):
    rng = np.random.default_rng(1)
    X = table(missing=missing).astype(np.float32)
    times = rng.integers(0, 4, size=len(X))
    model = MODELS[name](X, 3).fit(X, sample_weight=times)
    assert (model.predict(X) == model.labels_).all()
    repeated, order = np.repeat(X, times, axis=0), rng.permutation(times.sum())
    for rows, jobs in ((repeated, 3), (np.asfortranarray(repeated).astype(np.float64), 1)):
        other = MODELS[name](X, 3).set_params(n_jobs=jobs).fit(rows)
        assert same(other.labels_, np.repeat(model.labels_, times))
        assert (other.predict(rows) == other.labels_).all()
    shuffled = MODELS[name](X, 3).fit(repeated[order])
    assert same(shuffled.labels_, np.repeat(model.labels_, times)[order])


@pytest.mark.parametrize("name", MODELS)
def test_a_file_and_a_frame_have_the_same_labels(name, tmp_path):
    X = table()
    colours = np.array(["red", "green", "blue", "grey"], dtype=object)
    frame = pd.DataFrame(X[:, :3], columns=["a", "b", "c"])
    for j in range(3, 6):
        seen = ~np.isnan(X[:, j])
        frame[f"t{j}"] = pd.Series(np.where(seen, colours[np.where(seen, X[:, j], 0).astype(int)], None), dtype=object)
    model = MODELS[name](X, 3).fit(X)
    option = model._gower_parameters[1]
    named = MODELS[name](X, 3).set_params(**{option: None}).fit(frame)
    assert same(named.labels_, model.labels_)
    knoll.save(model, tmp_path / "array.knoll")
    assert (knoll.load(tmp_path / "array.knoll").predict(X) == model.labels_).all()
    knoll.save(named, tmp_path / "model.knoll")
    again = knoll.load(tmp_path / "model.knoll")
    assert (again.predict(frame) == named.labels_).all()
    strange = frame.copy()
    strange.loc[strange.index[:5], "t3"] = "a level that the fit has not seen"
    blank = frame.copy()
    blank.loc[blank.index[:5], "t3"] = None
    assert (again.predict(strange) == again.predict(blank)).all()
    assert named.estimate_cost(frame).memory > 0


@pytest.mark.parametrize("method", ["spectral", "kernel"])
def test_the_kernel_is_one_less_the_distance(method):
    X = table(missing=0.1)
    K = 1 - matrix(X, 3)
    ours = MODELS[method](X, 3).fit(X)
    option = {"affinity": "precomputed"} if method == "spectral" else {"kernel": "precomputed"}
    other = MODELS[method](X, 3).set_params(**option).fit(K)
    if method == "spectral":
        np.testing.assert_allclose(ours.eigenvalues_, other.eigenvalues_, atol=1e-9)
        np.testing.assert_allclose(ours.affinity_matrix_, K, atol=0)
    else:
        assert ours.objective_ == pytest.approx(other.objective_, rel=0.2)  # starts differ
        assert ours.objective_ >= 0


def test_complete_rows_have_a_positive_semidefinite_kernel():
    X = table(missing=0.0)
    assert np.linalg.eigvalsh(1 - matrix(X, 3)).min() > -1e-12


def test_with_missing_values_the_triangle_inequality_can_fail():
    X = [[0.0, np.nan], [np.nan, np.nan], [1.0, 0.0]]
    X[1] = [np.nan, 0.0]
    D = gower_distances([*X, [0.0, 0.0]])
    assert D[0, 1] == 1.0  # no common column
    D = gower_distances([[0.0, 0.0], [np.nan, 0.0], [1.0, 0.0]])
    assert D[0, 2] == 0.5 > D[0, 1] + D[1, 2] == 0.0


@pytest.mark.parametrize("magnitude", [1e-308, 1e-300, 1.0, 1e300, 1.7e308])
def test_magnitudes_and_far_queries(magnitude):
    X = table(q=1, missing=0.1)
    X[:, :3] /= np.nanmax(np.abs(X[:, :3]), axis=0)
    scaled = X.copy()
    scaled[:, :3] *= magnitude
    model = knoll.DBSCAN(0.2, min_samples=4, **params(X, 3)).fit(scaled)
    assert (model.predict(scaled) == model.labels_).all()
    if 1e-300 <= magnitude <= 1e300:
        assert (model.labels_ == knoll.DBSCAN(0.2, min_samples=4, **params(X, 3)).fit(X).labels_).all()
    far = np.array([[1.7e308, -1.7e308, 0.0, 0.0], [np.inf, 0.0, 0.0, 0.0]])
    assert model.predict(far[:1]).tolist() in ([-1], [0])
    with pytest.raises(BadData, match="infinity"):
        model.predict(far)


def test_weights_that_hardly_count_and_ranges():
    X = table(n=100, missing=0.2)
    w = np.array([1.0, 1e-300, 1e-12, 1.0, 1e-200, 2.0])
    D = gower_distances(X, categorical_features=[3, 4, 5], weights=w)
    ours = knoll.DBSCAN(0.15, min_samples=3, **params(X, 3, weights=w)).fit(X)
    other = knoll.DBSCAN(0.15, min_samples=3, metric="precomputed").fit(D)
    assert (ours.labels_ == other.labels_).all()
    ranges = [2.0, 50.0, 1e-3, 1, 1, 1]
    D = gower_distances(X, categorical_features=[3, 4, 5], ranges=ranges)
    np.testing.assert_allclose(D, matrix(X, 3, ranges=ranges[:3]), rtol=1e-13)
    ours = knoll.DBSCAN(0.15, min_samples=3, **params(X, 3, ranges=ranges)).fit(X)
    assert (ours.labels_ == knoll.DBSCAN(0.15, min_samples=3, metric="precomputed").fit(D).labels_).all()


def test_columns_and_rows_without_values():
    X = np.array([[1.0, np.nan, 0], [1.0, np.nan, 0], [1.0, np.nan, 1], [np.nan, np.nan, np.nan]])
    model = knoll.DBSCAN(0.5, min_samples=2, **params(X, 2)).fit(X)
    assert model.labels_.tolist() == [0, 0, 0, -1]
    assert model.predict(X).tolist() == [0, 0, 0, -1]
    nothing = np.full((3, 2), np.nan)
    assert knoll.DBSCAN(0.1, min_samples=3, **params(nothing, 1)).fit(nothing).labels_.tolist() == [0, 0, 0]
    assert gower_distances(nothing).tolist() == np.zeros((3, 3)).tolist()


def test_negative_weights_and_absent_rows():
    X = table(n=60)
    w = np.ones(60)
    w[::7] = 0
    X[0, 0] = 1e9  # absent: it stretches no range
    model = knoll.DBSCAN(0.2, min_samples=4, **params(X, 3)).fit(X, sample_weight=w)
    kept = knoll.DBSCAN(0.2, min_samples=4, **params(X, 3)).fit(X[w > 0])
    assert (model.labels_[w > 0] == kept.labels_).all()
    assert (model.labels_ == kept.predict(X)).all()
    knoll.DBSCAN(0.2, min_samples=2, **params(X, 3)).fit(X, sample_weight=np.where(w > 0, w, -1))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"range": 1}, r"DBSCAN: metric 'gower' has no parameter 'range'\. It takes categorical_features, ranges"),
        ({"weights": [1, 1]}, r"DBSCAN: weights must have one number for each of the 6 columns, got \[1, 1\]"),
        ({"weights": [1, 1, 0, 1, 1, 1]}, r"weights must be > 0 and finite, got 0.0 for column 2\. Drop a column"),
        ({"ranges": [1, 0, 1, 1, 1, 1]}, r"ranges must be > 0 and finite, got 0.0 for column 1\."),
        ({"ranges": "wide"}, r"ranges must have one number for each of the 6 columns, got 'wide'"),
        ({"categorical_features": [9]}, r"categorical_features has the index 9, and X has 6 columns"),
        ({"categorical_features": ["a"]}, r"categorical_features has the name 'a', and X has no column names"),
    ],
)
def test_parameters_that_do_not_fit(more, message):
    X = table()
    with pytest.raises(InvalidParameter, match=message):
        knoll.DBSCAN(0.2, **params(X, 3, **more)).fit(X)


def test_what_gower_does_not_go_with():
    X = table()
    with pytest.raises(InvalidParameter, match="rows of metric='gower' have no means"):
        knoll.HDBSCAN(5, store_centers="both", **params(X, 3)).fit(X)
    with pytest.raises(InvalidParameter, match="connectivity and metric='gower' do not go together"):
        knoll.AgglomerativeClustering(linkage="single", connectivity=np.eye(200), **params(X, 3)).fit(X)
    with pytest.raises(InvalidParameter, match="metric_params are those of metric='gower', and the metric is 'cosine'"):
        knoll.AgglomerativeClustering(metric="cosine", linkage="single", metric_params={"p": 2}).fit(X[:, :1])
    with pytest.raises(InvalidParameter, match="formulation='spectral' takes metric"):
        knoll.DBSCAN(0.2, formulation="spectral", **params(X, 3)).fit(X)


def test_warning_names_gower_figures():
    X = table()
    with pytest.warns(SuspiciousResultWarning, match="are core points. eps=1e-09 is too small"):
        knoll.DBSCAN(1e-9, min_samples=50, **params(X, 3)).fit(X)


def test_a_range_beyond_float64():
    """x − low left float64, and the two rows were 1e300 apart."""
    X = np.array([[-1e308], [8.8e307], [0.0]])
    exact = np.abs(X / 4 - X.T / 4) / (np.finfo(np.float64).max / 4)  # a range is at most the largest float64
    np.testing.assert_allclose(gower_distances(X), exact, rtol=1e-14)
