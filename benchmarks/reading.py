"""Reading a large CSV beside pyarrow, each in a process of its own: ``python -m benchmarks.reading``.

Two tables: eight columns of numbers; four of numbers beside money (€12,345), two dates, and a category. knoll finds the
type of every column and returns an array of numbers; pyarrow returns what it recognises, money and one date as text.

    python -m benchmarks.reading --megabytes 500 --runs 3
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

_ROWS = 100_000  # that are made, and repeated


def columns(contents: str) -> dict[str, np.ndarray]:
    """Return the columns of a table as texts or numbers."""
    rng = np.random.default_rng(0)
    found: dict[str, np.ndarray] = {
        f"x{j}": rng.normal(0, 100, _ROWS).round(4) for j in range(8 if contents == "numbers" else 4)
    }
    if contents == "numbers":
        return found
    days = np.datetime64("2020-01-01") + rng.integers(0, 2000, (2, _ROWS))
    return found | {
        "income": np.array([f"€{int(value):,}" for value in np.exp(rng.normal(10, 0.6, _ROWS))]),
        "joined": np.array([day.item().strftime("%d.%m.%Y") for day in days[0]]),
        "city": rng.choice(["Rome", "Oslo", "Bonn"], _ROWS),
        "seen": days[1].astype(str),
    }


def write(path: Path, contents: str, megabytes: float) -> None:
    """Write a CSV of about this size."""
    import pyarrow as pa
    import pyarrow.csv

    out = pa.BufferOutputStream()
    pa.csv.write_csv(pa.table(columns(contents)), out)
    head, _, body = out.getvalue().to_pybytes().partition(b"\n")
    with path.open("wb") as file:
        file.write(head + b"\n")
        for _ in range(max(1, round(megabytes * 1e6 / len(body)))):
            file.write(body)


def measure(path: Path, reader: str) -> dict[str, float]:
    """Read a file, and return wall and processor seconds, peak memory, and that of the numbers, in MB."""
    import pyarrow as pa
    import pyarrow.csv

    from knoll.cli._data import read_typed
    from knoll.tables.reading import BY_CONTENTS
    from knoll.tables.recognition import Rules

    before = resource.getrusage(resource.RUSAGE_SELF)
    begun = time.perf_counter()
    if reader == "pyarrow":
        numbers = 8 * pa.csv.read_csv(path).num_rows * 8
    else:
        numbers = read_typed(str(path), None, BY_CONTENTS, "model", Rules(log="mixed")).X.nbytes
    wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall": wall, "cpu": cpu, "peak": (after.ru_maxrss - before.ru_maxrss) / 1e3, "numbers": numbers / 1e6}


def main() -> None:
    """Print the medians of some runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=500)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--one", nargs=2, metavar=("FILE", "READER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(Path(options.one[0]), options.one[1])))
        return
    print(f"{'table':<10}{'reader':<10}{'wall s':>8}{'cpu s':>8}{'peak MB':>9}{'numbers MB':>12}")
    for contents in ("numbers", "mixed"):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{contents}.csv"
            write(path, contents, options.megabytes)
            for reader in ("pyarrow", "knoll"):
                command = [sys.executable, "-m", "benchmarks.reading", "--one", str(path), reader]
                runs = [
                    json.loads(subprocess.run(command, capture_output=True, check=True, env=os.environ).stdout)
                    for _ in range(options.runs)
                ]
                middle = {name: float(np.median([run[name] for run in runs])) for name in runs[0]}
                print(f"{contents:<10}{reader:<10}{middle['wall']:>8.2f}{middle['cpu']:>8.2f}{middle['peak']:>9.0f}"
                      f"{middle['numbers']:>12.0f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
