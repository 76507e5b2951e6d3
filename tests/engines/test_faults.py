"""What may happen to a cluster during a fit: the same bits, or one sentence; never a hang."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time

import numpy as np
import pytest

from knoll import GaussianMixture, KMeans
from knoll.engines import Checkpoint
from knoll.exceptions import BadData, EngineError
from tests.engines.sabotage import LethalEngine, LethalTable, cluster_of_processes

pytest.importorskip("distributed")
CENTERS = ("cluster_centers_", "inertia_", "cluster_weights_")


def table(n=40_000, d=4):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, d)) + 5 * rng.integers(0, 3, size=(n, 1))


def kmeans(**more):
    return KMeans(**{"n_clusters": 20, "random_state": 0, "tol": 0.0, "max_iter": 8, **more})


@pytest.fixture(scope="module")
def expected():
    return kmeans().fit(table())


# a fit of k-means begins with three passes for a summary, the start and the first assignment: 5 is in step 3
@pytest.mark.parametrize(("phase", "at"), [("read", 0), ("step", 5), ("merge", 5)])
def test_a_worker_killed_in_any_phase_changes_no_bit(client, tmp_path, expected, same_bits, phase, at):
    flag = tmp_path / "died"
    rows = LethalTable.of(tmp_path, table(), 24, flag if phase == "read" else "")
    client.wait_for_workers(2, timeout=60)
    engine = LethalEngine(client, flag, at, in_merge=phase == "merge")
    model = kmeans().fit_blocks(rows, engine=engine)
    assert flag.exists(), "no worker has died"
    same_bits(model, expected, CENTERS)
    client.wait_for_workers(2, timeout=60)


def test_without_a_nanny_the_others_go_on(tmp_path, expected, same_bits):
    rows = LethalTable.of(tmp_path, table(), 10, "")
    with cluster_of_processes(3, nanny=False, folder=tmp_path) as (client, _, workers):
        engine = LethalEngine(client, tmp_path / "died", 5)
        model = kmeans().fit_blocks(rows, engine=engine)
        same_bits(model, expected, CENTERS)
        _wait_for_an_end(workers)
        assert sum(worker.poll() is not None for worker in workers) == 1


def test_no_worker_left_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr("knoll.engines._watch._ALONE", 4.0)
    rows = LethalTable.of(tmp_path, table(), 5, "")
    with cluster_of_processes(1, nanny=False, folder=tmp_path) as (client, _, _workers):
        engine = LethalEngine(client, tmp_path / "died", 5)
        begun = time.monotonic()
        with pytest.raises(EngineError, match=r"has had no worker for 4 s\. This was in step \d"):
            kmeans().fit_blocks(rows, engine=engine)
        assert time.monotonic() - begun < 30


@pytest.mark.parametrize("estimator", ["kmeans", "mixture"])
def test_a_lost_scheduler_is_a_sentence_and_the_fit_goes_on(tmp_path, same_bits, estimator):
    X, file = table(), tmp_path / "fit.checkpoint"
    rows = LethalTable.of(tmp_path, X, 5, "")
    if estimator == "kmeans":
        model, names = kmeans(init_size=3_000), CENTERS
    else:
        model = GaussianMixture(3, random_state=0, max_iter=6, init_size=3_000, tol=0)
        names = ("means_", "covariances_", "lower_bounds_")
    with cluster_of_processes(2, nanny=False, folder=tmp_path) as (client, scheduler, _):
        engine = LethalEngine(client, tmp_path / "died", 7, before=scheduler.kill)
        begun = time.monotonic()
        with pytest.raises(EngineError) as error:
            model.fit_blocks(rows, engine=Checkpoint(file, engine))
        assert time.monotonic() - begun < 35
    text = str(error.value)
    assert "is lost: it has ended, or does not answer." in text
    assert f"passes before are in {file}: resume (--resume) goes on there. This was in step" in text
    with pytest.warns() if estimator == "mixture" else _nothing():
        again = model.fit_blocks(rows, engine=Checkpoint(file, resume=True))
        same_bits(again, type(model)(**model.get_params()).fit(X), names)


def test_a_stopped_worker_goes_on(client, tmp_path, expected, same_bits):
    """SIGSTOP for three seconds."""
    rows = LethalTable.of(tmp_path, table(), 10, "")
    client.wait_for_workers(2, timeout=60)
    victim = next(iter(client.run(os.getpid).values()))
    timer = threading.Timer(3.0, os.kill, (victim, signal.SIGCONT))

    def stop():
        os.kill(victim, signal.SIGSTOP)
        timer.start()

    model = kmeans().fit_blocks(rows, engine=LethalEngine(client, tmp_path / "died", 4, before=stop))
    timer.join()
    same_bits(model, expected, CENTERS)


def test_another_instruction_set_is_refused_before_any_work(tmp_path):
    from knoll._common.passes import Build

    if Build.here().instruction_set == "baseline":
        pytest.skip("this machine has one instruction set")
    rows = LethalTable.of(tmp_path, table(), 2, "")
    other = [{"KNOLL_ISA": "baseline"}]
    with (
        cluster_of_processes(2, nanny=False, folder=tmp_path, environments=other) as (client, _, _workers),
        pytest.raises(
            EngineError, match=r"worker tcp://\S+ computes with the instruction set baseline, and the client"
        ),
    ):
        kmeans().fit_blocks(rows, engine=client)


def test_another_version_is_refused_before_any_work(client, tmp_path, monkeypatch):
    rows = LethalTable.of(tmp_path, table(), 2, "")
    monkeypatch.setattr("knoll.__version__", "9.9")
    with pytest.raises(EngineError, match=r"worker tcp://\S+ has knoll 0\.\S+, and the client 9\.9\. Install the same"):
        kmeans().fit_blocks(rows, engine=client)


def test_a_nan_is_named_by_its_global_row(client, tmp_path):
    X = table()
    X[37_654, 2] = np.nan
    rows = LethalTable.of(tmp_path, X, 7, "")
    with pytest.raises(BadData, match="a NaN at row 37654, column 'c2'"):
        kmeans().fit_blocks(rows, engine=client)


def test_a_file_of_another_width_is_named(client, tmp_path):
    rows = LethalTable.of(tmp_path, table(), 4, "")
    np.save(tmp_path / "part-2.npy", np.zeros((10, 3)))
    with pytest.raises(BadData, match="partition 2 has 3 columns, and the first one 4"):
        kmeans().fit_blocks(rows, engine=client)


def test_fits_leave_nothing_behind(client, tmp_path):
    """Twenty fits, one of which fails and one is interrupted: no key at the scheduler, and no copy of the rows."""
    X = table(8_000)
    rows = LethalTable.of(tmp_path, X, 4, "")
    for number in range(20):
        kmeans(max_iter=2, random_state=number).fit_blocks(rows, engine=client)
    with pytest.raises(BadData):
        kmeans(n_clusters=9_000, init_size=9_000).fit_blocks(rows, engine=client)

    def interrupt():
        raise KeyboardInterrupt

    model = kmeans().fit(X)
    before = model.inertia_
    with pytest.raises(KeyboardInterrupt):
        model.fit_blocks(rows, engine=LethalEngine(client, tmp_path / "died", 4, before=interrupt))
    assert model.inertia_ == before

    def keys(dask_scheduler):
        return len(dask_scheduler.tasks)

    gc.collect()  # pytest keeps the frames of the errors that it has caught
    end = time.monotonic() + 10
    while client.run_on_scheduler(keys) and time.monotonic() < end:
        time.sleep(0.1)
    assert client.run_on_scheduler(keys) == 0


def _wait_for_an_end(processes):
    end = time.monotonic() + 10
    while all(each.poll() is None for each in processes) and time.monotonic() < end:
        time.sleep(0.1)


def _nothing():
    import contextlib

    return contextlib.nullcontext()
