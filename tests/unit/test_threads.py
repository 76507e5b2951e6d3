"""Threads: limits are respected, callers share the pool, a forked child works, nothing grows, Ctrl-C is quick."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
import threadpoolctl

from knoll import Gaussian, _core, _system
from knoll._system import available_threads, free_memory, peak_memory, resolve_threads
from knoll.exceptions import InvalidParameter

CPUS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


@pytest.fixture
def python(warm_python):
    """Run code in a process of its own; return what it prints."""

    def run(code: str, form: str = "python") -> str:
        done = subprocess.run([*warm_python[:-1], form, code], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


def seconds_to_stop(code: str) -> float:
    """Run code that prints "ready" and works on, press Ctrl-C, and see when it prints "stopped" and the time."""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.5)
        sent = time.time()
        process.send_signal(signal.SIGINT)
        event, stopped = process.stdout.readline().split()
    assert event == "stopped"
    assert process.returncode == 0
    return float(stopped) - sent


def test_an_explicit_number_is_obeyed_and_zero_refused(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert [resolve_threads(n) for n in (1, 2, 64, -1)] == [1, 2, 64, CPUS]
    assert resolve_threads(-CPUS - 5) == 1
    with pytest.raises(InvalidParameter, match="n_jobs must not be 0"):
        resolve_threads(0)


def test_the_environment_is_read_at_call_time(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert resolve_threads(None) == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "1,2")
    assert resolve_threads(None) == 1
    for nonsense in ("not a number", "²", "-3", "0", "1.5"):
        monkeypatch.setenv("OMP_NUM_THREADS", nonsense)
        assert resolve_threads(None) == available_threads()
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert 1 <= resolve_threads(None) <= CPUS


def test_threadpoolctl_limits_us_and_lets_go(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert "knoll" in {module["internal_api"] for module in threadpoolctl.threadpool_info()}
    with threadpoolctl.threadpool_limits(1):
        assert resolve_threads(None) == 1
        assert resolve_threads(3) == 3
    assert resolve_threads(None) == available_threads()
    assert _core.get_num_threads() == 0


def test_joblib_workers_take_their_share():
    limited = joblib.Parallel(n_jobs=2)(joblib.delayed(resolve_threads)(None) for _ in range(2))
    assert limited == [max(1, CPUS // 2)] * 2


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity mask")
def test_the_affinity_mask_is_read_at_call_time(python):
    code = """
import os, knoll._system
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
print(knoll._system.resolve_threads(None))
"""
    assert python(code) == "1"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"cpu.max": "150000 100000"}, [2]),
        ({"cpu.max": "max 100000"}, []),
        ({"cpu.max": "50000 100000"}, [1]),
        ({"cpu.cfs_quota_us": "300000", "cpu.cfs_period_us": "100000"}, [3]),
        ({"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"}, []),
        ({"cpu.max": "nonsense"}, []),
    ],
)
def test_the_quota_of_a_control_group_counts(tmp_path, monkeypatch, files, expected):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(_system, "_quota_files", lambda: (str(tmp_path / next(iter(files))),))
    assert _system._quotas() == expected


def test_two_python_threads_may_call_at_once():
    X = np.random.default_rng(0).normal(size=(200_000, 8))
    alone = Gaussian(n_jobs=2).fit(X)
    with ThreadPoolExecutor(6) as executor:
        together = list(executor.map(lambda _: Gaussian(n_jobs=2).fit(X), range(24)))
    assert all((model.covariance_ == alone.covariance_).all() for model in together)


def test_the_gil_is_free_while_a_kernel_works():
    X = np.random.default_rng(0).normal(size=(50_000, 400))
    worker = threading.Thread(target=lambda: Gaussian(n_jobs=1).fit(X))
    worker.start()
    ticks = 0
    while worker.is_alive():
        time.sleep(0.001)
        ticks += 1
    assert ticks > 10


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_works(python):
    code = """
import os, warnings
import numpy as np
from knoll import Gaussian
warnings.simplefilter("ignore")
X = np.random.default_rng(0).normal(size=(100_000, 8))
mine = Gaussian(n_jobs=3).fit(X).covariance_
for generation in range(3):
    child = os.fork()
    if child == 0:
        same = (Gaussian(n_jobs=3).fit(X).covariance_ == mine).all()
        grandchild = os.fork()
        if grandchild == 0:
            os._exit(0 if (Gaussian(n_jobs=2).fit(X).covariance_ == mine).all() else 1)
        _, status = os.waitpid(grandchild, 0)
        os._exit(0 if same and status == 0 else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0, status
assert (Gaussian(n_jobs=3).fit(X).covariance_ == mine).all()
print("well")
"""
    assert python(code) == "well"


def test_a_hundred_fits_do_not_grow(python):
    code = """
import numpy as np, gc, os
from knoll import Gaussian
X = np.random.default_rng(0).normal(size=(20_000, 16))
def resident():
    gc.collect()
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
def threads():
    return len(os.listdir("/proc/self/task"))
for _ in range(20): Gaussian(n_jobs=4).fit(X).score(X)
before, running = resident(), threads()
for _ in range(100): Gaussian(n_jobs=4).fit(X).score(X)
print(resident() - before, threads() - running)
"""
    if not os.path.exists("/proc/self/statm"):
        pytest.skip("this system has no /proc")
    grown, threads = map(int, python(code).split())
    assert grown < 2_000_000
    assert threads == 0


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_stops_a_kernel_within_a_third_of_a_second(n_jobs):
    code = f"""
import signal, sys, time
import numpy as np
from knoll import _core
x = np.broadcast_to(np.linspace(0, 1, 400), (3_000_000, 400))
out, factor = np.empty(len(x)), np.eye(400)
print("ready", flush=True)
try:
    _core.mahalanobis2(x, x[0], factor, out, {n_jobs})
    print("finished")
except KeyboardInterrupt:
    print("stopped", time.time())
"""
    assert seconds_to_stop(code) < 0.3


def test_an_interrupted_fit_leaves_the_estimator_as_it_was(python):
    code = """
import os, signal, threading
import numpy as np
from knoll import Gaussian
X = np.random.default_rng(0).normal(size=(40_000, 500))
model = Gaussian(n_jobs=1).fit(X[:1000, :3])
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    while True:
        model.fit(X)
        model = Gaussian(n_jobs=1).fit(X[:1000, :3])
except KeyboardInterrupt:
    header, arrays = model.to_state()
    print(arrays["fitted.mean_"].shape, header["fitted"]["n_features_in_"], hasattr(Gaussian(), "mean_"))
"""
    assert python(code) in ("(3,) 3 False", "(500,) 500 False")


@pytest.mark.parametrize("shape", [(2_000, 4), (400_000, 16)])
def test_the_process_ends_well_while_a_daemon_thread_fits(shape, python):
    code = f"""
import threading, time
import numpy as np
from knoll import Gaussian
X = np.random.default_rng(0).normal(size={shape})
def work():
    while True:
        Gaussian(n_jobs=2).fit(X)
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.4)
print("well")
"""
    for _ in range(3):
        assert python(code, "interpreter") == "well"


def test_answers_keep_to_n_jobs_too(python):
    code = """
import numpy as np
from knoll import Gaussian, _core
X = np.random.default_rng(0).normal(size=(200_000, 8))
model = Gaussian(n_jobs=1).fit(X)
model.score_samples(X), model.mahalanobis(X), model.sample(100_000)
print(_core.pool_workers())
"""
    assert python(code) == "0"


def test_a_fit_goes_on_where_no_thread_is_to_be_had(python):
    code = """
import resource
import numpy as np
from knoll import Gaussian
X = np.random.default_rng(0).normal(size=(200_000, 8))
expected = Gaussian(n_jobs=1).fit(X).covariance_
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 64_000_000, -1))
print((Gaussian(n_jobs=500).fit(X).covariance_ == expected).all())
"""
    if not os.path.exists("/proc/self/statm"):
        pytest.skip("this system has no /proc")
    assert python(code) == "True"


@pytest.mark.parametrize(
    "work",
    ["Gaussian(n_jobs=1).fit(X)", "model.mahalanobis(X)", "model.sample(400_000)"],
)
def test_ctrl_c_is_as_quick_on_wide_data(work):
    code = f"""
import time, warnings
import numpy as np
from knoll import Gaussian
warnings.simplefilter("ignore")
X = np.random.default_rng(0).normal(size=(6_000, 900))
model = Gaussian(n_jobs=1).fit(X)
print("ready", flush=True)
try:
    while True:
        {work}
except KeyboardInterrupt:
    print("stopped", time.time())
"""
    assert seconds_to_stop(code) < 0.3


def test_memory_is_in_bytes(monkeypatch):
    block = np.ones(10**7)  # 80 MB, touched
    assert block.nbytes < peak_memory() < 1 << 40
    assert 1 << 20 < free_memory() < 1 << 50
    monkeypatch.setattr(_system, "_lines", lambda file: [])  # no /proc: the figure of getrusage
    there = peak_memory()
    assert block.nbytes < there < 1 << 40
    monkeypatch.setattr(sys, "platform", "darwin")  # where the system counts bytes, not kilobytes
    assert peak_memory() == pytest.approx(there / 1024, rel=0.01)
    assert block.all()


def test_peak_memory_is_not_inherited():
    """A small program that a large process starts reports its own peak."""
    block = np.ones(6 * 10**7)  # 480 MB, touched
    code = "from knoll._system import peak_memory; print(peak_memory())"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(shown) < block.nbytes / 2
