"""Property tests look at new examples each time; in automatic runs at the same ones, so that red means a change."""

from __future__ import annotations

import os
import signal

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
    """The tour's page, made once for all who read it; certificates for the smallest data alone, the rest is whole."""
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
