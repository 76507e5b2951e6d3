"""Paths from one algorithm to the next, as data small enough to be embedded in a page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from knoll import datasets, relations
from knoll._format import plural
from knoll._typing import Floats, Ints
from knoll.density.dbscan import DBSCAN
from knoll.kernels import Heaviside
from knoll.relations import Limit
from knoll.report import fits
from knoll.report.comparison_view import same_colours


@dataclass(frozen=True)
class Film:
    """A path with its texts; `data` consists of plain lists and numbers, for JSON."""

    relation: str
    title: str
    text: str
    alt: str
    data: dict[str, Any]


def mixture_to_kmeans() -> Film:
    """Contract a mixture into k-means."""
    X = datasets.load("x1500").X[::3]
    path = _limit("mixture-to-kmeans").path(X, steps=28)
    frames = []
    for frame in path:
        share = np.round(100 * frame.arrays["responsibilities"]).astype(int)
        frames.append({
            "title": f"ε = {frame.value:.2g}",
            "means": _rounded(frame.arrays["means"], 3),
            "radius": round(float(np.sqrt(frame.value)), 4),
            "shares": share.ravel().tolist(),
            "note": _softness(frame.arrays["responsibilities"]),
        })  # fmt: skip
    return Film(
        path.relation,
        "A mixture contracts into k-means",
        "All covariances are εI, and ε decreases from the variance of the data to the value at which EM is k-means, "
        "step by step. Colours are mixed by responsibility. Circles have radius √ε.",
        "Points in mixed colours about three means; as ε falls the circles about the means shrink and every point "
        "takes the plain colour of its nearest mean.",
        {"type": "mixing", "points": _rounded(X, 3), "frames": frames},
    )


def gaussian_to_heaviside() -> Film:
    """Turn the spectral graph into DBSCAN's."""
    X = datasets.load("banana", n_samples=160).X
    eps, min_pts = 0.22, 4
    path = _limit("gaussian-to-heaviside").path(X, steps=24, eps=eps)
    i, j = np.triu_indices(len(X), 1)
    near = np.flatnonzero(path[0].arrays["similarities"][i, j] > 0.05)
    pairs = np.stack([i[near], j[near]], axis=1)
    frames = []
    for frame in path:
        strength = np.round(100 * frame.arrays["similarities"][pairs[:, 0], pairs[:, 1]]).astype(int)
        curve = np.round(frame.arrays["curve"][::4], 3).tolist()
        frames.append({
            "title": f"p = {frame.value:.3g}" + (", the Gaussian kernel" if frame.value == 1 else ""),
            "strength": strength.tolist(), "curve": curve, "labels": _labels(frame.labels),
            "note": f"{int((strength >= 5).sum())} edges of 0.05 or more",
        })  # fmt: skip
    last = Heaviside(eps).tile(X, X)[pairs[:, 0], pairs[:, 1]]
    radius = np.linspace(0, 2, 51)
    model = DBSCAN(eps, min_samples=min_pts).fit(X)
    frames.append({
        "title": f"p = ∞, the Heaviside kernel, and the filter: DBSCAN, minPts = {min_pts}",
        "strength": (100 * last).astype(int).tolist(), "curve": (radius <= 1).astype(int).tolist(),
        "labels": _labels(model.labels_), "note": f"{int(last.sum())} edges, {int((model.labels_ < 0).sum())} noise",
    })  # fmt: skip
    return Film(
        path.relation,
        "The graph of spectral clustering turns into DBSCAN's",
        f"Similarities are κ_p(r) = exp(−½(r/ε)^2p) with ε = {eps:g}: a Gaussian at p = 1, ever steeper, in the end a "
        "step. The small curve shows the kernel. Colours are the clusters of spectral clustering, with as many "
        "clusters as the step's graph has components, and at the end DBSCAN's.",
        "Two crescents of points with edges between them; as the kernel grows steeper, edges longer than ε fade and "
        "those shorter become equally dark, until only the graph of DBSCAN is left.",
        {
            "type": "graph", "points": _rounded(X, 3), "pairs": pairs.ravel().tolist(), "frames": frames,
        },
    )  # fmt: skip


def climb_to_mean_shift() -> Film:
    """Let points ascend beyond the level to the mode."""
    X = datasets.load("three_component_density", n_samples=400).X
    path = _limit("climb-to-mean-shift").path(X, steps=36, bandwidth=fits.ASCENT_EPS)
    frames = []
    for frame in path:
        moved = int((frame.arrays["steps"] > 0).sum())
        assert frame.labels is not None
        frames.append({
            "title": f"minPts = {int(frame.value)}",
            "positions": _rounded(frame.arrays["positions"], 3),
            "labels": _labels(frame.labels),
            "note": f"{moved} of {len(X)} points move, {len(np.unique(frame.labels))} groups of end points",
        })  # fmt: skip
    frames[-1]["title"] = f"{frames[-1]['title']} = L*: Mean Shift"
    return Film(
        path.relation,
        "Points ascend beyond the level to the modes",
        f"Every point moves to the mean of its neighbours (ε = {fits.ASCENT_EPS:g}) until it has minPts of them. At "
        "low levels no point needs to move; as the level rises more and more points do, and from L* on all of them "
        "reach the end points of Mean Shift.",
        "Points start at the data; as the level rises they move towards the modes, and finally coincide with a few "
        "of them.",
        {"type": "climb", "points": _rounded(X, 3), "frames": frames},
    )


def every_eps_dbscan() -> Film:
    """Cut one tree at ever larger ε."""
    X = datasets.load("banana").X
    path = _limit("every-eps-dbscan").path(X, steps=40, eps=fits.BANANA_EPS, min_samples=fits.BANANA_MIN_PTS)
    frames, classes = [], fits.banana_classes()
    for frame in path:
        assert frame.labels is not None
        clusters, noise = len(np.unique(frame.labels[frame.labels >= 0])), int((frame.labels < 0).sum())
        frames.append({
            "title": f"ε = {frame.value:.2g}", "positions": _rounded(X, 3),
            "labels": _labels(same_colours(classes, frame.labels)),
            "note": f"{plural(clusters, 'cluster')}, {noise} of {len(X)} points are noise",
        })  # fmt: skip
    return Film(
        path.relation,
        "One tree, DBSCAN for every ε",
        f"The density tree was built once, with minPts = {fits.BANANA_MIN_PTS}; every state is a cut of it, and has "
        "the labels that DBSCAN has at that ε, border points included. Grey points are noise.",
        "Two crescents of points: at small ε nearly all are grey, then many small clusters appear, then one for each "
        "crescent, in the end one for all points.",
        {"type": "climb", "points": _rounded(X, 3), "frames": frames},
    )


PATHS: tuple[Callable[[], Film], ...] = (
    mixture_to_kmeans,
    gaussian_to_heaviside,
    climb_to_mean_shift,
    every_eps_dbscan,
)


def _limit(name: str) -> Limit:
    relation = relations.get(name)
    assert isinstance(relation, Limit)
    return relation


def _softness(shares: Floats) -> str:
    soft = int((shares.max(axis=1) < 0.99).sum())
    return f"{soft} of {len(shares)} points belong to more than one component by 1 % or more"


def _rounded(points: Floats, digits: int) -> list[float]:
    return np.round(points, digits).ravel().tolist()


def _labels(labels: Ints | None) -> list[int]:
    assert labels is not None
    return [int(label) for label in labels]
