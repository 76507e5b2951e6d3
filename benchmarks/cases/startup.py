"""How long a user waits before anything happens: imports and ``knoll --help``, in fresh interpreters."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import numpy as np

from benchmarks.case import Case, Contestant, Data, Target, no_larger, register


def command(*arguments: str) -> Callable[[Data, int], int]:
    """A contestant's function: start Python with these arguments, wait, insist that it ended well."""

    def run(data: Data, threads: int) -> int:
        done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError((done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1])
        return done.returncode

    return run


def nothing() -> dict[str, np.ndarray]:
    return {}


def ended_well(data: Data, result: int) -> dict[str, float]:
    return {"exit code": abs(result)}


def case(name: str, about: str, ours: Contestant, target: float | None) -> None:
    peer = Contestant("import sklearn.cluster", command("-c", "import sklearn.cluster"), ("sklearn",))
    register(
        Case(
            name=name,
            group="Start-up",
            about=about,
            data=nothing,
            ours=ours,
            peers=(peer,),
            judge=ended_well,
            not_worse=no_larger("exit code"),
            targets=() if target is None else (Target(target),),
            warmup=lambda data: data,  # the first start reads the files from disk
            measures_memory=False,
            repeats=9,
        )
    )


# At most 1.3 times as long as scikit-learn's: a ratio of 1 / 1.3.
case(
    "import",
    "python -c 'import knoll'",
    Contestant("import knoll", command("-c", "import knoll"), ("knoll",)),
    0.77,
)
case(
    "import-gaussian",
    "python -c 'from knoll import Gaussian', the first name that needs NumPy and the core",
    Contestant("from knoll import Gaussian", command("-c", "from knoll import Gaussian"), ("knoll.gaussian",)),
    0.77,
)
HELP = "import sys; sys.argv = ['knoll', '--help']; from knoll.cli import main; sys.exit(main())"
case("cli-help", "knoll --help", Contestant("knoll --help", command("-c", HELP), ("knoll.cli",)), None)
