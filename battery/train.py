"""``make judge``: draw sets, score their answers, train the judge, and write its tables.

The trainer is scikit-learn's histogram gradient boosting, with one thread: the same seeds give the same tables. Sets
are kept in build/judge, so that an interrupted run goes on. Kinds in `TEST_ONLY` are never trained on.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.isotonic import IsotonicRegression

from battery.boosters import tables_of, thresholds_of
from battery.collect import Collected, collect, load, save
from battery.figures import summary
from battery.generator import STRUCTURED, STRUCTURELESS, TEST_ONLY, Floats, draw
from knoll.comparison.judge import Judge

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / "build" / "judge"
TABLES = ROOT / "src" / "knoll" / "comparison" / "judge.npz"
_HELD_OUT = 6  # every sixth set calibrates the confidence and is not trained on
_NEAR = 0.25  # adjusted Rand index below the best of the set at which an answer counts for nothing
_DROPPED = 0.3  # share of the sets of which some methods are left out


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


def train(sets: Sequence[Collected], which: int, *, leaves: int = 31, rounds: int = 200, rate: float = 0.1) -> Any:
    """Fit one sum of trees; every set has the same weight."""
    X = np.concatenate([one.features for one in sets])
    y = np.concatenate([targets(one)[which] for one in sets])
    weight = np.concatenate([np.full(len(one.ari), 1.0 / len(one.ari)) for one in sets])
    model = HistGradientBoostingRegressor(
        max_leaf_nodes=leaves, max_iter=rounds, learning_rate=rate, l2_regularization=1.0, min_samples_leaf=30,
        early_stopping=False, random_state=0,
    )  # fmt: skip
    return model.fit(X, y, sample_weight=weight / weight.mean())


def made_judge(trained: Sequence[Collected], held_out: Sequence[Collected], *, rounds: int = 200) -> Judge:
    """Train both sums of trees, and calibrate the confidence by the answers that are chosen on held-out sets."""
    models = [train(trained, which, rounds=rounds) for which in (0, 1)]
    names = trained[0].names
    thresholds = thresholds_of(models, len(names))
    index, nearness = (tables_of(model, thresholds) for model in models)
    raw = Judge(names, thresholds, index, nearness, np.array([[0.0, 1.0], [0.0, 1.0]]))
    predicted, real = [], []
    for one in held_out:
        score = raw.score(one.features)[0]
        best = 1 + int(np.argmax(score[1:])) if len(score) > 1 else 0
        predicted.append(float(raw.index_of(one.features[best : best + 1])[0]))
        real.append(float(one.ari[best]))
    return Judge(names, thresholds, index, nearness, _curve(np.array(predicted), np.array(real)))


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
    trained = [one for i, one in enumerate(known) if i % _HELD_OUT]
    held_out = known[::_HELD_OUT]
    judge = made_judge(trained, held_out)
    judge.save(TABLES)
    print(f"{TABLES.name}: SHA-256 {judge.digest()}, {TABLES.stat().st_size} bytes")
    left_out = [one for one in sets if one.kind in TEST_ONLY]
    for name, some in (("held out", held_out), ("kinds left out", left_out)):
        print(summary(name, judge, some))
    return 0


if __name__ == "__main__":
    sys.exit(main())
