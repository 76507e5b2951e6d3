"""What bad input gets: an error at the call, not at the first step, that names value, rule and remedy."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from knoll.exceptions import BadData, InvalidParameter, InvalidType, KnollError
from knoll.reference import (
    dbscan_climbing,
    dbscan_graph,
    dbscan_regions,
    dbscan_spectral,
    em_gmm,
    gaussian_mle,
    kmeans,
    mean_shift,
    njw_spectral,
    njw_spectral_graph,
    run,
    weighted_kernel_kmeans,
)

# every box that takes X, with otherwise good arguments for three rows of two columns
ON_POINTS = {
    "gaussian_mle": lambda X: gaussian_mle(X),
    "em_gmm": lambda X: em_gmm(X, [1.0], [[0.0, 0.0]], [np.eye(2)]),
    "kmeans": lambda X: kmeans(X, [[0.0, 0.0]]),
    "njw_spectral": lambda X: njw_spectral(X, 1, 1.0),
    "njw_spectral_graph": lambda X: njw_spectral_graph(X, 1, 1.0),
    "dbscan_spectral": lambda X: dbscan_spectral(X, 1.0, 1),
    "dbscan_graph": lambda X: dbscan_graph(X, 1.0, 1),
    "dbscan_regions": lambda X: dbscan_regions(X, 1.0, 1, [(0, 0.5)]),
    "dbscan_climbing": lambda X: dbscan_climbing(X, 1.0, 1),
    "mean_shift": lambda X: mean_shift(X, 1.0),
}
GOOD = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]])


def spoiled(value):
    X = GOOD.copy()
    X[1, 1] = value
    return X


BAD_X = [
    (spoiled(np.nan), "X has a NaN at row 1, column 1. Drop or impute such rows first."),
    (spoiled(-np.inf), "X has an infinite value at row 1, column 1. Drop or clip such rows first."),
    (spoiled(1e200),
     "X has a value beyond 1e150 at row 1, column 1. Its square would overflow: rescale first."),
    (pd.DataFrame(spoiled(np.nan), columns=["height", "age"]),
     "X has a NaN at row 1, column 'age'. Drop or impute such rows first."),
    (np.empty((0, 2)), "X is empty (shape (0, 2)). At least one row and one column are needed."),
    (np.empty((3, 0)), "X is empty (shape (3, 0)). At least one row and one column are needed."),
    ([1.0, 2.0],
     "X must be a table of rows and columns, got an array of shape (2,). One feature: X.reshape(-1, 1)."),
    (np.zeros((2, 2, 2)), "X must be a table of rows and columns, got an array of shape (2, 2, 2)."),
    ([["a", "b"]], "X must hold real numbers, got values that are not numbers. Encode or drop them first."),
    (np.array([["a", "b"]]), "X must hold real numbers, got dtype <U1. Encode or drop them first."),
    (GOOD + 1j, "X must hold real numbers, got dtype complex128. Encode or drop them first."),
    ([[1.0], [1.0, 2.0]], "X has rows of different lengths. Every row needs the same number of columns."),
    ([[10**400, 0], [0, 1]], "X has an integer beyond float64. Its square would overflow: rescale first."),
    (scipy.sparse.csr_matrix(GOOD), "X is sparse. The reference works on dense arrays: pass X.toarray()."),
]  # fmt: skip


@pytest.mark.parametrize("box", ON_POINTS)
@pytest.mark.parametrize(("X", "message"), BAD_X)
def test_bad_points(box, X, message):
    with pytest.raises(BadData) as error:
        ON_POINTS[box](X)
    assert str(error.value) == message


@pytest.mark.parametrize("box", ON_POINTS)
@pytest.mark.parametrize("convert", [np.float32, np.int64, list, np.asfortranarray])
def test_any_real_table_is_taken_and_left_alone(box, convert):
    X = GOOD.tolist() if convert is list else convert(GOOD)
    kept = np.array(X, copy=True)
    steps = list(ON_POINTS[box](X))
    np.testing.assert_array_equal(X, kept)
    if convert is not list:
        assert X.flags.writeable
    for state in steps:
        assert all(not v.flags.writeable for v in state if isinstance(v, np.ndarray))


RADIUS = "It is the radius of a neighbourhood, in the units of X."
LEVEL = "A point counts itself, so 1 makes every point a core point."
WIDTH = "It is the width of the Gaussian kernel, in the units of X."
M_STEPS, E_STEPS = "It bounds the number of M steps.", "It bounds the number of E steps."
S, EYE = [[0.0, 0.0]], [np.eye(2)]
K = np.eye(3)
HELD = "whose square float64 cannot hold. Rescale by a power of two, which rounds nothing, to a span of 1e-150 or more."


def start_message(starts):
    rule = "starts must be lists of k=2 different row indices below n=3"
    return f"{rule}, got {starts!r}. None chooses farthest-first starts."


BAD_STARTS = [
    *((starts, InvalidParameter) for starts in ([], [[0]], [[0, 0]], [[0, 0, 2]], [[0, 1, 2]], [[-1, 1]], [[0, 3]])),
    *((starts, InvalidType) for starts in (5, [0, 1], "ab", [[np.nan, 1]], [[0.9, 1.2]], [[True, 0]], [None])),
]


def spectral_cases(box):
    return [
        (lambda: box(GOOD, 4, 1.0),
         InvalidParameter, "k must be <= the number of rows, got k=4 and n=3. Ask for fewer clusters."),
        (lambda: box(GOOD, 0, 1.0), InvalidParameter, "k must be >= 1, got 0. It is the number of clusters."),
        (lambda: box(GOOD, 1.5, 1.0),
         InvalidType, "k must be an integer >= 1, got 1.5. It is the number of clusters."),
        (lambda: box(GOOD, 2, 0.0), InvalidParameter, f"sigma must be > 0 and finite, got 0.0. {WIDTH}"),
        (lambda: box(GOOD, 2, "1"), InvalidType, f"sigma must be a number > 0, got '1'. {WIDTH}"),
        (lambda: box(GOOD, 2, 1e-200),
         InvalidParameter, f"sigma must lie in [1e-150, 1e150], got 1e-200. {WIDTH} "
         "Rescale X and sigma by a power of two."),
        (lambda: box(GOOD, 2, 10**400), InvalidParameter, f"sigma must be > 0 and finite, got inf. {WIDTH}"),
        (lambda: box(GOOD, 2, -(10**400)), InvalidParameter, f"sigma must be > 0 and finite, got -inf. {WIDTH}"),
        (lambda: box(GOOD, 2, 1.0, row_scaling="rows"),
         InvalidParameter, "row_scaling must be one of 'none', 'unit', 'degree', got 'rows'."),
        (lambda: box(GOOD, 2, 1.0, row_scaling=np.array(["none", "unit"])), InvalidType,
         "row_scaling must be one of 'none', 'unit', 'degree', got array(['none', 'unit'], dtype='<U4')."),
        (lambda: box(GOOD, 2, 1.0, zero_diagonal="no"), InvalidType,
         "zero_diagonal must be True or False, got 'no'. Write zero_diagonal=True."),
        *((lambda starts=starts: box(GOOD, 2, 1.0, starts=starts), error_type, start_message(starts))
          for starts, error_type in BAD_STARTS),
        (lambda: run(box([[0.0], [38.6]], 1, 1.0, zero_diagonal=True)),
         BadData, "row 0 of X has no neighbour at sigma=1.0 and a zero diagonal. "
         "Take a larger sigma, or zero_diagonal=False."),
        (lambda: run(box([[0.0], [1e9]], 1, 1.0, zero_diagonal=True)),
         BadData, "row 0 of X has no neighbour at sigma=1.0 and a zero diagonal. "
         "Take a larger sigma, or zero_diagonal=False."),
    ]  # fmt: skip


def radius_cases(box, *more):
    return [
        (lambda: box(GOOD, -1.0, *more), InvalidParameter, f"eps must be > 0 and finite, got -1.0. {RADIUS}"),
        (lambda: box(GOOD, float("nan"), *more),
         InvalidParameter, f"eps must be > 0 and finite, got nan. {RADIUS}"),
        (lambda: box(GOOD, float("inf"), *more),
         InvalidParameter, f"eps must be > 0 and finite, got inf. {RADIUS}"),
        (lambda: box(GOOD, 10**400, *more),
         InvalidParameter, f"eps must be > 0 and finite, got inf. {RADIUS}"),
        (lambda: box([[0.0], [1e-200]], 1e-250, *more), InvalidParameter,
         f"eps must be >= 1e-150, got 1e-250. {RADIUS} Rescale X and eps by a power of two."),
        (lambda: box(GOOD, None, *more), InvalidType, f"eps must be a number > 0, got None. {RADIUS}"),
        (lambda: box(GOOD, True, *more), InvalidType, f"eps must be a number > 0, got True. {RADIUS}"),
    ]  # fmt: skip


def level_cases(box):
    return [
        *radius_cases(box, 1),
        (lambda: box(GOOD, 1.0, 0), InvalidParameter, f"min_pts must be >= 1, got 0. {LEVEL}"),
        (lambda: box(GOOD, 1.0, 2.5), InvalidType, f"min_pts must be an integer >= 1, got 2.5. {LEVEL}"),
    ]


CASES = [
    *radius_cases(mean_shift),
    *(case for box in (dbscan_graph, dbscan_spectral, dbscan_climbing) for case in level_cases(box)),
    *(case for box in (njw_spectral, njw_spectral_graph) for case in spectral_cases(box)),
    (lambda: kmeans(GOOD, np.zeros((4, 2))),
     InvalidParameter, "k must be <= the number of rows, got k=4 and n=3. Ask for fewer clusters."),
    (lambda: kmeans(GOOD, np.zeros((1, 3))),
     InvalidParameter, "mu must have as many columns as X, got 3 and 2. One row of mu is one mean."),
    (lambda: kmeans(GOOD, [[np.nan, 0]]),
     BadData, "mu has a NaN at row 0, column 0. Drop or impute such rows first."),
    (lambda: kmeans(GOOD, S, max_iter=0), InvalidParameter, f"max_iter must be >= 1, got 0. {M_STEPS}"),
    (lambda: em_gmm(GOOD, [0.5, 0.5], S, EYE),
     InvalidParameter, "pi must have one entry per row of mu, got 2 and 1. np.full(1, 1 / 1) is a fair start."),
    (lambda: em_gmm(GOOD, [0.5], S, EYE),
     InvalidParameter, "pi must be >= 0 and sum to 1, got [0.5]. Divide it by its sum."),
    (lambda: em_gmm(GOOD, [np.nan], S, EYE),
     BadData, "pi has a NaN at position 0. Drop or impute such rows first."),
    (lambda: em_gmm(GOOD, [1.0], S, [np.eye(3)]),
     InvalidParameter,
     "Sigma must have shape (k, d, d) = (1, 2, 2), got (1, 3, 3). One matrix per row of mu."),
    (lambda: em_gmm(GOOD, [1.0], S, np.eye(2)),
     BadData, "Sigma must be a stack of matrices, got an array of shape (2, 2)."),
    (lambda: em_gmm(GOOD, [1.0], S, [[[1.0, 2.0], [2.0, 1.0]]]),
     InvalidParameter, "Sigma[0] must be symmetric positive definite, got [[1.0, 2.0], [2.0, 1.0]]. "
     "The identity, scaled to the data, is a safe start."),
    (lambda: em_gmm(GOOD, [1.0], S, [[[1.0, 0.5], [0.0, 1.0]]]),
     InvalidParameter, "Sigma[0] must be symmetric positive definite, got [[1.0, 0.5], [0.0, 1.0]]. "
     "The identity, scaled to the data, is a safe start."),
    (lambda: em_gmm(GOOD, [1.0], S, EYE, tol=-1), InvalidParameter,
     "tol must be >= 0 and finite, got -1.0. 0 runs until the likelihood no longer rises."),
    (lambda: em_gmm(GOOD, [1.0], S, EYE, tol="x"), InvalidType,
     "tol must be a number >= 0, got 'x'. 0 runs until the likelihood no longer rises."),
    (lambda: em_gmm(GOOD, [1.0], S, EYE, floor=-1), InvalidParameter,
     "floor must be >= 0 and finite, got -1.0. 0 is the box as printed."),
    (lambda: em_gmm(GOOD, [1.0], S, EYE, max_iter=0),
     InvalidParameter, f"max_iter must be >= 1, got 0. {M_STEPS}"),
    (lambda: run(em_gmm([[1.0, 1.0]], [1.0], S, EYE)), BadData,
     "em_gmm: the covariance of component 0 became singular in iteration 1 "
     "(it has collapsed onto too few points). Start elsewhere, take fewer components, or give floor > 0."),
    (lambda: weighted_kernel_kmeans(np.zeros((2, 3)), [0, 0]), BadData,
     "K must be square, got shape (2, 3). K[i, j] is the kernel of rows i and j."),
    (lambda: weighted_kernel_kmeans([[1.0, 2.0], [0.0, 1.0]], [0, 0]), BadData,
     "K must be symmetric, got K[0, 1] = 2.0 and K[1, 0] = 0.0. "
     "Pass (K + K.T) / 2 if that is what you mean."),
    (lambda: weighted_kernel_kmeans([[np.nan]], [0]), BadData,
     "K has a NaN at row 0, column 0. Drop or impute such rows first."),
    (lambda: weighted_kernel_kmeans(K, [0, 1]), InvalidParameter,
     "labels must have one entry per row of K, got 2 and 3. Give each of the 3 rows a cluster."),
    (lambda: weighted_kernel_kmeans(K, [0, 2, 2]), InvalidParameter,
     "labels must use every number from 0 to k-1, got [0, 2]. "
     "np.unique(labels, return_inverse=True)[1] renumbers them."),
    (lambda: weighted_kernel_kmeans(K, [0.0, 1.0, 1.0]), InvalidType,
     "labels must be a vector of integers, got float64 of shape (3,). Number the clusters of the start from 0."),
    (lambda: weighted_kernel_kmeans(K, [[0], [0, 1]]), InvalidType,
     "labels must be a vector of integers, got rows of different lengths. Number the clusters of the start from 0."),
    (lambda: weighted_kernel_kmeans(K, [0, 1, 1], [[1.0], [1.0, 2.0]]), BadData,
     "w has rows of different lengths. Every row needs the same number of columns."),
    (lambda: weighted_kernel_kmeans(K, [0, 1, 1], [1.0, 1.0]), InvalidParameter,
     "w must have one entry per row of K, got 2 and 3. None weighs all rows alike."),
    (lambda: weighted_kernel_kmeans(K, [0, 1, 1], [1.0, -2.0, 1.0]), InvalidParameter,
     "w must be >= 0, got -2.0 at position 1. Zero means an absent row."),
    (lambda: weighted_kernel_kmeans(K, [0, 1, 1], [0.0, 1.0, 1.0]), InvalidParameter,
     "w gives cluster 0 of the start no weight. Give it a row of weight > 0."),
    (lambda: weighted_kernel_kmeans(K, [0, 1, 1], max_iter=0), InvalidParameter,
     f"max_iter must be >= 1, got 0. {E_STEPS}"),
    (lambda: run(iter(())), InvalidParameter,
     "run got a generator that is exhausted. Call the box again for a fresh one."),
    (lambda: run(None), InvalidType,
     "run needs the states of a box, got None. Pass what a box returns, e.g. run(kmeans(X, mu))."),
    (lambda: run(len), InvalidType, "run needs the states of a box, got <built-in function len>. "
     "Pass what a box returns, e.g. run(kmeans(X, mu))."),
    (lambda: run("states"), InvalidType,
     "run needs the states of a box, got 's' among them. Pass what a box returns, e.g. run(kmeans(X, mu))."),
    (lambda: gaussian_mle([[0.0, 0.0], [1.0, 1e-200]]), BadData, f"column 1 of X spans 1e-200, {HELD}"),
    (lambda: em_gmm([[0.0], [1e-200]], [1.0], [[0.0]], [[[1.0]]]), BadData, f"column 0 of X spans 1e-200, {HELD}"),
    (lambda: kmeans([[0.0], [1e-200]], [[0.0]]), BadData, f"X and mu together span 1e-200, {HELD}"),
    (lambda: kmeans([[0.0], [0.0]], [[1e-200], [2e-200]]), BadData, f"X and mu together span 2e-200, {HELD}"),
    (lambda: kmeans(GOOD, [[10**400, 0]]), BadData,
     "mu has an integer beyond float64. Its square would overflow: rescale first."),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error_type", "message"), CASES)
def test_bad_parameters(call, error_type, message):
    with pytest.raises(KnollError) as error:
        call()
    assert type(error.value) is error_type
    assert str(error.value) == message


def test_one_row_is_enough():
    X = [[3.0, 4.0]]
    one = run(gaussian_mle(X))
    assert one.mu.tolist() == [3, 4]
    assert one.Sigma.tolist() == [[0, 0], [0, 0]]
    assert one.log_likelihood == np.inf
    assert run(kmeans(X, X)).labels.tolist() == [0]
    assert run(weighted_kernel_kmeans([[25.0]], [0])).objective == 0
    assert run(njw_spectral(X, 1, 1.0)).labels.tolist() == [0]
    assert run(njw_spectral_graph(X, 1, 1.0)).ncut == 0
    for box in (dbscan_graph, dbscan_spectral, dbscan_climbing):
        assert run(box(X, 1.0, 1)).labels.tolist() == [0]
        assert run(box(X, 1.0, 2)).labels.tolist() == [-1]
    assert run(mean_shift(X, 1.0)).labels.tolist() == [0]


def test_one_column_and_equal_rows():
    X = [[1.0]] * 5
    assert run(gaussian_mle(X)).log_likelihood == np.inf
    assert run(kmeans(X, [[0.0], [1.0]])).labels.tolist() == [1] * 5
    assert run(njw_spectral(X, 2, 1.0)).labels.max() <= 1
    for box in (dbscan_graph, dbscan_spectral, dbscan_climbing):
        assert run(box(X, 0.1, 5)).labels.tolist() == [0] * 5
    assert run(mean_shift(X, 0.1)).labels.tolist() == [0] * 5


@pytest.mark.parametrize("scale", [2.0**-498, 1.0, 2.0**480])
def test_a_power_of_two_changes_no_label(scale):
    X = np.array([[0.0], [1.0], [2.0], [9.0], [10.5], [40.0]])
    assert run(kmeans(X * scale, X[:2] * scale)).labels.tolist() == run(kmeans(X, X[:2])).labels.tolist()
    for box in (dbscan_graph, dbscan_spectral, dbscan_climbing):
        assert run(box(X * scale, scale, 2)).labels.tolist() == [0, 0, 0, -1, -1, -1]
    assert run(mean_shift(X * scale, 1.5 * scale)).labels.tolist() == [0, 0, 0, 1, 1, 2]
    np.testing.assert_array_equal(run(gaussian_mle(X * scale)).mu, run(gaussian_mle(X)).mu * scale)
    assert np.isfinite(run(gaussian_mle(X * scale)).log_likelihood)


def test_equal_rows_are_taken_however_small():
    X = [[1e-200, 5.0]] * 3
    assert run(gaussian_mle(X)).log_likelihood == np.inf
    assert run(kmeans(X, X[:1])).objective == 0


@pytest.mark.parametrize("box", [dbscan_graph, dbscan_spectral, dbscan_climbing])
def test_a_level_beyond_float64_is_never_reached(box):
    assert run(box(GOOD, 5.0, 10**400)).labels.tolist() == [-1] * 3
