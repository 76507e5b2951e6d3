"""KernelKMeans: starts, messages, edges, and what a fit keeps."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

import knoll
from knoll import KernelKMeans, KMeans, datasets, kernels
from knoll.exceptions import BadData, ConvergenceWarning, InvalidParameter, SuspiciousResultWarning
from knoll.kernels import Gaussian, normalized_cut


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    return rng.normal(size=(150, 2)) + 5 * rng.normal(size=(3, 2))[rng.integers(3, size=150)]


def column(*values):
    return np.array(values, dtype=float)[:, None]


# ---- answers -------------------------------------------------------------------------------------------------------


def test_rings_that_no_line_separates():
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, size=300)
    ring = np.repeat([0, 1], [100, 200])
    X = np.where(ring, 4.0, 0.6)[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    plain = KMeans(2, n_init=5, random_state=0).fit(X)
    assert adjusted_rand_score(ring, plain.labels_) < 0.5
    own = KernelKMeans(2, kernel=lambda x, y: float((x @ x) * (y @ y)), random_state=0).fit(X)  # the squared radius
    assert adjusted_rand_score(ring, own.labels_) == 1


def test_the_discrete_problems_of_the_kernel_and_the_cut_differ():
    """docs/theory/errata.md, item 22, on {0, 0, 2, 4}: each choice of weights has its own best partition."""
    points = column(0, 0, 2, 4)
    A = Gaussian(1.0).tile(points, points)
    d = A.sum(axis=1)
    paper = KernelKMeans(2, kernel="precomputed", n_init=20, random_state=0, local_search=True)
    paper.fit(A, sample_weight=1 / d)
    assert paper.labels_[0] == paper.labels_[1] != paper.labels_[2] == paper.labels_[3]
    cut = KernelKMeans(2, kernel="precomputed", n_init=20, random_state=0, local_search=True)
    cut.fit(A / np.outer(d, d), sample_weight=d)
    assert cut.labels_[0] == cut.labels_[1] == cut.labels_[2] != cut.labels_[3]
    np.testing.assert_allclose(cut.normalized_cut_, normalized_cut(A, cut.labels_), rtol=1e-12)
    np.testing.assert_allclose(cut.normalized_cut_, 1 - cut.trace_objective_ / 2, rtol=1e-12)


def test_a_heaviside_kernel_that_goes_round_is_shifted():
    """docs/theory/errata.md, item 24: from this start box 4 goes round in a circle."""
    X = column(0, 1, 2)
    model = KernelKMeans(2, kernel="heaviside", eps=1.0, init=[0, 1, 0]).fit(X)
    assert model.shift_ > 0
    assert model.n_iter_ < 10
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    better = KernelKMeans(2, kernel="heaviside", eps=1.0, init=[0, 1, 0], local_search=True).fit(X)
    assert better.objective_ <= model.objective_
    assert KernelKMeans(2, sigma=1.0, init=[0, 1, 0]).fit(X).shift_ == 0


def test_a_shifted_model_knows_its_rows_in_any_form():
    rng = np.random.default_rng(5)
    S = rng.normal(size=(30, 30))
    S = S + S.T
    weights = rng.integers(0, 3, size=30).astype(float)
    model = KernelKMeans(3, kernel="precomputed", random_state=0).fit(S, sample_weight=weights)
    assert model.shift_ > 0
    assert model.normalized_cut_ is None
    for form in (S, scipy.sparse.csr_matrix(S), np.asfortranarray(S)):
        np.testing.assert_array_equal(model.predict(form), model.labels_)
    assert model.predict(np.zeros((2, 30))).shape == (2,)


def test_a_graph_has_a_normalized_cut(X):
    A = Gaussian(1.0).tile(X, X)
    A[A < 0.1] = 0
    dense = KernelKMeans(3, kernel="precomputed", random_state=0).fit(A)
    sparse = KernelKMeans(3, kernel="precomputed", random_state=0).fit(scipy.sparse.csr_array(A))
    np.testing.assert_array_equal(dense.labels_, sparse.labels_)
    np.testing.assert_allclose(dense.normalized_cut_, normalized_cut(A, dense.labels_), rtol=1e-10)
    np.testing.assert_allclose(sparse.normalized_cut_, dense.normalized_cut_, rtol=1e-10)
    assert KernelKMeans(3, sigma=1.0, random_state=0).fit(X).normalized_cut_ is None
    np.testing.assert_array_equal(dense.predict(A), dense.labels_)
    np.testing.assert_array_equal(sparse.predict(A), dense.labels_)


def test_disconnected_complete_and_star_graphs():
    two = scipy.sparse.block_diag([np.ones((4, 4)), np.ones((6, 6))]).toarray()
    model = KernelKMeans(2, kernel="precomputed", n_init=5, random_state=0).fit(two)
    assert model.normalized_cut_ == 0
    np.testing.assert_allclose(model.objective_, 0, atol=1e-12)
    with pytest.warns(ConvergenceWarning, match=r"Number of distinct clusters \(1\) found smaller"):
        KernelKMeans(2, kernel="precomputed", random_state=0).fit(np.ones((5, 5)))
    star = np.eye(7)
    star[0, :] = star[:, 0] = 1.0
    model = KernelKMeans(2, kernel="precomputed", n_init=3, random_state=0).fit(star)
    assert len(set(model.labels_)) == 2
    np.testing.assert_array_equal(model.predict(star), model.labels_)


def test_k_is_one_or_n(X):
    one = KernelKMeans(1, sigma=1.0).fit(X)
    assert set(one.labels_) == {0}
    K = Gaussian(1.0).tile(X, X)
    np.testing.assert_allclose(one.objective_, len(X) - K.sum() / len(X))
    all_alone = KernelKMeans(len(X), sigma=1.0, random_state=0).fit(X)
    assert sorted(all_alone.labels_) == list(range(len(X)))
    np.testing.assert_allclose(all_alone.objective_, 0, atol=1e-10)


def test_copies_go_together():
    X = np.repeat(column(0, 1, 5, 6, 20), [3, 1, 4, 1, 2], axis=0)
    model = KernelKMeans(3, sigma=1.0, random_state=0).fit(X)
    for value in np.unique(X):
        assert len(set(model.labels_[X[:, 0] == value])) == 1


def test_ties_go_to_the_lowest_index_and_are_listed():
    X = column(0, 2, 3)  # 2 is as far from the mean of {0, 2} as from 3
    model = KernelKMeans(2, kernel="linear", init=[0, 0, 1]).fit(X)
    assert model.labels_.tolist() == [0, 0, 1] == KMeans(2, init=[[1.0], [3.0]]).fit(X).labels_.tolist()
    assert model.ties_.tolist() == [1]
    other = KernelKMeans(2, kernel="linear", init=[1, 1, 0], max_iter=1).fit(X)
    assert other.center_labels_.tolist() == [1, 0, 0]
    weighted = KernelKMeans(2, kernel="linear", init=[0, 0, 1]).fit(X, sample_weight=[0.5, 0.5, 7.0])
    assert weighted.ties_.tolist() == [1]
    assert KernelKMeans(2, kernel=Gaussian(1.0), init=[0, 0, 1]).fit(X).ties_.tolist() == []


def test_an_absent_row_between_two_means():
    X = column(-1, 1, 0)
    for kernel in ("linear", Gaussian(0.7)):
        model = KernelKMeans(2, kernel=kernel, init=[1, 0]).fit(X, sample_weight=[1.0, 1.0, 0.0])
        assert model.labels_.tolist() == [1, 0, 0]
        assert model.predict(X).tolist() == [1, 0, 0]


def test_rows_that_rounding_cannot_distinguish_are_decided_alike_in_any_order():
    """A lattice far from the origin, where the linear kernel has lost most digits."""
    rng = np.random.default_rng(2)
    X = rng.integers(0, 4, size=(60, 2)) + 2.0**22
    model = KernelKMeans(3, kernel="linear", random_state=0).fit(X)
    assert model.n_rechecks_ > 0
    order = rng.permutation(60)
    again = KernelKMeans(3, kernel="linear", random_state=0, n_jobs=2).fit(X[order])
    np.testing.assert_array_equal(again.labels_, model.labels_[order])
    np.testing.assert_array_equal(model.predict(X[::-1])[::-1], model.labels_)


# ---- scales ------------------------------------------------------------------------------------------------------


def test_a_width_that_is_far_too_small_is_reported(X):
    with pytest.warns(
        SuspiciousResultWarning, match=r"sigma=1e-06 is far too small: 100 % of the rows are similar to no"
    ):
        model = KernelKMeans(3, sigma=1e-6, random_state=0).fit(X)
    np.testing.assert_allclose(model.objective_, len(X) - 3)
    assert len(set(model.labels_)) == 3
    with pytest.warns(SuspiciousResultWarning, match=r"eps=1e-06 is far too small"):
        KernelKMeans(3, kernel="heaviside", eps=1e-6, random_state=0).fit(X)


def test_a_width_that_is_far_too_large_is_reported(X):
    with pytest.warns(SuspiciousResultWarning, match=r"sigma=1e\+08 is far too large: all rows are alike"):
        model = KernelKMeans(2, sigma=1e8, random_state=0).fit(X)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert 0 <= model.objective_ < 1e-10


def test_the_width_is_chosen_from_the_data():
    X = datasets.load("iris").X
    model = KernelKMeans(3, random_state=0).fit(X)
    assert model.sigma_ > 0
    assert model.sigma_reason_
    fixed = KernelKMeans(3, sigma=model.sigma_, random_state=0).fit(X)
    np.testing.assert_array_equal(fixed.labels_, model.labels_)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert fixed.sigma_reason_ == ""
    gamma = KernelKMeans(3, gamma=1 / (2 * 0.7**2), random_state=0).fit(X)
    assert gamma.sigma_ == pytest.approx(0.7)
    assert KernelKMeans(3, kernel="linear", random_state=0).fit(X).sigma_ is None


@pytest.mark.parametrize("scale", [2.0**-498, 2.0**498])
def test_data_far_from_one(X, scale):
    expected = KernelKMeans(3, sigma=1.0, random_state=0).fit(X)
    other = KernelKMeans(3, sigma=1.0 * scale, random_state=0).fit(X * scale)
    np.testing.assert_array_equal(expected.labels_, other.labels_)
    with pytest.raises(BadData, match=r"κ\(x, x\) is inf at row \d+: its values leave float64\. Divide X"):
        KernelKMeans(3, kernel="linear").fit(X * 1e200)


@pytest.mark.parametrize("power", [-1000, -535, -140, 140, 400])
def test_the_linear_kernel_has_no_unit(X, power):
    """Products of numbers near 2^−535 would have a few digits, those of smaller ones none."""
    weights = np.random.default_rng(1).integers(0, 3, size=len(X))
    expected = KernelKMeans(3, kernel="linear", local_search=True, random_state=0).fit(X, sample_weight=weights)
    other = KernelKMeans(3, kernel="linear", local_search=True, random_state=0)
    other.fit(np.ldexp(X, power), sample_weight=weights)
    np.testing.assert_array_equal(other.labels_, expected.labels_)
    np.testing.assert_array_equal(other.predict(np.ldexp(X, power)), other.labels_)
    np.testing.assert_array_equal(other.fit_points_, np.ldexp(expected.fit_points_, power))
    with np.errstate(over="ignore", under="ignore"):
        assert other.objective_ == np.ldexp(expected.objective_, 2 * power)
    again = KernelKMeans.from_state(*other.to_state())
    np.testing.assert_array_equal(again.predict(np.ldexp(X, power)), other.labels_)


def test_weights_far_from_one(X):
    weights = np.random.default_rng(1).uniform(0.5, 2, size=len(X))
    expected = KernelKMeans(3, sigma=1.0, random_state=0).fit(X, sample_weight=weights)
    for power in (-900, 900):
        other = KernelKMeans(3, sigma=1.0, random_state=0).fit(X, sample_weight=np.ldexp(weights, power))
        np.testing.assert_array_equal(expected.labels_, other.labels_)
        assert other.objective_ == np.ldexp(expected.objective_, power)
    weights[3], weights[4] = 1e-200, 2.0
    with pytest.raises(BadData, match=r"sample_weight goes from 1e-200 to 2: their squares leave float64"):
        KernelKMeans(3, sigma=1.0).fit(X, sample_weight=weights)


# ---- starts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("init", ["k-means++", "random", "spectral"])
def test_starts_by_name(X, init):
    model = KernelKMeans(3, sigma=1.5, init=init, random_state=0).fit(X)
    again = KernelKMeans(3, sigma=1.5, init=init, random_state=0).fit(X)
    np.testing.assert_array_equal(model.labels_, again.labels_)
    assert model.objective_ < KernelKMeans(1, sigma=1.5).fit(X).objective_
    weights = np.random.default_rng(0).uniform(0.5, 2, size=len(X))
    weighted = KernelKMeans(3, sigma=1.5, init=init, random_state=0).fit(X, sample_weight=weights)
    np.testing.assert_array_equal(weighted.predict(X), weighted.labels_)


def test_the_spectral_start_is_a_good_one():
    rng = np.random.default_rng(3)
    X = (
        rng.normal(size=(400, 2))
        + 6 * np.array([[i, j] for i in range(4) for j in range(4)])[rng.integers(16, size=400)]
    )
    spectral = KernelKMeans(16, sigma=2.0, init="spectral", random_state=0).fit(X)
    plain = KernelKMeans(16, sigma=2.0, init="random", n_init=1, random_state=0).fit(X)
    assert spectral.objective_ <= plain.objective_
    assert spectral.history_["objective"][0] <= 1.2 * spectral.objective_


def test_more_runs_are_never_worse(X):
    few, many = (KernelKMeans(6, sigma=0.5, init="random", n_init=n, random_state=0).fit(X) for n in (1, 8))
    assert many.objective_ <= few.objective_
    assert KernelKMeans(6, sigma=0.5, init="random", random_state=0).fit(X).objective_ <= few.objective_


def test_rows_to_begin_with(X):
    rows = np.array([5, 80, 120])
    model = KernelKMeans(3, sigma=1.0, init=rows, max_iter=1).fit(X)
    K = Gaussian(1.0).tile(X, X)
    first = KernelKMeans(3, sigma=1.0, init=K[:, rows].argmax(axis=1), max_iter=1).fit(X)
    np.testing.assert_array_equal(model.labels_, first.labels_)
    weights = np.ones(len(X))
    weights[:4] = 0
    model = KernelKMeans(3, sigma=1.0, init=rows).fit(X, sample_weight=weights)
    np.testing.assert_array_equal(model.labels_[4:], KernelKMeans(3, sigma=1.0, init=rows - 4).fit(X[4:]).labels_)
    weights[5] = 0
    with pytest.raises(InvalidParameter, match="init names row 5, whose sample_weight is 0"):
        KernelKMeans(3, sigma=1.0, init=rows).fit(X, sample_weight=weights)


def test_one_run_from_a_given_start(X):
    with pytest.warns(RuntimeWarning, match="init is an explicit start, so one run is made instead of n_init=4"):
        KernelKMeans(3, sigma=1.0, init=[0, 50, 100], n_init=4).fit(X)


@pytest.mark.parametrize(
    ("init", "message"),
    [
        ("kmeans", "init must be 'k-means.*', 'random', 'spectral', labels or row indices, got 'kmeans'"),
        (3, "init must be .* got 3"),
        ([0, 1], r"init must be labels of 150 rows or 3 row indices, all whole numbers, got an array of shape \(2,\)"),
        ([0.0, 1.0, 2.0], "and type float64"),
        ([0, 1, 150], "init must be row indices from 0 to 149, got 150 at position 2"),
        ([-1] + [0] * 149, "init must be labels from 0 to 2, got -1 at position 0"),
    ],
)
def test_a_bad_start_is_refused(X, init, message):
    with pytest.raises(InvalidParameter, match=message):
        KernelKMeans(3, sigma=1.0, init=init).fit(X)


# ---- bad input ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_clusters": 0}, "n_clusters must be >= 1, got 0"),
        ({"n_init": 0}, "n_init must be >= 1 and <= 65535, got 0"),
        ({"max_iter": 0}, "max_iter must be >= 1, got 0"),
        ({"tol": -1.0}, r"tol must be >= 0, got -1\.0"),
        ({"sigma": 1.0, "gamma": 1.0}, "KernelKMeans: give sigma or gamma, not both"),
        ({"sigma": 0.0}, r"sigma must be > 0, got 0\.0"),
        ({"kernel": "heaviside"}, "KernelKMeans: kernel='heaviside' needs eps"),
        ({"kernel": "poly", "degree": 0}, "degree must be >= 1"),
        ({"kernel": "none"}, "KernelKMeans: kernel must be 'rbf'"),
        ({"empty_clusters": "drop"}, "empty_clusters must be one of 'relocate', 'keep', got 'drop'"),
        ({"local_search": "yes"}, "local_search must be True or False, got 'yes'"),
    ],
)
def test_bad_parameters_are_refused(X, parameters, message):
    with pytest.raises(InvalidParameter, match=message):
        KernelKMeans(**{"n_clusters": 3, **parameters}).fit(X)


def test_bad_data_is_refused(X):
    with pytest.raises(BadData, match="n_samples=2 should be >= n_clusters=3"):
        KernelKMeans(3, sigma=1.0).fit(X[:2])
    K = Gaussian(1.0).tile(X, X)
    K[4, 7] += 0.25
    with pytest.raises(
        BadData, match=r"the precomputed kernel must be symmetric, but has .* at row 4, column 7 and .* at row 7"
    ):
        KernelKMeans(3, kernel="precomputed").fit(K)
    weights = np.ones(150)
    weights[:3] = 0  # messages name rows of the input, whichever rows are absent
    with pytest.raises(BadData, match=r"must be symmetric, but has .* at row 4, column 7 and .* at row 7"):
        KernelKMeans(3, kernel="precomputed").fit(K, sample_weight=weights)
    for absent in (None, weights):
        with pytest.raises(BadData, match=r"the precomputed kernel must be square, got shape \(150, 2\)"):
            KernelKMeans(2, kernel="precomputed").fit(X, sample_weight=absent)
    K[4, 7] = np.nan
    with pytest.raises(BadData, match="X has a NaN at row 4, column 7"):
        KernelKMeans(3, kernel="precomputed").fit(K)
    broken = scipy.sparse.csr_matrix(np.eye(3))
    broken.indices[0] = 9
    with pytest.raises(BadData, match="has an index 9"):
        KernelKMeans(2, kernel="precomputed").fit(broken)
    with pytest.raises(TypeError, match=r"[Ss]parse data was passed"):
        KernelKMeans(2, sigma=1.0).fit(scipy.sparse.csr_matrix(X))
    model = KernelKMeans(2, kernel="precomputed", random_state=0).fit(np.eye(4) + 1)
    with pytest.raises(ValueError, match="X has 3 features, but KernelKMeans is expecting 4"):
        model.predict(np.ones((2, 3)))


# ---- what a fit keeps ----------------------------------------------------------------------------------------------


def test_a_fit_stopped_early_keeps_the_labels_that_define_its_means():
    X = np.random.default_rng(1).uniform(size=(400, 2))
    model = KernelKMeans(8, sigma=0.1, random_state=0, max_iter=2).fit(X)
    assert (model.center_labels_ != model.labels_).any()
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert model.objective_ < model.history_["objective"][-1]
    whole = KernelKMeans(8, sigma=0.1, random_state=0).fit(X)
    np.testing.assert_array_equal(whole.center_labels_, whole.labels_)
    assert whole.n_iter_ > 2
    loose = KernelKMeans(8, sigma=0.1, random_state=0, tol=0.01).fit(X)
    assert loose.n_iter_ < whole.n_iter_
    drop = -np.diff(loose.history_["objective"])
    assert drop[-1] <= 0.01 * loose.history_["objective"][-2]
    assert (drop[:-1] > 0.01 * loose.history_["objective"][1:-1]).all()


def test_absent_rows_are_labelled_as_predict_would(X):
    weights = np.random.default_rng(0).integers(0, 3, size=len(X)).astype(float)
    model = KernelKMeans(3, sigma=1.0, random_state=0).fit(X, sample_weight=weights)
    alone = KernelKMeans(3, sigma=1.0, random_state=0).fit(X[weights > 0], sample_weight=weights[weights > 0])
    np.testing.assert_array_equal(model.labels_, alone.predict(X))
    K = Gaussian(1.0).tile(X, X)
    start = np.random.default_rng(1).integers(3, size=len(X))
    model = KernelKMeans(3, kernel="precomputed", init=start).fit(K, sample_weight=weights)
    points = KernelKMeans(3, sigma=1.0, init=start).fit(X, sample_weight=weights)
    np.testing.assert_array_equal(model.labels_, points.labels_)
    np.testing.assert_array_equal(model.predict(K), model.labels_)


def test_the_history_and_the_counts(X, capsys):
    model = KernelKMeans(3, sigma=1.0, random_state=0, verbose=1).fit(X)
    assert {"iteration", "objective", "changed", "seconds", "rechecks"} == model.history_.keys()
    assert model.history_["changed"][-1] == 0
    assert len(capsys.readouterr().out.splitlines()) == model.n_iter_
    assert model.n_kernel_values_ >= len(X) ** 2 / 2
    np.testing.assert_allclose(model.cluster_weights_, np.bincount(model.labels_))
    cost = KernelKMeans(3, sigma=1.0).estimate_cost(X)
    assert cost.pairs == len(X) ** 2 / 2
    assert cost.memory > 8 * 3 * len(X)
    assert "pairs in an iteration" in str(cost)


def test_the_cost_grows_with_rows_not_their_square():
    few, many = (KernelKMeans(3, sigma=1.0).estimate_cost(np.zeros((n, 2))).memory for n in (10**4, 10**5))
    assert many < 12 * few


def test_state_with_every_kernel(X):
    K = Gaussian(1.0).tile(X, X)
    for kernel, data in (("rbf", X), ("precomputed", K), ("heaviside", X)):
        model = KernelKMeans(3, kernel=kernel, sigma=1.0 if kernel == "rbf" else None, eps=1.0, random_state=0).fit(
            data
        )
        again = KernelKMeans.from_state(*model.to_state())
        np.testing.assert_array_equal(again.predict(data), model.labels_)
    with pytest.raises(ValueError, match=r"parameters\.kernel is .* which a model file cannot hold"):
        KernelKMeans(3, kernel=kernels.Gaussian(1.0), random_state=0).fit(X).to_state()
    assert clone(KernelKMeans(3, kernel=kernels.Gaussian(1.0))).kernel == kernels.Gaussian(1.0)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("factor", [2.0**-1020, 2.0**-600, 2.0**600, 2.0**1015])
@pytest.mark.parametrize("what", ["weights", "matrix"])
@pytest.mark.parametrize("definite", [True, False])
def test_a_common_factor_does_not_matter(factor, what, definite, tmp_path):
    """Of the weights, or of a precomputed matrix: objectives follow it, labels do not, and the model can be kept."""
    generator = np.random.default_rng(4)
    X = generator.normal(size=(30, 2)) + 3 * generator.normal(size=(3, 2))[np.arange(30) % 3]
    K = np.exp(-np.square(X[:, None] - X).sum(axis=2) / 2)
    K = np.round(K * 2.0**20) / 2.0**20  # digits that the smallest factor leaves whole
    K = K if definite else K - np.eye(30)
    w = generator.integers(1, 5, 30).astype(float)

    def fitted(scale):
        model = KernelKMeans(3, kernel="precomputed", random_state=0, n_init=3)
        matrix = K * scale if what == "matrix" else K
        return model.fit(matrix, sample_weight=w * scale if what == "weights" else w), matrix

    (one, _), (other, matrix) = fitted(1.0), fitted(factor)
    assert (one.labels_ == other.labels_).all()
    assert (other.predict(matrix) == other.labels_).all()
    assert one.n_iter_ == other.n_iter_
    with np.errstate(over="ignore", under="ignore"):
        assert other.objective_ == pytest.approx(one.objective_ * factor, rel=1e-12)
        assert other.trace_objective_ == pytest.approx(one.trace_objective_ * factor, rel=1e-12)
    knoll.save(other, tmp_path / "far.knoll")
    assert (knoll.load(tmp_path / "far.knoll").predict(matrix) == other.labels_).all()


def test_a_kernel_matrix_of_zeros_has_one_cluster():
    model = KernelKMeans(1, kernel="linear", init="spectral").fit(np.zeros((3, 2)))
    np.testing.assert_array_equal(model.labels_, [0, 0, 0])
    assert model.objective_ == 0


@pytest.mark.parametrize("kernel", ["linear", "poly", "precomputed"])
@pytest.mark.parametrize("empty", [False, True])
def test_rows_whose_kernel_leaves_float64_are_refused_by_predict(kernel, empty):
    """Sums of infinities gave any label, that of an empty cluster too, or a ZeroDivisionError."""
    X = np.array([[1.0], [2.0], [5.0], [6.0]]) ** (not empty)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = KernelKMeans(2 + empty, kernel=kernel, random_state=0).fit(X @ X.T if kernel == "precomputed" else X)
    warned = pytest.raises(
        BadData, match=r"κ\(x, y\) reaches .* at row 1: its values leave float64\. Leave such rows out"
    )
    row = [1.0] * model.n_features_in_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with warned:
            model.predict([row, [1e308] * len(row)])
        assert model.predict([[1e99] * len(row)])[0] in set(model.labels_)


def test_only_kernel_values_that_are_needed_must_be_numbers():
    """κ(x, x) of a row may leave float64 where κ(x, y) does not."""
    model = KernelKMeans(2, kernel="linear", random_state=0).fit([[1.0], [2.0], [5.0], [6.0]])
    assert model.predict([[1e200]])[0] == model.labels_[-1]


def test_a_row_of_weight_zero_whose_kernel_leaves_float64_is_named():
    X = np.array([[1.0], [1e308], [2.0], [5.0], [6.0]])
    with pytest.raises(BadData, match=r"κ\(x, y\) reaches inf at row 1: "):
        KernelKMeans(2, kernel="linear", random_state=0).fit(X, sample_weight=[1, 0, 1, 1, 1])


def test_a_width_near_the_largest_number_leaves_no_pair_of_rows_out():
    """The distance beyond which the kernel vanishes is above float64: a smaller one would cut values that count."""
    X = np.array([[-1.6, 1.6], [1.6, -1.6], [0.0, 0.8], [0.8, 0.0], [-0.8, -0.8], [1.6, 1.6]])
    one, two = (
        KernelKMeans(2, sigma=float(np.ldexp(0.8, p)), init=[0, 1, 0, 1, 0, 1]).fit(np.ldexp(X, p)) for p in (0, 1023)
    )
    np.testing.assert_array_equal(one.labels_, two.labels_)
    assert one.objective_ == two.objective_
    assert Gaussian(float(np.ldexp(0.8, 1023))).cutoff(6) == 0
