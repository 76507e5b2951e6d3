"""Scores of clusters by their points: what bad input gets."""

from __future__ import annotations

import math

import numpy as np
import pytest

from knoll import CancelToken, metrics
from knoll.exceptions import BadData, Cancelled, InvalidParameter, InvalidType

X = np.array([[0.0], [1.0], [9.0], [10.0]])
LABELS = [0, 0, 1, 1]
SCORES = [
    metrics.silhouette_samples,
    metrics.silhouette_score,
    metrics.davies_bouldin_score,
    metrics.calinski_harabasz_score,
    metrics.dbcv_score,
]
NOT_VALIDITY = SCORES[:4]


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize(
    ("points", "labels", "message"),
    [
        ([[0.0], [math.nan]], [0, 1], "X has a NaN at row 1, column 0. Drop or impute such rows first"),
        ([[0.0], [math.inf]], [0, 1], "X has an infinity at row 1, column 0"),
        (X, [0, 0, 1], "labels has shape (3,); give one for each of 4 rows"),
        (X, [[0], [0], [1], [1]], "labels must have one dimension, got shape (4, 1). Try np.ravel(labels)."),
        (X, [0, 0, 1, math.nan], "labels has a NaN at row 3. Drop such rows"),
        (X, ["a", "a", "b", None], "labels has a missing value (None) at row 3"),
        (np.ma.masked_array(X, X > 9), LABELS, "X has 1 masked entries"),
        ([["a"], ["b"]], [0, 1], "X has 'a' at row 0, column 0, where a number is needed"),
    ],
)
def test_bad_data(score, points, labels, message):
    with pytest.raises(BadData) as error:
        score(points, labels)
    assert message in str(error.value)


@pytest.mark.parametrize("score", NOT_VALIDITY)
@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        ([3, 3, 3, 3], {}, "there is only one cluster; .* needs at least two. Cluster into two or more"),
        ([0, 1, 2, 3], {}, "each of the 4 rows is a cluster of its own; .* needs a cluster of two rows or more"),
        ([-1, -1, -1, -1], {}, "there is only one cluster"),
        (
            [-1, -1, -1, -1],
            {"noise": "drop"},
            "every row is noise, -1, which is left out, so there is no cluster to score",
        ),
        ([-1, -1, -1, -1], {"noise": "singletons"}, "each of the 4 rows is a cluster of its own"),
        ([0, 0, -1, -1], {"noise": "drop"}, "there is only one cluster"),
        ([0, 0, 1, 1], {"sample_weight": [1, 1, 0, 0]}, "only one cluster has a row of weight > 0"),
        ([0, 0, 1, 1], {"sample_weight": [1, 0, 1, 0]}, "each of the 2 rows is a cluster of its own"),
        ([0, 0, 1, 1], {"sample_weight": [0, 0, 0, 0]}, "every sample_weight is zero, so no row counts"),
        ([0, 0, 1, 1], {"sample_weight": [1, 1, 1, -1]}, "sample_weight must be finite and >= 0, got -1.0 at row 3"),
        ([0, 0, 1, 1], {"sample_weight": [1, 1]}, "expected .4,.: one weight for each row of X"),
    ],
)
def test_clusters_that_have_no_score(score, labels, options, message):
    with pytest.raises(BadData, match=f"{score.__name__}: .*{message}|labels.*{message}"):
        score(X, labels, **options)


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        ([3, 3, 3, 3], {}, "1 of 1 clusters has two rows or more; the score needs two such clusters"),
        ([0, 1, 2, 3], {}, "0 of 4 clusters has two rows or more"),
        ([-1, -1, -1, -1], {}, "every row is noise, -1, which is left out"),
        ([0, 0, -1, -1], {}, "1 of 1 clusters has two rows or more.* Noise, -1, is no cluster"),
        ([0, 0, 1, 1], {"sample_weight": [1, 1, 1.5, 1]}, "sample_weight must be whole numbers, got 1.5 at row 2"),
        ([0, 0, 1, 1], {"sample_weight": [2.0**53, 2.0, 2, 2]}, r"must sum to at most 2\*\*53"),
    ],
)
def test_clusters_that_have_no_validity(labels, options, message):
    with pytest.raises(BadData, match=f"dbcv_score: .*({message})"):
        metrics.dbcv_score(X, labels, **options)


@pytest.mark.parametrize("score", NOT_VALIDITY)
def test_bad_rule_for_noise(score):
    with pytest.raises(InvalidParameter, match="noise must be one of 'cluster', 'drop', 'singletons', got 'keep'"):
        score(X, LABELS, noise="keep")


@pytest.mark.parametrize("score", SCORES)
def test_bad_threads(score):
    with pytest.raises(InvalidType, match=rf"{score.__name__}: n_jobs must be .*a whole number, got 1\.5"):
        score(X, LABELS, n_jobs=1.5)


def test_bad_options_of_silhouettes():
    with pytest.raises(InvalidParameter, match="sample_size must be >= 1, got 0"):
        metrics.silhouette_score(X, LABELS, sample_size=0)
    with pytest.raises(InvalidParameter, match="silhouette_samples: metric must be a name or a callable, got 3"):
        metrics.silhouette_samples(X, LABELS, metric=3)
    with pytest.raises(InvalidParameter, match="silhouette_samples: metric 'no such' cannot be computed"):
        metrics.silhouette_samples(X, LABELS, metric="no such")
    with pytest.raises(InvalidParameter, match="metric 'gower' needs to know the types of the columns"):
        metrics.silhouette_samples(X, LABELS, metric="gower")
    with pytest.raises(BadData, match="only one cluster has a row of weight > 0; a silhouette of the sample needs"):
        metrics.silhouette_score(X, LABELS, sample_size=1, random_state=1)
    with pytest.raises(BadData, match="to draw a sample, sample_weight must be whole numbers"):
        metrics.silhouette_score(X, LABELS, sample_weight=[0.5, 1, 1, 1], sample_size=2)


def test_bad_distances():
    gaps = np.abs(X - X.T)
    for score in (metrics.silhouette_samples, metrics.silhouette_score):
        with pytest.raises(BadData, match=r"precomputed distances must be a square matrix, got shape \(4, 3\)"):
            score(gaps[:, :3], LABELS, metric="precomputed")
        with pytest.raises(BadData, match=r"distances must be >= 0, got -1\.0 at row 2, column 1\. Are these simil"):
            score(np.where(np.arange(16).reshape(4, 4) == 9, -1.0, gaps), LABELS, metric="precomputed")
        with pytest.raises(BadData, match=r"the distance of row 1 to itself is 0\.5, not 0\. Use np\.fill_diagonal"):
            score(gaps + np.diag([0, 0.5, 0, 0]), LABELS, metric="precomputed")
    close = gaps + np.diag([0, 1e-15, 0, 0])
    np.testing.assert_array_equal(
        metrics.silhouette_samples(close, LABELS, metric="precomputed"),
        metrics.silhouette_samples(gaps, LABELS, metric="precomputed"),
    )


def test_bad_metric_of_the_validity():
    with pytest.raises(InvalidParameter, match="metric must be one of 'euclidean', 'sqeuclidean', got 'cosine'"):
        metrics.dbcv_score(X, LABELS, metric="cosine")


def test_weights_below_the_number_of_clusters():
    rows, labels, w = [[0.0], [1.0], [2.0], [5.0], [6.0]], [0, 0, 1, 2, 3], [0.9, 0.9, 0.2, 0.2, 0.2]
    with pytest.raises(BadData, match=r"the weights sum to 2\.4 for 4 clusters. A score needs more rows than clusters"):
        metrics.calinski_harabasz_score(rows, labels, sample_weight=w)


@pytest.mark.parametrize("score", [metrics.silhouette_score, metrics.dbcv_score])
def test_long_scores_can_be_stopped(score):
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(60_000, 16)), rng.integers(2, size=60_000)
    with pytest.raises(Cancelled), CancelToken(0.05):
        score(rows, labels)


def test_memory_is_linear():
    """n² distances would be 3.2 GB."""
    import tracemalloc

    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(20_000, 1)), rng.integers(3, size=20_000)
    tracemalloc.start()
    metrics.silhouette_score(rows, labels)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000 * 500
