"""One set through the comparison, with and without the number of clusters given, and through the peers: a record."""

from __future__ import annotations

import time
import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from battery.generator import Floats, Ints, Sample
from battery.peers import ari, peer_scores
from knoll.comparison import Comparison, compare

__all__ = ["Record", "run_set"]


@dataclass(frozen=True)
class Record:
    """What one set gave."""

    name: str
    rows: int
    columns: int
    clusters: tuple[int, ...]  # of the reference labelings; empty: a set without clusters
    method: str  # what was recommended
    found: int  # clusters of the recommendation
    verdict: str
    confidence: float
    ari: float  # of the recommendation, whatever the verdict
    best_of_three: float  # of the recommendation and its alternatives
    given_k: float | None  # with the number of clusters given, the best over those of the reference labelings
    oracle: float  # the best of one answer a method, chosen by somebody who knows the truth
    peers: dict[str, float]
    seconds: float  # processor time of the comparison

    @property
    def structured(self) -> bool:
        """Whether there are clusters."""
        return bool(self.clusters)

    @property
    def with_verdict(self) -> float:
        """The index, 0 if the verdict is that there are no clusters."""
        return 0.0 if self.verdict == "none" else self.ari

    def plain(self) -> dict[str, Any]:
        """Return it as a dict."""
        return asdict(self)


def run_set(name: str, sample: Sample, *, peers: bool = True, given_k: bool = True, **settings: Any) -> Record:
    """Compare and score."""
    labelings = sample.labelings if sample.structured else ()
    begun = time.process_time()
    found = _quiet(sample.X, **settings)
    seconds = time.process_time() - begun
    known = [_best(labelings, _quiet(sample.X, k=[k], **settings).labels) for k in sample.numbers if given_k]
    return Record(
        name=name,
        rows=sample.X.shape[0],
        columns=sample.X.shape[1],
        clusters=sample.numbers,
        method=found.recommendation.method,
        found=len(np.unique(found.labels[found.labels >= 0])),
        verdict=found.verdict,
        confidence=found.confidence,
        ari=_best(labelings, found.labels),
        best_of_three=max(_best(labelings, labels) for labels in _shown(found)),
        given_k=max(known) if known else None,
        oracle=max(_best(labelings, one.labels) for one in found.candidates.values()),
        peers=peer_scores(sample.X, labelings) if peers and labelings else {},
        seconds=seconds,
    )


def _quiet(X: Floats, **settings: Any) -> Comparison:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compare(X, **settings)


def _shown(found: Comparison) -> list[Ints]:
    return [found.labels, *(one.candidate.labels for one in found.alternatives)]


def _best(labelings: tuple[Ints, ...], labels: Ints) -> float:
    """Return the best index over the labelings; 0 where there are none."""
    return max((ari(y, labels) for y in labelings), default=0.0)
