"""``python -m benchmarks``: run registered cases, print the table, renew docs/benchmarks.md and .json."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks import machine
from benchmarks.case import load, select
from benchmarks.runner import ROOT, run_case
from benchmarks.tables import cells, text_table, write


def parser() -> argparse.ArgumentParser:
    """The options."""
    p = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    p.add_argument(
        "--cases", default="*", metavar="GLOBS", help="comma-separated names or globs, such as 'ami*,import'"
    )
    p.add_argument("--list", action="store_true", help="show the cases and end")
    p.add_argument("--repeats", type=int, metavar="N", help="processes per contestant (default: the case's own number)")
    p.add_argument(
        "--threads",
        type=int,
        default=machine.cores(),
        metavar="N",
        help="for every contestant (default: all)",
    )
    p.add_argument("--timeout", type=float, default=3600.0, metavar="S", help="seconds that one run may take")
    p.add_argument("--quick", action="store_true", help="one run each, nothing written: to see that it works")
    p.add_argument("--strict", action="store_true", help="exit 1 if an answer is worse or a target is missed")
    p.add_argument("--out", type=Path, default=ROOT / "docs", metavar="DIR", help="where the page and the JSON go")
    p.add_argument("--no-write", action="store_true", help="print only")
    p.add_argument("--registry", default="benchmarks.cases", metavar="MODULE", help="where the cases are registered")
    return p


def main(arguments: list[str] | None = None) -> int:
    """Run; return the exit code."""
    options = parser().parse_args(arguments)
    for name in ("repeats", "threads"):
        value = getattr(options, name)
        if value is not None and value < 1:
            print(f"--{name} must be at least 1, got {value}.", file=sys.stderr)
            return 2
    cases = load(options.registry)
    try:
        chosen = select(cases, options.cases)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if options.list:
        width = max((len(case.name) for case in chosen), default=0)
        for case in chosen:
            targets = ", ".join(f"≥ {t.ratio:g}" for t in case.targets) or "for information"
            print(f"{case.name:<{width}}  {case.group}: {case.about} ({targets})")
        return 0
    outcomes = []
    for case in chosen:
        outcome = run_case(
            case,
            registry=options.registry,
            threads=options.threads,
            repeats=1 if options.quick and options.repeats is None else options.repeats,
            timeout=options.timeout,
            log=lambda line: print(line, file=sys.stderr, flush=True),
        )
        outcomes.append(outcome)
        if not (options.quick or options.no_write):
            write([outcome.as_json()], options.out)  # at once, so that an interrupted run keeps what it has
    print(text_table([line for outcome in outcomes for line in cells(outcome.as_json())]))
    problems = [problem for outcome in outcomes for problem in outcome.problems]
    for problem in problems:
        print(f"! {problem}")
    return 1 if options.strict and problems else 0


if __name__ == "__main__":
    sys.exit(main())
