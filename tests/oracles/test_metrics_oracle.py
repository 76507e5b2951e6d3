"""The scores against brute force: all pairs, all permutations, exact fractions and 60-digit decimals."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from knoll.metrics import adjusted_mutual_info_score, adjusted_rand_score, expected_mutual_info
from knoll.metrics._expected import _pair_means

AVERAGES = {
    "arithmetic": lambda h, k: (h + k) / 2,
    "geometric": lambda h, k: math.sqrt(h * k),
    "max": max,
    "min": min,
}


def partitions(n):
    """All labellings of n rows in which labels appear in order: one per partition."""
    if n == 0:
        yield ()
        return
    for head in partitions(n - 1):
        for label in range(max(head, default=-1) + 2):
            yield (*head, label)


def rand_by_pairs(a, b):
    pairs = list(itertools.combinations(range(len(a)), 2))
    in_a, in_b = [a[i] == a[j] for i, j in pairs], [b[i] == b[j] for i, j in pairs]
    both = sum(p and q for p, q in zip(in_a, in_b))
    if in_a == in_b:
        return Fraction(1)
    expected = Fraction(sum(in_a) * sum(in_b), len(pairs))
    most = Fraction(sum(in_a) + sum(in_b), 2)
    return (both - expected) / (most - expected)


def mutual_info(a, b):
    n, in_a, in_b = len(a), Counter(a), Counter(b)
    return sum(c / n * math.log(n * c / (in_a[i] * in_b[j])) for (i, j), c in Counter(zip(a, b)).items())


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_every_pair_of_partitions_by_pairs_of_rows(n):
    for a, b in itertools.product(partitions(n), repeat=2):
        assert adjusted_rand_score(a, b) == float(rand_by_pairs(a, b)), (a, b)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
def test_every_pair_of_partitions_by_all_permutations(n):
    sorted_by_size = {tuple(sorted(Counter(a).values())): a for a in partitions(n)}
    for a, b in itertools.product(sorted_by_size.values(), repeat=2):
        different = sorted(set(itertools.permutations(b)))  # each arises equally often
        mean = math.fsum(mutual_info(a, p) for p in different) / len(different)
        sizes = [list(Counter(a).values()), list(Counter(b).values())]
        assert expected_mutual_info(*sizes) == pytest.approx(mean, abs=1e-14), (a, b)
        h, k = mutual_info(a, a), mutual_info(b, b)
        for permuted in different[:: 1 if n < 5 else 23]:
            for method, average in AVERAGES.items():
                top, bottom = mutual_info(a, permuted) - mean, average(h, k) - mean
                if abs(bottom) > 1e-9:
                    score = adjusted_mutual_info_score(a, permuted, average_method=method)
                    assert score == pytest.approx(top / bottom, abs=1e-12), (a, permuted, method)


def overlap_means(a, b, n):
    """E[x log(x/m)] and E[x log x] for the hypergeometric x, term by term in 80 digits."""
    with localcontext() as context:
        context.prec = 80
        low, high = max(0, a + b - n), min(a, b)
        mode = min(max((a + 1) * (b + 1) // (n + 2), low), high)
        weights, w = {mode: Decimal(1)}, Decimal(1)
        for x in range(mode, high):
            w = w * ((a - x) * (b - x)) / ((x + 1) * (n - a - b + x + 1))
            weights[x + 1] = w
            if w < Decimal("1e-60") and x > mode + 3:
                break
        w = Decimal(1)
        for x in range(mode, low, -1):
            w = w * (x * (n - a - b + x)) / ((a - x + 1) * (b - x + 1))
            weights[x - 1] = w
            if w < Decimal("1e-60"):
                break
        total = sum(weights.values())
        t = sum((w * x * Decimal(x).ln() for x, w in weights.items() if x > 1), Decimal(0)) / total
        log_m = Decimal(a * b).ln() - Decimal(n).ln()
        g = sum((w * x * (Decimal(x).ln() - log_m) for x, w in weights.items() if x), Decimal(0)) / total
        return g, t


@pytest.mark.parametrize("n", [10**3, 10**6, 10**9, 10**18])
def test_each_route_of_the_expectation_in_80_digits(n):
    a_little, root = 10 ** (int(math.log10(n)) // 3), math.isqrt(n)
    pairs = [
        (1, 1),
        (2, 2),
        (2, n - 1),
        (n - 1, 1),
        (n - 2, 3),
        (n // 2, 3),
        (a_little, a_little),
        (root, root),
    ]
    means = (0.03, 0.999, 1.0, 1.7, 20, 60, 127, 128, 140, 200)
    pairs += [(a, max(1, int(m * n / a))) for m in means for a in (2 * root, 3 * root) if m * n / a < n]
    for a, b in pairs:
        g, t = overlap_means(a, b, n)
        (ours_g,), (ours_t,) = _pair_means(np.array([a]), np.array([b]), n)
        assert abs(Decimal(float(ours_g)) - g) <= abs(g) * Decimal("3e-13"), (a, b, n)
        assert abs(Decimal(float(ours_t)) - t) <= abs(t) * Decimal("3e-15"), (a, b, n)


def central_moments(a, b, n, order):
    """Exact, from the factorial moments E[x(x−1)…(x−r+1)] = a…·b…/n… (falling products of r factors)."""
    factorial = [Fraction(math.perm(a, r) * math.perm(b, r), math.perm(n, r)) for r in range(order + 1)]
    stirling = [[1]]
    for r in range(1, order + 1):
        last = [*stirling[-1], 0]
        stirling.append([0] + [last[s - 1] + s * last[s] for s in range(1, r + 1)])
    raw = [sum(s * f for s, f in zip(row, factorial)) for row in stirling]
    m = Fraction(a * b, n)
    return [sum(math.comb(k, j) * raw[j] * (-m) ** (k - j) for j in range(k + 1)) for k in range(order + 1)]


@pytest.mark.parametrize(
    ("a", "b", "n"),
    [
        (10**8, 3 * 10**8, 10**9),
        (5 * 10**8, 5 * 10**8, 10**9),
        (10**9 - 7, 10**9 - 10**6, 10**9),
        (10**17, 4 * 10**17, 10**18),
        (10**6, 10**17, 10**18),
    ],
)
def test_huge_overlaps_by_exact_moments(a, b, n):
    m, mu = Fraction(a * b, n), central_moments(a, b, n, 8)
    exact = sum((-1) ** k * mu[k] / (k * (k - 1) * m ** (k - 1)) for k in range(2, 9))  # next term: below 1e-19
    (ours,), _ = _pair_means(np.array([a]), np.array([b]), n)
    assert ours == pytest.approx(float(exact), rel=1e-14)


@pytest.mark.parametrize("scale", [1, 10**3, 10**6])
@pytest.mark.parametrize("method", AVERAGES)
def test_score_of_a_table_with_up_to_a_thousand_million_rows(scale, method):
    table = np.array([[401, 17, 3], [90, 250, 31], [8, 0, 200]]) * scale
    rows, cols = np.nonzero(table)
    n = int(table.sum())
    with localcontext() as context:
        context.prec = 60

        def x_log_x(sizes):
            return sum(Decimal(int(s)) * Decimal(int(s)).ln() for s in np.ravel(sizes) if s)

        row_sums, col_sums = table.sum(axis=1).tolist(), table.sum(axis=0).tolist()
        n_log_n = x_log_x([n])
        n_h, n_k = n_log_n - x_log_x(row_sums), n_log_n - x_log_x(col_sums)
        n_mi = n_h + n_k - (n_log_n - x_log_x(table))
        n_emi = Decimal(0)
        for a, b in itertools.product(row_sums, col_sums):
            if a * b < 10**4 * n:
                n_emi += overlap_means(a, b, n)[0]
            else:
                m, mu = Fraction(a * b, n), central_moments(a, b, n, 8)
                mean = sum((-1) ** k * mu[k] / (k * (k - 1) * m ** (k - 1)) for k in range(2, 9))
                n_emi += Decimal(mean.numerator) / Decimal(mean.denominator)
        average = {"max": max(n_h, n_k), "min": min(n_h, n_k), "geometric": (n_h * n_k).sqrt()}
        exact = (n_mi - n_emi) / (average.get(method, (n_h + n_k) / 2) - n_emi)
    score = adjusted_mutual_info_score(rows, cols, sample_weight=table[rows, cols], average_method=method)
    assert score == pytest.approx(float(exact), abs=1e-14)
