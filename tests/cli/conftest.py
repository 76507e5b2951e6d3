"""The command line in a process of its own (`knoll`) or in this one (`call`), and a table to call it on."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import numpy as np
import pytest

from knoll.cli import main

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def knoll(warm_knoll) -> Run:
    def run(*args: object, **options: object) -> subprocess.CompletedProcess[str]:
        command = [*warm_knoll, *map(str, args)]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)

    return run


@pytest.fixture
def call(capsys):
    """Run the command line in this process: (exit code, stdout, stderr)."""

    def run(*args):
        code = main([str(arg) for arg in args])
        return code, *capsys.readouterr()

    return run


@pytest.fixture(scope="session")
def table(tmp_path_factory):
    """Three groups with names, classes, a date and a constant."""
    rng = np.random.default_rng(5)
    path = tmp_path_factory.mktemp("compare") / "plants.csv"
    lines = ["name,height,width,kind,seen,planet"]
    for kind, (x, y) in enumerate([(0, 0), (30, 0), (0, 3)]):
        lines += [
            f"p{kind}-{i},{x + a},{y + 0.1 * b},k{kind},2024-05-{i % 28 + 1:02},3"
            for i, (a, b) in enumerate(rng.normal(size=(40, 2)))
        ]
    path.write_text("\n".join(lines) + "\n")
    return path
