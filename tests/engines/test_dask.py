"""The workers of a dask cluster, real processes on loopback: the bits of this process, also after one is killed."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time

import numpy as np
import pytest

import knoll
from knoll import Gaussian, GaussianMixture, KMeans
from knoll.engines import _tasks
from knoll.exceptions import BadData, EngineError, InvalidParameter, InvalidType

distributed = pytest.importorskip("distributed")


def write(folder, n=20_000, d=4, dtype=np.float64, files=5):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(n, d)) + 5 * rng.integers(0, 3, size=(n, 1))).astype(dtype)
    cuts = np.sort(rng.integers(0, n, files - 1))
    for number, chunk in enumerate(np.split(X, cuts)):
        np.save(folder / f"part-{number}.npy", chunk)
    return X, str(folder / "part-*.npy")


MODELS = {
    "kmeans": (KMeans(20, random_state=0), ("cluster_centers_", "inertia_", "cluster_weights_")),
    "mixture": (GaussianMixture(3, random_state=0, max_iter=5), ("means_", "covariances_", "lower_bounds_")),
    "gaussian": (Gaussian(), ("mean_", "covariance_")),
}


def same(a, b, names):
    for name in names:
        assert np.asarray(getattr(a, name)).tobytes() == np.asarray(getattr(b, name)).tobytes(), name


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", MODELS)
def test_workers_give_the_bits_of_this_process(client, tmp_path, name, dtype):
    X, pattern = write(tmp_path, dtype=dtype)
    model, names = MODELS[name]
    there = type(model)(**model.get_params()).fit_blocks(knoll.blocks.open(pattern), engine=client)
    same(there, type(model)(**model.get_params()).fit(X), names)


def test_a_killed_worker_changes_no_bit(client, tmp_path):
    X, pattern = write(tmp_path, n=60_000)
    start = X[:30]
    parameters = {"n_clusters": 30, "init": start, "tol": 0.0, "max_iter": 25}
    workers = client.run(os.getpid)
    victim = next(iter(workers.values()))

    def kill():
        time.sleep(0.5)
        os.kill(victim, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    there = KMeans(**parameters).fit_blocks(knoll.blocks.open(pattern), engine=client)
    killer.join()
    same(there, KMeans(**parameters).fit(X), MODELS["kmeans"][1])
    client.wait_for_workers(2, timeout=30)
    assert victim not in client.run(os.getpid).values()


def test_what_is_wrong_is_reported(client, tmp_path):
    X, _ = write(tmp_path)
    with pytest.raises(InvalidParameter, match="workers cannot call make_blocks"):
        KMeans(2).fit_blocks(lambda: [X], engine=client)
    with pytest.raises(InvalidType, match="engine must be a dask Client, or an object with a method passes"):
        KMeans(2).fit_blocks(lambda: [X], engine="tcp://127.0.0.1")
    X[12_345, 2] = np.nan
    for number, chunk in enumerate(np.array_split(X, 3)):
        np.save(tmp_path / f"nan-{number}.npy", chunk)
    with pytest.raises(BadData, match="a NaN at row 12345, column 'column 3'"):
        KMeans(2).fit_blocks(knoll.blocks.open(tmp_path / "nan-*.npy"), engine=client)


def _rows_and_sum(block, state, run):
    return len(block.points), float(block.points.sum()) + state


def test_tasks_know_no_engine(tmp_path, monkeypatch):
    """They run anywhere, here in this process; only what their engine gives them refuses a build."""
    monkeypatch.setitem(sys.modules, "distributed", None)
    X, pattern = write(tmp_path, n=5000, files=1)
    calls = []
    block = _tasks.read_partition(lambda: calls.append("read"), knoll.blocks.open(pattern), 0, 4)
    work = pickle.dumps((_rows_and_sum, 1.0))
    assert pickle.loads(_tasks.run_map(lambda: calls.append("map"), work, "a", [0], block)) == [(5000, X.sum() + 1.0)]
    assert calls == ["read", "map"]

    def refuse():
        raise EngineError("worker 7 has another build")

    for task in (_tasks.run_map, _tasks.run_total):
        with pytest.raises(EngineError, match="worker 7 has another build"):
            task(refuse, work, "a", [0], block)
    for task, args in ((_tasks.read_partition, (None, 0, 4)), (_tasks.take_partition, (0, 4, X, None))):
        with pytest.raises(EngineError, match="worker 7 has another build"):
            task(refuse, *args)
