"""``make judge``: draw sets, score their answers, train the judge, and write its tables.

Sets are kept in build/judge, so that a run can go on. Recipes of `TEST_ONLY` are never trained on; confidence
is calibrated by recipes left out: four times the judge is trained without a quarter of the recipes, and the curve
comes from its choices on those. The thresholds of the verdict come from the choices of the judge that ships, on draws
without clusters that it was not trained on; ``--thresholds`` makes these anew for the tables that are there, and
``--alarms`` counts, on other draws, how often the verdict is wrong, and ``--without-two`` what it costs if two methods
are left out.
"""

from __future__ import annotations

import argparse
import sys
import zlib
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import chain
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from sklearn.isotonic import IsotonicRegression

from battery.boosters import GRADES, tables_of, thresholds_of, train, train_order
from battery.collect import Collected, collect, load, save
from battery.figures import Choice, alarm_table, choose, report
from battery.generator import STRUCTURED, STRUCTURELESS, TEST_ONLY, Floats, Ints, draw
from knoll.comparison.judge import Judge, the_judge
from knoll.registry import compared

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / "build" / "judge"
TABLES = ROOT / "src" / "knoll" / "comparison" / "judge.npz"
DIGEST = ROOT / "battery" / "judge.sha256"
_SEEDS = 80  # of each recipe
_FOLDS = 4  # of recipes
_OF_ONE = 0.1  # weight of the answer that all rows are one cluster, of the weight of a set
_DROPPED = 0.3  # share of the sets of which some methods are left out
_NOT_NONE, _ALARMS = 0.04, 0.02  # shares of fresh sets without clusters with another verdict, and with "clusters"
_FRESH = 5 * 10**5  # the first seed of the sets that the thresholds come from
_FRESH_SEEDS = 60  # of each recipe without clusters
_UNSEEN = 10**6  # the first seed of draws that neither trees nor thresholds come from
_FOLDS_OF_SETS = 3
_LEAVES, _ROUNDS = 31, 250


def make_set(recipe: str, seed: int) -> str:
    """Collect the answers of one set, if they are not there yet; return what went wrong."""
    path = CACHE / f"{recipe}-{seed}.npz"
    if path.exists():
        return ""
    try:
        save(path, collect(draw(recipe, seed), seed, drop=_DROPPED if seed < _FRESH else 0.0))
    except Exception as error:
        return f"{recipe} {seed}: {type(error).__name__}: {error}"
    return ""


def made_judge(sets: Sequence[Collected], *, leaves: int = _LEAVES, rounds: int = _ROUNDS) -> Judge:
    """Train the sums of trees; every set has the same weight. Confidence and verdict are not calibrated."""
    names = sets[0].names
    index = train(
        np.concatenate([one.features for one in sets]),
        np.concatenate([one.ari for one in sets]),
        np.concatenate([weights_of(len(one.ari)) for one in sets]),
        leaves=leaves,
        rounds=rounds,
    )
    structured = [one for one in sets if one.recipe not in STRUCTURELESS]
    order = train_order(
        np.concatenate([one.features for one in structured]),
        np.concatenate([np.round(GRADES * np.clip(one.ari, 0.0, 1.0)).astype(np.int64) for one in structured]),
        [len(one.ari) for one in structured],
        leaves=leaves,
        rounds=rounds,
    )
    thresholds = thresholds_of([index, order], len(names))
    tables = [tables_of([model], thresholds) for model in (index, order)]
    return Judge(names, thresholds, *tables, curve=np.array([[0.0, 1.0], [0.0, 1.0]]), none_lead=0.0, clear_lead=0.0)


def weights_of(answers: int) -> Floats:
    """Return the weights of the answers of a set; the verdict hangs on the first one, a single cluster."""
    return np.r_[_OF_ONE, np.full(answers - 1, (1 - _OF_ONE) / (answers - 1))]


def folds_of_sets(sets: Sequence[Collected], count: int = _FOLDS_OF_SETS) -> list[Ints]:
    """Divide the sets, of all recipes alike."""
    return [np.arange(fold, len(sets), count) for fold in range(count)]


def folds_of_recipes(sets: Sequence[Collected], count: int) -> list[Ints]:
    """Divide the sets by their recipes."""
    recipes = sorted({one.recipe for one in sets})
    of = [set(recipes[fold::count]) for fold in range(count)]
    return [np.flatnonzero([one.recipe in group for one in sets]) for group in of]


_SETS: list[Collected] = []  # of a worker


def _choose_without(fold: Ints) -> list[Choice]:
    """Train a judge without the sets of a fold, and let it choose on them."""
    without = set(fold.tolist())
    judge = made_judge([one for at, one in enumerate(_SETS) if at not in without])
    return [choose(judge, _SETS[at]) for at in fold]


def choices_on_unseen(sets: Sequence[Collected], folds: Sequence[Ints], jobs: int) -> list[Choice]:
    """Let judges choose on each fold that were trained on the others. Forked workers share the sets."""
    with ProcessPoolExecutor(jobs, get_context("fork"), _SETS.extend, (sets,)) as workers:
        return list(chain.from_iterable(workers.map(_choose_without, folds)))


def calibrated(judge: Judge, of_recipes: Sequence[Choice]) -> Judge:
    """Set the curve of the confidence by unseen recipes."""
    good = [c for c in of_recipes if c.structured]
    return replace(judge, curve=_curve(np.array([c.index for c in good]), np.array([c.ari for c in good])))


def with_thresholds(judge: Judge, bare: Sequence[Choice]) -> Judge:
    """Set the thresholds of the verdict by sets without clusters that the judge has not seen."""
    leads = np.array([c.lead_of_one for c in bare])
    none, clear = np.quantile(leads, [_NOT_NONE, _ALARMS])
    return replace(judge, none_lead=float(none), clear_lead=float(clear))


def _curve(predicted: Floats, real: Floats) -> Floats:
    """Return points of the monotone curve from predicted to real index."""
    fitted = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(predicted, real)
    x = np.linspace(0.0, 1.0, 21)
    smooth = np.convolve(np.pad(fitted.predict(x), 2, mode="edge"), np.full(5, 0.2), "valid")
    return np.array([x, np.maximum.accumulate(smooth)])


def make_sets(tasks: Sequence[tuple[str, int]], jobs: int) -> list[Collected]:
    """Collect the sets that are not there yet, and read them all."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(jobs) as workers:
        for done, fault in enumerate(workers.map(make_set, *zip(*tasks, strict=True), chunksize=4)):
            if fault:
                print(fault, file=sys.stderr, flush=True)
            if done % 50 == 0:
                print(f"{done} of {len(tasks)} sets", flush=True)
    paths = (CACHE / f"{recipe}-{seed}.npz" for recipe, seed in sorted(tasks))
    return [load(path) for path in paths if path.exists()]


def keep(judge: Judge, jobs: int) -> Judge:
    """Set the thresholds, write the tables and their digest."""
    recipes = [recipe for recipe in STRUCTURELESS if recipe not in TEST_ONLY]
    fresh = make_sets([(recipe, _FRESH + seed) for seed in range(_FRESH_SEEDS) for recipe in recipes], jobs)
    bare = [choose(judge, one) for one in fresh]
    judge = with_thresholds(judge, bare)
    judge.save(TABLES)
    DIGEST.write_text(f"{judge.digest()}\n")
    print(f"{TABLES.name}: SHA-256 {judge.digest()}, {TABLES.stat().st_size} bytes")
    print(report("fresh draws", bare, judge))
    return judge


def alarms(count: int, jobs: int) -> str:
    """Count wrong verdicts of the judge that ships on so many unseen draws of every recipe without clusters."""
    tasks = [(recipe, _UNSEEN + seed) for seed in range(count) for recipe in STRUCTURELESS]
    return alarm_table([choose(the_judge(), one) for one in make_sets(tasks, jobs)], the_judge())


def _loss(task: tuple[str, int]) -> tuple[tuple[str, str], float, float]:
    """Return two methods by chance, and the index of the answers with all methods and without these two."""
    kind, seed = task
    names = sorted(compared())
    first, second = np.random.default_rng([seed, zlib.crc32(kind.encode())]).choice(len(names), 2, replace=False)
    pair = names[first], names[second]
    path = CACHE / f"{kind}-{seed}-without-{pair[0]}-{pair[1]}.npz"
    if not path.exists():
        save(path, collect(draw(kind, seed), seed, without=pair))
    whole, less = (choose(the_judge(), load(one)).ari for one in (CACHE / f"{kind}-{seed}.npz", path))
    return pair, whole, less


def without_two(count: int, jobs: int) -> str:
    """Leave two methods out, by chance, on so many unseen draws of every kind with clusters; say what it costs."""
    tasks = [(kind, _UNSEEN + seed) for seed in range(count) for kind in STRUCTURED]
    make_sets(tasks, jobs)
    with ProcessPoolExecutor(jobs) as workers:
        found = list(workers.map(_loss, tasks, chunksize=4))
    lines = ["| left out, with one more by chance | sets | all methods | without | loss |", "|---|---:|---:|---:|---:|"]
    for name in [*sorted(compared()), None]:
        pairs = np.array([(whole, less) for pair, whole, less in found if name in (None, *pair)])
        whole, less = pairs.mean(axis=0)
        lines.append(f"| {name or 'any two'} | {len(pairs)} | {whole:.3f} | {less:.3f} | {whole - less:.3f} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Draw, train, write."""
    p = argparse.ArgumentParser(prog="python -m battery.train", description=__doc__)
    p.add_argument("--seeds", type=int, default=_SEEDS, metavar="N", help=f"sets of each recipe (default {_SEEDS})")
    p.add_argument("--folds", type=int, default=_FOLDS, metavar="N", help=f"of the recipes (default {_FOLDS})")
    p.add_argument("--jobs", type=int, default=2, metavar="N")
    p.add_argument("--thresholds", action="store_true", help="only the thresholds of the verdict")
    p.add_argument("--alarms", type=int, metavar="N", help="only count wrong verdicts, on N draws of each recipe")
    p.add_argument("--without-two", type=int, metavar="N", help="only leave two methods out, on N draws of each recipe")
    options = p.parse_args(arguments)
    if options.without_two:
        print(without_two(options.without_two, options.jobs))
        return 0
    if options.alarms:
        print(alarms(options.alarms, options.jobs))
        return 0
    if options.thresholds:
        keep(the_judge(), options.jobs)
        return 0
    sets = make_sets(
        [(recipe, seed) for seed in range(options.seeds) for recipe in (*STRUCTURED, *STRUCTURELESS)], options.jobs
    )
    known = [one for one in sets if one.recipe not in TEST_ONLY]
    of_recipes = choices_on_unseen(known, folds_of_recipes(known, options.folds), options.jobs)
    of_sets = choices_on_unseen(known, folds_of_sets(known), options.jobs)
    judge = keep(calibrated(made_judge(known), of_recipes), options.jobs)
    print(report("recipes left out", of_recipes, judge))
    print(report("sets left out", of_sets, judge))
    print(report("recipes for tests", [choose(judge, one) for one in sets if one.recipe in TEST_ONLY], judge))
    return 0


if __name__ == "__main__":
    sys.exit(main())
