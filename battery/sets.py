"""The sets: a name, and how a seed makes it. A cluster is a connected mode of the density, of any shape.

So one ring, one bent band, one sheet are sets *without* structure, like one Gaussian or one uniform box: there is
nothing to separate. Rows of background noise bear the label −1 and are not scored.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np
from sklearn import datasets as sk

from battery.shapes import (
    Floats,
    Rng,
    Set,
    apart,
    arc,
    ball,
    blobs,
    join,
    noise,
    rotation,
    shape,
    shell,
    spiral,
    student,
    wave,
)

__all__ = ["HALVES", "STRUCTURED", "STRUCTURELESS", "draw"]

HALVES = {"development": (0,), "test": (1,)}  # seeds; the choice was made on the first half only

Recipe = Callable[[Rng], Set]


def draw(name: str, seed: int) -> Set:
    """Make the set of that name; rows are shuffled."""
    recipe = (STRUCTURED | STRUCTURELESS)[name]
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    X, y = recipe(rng)
    order = rng.permutation(len(X))
    return X[order], y[order]


# ---- Gaussians -----------------------------------------------------------------------------------------------------


def _overlap(rng: Rng, k: int, d: int, n: int, distance: float) -> Set:
    """Draw Gaussians whose neighbours stand exactly so many standard deviations apart, in a random direction."""
    corners = np.zeros((k, d))
    corners[:, : k - 1] = np.linalg.svd(np.eye(k) - 1 / k)[0][:, : k - 1]  # a regular simplex
    corners *= distance / np.linalg.norm(corners[0] - corners[1])
    turn = rotation(rng, d)
    return join(*[(c + rng.normal(size=(n, d))) @ turn for c in corners])


def _parallel(rng: Rng, d: int) -> Set:
    """Draw three long Gaussians side by side."""
    thin = np.ones(d)
    thin[0] = 8.0
    side = np.zeros(d)
    side[1] = rng.uniform(5, 7)
    turn = rotation(rng, d)
    return join(*[(i * side + rng.normal(size=(250, d)) * thin) @ turn for i in range(3)])


def _cross(rng: Rng) -> Set:
    """Draw two long Gaussians that cross off their middles."""
    a = rng.normal(size=(400, 2)) * [5, 0.4]
    b = rng.normal(size=(400, 2)) * [0.4, 5] + [rng.uniform(3, 5), rng.uniform(2, 4)]
    return join(a, b)


def _within(rng: Rng) -> Set:
    """Draw a tight Gaussian beside the middle of a wide one."""
    return join(rng.normal(size=(300, 2)) * 0.15 + rng.uniform(1.5, 2, size=2), 2 * rng.normal(size=(500, 2)))


def _subspace(rng: Rng) -> Set:
    """Draw clusters that differ in three of twelve columns."""
    X, y = blobs(rng, [200] * 4, 3, 6.0)
    return np.c_[X, rng.normal(size=(len(X), 9))] @ rotation(rng, 12), y


# ---- shapes --------------------------------------------------------------------------------------------------------


def _moons(rng: Rng, n: int, thick: float, count: int) -> Set:
    clusters = []
    for i in range(count):
        up = arc(rng, n, 0, 1, 1.0, thick)
        offset = np.array(
            [1.25 * i if count > 2 else i, 0.0]
        )  # further apart where the first and the third would touch
        clusters.append(up + offset if i % 2 == 0 else up * [1, -1] + offset + np.array([0, 0.45]))
    return join(*clusters)


def _spirals(rng: Rng, arms: int) -> Set:
    thick = rng.uniform(0.05, 0.09)
    return join(*[spiral(rng, 400, 2 * np.pi * a / arms, 1.4, thick) for a in range(arms)])


def _bridged(rng: Rng) -> Set:
    """Draw two blobs and a thin bridge between them, whose halves belong to the nearer blob."""
    gap = rng.uniform(8, 10)
    left, right = rng.normal(size=(350, 2)), rng.normal(size=(350, 2)) + np.array([gap, 0])
    bridge = np.c_[rng.uniform(2, gap - 2, size=30), 0.15 * rng.normal(size=30)]
    near = bridge[:, 0] < gap / 2
    return join(np.r_[left, bridge[near]], np.r_[right, bridge[~near]])


def _chain(rng: Rng) -> Set:
    """Draw five blobs in a row along a bend."""
    angle = np.linspace(0, np.pi, 5)
    centres = 9 * np.c_[np.cos(angle), np.sin(angle)] + 0.3 * rng.normal(size=(5, 2))
    return join(*[c + rng.normal(size=(160, 2)) for c in centres])


def _linked(rng: Rng) -> Set:
    """Draw two rings in space, each through the other."""
    flat = np.c_[arc(rng, 400, 0, 2, 2.0, 0.0), np.zeros(400)]
    upright = np.c_[arc(rng, 400, 0, 2, 2.0, 0.0), np.zeros(400)][:, [0, 2, 1]] + [2, 0, 0]
    made, y = join(flat, upright)
    return made + 0.12 * rng.normal(size=made.shape), y


def _tiles(rng: Rng) -> Set:
    """Draw uniform squares and discs of different sizes."""
    centres = apart(rng, 5, 2, 3.2)
    sizes = rng.uniform(0.6, 1.3, size=5)
    clusters: list[Floats] = []
    for i, (c, r) in enumerate(zip(centres, sizes, strict=True)):
        clusters.append(c + r * (ball(rng, 180, 2) if i % 2 else rng.uniform(-1, 1, size=(180, 2))))
    return join(*clusters)


def _boxes(rng: Rng) -> Set:
    centres = apart(rng, 4, 3, 3.0)
    return join(*[c + rng.uniform(-1, 1, size=(220, 3)) * rng.uniform(0.4, 1.1, size=3) for c in centres])


def _skewed(rng: Rng) -> Set:
    centres = apart(rng, 3, 2, 7.0)
    return join(*[c + rng.exponential(size=(260, 2)) @ shape(rng, 2, 2).T for c in centres])


def _heavy(rng: Rng, k: int, d: int, distance: float) -> Set:
    return join(*[c + student(rng, 260, d, 3.0) for c in apart(rng, k, d, distance)])


def _sk_moons(rng: Rng) -> Set:
    X, y = sk.make_moons(900, noise=0.07, random_state=int(rng.integers(2**31)))
    return X, y.astype(np.int64)


def _sk_circles(rng: Rng) -> Set:
    X, y = sk.make_circles(1000, factor=0.5, noise=0.05, random_state=int(rng.integers(2**31)))
    return X, y.astype(np.int64)


def _sk_aniso(rng: Rng) -> Set:
    X, y = sk.make_blobs(900, centers=3, cluster_std=1.0, random_state=int(rng.integers(2**31)))
    return X @ np.array([[0.6, -0.6], [-0.4, 0.8]]), y.astype(np.int64)


STRUCTURED: dict[str, Recipe] = {
    "blobs-2d-3": lambda r: blobs(r, [250] * 3, 2, 6.0),
    "blobs-2d-5": lambda r: blobs(r, [200] * 5, 2, 5.5),
    "blobs-5d-4": lambda r: blobs(r, [150] * 4, 5, 6.0),
    "blobs-10d-6": lambda r: blobs(r, [150] * 6, 10, 6.0),
    "blobs-20d-5": lambda r: blobs(r, [160] * 5, 20, 6.5),
    "blobs-20d-10": lambda r: blobs(r, [120] * 10, 20, 7.0),
    "blobs-sklearn-aniso": _sk_aniso,
    "many-2d-12": lambda r: blobs(r, [110] * 12, 2, 5.5),
    "many-3d-14": lambda r: blobs(r, [110] * 14, 3, 5.5),
    "elongated-2d-3": lambda r: blobs(r, [250] * 3, 2, 4.5, ratio=6),
    "elongated-5d-4": lambda r: blobs(r, [220] * 4, 5, 4.5, ratio=5),
    "elongated-10d-3": lambda r: blobs(r, [350] * 3, 10, 5.0, ratio=5),
    "parallel-2d": lambda r: _parallel(r, 2),
    "parallel-8d": lambda r: _parallel(r, 8),
    "cross-2d": _cross,
    "within-2d": _within,
    "subspace-12d": _subspace,
    "sizes-2d": lambda r: blobs(r, [900, 200, 60], 2, 6.0),
    "sizes-6d": lambda r: blobs(r, [700, 300, 100, 50], 6, 6.0),
    "density-2d": lambda r: blobs(r, [250, 250, 250], 2, 6.5, deviations=[0.15, 0.5, 1.5]),
    "density-4d": lambda r: blobs(r, [250, 250, 250, 250], 4, 6.0, deviations=[0.3, 0.5, 1.0, 1.3]),
    "overlap-2d-2": lambda r: _overlap(r, 2, 2, 400, 3.2),
    "overlap-2d-3": lambda r: _overlap(r, 3, 2, 300, 3.5),
    "overlap-5d-3": lambda r: _overlap(r, 3, 5, 300, 3.5),
    "overlap-15d-2": lambda r: _overlap(r, 2, 15, 500, 4.0),
    "moons": _sk_moons,
    "moons-three": lambda r: _moons(r, 300, 0.07, 3),
    "moons-thick": lambda r: _moons(r, 450, 0.12, 2),
    "circles": _sk_circles,
    "rings-3": lambda r: join(*[arc(r, n, 0, 2, q, 0.15) for n, q in ((200, 1.0), (350, 2.2), (500, 3.4))]),
    "ring-and-blob": lambda r: join(arc(r, 500, 0, 2, 4.0, 0.3), r.normal(size=(300, 2)) * 0.8),
    "ball-in-shell-3d": lambda r: join(shell(r, 600, 3, 4.0, 0.25), r.normal(size=(300, 3)) * 0.7),
    "spirals-2": lambda r: _spirals(r, 2),
    "spirals-3": lambda r: _spirals(r, 3),
    "bridged": _bridged,
    "chain-5": _chain,
    "waves": lambda r: join(wave(r, 450, 0, 0.25), wave(r, 450, 3.0, 0.25)),
    "linked-rings-3d": _linked,
    "tiles-2d": _tiles,
    "boxes-3d": _boxes,
    "skewed-2d": _skewed,
    "heavy-2d": lambda r: _heavy(r, 3, 2, 11.0),
    "heavy-6d": lambda r: _heavy(r, 4, 6, 11.0),
    "noise-blobs-2d": lambda r: noise(r, blobs(r, [200] * 4, 2, 7.0), 0.2),
    "noise-elongated-2d": lambda r: noise(r, blobs(r, [250] * 3, 2, 5.0, ratio=6), 0.15),
    "noise-moons": lambda r: noise(r, _moons(r, 400, 0.06, 2), 0.1),
    "noise-blobs-5d": lambda r: noise(r, blobs(r, [200] * 4, 5, 7.0), 0.15),
    "noise-rings": lambda r: noise(r, join(arc(r, 300, 0, 2, 1.0, 0.1), arc(r, 500, 0, 2, 2.4, 0.1)), 0.08),
}


# ---- one mode or none ----------------------------------------------------------------------------------------------


def _one(X: Floats) -> Set:
    return X, np.zeros(len(X), np.int64)


def _sheet(rng: Rng) -> Set:
    X, _ = sk.make_s_curve(1000, noise=0.08, random_state=int(rng.integers(2**31)))
    return _one(X)


STRUCTURELESS: dict[str, Recipe] = {
    "uniform-2d": lambda r: _one(r.uniform(size=(1000, 2))),
    "uniform-3d": lambda r: _one(r.uniform(size=(800, 3))),
    "uniform-5d": lambda r: _one(r.uniform(size=(1000, 5))),
    "uniform-10d": lambda r: _one(r.uniform(size=(600, 10))),
    "uniform-20d": lambda r: _one(r.uniform(size=(1000, 20))),
    "turned-uniform-4d": lambda r: _one((r.uniform(size=(900, 4)) * [1, 2, 4, 8]) @ rotation(r, 4)),
    "disc-2d": lambda r: _one(ball(r, 700, 2)),
    "ball-6d": lambda r: _one(ball(r, 1000, 6)),
    "gaussian-2d": lambda r: _one(r.normal(size=(500, 2))),
    "gaussian-5d": lambda r: _one(r.normal(size=(1500, 5))),
    "gaussian-10d": lambda r: _one(r.normal(size=(400, 10))),
    "gaussian-20d": lambda r: _one(r.normal(size=(1000, 20))),
    "long-gaussian-2d": lambda r: _one(r.normal(size=(800, 2)) @ shape(r, 2, 10).T),
    "long-gaussian-8d": lambda r: _one(r.normal(size=(1000, 8)) @ shape(r, 8, 10).T),
    "student-2d": lambda r: _one(student(r, 800, 2, 3.0)),
    "student-6d": lambda r: _one(student(r, 1000, 6, 4.0)),
    "skewed-one-2d": lambda r: _one(np.exp(0.6 * r.normal(size=(900, 2)))),
    "band-2d": lambda r: _one(arc(r, 700, 0, 1, 1.0, 0.12)),
    "ring-2d": lambda r: _one(arc(r, 900, 0, 2, 1.0, 0.1)),
    "sheet-3d": _sheet,
}
