"""Laws of DBSCAN: the definition, the three formulations, borders, weights, orders, and what must never happen."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import DBSCAN as SklearnDBSCAN

import knoll
from knoll import DBSCAN, reference
from knoll.exceptions import ModelFileError, SuspiciousResultWarning

pytestmark = pytest.mark.filterwarnings("ignore::knoll.exceptions.SuspiciousResultWarning")


def one_distances(X: np.ndarray) -> np.ndarray:
    """√Σ(x − y)², added column by column: the distance of the definition."""
    X = np.asarray(X, dtype=np.float64)
    total = np.zeros((len(X), len(X)))
    for j in range(X.shape[1]):
        total += np.square(X[:, None, j] - X[None, :, j])
    return np.sqrt(total)


def sets(draw_lattice: bool = True) -> st.SearchStrategy[np.ndarray]:
    """Small sets: lattices, where ties and distances equal to ε abound, and real numbers with duplicates."""

    @st.composite
    def make(draw: st.DrawFn) -> np.ndarray:
        n, d = draw(st.integers(1, 60)), draw(st.integers(1, 5))
        generator = np.random.default_rng(draw(st.integers(0, 2**32)))
        if draw(st.booleans()):
            X = generator.integers(-3, 4, size=(n, d)) * 0.5
        else:
            X = generator.normal(size=(n, d)) * draw(st.sampled_from([0.3, 1.0, 3.0]))
            X[generator.integers(n, size=n // 4)] = X[0]
        return X

    return make()


radii = st.sampled_from([0.25, 0.5, 0.7, 1.0, np.sqrt(0.5), 1.5, 4.0])
levels = st.integers(1, 6)


@settings(max_examples=150, deadline=None)
@given(sets(), radii, levels)
def test_first_is_scikit_learn_on_the_definitions_distances(X, eps, min_samples):
    ours = DBSCAN(eps=eps, min_samples=min_samples, border="first").fit(X)
    theirs = SklearnDBSCAN(eps=eps, min_samples=min_samples, metric="precomputed").fit(one_distances(X))
    np.testing.assert_array_equal(ours.labels_, theirs.labels_)
    np.testing.assert_array_equal(ours.core_sample_indices_, theirs.core_sample_indices_)


@settings(max_examples=100, deadline=None)
@given(sets(), radii, levels)
def test_closest_is_the_references_graph_version(X, eps, min_samples):
    ours = DBSCAN(eps=eps, min_samples=min_samples).fit(X)
    np.testing.assert_array_equal(ours.labels_, reference.run(reference.dbscan_graph(X, eps, min_samples)).labels)


@settings(max_examples=60, deadline=None)
@given(sets(), radii, levels, st.sampled_from(["closest", "first", "noise"]))
def test_spectral_has_the_labels_of_graph(X, eps, min_samples, border):
    graph = DBSCAN(eps=eps, min_samples=min_samples, border=border).fit(X)
    spectral = DBSCAN(eps=eps, min_samples=min_samples, border=border, formulation="spectral").fit(X)
    np.testing.assert_array_equal(graph.labels_, spectral.labels_)
    np.testing.assert_array_equal(graph.core_sample_indices_, spectral.core_sample_indices_)


@settings(max_examples=60, deadline=None)
@given(sets(), radii, levels)
def test_climbing_is_the_references(X, eps, min_samples):
    ours = DBSCAN(eps=eps, min_samples=min_samples, formulation="climbing").fit(X)
    book = reference.run(reference.dbscan_climbing(X, eps, min_samples))
    np.testing.assert_array_equal(ours.labels_, book.labels)
    np.testing.assert_array_equal(ours.climbed_, book.X_climb)


@settings(max_examples=60, deadline=None)
@given(sets(), radii, levels, st.randoms(use_true_random=False))
def test_closest_does_not_depend_on_the_order_of_the_rows(X, eps, min_samples, random):
    order = list(range(len(X)))
    random.shuffle(order)
    a = DBSCAN(eps=eps, min_samples=min_samples).fit_predict(X)
    b = DBSCAN(eps=eps, min_samples=min_samples).fit_predict(X[order])
    same_partition(a[order], b)


def same_partition(a: np.ndarray, b: np.ndarray) -> None:
    np.testing.assert_array_equal(a < 0, b < 0)
    pairs = np.unique(np.stack([a, b]), axis=1)
    assert pairs.shape[1] == len(np.unique(a)) == len(np.unique(b))


@settings(max_examples=60, deadline=None)
@given(
    sets(),
    radii,
    levels,
    st.sampled_from(["closest", "first", "noise"]),
    st.sampled_from(["graph", "climbing"]),
    st.booleans(),
)
def test_predict_is_labels_and_types_agree(X, eps, min_samples, border, formulation, weighted):
    weights = np.random.default_rng(1).integers(0, 3, size=len(X)) if weighted else None
    if weights is not None and not weights.any():
        return
    model = DBSCAN(eps=eps, min_samples=min_samples, border=border, formulation=formulation)
    model.fit(X, sample_weight=weights)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    if formulation == "graph":
        types = model.predict_kind(X)
        present = np.ones(len(X), dtype=bool) if weights is None else weights > 0
        core = np.isin(np.arange(len(X)), model.core_sample_indices_)
        np.testing.assert_array_equal((types == "core")[present], core[present])
        if border != "noise":
            np.testing.assert_array_equal((types == "noise")[present], (model.labels_ < 0)[present])


INPUTS = {
    "rows": (lambda X: X, {}),
    "float32": (lambda X: X.astype(np.float32), {}),
    "sparse rows": (scipy.sparse.csr_array, {}),
    "manhattan": (lambda X: X, {"metric": "manhattan"}),
    "minkowski": (lambda X: X, {"metric": "minkowski", "p": 3}),
    "canberra": (lambda X: X, {"metric": "canberra"}),
    "callable": (lambda X: X, {"metric": lambda a, b: float(np.abs(a - b).max())}),
    "distances": (one_distances, {"metric": "precomputed"}),
    "graph": (lambda X: scipy.sparse.csr_array(one_distances(X)), {"metric": "precomputed"}),
    "spectral": (lambda X: X, {"formulation": "spectral"}),
    "climbing": (lambda X: X, {"formulation": "climbing"}),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("border", ["closest", "first", "noise"])
@pytest.mark.parametrize("name", INPUTS)
def test_noise_joins_the_nearest_clustered_row(name, border, weighted):
    make, options = INPUTS[name]
    for seed in range(6):
        generator = np.random.default_rng(seed)
        X = generator.integers(-6, 7, size=(40, 2)) * 0.5 if seed % 2 else generator.normal(size=(40, 2)) * 2
        X = np.ascontiguousarray(X[np.lexsort(X.T)])  # equal distances go to the smallest coordinates, or rows
        weights = generator.integers(0, 3, size=len(X)) if weighted else None
        kept = DBSCAN(0.7, min_samples=4, border=border, **options).fit(make(X), sample_weight=weights)
        model = DBSCAN(0.7, min_samples=4, border=border, noise="nearest", **options)
        model.fit(make(X), sample_weight=weights)
        np.testing.assert_array_equal(model.predict(make(X)), model.labels_)
        inside = kept.labels_ >= 0
        if not inside.any():
            assert (model.labels_ == -1).all()
            continue
        np.testing.assert_array_equal(model.labels_[inside], kept.labels_[inside])
        np.testing.assert_array_equal(model.predict_kind(make(X)), kept.predict_kind(make(X)))
        if name == "graph":
            continue  # where no clustered row is stored, noise stays
        assert (model.labels_ >= 0).all()
        if name in ("rows", "sparse rows", "distances", "spectral", "climbing"):
            known = inside if weights is None else inside & (weights > 0)
            distances = one_distances(X)[:, known]
            for row in np.flatnonzero(~inside):
                nearest = distances[row] == distances[row].min()
                assert model.labels_[row] in kept.labels_[known][nearest]


def test_noise_by_the_nearest_row_depends_on_no_order_and_survives_a_file(tmp_path):
    generator = np.random.default_rng(3)
    X = generator.integers(-6, 7, size=(80, 2)) * 0.5
    model = DBSCAN(0.5, min_samples=4, noise="nearest").fit(X)
    queries = generator.normal(size=(50, 2)) * 4
    for _ in range(5):
        order = generator.permutation(len(X))
        other = DBSCAN(0.5, min_samples=4, noise="nearest").fit(X[order])
        pairs = np.unique(np.c_[model.labels_[order], other.labels_], axis=0)
        assert len(pairs) == model.labels_.max() + 1
        number = dict(pairs)
        np.testing.assert_array_equal([number[label] for label in model.predict(queries)], other.predict(queries))
    knoll.save(model, tmp_path / "m.knoll")
    again = knoll.load(tmp_path / "m.knoll")
    np.testing.assert_array_equal(again.predict(queries), model.predict(queries))
    np.testing.assert_array_equal(again.predict(X), model.labels_)
    again.clustered_ = np.zeros(len(X), dtype=bool)
    with pytest.raises(ModelFileError, match="clustered_ must be true for core rows"):
        knoll.save(again, tmp_path / "m.knoll")


@settings(max_examples=60, deadline=None)
@given(sets(), radii, levels, st.sampled_from(["closest", "first", "noise"]))
def test_a_weight_is_a_repetition(X, eps, min_samples, border):
    weights = np.random.default_rng(len(X)).integers(0, 4, size=len(X))
    if not weights.any():
        return
    weighted = DBSCAN(eps=eps, min_samples=min_samples, border=border).fit(X, sample_weight=weights)
    repeated = DBSCAN(eps=eps, min_samples=min_samples, border=border).fit(np.repeat(X, weights, axis=0))
    np.testing.assert_array_equal(np.repeat(weighted.labels_, weights), repeated.labels_)


@settings(max_examples=40, deadline=None)
@given(sets(), radii, levels)
def test_negative_weights_only_count(X, eps, min_samples):
    weights = np.random.default_rng(len(X)).integers(-2, 4, size=len(X)).astype(float)
    weights[weights == 0] = 0.5
    ours = DBSCAN(eps=eps, min_samples=min_samples, border="first").fit(X, sample_weight=weights)
    theirs = SklearnDBSCAN(eps=eps, min_samples=min_samples, metric="precomputed")
    np.testing.assert_array_equal(ours.labels_, theirs.fit(one_distances(X), sample_weight=weights).labels_)


@settings(max_examples=40, deadline=None)
@given(sets(), radii, levels, st.sampled_from([-900, -300, -3, 5, 300, 900]))
def test_powers_of_two_change_nothing(X, eps, min_samples, power):
    X = np.where(np.abs(X) < 2.0**-60, 0.0, X)
    plain = DBSCAN(eps=eps, min_samples=min_samples).fit_predict(X)
    scaled = DBSCAN(eps=float(np.ldexp(eps, power)), min_samples=min_samples).fit_predict(np.ldexp(X, power))
    np.testing.assert_array_equal(plain, scaled)


@settings(max_examples=60, deadline=None)
@given(sets(), radii, levels, st.sampled_from(["closest", "first", "noise"]))
def test_every_input_type_gives_the_same_labels(X, eps, min_samples, border):
    """Dense points, sparse points, a callable, and matrices of distances are one graph."""
    distances = one_distances(X)
    options = {"eps": eps, "min_samples": min_samples, "border": border}
    expected = DBSCAN(**options).fit(X)

    def callable_metric(a, b):
        total = 0.0
        for x, y in zip(a, b, strict=True):
            total += (x - y) * (x - y)
        return np.sqrt(total)

    ties = border != "closest"  # a matrix has no coordinates to decide equally close core points
    answers = {
        "sparse": DBSCAN(**options).fit(scipy.sparse.csr_array(X)) if ties else None,
        "callable": DBSCAN(metric=callable_metric, **options).fit(X) if len(X) < 25 else None,
        "matrix": DBSCAN(metric="precomputed", **options).fit(distances) if ties else None,
        "graph": DBSCAN(metric="precomputed", **options).fit(_stored(distances, eps)) if ties else None,
        "spectral matrix": DBSCAN(metric="precomputed", formulation="spectral", **options).fit(distances)
        if ties
        else None,
    }
    for name, answer in answers.items():
        if answer is not None:
            np.testing.assert_array_equal(answer.labels_, expected.labels_, err_msg=name)
            np.testing.assert_array_equal(answer.core_sample_indices_, expected.core_sample_indices_, err_msg=name)


def _stored(distances: np.ndarray, eps: float) -> scipy.sparse.csr_array:
    """The entries up to ε, zeros included."""
    rows, columns = np.nonzero(distances <= eps)
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(distances)))])
    return scipy.sparse.csr_array((distances[rows, columns], columns, starts), shape=distances.shape)


METRICS = {
    "manhattan": lambda X, p: np.abs(X[:, None] - X[None]).sum(axis=2),
    "chebyshev": lambda X, p: np.abs(X[:, None] - X[None]).max(axis=2),
    "minkowski": lambda X, p: (np.abs(X[:, None] - X[None]) ** p).sum(axis=2) ** (1 / p),
    "cosine": lambda X, p: (
        1 - (X[:, None] * X[None]).sum(axis=2) / np.outer(np.linalg.norm(X, axis=1), np.linalg.norm(X, axis=1))
    ),
    "haversine": lambda X, p: (
        2
        * np.arcsin(
            np.sqrt(
                np.sin((X[:, None, 0] - X[None, :, 0]) / 2) ** 2
                + np.cos(X[:, None, 0]) * np.cos(X[None, :, 0]) * np.sin((X[:, None, 1] - X[None, :, 1]) / 2) ** 2
            )
        )
    ),
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("metric", METRICS)
def test_other_metrics_are_their_formula(metric, seed):
    generator = np.random.default_rng(seed)
    d = 2 if metric == "haversine" else int(generator.integers(1, 6))
    X = generator.normal(size=(300, d)) + 2 * generator.integers(0, 2, size=(300, 1))
    if metric == "haversine":
        X = np.stack([np.arcsin(generator.uniform(-1, 1, 300)), generator.uniform(-np.pi, np.pi, 300)], axis=1)
    p = 3.0
    distances = METRICS[metric](X, p)
    eps = float(np.quantile(distances[np.triu_indices(300, 1)], 0.02))
    away = np.abs(distances - eps).min() > 1e-12  # the formula's own last bits are not scipy's
    assert away
    theirs = SklearnDBSCAN(eps=eps, min_samples=5, metric="precomputed").fit(np.maximum(distances, 0))
    ours = DBSCAN(eps=eps, min_samples=5, metric=metric, p=p, border="first").fit(X)
    np.testing.assert_array_equal(ours.labels_, theirs.labels_)
    np.testing.assert_array_equal(ours.predict(X), ours.labels_)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("d", [1, 2, 3, 6, 12, 40])
def test_threads_and_layouts_do_not_matter(d, threads):
    generator = np.random.default_rng(d)
    X = generator.normal(size=(3000, d)) + 6 * generator.integers(0, 3, size=(3000, 1))
    eps = 0.1 * d if d < 4 else 0.45 * np.sqrt(2 * d)
    expected = DBSCAN(eps=eps, n_jobs=1).fit_predict(X)
    answers = (X, np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2], np.hstack([X, X])[:, :d])
    for points in answers:
        np.testing.assert_array_equal(DBSCAN(eps=eps, n_jobs=threads).fit_predict(points), expected)
    single = X.astype(np.float32)
    np.testing.assert_array_equal(
        DBSCAN(eps=eps, n_jobs=threads).fit_predict(single),
        DBSCAN(eps=eps, n_jobs=threads).fit_predict(single.astype(np.float64)),
    )


def test_clusters_are_never_joined_through_a_point_that_is_not_core():
    left, right = np.arange(5) * 0.1, 2.4 + np.arange(5) * 0.1
    X = np.concatenate([left, right, [1.4]])[:, None]  # the last is within 1 of one core point on either side
    labels = DBSCAN(eps=1.0, min_samples=5).fit_predict(X)
    assert labels[:5].tolist() == [0] * 5
    assert labels[5:10].tolist() == [1] * 5


HARD = {
    "equal points": (np.zeros((100_000, 2)), 0.1, 1),
    "collinear": (np.stack([np.arange(20_000.0), np.arange(20_000.0)], axis=1), 1.5, 1),
    "one far outlier": (np.concatenate([np.random.default_rng(0).normal(size=(5000, 2)), [[1e12, -1e12]]]), 1.0, None),
    "a far outlier at 1e300": (np.array([[0.0], [1.0], [1e300], [2.0]]), 1.0, None),
    "tiny": (np.random.default_rng(0).normal(size=(500, 2)) * 1e-300, 1e-300, None),
    "huge": (np.random.default_rng(0).normal(size=(500, 2)) * 1e299, 1e299, None),
    "constant columns": (np.c_[np.random.default_rng(0).normal(size=(2000, 1)), np.full((2000, 3), 7.0)], 0.1, None),
    "a radius beyond everything": (np.random.default_rng(0).normal(size=(50_000, 3)), 1e9, 1),
    "a radius below everything": (np.random.default_rng(0).normal(size=(50_000, 3)), 1e-9, 0),
}


@pytest.mark.parametrize("name", HARD)
def test_hard_data(name):
    X, eps, clusters = HARD[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuspiciousResultWarning)
        model = DBSCAN(eps=eps, min_samples=2, border="first").fit(X)
    np.testing.assert_array_equal(model.predict(X[:1000]), model.labels_[:1000])
    if clusters is not None:
        assert len(np.unique(model.labels_[model.labels_ >= 0])) == clusters
    elif len(X) <= 6000:
        with np.errstate(over="ignore", under="ignore"):
            scale = np.abs(X).max() if name in {"tiny", "huge"} else 1.0
            distances = one_distances(X / scale)
        theirs = SklearnDBSCAN(eps=eps / scale, min_samples=2, metric="precomputed")
        np.testing.assert_array_equal(model.labels_, theirs.fit(np.minimum(distances, 1e305)).labels_)
