"""A density tree as one self-contained HTML page: DBSCAN for every ε, with a slider, and the clusters that were taken.

The page uses the canvas, the templates and the style of the report of a comparison. What it draws is bounded, whatever
the number of rows: a sample of them, and the tree by the pixels of its picture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll._format import column_format, duration, number, plural, thousands
from knoll._typing import Floats, Ints
from knoll.comparison import Evidence
from knoll.density.condensed import CondensedTree
from knoll.density.tree import DensityTree
from knoll.models import Preparation
from knoll.plots.condensed_tree import bands, chosen_clusters, drawn_size, height_levels, labels_of
from knoll.plots.cut_curves import at_levels
from knoll.plots.reachability import columns_of
from knoll.report.comparison_charts import HEIGHT, WIDTH, chart, log_ticks
from knoll.report.comparison_clusters import clusters_of, distinguishing_columns
from knoll.report.comparison_view import same_colours, shown_rows
from knoll.report.pieces import (
    MAX_CLUSTERS,
    MAX_COLUMNS,
    chips,
    cluster_cells,
    drawn_rows,
    palette_rules,
    points_block,
    source_hash,
)
from knoll.report.template import embedded, read, render

_LEVELS = 240  # heights at which the widths of clusters are computed, and positions of the slider
_COLUMNS = 600  # of the reachability plot
_FINE = 10_000  # steps from one edge of a picture to the other
_MATCHED = 300  # clusters whose colours follow the tree


def tree_page(
    tree: DensityTree,
    X: NDArray[np.generic],
    labels: Ints,
    *,
    name: str,
    title: str,
    scaling: Preparation,
    min_cluster_size: float,
    eps: float | None = None,
    parameters: Mapping[str, Any] | None = None,
    ids: Sequence[Any] | NDArray[Any] | None = None,
    facts: Sequence[str] = (),
    command: str = "",
    cut_command: str = "",
    seed: int = 0,
    seconds: float = 0.0,
) -> str:
    """Return the page.

    Parameters
    ----------
    tree : DensityTree
        The tree of the scaled rows, each of weight 1.
    X : ndarray of shape (n, d)
        The table, in its own units.
    labels : ndarray of shape (n,)
        The clusters that were taken; −1 is noise.
    name : str
        The name of the table.
    title : str
        The method that the labels are of.
    scaling : Preparation
        How the rows of the tree were made from the table.
    min_cluster_size : float
        The least number of rows of a cluster.
    eps : float, optional
        The radius that the labels are of, if they are those of DBSCAN.
    parameters : mapping, optional
        The parameters of the method.
    ids : sequence of length n, optional
        The identifiers of the rows; by default their numbers.
    facts : sequence of str
        Remarks on the table, such as omitted columns and rows.
    command : str
        The command that reproduces this page.
    cut_command : str
        The command to which the page appends an ε.
    seed : int, default=0
        Seed of the sample that is drawn.
    seconds : float
        How long the fit took.

    Examples
    --------
    >>> from knoll import HDBSCAN, datasets
    >>> from knoll.models import Preparation
    >>> from knoll.report.tree import tree_page
    >>> data = datasets.load("iris")
    >>> made = Preparation.fit(data.X, data.feature_names)
    >>> model = HDBSCAN(10, 5).fit(made.apply(data.X))
    >>> page = tree_page(
    ...     model, data.X, model.labels_, name="iris", title="HDBSCAN", scaling=made, min_cluster_size=10
    ... )
    >>> page[:15], "HDBSCAN" in page
    ('<!doctype html>', True)
    """
    n = len(X)
    size = drawn_size(tree, min_cluster_size)
    condensed, clusters = chosen_clusters(tree, min_cluster_size)
    levels = height_levels(condensed, _LEVELS)
    if eps is not None:
        levels, clusters = np.unique(np.append(levels, eps)), _clusters_at(condensed, eps)
    view = TreeView(condensed, levels, clusters, _colours(condensed, clusters), eps)
    rows = drawn_rows(n, X.shape[1], seed)
    shown = shown_rows(scaling.apply(X[rows]), scaling, rows, n, X[rows])
    painted = _painted(view.row_colours(), labels)
    picture = {
        "id": "tree", "title": title, "chips": chips(labels, painted),
        "colours": painted[rows].tolist(), "labels": labels[rows].tolist(),
    }  # fmt: skip
    curves = {"rows": n, **_curves(tree, levels, size)}
    start = _start(levels, curves["clusters"], labels, eps)
    charts = _charts(levels, curves, float(levels[start]), size)
    block = _block(tree, view, rows, curves, charts, start)
    style = read("tour.css") + read("compare.css") + read("tree.css") + palette_rules()
    script = read("compare.js") + read("tree.js")
    return render(
        "tree.html",
        name=name, title=title, n=n, d=X.shape[1], counted=thousands, shown=shown, picture=picture,
        counts=_counts(labels), parameters={key: _plain(value) for key, value in (parameters or {}).items()},
        answer=_answer(X, labels, painted, scaling.columns), size=number(size), coarse=size > min_cluster_size,
        min_samples=number(float(tree._level())), data=points_block([picture], shown, ids), start=start,
        tree=embedded({**block, "counts": _counts(labels), "command": cut_command}), charts=charts,
        n_levels=len(levels), width=WIDTH, height=HEIGHT, facts=facts, scale=scaling.scale, command=command,
        cut_command=cut_command, seed=seed, seconds=duration(seconds), css=style, css_hash=source_hash(style),
        script=script, script_hash=source_hash(script), alt=_alt(view, n),
    )  # fmt: skip


# ---- colours ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TreeView:
    """The condensed tree as it is drawn."""

    tree: CondensedTree
    levels: Floats  # (l,) heights
    clusters: Ints  # (k,) clusters that were taken, or those at ε
    colours: Ints  # (c,) the colour of each cluster
    eps: float | None

    def row_colours(self) -> Ints:
        """(n,) the colour of each row in the picture of the labels, −1: none."""
        taken = labels_of(self.tree, self.clusters)[self.tree.row_cluster]
        if self.eps is not None:
            taken = np.where(self.tree.row_height <= self.eps, taken, -1)
        return np.where(taken >= 0, self.colours[self.clusters[taken]] if len(self.clusters) else -1, -1)


def _colours(tree: CondensedTree, clusters: Ints) -> Ints:
    """Return a colour for each cluster of the tree; those that were taken have the first ones.

    A cluster and one of its children have one colour, so that few rows change theirs from one ε to the next.
    """
    inside = np.zeros(len(tree.parent), dtype=bool)  # holds a taken cluster
    inside[clusters] = True
    heir = np.full(len(tree.parent), -1)
    for c in range(len(tree.parent) - 1, 0, -1):
        up = int(tree.parent[c])
        inside[up] |= inside[c]
        best = heir[up]
        if best < 0 or (inside[c], tree.weight[c]) >= (inside[best], tree.weight[best]):
            heir[up] = c
    chain = np.arange(len(tree.parent))  # the first cluster of the same colour
    for c in range(1, len(chain)):
        if heir[tree.parent[c]] == c:
            chain[c] = chain[tree.parent[c]]
    firsts = [int(chain[c]) for c in clusters]
    others = [c for c in np.flatnonzero(chain == np.arange(len(chain))).tolist() if c not in set(firsts)]
    others.sort(key=lambda c: (-tree.weight[c], c))
    colour = {first: at for at, first in enumerate([*firsts, *others])}
    return np.array([colour[int(first)] for first in chain])


def _clusters_at(tree: CondensedTree, eps: float) -> Ints:
    """Return the clusters at one ε, the largest first."""
    lowest = np.full(len(tree.parent), np.inf)
    np.minimum.at(lowest, tree.row_cluster, tree.row_height)
    found = np.flatnonzero((tree.birth > eps) & (np.where(tree.death >= 0, tree.death, lowest) <= eps))
    return found[np.argsort(-tree.weight[found], kind="stable")]


def _painted(model: Ints, labels: Ints) -> Ints:
    """Number the labels so that they have the colours of the tree; of very many, the largest ones."""
    sizes = np.bincount(labels[labels >= 0])
    largest = np.zeros(len(sizes) + 1, dtype=bool)  # the last entry is that of noise
    largest[np.argsort(-sizes, kind="stable")[:_MATCHED]] = True
    painted = same_colours(model, np.where(largest[labels], labels, -1))
    others = (labels >= 0) & ~largest[labels]
    painted[others] = labels[others] + max(int(painted.max(initial=0)), int(model.max(initial=0))) + 1
    return painted


# ---- what the page shows ---------------------------------------------------------------------------------------------


def _curves(tree: DensityTree, levels: Floats, size: float) -> dict[str, Any]:
    """Return what DBSCAN* finds at each level: exact for all rows."""
    clusters, noise, largest = at_levels(tree.curves(size), levels)
    return {"clusters": clusters, "noise": noise, "largest": largest}


def _start(levels: Floats, counts: Ints, labels: Ints, eps: float | None) -> int:
    """Return the first position of the slider: ε, or the middle of the widest range with as many clusters."""
    if eps is not None:
        return int(np.searchsorted(levels, eps))
    wanted = int(labels.max(initial=-1)) + 1
    alike = np.flatnonzero(counts == wanted)
    if not len(alike):
        return len(levels) // 2
    runs = np.split(alike, np.flatnonzero(np.diff(alike) > 1) + 1)
    longest = max(runs, key=len)
    return int(longest[len(longest) // 2])


def _charts(levels: Floats, curves: Mapping[str, Any], eps: float, size: float) -> list[dict[str, Any]]:
    """Return the curves over ε for the template."""
    least = f"of at least {number(size)} rows"
    clusters = Evidence(
        "clusters", "ε", levels, {"clusters": curves["clusters"].astype(float)}, eps,
        f"The number of clusters {least} at every ε.", "ε", "clusters",
    )  # fmt: skip
    noise = Evidence(
        "noise", "ε", levels, {"noise": 100 * curves["noise"], "largest": _shares(curves)}, eps,
        f"The share of rows in no cluster {least}, and that of the largest cluster.", "ε", "% of the rows",
    )  # fmt: skip
    return [{**chart(one, log=True, most=len(levels)), "chosen_y": None} for one in (clusters, noise)]


def _shares(curves: Mapping[str, Any]) -> Floats:
    return np.asarray(100 * curves["largest"] / curves["rows"])


def _counts(labels: Ints) -> str:
    noise = float((labels < 0).mean())
    return plural(int(labels.max(initial=-1)) + 1, "cluster") + (f", {100 * noise:.1f} % noise" if noise else "")


def _answer(X: NDArray[np.generic], labels: Ints, painted: Ints, columns: Sequence[str]) -> dict[str, Any]:
    """Describe the clusters that were taken."""
    found = clusters_of(X, labels, columns)
    largest = [cluster for cluster in found if cluster.label >= 0][:MAX_CLUSTERS]
    noise = [cluster for cluster in found if cluster.label < 0]
    best = distinguishing_columns(found, MAX_COLUMNS)
    write = [column_format(np.asarray(X[:, j], dtype=np.float64)) for j in range(X.shape[1])]
    paint = {int(label): int(painted[at]) for label, at in zip(*np.unique(labels, return_index=True))}
    return {
        "title": "the clusters", "role": "recommended", "columns": [columns[j] for j in best],
        "all_columns": len(columns), "more": len(found) - len(noise) - len(largest),
        "clusters": [cluster_cells(cluster, best, paint[cluster.label], write, columns) for cluster in largest + noise],
    }  # fmt: skip


def _plain(value: Any) -> str:
    return number(float(value)) if isinstance(value, float | np.floating) else str(value)


def _alt(view: TreeView, n: int) -> dict[str, str]:
    leaves = plural(int(view.tree.is_leaf.sum()), "leaf").replace("leafs", "leaves")
    heights = f"heights from {number(float(view.levels[0]))} to {number(float(view.levels[-1]))}"
    return {
        "tree": f"The condensed tree of {thousands(n)} rows: {leaves}, {heights}.",
        "reachability": f"The reachability plot of {thousands(n)} rows, {heights}; valleys are clusters.",
    }


# ---- data for the script ---------------------------------------------------------------------------------------------


def _block(
    tree: DensityTree,
    view: TreeView,
    rows: Ints,
    curves: Mapping[str, Any],
    charts: Sequence[Mapping[str, Any]],
    start: int,
) -> dict[str, Any]:
    """Return the tree, the drawn rows in it, and the curves, for the script."""
    condensed, levels = view.tree, view.levels
    taken = np.zeros(len(condensed.parent), dtype=bool)
    taken[view.clusters] = True
    plot = columns_of(tree.bars_, _COLUMNS)
    members = tree.order_[plot.row]
    return {
        "fine": _FINE, "rows": len(tree.order_), "start": start, "cut": view.eps is not None,
        "eps": levels.tolist(),
        "clusters": curves["clusters"].tolist(), "noise": [round(share, 5) for share in curves["noise"].tolist()],
        "largest": curves["largest"].astype(np.int64).tolist(),
        "x": charts[0]["x"], "ticks": [[_fraction(levels, at), text] for at, text in _height_ticks(levels)],
        "parent": condensed.parent.tolist(), "colour": view.colours.tolist(), "taken": taken.tolist(),
        "birth": _finite(condensed.birth),
        "bands": _bands(view),
        "row_cluster": condensed.row_cluster[rows].tolist(),
        "row_height": _finite(condensed.row_height[rows]),
        "plot": {
            "median": _fractions(levels, plot.median).tolist(), "largest": _fractions(levels, plot.largest).tolist(),
            "cluster": condensed.row_cluster[members].tolist(),
            "height": _finite(condensed.row_height[members]),
        },
    }  # fmt: skip


def _finite(heights: Floats) -> list[float | None]:
    """Return heights with all their digits, as they are compared with ε; None: infinite."""
    return [height if np.isfinite(height) else None for height in heights.tolist()]


def _fractions(levels: Floats, heights: Floats) -> Ints:
    """Return heights as steps of the logarithmic axis."""
    low, high = np.log(levels[[0, -1]])
    inside = np.clip(heights, levels[0], levels[-1])
    return np.rint(_FINE * (np.log(inside) - low) / (high - low)).astype(np.int64)


def _fraction(levels: Floats, height: float) -> int:
    return int(_fractions(levels, np.array([height]))[0])


def _height_ticks(levels: Floats) -> list[tuple[float, str]]:
    return log_ticks(float(levels[0]), float(levels[-1]))


def _bands(view: TreeView) -> list[list[list[int]]]:
    """Return the shape of each cluster: heights, left and right edges, as steps of the picture."""
    total = float(view.tree.weight[0])
    found = []
    for band in bands(view.tree, view.levels):
        height = _fractions(view.levels, band.height)
        left, right = (np.rint(_FINE * side / total).astype(np.int64) for side in (band.left, band.right))
        found.append([side.tolist() for side in (height, left, right)])
    return found
