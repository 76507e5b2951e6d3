"""Generated sets with reference labelings: what the judge of `knoll.compare` is trained and tested on.

Each recipe has its own idea of a cluster: Gaussians of any shape and tail, drawn shapes, nested rings, strokes,
bands, dense cores in sparse surroundings, subspaces, tables of factors, codes, clusters of clusters (both labelings are
correct). Recipes without structure have one reference label. A set that is drawn may be stretched, rotated, rounded,
lifted into more columns, or covered by noise; rows of noise have the label −1 and are not scored.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["STRUCTURED", "STRUCTURELESS", "TEST_ONLY", "Sample", "draw"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Rng = np.random.Generator


@dataclass(frozen=True)
class Sample:
    """A set: rows, reference labelings (−1 is noise), and the recipe it comes from."""

    X: Floats
    labelings: tuple[Ints, ...]
    recipe: str

    @property
    def structured(self) -> bool:
        """Whether there is more than one cluster."""
        return bool(self.numbers)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of clusters of the labelings, above 1."""
        return tuple(sorted({len(np.unique(y[y >= 0])) for y in self.labelings} - {0, 1}))


@dataclass
class Made:
    """What a recipe makes, before the common transformations."""

    X: Floats
    labelings: list[Ints]
    noise: bool = True  # whether background noise may be added
    rotate: bool = True
    round: bool = True


def draw(recipe: str, seed: int) -> Sample:
    """Draw the set of a recipe and a seed; rows are shuffled."""
    rng = np.random.default_rng([seed, zlib.crc32(recipe.encode())])
    made = (STRUCTURED | STRUCTURELESS)[recipe](rng)
    made = _transform(rng, made)
    order = rng.permutation(len(made.X))
    return Sample(made.X[order], tuple(y[order] for y in made.labelings), recipe)


# ---- common transformations ----------------------------------------------------------------------------------------


def _transform(rng: Rng, made: Made) -> Made:
    d = made.X.shape[1]
    if made.noise and rng.random() < 0.25:
        _add_noise(rng, made)
    if made.rotate and rng.random() < 0.5:
        made.X = made.X @ _rotation(rng, d)
    if rng.random() < 0.12 and d < 20:
        _lift(rng, made)
    if rng.random() < 0.35:
        made.X = made.X * np.exp(rng.normal(0, rng.choice([0.1, 0.4, 1.5]), size=made.X.shape[1]))
    if made.round and rng.random() < 0.12:
        span = np.ptp(made.X, axis=0) + 1e-12
        step = span / rng.integers(12, 200)
        made.X = np.round(made.X / step) * step
    return made


def _add_noise(rng: Rng, made: Made) -> None:
    n, d = made.X.shape
    if d > 6:
        return
    share = rng.choice([0.01, 0.03, 0.1, 0.2, 0.3], p=[0.3, 0.25, 0.25, 0.12, 0.08])
    count = max(1, int(share * n))
    low, high = made.X.min(axis=0), made.X.max(axis=0)
    margin = 0.1 * rng.random() * (high - low)
    made.X = np.r_[made.X, rng.uniform(low - margin, high + margin, size=(count, d))]
    made.labelings = [np.r_[y, np.full(count, -1)] for y in made.labelings]


def _lift(rng: Rng, made: Made) -> None:
    """Map the rows linearly into more columns, with a little noise."""
    d = made.X.shape[1]
    more = int(rng.integers(d + 1, d + 12))
    deviation = made.X.std()
    made.X = made.X @ rng.normal(size=(d, more)) + rng.choice([0.01, 0.05]) * deviation * rng.normal(
        size=(len(made.X), more)
    )


# ---- primitives ----------------------------------------------------------------------------------------------------


def _rotation(rng: Rng, d: int) -> Floats:
    q, r = np.linalg.qr(rng.normal(size=(d, d)))
    return np.asarray(q * np.sign(np.diag(r)))


def _count(rng: Rng, low: int = 60, high: int = 4000, median: int = 450) -> int:
    """Draw a number of rows, log-normal around the median."""
    return int(np.clip(np.exp(rng.normal(np.log(median), 0.9)), low, high))


def _clusters(rng: Rng, low: int, high: int) -> int:
    """Draw a number of clusters, small ones more often."""
    return int(np.clip(np.exp(rng.uniform(np.log(low), np.log(high + 1))), low, high))


def _sizes(rng: Rng, n: int, k: int, least: int = 8) -> list[int]:
    """Divide about n rows among k clusters, equally or not."""
    style = rng.random()
    if style < 0.4:
        shares = np.full(k, 1 / k)
    elif style < 0.8:
        shares = rng.dirichlet(np.full(k, rng.choice([2.0, 5.0])))
    else:
        shares = np.geomspace(1, rng.choice([0.05, 0.15]), k)
        shares /= shares.sum()
    return [max(least, round(n * s)) for s in shares]


def _join(clusters: list[Floats]) -> tuple[Floats, Ints]:
    return np.concatenate(clusters), np.repeat(np.arange(len(clusters)), [len(p) for p in clusters])


def _apart(rng: Rng, k: int, d: int, radii: Floats, gap: float, tries: int = 300) -> Floats:
    """Draw centres whose balls of these radii have at least a gap between them, in a box as small as that goes."""
    box = 1.2 * float(radii.mean() + gap / 2) * k ** (1 / min(d, 3)) + float(radii.max())
    while True:
        centres: list[Floats] = []
        for i in range(k):
            for _ in range(tries):
                c = rng.uniform(-box, box, size=d)
                if all(np.linalg.norm(c - o) > radii[i] + radii[j] + gap for j, o in enumerate(centres)):
                    centres.append(c)
                    break
            else:
                break
        if len(centres) == k:
            return np.array(centres)
        box *= 1.15


def _cloud(rng: Rng, n: int, d: int, tail: str) -> Floats:
    """Draw a cloud of unit variance."""
    if tail == "normal":
        return rng.normal(size=(n, d))
    if tail == "student":
        return rng.standard_normal((n, d)) / np.sqrt(rng.chisquare(3.5, size=(n, 1)) / 3.5) / 1.3
    if tail == "ball":
        x = rng.normal(size=(n, d))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        return np.asarray(x * rng.random((n, 1)) ** (1 / d) * np.sqrt(d + 2))
    if tail == "box":
        return rng.uniform(-1.73, 1.73, size=(n, d))
    if tail == "laplace":
        return rng.laplace(size=(n, d)) / 1.41
    if tail == "skewed":
        return np.asarray((rng.exponential(size=(n, d)) - 1) * rng.choice([-1, 1], size=d))
    return np.asarray((rng.gamma(2.0, size=(n, d)) - 2) / 1.41)


_TAILS = ("normal", "normal", "normal", "student", "ball", "box", "laplace", "skewed", "gamma")


def _shape_matrix(rng: Rng, d: int, ratio: float) -> Floats:
    """Draw a matrix of unit determinant with this ratio of its axes at most."""
    axes = np.exp(rng.uniform(-0.5, 0.5, size=d) * np.log(ratio))
    axes /= np.exp(np.log(axes).mean())
    return np.asarray((_rotation(rng, d) * axes) @ _rotation(rng, d))


# ---- two-dimensional shapes, of about unit radius ------------------------------------------------------------------


def _disc(rng: Rng, n: int) -> Floats:
    return _cloud(rng, n, 2, "ball") / 2


def _square(rng: Rng, n: int) -> Floats:
    return rng.uniform(-0.75, 0.75, size=(n, 2))


def _rectangle(rng: Rng, n: int) -> Floats:
    return rng.uniform(-1, 1, size=(n, 2)) * [1.0, rng.uniform(0.1, 0.6)]


def _triangle(rng: Rng, n: int) -> Floats:
    a, b = rng.random((2, n))
    flip = a + b > 1
    a[flip], b[flip] = 1 - a[flip], 1 - b[flip]
    corners = np.array([[-0.9, -0.7], [0.9, -0.7], [rng.uniform(-0.6, 0.6), 0.9]])
    return np.asarray(corners[0] + a[:, None] * (corners[1] - corners[0]) + b[:, None] * (corners[2] - corners[0]))


def _ring(rng: Rng, n: int, fraction: float = 1.0, thick: float | None = None) -> Floats:
    angle = rng.uniform(0, 2 * np.pi * fraction, size=n)
    thick = rng.uniform(0.02, 0.15) if thick is None else thick
    radius = 1 + thick * (rng.normal(size=n) if rng.random() < 0.5 else rng.uniform(-1.7, 1.7, size=n))
    return np.c_[radius * np.cos(angle), radius * np.sin(angle)]


def _arc(rng: Rng, n: int) -> Floats:
    return _ring(rng, n, fraction=rng.uniform(0.3, 0.8))


def _cross(rng: Rng, n: int) -> Floats:
    long, short = rng.uniform(-1, 1, size=n), rng.uniform(0.08, 0.25) * rng.uniform(-1, 1, size=n)
    flip = rng.random(n) < 0.5
    return np.where(flip[:, None], np.c_[long, short], np.c_[short, long])


def _corner(rng: Rng, n: int) -> Floats:
    """Draw an L."""
    long, short = rng.uniform(-1, 1, size=n), rng.uniform(-1, -0.6, size=n)
    flip = rng.random(n) < 0.5
    return np.where(flip[:, None], np.c_[long, short], np.c_[short, long])


def _frame(rng: Rng, n: int) -> Floats:
    """Draw the border of a square."""
    t, side = rng.uniform(-1, 1, size=n), rng.integers(4, size=n)
    thick = rng.uniform(0.03, 0.1) * rng.normal(size=n)
    points = np.c_[t, 1 + thick]
    turn = np.array([[[1, 0], [0, 1]], [[0, -1], [1, 0]], [[-1, 0], [0, -1]], [[0, 1], [-1, 0]]])
    return np.asarray(np.einsum("ni,nij->nj", points, turn[side]) * 0.85)


def _blob(rng: Rng, n: int) -> Floats:
    return 0.38 * rng.normal(size=(n, 2)) @ _shape_matrix(rng, 2, 4.0)


def _along(rng: Rng, path: Floats, n: int, thick: float, uneven: bool = False) -> Floats:
    """Draw rows along a path of many points, equally dense in its length or not, with a thickness."""
    step = np.linalg.norm(np.diff(path, axis=0), axis=1)
    length = np.r_[0, np.cumsum(step)]
    t = rng.random(n)
    if uneven:
        t = t ** rng.uniform(1.3, 2.0)
    at = t * length[-1]
    x = np.column_stack([np.interp(at, length, path[:, j]) for j in range(path.shape[1])])
    return x + thick * (rng.normal(size=x.shape) if rng.random() < 0.7 else rng.uniform(-1.7, 1.7, size=x.shape))


def _smooth_path(rng: Rng, d: int = 2, waves: int = 3) -> Floats:
    """Draw a smooth random curve."""
    t = np.linspace(0, 1, 200)[:, None]
    path = np.zeros((200, d)) + t * rng.normal(size=d) * 2
    for w in range(1, waves + 1):
        path += (rng.normal(size=d) * np.sin(np.pi * w * t) + rng.normal(size=d) * np.cos(np.pi * w * t)) / w
    return np.asarray(path)


def _stroke(rng: Rng, n: int) -> Floats:
    path = _smooth_path(rng, 2, int(rng.integers(1, 4)))
    path -= path.mean(axis=0)
    path /= np.linalg.norm(path, axis=1).max()
    return _along(rng, path, n, rng.uniform(0.01, 0.06))


_SHAPES: tuple[Callable[[Rng, int], Floats], ...] = (
    _disc, _disc, _square, _rectangle, _rectangle, _triangle, _ring, _arc, _arc, _cross, _corner, _frame, _blob, _blob,
    _stroke, _stroke,
)  # fmt: skip


def _random_shape(rng: Rng, n: int) -> Floats:
    shape = _SHAPES[rng.integers(len(_SHAPES))](rng, n)
    turned = shape @ _rotation(rng, 2)
    return np.asarray(turned - (turned.max(axis=0) + turned.min(axis=0)) / 2)


# ---- recipes with structure ------------------------------------------------------------------------------------------


def _gaussians(rng: Rng, d_max: int = 12, k_max: int = 15, tails: tuple[str, ...] = _TAILS) -> Made:
    d = int(np.clip(np.exp(rng.uniform(np.log(2), np.log(d_max + 1))), 2, d_max))
    k = _clusters(rng, 2, k_max)
    n = max(_count(rng), 15 * k)
    ratio = float(rng.choice([1.0, 2.0, 6.0, 15.0]))
    gap = rng.choice([1.2, 2.0, 3.0, 5.0])
    scale = np.exp(rng.normal(0, rng.choice([0.0, 0.3, 0.7]), size=k))
    reach = scale * (1.5 if d == 2 else 1.2 + 0.2 * np.sqrt(d))
    centres = _apart(rng, k, d, reach, float(gap * scale.mean()))
    tail = str(rng.choice(tails))
    clusters = [
        c + s * _cloud(rng, m, d, tail) @ _shape_matrix(rng, d, ratio).T
        for c, s, m in zip(centres, scale, _sizes(rng, n, k), strict=True)
    ]
    X, y = _join(clusters)
    return Made(X, [y])


def _overlapping(rng: Rng) -> Made:
    """Draw Gaussians that overlap, up to where they stop to be modes of the density."""
    d, k = int(rng.integers(2, 9)), int(rng.integers(2, 9))
    n = max(_count(rng, median=700), 40 * k)
    distance = rng.uniform(3.0, 4.5)
    centres = _apart(rng, k, d, np.zeros(k), distance)
    clusters = [c + rng.normal(size=(m, d)) for c, m in zip(centres, _sizes(rng, n, k, 25), strict=True)]
    X, y = _join(clusters)
    return Made(X, [y])


def _many(rng: Rng) -> Made:
    """Draw many small clusters in two or three dimensions, on a grid or at random."""
    d, k = int(rng.integers(2, 4)), int(rng.integers(12, 61))
    n = int(min(4000, k * rng.integers(10, 70)))
    radii = np.exp(rng.normal(0, rng.choice([0.0, 0.2, 0.5]), size=k))
    if rng.random() < 0.3:
        side = int(np.ceil(k ** (1 / d)))
        grid = np.stack(np.meshgrid(*[np.arange(side)] * d), -1).reshape(-1, d)[:k]
        centres = rng.uniform(4.0, 9.0) * (grid + 0.1 * rng.normal(size=(k, d)))
    else:
        centres = _apart(rng, k, d, 1.5 * radii, float(rng.uniform(0.3, 3.0)))
    tail = str(rng.choice(["normal", "normal", "ball", "box"]))
    X, y = _join([c + s * _cloud(rng, m, d, tail) for c, s, m in zip(centres, radii, _sizes(rng, n, k, 6))])
    return Made(X, [y])


def _drawn(rng: Rng) -> Made:
    """Draw separate shapes of unlike sizes and densities."""
    k = _clusters(rng, 2, 12)
    n = max(_count(rng, median=700), 30 * k)
    radius = np.exp(rng.normal(0, rng.choice([0.0, 0.4]), size=k))
    centres = _apart(rng, k, 2, radius, float(rng.choice([0.05, 0.2, 0.6])))
    clusters = [c + r * _random_shape(rng, m) for c, r, m in zip(centres, radius, _sizes(rng, n, k, 20))]
    X, y = _join(clusters)
    return Made(X, [y])


def _nested(rng: Rng) -> Made:
    """Draw rings or shells around each other and around other clusters."""
    d = 2 if rng.random() < 0.75 else 3
    layers = int(rng.integers(2, 5))
    radius = np.cumsum(rng.uniform(0.7, 1.6, size=layers))
    n = max(_count(rng, median=600), 90 * layers)
    weight = radius ** rng.choice([0.0, 1.0, 1.0])
    clusters = []
    thick = rng.uniform(0.03, 0.13)
    for r, share in zip(radius, weight / weight.sum(), strict=True):
        m = max(25, int(n * share))
        x = rng.normal(size=(m, d))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        if d == 2 and rng.random() < 0.2:
            x = _frame(rng, m) / 0.85
        clusters.append(x * r * (1 + thick * rng.normal(size=(m, 1)) / r))
    inner = rng.random()
    if inner < 0.5:
        clusters[0] = (
            radius[0] * rng.uniform(0.2, 0.45) * _cloud(rng, len(clusters[0]), d, str(rng.choice(["normal", "ball"])))
        )
        if inner < 0.2 and d == 2:
            m = max(12, len(clusters[0]) // 2)
            gap = np.array([radius[1] * 0.45, 0])
            clusters = [
                0.16 * radius[1] * rng.normal(size=(m, 2)) + gap,
                0.16 * radius[1] * rng.normal(size=(m, 2)) - gap,
                *clusters[1:],
            ]
    if rng.random() < 0.3:
        m = max(15, int(0.15 * n))
        away = np.zeros(d)
        away[0] = radius[-1] * rng.uniform(1.5, 2.2)
        clusters.append(away + 0.25 * rng.normal(size=(m, d)))
    X, y = _join(clusters)
    return Made(X, [y])


def _spirals(rng: Rng) -> Made:
    arms = int(rng.integers(2, 6))
    n = max(_count(rng, median=500), 80 * arms)
    turns, start = rng.uniform(0.5, 1.75), rng.uniform(0.3, 1.2)
    t = np.linspace(0, 1, 300)
    radius = start + 3.0 * t
    thick = rng.uniform(0.03, 0.11) * 3 * turns / arms / max(turns, 1)
    clusters = []
    uneven = bool(rng.random() < 0.4)
    for a in range(arms):
        angle = 2 * np.pi * (turns * t + a / arms)
        path = np.c_[radius * np.cos(angle), radius * np.sin(angle)]
        if rng.random() < 0.1:
            path = np.c_[path, 2 * t]
        clusters.append(path)
    if len({p.shape[1] for p in clusters}) > 1:
        clusters = [p[:, :2] for p in clusters]
    X, y = _join([_along(rng, p, n // arms, thick, uneven) for p in clusters])
    return Made(X, [y])


def _moons(rng: Rng) -> Made:
    """Draw arcs that reach into each other; in space, linked rings."""
    n = _count(rng, low=100, median=500)
    thick = rng.uniform(0.03, 0.13)
    if rng.random() < 0.2:
        t = np.linspace(0, 2 * np.pi, 200)
        a = np.c_[np.cos(t), np.sin(t), 0 * t]
        b = np.c_[1 + np.cos(t), 0 * t, np.sin(t)]
        X, y = _join([_along(rng, p, n // 2, thick) for p in (a, b)])
        return Made(X, [y])
    k = int(rng.integers(2, 5))
    clusters = []
    share = _sizes(rng, n, k, 30)
    lift = rng.uniform(0.3, 0.6)
    for i in range(k):
        t = np.linspace(0, np.pi, 200)
        path = np.c_[np.cos(t), np.sin(t)] * [1, 1 if i % 2 == 0 else -1]
        path = path + np.array([i * (1.0 if k == 2 else 1.25), 0.0 if i % 2 == 0 else lift])
        clusters.append(_along(rng, path, share[i], thick))
    X, y = _join(clusters)
    return Made(X, [y])


def _bands(rng: Rng) -> Made:
    """Draw bands side by side: straight, waved or zigzag, thick or thin."""
    k = int(rng.integers(2, 8))
    n = max(_count(rng, median=600), 50 * k)
    t = np.linspace(-1, 1, 400)
    long = rng.uniform(2, 8)
    style = rng.random()
    if style < 0.45:
        wave = 0 * t
    elif style < 0.8:
        wave = rng.uniform(0.3, 1.2) * np.sin(rng.uniform(2, 8) * t)
    else:
        wave = 2 * rng.uniform(0.3, 0.8) * np.abs((rng.uniform(1, 3) * t) % 2 - 1)
    thick = rng.uniform(0.03, 0.2)
    sizes = _sizes(rng, n, k, 25)
    clusters = []
    for i in range(k):
        slide = rng.normal(0, 0.2) * long
        path = np.c_[long * t + slide, wave + i]
        clusters.append(_along(rng, path, sizes[i], thick))
    X, y = _join(clusters)
    return Made(X, [y])


def _dense_in_sparse(rng: Rng) -> Made:
    """Draw dense clusters inside of a sparse one, which is a cluster too."""
    d = int(rng.integers(2, 5))
    k = int(rng.integers(1, 4))
    n = max(_count(rng, median=600), 120)
    wide = _cloud(rng, int(n * rng.uniform(0.3, 0.7)), d, str(rng.choice(["normal", "ball", "box"])))
    ratio = rng.uniform(0.06, 0.2)
    centres = _apart(rng, k, d, np.full(k, 3 * ratio), 0.2) if k > 1 else rng.normal(0, 0.7, size=(1, d))
    centres *= 1.2 / max(1.2, np.abs(centres).max())
    dense = [c + ratio * _cloud(rng, max(20, (n - len(wide)) // k), d, "normal") for c in centres]
    X, y = _join([wide, *dense])
    return Made(X, [y], noise=False)


def _densities(rng: Rng) -> Made:
    """Draw neighbouring regions that differ in density by a factor, with no gap between them."""
    k = int(rng.integers(2, 5))
    n = max(_count(rng, median=900), 200 * k)
    factor = rng.uniform(4, 12)
    level = factor ** (np.arange(k) % 2) if rng.random() < 0.5 else factor ** np.arange(k)
    level = level / level.sum()
    clusters = []
    for i in range(k):
        m = max(30, int(n * level[i]))
        clusters.append(rng.uniform(size=(m, 2)) * [1, 1.0 * k] + [i, 0])
    if k == 2 and rng.random() < 0.5:  # a dense disc in a sparse square
        square = rng.uniform(-2, 2, size=(int(n * 0.5), 2))
        inside = np.linalg.norm(square, axis=1) < 0.9
        disc = 0.9 * _disc(rng, int(n * 0.5))
        clusters = [square[~inside], disc]
    X, y = _join(clusters)
    return Made(X, [y], noise=False)


def _necks(rng: Rng) -> Made:
    """Draw discs or squares that touch, joined by a narrow bridge or a point."""
    k = int(rng.integers(2, 6))
    n = max(_count(rng, median=700), 80 * k)
    sizes = np.exp(rng.normal(0, 0.25, size=k))
    clusters, at = [], 0.0
    bend = rng.uniform(-0.6, 0.6)
    direction, position = 0.0, np.zeros(2)
    for i in range(k):
        m = max(30, int(n * sizes[i] ** 2 / (sizes**2).sum()))
        shape = _disc(rng, m) if rng.random() < 0.6 else _square(rng, m)
        clusters.append(position + sizes[i] * shape)
        direction += bend + rng.normal(0, 0.3)
        if i + 1 < k:
            step = sizes[i] + sizes[i + 1] + rng.uniform(-0.12, 0.3)
            aim = position + step * np.array([np.cos(direction), np.sin(direction)])
            if rng.random() < 0.5:
                bridge = rng.uniform(0, 1, size=(max(4, m // 25), 1))
                path = position + sizes[i] * 0.9 * (aim - position) / step + bridge * (aim - position) * 0.3
                clusters[-1] = np.r_[clusters[-1], path + 0.04 * rng.normal(size=path.shape)]
            position = aim
        at += 1
    X, y = _join(clusters)
    return Made(X, [y])


def _strokes(rng: Rng) -> Made:
    """Draw smooth curves that keep a distance from each other, in two or more dimensions."""
    d = int(rng.choice([2, 2, 2, 3, 5]))
    k = int(rng.integers(2, 7))
    n = max(_count(rng, median=600), 60 * k)
    thick = rng.uniform(0.015, 0.07)
    paths: list[Floats] = []
    apart = 8 * thick + rng.uniform(0.0, 0.3)
    while len(paths) < k:
        for _ in range(60):
            path = _smooth_path(rng, d, int(rng.integers(1, 4))) + rng.uniform(-2, 2, size=d)
            if all(_least_distance(path, other) > apart for other in paths):
                paths.append(path)
                break
        else:
            if len(paths) >= 2:
                break
            paths = []
    uneven = bool(rng.random() < 0.3)
    X, y = _join([_along(rng, p, max(30, n // len(paths)), thick, uneven) for p in paths])
    return Made(X, [y])


def _least_distance(a: Floats, b: Floats) -> float:
    return float(np.sqrt(((a[::4, None] - b[None, ::4]) ** 2).sum(-1).min()))


def _rays(rng: Rng) -> Made:
    """Draw rays from one region, or lines that cross: the rows of one line are one cluster."""
    d = int(rng.choice([2, 2, 3]))
    k = int(rng.integers(2, 6))
    n = max(_count(rng, median=500), 60 * k)
    thick = rng.uniform(0.01, 0.05)
    angles = np.linspace(0, np.pi, k, endpoint=False) + rng.normal(0, 0.1, size=k)
    begin = 0.0 if rng.random() < 0.3 else rng.uniform(0.1, 0.4)
    clusters = []
    for a in angles:
        direction = np.r_[np.cos(2 * a), np.sin(2 * a), rng.normal(size=d - 2)]
        path = np.linspace(begin, 1, 50)[:, None] * direction
        clusters.append(_along(rng, path, n // k, thick))
    X, y = _join(clusters)
    return Made(X, [y])


def _subspace(rng: Rng) -> Made:
    """Draw clusters that differ in some columns; the others are noise."""
    k, own = _clusters(rng, 2, 8), int(rng.integers(2, 5))
    extra = int(rng.integers(1, 16))
    n = max(_count(rng, median=600), 30 * k)
    centres = _apart(rng, k, own, np.full(k, 1.5), float(rng.uniform(1.0, 4.0)))
    X, y = _join([c + rng.normal(size=(m, own)) for c, m in zip(centres, _sizes(rng, n, k, 15))])
    X = np.c_[X, _cloud(rng, len(X), extra, str(rng.choice(["normal", "box"])))]
    return Made(X, [y])


def _factors(rng: Rng) -> Made:
    """Draw a table of measurements: classes shift some latent factors, columns mix them, some are skewed or rounded."""
    k, latent = int(rng.integers(2, 6)), int(rng.integers(2, 6))
    d = int(rng.integers(latent, 31))
    n = max(_count(rng, median=400), 30 * k)
    shift = rng.normal(size=(k, latent)) * rng.uniform(1.5, 4.0)
    sizes = _sizes(rng, n, k, 12)
    clusters = [
        s + rng.normal(size=(m, latent)) * np.exp(rng.normal(0, 0.3, size=latent)) for s, m in zip(shift, sizes)
    ]
    Z, y = _join(clusters)
    X = Z @ rng.normal(size=(latent, d)) / np.sqrt(latent) + rng.uniform(0.2, 0.9) * rng.normal(size=(len(Z), d))
    return Made(_measured(rng, X), [y], noise=False, rotate=False)


def _measured(rng: Rng, X: Floats) -> Floats:
    """Skew, round or clip some columns as measurements are."""
    X = X.copy()
    for j in range(X.shape[1]):
        style = rng.random()
        if style < 0.2:
            X[:, j] = np.exp(0.7 * X[:, j] / max(1e-9, X[:, j].std()))
        elif style < 0.35:
            step = X[:, j].std() / rng.integers(2, 8)
            X[:, j] = np.round(X[:, j] / step) * step
        elif style < 0.42:
            X[:, j] = np.maximum(X[:, j], np.quantile(X[:, j], 0.3))
    return X


def _tree_of_clusters(rng: Rng) -> Made:
    """Draw clusters of clusters: the coarse and the fine labeling are both correct."""
    d = int(rng.integers(2, 6))
    outer, inner = int(rng.integers(2, 6)), int(rng.integers(2, 6))
    n = max(_count(rng, median=800), 20 * outer * inner)
    ratio = rng.uniform(0.12, 0.3)
    centres = _apart(rng, outer, d, np.full(outer, 3.0), float(rng.uniform(2.0, 6.0)))
    clusters, coarse = [], []
    for i, c in enumerate(centres):
        own = inner if rng.random() < 0.7 else int(rng.integers(1, 6))
        sub = (
            _apart(rng, own, d, np.full(own, 1.2), float(rng.uniform(0.5, 2.5))) * ratio * 3
            if own > 1
            else np.zeros((1, d))
        )
        sub = sub - sub.mean(axis=0)
        for s in sub:
            m = max(10, n // (outer * own))
            clusters.append(c + s + ratio * rng.normal(size=(m, d)))
            coarse.append(i)
    X, fine = _join(clusters)
    return Made(X, [fine, np.array(coarse)[fine]])


def _codes(rng: Rng) -> Made:
    """Draw rows of answers in a few levels: classes differ in the probabilities of their answers."""
    k, d = int(rng.integers(2, 6)), int(rng.integers(5, 25))
    levels = int(rng.integers(2, 6))
    n = max(_count(rng, median=400), 30 * k)
    sharp = rng.uniform(0.15, 0.6)
    sizes = _sizes(rng, n, k, 15)
    clusters = []
    for m in sizes:
        p = rng.dirichlet(np.full(levels, sharp), size=d)
        clusters.append(np.column_stack([rng.choice(levels, size=m, p=p[j]) for j in range(d)]).astype(float))
    X, y = _join(clusters)
    if rng.random() < 0.5:
        X += 0.1 * rng.normal(size=X.shape)
    return Made(X, [y], noise=False, rotate=False, round=False)


def _sheets(rng: Rng) -> Made:
    """Draw pieces of curved sheets or planes in space."""
    k = int(rng.integers(2, 5))
    n = max(_count(rng, median=700), 120 * k)
    d = int(rng.integers(3, 7))
    thick = rng.uniform(0.01, 0.08)
    clusters = []
    gap = rng.uniform(0.5, 1.2)
    bend = rng.uniform(0, 1.5)
    for i in range(k):
        u, v = rng.uniform(-1, 1, size=(2, n // k))
        w = bend * (u**2 - 0.3) + i * gap
        clusters.append(np.c_[1.5 * u, 1.5 * v, w, np.zeros((n // k, d - 3))] + thick * rng.normal(size=(n // k, d)))
    X, y = _join(clusters)
    return Made(X, [y])


def _unbalanced(rng: Rng) -> Made:
    """Draw a few large clusters and several small ones."""
    d = int(rng.integers(2, 5))
    large, small = int(rng.integers(1, 4)), int(rng.integers(1, 7))
    n = max(_count(rng, median=1200), 200 * large)
    k = large + small
    radius = np.r_[np.full(large, 1.5), np.full(small, 0.8)]
    centres = _apart(rng, k, d, 2 * radius, float(rng.uniform(0.3, 4.0)))
    sizes = [n // large] * large + [int(rng.integers(10, max(11, n // 15))) for _ in range(small)]
    clusters = [c + r / 1.5 * _cloud(rng, m, d, "normal") for c, r, m in zip(centres, radius, sizes)]
    X, y = _join(clusters)
    return Made(X, [y])


def _cluttered(rng: Rng) -> Made:
    """Draw strokes, shapes and blobs with much background noise, larger sets."""
    made = _drawn(rng) if rng.random() < 0.6 else _strokes(rng)
    X, y = made.X, made.labelings[0]
    count = int(rng.uniform(0.05, 0.3) * len(X))
    low, high = X.min(axis=0), X.max(axis=0)
    X = np.r_[X, rng.uniform(low, high, size=(count, X.shape[1]))]
    return Made(X, [np.r_[y, np.full(count, -1)]], noise=False)


def _high(rng: Rng) -> Made:
    """Draw clouds in many dimensions."""
    d = int(rng.integers(12, 51))
    k = _clusters(rng, 2, 12)
    n = max(_count(rng, median=500), 25 * k)
    distance = rng.uniform(4.0, 9.0)
    centres = rng.normal(size=(k, d)) * distance / np.sqrt(2 * d)
    tail = str(rng.choice(_TAILS))
    scale = np.exp(rng.normal(0, rng.choice([0.0, 0.2]), size=k))
    clusters = [
        c + s * _cloud(rng, m, d, tail) @ _shape_matrix(rng, d, float(rng.choice([1.0, 3.0]))).T
        for c, s, m in zip(centres, scale, _sizes(rng, n, k, 15), strict=True)
    ]
    X, y = _join(clusters)
    return Made(X, [y])


def _mixed_shapes(rng: Rng) -> Made:
    """Draw Gaussians beside shapes and strokes."""
    k = int(rng.integers(3, 9))
    n = max(_count(rng, median=800), 50 * k)
    radius = np.exp(rng.normal(0, 0.35, size=k))
    centres = _apart(rng, k, 2, radius, float(rng.uniform(0.1, 0.8)))
    clusters = []
    for c, r, m in zip(centres, radius, _sizes(rng, n, k, 25)):
        shape = _blob if rng.random() < 0.5 else _random_shape
        clusters.append(c + r * shape(rng, m))
    X, y = _join(clusters)
    return Made(X, [y])


def _solids(rng: Rng) -> Made:
    """Draw solids in space: balls, boxes, rods, shells, close to each other."""
    k, d = int(rng.integers(2, 7)), 3
    n = max(_count(rng, median=600), 60 * k)
    radius = np.exp(rng.normal(0, 0.25, size=k))
    centres = _apart(rng, k, d, radius, float(rng.uniform(0.05, 1.0)))
    clusters = []
    for c, r, m in zip(centres, radius, _sizes(rng, n, k, 25)):
        style = rng.random()
        x = _cloud(rng, m, 3, "ball") / np.sqrt(5)
        if style < 0.3:
            x = rng.uniform(-0.6, 0.6, size=(m, 3)) * rng.uniform(0.3, 1.0, size=3)
        elif style < 0.5:
            x /= np.linalg.norm(x, axis=1, keepdims=True) * 1.05
            x *= 1 + 0.05 * rng.normal(size=(m, 1))
        clusters.append(c + r * x @ _rotation(rng, 3))
    X, y = _join(clusters)
    return Made(X, [y])


# ---- recipes without structure ---------------------------------------------------------------------------------------


def _plain(X: Floats, *, noise: bool = False, rotate: bool = True, rounded: bool = True) -> Made:
    return Made(np.asarray(X, dtype=np.float64), [np.zeros(len(X), np.int64)], noise, rotate, rounded)


def _columns(rng: Rng, high: int = 50) -> int:
    return int(np.clip(np.exp(rng.uniform(np.log(2), np.log(high + 1))), 2, high))


def _none_uniform(rng: Rng) -> Made:
    n, d = _count(rng), _columns(rng)
    if rng.random() < 0.5:
        return _plain(_cloud(rng, n, d, "ball"))
    return _plain(rng.uniform(-1, 1, size=(n, d)) * np.exp(rng.normal(0, 0.5, size=d)))


def _none_gaussian(rng: Rng) -> Made:
    return _plain(rng.normal(size=(_count(rng), _columns(rng))))


def _none_correlated(rng: Rng) -> Made:
    n, d = _count(rng), _columns(rng)
    return _plain(rng.normal(size=(n, d)) @ _shape_matrix(rng, d, rng.uniform(2, 40)).T)


def _none_heavy(rng: Rng) -> Made:
    n, d = _count(rng), _columns(rng)
    if rng.random() < 0.5:
        return _plain(rng.standard_t(rng.uniform(2.5, 6), size=(n, d)))
    return _plain(rng.normal(size=(n, d)) / np.sqrt(rng.chisquare(3, size=(n, 1)) / 3))


def _none_skewed(rng: Rng) -> Made:
    n, d = _count(rng), _columns(rng, 20)
    X = rng.exponential(size=(n, d)) if rng.random() < 0.5 else np.exp(rng.uniform(0.3, 1.0) * rng.normal(size=(n, d)))
    return _plain(X, rotate=False)


def _none_factors(rng: Rng) -> Made:
    n, latent = _count(rng, median=400), int(rng.integers(1, 6))
    d = int(rng.integers(max(2, latent), 31))
    Z = rng.normal(size=(n, latent))
    X = Z @ rng.normal(size=(latent, d)) / np.sqrt(latent) + rng.uniform(0.2, 0.9) * rng.normal(size=(n, d))
    return _plain(_measured(rng, X), rotate=False)


def _none_sheet(rng: Rng) -> Made:
    """Draw one bent sheet, ring, spiral, arc or tube."""
    n = _count(rng, median=500)
    style = int(rng.integers(6))
    thick = rng.uniform(0.01, 0.15)
    t, v = rng.random((2, n))
    if style == 0:
        angle = np.pi * (1.5 + rng.uniform(1, 3) * t)
        X = np.c_[angle * np.cos(angle) / 5, angle * np.sin(angle) / 5, rng.uniform(1, 3) * v]
    elif style == 1:
        X = np.c_[np.sin(3 * np.pi * (t - 0.5)), 2 * v, np.sign(t - 0.5) * (np.cos(3 * np.pi * (t - 0.5)) - 1)]
    elif style == 2:
        X = _ring(rng, n, rng.uniform(0.4, 1.0), thick)
    elif style == 3:
        X = np.c_[2 * t - 1, 2 * v - 1, rng.uniform(0.5, 1.5) * (2 * t - 1) ** 2]
    elif style == 4:
        x = rng.normal(size=(n, 3))
        X = x / np.linalg.norm(x, axis=1, keepdims=True)
    else:
        angle = 2 * np.pi * t
        X = np.c_[
            (2 + np.cos(2 * np.pi * v)) * np.cos(angle),
            (2 + np.cos(2 * np.pi * v)) * np.sin(angle),
            np.sin(2 * np.pi * v),
        ]
    return _plain(X + thick * rng.normal(size=X.shape))


def _none_stroke(rng: Rng) -> Made:
    d = int(rng.choice([2, 2, 3, 5]))
    X = _along(rng, _smooth_path(rng, d, 3), _count(rng, median=350), rng.uniform(0.01, 0.15), bool(rng.random() < 0.5))
    return _plain(X)


def _none_rounded(rng: Rng) -> Made:
    """Draw one cloud rounded to a few levels, or a lattice."""
    n, d = _count(rng), int(rng.integers(2, 9))
    X = rng.normal(size=(n, d)) if rng.random() < 0.6 else rng.uniform(-2, 2, size=(n, d))
    X = X @ _shape_matrix(rng, d, 3.0).T
    step = rng.uniform(0.1, 0.8)
    return _plain(np.round(X / step) * step, rotate=False, rounded=False)


def _none_shape(rng: Rng) -> Made:
    """Draw one drawn shape, alone or with noise around it."""
    return _plain(_random_shape(rng, _count(rng, median=500)), noise=True)


def _none_gradient(rng: Rng) -> Made:
    """Draw a density that falls along a direction or from a peak, without a second mode."""
    n, d = _count(rng), int(rng.integers(2, 6))
    X = rng.uniform(-1, 1, size=(n, d))
    style = rng.random()
    if style < 0.4:
        X[:, 0] = rng.beta(1, rng.uniform(2, 4), size=n)
    elif style < 0.7:
        X = rng.triangular(-1, rng.uniform(-0.5, 0.5), 1, size=(n, d))
    else:
        X = rng.normal(size=(n, d)) * np.exp(rng.uniform(0.3, 0.8) * rng.normal(size=(n, 1)))
    return _plain(X)


def _none_merged(rng: Rng) -> Made:
    """Draw Gaussians so close to each other that the density has one mode."""
    n, d = _count(rng), _columns(rng, 20)
    step = np.zeros(d)
    step[0] = rng.uniform(0.3, 1.6)
    X = rng.normal(size=(n, d)) + step * rng.integers(0, int(rng.integers(2, 4)), size=(n, 1))
    return _plain(X)


def _none_marginals(rng: Rng) -> Made:
    """Draw independent columns of unlike distributions, none with two modes."""
    n, d = _count(rng), int(rng.integers(2, 16))
    draws: list[Callable[[], Floats]] = [
        lambda: rng.normal(size=n), lambda: rng.uniform(-1, 1, size=n), lambda: rng.exponential(size=n),
        lambda: rng.gamma(3, size=n), lambda: rng.poisson(4, size=n).astype(float), lambda: rng.beta(2, 5, size=n),
        lambda: rng.standard_t(4, size=n), lambda: rng.integers(1, 8, size=n).astype(float),
    ]  # fmt: skip
    return _plain(np.column_stack([draws[rng.integers(len(draws))]() for _ in range(d)]), rotate=False, rounded=False)


def _none_solid(rng: Rng) -> Made:
    """Draw one box, rod or ball in space, with outliers."""
    n = _count(rng)
    X = rng.uniform(-1, 1, size=(n, 3)) * np.exp(rng.normal(0, 0.8, size=3))
    if rng.random() < 0.4:
        X = np.r_[X, 4 * rng.normal(size=(max(1, n // 60), 3)) * X.std(axis=0)]
    return _plain(X, noise=True)


Recipe = Callable[[Rng], Made]

STRUCTURED: dict[str, Recipe] = {
    "gaussians": _gaussians,
    "overlapping": _overlapping,
    "many": _many,
    "drawn": _drawn,
    "nested": _nested,
    "spirals": _spirals,
    "moons": _moons,
    "bands": _bands,
    "dense-in-sparse": _dense_in_sparse,
    "densities": _densities,
    "necks": _necks,
    "strokes": _strokes,
    "rays": _rays,
    "subspace": _subspace,
    "factors": _factors,
    "tree": _tree_of_clusters,
    "codes": _codes,
    "sheets": _sheets,
    "unbalanced": _unbalanced,
    "cluttered": _cluttered,
    "high": _high,
    "mixed": _mixed_shapes,
    "solids": _solids,
}
STRUCTURELESS: dict[str, Recipe] = {
    "none-uniform": _none_uniform,
    "none-gaussian": _none_gaussian,
    "none-correlated": _none_correlated,
    "none-heavy": _none_heavy,
    "none-skewed": _none_skewed,
    "none-factors": _none_factors,
    "none-sheet": _none_sheet,
    "none-stroke": _none_stroke,
    "none-rounded": _none_rounded,
    "none-shape": _none_shape,
    "none-gradient": _none_gradient,
    "none-merged": _none_merged,
    "none-marginals": _none_marginals,
    "none-solid": _none_solid,
}
TEST_ONLY = ("sheets", "mixed", "solids", "none-solid", "none-marginals")  # never trained on
