"""The step of EM: equal to the paper's box, exact over blocks and threads, and regular where a mixture degenerates."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture as Peer

from knoll import _core
from knoll._common.blocks import Block
from knoll._common.passes import LocalPasses, OneBlock
from knoll.exceptions import BadData
from knoll.gaussian import steps as one_gaussian
from knoll.gaussian.covariance import Diagonal, Fixed, Full, Spherical, Tied
from knoll.mixture import em
from knoll.mixture.em import Centering, MixtureState, Noise
from knoll.reference import em_gmm
from tests.unit.covariances import made

SHAPES = {"full": Full, "tied": Tied, "diag": Diagonal, "spherical": Spherical}


def centering_of(X, w=None):
    block = Block(X, w)
    state = one_gaussian.start(block)
    for _ in range(2):
        state, _ = one_gaussian.finish(one_gaussian.partial(block, state, 1), state)
    return Centering.of(state)


def clumps(n, d, k, seed, deviation=3.0):
    """Points around k corners, in random order."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) + deviation * rng.normal(size=(k, d))[rng.integers(0, k, n)]


def start_of(X, shape, k, seed=0, w=None, noise=None):
    """A state at k of the points, with the pooled covariance."""
    rng = np.random.default_rng(seed)
    centering = centering_of(X, w)
    means = np.asarray(X[rng.choice(len(X), k, replace=False)], dtype=np.float64)
    pooled = centering.covariance / centering.scale**2
    covariances = {
        Full: np.repeat(pooled[None], k, axis=0),
        Tied: pooled,
        Diagonal: np.repeat(pooled.diagonal()[None], k, axis=0),
        Spherical: np.full(k, pooled.diagonal().mean()),
    }[shape]
    weight = 1.0 if noise is None else 1.0 - noise.weight
    return em.from_parameters(np.full(k, weight / k), made(shape, means, covariances), centering, noise)


def run(X, state, iterations, w=None, threads=2, **options):
    reports = []
    for _ in range(iterations):
        state, report = em.step(OneBlock(Block(X, w), threads), state, **options)
        reports.append(report)
    return state, reports


def same(a, b):
    """The same bits."""
    assert (a.weights == b.weights).all()
    assert (a.means == b.means).all()
    assert (a.covariances_ == b.covariances_).all()


# ---- the paper's box -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("d", "k"), [(1, 2), (2, 3), (3, 4), (4, 2), (7, 3)])
def test_every_step_is_the_reference(d, k, seed):
    X = clumps(60 * d, d, k, seed)
    state = start_of(X, Full, k, seed)
    box = em_gmm(X, state.weights, state.means, state.covariances_, max_iter=8, tol=0.0)
    n = len(X)
    resp, labels, log_prob = np.empty((n, k)), np.empty(n, dtype=np.int64), np.empty(n)
    for step in box:
        if step.step == "M step":
            np.testing.assert_allclose(state.weights, step.pi, rtol=1e-10, atol=1e-12)
            np.testing.assert_allclose(state.means, step.mu, rtol=1e-10, atol=1e-10)
            np.testing.assert_allclose(state.covariances_, step.Sigma, rtol=1e-10, atol=1e-10)
            continue
        em.expect(X, state, 2, resp=resp, labels=labels, log_prob=log_prob)
        np.testing.assert_allclose(resp, step.lam, atol=1e-10)
        assert (labels == step.labels).all()
        assert log_prob.sum() == pytest.approx(step.log_likelihood, rel=1e-11)
        joint = em.log_joint(X, state, 1)
        np.testing.assert_allclose(np.logaddexp.reduce(joint, axis=1), log_prob, rtol=1e-12, atol=1e-12)
        before = state
        state, report = em.step(OneBlock(Block(X, None), 2), state)
        assert report.objective * n == pytest.approx(step.log_likelihood, rel=1e-11)
    assert report.changed == max(
        state.covariance.change_from(before.covariance), np.abs(state.weights - before.weights).max()
    )


def test_far_and_elongated_components_keep_their_digits():
    """Shifted by 1e8, stretched by 1e4 and turned: the same fit as without the shift."""
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    X = np.round((clumps(400, 3, 2, 1) * [1.0, 100.0, 1e4]) @ turn * 2.0**10) / 2.0**10  # survives the shift exactly
    shift = 2.0**26
    here, _ = run(X, start_of(X, Full, 2), 6)
    there, _ = run(X + shift, start_of(X + shift, Full, 2), 6)
    np.testing.assert_allclose(there.means - shift, here.means, rtol=1e-7)
    np.testing.assert_allclose(there.covariances_, here.covariances_, rtol=1e-9)
    np.testing.assert_allclose(there.weights, here.weights, rtol=1e-10)


# ---- a peer --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("iterations", [1, 12])
def test_every_shape_is_scikit_learns(name, iterations):
    k = 3
    X = clumps(500, 4, k, 7) @ np.random.default_rng(1).normal(size=(4, 4))
    start = start_of(X, SHAPES[name], k, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        peer = Peer(
            k,
            covariance_type=name,
            weights_init=start.weights,
            means_init=start.means,
            precisions_init=start.precisions_,
            max_iter=iterations,
            tol=0.0,
        ).fit(X)
    state, reports = run(X, start, iterations, reg_covar=1e-6)
    for got, expected in (
        (state.weights, peer.weights_),
        (state.means, peer.means_),
        (state.covariances_, peer.covariances_),
        (state.precisions_, peer.precisions_),
        (state.precisions_cholesky_, peer.precisions_cholesky_),
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)
    assert reports[-1].objective == pytest.approx(peer.lower_bound_, rel=1e-11)
    resp = np.empty((len(X), k))
    em.expect(X, state, 1, resp=resp)
    np.testing.assert_allclose(resp, peer.predict_proba(X), atol=1e-9)


# ---- bits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*SHAPES, "fixed"])
@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_the_same_bits_for_any_threads_layout_and_blocks(name, d):
    n, k = 2 * _core.GRAIN + 300, 3
    X = clumps(n, d, k, 5)
    w = np.random.default_rng(1).integers(0, 3, n).astype(np.float64)
    if name == "fixed":
        state = em.from_parameters(np.full(k, 1 / k), Fixed(X[:k].copy(), 2.0), centering_of(X, w))
    else:
        state = start_of(X, SHAPES[name], k, w=w)
    one, _ = run(X, state, 3, w, threads=1)
    for threads in (2, 3, 8):
        same(run(X, state, 3, w, threads=threads)[0], one)
    wide = np.zeros((n, 2 * d))
    wide[:, ::2] = X
    for layout in (np.asfortranarray(X), wide[:, ::2]):
        same(run(layout, state, 3, w)[0], one)
    for sizes in ([1000, 7000], [1, 4096, 4097], [_core.GRAIN]):
        blocks = [Block(x, v) for x, v in zip(np.split(X, np.cumsum(sizes)), np.split(w, np.cumsum(sizes)))]
        other = state
        for _ in range(3):
            other, _ = em.step(LocalPasses(lambda b=blocks: iter(b), X.dtype, 2), other)
        same(other, one)


@pytest.mark.parametrize("name", SHAPES)
def test_a_power_of_two_changes_no_bit(name):
    X = clumps(300, 3, 3, 6)
    here, _ = run(X, start_of(X, SHAPES[name], 3), 4)
    for power in (-400, 300):
        factor = 2.0**power
        there, _ = run(X * factor, start_of(X * factor, SHAPES[name], 3), 4)
        assert (there.weights == here.weights).all()
        assert (there.means == here.means * factor).all()
        assert (there.covariances_ == here.covariances_ * factor * factor).all()


def test_float32_is_read_as_float64():
    X = clumps(300, 3, 2, 8).astype(np.float32)
    state = start_of(X.astype(np.float64), Full, 2)
    same(run(X, state, 3)[0], run(X.astype(np.float64), state, 3)[0])


# ---- laws ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHAPES)
def test_a_weight_is_a_repetition(name):
    X = clumps(200, 3, 3, 9)
    w = np.random.default_rng(2).integers(0, 4, len(X)).astype(np.float64)
    repeated = np.repeat(X, w.astype(int), axis=0)
    state = start_of(X, SHAPES[name], 3, w=w)
    a, first = run(X, state, 4, w)
    b, second = run(repeated, state, 4)
    np.testing.assert_allclose(a.weights, b.weights, rtol=1e-11)
    np.testing.assert_allclose(a.means, b.means, rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(a.covariances_, b.covariances_, rtol=1e-10, atol=1e-11)
    assert first[-1].objective == pytest.approx(second[-1].objective, rel=1e-12)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("noisy", [False, True])
def test_the_likelihood_never_falls(name, noisy):
    X = clumps(400, 2, 3, 10)
    noise = Noise(0.1, -float(np.log(np.ptp(X, axis=0)).sum())) if noisy else None
    _, reports = run(X, start_of(X, SHAPES[name], 3, noise=noise), 60)
    objective = np.array([report.objective for report in reports])
    assert (np.diff(objective) >= -1e-13 * np.abs(objective[1:])).all()
    assert objective[-1] > objective[0]


def test_sums_of_labels_and_responsibilities_are_those_of_numpy():
    X, k = clumps(500, 3, 3, 11), 3
    labels = np.random.default_rng(3).integers(0, k, len(X))
    resp = np.random.default_rng(4).dirichlet(np.ones(k), len(X))
    centering, block = centering_of(X), Block(X, None)
    state = em.blank(Full(), k, centering)
    hard, report = em.finish(em.partial_labels(block, labels, state, 2), state)
    assert np.isnan(report.objective)
    for c in range(k):
        mine = X[labels == c]
        np.testing.assert_allclose(hard.means[c], mine.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(hard.covariances_[c], np.cov(mine.T, bias=True), rtol=1e-11, atol=1e-12)
        assert hard.weights[c] == pytest.approx(len(mine) / len(X))
    soft, _ = em.finish(em.partial_resp(block, resp, state, 2), state)
    for c in range(k):
        np.testing.assert_allclose(soft.means[c], np.average(X, axis=0, weights=resp[:, c]), rtol=1e-11)
        expected = np.cov(X.T, bias=True, aweights=resp[:, c])
        np.testing.assert_allclose(soft.covariances_[c], expected, rtol=1e-11, atol=1e-12)
    one_hot = np.eye(k)[labels]
    same(em.finish(em.partial_resp(block, one_hot, state, 2), state)[0], hard)


def test_a_blank_tied_mixture_is_summed_directly():
    X, k = clumps(300, 3, 3, 12), 3
    labels = np.random.default_rng(3).integers(-1, k, len(X))
    state = em.blank(Tied(), k, centering_of(X), Noise(0.2, -5.0))
    got, _ = em.finish(em.partial_labels(Block(X, None), labels, state, 1), state)
    inside = labels >= 0
    away = X[inside] - np.stack([X[labels == c].mean(axis=0) for c in range(k)])[labels[inside]]
    np.testing.assert_allclose(got.covariances_, away.T @ away / inside.sum(), rtol=1e-11, atol=1e-12)
    assert got.noise == Noise(0.2, -5.0)
    assert got.weights.sum() == pytest.approx(0.8)


@pytest.mark.parametrize("d", [5, 16, 40])
def test_moments_about_the_origin_are_those_about_the_means(d):
    """Components near the origin are summed about it, others about their own means: both give the same step."""
    X = clumps(600, d, 3, 15, deviation=0.5)
    state, _ = run(X, start_of(X, Full, 3), 1)
    tight = np.repeat(np.eye(d)[None] * 1e-3, 3, axis=0)
    narrow = replace(state, covariance=Full.from_covariances(state.covariance.means, tight))
    for start, origin in (state, True), (narrow, False):
        block, means = Block(X, None), start.covariance.means
        assert bool((start.sum_centers == 0).all()) == origin
        here, _ = em.finish(em.partial(block, start, 2), start)
        own = replace(start, centers=means)
        there, _ = em.finish(em.partial(block, own, 2), own)
        np.testing.assert_allclose(here.means, there.means, rtol=0, atol=1e-12)
        np.testing.assert_allclose(here.covariances_, there.covariances_, rtol=0, atol=1e-12)


def test_a_leap_of_the_mean_is_summed_again_about_its_end():
    """A component that leaps far onto a small clump: one pass about the old mean would leave Σ without digits."""
    rng = np.random.default_rng(5)
    clump = 1000.0 + 1e-3 * rng.normal(size=(200, 2))
    X = np.concatenate([rng.normal(size=(200, 2)), clump])
    labels = np.repeat([0, 1], 200)
    state = em.blank(Full(), 2, centering_of(X))
    sums = em.partial_labels(Block(X, None), labels, state, 1)
    better = em.recentred(sums, state)
    assert better is not None
    again = em.partial_labels(Block(X, None), labels, better, 1)
    assert em.recentred(again, better) is None
    got, _ = em.finish(again, better)
    exact = clump - clump.mean(axis=0)
    np.testing.assert_allclose(got.covariances_[1], exact.T @ exact / 200, rtol=1e-9)


# ---- where mixtures fall apart ---------------------------------------------------------------------------------------


def healthy(state: MixtureState) -> bool:
    arrays = (state.weights, state.means, state.covariances_, state.precisions_)
    return all(np.isfinite(a).all() for a in arrays)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize(
    "X",
    [
        np.repeat([[0.0, 0.0], [1.0, 2.0], [5.0, 5.0]], 10, axis=0),  # duplicates
        np.column_stack([np.random.default_rng(0).normal(size=50), np.full(50, 7.0)]),  # a constant column
        np.random.default_rng(1).normal(size=(4, 2)),  # n ≈ k
        np.zeros((5, 2)),  # nothing but one point
    ],
    ids=["duplicates", "constant", "few", "one point"],
)
def test_collapse_is_floored_never_nan(name, X):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        state, reports = run(X, start_of(X, SHAPES[name], 3), 15)
    assert healthy(state)
    assert all(np.isfinite(report.objective) for report in reports)
    if name == "full":
        assert state.covariance.floored


def test_a_component_that_nobody_needs_dies_and_stays_where_it_was():
    X = clumps(100, 2, 1, 13)
    centering = centering_of(X)
    means = np.array([[0.0, 0.0], [1e6, 1e6]])
    start = em.from_parameters(
        np.array([0.5, 0.5]), Full.from_covariances(means, np.repeat(np.eye(2)[None], 2, axis=0)), centering
    )
    state, _ = run(X, start, 3)
    assert state.weights.tolist() == [1.0, 0.0]
    np.testing.assert_allclose(state.means[1], means[1], rtol=1e-12)
    np.testing.assert_allclose(state.covariances_[1], np.eye(2), rtol=1e-12)
    joint = em.log_joint(X, state, 1)
    assert (joint[:, 1] == -np.inf).all()
    box = list(em_gmm(X, [0.5, 0.5], means, np.repeat(np.eye(2)[None], 2, axis=0), max_iter=3, tol=0.0))
    np.testing.assert_allclose(state.means, [s for s in box if s.step == "M step"][-1].mu, rtol=1e-10)


def test_points_far_out_have_a_density_and_belong_to_someone():
    X = np.array([[0.0], [1.0], [1e4], [-1e8], [1e150]])
    centering = Centering.plain(1)
    state = em.from_parameters(
        np.array([0.5, 0.5]), Full.from_covariances(np.array([[0.0], [1.0]]), np.ones((2, 1, 1))), centering
    )
    resp, log_prob, labels = np.empty((5, 2)), np.empty(5), np.empty(5, dtype=np.int64)
    em.expect(X, state, 1, resp=resp, log_prob=log_prob, labels=labels)
    assert np.isfinite(log_prob).all()
    assert labels[:4].tolist() == [0, 1, 1, 0]
    assert resp[2].tolist() == [0.0, 1.0]
    np.testing.assert_allclose(resp.sum(axis=1), 1.0, rtol=1e-15)
    expected = np.log(0.5) - 0.5 * np.log(2 * np.pi) - 0.5 * (1e4 - 1.0) ** 2
    assert log_prob[2] == pytest.approx(expected, rel=1e-15)


# ---- noise ---------------------------------------------------------------------------------------------------------


def test_the_noise_is_one_more_component():
    """Against EM written out with the uniform component in NumPy."""
    X, k = clumps(300, 2, 2, 14), 2
    log_density = -float(np.log(np.ptp(X, axis=0)).sum())
    state = start_of(X, Full, k, noise=Noise(0.2, log_density))
    for _ in range(5):
        joint = np.column_stack([em.log_joint(X, state, 1), np.full(len(X), np.log(state.noise.weight) + log_density)])
        log_p = np.logaddexp.reduce(joint, axis=1)
        lam = np.exp(joint - log_p[:, None])
        resp, labels, got = np.empty((len(X), k + 1)), np.empty(len(X), dtype=np.int64), np.empty(len(X))
        em.expect(X, state, 1, resp=resp, labels=labels, log_prob=got)
        np.testing.assert_allclose(resp, lam, atol=1e-13)
        np.testing.assert_allclose(got, log_p, rtol=1e-13)
        assert (labels == np.where(lam.argmax(axis=1) == k, -1, lam.argmax(axis=1))).all()
        state, report = em.step(OneBlock(Block(X, None), 1), state)
        assert report.objective == pytest.approx(log_p.mean(), rel=1e-13)
        assert state.noise.weight == pytest.approx(lam[:, k].mean(), rel=1e-12)
        np.testing.assert_allclose(state.weights, lam[:, :k].mean(axis=0), rtol=1e-12)
        for c in range(k):
            np.testing.assert_allclose(state.means[c], np.average(X, axis=0, weights=lam[:, c]), rtol=1e-10)
            expected = np.cov(X.T, bias=True, aweights=lam[:, c])
            np.testing.assert_allclose(state.covariances_[c], expected, rtol=1e-10, atol=1e-12)


# ---- the road to k-means -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("eps", [1e-3, 1e-30, 1e-300])
def test_a_tiny_fixed_variance_is_k_means(eps):
    X = clumps(200, 2, 3, 15, deviation=8.0)
    means = X[[0, 1, 2]].copy()
    state = em.from_parameters(np.full(3, 1 / 3), Fixed(means, eps), centering_of(X))
    for _ in range(4):
        labels, resp = np.empty(len(X), dtype=np.int64), np.empty((len(X), 3))
        em.expect(X, state, 1, labels=labels, resp=resp)
        nearest = np.square(X[:, None] - state.means).sum(axis=2).argmin(axis=1)
        assert (labels == nearest).all()
        assert np.isfinite(resp).all()
        state, report = em.step(OneBlock(Block(X, None), 1), state)
        assert np.isfinite(report.objective)
        if eps < 1e-20:  # no tie: hard assignments, so the means are those of the clusters
            expected = np.stack([X[nearest == c].mean(axis=0) for c in range(3)])
            np.testing.assert_allclose(state.means, expected, rtol=1e-12)
    assert (state.covariances_ == eps).all()


def test_weights_may_be_fixed():
    X = clumps(100, 2, 2, 16)
    state = start_of(X, Full, 2)
    sums = em.partial(Block(X, None), state, 1)
    fixed, _ = em.finish(sums, state, fix_weights=True)
    free, _ = em.finish(sums, state)
    assert (fixed.weights == state.weights).all()
    assert (free.weights != state.weights).any()
    assert (fixed.means == free.means).all()


def test_wrong_arrays_are_refused_before_the_kernels():
    X = clumps(20, 2, 2, 17)
    state = start_of(X, Full, 2)
    with pytest.raises(ValueError, match="resp must be"):
        em.expect(X, state, 1, resp=np.empty((20, 5)))
    with pytest.raises(ValueError, match="labels must be below k"):
        em.partial_labels(Block(X, None), np.full(20, 2), state, 1)
    with pytest.raises(ValueError, match="weights must have one entry per row"):
        em.partial(Block(X, np.ones(3)), state, 1)
    with pytest.raises(ValueError, match="there must be a living component"):
        em.partial(Block(X, None), MixtureState(np.zeros(2), state.covariance, None, state.centering), 1)


def test_a_covariance_that_no_clipping_makes_regular_is_refused():
    with pytest.raises(BadData, match=r"ill-defined empirical covariance: .* Increase reg_covar, .* scale the columns"):
        Full.from_covariances(np.zeros((1, 2)), np.array([[[1.0, np.inf], [np.inf, 1.0]]]))
