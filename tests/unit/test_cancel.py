"""A token stops what its thread computes, from another thread or by the clock, and nothing else."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from knoll import (
    DBSCAN,
    HDBSCAN,
    OPTICS,
    AgglomerativeClustering,
    CancelToken,
    DensityTree,
    Gaussian,
    GaussianMixture,
    KernelKMeans,
    KMeans,
    MeanShift,
    SpectralClustering,
)
from knoll.exceptions import Cancelled, InvalidParameter

SOON = 1.0  # seconds, on a machine that does other work, too

LONG = [
    (KMeans(n_clusters=300, n_init=50, max_iter=10_000, tol=0.0), (100_000, 16)),
    (GaussianMixture(n_components=30, n_init=20, max_iter=10_000, tol=0.0), (100_000, 16)),
    (KernelKMeans(n_clusters=20, n_init=50, max_iter=1000), (4000, 8)),
    (SpectralClustering(n_clusters=20, n_init=50), (12_000, 16)),
    (DBSCAN(eps=3.0, min_samples=5), (200_000, 16)),
    (HDBSCAN(), (300_000, 12)),
    (OPTICS(), (300_000, 12)),
    (DensityTree(), (300_000, 12)),
    (MeanShift(bandwidth=1.0), (200_000, 8)),
    (AgglomerativeClustering(n_clusters=2), (100_000, 16)),
]


@pytest.mark.parametrize(("estimator", "shape"), LONG, ids=lambda value: type(value).__name__)
def test_another_thread_stops_a_fit(estimator, shape):
    X = np.random.default_rng(0).normal(size=shape)
    token = CancelToken()
    cancelled = []

    def cancel() -> None:
        cancelled.append(time.perf_counter())
        token.cancel()

    before = dict(vars(estimator))
    timer = threading.Timer(0.4, cancel)
    with token:
        timer.start()
        with pytest.raises(Cancelled, match="the computation was cancelled"):
            estimator.fit(X)
    assert time.perf_counter() - cancelled[0] < SOON
    assert vars(estimator) == before


def test_a_deadline_stops_a_fit():
    X = np.random.default_rng(0).normal(size=(100_000, 16))
    begun = time.perf_counter()
    with CancelToken(seconds=0.3) as token, pytest.raises(Cancelled):
        KMeans(n_clusters=300, n_init=50, max_iter=10_000, tol=0.0).fit(X)
    assert token.cancelled
    assert 0.3 <= time.perf_counter() - begun < 0.3 + SOON


def test_short_calls_are_stopped_at_their_beginning():
    token = CancelToken()
    token.cancel()
    with token, pytest.raises(Cancelled):
        Gaussian().fit(np.eye(3))
    assert Gaussian().fit(np.random.default_rng(0).normal(size=(9, 2))).mean_.shape == (2,)


def test_tokens_are_nested_and_the_first_counts():
    outer, inner = CancelToken(), CancelToken(seconds=1e9)
    with outer, inner:
        outer.cancel()
        with pytest.raises(Cancelled):
            KMeans(n_clusters=2).fit(np.eye(4))
    assert outer.cancelled
    assert not inner.cancelled
    with inner:
        KMeans(n_clusters=2).fit(np.eye(4))


def test_other_threads_go_on():
    token = CancelToken()
    token.cancel()
    results = []
    with token:
        thread = threading.Thread(target=lambda: results.append(KMeans(n_clusters=2).fit(np.eye(4)).labels_))
        thread.start()
        thread.join()
    assert len(results) == 1


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), "1"])
def test_seconds_are_a_number_from_0_on(seconds):
    with pytest.raises(InvalidParameter, match="CancelToken"):
        CancelToken(seconds)
