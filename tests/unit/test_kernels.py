"""The kernels: their values, products and definiteness, and the links of a graph."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from sklearn.metrics import pairwise

from knoll import kernels
from knoll.exceptions import BadData, InvalidParameter
from knoll.kernels import (
    Function,
    Gaussian,
    Heaviside,
    Linear,
    Polynomial,
    Precomputed,
    links,
    normalized_cut,
    normlinks,
)

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3))
Y = rng.normal(size=(7, 3))


def laplacian(x, y):
    return float(np.exp(-np.abs(x - y).sum()))


CASES = {
    "rbf": (Gaussian(1.3), lambda A, B: pairwise.rbf_kernel(A, B, gamma=1 / (2 * 1.3**2))),
    "heaviside": (Heaviside(1.5), lambda A, B: (pairwise.euclidean_distances(A, B) <= 1.5).astype(float)),
    "poly": (Polynomial(3, 0.5), lambda A, B: pairwise.polynomial_kernel(A, B, degree=3, gamma=1, coef0=0.5)),
    "linear": (Linear(), pairwise.linear_kernel),
    "of rows": (Function(laplacian), lambda A, B: pairwise.laplacian_kernel(A, B, gamma=1.0)),
    "of arrays": (Function(pairwise.laplacian_kernel), lambda A, B: pairwise.laplacian_kernel(A, B)),
}
each = pytest.mark.parametrize("name", CASES)


@each
def test_values_are_those_of_scikit_learn(name):
    kernel, peer = CASES[name]
    np.testing.assert_allclose(kernel.tile(X, Y), peer(X, Y), rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(kernel.diag(X), np.diagonal(peer(X, X)), rtol=1e-12)
    np.testing.assert_allclose(kernel.rows(X, np.array([4, 0])), peer(X[[4, 0]], X), rtol=1e-11, atol=1e-13)
    assert isinstance(kernel, kernels.Kernel)


@each
@pytest.mark.parametrize("threads", [1, 3])
def test_an_operator_multiplies_with_the_matrix(name, threads):
    kernel, _ = CASES[name]
    K, B = kernel.tile(X, X), rng.normal(size=(60, 4))
    operator = kernel.operator(X, threads)
    assert isinstance(operator, kernels.Operator)
    assert operator.n == 60
    assert operator.bytes >= 0
    np.testing.assert_allclose(operator.apply(B), K @ B, atol=1e-11 * np.abs(K).sum())
    np.testing.assert_allclose(operator.apply(B[:, 0]), K @ B[:, 0], atol=1e-11 * np.abs(K).sum())
    np.testing.assert_allclose(kernel.apply(X, B, threads), K @ B, atol=1e-11 * np.abs(K).sum())
    np.testing.assert_allclose(operator.apply_rows(Y, B), kernel.tile(Y, X) @ B, atol=1e-11 * np.abs(K).sum())
    np.testing.assert_array_equal(operator.diag(), kernel.diag(X))
    np.testing.assert_array_equal(operator.rows(np.array([3, 3, 9]), np.array([1, 5])), K[np.ix_([3, 3, 9], [1, 5])])


@pytest.mark.parametrize("form", ["dense", "float32", "csr", "csc", "fortran"])
def test_a_precomputed_matrix(form):
    K = Gaussian(1.0).tile(X, X)
    K[K < 0.2] = 0
    K = np.round(K * 1024) / 1024  # exact in float32
    made = {
        "dense": K,
        "float32": K.astype(np.float32),
        "csr": scipy.sparse.csr_array(K),
        "csc": scipy.sparse.csc_matrix(K),
        "fortran": np.asfortranarray(K),
    }[form]
    operator, B = Precomputed().operator(made), rng.normal(size=(60, 3))
    np.testing.assert_allclose(operator.apply(B), K @ B, atol=1e-12)
    np.testing.assert_allclose(operator.apply_rows(made[:5] if form != "csc" else made.tocsr()[:5], B), K[:5] @ B)
    np.testing.assert_array_equal(operator.diag(), np.diagonal(K))
    np.testing.assert_array_equal(operator.rows(np.array([7, 1])), K[[7, 1]])
    np.testing.assert_array_equal(operator.rows(np.array([7, 1]), np.array([2])), K[[7, 1]][:, [2]])
    np.testing.assert_array_equal(Precomputed().diag(made), np.diagonal(K))
    if form in ("dense", "csr"):
        assert operator.bytes == 0


@pytest.mark.parametrize("name", [*CASES, "dense", "csr"])
@pytest.mark.parametrize("weighted", [False, True])
def test_an_update_moves_rows_between_columns(name, weighted):
    if name in CASES:
        operator, K = CASES[name][0].operator(X, 2), CASES[name][0].tile(X, X)
    else:
        K = Gaussian(1.0).tile(X, X)
        operator = Precomputed().operator(K if name == "dense" else scipy.sparse.csr_array(K), 2)
    weights = rng.uniform(0.5, 2, size=60) if weighted else None
    w = np.ones(60) if weights is None else weights
    labels = rng.integers(4, size=60).astype(np.int32)
    Z = np.eye(4)[labels]
    G = np.zeros((60, 4))
    every = np.arange(60)
    operator.update(every, np.full(60, -1, dtype=np.int32), labels, weights, G)
    scale = 1e-12 * np.abs(K).sum() * w.max()
    np.testing.assert_allclose(G, K @ (w[:, None] * Z), atol=scale)
    rows = rng.permutation(60)[:20]
    new = rng.integers(-1, 4, size=20).astype(np.int32)
    operator.update(rows, labels[rows], new, weights, G)
    Z[rows] = 0
    Z[rows[new >= 0], new[new >= 0]] = 1
    np.testing.assert_allclose(G, K @ (w[:, None] * Z), atol=scale)


def test_what_is_positive_semi_definite():
    for name, (kernel, _) in CASES.items():
        least = np.linalg.eigvalsh(kernel.tile(X, X))[0]
        if kernel.positive_semidefinite:
            assert least > -1e-9, name
    assert Heaviside(1.0).positive_semidefinite is False
    chain = np.array([[0.0], [1.0], [2.0]])
    np.testing.assert_allclose(np.linalg.eigvalsh(Heaviside(1.0).tile(chain, chain))[0], 1 - np.sqrt(2))
    assert Function(laplacian).positive_semidefinite is None
    assert Precomputed().positive_semidefinite is None


def test_make_reads_the_parameters_of_an_estimator():
    assert kernels.make("rbf", sigma=2.0) == kernels.make("gaussian", sigma=2.0) == Gaussian(2.0)
    assert kernels.make("rbf", gamma=0.125) == Gaussian(2.0)
    assert Gaussian(2.0).gamma == 0.125
    assert kernels.make("heaviside", eps=0.5) == Heaviside(0.5)
    assert kernels.make("poly", degree=2, coef0=0) == kernels.make("polynomial", degree=2, coef0=0) == Polynomial(2, 0)
    assert kernels.make("linear") == Linear()
    assert kernels.make("precomputed") == Precomputed()
    assert kernels.make(Linear()) == Linear()
    assert kernels.make(laplacian) == Function(laplacian)
    assert [k.name for k in (Gaussian(1.0), Heaviside(1.0), Polynomial(), Linear(), Precomputed())] == [
        "rbf", "heaviside", "poly", "linear", "precomputed",
    ]  # fmt: skip
    assert Function(laplacian).name == "laplacian"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: kernels.make("rbf", sigma=1.0, gamma=1.0), "give sigma or gamma, not both"),
        (lambda: kernels.make("rbf"), r"needs sigma or gamma, got neither\. knoll\.scales\.estimate_sigma"),
        (lambda: kernels.make("heaviside"), r"needs eps, got None\. knoll\.scales\.estimate_eps"),
        (lambda: kernels.make("cubic"), "kernel must be 'rbf', .* got 'cubic'"),
        (lambda: kernels.make(3), "kernel must be a name, a callable or a kernel of knoll.kernels, got 3"),
        (lambda: Gaussian(0.0), r"sigma must be > 0, got 0\.0\. knoll\.scales\.estimate_sigma"),
        (lambda: Gaussian.from_gamma(-1.0), r"gamma must be > 0, got -1\.0"),
        (lambda: Heaviside(-1.0), r"eps must be > 0, got -1\.0"),
        (lambda: Polynomial(0), r"degree must be >= 1 and <= 64, got 0\. Other polynomials are not positive"),
        (lambda: Polynomial(2.5), r"degree must be a whole number, got 2\.5"),
        (lambda: Polynomial(2, -1.0), r"coef0 must be >= 0, got -1\.0"),
        (lambda: Function(3), "function must be a callable, got 3"),
    ],
)
def test_bad_parameters_are_refused(make, message):
    with pytest.raises(InvalidParameter, match=message):
        make()


def test_extreme_widths():
    for gamma in (1e-308, 5e-324, 1e300):
        assert np.isfinite(Gaussian.from_gamma(gamma).sigma)
        assert Gaussian.from_gamma(gamma).sigma > 0
    np.testing.assert_allclose(Gaussian.from_gamma(1e-200).gamma, 1e-200)
    cutoff = Gaussian(3.0).cutoff(1000)
    assert 1000 * np.exp(-(cutoff**2) / 18) <= 2.0**-53 * (1 + 1e-9)


def bad_matrices():
    K = np.eye(4)
    nan, asymmetric, far = K.copy(), K.copy(), K.copy()
    nan[1, 2] = nan[2, 1] = np.nan
    asymmetric[0, 3] = 0.5
    far[2, 3], far[3, 2] = 0.5, 0.5 + 1e-6
    return [
        (np.ones((3, 4)), r"must be square, got shape \(3, 4\)"),
        (nan, r"must be finite, but has nan at row 1, column 2 \(and 1 more\)"),
        (asymmetric, r"must be symmetric, but has 0\.5 at row 0, column 3 and 0\.0 at row 3, column 0"),
        (far, r"must be symmetric, but has 0\.5 at row 2, column 3 and 0\.500001 at row 3"),
    ]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("K", "message"), bad_matrices())
def test_a_matrix_that_is_no_kernel_is_refused_with_its_entry(K, message, sparse):
    if sparse and "symmetric" in message:
        message = "must be symmetric, but has"
    with pytest.raises(BadData, match=f"the precomputed kernel {message}"):
        Precomputed().operator(scipy.sparse.csr_array(K) if sparse else K)
    with pytest.raises(BadData, match="the similarity matrix must be"):
        normalized_cut(scipy.sparse.csr_array(K) if sparse else K, [0] * len(K))


def test_asymmetry_of_rounding_is_averaged():
    K = Gaussian(1.0).tile(X, X)
    off = K.copy()
    off[3, 5] *= 1 + 1e-14
    for matrix in (off, scipy.sparse.csr_array(off)):
        operator = Precomputed().operator(matrix)
        got = operator.apply(np.eye(60))
        np.testing.assert_array_equal(got, got.T)
        np.testing.assert_allclose(got, K, rtol=1e-13)
        assert operator.bytes > 0


def test_a_function_that_fails_is_reported():
    def nothing(x, y):
        return float("nan")

    def odd(A, B):
        return np.ones((2, 1)) if A.shape == (2, 3) else np.ones(3)

    with pytest.raises(BadData, match=r"must give one number for each pair: expected the shape \(60, 7\), got \(3,\)"):
        Function(odd).tile(X, Y)
    with pytest.raises(BadData, match="the kernel nothing must be finite, got nan"):
        Function(nothing).tile(X, Y)
    with pytest.raises(ZeroDivisionError):
        Function(lambda x, y: 1 / 0).tile(X, Y)
    with pytest.raises(BadData, match="a column for each of the 60 rows of the fit, got 3"):
        Precomputed().tile(Y, np.eye(60))


# ---- links ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array, lambda A: Gaussian(1.0).operator(X)])
def test_links_by_definition(form):
    A = Gaussian(1.0).tile(X, X)
    a, b = np.arange(10), np.arange(5, 40)
    mask = np.isin(np.arange(60), a)
    graph = form(A)
    np.testing.assert_allclose(links(graph, a, b), A[np.ix_(a, b)].sum(), rtol=1e-12)
    np.testing.assert_allclose(links(graph, mask, b), links(graph, a, b), rtol=1e-12)
    np.testing.assert_allclose(normlinks(graph, a, b), A[np.ix_(a, b)].sum() / A[a].sum(), rtol=1e-12)
    labels = rng.integers(3, size=60)
    expected = np.mean([A[np.ix_(labels == c, labels != c)].sum() / A[labels == c].sum() for c in range(3)])
    np.testing.assert_allclose(normalized_cut(graph, labels), expected, rtol=1e-12)
    np.testing.assert_allclose(normalized_cut(graph, [["a", "b", "c"][c] for c in labels]), expected, rtol=1e-12)


def test_links_at_the_edges():
    A = np.zeros((4, 4))
    A[0, 1] = A[1, 0] = 2.0
    assert links(A, [], [0]) == 0
    assert normlinks(A, [2], [0, 1]) == 0  # no links at all
    assert normalized_cut(A, [0, 0, 1, 2]) == 0
    assert normalized_cut(A, [0, 1, 1, 1]) == 1
    assert links(A, [0, 0, 1], [0, 1]) == 4  # a set: each node once
    assert links(-A, [0], [1]) == -2
    with pytest.raises(BadData, match=r"the similarity matrix must be >= 0, but has -2\.0 at row 0, column 1"):
        normlinks(-A, [0], [1])
    with pytest.raises(BadData, match="a must be indices from 0 to 3, got 4"):
        links(A, [4], [0])
    with pytest.raises(BadData, match="b must be indices from 0 to 3, got -1"):
        links(A, [0], [-1])
    with pytest.raises(BadData, match=r"a mask must have one entry for each of 4 nodes, got a of shape \(2,\)"):
        links(A, [True, False], [0])
    with pytest.raises(TypeError, match="a must be indices of nodes or a mask, got float64"):
        links(A, [0.5], [0])
    with pytest.raises(BadData, match=r"labels must have one entry for each of 4 nodes, got shape \(2,\)"):
        normalized_cut(A, [0, 1])


def test_the_normalized_cut_and_the_trace_agree_on_every_partition():
    """W = D, K = D⁻¹AD⁻¹: Ncut = 1 − Tr/k (docs/theory/errata.md, item 22)."""
    points = np.array([[0.0], [0.0], [2.0], [4.0]])
    A = Gaussian(1.0).tile(points, points)
    d = A.sum(axis=1)
    K = A / np.outer(d, d)
    for labels in ([0, 0, 1, 1], [0, 0, 0, 1], [0, 1, 0, 1]):
        trace = sum((d * (np.array(labels) == c)) @ K @ (d * (np.array(labels) == c)) / d[np.array(labels) == c].sum()
                    for c in (0, 1))  # fmt: skip
        np.testing.assert_allclose(normalized_cut(A, labels), 1 - trace / 2, rtol=1e-12)
    assert normalized_cut(A, [0, 0, 0, 1]) < normalized_cut(A, [0, 0, 1, 1])


@pytest.mark.parametrize("value", [np.ones(3), "7", None, np.ones((2, 2)), {}])
def test_a_function_must_give_numbers(value):
    X = np.arange(6.0).reshape(3, 2)
    rule = "the kernel <lambda> must give a number for two rows, or an .n, m. array for n and m rows, got "
    with pytest.raises(BadData, match=rule):
        Function(lambda x, y: value).tile(X, X)


def test_a_function_must_be_symmetric():
    X = np.arange(40.0).reshape(20, 2)
    message = (
        r"must be symmetric, but gives 0.0 for the rows array\(\[0., 1.\]\) and array\(\[4., 5.\]\), and 4.0 the other"
    )
    with pytest.raises(BadData, match=message):
        Function(lambda x, y: float(x[0])).operator(X)
    with pytest.raises(BadData, match="must be symmetric"):
        Function(lambda A, B: A[:, :1] + 0 * B[:, 0]).operator(X)
    assert Function(lambda x, y: float(x @ y)).operator(X[:1]).n == 1
