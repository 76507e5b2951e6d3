"""``python -m fuzz``: search each family for a time, print what was counted and found; exit code 1 on a failure.

python -m fuzz --seconds 60                            all families, a minute each
python -m fuzz --families mixture --seed 20154 --cases 1   one case again
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fuzz.runner import Tally, run, use_plain_errors

__all__ = ["FAMILIES", "SEARCHES", "main"]

# Each is fuzz/families/NAME.py with a FAMILY.
FAMILIES = (
    "gaussian",
    "mixture",
    "kmeans",
    "kernel_kmeans",
    "spectral",
    "dbscan",
    "density_tree",
    "hdbscan",
    "optics",
    "agglomerative",
    "mean_shift",
    "scales",
    "metrics",
    "tuning",
    "compare",
    "mixed_mixture",
    "kprototypes",
    "gower",
    "explain",
    "models",
)

# Searches with a loop of their own: main(seconds, seed) returns a table of what was called, and faults.
SEARCHES: dict[str, str] = {"bindings": "fuzz.bindings"}


def parser() -> argparse.ArgumentParser:
    """The options."""
    p = argparse.ArgumentParser(
        prog="python -m fuzz", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    p.add_argument(
        "--families", "--family", default="", metavar="NAMES", help=f"of {', '.join((*FAMILIES, *SEARCHES))}"
    )
    p.add_argument("--seconds", type=float, default=60.0, help="for each family (default: 60)")
    p.add_argument("--cases", type=int, default=None, help="for each family, instead of seconds")
    p.add_argument("--seed", type=int, default=None, help="of the first case (default: drawn, and printed)")
    p.add_argument("--jobs", type=int, default=1, help="families at a time (default: 1)")
    p.add_argument("--inside", default=None, help=argparse.SUPPRESS)  # the file where a family records its seed
    return p


def main(arguments: list[str] | None = None) -> int:
    """Run the families, each in a process of its own, so that a crash of one is a failure and no more."""
    options = parser().parse_args(arguments)
    names = [name.strip() for name in options.families.split(",") if name.strip()] or [*FAMILIES, *SEARCHES]
    if unknown := [name for name in names if name not in FAMILIES and name not in SEARCHES]:
        print(f"no family is called {unknown[0]!r}; they are {', '.join((*FAMILIES, *SEARCHES))}", file=sys.stderr)
        return 2
    seed = random.SystemRandom().randrange(10**9) if options.seed is None else options.seed
    if options.inside is not None:
        return _inside(names[0], seed, options)
    return _apart(names, seed, options)


# ---- in the process of a family ------------------------------------------------------------------------------------


def _inside(name: str, seed: int, options: argparse.Namespace) -> int:
    use_plain_errors()
    if name in SEARCHES:
        result = importlib.import_module(SEARCHES[name]).main(options.seconds, seed)
        print(result.table(), *result.faults, sep="\n\n")
        return 1 if result.faults or result.unreached() else 0
    family = importlib.import_module(f"fuzz.families.{name}").FAMILY
    with open(options.inside, "w", encoding="utf-8") as file:

        def progress(at: int) -> None:
            os.pwrite(file.fileno(), f"{at:<20}".encode(), 0)

        seeds = itertools.count(seed) if options.cases is None else range(seed, seed + options.cases)
        limit = options.seconds if options.cases is None else math.inf
        tally = run(family, seeds, seconds=limit, progress=progress, show=lambda text: print(f"\n{text}", flush=True))
    print(summary(tally), flush=True)
    return 1 if tally.failed else 0


def summary(tally: Tally) -> str:
    """One line for the family, one for each law."""
    lines = [
        f"\n{tally.family}: {tally.cases} cases, {sum(tally.checks.values())} checks, "
        f"{sum(tally.failed.values())} failed, {tally.refused} tables refused, {tally.seconds:.0f} s"
    ]
    for law, count in tally.checks.items():
        lines.append(f"  {law:<48}{count:>8}  {tally.failed.get(law, 0) or 'ok':>6}")
    for law in sorted(set(tally.failed) - set(tally.checks)):
        lines.append(f"  {law:<48}{'':>8}  {tally.failed[law]:>6}")
    for law, seeds in tally.seeds.items():
        lines.append(f"    {law}: seeds {', '.join(map(str, seeds[:8]))}{' …' if len(seeds) > 8 else ''}")
    return "\n".join(lines)


# ---- in the process that starts them -------------------------------------------------------------------------------


def _apart(names: list[str], seed: int, options: argparse.Namespace) -> int:
    print(f"seed {seed}", flush=True)
    failed: list[str] = []
    waiting = list(names)
    running: list[tuple[str, subprocess.Popen[bytes], Path]] = []
    with tempfile.TemporaryDirectory() as folder:
        while waiting or running:
            while waiting and len(running) < max(1, options.jobs):
                name = waiting.pop(0)
                running.append((name, _start(name, seed, options, Path(folder) / name), Path(folder) / name))
            for entry in [e for e in running if e[1].poll() is not None]:
                running.remove(entry)
                if entry[1].returncode:
                    failed.append(entry[0])
                if entry[1].returncode not in (0, 1):
                    at = entry[2].read_text(encoding="utf-8").strip() if entry[2].exists() else "?"
                    print(f"\n{entry[0]}: the process ended with {entry[1].returncode} at seed {at}", flush=True)
            time.sleep(0.05)
    print(f"\n{'failed: ' + ', '.join(failed) if failed else 'nothing failed'}")
    return 1 if failed else 0


def _start(name: str, seed: int, options: argparse.Namespace, file: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "fuzz", "--families", name, "--seed", str(seed), "--inside", str(file)]
    command += ["--seconds", str(options.seconds)]
    if options.cases is not None:
        command += ["--cases", str(options.cases)]
    return subprocess.Popen(command)


if __name__ == "__main__":
    sys.exit(main())
