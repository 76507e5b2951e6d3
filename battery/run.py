"""One set through the comparison and through the peers: a record of scores."""

from __future__ import annotations

import time
import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from battery.peers import ari, peer_scores
from battery.sets import STRUCTURED, draw
from knoll.comparison import compare

__all__ = ["Record", "run_set"]


@dataclass(frozen=True)
class Record:
    """What one set gave."""

    name: str
    seed: int
    rows: int
    columns: int
    clusters: int  # in truth; 1 for a set without structure
    method: str | None  # what was recommended; None: no clusters
    found: int  # clusters of the recommendation
    ari: float  # of the recommendation
    ours: dict[str, float]  # of every method of ours
    peers: dict[str, float]
    seconds: float
    reason: str  # for the number of clusters

    @property
    def oracle(self) -> float:
        """The best of our answers, chosen by somebody who knows the truth."""
        return max(self.ours.values(), default=0.0)

    def plain(self) -> dict[str, Any]:
        """Return it as a dict."""
        return asdict(self)


def run_set(name: str, seed: int, peers: bool = True, **settings: Any) -> Record:
    """Draw the set, compare, score."""
    X, y = draw(name, seed)
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = compare(X, **settings)
    seconds = time.process_time() - begun
    structured = name in STRUCTURED
    return Record(
        name=name,
        seed=seed,
        rows=X.shape[0],
        columns=X.shape[1],
        clusters=len(np.unique(y[y >= 0])),
        method=found.recommendation.method,
        found=len(np.unique(found.labels[found.labels >= 0])),
        ari=ari(y, found.labels),
        ours={method: ari(y, one.labels) for method, one in found.candidates.items()},
        peers=peer_scores(X, y) if peers and structured else {},
        seconds=seconds,
        reason=found.recommendation.structure.reason,
    )
