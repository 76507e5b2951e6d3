"""Calls may run in several threads at once: none changes the warning filters or the BLAS threads of the process.

Six threads fit and compare with settings of their own, while one holds a limit of BLAS threads and one the filters of
the process; both look at them all the time. Every result, and every warning, is that of the same call made alone.
"""

from __future__ import annotations

import hashlib
import threading
import time
import warnings
from collections import Counter

import numpy as np
import pytest
import threadpoolctl
from sklearn.datasets import make_moons

from knoll import DBSCAN, Gaussian, GaussianMixture, KernelKMeans, KMeans, MeanShift, SpectralClustering
from knoll.comparison import compare
from knoll.exceptions import KnollWarning

BLAS_THREADS = 3
MOONS = make_moons(700, noise=0.06, random_state=0)[0]
BLOBS = np.concatenate([np.random.default_rng(c).normal(3 * c, 1, size=(70, 5)) for c in range(3)])


def digest(model):
    """Digest the labels and all other arrays of a fitted model but the seconds of its history."""
    arrays = model.to_state()[1]
    chunks = [f"{name}{array.dtype}".encode() + array.tobytes() for name, array in sorted(arrays.items())
             if not name.endswith("seconds")]  # fmt: skip
    return hashlib.sha256(b"".join(chunks)).hexdigest()


def fits(*models):
    """Make a call that fits each model to its data, a few times over."""
    return lambda: [digest(model.fit(X)) for _ in range(2) for model, X in models]


def comparison(X, **options):
    def call():
        found = compare(X, budget=600.0, **options)
        return found.recommendation.method, {
            name: (digest(one.model), one.warnings, one.labels.tolist())
            for name, one in found.candidates.items()
            if hasattr(one.model, "to_state")
        }

    return call


# fmt: off
CALLS = {
    "compare": comparison(MOONS[::4], methods=["kmeans", "spectral", "dbscan"], k=range(1, 4), seed=1),
    "compare, threads": comparison(BLOBS, methods=["gaussian-mixture", "kernel-kmeans", "mean-shift"], k=[3], n_jobs=2),
    "spectral": fits((SpectralClustering(2, affinity="nearest_neighbors", random_state=0), MOONS),
                     (SpectralClustering(2, sigma=0.1, random_state=0), MOONS[:400]),
                     (SpectralClustering(2, sigma=0.1, random_state=0, operator="tiles"), MOONS)),
    "not converged": fits((GaussianMixture(3, max_iter=1, random_state=0), BLOBS),
                          (GaussianMixture(2, covariance_type="tied", random_state=0), MOONS)),
    "suspicious": fits((DBSCAN(1e-6), MOONS), (DBSCAN(0.2), MOONS), (Gaussian(), np.ones((30, 2))),
                       (MeanShift(bandwidth=0.8), MOONS)),
    "k-means": fits((KMeans(4, n_init=2, random_state=0), BLOBS), (KMeans(3, max_iter=1, random_state=0), MOONS),
                    (KernelKMeans(3, sigma=0.5, random_state=0, n_jobs=2), MOONS)),
}
# fmt: on


def blas_threads():
    return {one["num_threads"] for one in threadpoolctl.threadpool_info() if one["user_api"] == "blas"}


def watching(read, expected, started, ended, changes):
    """Look at a state of the process until all calls have ended."""
    started.wait()
    while not ended.is_set():
        if (found := read()) != expected:
            changes.append(found)
        time.sleep(0.0005)


def watch_blas(started, ended, changes):
    with threadpoolctl.threadpool_limits(BLAS_THREADS, user_api="blas"):
        watching(blas_threads, {BLAS_THREADS}, started, ended, changes)


def run_all(changes):
    """Run the calls at once beside the two that watch; return their results."""
    results, started, ended = {}, threading.Barrier(len(CALLS) + 2), threading.Event()

    def call(name):
        started.wait()
        try:
            results[name] = CALLS[name]()
        except BaseException as error:  # shown by the comparison below
            results[name] = error

    filters = list(warnings.filters)
    watchers = [
        threading.Thread(target=watch_blas, args=(started, ended, changes)),
        threading.Thread(target=watching, args=(lambda: list(warnings.filters), filters, started, ended, changes)),
    ]
    workers = [threading.Thread(target=call, args=(name,)) for name in CALLS]
    for thread in (*watchers, *workers):
        thread.start()
    for worker in workers:
        worker.join()
    ended.set()
    for watcher in watchers:
        watcher.join()
    return results


def knoll_warnings(caught):
    return Counter(str(one.message) for one in caught if issubclass(one.category, KnollWarning))


@pytest.mark.filterwarnings("always")
def test_eight_threads_at_once():
    before = blas_threads()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        alone = {name: call() for name, call in CALLS.items()}
    expected = knoll_warnings(caught)
    assert len(expected) >= 3  # there is something to lose
    changes: list = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        together = run_all(changes)
    assert changes == []
    assert together == alone
    assert knoll_warnings(caught) == expected
    assert blas_threads() == before
