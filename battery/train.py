"""``make judge``: draw sets, score their answers, train the judge, and write its tables.

Sets are kept in build/judge, so that an interrupted run goes on. Kinds in `TEST_ONLY` are never trained on. Confidence
and verdict are calibrated by kinds left out: four times the judge is trained without a quarter of the kinds of sets,
and the curve comes from its choices on those. The threshold of the verdict comes from sets left out, of all kinds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.isotonic import IsotonicRegression

from battery.boosters import bins_of, tables_of, thresholds_of, train
from battery.collect import Collected, collect, load, save
from battery.figures import Choice, choose, report
from battery.generator import STRUCTURED, STRUCTURELESS, TEST_ONLY, Floats, Ints, draw
from knoll.comparison.judge import Judge

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / "build" / "judge"
TABLES = ROOT / "src" / "knoll" / "comparison" / "judge.npz"
_FOLDS = 4  # of kinds
_NEAR = 0.25  # adjusted Rand index below the best of the set at which an answer counts for nothing
_DROPPED = 0.3  # share of the sets of which some methods are left out
_FALSE_ALARMS = 0.03  # share of unseen sets without clusters that the threshold allows
_SAME_NUMBER = 0.3  # difference of log k up to which an answer has about a true number of clusters
_FOLDS_OF_SETS = 3
_LEAVES, _ROUNDS = 31, 250


def make_set(kind: str, seed: int) -> str:
    """Collect the answers of one set, if they are not there yet; return what went wrong."""
    path = CACHE / f"{kind}-{seed}.npz"
    if path.exists():
        return ""
    try:
        save(path, collect(draw(kind, seed), seed, drop=_DROPPED))
    except Exception as error:
        return f"{kind} {seed}: {type(error).__name__}: {error}"
    return ""


def targets(one: Collected) -> tuple[Floats, Floats]:
    """Return the index of each answer, and how near it is to the best answer of the set, times the index of that."""
    if one.kind in STRUCTURELESS:
        return one.ari, one.ari
    best = float(one.ari[1:].max(initial=0.0))
    return one.ari, np.clip((one.ari - best + _NEAR) / _NEAR, 0.0, 1.0) * best


def made_judge(sets: Sequence[Collected], *, leaves: int = _LEAVES, rounds: int = _ROUNDS) -> Judge:
    """Train the sums of trees; every set has the same weight. Confidence and verdict are not calibrated."""
    index, nearness = zip(*map(targets, sets), strict=True)
    every = [np.arange(len(one.ari)) for one in sets]
    models = [
        _trained(sets, rows, target, leaves, rounds)
        for rows, target in ((every, index), (every, nearness), (list(map(near_number, sets)), index))
    ]
    names = sets[0].names
    thresholds = thresholds_of(models, len(names))
    tables = [tables_of([model], thresholds) for model in models]
    return Judge(names, thresholds, *tables, curve=np.array([[0.0, 1.0], [0.0, 1.0]]), none_lead=0.0)


def _trained(
    sets: Sequence[Collected], rows: Sequence[Ints], target: Sequence[Floats], leaves: int, rounds: int
) -> Any:
    """Fit a sum of trees to some of the answers of each set."""
    used = [(one.features[at], y[at]) for one, at, y in zip(sets, rows, target, strict=True) if len(at)]
    weight = np.concatenate([np.full(len(y), 1.0 / len(y)) for _, y in used])
    bins = bins_of(np.concatenate([X for X, _ in used]), weight / weight.mean())
    return train(bins, np.concatenate([y for _, y in used]), leaves=leaves, rounds=rounds)


def near_number(one: Collected) -> Ints:
    """Return the answers with about a true number of clusters, which tell more than those with exactly that number."""
    away = [np.abs(np.log(one.clusters / k)) for k in one.numbers]
    return np.flatnonzero(np.min(away, axis=0) <= _SAME_NUMBER) if away else np.empty(0, np.int64)


def choices_on_unseen_sets(sets: Sequence[Collected]) -> list[Choice]:
    """Let judges choose that were trained on other sets of the same kinds."""
    out = []
    for fold in range(_FOLDS_OF_SETS):
        judge = made_judge([one for i, one in enumerate(sets) if i % _FOLDS_OF_SETS != fold])
        out += [choose(judge, one) for one in sets[fold::_FOLDS_OF_SETS]]
    return out


def choices_on_unseen_kinds(sets: Sequence[Collected]) -> list[Choice]:
    """Let judges choose that were trained on other kinds."""
    kinds = sorted({one.kind for one in sets})
    out = []
    for fold in range(_FOLDS):
        unseen = set(kinds[fold::_FOLDS])
        judge = made_judge([one for one in sets if one.kind not in unseen])
        out += [choose(judge, one) for one in sets if one.kind in unseen]
    return out


def calibrated(judge: Judge, of_kinds: Sequence[Choice], of_sets: Sequence[Choice]) -> Judge:
    """Set the curve of the confidence by unseen kinds, and the threshold of the verdict by unseen sets."""
    curve = _curve(
        np.array([c.index for c in of_kinds if c.structured]), np.array([c.ari for c in of_kinds if c.structured])
    )
    leads = np.array([c.lead_of_one for c in of_sets if not c.structured])
    return replace(judge, curve=curve, none_lead=float(np.quantile(leads, _FALSE_ALARMS)))


def _curve(predicted: Floats, real: Floats) -> Floats:
    """Return points of the monotone curve from predicted to real index."""
    fitted = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(predicted, real)
    x = np.linspace(0.0, 1.0, 21)
    smooth = np.convolve(np.pad(fitted.predict(x), 2, mode="edge"), np.full(5, 0.2), "valid")
    return np.array([x, np.maximum.accumulate(smooth)])


def main(arguments: list[str] | None = None) -> int:
    """Draw, train, write."""
    p = argparse.ArgumentParser(prog="python -m battery.train", description=__doc__)
    p.add_argument("--seeds", type=int, default=60, metavar="N", help="sets of each kind (default 60)")
    p.add_argument("--jobs", type=int, default=2, metavar="N")
    options = p.parse_args(arguments)
    CACHE.mkdir(parents=True, exist_ok=True)
    tasks = [(kind, seed) for seed in range(options.seeds) for kind in (*STRUCTURED, *STRUCTURELESS)]
    with ProcessPoolExecutor(options.jobs) as workers:
        for done, fault in enumerate(workers.map(make_set, *zip(*tasks, strict=True), chunksize=4)):
            if fault:
                print(fault, file=sys.stderr, flush=True)
            if done % 50 == 0:
                print(f"{done} of {len(tasks)} sets", flush=True)
    sets = [load(path) for path in sorted(CACHE.glob("*.npz"))]
    known = [one for one in sets if one.kind not in TEST_ONLY]
    of_kinds, of_sets = choices_on_unseen_kinds(known), choices_on_unseen_sets(known)
    judge = calibrated(made_judge(known), of_kinds, of_sets)
    judge.save(TABLES)
    print(f"{TABLES.name}: SHA-256 {judge.digest()}, {TABLES.stat().st_size} bytes")
    print(report("kinds left out", of_kinds, judge))
    print(report("sets left out", of_sets, judge))
    print(report("kinds for tests", [choose(judge, one) for one in sets if one.kind in TEST_ONLY], judge))
    return 0


if __name__ == "__main__":
    sys.exit(main())
