"""Sums of trees: trained by LightGBM with one thread, and turned into the integer tables that knoll reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import lightgbm
import numpy as np

from battery.generator import Floats, Ints
from knoll.comparison.boosting import UNIT, Boosted

BINS = 127  # of a figure
_SETTINGS = {
    "objective": "regression",
    "learning_rate": 0.06,
    "lambda_l2": 1.0,
    "min_data_in_leaf": 30,
    "feature_fraction": 0.5,
    "max_bin": BINS,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "verbose": -1,
}

GRADES = 30  # of the adjusted Rand index, from 0 to 1
_ORDER = {
    "objective": "lambdarank",
    "label_gain": [100.0 * (grade / GRADES) ** 4 for grade in range(GRADES + 1)],
    "lambdarank_truncation_level": 10,
}


def train(X: Floats, target: Floats, weight: Floats, *, leaves: int, rounds: int, seed: int = 0) -> Any:
    """Fit a sum of trees to a target by least squares."""
    rows = lightgbm.Dataset(X, target, weight=weight / weight.mean(), params=_SETTINGS)
    return lightgbm.train({**_SETTINGS, "num_leaves": leaves, "seed": seed}, rows, rounds)


def train_order(X: Floats, grades: Ints, sizes: Sequence[int], *, leaves: int, rounds: int, seed: int = 0) -> Any:
    """Fit a sum of trees that puts rows of high grades first, in groups of these sizes (LambdaMART: Burges 2010)."""
    settings = _SETTINGS | _ORDER | {"num_leaves": leaves, "seed": seed}
    rows = lightgbm.Dataset(X, grades, group=list(sizes), params=settings)
    return lightgbm.train(settings, rows, rounds)


def thresholds_of(models: Sequence[Any], columns: int) -> Floats:
    """Collect the thresholds of every column, sorted, padded with infinity: (columns, most)."""
    found: list[set[float]] = [set() for _ in range(columns)]
    for tree in _trees(models):
        for node in _nodes(tree):
            if "threshold" in node:
                found[node["split_feature"]].add(node["threshold"])
    out = np.full((columns, max(1, *map(len, found))), np.inf)
    for j, values in enumerate(found):
        out[j, : len(values)] = sorted(values)
    return out


def tables_of(models: Sequence[Any], thresholds: Floats) -> Boosted:
    """Turn the mean of fitted models into integer tables; x ≤ threshold goes left."""
    trees = [list(_nodes(tree)) for tree in _trees(models)]
    shape = (len(trees), max(map(len, trees)))
    feature, code, left, right, value = (np.zeros(shape, np.int64) for _ in range(5))
    for t, nodes in enumerate(trees):
        number = {id(node): i for i, node in enumerate(nodes)}
        for i, node in enumerate(nodes):
            if "threshold" not in node:
                left[t, i] = right[t, i] = i
                value[t, i] = round(node["leaf_value"] / len(models) / UNIT)
                continue
            feature[t, i] = node["split_feature"]
            code[t, i] = np.searchsorted(thresholds[feature[t, i]], node["threshold"], "left")
            left[t, i], right[t, i] = number[id(node["left_child"])], number[id(node["right_child"])]
    return Boosted(feature, code, left, right, value, 0, max(_depth(nodes[0]) for nodes in trees))


def _trees(models: Sequence[Any]) -> Iterator[dict[str, Any]]:
    for model in models:
        for tree in model.dump_model()["tree_info"]:
            yield tree["tree_structure"]


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a node and all below it."""
    yield node
    for side in ("left_child", "right_child"):
        if side in node:
            yield from _nodes(node[side])


def _depth(node: dict[str, Any]) -> int:
    return 1 + max(_depth(node["left_child"]), _depth(node["right_child"])) if "threshold" in node else 0
