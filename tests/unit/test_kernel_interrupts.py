"""Ctrl-C stops the kernel family soon, in each long phase, and leaves an estimator as it was."""

from __future__ import annotations

import signal
import threading
import time

import numpy as np
import pytest

from knoll import KernelKMeans, SpectralClustering
from knoll.spectral import eigen

LABELS = np.random.default_rng(0).integers(20, size=60_000)

PHASES = {  # each would take many seconds
    "products by tiles": (SpectralClustering(3, sigma=0.3, operator="tiles", eigen_tol=1e-14), (60_000, 3)),
    "the stored matrix": (SpectralClustering(3, sigma=8.0, operator="stored", eigen_tol=1e-14), (8_000, 600)),
    "a start of low rank": (SpectralClustering(3, sigma=0.5), (150_000, 3)),
    "neighbours in many columns": (SpectralClustering(3, affinity="nearest_neighbors"), (60_000, 40)),
    "the width from the data": (SpectralClustering(3), (150_000, 30)),
    "steps of kernel k-means": (KernelKMeans(20, sigma=0.5, init=LABELS, max_iter=10_000), (60_000, 8)),
    "a spectral start": (KernelKMeans(20, sigma=0.5, init="spectral"), (60_000, 8)),
}


@pytest.mark.parametrize("phase", PHASES)
def test_ctrl_c_leaves_the_estimator_as_it_was(phase):
    model, shape = PHASES[phase]
    X = np.random.default_rng(0).normal(size=shape)
    sent = []

    def interrupt():
        sent.append(time.monotonic())
        signal.raise_signal(signal.SIGINT)

    timer = threading.Timer(0.7, interrupt)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            model.fit(X)
        heard = time.monotonic()
    finally:
        timer.cancel()
    assert heard - sent[0] < 2.0  # a busy machine included; on an idle machine a few tenths of a second
    assert not [name for name in vars(model) if name.endswith("_")]


@pytest.mark.parametrize("model", [SpectralClustering(2, sigma=0.5), KernelKMeans(2, sigma=0.5)])
def test_a_fitted_one_keeps_its_fit(model):
    small = np.random.default_rng(0).normal(size=(80, 3))
    model.set_params(random_state=0).fit(small)
    before = dict(vars(model))
    timer = threading.Timer(0.4, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        model.set_params(n_init=200).fit(np.random.default_rng(1).normal(size=(60_000, 3)))
    timer.cancel()
    model.set_params(n_init=before["n_init"])
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is before[name] for name in before if name.endswith("_"))
    assert (model.predict(small) == model.labels_).all()


def test_ctrl_c_does_not_wait_for_a_factorisation(monkeypatch):
    """SciPy's cannot be interrupted, so nobody waits for it."""
    real = eigen._Factor

    def slow(system):
        if system.shape[0] > 10_000:  # not the ball from which the fill is estimated
            threading.Timer(0.2, signal.raise_signal, [signal.SIGINT]).start()
            time.sleep(4.0)
        return real(system)

    monkeypatch.setattr(eigen, "_Factor", slow)
    X = np.sort(np.random.default_rng(0).uniform(0, 1, size=(12_000, 1)), axis=0)
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        SpectralClustering(3, affinity="nearest_neighbors", n_neighbors=30).fit(X)
    assert time.monotonic() - begun < 3.5
