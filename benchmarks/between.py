"""``python -m benchmarks.between --before ../other``: knoll of another checkout and of this one, in turns.

For every case that both have, the data of this checkout goes to knoll alone, in fresh processes of either checkout's
environment (`make test` makes it): before, after, after, before, … so that neither always comes first. The ratio of the
medians says how much slower a case became; the same checkout twice shows how much of it is noise.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import machine
from benchmarks.case import Case, load, select
from benchmarks.runner import ROOT, one_run
from benchmarks.worker import save_data

_REGISTRY = "benchmarks.cases"


def names_of(root: Path) -> set[str]:
    """Return the names of the cases of a checkout."""
    listing = [str(root / ".venv/bin/python"), "-m", "benchmarks", "--list"]
    printed = subprocess.run(listing, cwd=root, check=True, capture_output=True, text=True).stdout
    return {line.split()[0] for line in printed.splitlines() if line.strip()}


def seconds_of(case: Case, roots: tuple[Path, ...], repeats: int, threads: int, timeout: float) -> list[list[float]]:
    """Time a case in each checkout, in turns; a run that fails ends the case with its reason."""
    found: list[list[float]] = [[] for _ in roots]
    with tempfile.TemporaryDirectory(prefix="knoll-between-") as folder:
        save_data(case.data(), Path(folder))
        for turn in range(repeats):
            for at in sorted(range(len(roots)), reverse=turn % 2 == 1):
                root, seconds = roots[at], found[at]
                python = str(root / ".venv/bin/python")
                answer = one_run(case, case.ours, Path(folder), _REGISTRY, threads, timeout, python=python, root=root)
                if "error" in answer:
                    raise RuntimeError(f"{root}: {answer['error']}")
                seconds.append(answer["seconds"])
    return found


def line_of(name: str, before: list[float], after: list[float]) -> str:
    """Return the medians, their ratio, and the larger half spread of the two."""
    first, second = statistics.median(before), statistics.median(after)
    half = max((max(runs) - min(runs)) / statistics.median(runs) / 2 for runs in (before, after))
    best = min(after) / min(before)
    return f"{name:<34} {first:>10.4g} {second:>10.4g} {second / first:>7.2f} {best:>7.2f} {100 * half:>6.0f} %"


def main(arguments: list[str] | None = None) -> int:
    """Time and print a line a case."""
    p = argparse.ArgumentParser(prog="python -m benchmarks.between", description=__doc__)
    p.add_argument(
        "--before", type=Path, required=True, metavar="DIR", help="the other checkout, where make test has run"
    )
    p.add_argument("--cases", default="*", metavar="GLOBS", help="comma-separated names or globs")
    p.add_argument("--skip", default="", metavar="GLOBS", help="cases to leave out")
    p.add_argument("--repeats", type=int, default=5, metavar="N", help="runs in each checkout")
    p.add_argument("--threads", type=int, default=machine.cores(), metavar="N")
    p.add_argument("--timeout", type=float, default=600.0, metavar="S", help="seconds that one run may take")
    options = p.parse_args(arguments)
    before = options.before.resolve()
    cases = load(_REGISTRY)
    known = names_of(before)
    skipped = {case.name for case in select(cases, options.skip)} if options.skip else set()
    print(f"{'case':<34} {'before s':>10} {'after s':>10} {'ratio':>7} {'of best':>7} {'spread':>8}", flush=True)
    for case in select(cases, options.cases):
        if case.name not in known or case.name in skipped:
            continue
        try:
            runs = seconds_of(case, (before, ROOT), options.repeats, options.threads, options.timeout)
        except RuntimeError as error:
            print(f"{case.name:<34} {error}", flush=True)
            continue
        print(line_of(case.name, *runs), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
