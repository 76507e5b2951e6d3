"""Scores of two labellings: the laws they keep, scikit-learn's figures, and what bad labels get."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as theirs

from knoll import datasets, metrics
from knoll.exceptions import BadData, CostError, InvalidParameter
from knoll.reference import dbscan_graph, run

AVERAGES = ["arithmetic", "geometric", "max", "min"]
SCORES = [
    metrics.adjusted_rand_score,
    metrics.adjusted_mutual_info_score,
    metrics.mutual_info_score,
    metrics.normalized_mutual_info_score,
    metrics.v_measure_score,
    metrics.rand_score,
    metrics.fowlkes_mallows_score,
]
ONE_SIDED = [
    metrics.homogeneity_score,
    metrics.completeness_score,
    metrics.homogeneity_completeness_v_measure,
    metrics.pair_confusion_matrix,
    metrics.contingency,
    metrics.contingency_matrix,
]
RULES = ["cluster", "drop", "singletons"]

label = st.integers(-1, 4)
rows = st.lists(st.tuples(label, label), min_size=1, max_size=25)
weighted_rows = st.lists(st.tuples(label, label, st.integers(0, 4)), min_size=1, max_size=15)


def columns(table):
    return [np.array(column) for column in zip(*table)]


# ---- laws


@given(rows, st.sampled_from(SCORES), st.sampled_from(RULES))
def test_symmetric(table, score, rule):
    a, b = columns(table)
    if rule == "drop" and ((a == -1) | (b == -1)).all():
        return
    assert score(a, b, noise=rule) == pytest.approx(score(b, a, noise=rule), abs=1e-13)


@given(rows, st.sampled_from(SCORES), st.randoms(use_true_random=False))
def test_names_of_labels_and_order_of_rows_do_not_matter(table, score, random):
    a, b = columns(table)
    names = np.array(["zero", "one", "two", "three", "four", "five"])
    order = random.sample(range(len(a)), len(a))
    assert score(names[a[order] + 1], -7 * b[order]) == pytest.approx(score(a, b), abs=1e-13)


@given(weighted_rows, st.sampled_from(SCORES), st.sampled_from(RULES))
def test_a_weight_counts_repetitions(table, score, rule):
    a, b, w = columns(table)
    kept = (w > 0) & ~((rule == "drop") & ((a == -1) | (b == -1)))
    if not kept.any():
        with pytest.raises(BadData, match="no rows are left to compare"):
            score(a, b, sample_weight=w, noise=rule)
        return
    repeated = score(np.repeat(a, w), np.repeat(b, w), noise=rule)
    assert score(a, b, sample_weight=w, noise=rule) == pytest.approx(repeated, abs=1e-13)
    assert score(a, b, sample_weight=w.astype(float), noise=rule) == pytest.approx(repeated, abs=1e-13)


@given(rows)
def test_equal_partitions_score_one(table):
    a, _ = columns(table)
    b = 9 - 2 * a
    for score in (metrics.adjusted_rand_score, metrics.rand_score, metrics.v_measure_score):
        assert score(a, b) == 1.0
    assert metrics.homogeneity_completeness_v_measure(a, b, beta=0.3) == (1.0, 1.0, 1.0)
    assert metrics.fowlkes_mallows_score(a, b) == (1.0 if len(set(a.tolist())) < len(a) else 0.0)  # as in scikit-learn
    for method in AVERAGES:
        assert metrics.adjusted_mutual_info_score(a, b, average_method=method) == 1.0
        assert metrics.normalized_mutual_info_score(a, b, average_method=method) == 1.0


@given(rows)
def test_the_figures_of_scikit_learn(table):
    a, b = columns(table)
    assert metrics.adjusted_rand_score(a, b) == theirs.adjusted_rand_score(a, b)
    assert metrics.mutual_info_score(a, b) == pytest.approx(theirs.mutual_info_score(a, b), abs=1e-13)
    assert metrics.entropy(a) == pytest.approx(scipy.stats.entropy(np.unique(a, return_counts=True)[1]), abs=1e-13)
    table_of_theirs = theirs.cluster.contingency_matrix(a, b)
    assert np.array_equal(metrics.contingency(a, b), table_of_theirs)
    singletons = len(a) in (len(set(a.tolist())), len(set(b.tolist())))
    for method in AVERAGES:
        if method == "min" and singletons:
            continue  # 0/0: scikit-learn's answer is rounding there
        ours = metrics.adjusted_mutual_info_score(a, b, average_method=method)
        assert ours == pytest.approx(theirs.adjusted_mutual_info_score(a, b, average_method=method), abs=1e-9)


def assert_figures_of_scikit_learn(a, b, tolerance):
    """Those that are not adjusted for chance."""
    assert metrics.rand_score(a, b) == theirs.rand_score(a, b)
    assert metrics.fowlkes_mallows_score(a, b) == pytest.approx(theirs.fowlkes_mallows_score(a, b), abs=1e-15)
    matrix = metrics.pair_confusion_matrix(a, b)
    assert np.array_equal(matrix, theirs.cluster.pair_confusion_matrix(a, b))
    assert matrix.dtype == np.int64
    for beta in (1.0, 0.3, 7.0):  # theirs divides by zero for 0
        ours = metrics.homogeneity_completeness_v_measure(a, b, beta=beta)
        assert ours == pytest.approx(theirs.homogeneity_completeness_v_measure(a, b, beta=beta), abs=tolerance)
        assert metrics.v_measure_score(a, b, beta=beta) == ours[2]
        assert (metrics.homogeneity_score(a, b), metrics.completeness_score(a, b)) == ours[:2]
        assert all(0 <= value <= 1 for value in ours)
    for method in AVERAGES:
        ours = metrics.normalized_mutual_info_score(a, b, average_method=method)
        their = theirs.normalized_mutual_info_score(a, b, average_method=method)
        assert ours == pytest.approx(their, abs=tolerance)
        assert 0 <= ours <= 1


@given(rows)
def test_the_other_figures_of_scikit_learn(table):
    assert_figures_of_scikit_learn(*columns(table), tolerance=1e-7)  # theirs divide by entropies of rounded logarithms
    a, b = columns(table)
    matrix = metrics.contingency_matrix(a, b)
    assert np.array_equal(matrix, theirs.cluster.contingency_matrix(a, b))
    assert matrix.dtype == np.int64
    sparse = metrics.contingency_matrix(a, b, sparse=True, dtype=np.float64)
    assert np.array_equal(sparse.toarray(), theirs.cluster.contingency_matrix(a, b, sparse=True).toarray())
    assert (sparse.dtype, sparse.format) == (np.float64, "csr")
    with_eps = metrics.contingency_matrix(a, b, eps=0.25)
    assert np.array_equal(with_eps, theirs.cluster.contingency_matrix(a, b, eps=0.25))


@given(rows)
def test_one_sided_scores_exchange_their_parts(table):
    a, b = columns(table)
    assert metrics.homogeneity_score(a, b) == pytest.approx(metrics.completeness_score(b, a), abs=1e-13)
    assert np.array_equal(metrics.pair_confusion_matrix(a, b), metrics.pair_confusion_matrix(b, a).T)
    joint = [10 * i + j for i, j in zip(a.tolist(), b.tolist())]
    assert metrics.homogeneity_score(a, joint) == 1.0  # no cluster of the joint partition holds two classes
    assert metrics.completeness_score(joint, a) == 1.0


@given(weighted_rows, st.sampled_from(ONE_SIDED), st.sampled_from(RULES))
def test_a_weight_counts_repetitions_in_one_sided_scores(table, score, rule):
    a, b, w = columns(table)
    kept = (w > 0) & ~((rule == "drop") & ((a == -1) | (b == -1)))
    if kept.any():
        repeated = score(np.repeat(a, w), np.repeat(b, w), noise=rule)
        assert np.asarray(score(a, b, sample_weight=w, noise=rule)) == pytest.approx(np.asarray(repeated), abs=1e-13)


@pytest.mark.parametrize(("n", "k"), [(3000, 4), (3000, 60), (2000, 900), (2000, 2000)])
def test_the_other_figures_of_scikit_learn_on_larger_labellings(n, k):
    rng = np.random.default_rng(n + k)
    a = rng.integers(k, size=n)
    assert_figures_of_scikit_learn(a, np.where(rng.random(n) < 0.6, a, rng.integers(k, size=n)), tolerance=1e-11)


@pytest.mark.parametrize(("n", "k"), [(3000, 4), (3000, 60), (2000, 900), (2000, 1990)])
@pytest.mark.parametrize("method", AVERAGES)
def test_the_figures_of_scikit_learn_on_larger_labellings(n, k, method):
    rng = np.random.default_rng(n + k)
    a = rng.integers(k, size=n)
    b = np.where(rng.random(n) < 0.6, a, rng.integers(k, size=n))
    ours = metrics.adjusted_mutual_info_score(a, b, average_method=method)
    assert ours == pytest.approx(theirs.adjusted_mutual_info_score(a, b, average_method=method), abs=1e-9)
    assert metrics.adjusted_rand_score(a, b) == theirs.adjusted_rand_score(a, b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([0], [5]),
        ([0, 0], [1, 1]),
        ([0, 1, 2], [2, 0, 1]),
        ([0, 0, 0], [0, 1, 2]),
        ([0, 1, 2, 3], [0, 0, 1, 1]),
        ([0, 0, 1], [0, 0, 0]),
    ],
)
@pytest.mark.parametrize("method", AVERAGES)
def test_where_nothing_can_vary_scikit_learn_is_followed(a, b, method):
    for x, y in [(a, b), (b, a)]:
        assert metrics.adjusted_rand_score(x, y) == theirs.adjusted_rand_score(x, y)
        ours = metrics.adjusted_mutual_info_score(x, y, average_method=method)
        if method == "min" and len(x) == 4:  # 0/0, where scikit-learn's answer is rounding: -1 here, 1 elsewhere
            assert ours == 0.0
        else:
            their = theirs.adjusted_mutual_info_score(x, y, average_method=method)
            assert ours == pytest.approx(their, abs=1e-12)


# ---- noise


@given(rows, st.sampled_from([*SCORES, lambda a, b, **k: np.asarray(metrics.contingency(a, b, **k)).sum()]))
def test_noise_rules_are_relabellings(table, score):
    a, b = columns(table)
    noise = (a == -1) | (b == -1)
    assert score(a, b, noise="cluster") == pytest.approx(score(a + 1, b + 1), abs=1e-13)
    if not noise.all():
        assert score(a, b, noise="drop") == pytest.approx(score(a[~noise], b[~noise]), abs=1e-13)
    apart = 100 + np.arange(len(a))
    by_hand = score(np.where(a == -1, apart, a), np.where(b == -1, apart, b))
    assert score(a, b, noise="singletons") == pytest.approx(by_hand, abs=1e-13)


@given(rows)
def test_singletons_stand_after_the_clusters_in_the_table(table):
    a, b = columns(table)
    ours = metrics.contingency(a, b, noise="singletons")
    clusters_a, clusters_b = np.unique(a[a != -1]), np.unique(b[b != -1])
    assert ours.shape == (len(clusters_a) + (a == -1).sum(), len(clusters_b) + (b == -1).sum())
    assert np.array_equal(ours.row_labels[: len(clusters_a)], clusters_a)
    assert (ours.row_labels[len(clusters_a) :] == -1).all()
    assert (ours.row_sums[len(clusters_a) :] == 1).all()
    assert (ours.col_sums[len(clusters_b) :] == 1).all()


def test_noise_is_the_number_minus_one_in_any_dtype():
    for a in (
        [0, 0, -1],
        [0.0, 0.0, -1.0],
        np.array(["x", "x", -1], dtype=object),
        np.array([0, 0, -1], np.int8),
    ):
        assert metrics.contingency(a, a, noise="drop").n == 2
    for a in (["x", "x", "-1"], [True, True, False], np.array([0, 0, 255], np.uint8)):
        assert metrics.contingency(a, a, noise="drop").n == 3


def test_a_heavy_noise_row_is_many_singletons():
    a, b, w = [0, 1, -1], [0, 1, 0], [10, 10, 10**12]
    assert metrics.entropy(a, sample_weight=w, noise="singletons") == pytest.approx(math.log(10**12), rel=1e-9)
    assert metrics.adjusted_rand_score(a, b, sample_weight=w, noise="singletons") == pytest.approx(0, abs=1e-9)
    with pytest.raises(CostError, match="1000000000000 noise rows would become as many clusters"):
        metrics.contingency(a, b, sample_weight=w, noise="singletons")


# ---- large counts


@pytest.mark.parametrize("total", [10**9, 10**13, 10**18])
def test_rand_is_exact_at_any_count(total):
    rng = np.random.default_rng(0)
    a, b = rng.integers(3, size=200), rng.integers(4, size=200)
    w = rng.integers(total // 300, total // 200, size=200)
    table = np.zeros((3, 4), dtype=object)
    for i, j, weight in zip(a, b, w):
        table[i, j] += int(weight)
    n = table.sum()
    together = [sum(x * (x - 1) // 2 for x in t.ravel()) for t in (table, table.sum(axis=1), table.sum(axis=0))]
    both, first, second = together
    top = 2 * (both * n * (n - 1) // 2 - first * second)
    bottom = (first + second) * n * (n - 1) // 2 - 2 * first * second
    assert metrics.adjusted_rand_score(a, b, sample_weight=w) == top / bottom
    neither = n * (n - 1) // 2 - first - second + both
    expected = [[2 * neither, 2 * (second - both)], [2 * (first - both), 2 * both]]
    assert metrics.pair_confusion_matrix(a, b, sample_weight=w).tolist() == expected
    assert metrics.rand_score(a, b, sample_weight=w) == (both + neither) / (n * (n - 1) // 2)
    assert metrics.fowlkes_mallows_score(a, b, sample_weight=w) == math.sqrt(both * both / (first * second))
    assert metrics.contingency(a, b, sample_weight=w).n == n
    assert np.array_equal(metrics.contingency(a, b, sample_weight=w), table.astype(np.int64))


def test_information_does_not_depend_on_the_unit_of_weight():
    """MI, H are ratios; E[MI] → (k−1)(l−1)/2n."""
    table = np.array([[50, 10, 0], [5, 40, 15], [3, 2, 60]])
    i, j = np.nonzero(table)
    base = metrics.mutual_info_score(i, j, sample_weight=table[i, j])
    for unit in (10**3, 10**9, 10**15):
        w = table[i, j] * unit
        assert metrics.mutual_info_score(i, j, sample_weight=w) == pytest.approx(base, rel=1e-14)
        chance = metrics.expected_mutual_info(table.sum(axis=1) * unit, table.sum(axis=0) * unit)
        assert chance == pytest.approx(2.0 / int(w.sum()), rel=10 / unit)


def test_nearly_constant_and_nearly_single_labellings_keep_their_digits():
    n = 10**9
    # one odd row each, at different positions. They coincide with probability 1/n, and then MI = H: AMI = −1/(n−1)
    w = [n - 2, 1, 1]
    score = metrics.adjusted_mutual_info_score([0, 1, 0], [0, 0, 1], sample_weight=w)
    assert score == pytest.approx(-1 / (n - 1), rel=1e-11)
    assert metrics.mutual_info_score([0, 1, 0], [0, 0, 1], sample_weight=w) == pytest.approx(1 / n**2, rel=1e-6)
    # n rows, all single but one pair in each; the pairs share no row: MI − E[MI] of the order 1/n²
    n = 20_000
    a, b = np.arange(n), np.arange(n)
    a[1], b[3] = a[0], b[2]
    # x log x is 0 except for an overlap of 2: E[S] = 2 log 2 / C(n, 2), S_true = S_pred = 2 log 2
    chance = 2 / (n * (n - 1))
    assert metrics.adjusted_mutual_info_score(a, b) == pytest.approx(-chance / (1 - chance), rel=1e-12)


# ---- speed


def test_ami_is_at_least_300_times_as_fast_as_scikit_learn():
    rng = np.random.default_rng(0)
    a = rng.integers(1500, size=30_000)
    b = np.where(rng.random(30_000) < 0.5, a, rng.integers(1500, size=30_000))

    def seconds(score):
        start = time.perf_counter()
        score(a, b)
        return time.perf_counter() - start

    ours = min(seconds(metrics.adjusted_mutual_info_score) for _ in range(7))
    assert seconds(theirs.adjusted_mutual_info_score) > 300 * ours


def test_many_labels_need_no_square_table():
    a = np.arange(10**6) // 3
    table = metrics.contingency(a, a[::-1])
    assert len(table.counts) <= 10**6
    assert table.to_sparse().shape == table.shape
    with pytest.raises(CostError, match=r"333334 x 333334 cells needs 888.9 GB. Use to_sparse\(\)"):
        table.to_array()


# ---- the table


def test_contingency_by_hand():
    table = metrics.contingency(["b", "a", "b", "c"], [2.5, 1.5, 2.5, 1.5])
    assert table.row_labels.tolist() == ["a", "b", "c"]
    assert table.col_labels.tolist() == [1.5, 2.5]
    assert np.asarray(table).tolist() == [[1, 0], [0, 2], [1, 0]]
    assert table.to_sparse().toarray().tolist() == [[1, 0], [0, 2], [1, 0]]
    assert (table.n, table.shape) == (4, (3, 2))
    assert (table.row_sums.tolist(), table.col_sums.tolist()) == ([1, 2, 1], [2, 2])
    assert np.asarray(table, dtype=float).dtype == np.float64


@pytest.mark.parametrize(
    "labels",
    [
        [3, 3, 8],
        [True, True, False],
        ["x", "x", "y"],
        np.array([None, ("p", 1), ("p", 1), "y"], dtype=object)[1:],
        np.array([2**63, 2**63, 5], dtype=np.uint64),
        np.array([1e300, 1e300, -1e300]),
        np.array([-(2**63), -(2**63), 2**63 - 1]),
        np.array(["2020", "2020", "2021"], dtype="M8[Y]"),
    ],
)
def test_any_labels_that_can_be_distinguished(labels):
    assert sorted(metrics.contingency(labels, ["l", "l", "r"]).counts.tolist()) == [1, 2]
    assert metrics.adjusted_rand_score(labels, ["l", "l", "r"]) == 1.0


def test_pandas_labels():
    pd = pytest.importorskip("pandas")
    for labels in (pd.Series(["x", "x", "y"], dtype="category"), pd.Series([1, 1, 2], dtype="Int64")):
        assert metrics.adjusted_mutual_info_score(labels, [0, 0, 1]) == 1.0
    with pytest.raises(BadData, match=r"labels_true has a missing value \(<NA>\) at row 1"):
        metrics.adjusted_rand_score(np.array([1, pd.NA, 2], dtype=object), [0, 0, 1])
    with pytest.raises(BadData, match=r"labels_true has a .* at row 1"):  # NaN or NA, by the version of pandas
        metrics.adjusted_rand_score(pd.Series([1, None, 2], dtype="Int64"), [0, 0, 1])


def test_the_paper_s_figures():
    data = datasets.x1500()
    found = data.y.copy()
    found[[3, 5]] = 2  # two points of class 0 in class 2
    assert round(metrics.adjusted_mutual_info_score(data.y, found), 3) == 0.992
    assert round(metrics.adjusted_rand_score(data.y, found), 3) == 0.996


def test_what_noise_means_to_a_score():
    """The tables of docs/decisions/0006-metrics-noise-rule.md."""
    data = datasets.three_component_density()
    found = run(dbscan_graph(data.X, 0.5, 10)).labels
    few = np.full(600, -1)
    for c in range(3):
        few[np.flatnonzero(data.y == c)[:5]] = c
    assert (int((found < 0).sum()), int(found.max())) == (29, 2)
    tables = {
        "cluster": ((0.874, 0.907), (0.036, 0.002)),
        "drop": ((0.975, 0.983), (1.0, 1.0)),
        "singletons": ((0.849, 0.908), (0.008, 0.001)),
    }
    for rule, expected in tables.items():
        for labels, (ami, ari) in zip((found, few), expected):
            assert round(metrics.adjusted_mutual_info_score(data.y, labels, noise=rule), 3) == ami
            assert round(metrics.adjusted_rand_score(data.y, labels, noise=rule), 3) == ari


def test_labels_may_be_tuples_or_huge_integers():
    for labels in ([("a", 1), ("a", 2), ("a", 1)], [("a",), ("b", 2), ("a",)], [10**400, -1, 10**400]):
        assert metrics.adjusted_rand_score(labels, [0, 1, 0]) == 1.0
    assert metrics.contingency([("b", 1), ("a", 2)], [0, 1]).row_labels.tolist() == [("a", 2), ("b", 1)]
    singles = metrics.contingency([("a", 1), -1, -1], [0, 0, 0], noise="singletons")
    assert singles.row_labels.tolist() == [("a", 1), -1, -1]
    assert metrics.adjusted_rand_score([10**400, -1, 3], [0, 1, 2], noise="drop") == 1.0


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="NumPy 1")
def test_labels_may_be_variable_strings():
    names = np.array(["x", "a long name", "x"], dtype=np.dtypes.StringDType())
    assert metrics.adjusted_rand_score(names, [0, 1, 0]) == 1.0
    assert metrics.contingency(names, [0, 1, 0]).row_labels.tolist() == ["a long name", "x"]
    missing = np.array(["x", np.nan], dtype=np.dtypes.StringDType(na_object=np.nan))
    with pytest.raises(BadData, match=r"labels_true has a missing value \(nan\) at row 1"):
        metrics.adjusted_rand_score(missing, [0, 1])


# ---- bad input


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ([], [], "labels_true is empty. A score needs at least one row."),
        ([0, 1], [0], "labels_true has 2 rows and labels_pred 1. Both must label the same rows."),
        ([0, 1], [0.0, math.nan], "labels_pred has a NaN at row 1. Drop such rows"),
        ([0.0, math.inf], [0, 1], "labels_true has inf at row 1"),
        (["a", None], [0, 1], "labels_true has a missing value (None) at row 1. Drop such rows"),
        (["a", math.nan], [0, 1], "labels_true has a missing value (nan) at row 1"),
        (np.array(["2020", "NaT"], dtype="M8[D]"), [0, 1], "labels_true has a NaT at row 1"),
        (
            [[0], [1]],
            [0, 1],
            "labels_true must have one dimension, got shape (2, 1). Try np.ravel(labels_true).",
        ),
        ([[0, 1], [1, 0]], [0, 1], "must have one dimension, got shape (2, 2). Give one label per row."),
        (
            [[0], [1, 2]],
            [0, 1],
            "labels_true must be one label per row, got rows of different lengths. A tuple can be a label, a list",
        ),
        ([(1, [2]), (3,)], [0, 1], "labels_true has an unhashable label at row 0: (1, [2]). Use a string."),
        (np.array([{}, 1], dtype=object), [0, 1], "labels_true has an unhashable label at row 0: {}."),
        (np.array([1j, 2j]), [0, 1], "labels_true must be numbers, strings or objects, got complex128. Encode"),
        ("abc", [0], "labels_true must have one dimension, got shape (). Give one label per row."),
    ],
)
def test_bad_labels(a, b, message):
    for score in [*SCORES, *ONE_SIDED]:
        with pytest.raises(BadData) as error:
            score(a, b)
        assert message in str(error.value)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 0.5], "sample_weight must be whole numbers >= 0, got 0.5 at row 1. A weight counts repetitions"),
        ([1, -1], "sample_weight must be whole numbers >= 0, got -1 at row 1"),
        ([1, math.nan], "got nan at row 1"),
        ([math.inf, 1], "got inf at row 0"),
        ([1], "sample_weight must have shape (2,), got (1,). Give one weight for each label."),
        (["a", "b"], "sample_weight must be numbers, got <U1"),
        ([0, 0], "no rows are left to compare: every sample_weight is 0."),
        ([2**62, 2**62], f"sample_weight must sum to at most 2**62, got {2.0**63!r}. Divide the weights by"),
        (np.array([2**63, 2**63], dtype=np.uint64), f"must sum to at most 2**62, got {2.0**64!r}."),
        ([[1], [1, 2]], "sample_weight must have shape (2,), got rows of different lengths. Give one weight for each"),
        ([10**400, 1], "sample_weight must be numbers, got object."),
    ],
)
def test_bad_weights(weights, message):
    for score in [*SCORES, *ONE_SIDED]:
        with pytest.raises(BadData) as error:
            score([0, 1], [0, 1], sample_weight=weights)
        assert message in str(error.value)


def test_bad_rules():
    with pytest.raises(InvalidParameter, match="noise must be one of 'cluster', 'drop', 'singletons', got 'x'"):
        metrics.adjusted_rand_score([0], [0], noise="x")
    with pytest.raises(InvalidParameter, match=r"average_method must be one of 'arithmetic', .* got 'median'"):
        metrics.adjusted_mutual_info_score([0], [0], average_method="median")
    with pytest.raises(InvalidParameter, match=r"average_method must be one of 'arithmetic', .* got 'median'"):
        metrics.normalized_mutual_info_score([0], [0], average_method="median")
    for beta in (-1, math.nan, math.inf, "1", True):
        with pytest.raises(InvalidParameter, match=r"beta must be a finite number >= 0, got .* 1 weighs both alike"):
            metrics.v_measure_score([0], [0], beta=beta)
    with pytest.raises(InvalidParameter, match=r"eps cannot be added to a sparse matrix.* Give one of the two"):
        metrics.contingency_matrix([0], [0], eps=1.0, sparse=True)
    many = np.array(["drop", "cluster"])
    with pytest.raises(InvalidParameter, match=r"noise must be one of .*, got array\(\['drop', 'cluster'\]"):
        metrics.adjusted_rand_score([0], [0], noise=many)
    with pytest.raises(InvalidParameter, match=r"average_method must be one of .*, got array\("):
        metrics.adjusted_mutual_info_score([0], [0], average_method=many)
    with pytest.raises(BadData, match="no rows are left to compare: noise is 'drop' and every row is noise"):
        metrics.adjusted_rand_score([0, -1], [-1, 0], noise="drop")


@pytest.mark.parametrize("sizes", [[], [0, 2], [[1, 1]], [1.5, 0.5], ["a"], 2, [[1], [1, 2]], [10**400]])
def test_bad_sizes(sizes):
    with pytest.raises(BadData, match="row_sizes must be a list of whole numbers >= 1, got"):
        metrics.expected_mutual_info(sizes, [1, 1])


def test_sizes_must_count_the_same_rows():
    with pytest.raises(BadData, match=r"row_sizes sum to 3 and col_sizes to 4\. Both must count the same rows."):
        metrics.expected_mutual_info([1, 2], [2, 2])
    with pytest.raises(BadData, match=r"col_sizes must sum to at most 2\*\*62, got 9\.22.*e\+18. Divide the sizes by"):
        metrics.expected_mutual_info([1, 2], [2**62, 2**62])
