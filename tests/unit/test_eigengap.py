"""k from the eigenvalues: exact components, known spectra of one cluster, data whose k is known, and bad input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_blobs, make_circles, make_moons

from knoll import scales, tuning
from knoll.exceptions import BadData, InvalidParameter
from knoll.spectral.eigengap import LEAST_JUMP, apart


def spectrum(X, m=16):
    """The m largest eigenvalues of D^-½KD^-½ at the suggested σ."""
    sigma = scales.estimate_sigma(X).sigma
    K = np.exp(-np.square(X[:, None] - X[None]).sum(axis=2) / (2 * sigma**2))
    root = np.sqrt(K.sum(axis=1))
    return np.linalg.eigvalsh(K / root[:, None] / root)[::-1][:m]


def by_difference(values):
    """The plain rule, beside which ours is shown: the largest difference, k ≥ 2."""
    return int(np.argmax((values[:-1] - values[1:])[1:])) + 2


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 8), st.integers(0, 2**32))
def test_components_are_counted(count, seed):
    """A graph of so many components has so many eigenvalues one; every other lies well below."""
    generator = np.random.default_rng(seed)
    others = np.sort(generator.uniform(-0.2, 0.6, size=6))[::-1]
    values = np.concatenate([1 - generator.uniform(0, 1e-15, size=count), others])
    choice = tuning.eigengap(generator.permutation(values), n_samples=1000)
    assert choice.best == count
    assert f"{count} eigenvalues are one" in choice.reason
    assert (choice.criterion, choice.model) == ("eigengap", None)


def test_the_curve():
    values = np.array([1.0, 0.99, 0.5, 0.45, 0.4])
    choice = tuning.eigengap(values)
    assert choice.best == 2
    assert choice.candidates.tolist() == [1, 2, 3, 4]
    np.testing.assert_array_equal(choice.curve["eigenvalue"], values[:-1])
    np.testing.assert_array_equal(choice.curve["difference"], values[:-1] - values[1:])
    assert int(np.argmax(choice.curve["eigengap"])) + 1 == choice.best
    assert choice.curve["eigengap"][0] == LEAST_JUMP
    assert "after 2 eigenvalues (0.99) the next is 0.5" in str(choice)


def one_cluster(name, m=16):
    """The first 1 − λ of a walk with small steps on shapes that are one cluster, by their vibrations."""
    i = np.arange(40.0)
    match name:
        case "line":
            law = i**2
        case "ring":
            law = np.repeat(i, 2)[1:] ** 2
        case "square":
            law = np.sort(np.add.outer(i**2, i**2).ravel())
        case _:  # a Gaussian hill in three dimensions
            law = np.sort(np.add.outer(np.add.outer(i[:9], i[:9]), i[:9]).ravel())
    return 1 - 1e-4 * law[:m]


@pytest.mark.parametrize("name", ["line", "ring", "square", "hill"])
@pytest.mark.parametrize("m", range(3, 31))
def test_one_cluster_is_one_cluster(name, m):
    values = one_cluster(name, m)
    choice = tuning.eigengap(values)
    assert choice.best == 1
    assert "no gap stands out" in choice.reason
    assert by_difference(values) > 1  # which cannot answer one


@pytest.mark.parametrize("name", ["line", "ring", "square", "hill"])
@pytest.mark.parametrize("k", [2, 3, 5])
def test_copies_of_a_shape_that_leak_a_little_are_so_many_clusters(name, k):
    values = np.repeat(one_cluster(name), k)[: 3 * k + 4]
    values[1:k] -= np.linspace(1e-6, 2e-6, k - 1)  # joined by a thread
    assert tuning.eigengap(values).best == k


def test_thin_threads_of_different_strength_do_not_hide_the_number():
    """Two pairs of clusters, far apart: 1e-9, 1e-5 and 5e-5 all mean "closed" beside 0.4."""
    values = 1 - np.array([0, 1e-9, 1e-5, 5e-5, 0.4, 0.42, 0.45, 0.5, 0.55])
    assert tuning.eigengap(values).best == 4


def test_high_dimensions_where_all_eigenvalues_leave_one():
    """There 1 − λ cannot grow much any more, and the odds can."""
    values = np.array([1, 0.53, 0.44, 0.40, 0.059, 0.057, 0.055, 0.054, 0.052, 0.051])
    assert tuning.eigengap(values).best == 4


def test_ties_go_to_the_smaller_number():
    values = np.array([1.0, 1.0, 0.5, 0.5, 0.5])
    assert tuning.eigengap(values).best == 2
    assert tuning.eigengap([1.0, 0.0, 0.0, 0.0]).best == 1


def test_all_one_means_as_many_as_were_inspected():
    choice = tuning.eigengap(np.ones(5))
    assert choice.best == 4
    assert "all 5 eigenvalues are one: the graph has at least 5 components; a larger sigma joins them" in choice.reason
    assert "4 is the largest number tried, so try larger ones too" in choice.reason


def test_two_eigenvalues_report_of_one():
    assert tuning.eigengap([1.0, 0.3]).best == 1


def test_a_close_second_is_named():
    choice = tuning.eigengap(1 - np.array([0, 0.01, 0.1, 0.11, 0.5, 0.52, 0.55, 0.6, 0.62]))
    assert "is close behind, so compare both" in choice.reason


def test_rounding_is_reported_by_the_number_of_rows():
    values = [1.0, 1 - 1e-11, 1 - 4e-10, 1 - 8e-10, 1 - 9e-10]
    assert tuning.eigengap(values).best == 2
    assert "all 5 eigenvalues are one" in tuning.eigengap(values, n_samples=10**6).reason


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: tuning.eigengap([1.0]), BadData, r"at least two numbers in a row, got shape \(1,\)"),
        (lambda: tuning.eigengap(np.eye(2)), BadData, r"got shape \(2, 2\)"),
        (lambda: tuning.eigengap([1.0, np.nan, 0.5]), BadData, r"the eigenvalue at position 1 is not finite"),
        (lambda: tuning.eigengap(["one", "two"]), BadData, r"eigenvalues must be numbers, got \['one', 'two'\]"),
        (
            lambda: tuning.eigengap([3.0, 1.0, 0.5]),
            BadData,
            r"an eigenvalue is 3, and those of D\^-½AD\^-½ lie between",
        ),
        (lambda: tuning.eigengap([1.0, -1.5]), BadData, r"an eigenvalue is -1\.5, .* Divide the similarities"),
        (lambda: tuning.eigengap([1.0, 0.5], n_samples=0), InvalidParameter, r"n_samples must be >= 1, got 0"),
    ],
)
def test_messages(call, error, message):
    with pytest.raises(error, match=message):
        call()


def known(seed):
    """Data whose k nobody doubts."""
    centers = 9 * np.array([[0.0, 0], [1, 0], [0, 1], [1, 1]])
    yield make_moons(300, noise=0.04, random_state=seed)[0], 2
    yield make_circles(300, factor=0.4, noise=0.04, random_state=seed)[0], 2
    yield make_blobs(240, centers=9 * np.eye(3, 5), random_state=seed)[0], 3
    yield make_blobs(240, centers=9 * np.eye(4, 10), random_state=seed)[0], 4
    yield make_blobs(240, centers=9 * np.eye(5, 20), random_state=seed)[0], 5
    yield np.random.default_rng(seed).uniform(size=(240, 2)), 1
    yield np.random.default_rng(seed).normal(size=(240, 10)), 1
    yield centers[np.arange(240) % 4] + np.random.default_rng(seed).uniform(size=(240, 2)), 4


def test_the_number_is_found_where_it_is_known_and_more_often_than_by_differences():
    data = [(spectrum(X), len(X), k) for seed in (0, 1) for X, k in known(seed)]
    ours = [tuning.eigengap(values, n_samples=n).best for values, n, _ in data]
    truth = [k for *_, k in data]
    hits = sum(a == b for a, b in zip(ours, truth, strict=True))
    plain = sum(by_difference(values) == k for values, _, k in data)
    assert hits >= len(data) - 1, list(zip(ours, truth, strict=True))
    assert hits > plain


def test_two_eigenvalues_that_differ_look_different_and_a_wide_gap_is_no_power_of_ten():
    reason = tuning.eigengap([1.0, 0.9999999, 0.9999, 0.9998, 0.9997, 0.9996]).reason
    assert "after 2 eigenvalues (1) the next is 0.9999, a gap " in reason
    assert apart(0.999998, 0.999961) == ("1", "0.99996")
    assert apart(0.5, 0.5) == ("0.5", "0.5")
    wide = tuning.eigengap([1.0, 1 - 1e-6, 0.9, 0.85, 0.8, 0.78, 0.75]).reason
    assert "e+" not in wide
    assert "times as wide" in wide
