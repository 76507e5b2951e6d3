"""Laws of scores of clusters by their points: order, weights, units, threads, noise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from knoll import metrics, tuning

SCORES = [
    metrics.silhouette_score,
    metrics.davies_bouldin_score,
    metrics.calinski_harabasz_score,
    metrics.dbcv_score,
]
WITH_NOISE_RULES = SCORES[:3]


def distances(score):
    """The score of the matrix of distances."""

    def of_distances(X, labels, **options):
        return score(cdist(X, X), labels, metric="precomputed", **options)

    return of_distances


EVERY = [*SCORES, distances(metrics.silhouette_score)]


def table(seed=0, n=120, d=3, k=4, repeats=True):
    rng = np.random.default_rng(seed)
    labels = rng.integers(-1, k, size=n)
    X = rng.normal(size=(n, d)) + 3 * rng.normal(size=(k + 1, d))[labels]
    if repeats:  # rows that are equal, in one cluster and in two
        X[1::7] = X[0]
        X[2::9] = np.round(X[2::9])
    return X, labels


@pytest.mark.parametrize("score", EVERY)
@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_rows_changes_no_bit(score, seed):
    X, labels = table(seed)
    weights = np.random.default_rng(seed).integers(1, 4, size=len(X)).astype(float)
    order = np.random.default_rng(seed).permutation(len(X))
    assert score(X, labels) == score(X[order], labels[order])
    weighted = score(X, labels, sample_weight=weights)
    assert weighted == score(X[order], labels[order], sample_weight=weights[order])


@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_rows_changes_no_silhouette(seed):
    X, labels = table(seed)
    order = np.random.default_rng(seed).permutation(len(X))
    for rows, options in ((X, {}), (X, {"metric": "cosine"}), (cdist(X, X), {"metric": "precomputed"})):
        turned = rows[order][:, order] if options.get("metric") == "precomputed" else rows[order]
        found = metrics.silhouette_samples(rows, labels, **options)
        np.testing.assert_array_equal(found[order], metrics.silhouette_samples(turned, labels[order], **options))


@pytest.mark.parametrize("score", EVERY)
@pytest.mark.parametrize("seed", range(4))
def test_a_weight_is_a_repetition(score, seed):
    X, labels = table(seed)
    w = np.random.default_rng(seed).integers(0, 4, size=len(X))
    repeated = score(np.repeat(X, w, axis=0), np.repeat(labels, w))
    assert score(X, labels, sample_weight=w) == pytest.approx(repeated, rel=1e-13)


@pytest.mark.parametrize("rule", ["cluster", "drop", "singletons"])
@pytest.mark.parametrize("score", WITH_NOISE_RULES)
def test_a_weight_is_a_repetition_under_every_rule_for_noise(score, rule):
    X, labels = table()
    w = np.random.default_rng(0).integers(0, 4, size=len(X))
    repeated = score(np.repeat(X, w, axis=0), np.repeat(labels, w), noise=rule)
    assert score(X, labels, sample_weight=w, noise=rule) == pytest.approx(repeated, rel=1e-13)


@pytest.mark.parametrize("score", [*WITH_NOISE_RULES, distances(metrics.silhouette_score)])
def test_rules_for_noise_are_relabellings(score):
    X, labels = table(repeats=False)
    noise = labels == -1
    assert score(X, labels) == score(X, np.where(noise, 99, labels))
    kept = X[~noise]
    assert score(X, labels, noise="drop") == score(kept, labels[~noise])
    apart = np.where(noise, 100 + np.arange(len(X)), labels)
    assert score(X, labels, noise="singletons") == pytest.approx(score(X, apart), rel=1e-14)


def test_silhouettes_of_noise():
    X, labels = table()
    noise = labels == -1
    dropped = metrics.silhouette_samples(X, labels, noise="drop")
    assert np.isnan(dropped[noise]).all()
    np.testing.assert_array_equal(dropped[~noise], metrics.silhouette_samples(X[~noise], labels[~noise]))
    single = metrics.silhouette_samples(X, labels, noise="singletons", sample_weight=np.full(len(X), 3.0))
    assert (single[noise] == 0).all()
    assert (single[~noise] != 0).any()


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("power", [-900, -40, 60, 900])
def test_units_change_no_bit(score, power):
    X, labels = table()
    assert score(np.ldexp(X, power), labels) == score(X, labels)


@pytest.mark.parametrize("score", EVERY)
def test_threads_and_layout_change_no_bit(score):
    X, labels = table(n=400)
    expected = score(X, labels, n_jobs=1)
    assert score(X, labels, n_jobs=3) == expected
    assert score(np.asfortranarray(X), labels.astype(np.int8), n_jobs=2) == expected


@pytest.mark.parametrize("score", SCORES)
def test_names_of_labels_do_not_matter(score):
    X, labels = table()
    labels[labels == -1] = 5
    names = np.array(["a", "b", "c", "d", "e", "f"])
    assert score(X, names[labels]) == pytest.approx(score(X, labels), rel=1e-14)
    assert score(X, names[::-1][labels]) == pytest.approx(score(X, labels), rel=1e-14)


@pytest.mark.parametrize("score", SCORES)
def test_float32_rows_are_their_values(score):
    X, labels = table()
    X = X.astype(np.float32)
    assert score(X, labels) == score(X.astype(np.float64), labels)


def test_noise_costs_its_share_of_the_validity():
    X, labels = table()
    noise = labels == -1
    without = metrics.dbcv_score(X[~noise], labels[~noise])
    assert metrics.dbcv_score(X, labels) == pytest.approx(without * (~noise).mean(), rel=1e-14)
    alone = np.append(labels, 77)  # a cluster of one row is noise
    far = np.vstack([X, X.max(axis=0) + 1])
    assert metrics.dbcv_score(far, alone) == metrics.dbcv_score(far, np.append(labels, -1))


def test_scores_stay_in_their_ranges_on_equal_rows():
    X, labels = np.repeat([[1.0, 2.0]], 6, axis=0), [0, 0, 0, 1, 1, 1]
    assert metrics.dbcv_score(X, labels) == 0.0
    assert metrics.silhouette_score(X, labels) == 0.0
    assert metrics.davies_bouldin_score(X, labels) == 0.0
    assert metrics.calinski_harabasz_score(X, labels) == 1.0


# ---- samples


def test_a_sample_sees_a_multiset():
    X, labels = table(n=300)
    w = np.random.default_rng(1).integers(0, 3, size=len(X))
    order = np.random.default_rng(2).permutation(len(X))
    options = {"sample_size": 100, "random_state": 7}
    expected = metrics.silhouette_score(X, labels, sample_weight=w, **options)
    assert metrics.silhouette_score(X[order], labels[order], sample_weight=w[order], **options) == expected
    repeated = metrics.silhouette_score(np.repeat(X, w, axis=0), np.repeat(labels, w), **options)
    assert repeated == pytest.approx(expected, rel=1e-13)
    assert metrics.silhouette_score(X, labels, sample_size=100, random_state=8) != expected


def test_a_sample_of_all_rows_is_all_rows():
    X, labels = table()
    whole = metrics.silhouette_score(X, labels)
    assert metrics.silhouette_score(X, labels, sample_size=10**6) == pytest.approx(whole, rel=1e-14)
    gaps = cdist(X, X)
    whole = metrics.silhouette_score(gaps, labels, metric="precomputed")
    assert metrics.silhouette_score(gaps, labels, metric="precomputed", sample_size=len(X)) == whole


def test_samples_estimate_the_score():
    X, labels = table(n=2000)
    whole = metrics.silhouette_score(X, labels)
    found = [metrics.silhouette_score(X, labels, sample_size=400, random_state=seed) for seed in range(20)]
    assert len(set(found)) == 20
    assert abs(np.mean(found) - whole) < 0.02


def test_there_is_one_silhouette():
    assert tuning.silhouette_samples is metrics.silhouette_samples
