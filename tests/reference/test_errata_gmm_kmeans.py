"""docs/theory/errata.md, items 15 to 21: mixtures, k-means, and the two scores."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score, normalized_mutual_info_score

from knoll.exceptions import BadData
from knoll.reference import em_gmm, gaussian_mle, kmeans, run

quick = settings(max_examples=40, deadline=None)


def column(*values):
    return np.array(values, dtype=float)[:, None]


def blobs(seed, n=40, d=2):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) + 3 * rng.integers(0, 2, size=(n, 1))


def start(X, k):
    return np.full(k, 1 / k), X[:k].copy(), np.array([np.eye(X.shape[1])] * k)


@quick
@given(st.integers(0, 10**6))
def test_15_sigma_about_the_old_mean_is_larger_by_the_square_of_the_shift(seed):
    X = blobs(seed)
    pi, mu, Sigma = start(X, 2)
    after = next(s for s in em_gmm(X, pi, mu, Sigma) if s.step == "M step")
    for c in range(2):
        lam = after.lam[:, c]
        about = [(lam * (X - m).T) @ (X - m) / lam.sum() for m in (mu[c], after.mu[c])]
        shift = after.mu[c] - mu[c]
        np.testing.assert_allclose(after.Sigma[c], about[1], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(about[0], about[1] + np.outer(shift, shift), rtol=1e-9, atol=1e-9)
        assert np.abs(about[0] - after.Sigma[c]).max() > 1e-6  # the printed warning matters


def first_responsibilities(X, pi, mu, eps):
    return next(em_gmm(X, pi, mu, [np.eye(X.shape[1]) * eps] * len(pi))).lam


def test_16_a_tie_keeps_the_mixing_coefficients_in_the_limit():
    for eps in (1, 1e-3, 1e-6):
        lam = first_responsibilities(column(0, 5), [0.25, 0.75], column(-1, 1), eps)
        np.testing.assert_allclose(lam[0], [0.25, 0.75], rtol=1e-6)


def test_16_an_emptied_component_dies_where_kmeans_keeps_its_mean():
    X, mu = column(0, 1), column(0.5, 100)
    state = run(em_gmm(X, [0.5, 0.5], mu, [[[0.01]], [[0.01]]]))
    assert state.pi.tolist() == [1, 0]
    assert state.mu[1] == 100
    assert run(kmeans(X, mu)).mu.tolist() == [[0.5], [100]]


@pytest.mark.parametrize("far", [37.0, 38.0, 39.3, 40.0])
def test_16_a_component_of_lost_digits_is_dead(far):
    # from 37.2 on its largest responsibility is below 2^-969, at 39.3 a subnormal number: a mean made of it is noise
    X = column(-1, 0.3, 0.7, -0.4, 0.2, -0.3)
    first, second = list(em_gmm(X, [0.5, 0.5], column(0, far), [[[1.0]], [[1.0]]], max_iter=1))[:2]
    assert (first.lam[:, 1].max() < 2.0**-969) == (far > 37.5)
    if far > 37.5:
        assert second.pi.tolist() == [1, 0]
        assert (second.mu[1], second.Sigma[1]) == (far, 1)
    else:
        weights = np.exp((far - 0) * (X[:, 0] - 0.7))  # λ_i2 ∝ exp(far·x_i), as the first is near one
        np.testing.assert_allclose(second.mu[1], weights @ X / weights.sum(), rtol=1e-9)


@quick
@given(st.integers(0, 10**6), st.floats(1e-3, 10), st.integers(2, 4))
def test_16_how_close_em_is_to_kmeans(seed, eps, k):
    rng = np.random.default_rng(seed)
    X, mu = rng.normal(size=(20, 2)), rng.normal(size=(k, 2))
    pi = rng.dirichlet(np.ones(k))
    lam = first_responsibilities(X, pi, mu, eps)
    d2 = np.sort(((X[:, None] - mu) ** 2).sum(axis=2), axis=1)
    gap = (d2[:, 1] - d2[:, 0]).min()
    bound = (k - 1) * pi.max() / pi.min() * math.exp(-gap / (2 * eps))
    closest = next(kmeans(X, mu)).labels
    assert (1 - lam[np.arange(20), closest]).max() <= bound * (1 + 1e-9) + 1e-12


def test_16_em_is_kmeans_at_a_small_enough_eps():
    X = blobs(3)
    pi, mu, _ = start(X, 2)
    d2 = np.sort(((X[:, None] - mu) ** 2).sum(axis=2), axis=1)
    eps = (d2[:, 1] - d2[:, 0]).min() / (2 * math.log(1e13))  # the bound is then 1e-13
    lam = first_responsibilities(X, pi, mu, eps)
    hard = next(kmeans(X, mu)).labels
    np.testing.assert_array_equal(lam.round(12), np.eye(2)[hard])


def test_17_equal_isotropic_covariances_not_just_diagonal_ones():
    X, mu = np.array([[1.0, 0.0], [9, 9], [-9, 9]]), np.array([[0.0, 0.0], [1.5, 0.0]])
    diagonal = [np.diag([9.0, 1.0]), np.diag([0.01, 1.0])]
    state = next(em_gmm(X, [0.5, 0.5], mu, diagonal))
    assert state.labels[0] == 0
    assert next(kmeans(X, mu)).labels[0] == 1  # the closest mean


def test_17_a_mixture_does_not_go_by_mahalanobis_alone():
    x, mu, variance = 1.5, np.array([0.0, 4.0]), np.array([1.0, 9.0])
    mahalanobis2 = (x - mu) ** 2 / variance
    assert mahalanobis2.argmin() == 1
    assert (mahalanobis2 + np.log(variance)).argmin() == 0
    state = next(em_gmm(column(x, 0, 4), [0.5, 0.5], mu[:, None], variance[:, None, None]))
    assert state.labels[0] == 0


def test_18_the_likelihood_is_unbounded():
    X = column(0, 1, 2, 7)
    heights = []
    for variance in (1e-1, 1e-3, 1e-6, 1e-9):
        s = next(em_gmm(X, [0.5, 0.5], column(7, 1), [[[variance]], [[1.0]]]))
        heights.append(s.log_likelihood)
    assert (np.diff(heights) > 1).all()


def test_18_a_collapse_is_named():
    X = column(0, 1, 2, 7)
    message = (
        "em_gmm: the covariance of component 0 became singular in iteration 1 (it has collapsed onto too few "
        "points). Start elsewhere, take fewer components, or give floor > 0."
    )
    with pytest.raises(BadData) as error:
        run(em_gmm(X, [0.5, 0.5], column(7, 1), [[[1e-6]], [[1.0]]]))
    assert str(error.value) == message
    with_floor = run(em_gmm(X, [0.5, 0.5], column(7, 1), [[[1e-6]], [[1.0]]], floor=1e-6))
    np.testing.assert_allclose(with_floor.Sigma[0], 1e-6)
    assert math.isfinite(with_floor.log_likelihood)


def test_18_a_floor_too_small_for_the_scale_is_named():
    X = np.array([[0.0, 0.0], [1e6, 1e6], [2e6, 2e6], [5e6, 5e6]])

    def fit(floor):
        return run(em_gmm(X, [1.0], [[0.0, 0.0]], [np.eye(2)], floor=floor))

    with pytest.raises(BadData) as error:
        fit(1e-6)
    assert str(error.value) == (
        "em_gmm: the covariance of component 0 became singular in iteration 1 (it has collapsed onto too few "
        "points). Start elsewhere, take fewer components, or give floor > 3.5, got floor=1e-06: float64 needs "
        "more than 1e-12 of the variance."
    )
    assert math.isfinite(fit(7.0).log_likelihood)


def test_18_singular_is_a_pivot_below_a_trillionth_of_its_variance():
    u, v = column(1, 1, -1, -1), column(1, -1, 1, -1)  # orthogonal, of variance 1
    for pivot, finite in ((0.5e-12, False), (2e-12, True)):
        X = np.hstack([u, math.sqrt(1 - pivot) * u + math.sqrt(pivot) * v])
        assert math.isfinite(run(gaussian_mle(X)).log_likelihood) == finite


def log_likelihood(X, mu, Sigma):
    return next(em_gmm(X, [1.0], [mu], [Sigma])).log_likelihood


def test_18_adding_to_sigma_lowers_the_likelihood_and_lifting_does_not():
    X = blobs(0) * [1, 1e-3]
    mle, floor = run(gaussian_mle(X)), 1e-2
    added = mle.Sigma + floor * np.eye(2)
    values, vectors = np.linalg.eigh(mle.Sigma)
    lifted = (vectors * np.maximum(values, floor)) @ vectors.T
    assert log_likelihood(X, mle.mu, added) < log_likelihood(X, mle.mu, mle.Sigma)  # an ascent broken
    best = run(em_gmm(X, [1.0], [mle.mu], [np.eye(2)], floor=floor))
    np.testing.assert_allclose(best.Sigma[0], lifted, rtol=1e-12, atol=1e-15)
    # lifting is the maximum under Σ ⪰ floor·I: no admissible neighbour, the added one included, is higher
    rng = np.random.default_rng(1)
    for scale in np.geomspace(1e-6, 1, 30):
        B = rng.normal(size=(2, 2))
        assert log_likelihood(X, mle.mu, lifted + scale * B @ B.T) <= best.log_likelihood
    assert log_likelihood(X, mle.mu, added) < best.log_likelihood


@quick
@given(st.integers(0, 10**6), st.floats(1e-3, 1.0))
def test_18_lifting_keeps_the_ascent(seed, floor):
    X = blobs(seed, n=12)
    pi, mu, Sigma = start(X, 3)
    heights = [s.log_likelihood for s in em_gmm(X, pi, mu, Sigma, floor=floor, max_iter=50)]
    assert (np.diff(heights) >= -1e-9).all()


def objective(X, labels):
    return sum(((X[labels == c] - X[labels == c].mean(axis=0)) ** 2).sum() for c in np.unique(labels))


def test_19_a_fixed_point_need_not_be_a_local_minimum():
    X = column(0, 2, 3.1)
    state = run(kmeans(X, column(1, 3.1)))
    assert state.converged
    assert state.labels.tolist() == [0, 0, 1]
    assert state.objective == 2.0
    np.testing.assert_allclose(objective(X, np.array([0, 1, 1])), 0.605)  # one point moved


def test_20_without_exactly_once_nothing_assigned_is_best():
    X, k = column(0, 1, 5, 6), 2
    best = min(objective(X, np.array(p)) for p in itertools.product((0, 1), repeat=4) if len(set(p)) == 2)
    assert best == 1.0
    r, mu = np.zeros((4, k)), np.zeros((k, 1))  # admitted by eq. 3.4 (and 4.1) as printed
    assert (r * ((X[:, None] - mu) ** 2).sum(axis=2)).sum() == 0.0


def test_20_orthonormal_columns_may_leave_a_node_out():
    # Three nodes that keep to themselves and a hub that belongs nowhere, k = 3 (eq. 4.6 and 4.18)
    A = np.array([[20, 0, 0, 1], [0, 20, 0, 1], [0, 0, 20, 1], [1, 1, 1, 0]], dtype=float)
    d, k = A.sum(axis=1), 3

    def trace(assignment):
        U = np.array([[a == c for c in range(k)] for a in assignment], dtype=float)
        Z = np.sqrt(d)[:, None] * U / np.sqrt((U * d[:, None]).sum(axis=0))
        np.testing.assert_allclose(Z.T @ Z, np.eye(k), atol=1e-15)  # all that the problem requires
        return np.trace(Z.T @ (A / np.sqrt(np.outer(d, d))) @ Z)

    complete = max(trace(p) for p in itertools.product(range(k), repeat=4) if len(set(p)) == k)
    assert trace((0, 1, 2, -1)) > complete + 0.01


def test_20_an_empty_cluster_has_no_mean():
    X, mu = column(0, 1, 2), column(1, 50)
    labels = run(kmeans(X, mu)).labels
    assert labels.tolist() == [0, 0, 0]  # eq. 3.3 would divide by zero for the second
    assert run(kmeans(X, mu)).mu[1] == 50


def test_21_the_papers_scores_are_arithmetic_ami_and_ari():
    truth = np.repeat([0, 1, 2], 500)
    found = truth.copy()
    found[:2] = 1  # two points of one class in the same other
    assert round(adjusted_mutual_info_score(truth, found), 3) == 0.992
    assert round(adjusted_rand_score(truth, found), 3) == 0.996
    # the averages of entropies differ as soon as the partitions do not have the same sizes
    a, b = [0, 0, 0, 1, 1, 1, 2, 2, 2], [0, 0, 0, 0, 0, 1, 1, 1, 1]
    scores = {w: adjusted_mutual_info_score(a, b, average_method=w) for w in ("arithmetic", "max", "min")}
    assert scores["max"] < scores["arithmetic"] < scores["min"]
    assert scores["arithmetic"] == adjusted_mutual_info_score(a, b)


@quick
@given(st.lists(st.integers(0, 3), min_size=4, max_size=20), st.integers(0, 10**6))
def test_21_the_hubert_arabie_index_counts_pairs_and_the_vinh_score_entropies(a, seed):
    b = np.random.default_rng(seed).integers(0, 3, size=len(a))
    assume(len(set(a)) > 1 and len(set(b)) > 1)
    pairs = list(itertools.combinations(range(len(a)), 2))
    same_a = np.array([a[i] == a[j] for i, j in pairs])
    same_b = np.array([b[i] == b[j] for i, j in pairs])
    expected = same_a.sum() * same_b.sum() / len(pairs)
    mean = (same_a.sum() + same_b.sum()) / 2
    assume(mean != expected)
    ari = ((same_a & same_b).sum() - expected) / (mean - expected)  # pairs only, no entropy anywhere
    np.testing.assert_allclose(adjusted_rand_score(a, b), ari, atol=1e-12)
    assert normalized_mutual_info_score(a, b) >= adjusted_mutual_info_score(a, b) - 1e-12
