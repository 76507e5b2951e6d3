"""Real worker processes on loopback, one cluster for all tests, and fits to compare with."""

from __future__ import annotations

import numpy as np
import pytest

OPTIONS = {"dashboard_address": None, "host": "127.0.0.1", "silence_logs": 50}


@pytest.fixture(scope="session")
def client():
    """Two workers with nannies; it is not the active client."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, **OPTIONS) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture
def same_bits():
    """Assert that two models have the same bits in these attributes."""

    def check(a, b, names):
        for name in names:
            assert np.asarray(getattr(a, name)).tobytes() == np.asarray(getattr(b, name)).tobytes(), name

    return check
