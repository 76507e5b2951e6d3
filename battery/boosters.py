"""From a model of scikit-learn to integer tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from battery.generator import Floats
from knoll.comparison.boosting import Boosted

_UNIT = 2.0**-16


def thresholds_of(models: list[Any], columns: int) -> Floats:
    """Collect the thresholds of every column, sorted, padded with infinity: (columns, most)."""
    found: list[set[float]] = [set() for _ in range(columns)]
    for model in models:
        for (tree,) in model._predictors:
            inner = tree.nodes[tree.nodes["is_leaf"] == 0]
            for node in inner:
                found[int(node["feature_idx"])].add(float(node["num_threshold"]))
    width = max(map(len, found))
    out = np.full((columns, max(1, width)), np.inf)
    for j, values in enumerate(found):
        out[j, : len(values)] = sorted(values)
    return out


def tables_of(model: Any, thresholds: Floats) -> Boosted:
    """Turn a fitted HistGradientBoostingRegressor into integer tables; x ≤ threshold goes left."""
    trees = [tree.nodes for (tree,) in model._predictors]
    width = max(map(len, trees))
    shape = (len(trees), width)
    feature, code, left, right = (np.zeros(shape, np.int64) for _ in range(4))
    value = np.zeros(shape, np.int64)
    depth = 0
    for t, nodes in enumerate(trees):
        depth = max(depth, int(nodes["depth"].max()))
        for i, node in enumerate(nodes):
            if node["is_leaf"]:
                left[t, i] = right[t, i] = i
                value[t, i] = round(float(node["value"]) / _UNIT)
                continue
            j = int(node["feature_idx"])
            feature[t, i] = j
            code[t, i] = int(np.searchsorted(thresholds[j], float(node["num_threshold"]), "left"))
            left[t, i], right[t, i] = int(node["left"]), int(node["right"])
    base = round(float(np.ravel(model._baseline_prediction)[0]) / _UNIT)
    return Boosted(feature, code, left, right, value, base, depth)
