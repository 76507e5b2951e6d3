"""The spatial index and the DBSCAN core, against brute force in NumPy and scikit-learn on precomputed distances."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import DBSCAN

from knoll import _core
from knoll.reference import dbscan_graph, run

METRICS = ["euclidean", "manhattan", "chebyshev", "minkowski", "cosine", "haversine"]
BACKENDS = ["auto", "grid", "tree", "tiles"]
P = 3.5

# The functions of the C library, as in the core: NumPy's own are off by other bits where it has AVX-512.
power, sine, cosine_of, arcsine = (
    np.vectorize(f, otypes=[np.float64]) for f in (math.pow, math.sin, math.cos, math.asin)
)


def distances(X, Y, metric):
    """Every metric's own formula in float64, coordinates added in order: (n, m)."""
    X, Y = np.asarray(X, dtype=np.float64), np.asarray(Y, dtype=np.float64)
    differences = [X[:, None, j] - Y[None, :, j] for j in range(X.shape[1])]
    if metric == "euclidean":
        return np.sqrt(sum(np.square(d) for d in differences))
    if metric == "manhattan":
        return sum(np.abs(d) for d in differences)
    if metric == "chebyshev":
        return np.max(np.abs(differences), axis=0)
    if metric == "minkowski":
        return power(sum(power(np.abs(d), P) for d in differences), 1 / P)
    if metric == "haversine":
        s, t = sine(0.5 * differences[0]), sine(0.5 * differences[1])
        h = s * s + cosine_of(X[:, None, 0]) * cosine_of(Y[None, :, 0]) * t * t
        return 2 * arcsine(np.sqrt(np.clip(h, 0, 1)))
    dot = sum(X[:, None, j] * Y[None, :, j] for j in range(X.shape[1]))
    length = np.sqrt(sum(x * x for x in X.T))[:, None] * np.sqrt(sum(y * y for y in Y.T))
    with np.errstate(invalid="ignore"):
        cosine = np.clip(1 - np.where(length > 0, dot / length, 0), 0, 2)
    cosine[(X[:, None] == Y[None]).all(axis=2)] = 0
    return cosine


def dbscan(X, eps, min_samples, weights=None, metric="euclidean", border="first", threads=2, backend="auto"):
    labels, core = np.empty(len(X), dtype=np.int64), np.empty(len(X), dtype=bool)
    report = _core.dbscan(X, eps, min_samples, weights, metric, P, border, labels, core, threads, backend)
    assert report["clusters"] == labels.max(initial=-1) + 1
    return labels, core, report


def expected(X, D, eps, min_samples, weights, border):
    """What brute force gives, by the definition: exact sums, components, borders."""
    near = eps >= D
    w = np.ones(len(X)) if weights is None else weights
    core = np.array([math.fsum(w[row]) >= min_samples for row in near], dtype=bool)
    labels = np.full(len(X), -1)
    for i in np.flatnonzero(core):
        if labels[i] < 0:
            labels[i], stack = labels.max() + 1, [i]
            while stack:
                new = np.flatnonzero(near[stack.pop()] & core & (labels < 0))
                labels[new] = labels[i]
                stack.extend(new)
    for i in np.flatnonzero(~core):
        reach = np.flatnonzero(near[i] & core)
        if border == "noise" or not len(reach):
            continue
        if border == "first":
            labels[i] = labels[reach].min()
        else:
            labels[i] = labels[min(reach, key=lambda j: (D[i, j], X[j].tolist()))]
    return labels, core


@st.composite
def clouds(draw, max_rows=150, max_columns=5):
    """Random, lattice, repeated, collinear, clustered and outlying points."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(1, max_rows)), draw(st.integers(1, max_columns))
    cloud = draw(st.sampled_from(["normal", "lattice", "equal", "line", "blobs", "outlier", "constant"]))
    X = rng.normal(size=(n, d))
    if cloud == "lattice":
        X = rng.integers(0, 5, size=(n, d)).astype(float)
    elif cloud == "equal":
        X = np.repeat(X[:1], n, axis=0)
    elif cloud == "line":
        X = np.outer(rng.permutation(n), np.full(d, 0.1))
    elif cloud == "blobs":
        X = 0.1 * X + rng.integers(0, 3, size=(n, 1))
    elif cloud == "outlier":
        X[0] = 1e30
    elif cloud == "constant":
        X[:, 0] = 7.0
    return X


def radius_for(draw, D):
    """A round radius, or one that is a computed distance: then the boundary is hit."""
    own = D[D > 0]
    if own.size and draw(st.booleans()):
        return float(own[draw(st.integers(0, own.size - 1))])
    return draw(st.sampled_from([1e-3, 0.1, 0.5, 1.0, 2.0, math.sqrt(2), 10.0]))


def weights_for(draw, n):
    weighting = draw(st.sampled_from(["none", "none", "whole", "thirds", "signed"]))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    if weighting == "none":
        return None
    whole = rng.integers(0, 4, size=n).astype(float)
    return whole if weighting == "whole" else whole / 3 if weighting == "thirds" else rng.normal(size=n) * 2


def usable(backend, metric, d, weights):
    if backend == "grid":
        return metric == "euclidean" and d <= 5 and (weights is None or weights.min() >= 0)
    return backend != "tiles" or metric == "euclidean"


@settings(max_examples=150)
@given(st.data())
def test_dbscan_is_its_definition_in_every_metric_border_and_backend(data):
    X = data.draw(clouds())
    metric = data.draw(st.sampled_from([*METRICS, "euclidean", "euclidean"]))
    if metric == "haversine":
        X = np.resize(X, (len(X), 2))
    D = distances(X, X, metric)
    eps, min_samples = radius_for(data.draw, D), data.draw(st.integers(1, 12))
    weights = weights_for(data.draw, len(X))
    border = data.draw(st.sampled_from(["first", "closest", "noise"]))
    labels, core = expected(X, D, eps, min_samples, weights, border)
    for backend in BACKENDS:
        if usable(backend, metric, X.shape[1], weights):
            got = dbscan(X, eps, min_samples, weights, metric, border, backend=backend)
            np.testing.assert_array_equal(got[1], core, err_msg=backend)
            np.testing.assert_array_equal(got[0], labels, err_msg=backend)


@settings(max_examples=60)
@given(st.data())
def test_border_first_is_scikit_learn_on_precomputed_distances(data):
    X = data.draw(clouds())
    D = distances(X, X, "euclidean")
    eps, min_samples = radius_for(data.draw, D), data.draw(st.integers(1, 12))
    peer = DBSCAN(eps=eps, min_samples=min_samples, metric="precomputed").fit(D)
    labels, core, _ = dbscan(X, eps, min_samples)
    np.testing.assert_array_equal(labels, peer.labels_)
    np.testing.assert_array_equal(np.flatnonzero(core), peer.core_sample_indices_)


@settings(max_examples=60)
@given(st.data())
def test_border_closest_is_the_reference(data):
    X = data.draw(clouds(max_rows=80))
    eps, min_samples = radius_for(data.draw, distances(X, X, "euclidean")), data.draw(st.integers(1, 8))
    state = run(dbscan_graph(X, eps, min_samples))
    for backend in ("grid", "tree", "tiles"):
        if usable(backend, "euclidean", X.shape[1], None):
            labels, core, _ = dbscan(X, eps, min_samples, border="closest", backend=backend)
            np.testing.assert_array_equal(labels, state.labels)
            np.testing.assert_array_equal(core, state.core)


@pytest.mark.parametrize("d", [1, 2, 3, 5, 20])
def test_threads_layout_and_precision_change_nothing(d):
    rng = np.random.default_rng(d)
    X = np.asarray(rng.normal(size=(3000, d)).round(2), dtype=np.float32)
    eps = 0.3 * d**0.5 if d > 3 else 0.05 * d
    labels, core, _ = dbscan(X, eps, 5, border="closest", threads=1)
    wide = X.astype(np.float64)
    strided = np.zeros((6000, 2 * d))
    strided[::2, ::2] = wide
    for same in (X, wide, np.asfortranarray(wide), strided[::2, ::2]):
        for threads in (1, 2, 5):
            again = dbscan(same, eps, 5, border="closest", threads=threads)
            np.testing.assert_array_equal(again[0], labels)
            np.testing.assert_array_equal(again[1], core)
    order = rng.permutation(len(X))
    moved = dbscan(wide[order], eps, 5, border="closest")[0]
    pairs = np.unique(np.column_stack([labels[order], moved]), axis=0)  # the same partition: one number for one number
    assert len(pairs) == len(np.unique(labels)) == len(np.unique(moved))


@pytest.mark.parametrize("backend", ["grid", "tree", "tiles"])
def test_a_hundred_thousand_equal_points_and_all_points_as_neighbours(backend):
    equal = np.full((100_000, 2), 0.1)
    if backend != "tiles":
        labels, core, _ = dbscan(equal, 1e-9, 10, backend=backend)
        assert core.all()
        assert (labels == 0).all()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000 if backend == "tiles" else 100_000, 2))
    labels, core, report = dbscan(X, 1e3, 10, backend=backend, border="closest")
    assert core.all()
    assert (labels == 0).all()
    assert backend == "tiles" or report["distances"] < 100 * len(X)


@pytest.mark.parametrize("exponent", [-1000, -700, -480, 0, 480, 900])
def test_powers_of_two_scale_everything(exponent):
    rng = np.random.default_rng(1)
    X = np.concatenate([rng.normal(size=(200, 2)), rng.normal(size=(200, 2)) * 0.2 + 3]).round(3)
    labels, core, _ = dbscan(X, 0.25, 4, border="closest")
    assert 1 < labels.max() + 1 < 40
    assert not core.all()
    scale = math.ldexp(1.0, exponent)
    again = dbscan(X * scale, 0.25 * scale, 4, border="closest")
    np.testing.assert_array_equal(again[0], labels)
    np.testing.assert_array_equal(again[1], core)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_far_outliers_do_not_rule_out_the_grid(d):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(2000, d))
    labels, _, _ = dbscan(X, 0.1, 5, border="closest", backend="tree")
    far = np.concatenate([X, [[1e30] * d], [[-1e300] * d], [[1e300] * d], [[1e300] * d]])
    again = dbscan(far, 0.1, 5, border="closest")
    assert again[2]["backend"] == "grid"
    np.testing.assert_array_equal(again[0][:2000], labels)
    np.testing.assert_array_equal(again[0][2000:], [-1] * 4)
    both = dbscan(far, 0.1, 2, border="closest")
    assert both[0][-1] == both[0][-2] >= 0  # equal outliers are neighbours of each other, and of nobody else
    np.testing.assert_array_equal(both[0], dbscan(far, 0.1, 2, border="closest", backend="tree")[0])


def test_points_on_the_borders_of_grid_cells():
    side = 0.25 / math.sqrt(2)
    for shift in (0.0, side / 3, -1e-16, 1e9):
        grid = np.stack(np.meshgrid(np.arange(25), np.arange(25)), axis=-1).reshape(-1, 2) * side + shift
        D = distances(grid, grid, "euclidean")
        for eps in (0.25, side, 2 * side, math.nextafter(0.25, 0)):
            for min_samples in (1, 4, 5, 9):
                labels, core = expected(grid, D, eps, min_samples, None, "closest")
                got = dbscan(grid, eps, min_samples, border="closest", backend="grid")
                np.testing.assert_array_equal(got[0], labels)
                np.testing.assert_array_equal(got[1], core)


def test_clusters_are_not_joined_through_a_point_that_is_not_core():
    X = np.array([[-2.0], [-1.5], [-1], [0], [1], [1.5], [2]])
    for backend in ("grid", "tree", "tiles"):
        labels, core, _ = dbscan(X, 1.0, 4, border="closest", backend=backend)
        np.testing.assert_array_equal(labels, [0, 0, 0, 0, 1, 1, 1])  # 0 ties: −1 comes before 1
        assert not core[3]
        assert dbscan(X[::-1], 1.0, 4, border="closest", backend=backend)[0][3] == 1  # the same one, numbered second


def test_weight_is_repetition():
    rng = np.random.default_rng(3)
    for d in (2, 6, 20):
        X, w = rng.normal(size=(300, d)).round(1), rng.integers(1, 4, size=300)
        repeated = np.repeat(np.arange(300), w)
        labels, core, _ = dbscan(X, 0.5 * d**0.5, 9, w.astype(float), border="closest")
        again = dbscan(X[repeated], 0.5 * d**0.5, 9, border="closest")
        np.testing.assert_array_equal(again[0], labels[repeated])
        np.testing.assert_array_equal(again[1], core[repeated])


def test_weights_are_summed_exactly():
    X = np.zeros((4, 2))
    weights = np.array([1e16, 1.0, -1e16, 1.0])  # plain float64 loses a 1 in most orders
    for order in ([0, 1, 2, 3], [1, 3, 0, 2], [0, 2, 1, 3]):
        assert dbscan(X, 1.0, 2, weights[order])[1].all()
        assert not dbscan(X, 1.0, 2.0000001, weights[order])[1].any()


def test_counts_are_the_same_on_every_instruction_set():
    code = (
        "import json, sys, numpy as np\n"
        "from knoll import _core\n"
        "out = []\n"
        "for d, eps in ((1, .001), (2, .05), (3, .2), (6, .9), (24, 5.6)):\n"
        "    X = np.random.default_rng(d).normal(size=(2000, d))\n"
        "    labels, core = np.empty(2000, np.int64), np.empty(2000, bool)\n"
        "    _core.dbscan(X, eps, 5, None, 'euclidean', 2.0, 'closest', labels, core, 2)\n"
        "    out.append([int(labels @ np.arange(2000)), int(core.sum())])\n"
        "print(json.dumps(out))"
    )
    answers = []
    for isa in _core.build_info()["instruction sets available"].split(", "):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "KNOLL_ISA": isa},
            capture_output=True,
            text=True,
            check=True,
        )
        answers.append(json.loads(done.stdout))
    assert answers
    assert all(answer == answers[0] for answer in answers)
    assert any(core > 0 for _, core in answers[0])


def query(X, metric, data, k_max=8):
    """An index, a few queries (rows among them) and their distances to all rows."""
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    Q = np.concatenate([X[rng.integers(0, len(X), size=5)], rng.normal(size=(5, X.shape[1]))])
    backends = ["auto", "tree"] + (["tiles"] if metric == "euclidean" else [])
    index = _core.Index(X, 1.0, metric, P, data.draw(st.sampled_from(backends)), 2)
    return index, Q, distances(Q, X, metric)


@settings(max_examples=120)
@given(st.data())
def test_the_index_answers_as_brute_force_does(data):
    X = data.draw(clouds(max_rows=120))
    metric = data.draw(st.sampled_from(METRICS))
    if metric == "haversine":
        X = np.resize(X, (len(X), 2))
    index, Q, D = query(X, metric, data)
    n, m, k = len(X), len(Q), data.draw(st.integers(1, 9))
    radius = radius_for(data.draw, D)
    near = radius >= D

    counts = np.empty(m)
    index.count(Q, radius, math.inf, None, counts, 2)
    np.testing.assert_array_equal(counts, near.sum(axis=1))
    index.count(Q, radius, 3, None, counts, 1)
    np.testing.assert_array_equal(np.minimum(counts, 3), np.minimum(near.sum(axis=1), 3))
    weights = weights_for(data.draw, n)
    if weights is not None:
        index.count(Q, radius, 0, weights, counts, 2)
        np.testing.assert_array_equal(counts, [math.fsum(weights[row]) for row in near])

    found, rows = np.empty((m, k)), np.empty((m, k), dtype=np.int64)
    index.knn(Q, k, found, rows, 2)
    for i in range(m):
        # by the squared distance, whose ties are the exact ones
        key = sum(np.square(Q[i, j] - X[:, j]) for j in range(X.shape[1])) if metric == "euclidean" else D[i]
        best = np.lexsort([np.arange(n), key])[:k]
        np.testing.assert_array_equal(found[i, : len(best)], D[i, best])
        assert np.isinf(found[i, len(best) :]).all()
        assert (rows[i, len(best) :] == -1).all()
        if metric != "minkowski":  # whose sums of powers distinguish what its roots do not
            np.testing.assert_array_equal(rows[i, : len(best)], best)

    lowest = np.empty(m, dtype=np.int64)
    index.first(Q, radius, lowest, 2)
    np.testing.assert_array_equal(lowest, np.where(near.any(axis=1), near.argmax(axis=1), -1))

    mask = np.random.default_rng(k).random(n) < 0.6 if data.draw(st.booleans()) else None
    one, distance = np.empty(m, dtype=np.int64), np.empty(m)
    index.nearest(Q, radius, mask, one, distance, 2)
    allowed = near if mask is None else near & mask
    for i in range(m):
        reach = np.flatnonzero(allowed[i])
        if not len(reach):
            assert one[i] == -1
            assert np.isinf(distance[i])
            continue
        assert distance[i] == D[i, reach].min() == D[i, one[i]]
        if metric != "minkowski":
            key = sum(np.square(Q[i, j] - X[:, j]) for j in range(X.shape[1])) if metric == "euclidean" else D[i]
            assert one[i] == min(reach, key=lambda j, key=key: (key[j], X[j].tolist(), j))

    labels = np.empty(n, dtype=np.int64)
    components = index.components(radius, mask, labels, 2)
    chosen = np.ones(n, dtype=bool) if mask is None else mask
    among = distances(X, X, metric)[chosen][:, chosen]
    np.testing.assert_array_equal(labels[chosen], expected(X[chosen], among, radius, 0, None, "noise")[0])
    assert (labels[~chosen] == -1).all()
    assert components == labels.max(initial=-1) + 1


@pytest.mark.parametrize("exponent", [-1000, 0, 900])
def test_neighbours_at_the_ends_of_the_range(exponent):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(100, 3))
    found = []
    for scale in (1.0, math.ldexp(1.0, exponent)):
        index = _core.Index(X * scale, 1.0, "euclidean", 2.0, "tree", 1)
        d, rows = np.empty((100, 5)), np.empty((100, 5), dtype=np.int64)
        index.knn(X * scale, 5, d, rows, 1)
        found.append((d / scale, rows))
    np.testing.assert_array_equal(found[0][1], found[1][1])
    np.testing.assert_array_equal(found[0][0], found[1][0])


def test_the_index_keeps_its_array_and_takes_float32_queries():
    index = _core.Index(np.arange(10.0)[:, None].copy(), 1.0, "euclidean", 2.0, "auto", 1)
    counts = np.empty(2)
    index.count(np.array([[2.0], [20]], dtype=np.float32), 1.5, math.inf, None, counts, 1)
    np.testing.assert_array_equal(counts, [3, 0])
    assert index.backend == "tree"


def test_nothing_and_one():
    for d in (1, 2, 6, 30):
        labels, core, _ = dbscan(np.empty((0, d)), 1.0, 1)
        assert len(labels) == len(core) == 0
        for level, label in ((1, 0), (2, -1)):
            labels, core, _ = dbscan(np.ones((1, d)), 1.0, level)
            assert labels[0] == label
            assert core[0] == (label == 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metric": "taxi"}, "metric must be euclidean, manhattan, chebyshev, minkowski, cosine, haversine or gower"),
        ({"metric": "haversine"}, "haversine needs two columns"),
        ({"border": "near"}, "border must be closest, first or noise"),
        ({"backend": "ball"}, "backend must be auto, grid, tree or tiles"),
        ({"backend": "tiles", "metric": "manhattan"}, "tiles are for the euclidean metric"),
        ({"backend": "grid", "metric": "manhattan"}, "the grid is for the euclidean metric"),
        ({"eps": -1.0}, "eps must be > 0"),
        ({"weights": np.ones(2)}, "weights must have one entry per row"),
    ],
)
def test_what_the_core_refuses(change, message):
    with pytest.raises(ValueError, match=message):
        dbscan(**{"X": np.zeros((3, 3)), "eps": 1.0, "min_samples": 2, **change})


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "share"), [(1, 0.5), (10, 0.0), (10, 1.0), (20_000, 0.9)])
def test_rows_are_split_by_a_mask_in_their_order(n, share, dtype, order):
    rng = np.random.default_rng(n)
    X = np.asarray(rng.normal(size=(n, 3)), dtype=dtype, order=order)
    mask = rng.uniform(size=n) < share
    m = int(mask.sum())
    numbers, taken, others = np.empty(m, np.int64), np.empty((m, 3), dtype), np.empty((n - m, 3), dtype)
    _core.split_rows(X, mask, numbers, taken, others, 2)
    np.testing.assert_array_equal(numbers, np.flatnonzero(mask))
    np.testing.assert_array_equal(taken, X[mask])
    np.testing.assert_array_equal(others, X[~mask])


def test_rows_are_split_only_into_arrays_of_the_right_size():
    X, mask = np.zeros((5, 2)), np.array([True, False, True, False, False])
    with pytest.raises(ValueError, match="must have as many rows as the mask selects"):
        _core.split_rows(X, mask, np.empty(3, np.int64), np.empty((3, 2)), np.empty((2, 2)), 1)
    with pytest.raises(ValueError, match="mask must have one entry per row"):
        _core.split_rows(X, mask[:3], np.empty(2, np.int64), np.empty((2, 2)), np.empty((3, 2)), 1)
    with pytest.raises(ValueError, match="taken and others must have the columns of x"):
        _core.split_rows(X, mask, np.empty(2, np.int64), np.empty((2, 1)), np.empty((3, 2)), 1)


def test_the_grid_refuses_more_than_five_columns():
    with pytest.raises(ValueError, match="the grid is for the euclidean metric, up to five columns and weights >= 0"):
        dbscan(np.zeros((10, 6)), 1.0, 2, backend="grid")


@pytest.mark.parametrize("d", [2, 3, 4, 5])
def test_grid_tree_and_tiles_agree_where_points_are_many(d):
    rng = np.random.default_rng(d)
    X = np.concatenate([rng.normal(size=(6000, d)), rng.uniform(-6, 6, size=(4000, d)), np.zeros((50, d))])
    X[:2000] = np.round(X[:2000] * 3) / 3
    for eps in (0.05, 1 / 3, 1.0):
        for border in ("first", "closest"):
            answers = [dbscan(X, eps, 6, border=border, backend=b) for b in ("grid", "tree", "tiles")]
            for labels, core, _ in answers[1:]:
                np.testing.assert_array_equal(labels, answers[0][0])
                np.testing.assert_array_equal(core, answers[0][1])
