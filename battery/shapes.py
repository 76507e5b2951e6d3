"""The pieces that sets are made of: each draws n rows of one cluster, and the seed decides its particulars."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Floats",
    "Labels",
    "Rng",
    "Set",
    "apart",
    "arc",
    "ball",
    "blobs",
    "join",
    "noise",
    "rotation",
    "shape",
    "shell",
    "spiral",
    "student",
    "wave",
]

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
Set = tuple[Floats, Labels]
Rng = np.random.Generator


def join(*clusters: Floats) -> Set:
    """Put clusters together, numbered in the order given."""
    return np.concatenate(clusters), np.repeat(np.arange(len(clusters)), [len(cluster) for cluster in clusters])


def rotation(rng: Rng, d: int) -> Floats:
    """Draw an orthogonal matrix, uniformly."""
    q, r = np.linalg.qr(rng.normal(size=(d, d)))
    return q * np.sign(np.diag(r))


def shape(rng: Rng, d: int, ratio: float) -> Floats:
    """Draw a matrix A so that Az has axes from 1 to 1/ratio in a random direction, for z a standard Gaussian."""
    axes = np.exp(rng.uniform(-np.log(ratio), 0, size=d))
    axes[rng.permutation(d)[:2]] = [1.0, 1.0 / ratio]
    return rotation(rng, d) * axes


def apart(rng: Rng, k: int, d: int, distance: float) -> Floats:
    """Draw k centres at least `distance` apart, about as close together as that lets them be."""
    box = distance * max(1.0, 0.75 * k ** (1 / min(d, 3)))
    for tries in range(100_000):
        centres = rng.uniform(0, box * (1 + tries / 2000), size=(k, d))  # the box grows slowly, until all fit
        gaps = np.linalg.norm(centres[:, None] - centres, axis=2)  # (k, k)
        if k == 1 or gaps[~np.eye(k, dtype=bool)].min() >= distance:
            return centres
    raise RuntimeError(f"no position for {k} centres {distance} apart")


def blobs(
    rng: Rng, sizes: list[int], d: int, distance: float, *, ratio: float = 1.0, deviations: list[float] | None = None
) -> Set:
    """Draw Gaussians at random positions; distances are in units of the largest standard deviation."""
    deviations = [1.0] * len(sizes) if deviations is None else deviations
    centres = apart(rng, len(sizes), d, distance)
    clusters = []
    for size, centre, std in zip(sizes, centres, deviations, strict=True):
        turn = shape(rng, d, ratio) if ratio > 1 else np.eye(d)
        clusters.append(centre + std * rng.normal(size=(size, d)) @ turn.T)
    return join(*clusters)


def student(rng: Rng, n: int, d: int, freedom: float) -> Floats:
    """Draw from Student's t: heavy tails."""
    return np.asarray(rng.normal(size=(n, d)) / np.sqrt(rng.chisquare(freedom, size=(n, 1)) / freedom))


def ball(rng: Rng, n: int, d: int) -> Floats:
    """Draw uniformly from the unit ball."""
    z = rng.normal(size=(n, d))
    return np.asarray(z / np.linalg.norm(z, axis=1, keepdims=True) * rng.uniform(size=(n, 1)) ** (1 / d))


def shell(rng: Rng, n: int, d: int, radius: float, thick: float) -> Floats:
    """Draw from a sphere with Gaussian thickness."""
    z = rng.normal(size=(n, d))
    return np.asarray(z / np.linalg.norm(z, axis=1, keepdims=True) * (radius + thick * rng.normal(size=(n, 1))))


def arc(rng: Rng, n: int, begin: float, end: float, radius: float, thick: float) -> Floats:
    """Draw from an arc of a circle in the plane, angles in turns of π."""
    angle = np.pi * rng.uniform(begin, end, size=n)
    return np.asarray(radius * np.c_[np.cos(angle), np.sin(angle)] + thick * rng.normal(size=(n, 2)))


def spiral(rng: Rng, n: int, turn: float, length: float, thick: float) -> Floats:
    """Draw from an arm of a spiral, evenly along it."""
    along = np.sqrt(rng.uniform(0.08, 1, size=n)) * length * 2 * np.pi
    return np.asarray(
        np.c_[along * np.cos(along + turn), along * np.sin(along + turn)] / np.pi + thick * rng.normal(size=(n, 2))
    )


def wave(rng: Rng, n: int, lift: float, thick: float) -> Floats:
    """Draw from a band along a sine."""
    x = rng.uniform(0, 4 * np.pi, size=n)
    return np.asarray(np.c_[x, 1.5 * np.sin(x) + lift] + thick * rng.normal(size=(n, 2)))


def noise(rng: Rng, made: Set, share: float) -> Set:
    """Add rows labelled −1, uniform over a box somewhat larger than that of the clusters."""
    X, y = made
    low, high = X.min(axis=0), X.max(axis=0)
    margin = 0.1 * (high - low)
    count = round(share * len(X))
    return np.r_[X, rng.uniform(low - margin, high + margin, size=(count, X.shape[1]))], np.r_[y, np.full(count, -1)]
