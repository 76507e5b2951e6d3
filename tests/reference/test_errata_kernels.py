"""docs/theory/errata.md, items 22 to 29: kernels, the relaxation, the normalized cut, citations."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.manifold import spectral_embedding

from knoll import reference
from knoll.reference import _ascent, njw_spectral, njw_spectral_graph, run, weighted_kernel_kmeans
from knoll.reference._common import squared_distances

quick = settings(max_examples=40, deadline=None)
DOCS = Path(__file__).parents[2] / "docs" / "theory"


def column(*values):
    return np.array(values, dtype=float)[:, None]


def gaussian(X, sigma):
    return np.exp(-squared_distances(X, X) / (2 * sigma**2))


def heaviside(X, eps):
    return (np.sqrt(squared_distances(X, X)) <= eps).astype(float)


def partitions(n, k):
    """Every partition of n rows into k non-empty clusters, once."""
    for p in itertools.product(range(k), repeat=n):
        if list(dict.fromkeys(p)) == list(range(k)):
            yield p


def trace(K, w, p):
    """Tr(YᵀW^½KW^½Y) of a partition: Σ_c Σ_ij∈c w_i w_j K_ij / s_c   (eq. 4.3)."""
    labels = np.array(p)
    total = 0.0
    for c in np.unique(labels):
        wc = w * (labels == c)
        total += wc @ K @ wc / wc.sum()
    return total


def ncut(A, p):
    labels, d = np.array(p), A.sum(axis=1)
    return np.mean([A[np.ix_(labels == c, labels != c)].sum() / d[labels == c].sum() for c in np.unique(labels)])


def test_22_the_discrete_problems_differ():
    A = gaussian(column(0, 0, 2, 4), 1.0)
    d = A.sum(axis=1)
    by_trace = max(partitions(4, 2), key=lambda p: trace(A, 1 / d, p))
    by_cut = min(partitions(4, 2), key=lambda p: ncut(A, p))
    assert by_trace == (0, 0, 1, 1)
    assert by_cut == (0, 0, 0, 1)


@quick
@given(st.integers(0, 10**6), st.integers(2, 3))
def test_22_weights_D_and_kernel_DAD_agree_on_every_partition(seed, k):
    A = gaussian(np.random.default_rng(seed).normal(size=(6, 2)), 1.0)
    d = A.sum(axis=1)
    for p in partitions(6, k):
        np.testing.assert_allclose(ncut(A, p), 1 - trace(A / np.outer(d, d), d, p) / k, atol=1e-12)


@quick
@given(st.integers(0, 10**6), st.integers(1, 4), st.floats(0.3, 3))
def test_22_the_relaxed_problems_are_one(seed, k, sigma):
    X = np.random.default_rng(seed).normal(size=(15, 2))
    kernel, graph = run(njw_spectral(X, k, sigma)), run(njw_spectral_graph(X, k, sigma))
    np.testing.assert_allclose(kernel.w * graph.d, 1, rtol=1e-13)
    np.testing.assert_allclose(kernel.eigenvalues, graph.eigenvalues, atol=1e-12)
    M = np.sqrt(np.outer(kernel.w, kernel.w)) * kernel.K
    np.testing.assert_allclose(M, graph.A / np.sqrt(np.outer(graph.d, graph.d)), atol=1e-14)


@quick
@given(st.integers(0, 10**6), st.integers(2, 3))
def test_22_the_eigenvalues_bound_every_partition(seed, k):
    X = np.random.default_rng(seed).normal(size=(6, 2))
    state = run(njw_spectral_graph(X, k, 1.0))
    top = state.eigenvalues.sum()
    for p in partitions(6, k):
        assert trace(state.A, 1 / state.d, p) <= top + 1e-12
        assert ncut(state.A, p) >= 1 - top / k - 1e-12


def test_23_three_embeddings():
    X = np.random.default_rng(0).normal(size=(30, 2))
    plain, unit = run(njw_spectral(X, 3, 1.0)), run(njw_spectral(X, 3, 1.0, row_scaling="unit"))
    np.testing.assert_allclose(plain.Y.T @ plain.Y, np.eye(3), atol=1e-12)
    np.testing.assert_allclose((unit.Y**2).sum(axis=1), 1)
    np.testing.assert_allclose(unit.Y, plain.Y / np.linalg.norm(plain.Y, axis=1)[:, None])
    degree = run(njw_spectral_graph(X, 3, 1.0, row_scaling="degree", zero_diagonal=True))
    peer = spectral_embedding(gaussian(X, 1.0), n_components=3, drop_first=False, eigen_solver="arpack", random_state=0)
    np.testing.assert_allclose(np.abs(degree.Z), np.abs(peer), atol=1e-7)
    assert np.diagonal(degree.A).max() == 0


def test_23_the_embeddings_differ():
    X = np.random.default_rng(3).normal(size=(40, 2))
    found = {s: tuple(run(njw_spectral(X, 3, 0.7, row_scaling=s)).labels) for s in ("none", "unit", "degree")}
    assert len(set(found.values())) > 1


def test_24_heaviside_is_not_positive_semi_definite():
    np.testing.assert_allclose(np.linalg.eigvalsh(heaviside(column(0, 1, 2), 1.0))[0], 1 - np.sqrt(2))


def test_24_the_polynomial_kernel_needs_c_and_b():
    assert np.linalg.eigvalsh(column(0, 1) @ column(0, 1).T - 1)[0] < -0.1  # c < 0
    X = column(0, 1, 2, 3)
    assert np.linalg.eigvalsh((X @ X.T + 1) ** 0.5)[0] < -1e-3  # b not an integer
    for b in (1, 2, 3):
        assert np.linalg.eigvalsh((X @ X.T + 1.0) ** b)[0] > -1e-9


@quick
@given(st.integers(0, 10**6), st.floats(0, 10))
def test_24_the_shift_by_inverse_weights_adds_a_constant(seed, shift):
    rng = np.random.default_rng(seed)
    K, w = heaviside(rng.normal(size=(6, 2)), 1.0), rng.uniform(0.1, 3, size=6)
    for p in partitions(6, 2):
        np.testing.assert_allclose(trace(K + shift * np.diag(1 / w), w, p), trace(K, w, p) + 2 * shift)


def test_24_the_shift_by_the_identity_changes_the_order():
    K, w, shift = heaviside(column(0, 0, 1.5), 1.0), np.array([1.0, 2.0, 1.0]), 4.0
    best = {
        name: max(partitions(3, 2), key=lambda p: trace(M, w, p))
        for name, M in (("K", K), ("W", K + shift * np.diag(1 / w)), ("I", K + shift * np.eye(3)))
    }
    assert best == {"K": (0, 0, 1), "W": (0, 0, 1), "I": (0, 1, 0)}


def test_24_an_indefinite_kernel_goes_round_and_the_shift_stops_it():
    K, labels = heaviside(column(0, 1, 2), 1.0), [0, 1, 0]
    states = list(weighted_kernel_kmeans(K, labels, max_iter=50))
    assert not states[-1].converged
    assert (np.diff([s.objective for s in states]) > 1).any()
    assert states[-1].labels.tolist() == states[-5].labels.tolist() != states[-3].labels.tolist()
    lift = np.sqrt(2) - 1  # the smallest eigenvalue becomes 0
    states = list(weighted_kernel_kmeans(K + lift * np.eye(3), labels, max_iter=50))
    assert states[-1].converged
    assert (np.diff([s.objective for s in states]) <= 1e-12).all()


def rings(m=24, inner=1.0, outer=2.0):
    angle = 2 * np.pi * np.arange(m) / m
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return np.vstack([inner * circle, outer * circle]), np.repeat([0, 1], m)


def test_25_separable_in_F_is_not_enough_for_kmeans():
    X, ring = rings()
    norm = np.linalg.norm(X, axis=1)
    phi = np.column_stack([X, norm])
    K = X @ X.T + np.outer(norm, norm)
    np.testing.assert_allclose(K, phi @ phi.T, atol=1e-12)
    assert (phi[ring == 0, 2] < 1.5).all()  # the plane z = 1.5 separates them
    assert (phi[ring == 1, 2] > 1.5).all()
    by_ring = next(weighted_kernel_kmeans(K, ring)).objective
    halves = (X[:, 0] > 1e-9).astype(int)
    by_half = next(weighted_kernel_kmeans(K, halves)).objective
    assert by_half < 0.8 * by_ring
    np.testing.assert_array_equal(run(weighted_kernel_kmeans(K, ring)).labels, ring)  # fixed, but not the best


def test_26_sigma_changes_the_answer_and_must_be_given():
    X = column(0, 1, 2, 4, 5, 9)
    assert run(njw_spectral(X, 2, 1.0)).labels.tolist() == [0, 0, 0, 0, 0, 1]
    assert run(njw_spectral(X, 2, 10.0)).labels.tolist() == [0, 0, 0, 1, 1, 1]
    for box in (njw_spectral, njw_spectral_graph):
        with pytest.raises(TypeError, match="sigma"):
            box(X, 2)


def test_26_the_partition_step_takes_the_best_of_its_starts():
    X = np.random.default_rng(5).normal(size=(30, 2))
    each = [run(njw_spectral(X, 4, 0.5, starts=[s])) for s in ([0, 1, 2, 3], [4, 9, 14, 20], [7, 8, 28, 29])]
    assert len({round(s.objective, 9) for s in each}) > 1
    together = run(njw_spectral(X, 4, 0.5, starts=[[0, 1, 2, 3], [4, 9, 14, 20], [7, 8, 28, 29]]))
    assert together.objective == min(s.objective for s in each)


@pytest.mark.parametrize("box", ["mean_shift", "dbscan_climbing"])
def test_27_the_ascent_costs_n_squared_a_round(monkeypatch, box):
    X = np.random.default_rng(0).normal(size=(40, 2))
    evaluations = []

    def counting(A, B):
        evaluations.append(len(A) * len(B))
        return squared_distances(A, B)

    monkeypatch.setattr(_ascent, "squared_distances", counting)
    args = (X, 1.0) if box == "mean_shift" else (X, 1.0, 30)
    states = list(getattr(reference, box)(*args))
    moves = sum(s.climbing.sum() for s in states if s.step != "Connected components step")
    T = states[-1].iteration
    assert T > 1
    assert sum(evaluations) == 40 * 40 + 40 * moves <= 40 * 40 * (T + 1)


def slider(r, eps, p):
    """κ_p(r) = exp(−½ (r/ε)^2p)."""
    return np.exp(-0.5 * (r / eps) ** (2 * p))


def test_28_from_the_gaussian_to_heaviside():
    r, eps = np.linspace(0, 3, 301), 1.5
    np.testing.assert_allclose(slider(r, eps, 1), gaussian(np.append(0.0, r)[:, None], eps)[0, 1:])
    off = np.abs(r - eps) > 1e-9
    with np.errstate(over="ignore"):
        limit = slider(r, eps, 1e5)
    np.testing.assert_allclose(limit[off], (r[off] <= eps).astype(float), atol=1e-12)
    np.testing.assert_allclose(slider(eps, eps, 1e5), np.exp(-0.5))  # neither 0 nor 1 on the sphere


CITED = [
    "bengio",
    "bishop",
    "blei",
    "comaniciu",
    "dhillon",
    "ester",
    "golub",
    "hinton",
    "hubert",
    "jang",
    "ji",
    "mahalanobis",
    "ng",
    "pitman",
    "scholkopf",
    "schubert",
    "ucdenver",
    "vinh",
    "xie",
    "yizong",
]


@pytest.mark.parametrize("key", CITED)
def test_29_every_citation_of_the_paper_has_its_reference(key):
    assert f"**{key}**" in (DOCS / "references.md").read_text(encoding="utf-8")
