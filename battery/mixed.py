"""Generated tables of numbers and categories with missing values and known groups, none of a mixture model's own form.

The recipes: factors cut into categories, copulas of a group's own, boxes of rules, customers, answers to a
questionnaire. Within a group the columns depend on each other, and numbers are skewed. Recipes without groups have one
label. Some columns have nothing to do with the groups; values are missing at random, or more often where they are
large.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

__all__ = ["LIKE", "RECIPES", "WITHOUT_GROUPS", "MixedSample", "draw"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Rng = np.random.Generator
Columns = dict[str, NDArray[Any]]  # of floats, or of codes


@dataclass(frozen=True)
class MixedSample:
    """A table and its groups."""

    columns: Columns  # floats with NaN, or objects: texts and None
    groups: Ints  # (n,)
    recipe: str

    @property
    def n_groups(self) -> int:
        """The number of groups."""
        return len(np.unique(self.groups))

    def frame(self) -> Any:
        """Return a data frame."""
        import pandas as pd

        return pd.DataFrame(self.columns)


@dataclass
class Made:
    """What a recipe makes: numbers (n, p), codes (n, q), and the groups."""

    numbers: Floats
    codes: Ints
    groups: Ints
    missing: float | None = None  # a share; None: drawn
    noise: bool = True  # whether columns without meaning may be added


def draw(recipe: str, seed: int) -> MixedSample:
    """Draw the table of a recipe and a seed."""
    rng = np.random.default_rng([seed, zlib.crc32(recipe.encode())])
    made = (RECIPES | WITHOUT_GROUPS | LIKE)[recipe](rng)
    if made.noise:
        _add_noise(rng, made)
    columns: Columns = {f"x{j}": column for j, column in enumerate(made.numbers.T)}
    columns |= {f"c{j}": _named(column, j) for j, column in enumerate(made.codes.T)}
    share = made.missing
    if share is None:
        share = 0.0 if rng.random() < 0.3 else float(rng.uniform(0.01, 0.3))
    if share:
        columns = {name: _with_gaps(rng, column, share, name[0] == "x") for name, column in columns.items()}
    order = rng.permutation(list(columns))
    return MixedSample({name: columns[name] for name in order}, made.groups, recipe)


def _named(codes: Ints, number: int) -> NDArray[Any]:
    return np.array([f"level {number}.{code}" for code in codes], dtype=object)


def _with_gaps(rng: Rng, column: NDArray[Any], share: float, is_number: bool) -> NDArray[Any]:
    """Take values away: any, or of numbers the large ones more often."""
    column = column.copy()
    if is_number and rng.random() < 0.3:
        rank = stats.rankdata(column) / len(column)
        gaps = rng.random(len(column)) < 2 * share * rank
    else:
        gaps = rng.random(len(column)) < share
    gaps[:2] = False
    column[gaps] = np.nan if is_number else None
    return column


def _add_noise(rng: Rng, made: Made) -> None:
    """Add up to a third of columns that have nothing to do with the others."""
    n, p = made.numbers.shape
    q = made.codes.shape[1]
    more = int(rng.integers(0, 1 + max(1, (p + q) // 3)))
    for _ in range(more):
        if rng.random() < p / (p + q):
            made.numbers = np.c_[made.numbers, _skewed(rng, rng.normal(size=n))]
        else:
            levels = int(rng.integers(2, 6))
            made.codes = np.c_[made.codes, rng.choice(levels, size=n, p=rng.dirichlet(np.full(levels, 3.0)))]


# ---- primitives ------------------------------------------------------------------------------------------------------


def _size(rng: Rng) -> int:
    return int(np.clip(np.exp(rng.normal(np.log(1200), 1.0)), 200, 20_000))


def _width(rng: Rng, low: int = 2) -> int:
    return int(np.clip(np.exp(rng.normal(np.log(10), 0.6)), low, 40))


def _groups(rng: Rng, n: int, most: int = 8) -> Ints:
    k = int(rng.integers(2, most + 1))
    shares = rng.dirichlet(np.full(k, 5.0))
    shares = np.maximum(shares, 0.3 / k)
    return rng.choice(k, size=n, p=shares / shares.sum())


def _skewed(rng: Rng, values: Floats) -> Floats:
    """Change the marginal distribution monotonically: not at all, by exp, by a cube, by rounding."""
    transform = rng.choice(["same", "exp", "power", "round"], p=[0.4, 0.3, 0.15, 0.15])
    if transform == "exp":
        return np.exp(rng.uniform(0.4, 1.0) * values + rng.uniform(-2, 8))
    if transform == "power":
        return np.sign(values) * np.abs(values) ** rng.uniform(1.2, 1.8)
    if transform == "round":
        return np.round(values * rng.uniform(2, 10) + 50)
    return values * np.exp(rng.normal(0, 2)) + rng.normal(0, 100)


def _cut(rng: Rng, values: Floats, levels: int) -> Ints:
    """Cut a continuous variable at quantiles."""
    shares = rng.dirichlet(np.full(levels, 6.0))
    return np.searchsorted(np.quantile(values, np.cumsum(shares)[:-1]), values)


def _nominal(rng: Rng, factors: Floats, levels: int, noise: float) -> Ints:
    """Take the level whose linear function of the factors is largest."""
    n, r = factors.shape
    utility = factors @ rng.normal(size=(r, levels)) + noise * rng.gumbel(size=(n, levels))
    return utility.argmax(axis=1)


def _split(rng: Rng, width: int) -> tuple[int, int]:
    """Return how many columns are numbers and categories: both types, or now and then one."""
    p = int(rng.binomial(width, rng.uniform(0.2, 0.8)))
    return max(p, 0), max(width - p, 1)


# ---- with groups -----------------------------------------------------------------------------------------------------


def _centers(rng: Rng, k: int, r: int, apart: float) -> Floats:
    """Return centers that are at least so far apart."""
    for tries in range(200):
        centers = rng.normal(size=(k, r)) * apart * (0.8 + 0.01 * tries)
        gaps = np.linalg.norm(centers[:, None] - centers, axis=2) + 1e9 * np.eye(k)
        if gaps.min() >= apart:
            break
    return centers


def _of_factors(rng: Rng, factors: Floats, p: int, q: int, noise: float) -> tuple[Floats, Ints]:
    """Return columns that are functions of the factors: numbers, cut numbers, and choices."""
    n, r = factors.shape
    scale = factors.std(axis=0)
    loads = rng.normal(size=(r, p + q))
    loads /= np.linalg.norm(scale[:, None] * loads, axis=0)
    linear = factors @ loads + noise * rng.normal(size=(n, p + q))
    numbers = [_skewed(rng, linear[:, j]) for j in range(p)]
    codes = []
    for j in range(q):
        levels = int(rng.integers(2, 7))
        nominal = levels > 2 and rng.random() < 0.5
        codes.append(_nominal(rng, factors / scale, levels, noise) if nominal else _cut(rng, linear[:, p + j], levels))
    return _columns(numbers, n), _columns(codes, n).astype(np.int64)


def _columns(found: list[Any], n: int) -> NDArray[Any]:
    return np.column_stack(found) if found else np.zeros((n, 0))


def factors(rng: Rng) -> Made:
    """Groups in a space of factors; every column is a noisy function of all of them."""
    n, width = _size(rng), _width(rng, 4)
    y = _groups(rng, n)
    r = int(rng.integers(2, 5))
    centers = _centers(rng, int(y.max()) + 1, r, rng.uniform(4.5, 7.0))
    mixing = rng.normal(size=(r, r)) * 0.3 + np.eye(r)
    inner = rng.normal(size=(n, r)) @ mixing
    numbers, codes = _of_factors(rng, centers[y] + inner, *_split(rng, width), rng.uniform(0.15, 0.5))
    return Made(numbers, codes, y)


def copula(rng: Rng) -> Made:
    """Every group has correlations and marginal distributions of its own."""
    n, width = _size(rng), _width(rng, 3)
    y = _groups(rng, n, 6)
    k = int(y.max()) + 1
    p, q = _split(rng, width)
    u = np.empty((n, p + q))
    for c in range(k):
        root = rng.normal(size=(p + q, p + q)) * rng.uniform(0.2, 0.6) + np.eye(p + q)
        normal = rng.normal(size=(int((y == c).sum()), p + q)) @ root.T
        u[y == c] = stats.norm.cdf(normal / np.linalg.norm(root, axis=1))
    strength = rng.uniform(0.6, 1.2)
    numbers = [_marginal(rng, u[:, j], y, k, strength) for j in range(p)]
    codes = [_levels(rng, u[:, p + j], y, k, strength) for j in range(q)]
    return Made(_columns(numbers, n), _columns(codes, n).astype(np.int64), y)


def _marginal(rng: Rng, u: Floats, y: Ints, k: int, strength: float) -> Floats:
    """Turn uniform numbers into a distribution whose location differs between the groups."""
    shift = strength * rng.normal(size=k) * 1.6
    distribution = rng.choice(["gamma", "t", "lognormal", "poisson"])
    if distribution == "gamma":
        return np.asarray(stats.gamma.ppf(u, 4.0, scale=np.exp(0.6 * shift)[y]))
    if distribution == "t":
        return np.asarray(stats.t.ppf(u, 4.0) + 1.2 * shift[y])
    if distribution == "lognormal":
        return np.asarray(np.exp(0.5 * stats.norm.ppf(u) + 0.7 * shift[y]))
    return np.asarray(stats.poisson.ppf(u, 6 * np.exp(0.5 * shift)[y]), dtype=np.float64)


def _levels(rng: Rng, u: Floats, y: Ints, k: int, strength: float) -> Ints:
    levels = int(rng.integers(2, 6))
    shares = rng.dirichlet(np.full(levels, 0.8 / strength), size=k)
    return (u[:, None] > np.cumsum(shares, axis=1)[y][:, :-1]).sum(axis=1)


def rules(rng: Rng) -> Made:
    """A group is a leaf of a tree of rules: an interval of some numbers, some levels of some categories."""
    n, width = _size(rng), _width(rng, 4)
    y = _groups(rng, n, 6)
    k = int(y.max()) + 1
    p, q = _split(rng, width)
    broken = rng.uniform(0.02, 0.15)
    numbers, codes = [], []
    for _ in range(p):
        low = rng.uniform(0, 1, k) * (1 - (wide := rng.uniform(0.2, 0.6)))
        inside = low[y] + wide * rng.beta(2, 2, n)
        free = rng.random(n) < broken
        numbers.append(_skewed(rng, 4 * np.where(free, rng.random(n), inside) - 2))
    for _ in range(q):
        levels = int(rng.integers(2, 6))
        allowed = rng.integers(levels, size=(k, max(1, levels // 2)))
        inside_codes = allowed[y, rng.integers(allowed.shape[1], size=n)]
        codes.append(np.where(rng.random(n) < broken, rng.integers(levels, size=n), inside_codes))
    return Made(_columns(numbers, n), _columns(codes, n).astype(np.int64), y)


def customers(rng: Rng) -> Made:
    """Customers: age, income, visits, spend, recency; city, plan, newsletter and gender."""
    n = _size(rng)
    y = _groups(rng, n, 5)
    k = int(y.max()) + 1
    age = rng.normal(rng.permutation(np.linspace(24, 68, k))[y], 6).round()
    income = np.exp(rng.normal(rng.permutation(np.linspace(9.8, 11.6, k))[y], 0.3))
    visits = rng.poisson(rng.permutation(np.geomspace(2, 30, k))[y]).astype(float)
    spend = (0.5 + visits) * rng.gamma(3, rng.permutation(np.geomspace(5, 40, k))[y] / 3)
    recency = rng.exponential(200 / (1 + visits))
    city = _biased(rng, y, k, 5, 0.4)
    plan = _biased(rng, y, k, 3, 0.7)
    newsletter = (rng.random(n) < rng.uniform(0.2, 0.8, k)[y]).astype(int)
    gender = rng.integers(2, size=n)
    return Made(np.c_[age, income, visits, spend, recency], np.c_[city, plan, newsletter, gender], y, noise=False)


def _biased(rng: Rng, y: Ints, k: int, levels: int, share: float) -> Ints:
    """Return a category of which each group has one preferred level."""
    liked = rng.permutation(max(k, levels))[:k] % levels
    return np.where(rng.random(len(y)) < share, liked[y], rng.integers(levels, size=len(y)))


def survey(rng: Rng) -> Made:
    """Answers from 1 to 5 and yes or no: the group, the question, and how readily a person agrees."""
    n, width = _size(rng), _width(rng, 8)
    y = _groups(rng, n, 5)
    k = int(y.max()) + 1
    mood = rng.normal(0, rng.uniform(0.2, 0.6), n)
    taste = rng.normal(0, rng.uniform(1.2, 1.8), size=(k, width))
    latent = taste[y] + mood[:, None] + rng.logistic(0, 0.45, size=(n, width))
    codes = [np.searchsorted(np.sort(rng.normal(0, 1, int(rng.choice([1, 4])))), latent[:, j]) for j in range(width)]
    numbers = [np.round(rng.normal(40 + 10 * rng.normal(size=k)[y], 8))] if rng.random() < 0.5 else []
    return Made(_columns(numbers, n), _columns(codes, n).astype(np.int64), y)


# ---- without groups --------------------------------------------------------------------------------------------------


def one_factor_space(rng: Rng) -> Made:
    """One cloud in a space of factors."""
    n, width = _size(rng), _width(rng, 4)
    r = int(rng.integers(1, 5))
    numbers, codes = _of_factors(rng, rng.normal(size=(n, r)), *_split(rng, width), rng.uniform(0.15, 1.0))
    return Made(numbers, codes, np.zeros(n, np.int64))


def independent(rng: Rng) -> Made:
    """Columns that have nothing to do with each other."""
    n, width = _size(rng), _width(rng)
    p, q = _split(rng, width)
    numbers = [_skewed(rng, rng.normal(size=n)) for _ in range(p)]
    codes = [rng.choice(levels, size=n, p=rng.dirichlet(np.full(levels, 3.0))) for levels in rng.integers(2, 7, q)]
    return Made(_columns(numbers, n), _columns(codes, n).astype(np.int64), np.zeros(n, np.int64))


def one_copula(rng: Rng) -> Made:
    """One copula with skewed marginal distributions."""
    n, width = _size(rng), _width(rng, 3)
    p, q = _split(rng, width)
    root = rng.normal(size=(p + q, p + q)) * rng.uniform(0.2, 0.6) + np.eye(p + q)
    u = stats.norm.cdf(rng.normal(size=(n, p + q)) @ root.T / np.linalg.norm(root, axis=1))
    y = np.zeros(n, np.int64)
    numbers = [_marginal(rng, u[:, j], y, 1, 1.0) for j in range(p)]
    codes = [_cut(rng, u[:, p + j], int(rng.integers(2, 6))) for j in range(q)]
    return Made(_columns(numbers, n), _columns(codes, n).astype(np.int64), y)


def one_survey(rng: Rng) -> Made:
    """Answers that differ by how readily a person agrees."""
    n, width = _size(rng), _width(rng, 8)
    latent = rng.normal(0, rng.uniform(0.2, 1.0), n)[:, None] + rng.logistic(0, 0.45, size=(n, width))
    codes = [np.searchsorted(np.sort(rng.normal(0, 1, int(rng.choice([1, 4])))), latent[:, j]) for j in range(width)]
    return Made(np.zeros((n, 0)), _columns(codes, n).astype(np.int64), np.zeros(n, np.int64))


# ---- tables like those that people bring -----------------------------------------------------------------------------


def _four(rng: Rng, p: int, q: int, missing: float) -> Made:
    """Four groups in three factors."""
    n = int(rng.integers(800, 3000))
    y = rng.choice(4, size=n, p=rng.dirichlet(np.full(4, 20.0)))
    centers = _centers(rng, 4, 3, 6.0)
    numbers, codes = _of_factors(rng, centers[y] + rng.normal(size=(n, 3)), p, q, 0.3)
    return Made(numbers, codes, y, missing=missing)


RECIPES: dict[str, Callable[[Rng], Made]] = {
    "factors": factors, "copula": copula, "rules": rules, "customers": customers, "survey": survey,
}  # fmt: skip
WITHOUT_GROUPS: dict[str, Callable[[Rng], Made]] = {
    "one-factor-space": one_factor_space, "independent": independent, "one-copula": one_copula,
    "one-survey": one_survey,
}  # fmt: skip
LIKE: dict[str, Callable[[Rng], Made]] = {
    "mixed, 6 % missing": lambda rng: _four(rng, 5, 4, 0.06),
    "mixed, complete": lambda rng: _four(rng, 5, 4, 0.0),
    "categories": lambda rng: _four(rng, 0, 10, 0.0),
}
