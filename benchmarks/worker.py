"""One timed run of one contestant, in the fresh process that the runner started for it.

Order: load the data, import what the contestant needs, warm up if the case requires it, reset the memory
mark, start the clock, run, stop the clock, read the peak, and only then let the case's judge see the result.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.case import Case, Contestant, Data, load
from benchmarks.memory import PeakMeter


def load_data(folder: Path) -> dict[str, np.ndarray]:
    """Read every array of the folder into memory of this process."""
    return {path.stem: np.load(path) for path in sorted(folder.glob("*.npy"))}


def save_data(data: Data, folder: Path) -> None:
    """Write each array as one .npy file."""
    for name, array in data.items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)


def timed(case: Case, contestant: Contestant, data: Data, threads: int) -> dict[str, object]:
    """Run the contestant on the data and report how long, how much memory, and how good."""
    began = time.time()
    for module in contestant.needs:
        importlib.import_module(module)
    if case.warmup is not None:
        contestant.run(case.warmup(data), threads)
    meter = PeakMeter()
    meter.start()
    seconds = []
    for _ in range(case.calls):
        begin = time.perf_counter()
        result = contestant.run(data, threads)
        seconds.append(time.perf_counter() - begin)
    peak = meter.stop()
    quality = {key: float(value) for key, value in case.judge(data, result).items()}
    return {
        "seconds": statistics.median(seconds),
        "peak_bytes": peak if case.measures_memory else None,
        "quality": quality,
        "pid": os.getpid(),
        "began": began,
    }


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line; the answer goes as JSON into ``--answer``, since peers may print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.worker", description=__doc__)
    parser.add_argument("--registry", required=True)
    parser.add_argument("--case", required=True)
    parser.add_argument("--contestant", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--answer", type=Path, required=True)
    options = parser.parse_args(arguments)
    case = load(options.registry)[options.case]
    contestant = next(c for c in case.contestants if c.name == options.contestant)
    try:
        answer = timed(case, contestant, load_data(options.data), options.threads)
    except Exception as error:  # whatever a peer raises is its result, and is shown in the table
        first_line = (str(error).splitlines() or [""])[0]
        answer = {"error": f"{type(error).__name__}: {first_line}"[:200]}
    options.answer.write_text(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
