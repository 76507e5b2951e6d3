"""How alike two labellings of the same rows are: contingency, adjusted Rand, adjusted mutual information.

Counts are exact integers, `sample_weight` counts repetitions, and `noise` decides what the label -1 means:

``"cluster"``
    one more cluster (what scikit-learn does);
``"drop"``
    rows that are noise in either labelling are left out;
``"singletons"``
    each noise row is a cluster of its own.

>>> from knoll.metrics import adjusted_rand_score
>>> adjusted_rand_score([0, 0, 1, 1], [0, 0, 1, -1], noise="drop")
1.0
"""

from __future__ import annotations

from knoll.metrics._contingency import Contingency, contingency
from knoll.metrics._information import (
    adjusted_mutual_info_score,
    entropy,
    expected_mutual_info,
    mutual_info_score,
)
from knoll.metrics._rand import adjusted_rand_score

__all__ = [
    "Contingency",
    "adjusted_mutual_info_score",
    "adjusted_rand_score",
    "contingency",
    "entropy",
    "expected_mutual_info",
    "mutual_info_score",
]
