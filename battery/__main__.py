"""``python -m battery``: run the sets of one half or both, print the figures, renew docs/battery.md."""

from __future__ import annotations

import argparse
import datetime
import fnmatch
import json
import os
import platform
import sys
import time
from pathlib import Path

from battery.run import Record, run_set
from battery.sets import HALVES, STRUCTURED, STRUCTURELESS
from battery.tables import figures, page

ROOT = Path(__file__).resolve().parents[1]


def parser() -> argparse.ArgumentParser:
    """The options."""
    p = argparse.ArgumentParser(prog="python -m battery", description=__doc__)
    p.add_argument("--half", choices=[*HALVES, "both"], default="both", help="which seeds (default: both)")
    p.add_argument("--sets", default="*", metavar="GLOBS", help="comma-separated names or globs, such as 'noise-*'")
    p.add_argument("--no-peers", action="store_true", help="leave scikit-learn out")
    p.add_argument("--write", action="store_true", help="renew docs/battery.md and docs/battery.json")
    p.add_argument("--jobs", type=int, default=None, metavar="N", help="threads (default: all)")
    return p


def main(arguments: list[str] | None = None) -> int:
    """Run, print, write."""
    options = parser().parse_args(arguments)
    globs = [word.strip() for word in options.sets.split(",")]
    names = [n for n in (*STRUCTURED, *STRUCTURELESS) if any(fnmatch.fnmatch(n, glob) for glob in globs)]
    if not names:
        print(
            f"no set is called {options.sets!r}; they are {', '.join((*STRUCTURED, *STRUCTURELESS))}", file=sys.stderr
        )
        return 2
    halves: dict[str, list[Record]] = {}
    begun = time.perf_counter()
    for half in HALVES if options.half == "both" else (options.half,):
        halves[half] = []
        for seed in HALVES[half]:
            for name in names:
                record = run_set(name, seed, peers=not options.no_peers, n_jobs=options.jobs)
                halves[half].append(record)
                best = max(record.peers.values(), default=float("nan"))
                print(
                    f"{half:<12}{name:<22}{record.clusters:>3} → {record.found:<3}{record.method or 'no clusters':<18}"
                    f"{record.ari:6.2f}  best of ours {record.oracle:.2f}  best peer {best:.2f} {record.seconds:.1f} s",
                    flush=True,
                )
    for half, records in halves.items():
        print(f"\n{half} half")
        for name, value in figures(records).items():
            print(f"  {name:<56}{value:.3f}")
    print(f"\n{time.perf_counter() - begun:.0f} s in all")
    if options.write:
        day = datetime.datetime.now(datetime.UTC).date().isoformat()
        machine = f"{day}, {platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}."
        (ROOT / "docs" / "battery.md").write_text(page(dict(halves), machine), encoding="utf-8")
        plain = {half: [record.plain() for record in records] for half, records in halves.items()}
        (ROOT / "docs" / "battery.json").write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
