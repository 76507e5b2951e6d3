"""Sums of trees: trained by LightGBM with one thread, and turned into the integer tables that knoll reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import lightgbm
import numpy as np

from battery.generator import Floats
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


def bins_of(X: Floats, weight: Floats) -> lightgbm.Dataset:
    """Divide the figures into bins, once for all sums of trees."""
    return lightgbm.Dataset(X, np.zeros(len(X)), weight=weight, params=_SETTINGS, free_raw_data=False).construct()


def train(bins: lightgbm.Dataset, target: Floats, *, leaves: int, rounds: int, seed: int = 0) -> Any:
    """Fit a sum of trees to a target."""
    bins.set_label(target)
    return lightgbm.train({**_SETTINGS, "num_leaves": leaves, "seed": seed}, bins, rounds)


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
