"""Scores: how alike two labellings of the same rows are, and how good clusters are by the points in them.

Counts are exact integers, `sample_weight` counts repetitions, no order of the rows matters, and `noise` decides what
the label -1 means:

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

from knoll.metrics._compactness import calinski_harabasz_score, davies_bouldin_score
from knoll.metrics._contingency import Contingency, contingency, contingency_matrix
from knoll.metrics._information import (
    adjusted_mutual_info_score,
    completeness_score,
    entropy,
    expected_mutual_info,
    homogeneity_completeness_v_measure,
    homogeneity_score,
    mutual_info_score,
    normalized_mutual_info_score,
    v_measure_score,
)
from knoll.metrics._rand import adjusted_rand_score, fowlkes_mallows_score, pair_confusion_matrix, rand_score
from knoll.metrics._silhouette import silhouette_samples, silhouette_score
from knoll.metrics._validity import dbcv_score

__all__ = [
    "Contingency",
    "adjusted_mutual_info_score",
    "adjusted_rand_score",
    "calinski_harabasz_score",
    "completeness_score",
    "contingency",
    "contingency_matrix",
    "davies_bouldin_score",
    "dbcv_score",
    "entropy",
    "expected_mutual_info",
    "fowlkes_mallows_score",
    "homogeneity_completeness_v_measure",
    "homogeneity_score",
    "mutual_info_score",
    "normalized_mutual_info_score",
    "pair_confusion_matrix",
    "rand_score",
    "silhouette_samples",
    "silhouette_score",
    "v_measure_score",
]
