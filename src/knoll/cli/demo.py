"""``knoll demo``: the ten boxes of the paper on its data, as a table of scores and one picture.

Every parameter and every start is in this file, and nothing is drawn at random: two runs give the same table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from knoll.cli import _options
from knoll.cli._files import folder, whole_file
from knoll.cli._output import check_new
from knoll.cli._progress import counting
from knoll.cli._terminal import echo

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from knoll._typing import Floats, Ints
    from knoll.datasets import Dataset


BOXES = 9  # the paper's algorithms 2 to 10, on each data set


class Setting(NamedTuple):
    """The parameters of the algorithms on a data set."""

    k: int
    sigma: float  # Gaussian kernel of spectral clustering
    kernel_sigma: float  # ... and of kernel k-means, which needs a wider one
    eps: float  # DBSCAN, with
    min_pts: int
    bandwidth: float  # Mean Shift's eps


SETTINGS = {
    "x1500": Setting(k=3, sigma=0.5, kernel_sigma=1.5, eps=0.6, min_pts=10, bandwidth=1.8),
    "circles": Setting(k=2, sigma=0.1, kernel_sigma=0.3, eps=0.2, min_pts=5, bandwidth=0.3),
    "banana": Setting(k=2, sigma=0.1, kernel_sigma=0.3, eps=0.16, min_pts=5, bandwidth=0.5),
    "three_component_density": Setting(k=3, sigma=0.5, kernel_sigma=1.2, eps=0.5, min_pts=10, bandwidth=1.2),
}


@click.command("demo")
@_options.out_folder("Write demo.png to this folder; it is made if it does not exist.", default=Path("demo"))
@_options.force("Replace a picture that exists.")
def command(out: Path, force: bool) -> None:
    """Run the ten reference algorithms on the paper's data.

    Prints how well each finds the known classes (AMI and ARI: 1 is perfect, 0 is chance) and draws all the
    clusterings side by side in DIR/demo.png.

    \b
    Example:
      knoll demo --out demo
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from threadpoolctl import threadpool_limits

    from knoll import datasets

    picture = folder(out) / "demo.png"
    check_new(picture, force)
    with whole_file(picture, "wb") as file:  # opened first: a file that cannot be written is reported at once
        tables = [datasets.load(name) for name in SETTINGS]
        # One thread for eigenvectors: on a busy machine several wait for each other, and 0.1 s became 7 s.
        with counting(BOXES * len(tables) + 1, plain=False) as step, threadpool_limits(1, "blas"):
            found = {data.name: _cluster(data, SETTINGS[data.name], step) for data in tables}
            _print_scores(tables, found)
            step("drawing")
            _draw(tables, found).savefig(file, format="png", dpi=110)
    echo()
    echo(f"The picture: {picture}")


# ---- the ten boxes -----------------------------------------------------------------------------------------


def _cluster(data: Dataset, setting: Setting, step: Callable[[str], None]) -> dict[str, Ints]:
    """Run boxes 2 to 10, each to its end, and return their labels."""
    import numpy as np

    from knoll import reference as ref

    X, k = data.X, setting.k
    seeds = distant_seeds(X, k)
    squared = ((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2)  # (n, n)
    nearest = ((X[:, None, :] - seeds[None, :, :]) ** 2).sum(axis=2).argmin(axis=1)
    kernel = np.exp(-squared / (2 * setting.kernel_sigma**2))
    pooled = np.repeat(np.cov(X.T, bias=True)[None], k, axis=0)
    boxes: dict[str, Iterator[Any]] = {
        "EM-GMM": ref.em_gmm(X, np.full(k, 1 / k), seeds, pooled),
        "k-means": ref.kmeans(X, seeds),
        "kernel k-means": ref.weighted_kernel_kmeans(kernel, nearest),
        "NJW spectral": ref.njw_spectral(X, k, setting.sigma),
        "NJW, graph": ref.njw_spectral_graph(X, k, setting.sigma),
        "DBSCAN, spectral": ref.dbscan_spectral(X, setting.eps, setting.min_pts),
        "DBSCAN, graph": ref.dbscan_graph(X, setting.eps, setting.min_pts),
        "DBSCAN, climbing": ref.dbscan_climbing(X, setting.eps, setting.min_pts),
        "Mean Shift": ref.mean_shift(X, setting.bandwidth),
    }
    labels = {}
    for name, box in boxes.items():
        step(f"{name} on {data.name}")
        labels[name] = ref.run(box).labels
    return labels


def distant_seeds(X: Floats, k: int) -> Floats:
    """Return k rows: the one nearest the mean, then each time the one farthest from those chosen."""
    import numpy as np

    chosen = [int(((X - X.mean(axis=0)) ** 2).sum(axis=1).argmin())]
    while len(chosen) < k:
        squared = ((X[:, None, :] - X[chosen][None, :, :]) ** 2).sum(axis=2)  # (n, chosen)
        chosen.append(int(np.argmax(squared.min(axis=1))))
    return X[chosen]


# ---- the table ---------------------------------------------------------------------------------------------


def _print_scores(tables: list[Dataset], found: dict[str, dict[str, Ints]]) -> None:
    """Print the scores, the one Gaussian and the parameters."""
    from knoll import datasets, metrics, reference

    rows = []
    for name in found[tables[0].name]:
        cells = []
        for data in tables:
            assert data.y is not None
            labels = found[data.name][name]
            ami = metrics.adjusted_mutual_info_score(data.y, labels)
            ari = metrics.adjusted_rand_score(data.y, labels)
            cells.append(f"{ami:.3f} {ari:.3f}")
        rows.append([name, *cells])
    header = ["", *(data.name for data in tables)]
    _print_table(header, [["", *["AMI   ARI"] * len(tables)], *rows])

    one = reference.run(reference.gaussian_mle(datasets.load("one_gaussian").X))
    mean = ", ".join(f"{x:.3f}" for x in one.mu)
    echo()
    echo(f"One Gaussian on one_gaussian: mean ({mean}), log-likelihood {one.log_likelihood:.2f}")
    for name, setting in SETTINGS.items():
        echo(f"{name}: " + ", ".join(f"{key}={value:g}" for key, value in setting._asdict().items()))


def _print_table(header: list[str], rows: list[list[str]]) -> None:
    """Print a table in columns, the first of which is aligned to the left."""
    width = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    for first, *cells in [header, *rows]:
        line = "  ".join([first.ljust(width[0]), *(cell.rjust(w) for cell, w in zip(cells, width[1:]))])
        echo(line.rstrip())


# ---- the picture -------------------------------------------------------------------------------------------


def same_colors(classes: Ints, labels: Ints) -> Ints:
    """Number the clusters so that as many points as possible have their class's number; noise stays -1."""
    import numpy as np
    from scipy.optimize import linear_sum_assignment

    clusters = np.unique(labels[labels >= 0])
    if len(clusters) == 0:
        return labels.copy()
    shared = np.array([[np.sum((labels == a) & (classes == b)) for b in np.unique(classes)] for a in clusters])
    rows, columns = linear_sum_assignment(-shared)
    matched = {int(i): int(j) for i, j in zip(rows, columns)}
    spare = iter(range(classes.max() + 1, classes.max() + 1 + len(clusters)))
    out = np.full_like(labels, -1)
    for i, cluster in enumerate(clusters):
        out[labels == cluster] = matched[i] if i in matched else next(spare)
    return out


def _draw(tables: list[Dataset], found: dict[str, dict[str, Ints]]) -> Figure:
    """Draw data sets downwards and the ten boxes across; box 1 is the three-sigma ellipse of one Gaussian."""
    import matplotlib.pyplot as plt

    from knoll import plots, reference
    from knoll.gaussian.estimator import Ellipse
    from knoll.plots.style import RED

    names = list(found[tables[0].name])
    figure, grid = plt.subplots(
        len(tables), 1 + len(names), figsize=(2.0 * (1 + len(names)), 2.0 * len(tables)), layout="constrained"
    )
    for row, data in zip(grid, tables):
        assert data.y is not None
        one = reference.run(reference.gaussian_mle(data.X))
        plots.scatter(data.X, data.y, ax=row[0])
        contour = Ellipse.of(one.mu, one.Sigma, 3.0).points()
        row[0].plot(*contour.T, color=RED, linewidth=1.2)
        for ax, name in zip(row[1:], names):
            plots.scatter(data.X, same_colors(data.y, found[data.name][name]), ax=ax)
        for ax in row:
            ax.set(xlabel="", ylabel="", xticks=[], yticks=[])
        row[0].set_ylabel(data.name.replace("_", " "), fontsize=9)
    for ax, name in zip(grid[0], ["classes, one Gaussian", *names]):
        ax.set_title(name, fontsize=10)
    return figure
