"""``python -m battery``: run the sets through `knoll.compare`, print the figures, renew docs/battery.md."""

from __future__ import annotations

import argparse
import datetime
import fnmatch
import json
import os
import platform
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from battery import generator, mixed_run, sets
from battery.given import read_folder, sklearn_sets
from battery.run import Record, run_set
from battery.tables import calibration, false_alarms, figures, page
from knoll.registry import compared

ROOT = Path(__file__).resolve().parents[1]
_FRESH = 10**6  # the first seed of draws that nothing was trained or calibrated on

Group = Iterator[tuple[str, generator.Sample]]


def parser() -> argparse.ArgumentParser:
    """The options."""
    p = argparse.ArgumentParser(prog="python -m battery", description=__doc__)
    p.add_argument("--sets", default="*", metavar="GLOBS", help="comma-separated names or globs, such as 'noise-*'")
    p.add_argument("--data", type=Path, metavar="FOLDER", help="sets of a folder: *.data.gz with *.labels0.gz, …")
    p.add_argument("--fresh", type=int, metavar="N", help="N fresh draws of every recipe")
    p.add_argument("--without", type=int, default=0, metavar="N", help="leave out N methods, others for every set")
    p.add_argument("--mixed", type=int, nargs="?", const=10, metavar="N", help="N mixed tables of every recipe")
    p.add_argument("--first", type=int, default=0, metavar="SEED", help="the first seed of --mixed")
    p.add_argument("--no-peers", action="store_true", help="leave scikit-learn out")
    p.add_argument("--no-given-k", action="store_true", help="leave out the runs with the given number of clusters")
    p.add_argument("--write", action="store_true", help="renew docs/battery.md and docs/battery.json")
    p.add_argument("--jobs", type=int, default=None, metavar="N", help="threads (default: all)")
    return p


def groups(options: argparse.Namespace) -> dict[str, Group]:
    """Return the sets to run, in groups."""
    if options.data is not None:
        return {str(options.data): ((one.recipe, one) for one in read_folder(options.data))}
    if options.fresh is not None:
        seeds = range(_FRESH, _FRESH + options.fresh)
        recipes = {"with clusters": generator.STRUCTURED, "without": generator.STRUCTURELESS}
        return {f"fresh draws {name}": _fresh(of, seeds) for name, of in recipes.items()}
    own = {half: _own(seeds) for half, seeds in sets.HALVES.items()}
    return {**own, "scikit-learn": ((one.recipe, one) for one in sklearn_sets())}


def _fresh(recipes: Iterable[str], seeds: Iterable[int]) -> Group:
    return ((recipe, generator.draw(recipe, seed)) for recipe in recipes for seed in seeds)


def _own(seeds: tuple[int, ...]) -> Group:
    for seed in seeds:
        for name in (*sets.STRUCTURED, *sets.STRUCTURELESS):
            X, y = sets.draw(name, seed)
            yield name, generator.Sample(X, (y,), name)


def run(group: Group, options: argparse.Namespace) -> list[Record]:
    """Run the sets of a group whose names were requested."""
    globs = [name.strip() for name in options.sets.split(",")]
    records = []
    for name, sample in group:
        if any(fnmatch.fnmatch(name, glob) for glob in globs):
            settings = {"peers": not options.no_peers, "given_k": not options.no_given_k, "n_jobs": options.jobs}
            settings["methods"] = _subset_of_methods(options.without, len(records))
            records.append(run_set(name, sample, **settings))
            print(_line(records[-1]), flush=True)
    return records


def _subset_of_methods(without: int, number: int) -> list[str]:
    """Return a subset of the methods, drawn for each set."""
    names = compared()
    out = np.random.default_rng([without, number]).choice(len(names), without, replace=False)
    return [name for i, name in enumerate(names) if i not in out]


def _line(r: Record) -> str:
    k = "/".join(map(str, r.clusters)) or "1"
    given_k = "    " if r.given_k is None else f"{r.given_k:.2f}"
    return (
        f"{r.name:<26}{k:>6} → {r.found:<3}{r.method:<18}{r.verdict:<9}{r.confidence:.2f} real {r.ari:5.2f}  "
        f"of three {r.best_of_three:.2f}  given k {given_k}  {r.seconds:.1f} s"
    )


def main(arguments: list[str] | None = None) -> int:
    """Run, print, write."""
    options = parser().parse_args(arguments)
    if options.mixed is not None:
        return mixed_run.main(options.mixed, options.first, not options.no_peers, options.jobs)
    begun = time.perf_counter()
    found = {name: run(group, options) for name, group in groups(options).items()}
    found = {name: records for name, records in found.items() if records}
    if not found:
        print(f"no set is called {options.sets!r}", file=sys.stderr)
        return 2
    for name, records in found.items():
        print(f"\n{name}: {len(records)} sets")
        for figure, value in figures(records).items():
            print(f"  {figure:<56}{value:.3f}")
        for interval, count, mean, real in calibration(records):
            print(f"  confidence {interval}: {count} sets, mean {mean:.2f}, real {real:.2f}")
        for recipe, (wrong, of) in false_alarms(records).items():
            print(f"  false alarms {recipe}: {wrong} of {of}")
    print(f"\n{time.perf_counter() - begun:.0f} s in all")
    if options.write:
        day = datetime.datetime.now(datetime.UTC).date().isoformat()
        machine = f"{day}, {platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}."
        (ROOT / "docs" / "battery.md").write_text(page(dict(found), machine), encoding="utf-8")
        plain = {name: [record.plain() for record in records] for name, records in found.items()}
        (ROOT / "docs" / "battery.json").write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
