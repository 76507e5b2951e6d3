"""``python -m battery --mixed``: the recommendation on tables of numbers and categories, beside peers that are given k.

The peers are k-means on one-hot columns (scikit-learn), k-prototypes (kmodes) and latent classes (StepMix); those that
are not installed are left out. Missing values: medians and most frequent categories for the first two.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from battery import mixed
from knoll.comparison import compare

__all__ = ["main"]

_PEER_ROWS = 3_000  # that kmodes is fitted to; the others are predicted
_DRAWS = 2_000  # of the bootstrap
_SECONDS = 3_600.0  # so that a busy machine gives the same answers


@dataclass(frozen=True)
class Result:
    """What one table gave."""

    sample: mixed.MixedSample
    verdict: str
    method: str
    found: int  # clusters
    ari: float  # of the recommendation, whatever the verdict
    peers: dict[str, float]
    seconds: float

    @property
    def with_verdict(self) -> float:
        """The index, 0 if the verdict is that there are no clusters."""
        return 0.0 if self.verdict == "none" else self.ari

    def line(self) -> str:
        """Return a row of the table."""
        s = self.sample
        peers = "  ".join(f"{name} {score:5.2f}" for name, score in self.peers.items())
        return (
            f"{s.recipe:<20}n {len(s.groups):>5}  columns {len(s.columns):>2}  {s.n_groups} → {self.found:<3}"
            f"{self.method:<18}{self.verdict:<9}{self.ari:5.2f}  {peers}  {self.seconds:.1f} s"
        )


def run(sample: mixed.MixedSample, peers: bool, jobs: int | None) -> Result:
    """Compare and score."""
    frame = sample.frame()
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = compare(frame, n_jobs=jobs, budget=_SECONDS)
        seconds = time.process_time() - begun
        of_peers = dict(peer_scores(frame, sample)) if peers and sample.n_groups > 1 else {}
    index = float(adjusted_rand_score(sample.groups, found.labels)) if sample.n_groups > 1 else 0.0
    clusters = len(np.unique(found.labels[found.labels >= 0]))
    return Result(sample, found.verdict, found.recommendation.method, clusters, index, of_peers, seconds)


def peer_scores(frame: Any, sample: mixed.MixedSample) -> Iterator[tuple[str, float]]:
    """Yield the adjusted Rand index of every peer that is installed."""
    import pandas as pd

    k, y = sample.n_groups, sample.groups
    numbers = frame[[name for name in frame if name.startswith("x")]]
    texts = frame[[name for name in frame if name.startswith("c")]]
    scaled = (numbers - numbers.mean()) / numbers.std().replace(0, 1)
    complete = scaled.fillna(scaled.median())
    filled = texts.apply(lambda column: column.fillna(column.mode()[0]))
    wide = pd.concat([complete, pd.get_dummies(filled).astype(float)], axis=1).to_numpy(float)
    yield "one-hot KMeans", adjusted_rand_score(y, KMeans(k, n_init=10, random_state=0).fit_predict(wide))
    if find_spec("kmodes"):
        yield "kmodes", adjusted_rand_score(y, _kmodes(complete, filled, k))
    if find_spec("stepmix"):
        yield "StepMix", adjusted_rand_score(y, _stepmix(scaled, texts, k))


def _kmodes(numbers: Any, texts: Any, k: int) -> Any:
    from kmodes.kmodes import KModes
    from kmodes.kprototypes import KPrototypes

    rows = np.random.default_rng(0).permutation(len(texts))[:_PEER_ROWS]
    if not numbers.shape[1]:
        cells = texts.to_numpy(object)
        return KModes(k, init="Cao", n_init=3, random_state=0).fit(cells[rows]).predict(cells)
    cells = np.hstack([numbers.to_numpy(object), texts.to_numpy(object)])
    categorical = list(range(numbers.shape[1], cells.shape[1]))
    model = KPrototypes(k, init="Cao", n_init=3, random_state=0).fit(cells[rows], categorical=categorical)
    return model.predict(cells, categorical=categorical)


def _stepmix(numbers: Any, texts: Any, k: int) -> Any:
    import pandas as pd
    from stepmix.stepmix import StepMix

    codes = texts.apply(lambda column: pd.Series(pd.factorize(column)[0], index=column.index).replace(-1, np.nan))
    rows = pd.concat([numbers, codes], axis=1)
    blocks = {"gaussian_diag_nan": numbers.shape[1], "categorical_nan": codes.shape[1]}
    measurement = {name: {"model": name, "n_columns": width} for name, width in blocks.items() if width}
    settings: dict[str, Any] = {"n_init": 3, "random_state": 0, "max_iter": 200, "verbose": 0, "progress_bar": 0}
    return StepMix(k, measurement=measurement, **settings).fit(rows).predict(rows)


def main(count: int, first: int, peers: bool, jobs: int | None) -> int:
    """Run so many seeds of every recipe, and print the tables."""
    results: list[Result] = []
    for seed in range(first, first + count):
        for recipe in (*mixed.RECIPES, *mixed.WITHOUT_GROUPS, *mixed.LIKE):
            results.append(run(mixed.draw(recipe, seed), peers, jobs))
            print(results[-1].line(), flush=True)
    with_groups = [one for one in results if one.sample.recipe in mixed.RECIPES]
    for title, chosen in (("generated tables with groups", with_groups), *_by_recipe(results)):
        verdict = np.mean([one.with_verdict for one in chosen])
        mean = np.mean([one.ari for one in chosen])
        print(f"{title}: {len(chosen)} tables, mean {mean:.3f}, with the verdict {verdict:.3f}{_against(chosen)}")
    bare = [one for one in results if one.sample.recipe in mixed.WITHOUT_GROUPS]
    alarms = sum(one.verdict == "clusters" for one in bare)
    print(f"without groups: {alarms} false alarms in {len(bare)} tables")
    return 0


def _by_recipe(results: list[Result]) -> Iterator[tuple[str, list[Result]]]:
    for recipe in (*mixed.RECIPES, *mixed.LIKE):
        yield recipe, [one for one in results if one.sample.recipe == recipe]


def _against(results: list[Result]) -> str:
    """Return the mean of each peer, and the interval of the difference to it by a paired bootstrap."""
    own, rng, text = np.array([one.ari for one in results]), np.random.default_rng(0), ""
    for name in results[0].peers:
        other = np.array([one.peers[name] for one in results])
        means = (own - other)[rng.integers(len(own), size=(_DRAWS, len(own)))].mean(axis=1)
        low, high = np.quantile(means, [0.025, 0.975])
        text += f"; {name} {other.mean():.3f} (difference {low:+.3f} to {high:+.3f})"
    return text
