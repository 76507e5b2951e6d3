"""How many splits of a density tree are ties, and what shuffled rows change: ``python -m benchmarks.ties``.

A split is a node with at least two children of ``min_cluster_size`` rows. Where it has a third child at its height,
a tree of binary joins takes them in some order, and subtrees too small to be clusters may be counted with one or
the other. Labels are compared after the best matching of clusters.

    python -m benchmarks.ties        writes docs/ties.md: the share of splits that are ties, and labels that change
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.growth import table
from benchmarks.machine import describe

TARGET = Path(__file__).resolve().parent.parent / "docs" / "ties.md"
SIZE = 10  # min_samples and min_cluster_size
Labeller = Callable[[np.ndarray], np.ndarray]


def tables(n: int) -> dict[str, np.ndarray]:
    """Continuous data: no two distances are equal but by a symmetry of the pair."""
    from sklearn.datasets import make_blobs, make_moons

    rng = np.random.default_rng(7)
    return {
        "normal, 2 columns": rng.normal(size=(n, 2)),
        "moons, noise 0.12": make_moons(n, noise=0.12, random_state=7)[0],
        "three Gaussians": make_blobs(n, 2, centers=3, random_state=7)[0],
        "five blobs, 5 columns": make_blobs(n, 5, centers=5, random_state=7)[0],
    }


def tied_splits(X: np.ndarray) -> tuple[int, int]:
    """Return the number of splits, and of those with a third child."""
    from knoll import DensityTree
    from knoll.density.curves import tree_nodes

    nodes = tree_nodes(DensityTree(SIZE).fit(X).bars_, 1)
    inner = nodes.parent[nodes.parent >= 0]
    large = (nodes.end - nodes.begin >= SIZE)[: len(nodes.parent)] & (nodes.parent >= 0)
    children = np.bincount(inner, minlength=len(nodes.parent)) + np.bincount(
        nodes.leaf_parent, minlength=len(nodes.parent)
    )
    splits = np.bincount(nodes.parent[large], minlength=len(nodes.parent)) >= 2
    return int(splits.sum()), int((splits & (children >= 3)).sum())


def labellers(method: str) -> dict[str, Labeller]:
    """HDBSCAN of each library that is installed, with the same core distances."""
    from sklearn.cluster import HDBSCAN as Sklearn

    from knoll import HDBSCAN

    found: dict[str, Labeller] = {
        "knoll": HDBSCAN(SIZE, min_samples=SIZE, cluster_selection_method=method).fit_predict,
        "scikit-learn": Sklearn(SIZE, min_samples=SIZE, cluster_selection_method=method, copy=True).fit_predict,
    }
    if importlib.util.find_spec("hdbscan"):
        from hdbscan import HDBSCAN as Peer

        # its core distance leaves out the point itself
        options = {"min_samples": SIZE - 1, "approx_min_span_tree": False, "cluster_selection_method": method}
        found["hdbscan"] = Peer(SIZE, **options).fit_predict
    return found


def rows_changed(first: np.ndarray, second: np.ndarray) -> int:
    """Return the rows outside of the best matching of two labellings."""
    from scipy.optimize import linear_sum_assignment

    table = np.zeros((first.max() + 2, second.max() + 2), dtype=np.int64)
    np.add.at(table, (first + 1, second + 1), 1)
    noise = table[0, 0]
    rows, columns = linear_sum_assignment(-table[1:, 1:])
    return int(len(first) - noise - table[1:, 1:][rows, columns].sum())


def shuffled(X: np.ndarray, fit: Labeller, shuffles: int) -> str:
    """Fit shuffled rows, and report how many labels change at most, and how often the number of clusters does."""
    rng = np.random.default_rng(0)
    labels = fit(X)
    worst = other = 0
    for _ in range(shuffles):
        order = rng.permutation(len(X))
        found = fit(X[order])
        worst = max(worst, rows_changed(labels[order], found))
        other += int(found.max() != labels.max())
    return f"{worst}; {other}"


def page(rows: int, few: int, shuffles: int) -> list[str]:
    """Both tables in Markdown."""
    machine = ", ".join(f"{value} {name}" if name == "cores" else str(value) for name, value in describe().items())
    lines = [
        "# Ties and the order of the rows",
        "",
        f"Made by `python -m benchmarks.ties` on {datetime.date.today()}, {machine}.",
        "",
    ]
    lines += [
        f"A split joins two or more subtrees of at least {SIZE} rows (min_samples = min_cluster_size = {SIZE}). Where "
        "a third subtree joins them at the same height, a tree of binary joins takes the three in some order; the "
        "density tree joins them at once. The data are continuous: no two distances are equal.",
        "",
    ]
    counted = []
    for name, X in tables(rows).items():
        splits, tied = tied_splits(X)
        counted.append((name, splits, tied, f"{100 * tied / splits:.1f}" if splits else "–"))
    lines += table((f"{rows} rows", "splits", "with a third subtree", "%"), counted)
    caption = "matched with those of the rows in order: most rows changed; how often the number of clusters did."
    lines += ["", f"Labels after {shuffles} shuffles of {few} rows, {caption}", ""]
    changed = []
    for name, X in tables(few).items():
        for method in ("eom", "leaf"):
            changed.append((name, method, *(shuffled(X, fit, shuffles) for fit in labellers(method).values())))
    return [*lines, *table(("", "clusters", *labellers("eom")), changed), ""]


def main() -> None:
    """Write docs/ties.md."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ties", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000, help="of the first table")
    parser.add_argument("--few", type=int, default=2000, help="rows that are shuffled")
    parser.add_argument("--shuffles", type=int, default=10)
    options = parser.parse_args()
    text = "\n".join(page(options.rows, options.few, options.shuffles))
    print(text)
    TARGET.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
