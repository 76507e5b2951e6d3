"""Property tests look at new examples each time; in automatic runs at the same ones, so that red means a change."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

# Threads of OpenBLAS and OpenMP that wait for work spin. With a test process for each processor they would take most of
# the time of small fits, ten times that of the fit itself. Set before NumPy is loaded, and for processes that tests
# start; tests of thread counts set limits of their own.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("fresh", deadline=None, print_blob=True)
settings.load_profile("fixed" if os.environ.get("CI") else "fresh")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # begun by nohup or with &: our children must feel Ctrl-C again
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def tour_page(tmp_path_factory):
    """The tour's page, made once for all who read it; certificates for the smallest data alone, all else is whole."""
    import matplotlib

    matplotlib.use("Agg")
    from threadpoolctl import threadpool_limits

    from knoll.report.page import STEPS, page

    done = []
    with threadpool_limits(1, "blas"):
        text = page(done.append, data=("iris",))
    assert len(done) == STEPS
    file = tmp_path_factory.mktemp("tour") / "tour.html"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def warm_server(tmp_path_factory):
    """The socket of a process in which knoll is loaded (tests/warm)."""
    folder, file = Path(__file__).parent / "warm", tmp_path_factory.mktemp("warm") / "socket"
    command = [sys.executable, folder / "server.py", file]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout.readline() == b"ready\n"
        yield file


def _client(socket, form):
    return [sys.executable, "-I", "-S", str(Path(__file__).parent / "warm" / "client.py"), str(socket), form]


@pytest.fixture(scope="session")
def warm_knoll(warm_server):
    """The beginning of a command: [*warm_knoll, "fit", …]."""
    return _client(warm_server, "knoll")


@pytest.fixture(scope="session")
def warm_python(warm_server):
    """The command before a program's text: [*warm_python, code]."""
    return _client(warm_server, "python")
