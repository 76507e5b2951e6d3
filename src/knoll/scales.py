"""Scales from the data: ε from the k-distance curve, bandwidth and σ from neighbours. Each comes with its reason."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from knoll import _core
from knoll._common import seeding
from knoll._common.rescale import exponent_of, extreme_exponent, largest_of, times_power
from knoll._common.unique_rows import find_unique_rows, merge_equal_rows
from knoll._system import resolve_threads
from knoll._typing import Floats, Indices
from knoll.base import warn_caller
from knoll.exceptions import BadData, SuspiciousResultWarning
from knoll.validation import (
    N_JOBS,
    RANDOM_STATE,
    Choice,
    Number,
    check_parameters,
    check_points,
    check_weights,
    draw_seed,
)

__all__ = ["EpsEstimate", "SigmaEstimate", "estimate_bandwidth", "estimate_eps", "estimate_sigma", "k_distances"]

METRICS = ("euclidean", "manhattan", "chebyshev", "cosine")
_METRIC = (Choice(METRICS),)
_MOST_ROWS = 5000  # rows from which a bandwidth is taken: its work is their square
_MOST_EXPONENT = 974  # coordinates below two to this have differences, and sums over columns, within float64
_SQUARES = 400  # squares of numbers beyond 2^±400 might leave float64
_BLOCK = 2**22  # distances at a time
_FENCE = 2.0  # interquartile ranges beyond the upper quartile that still count as the usual range
_FAR_OUT = 3.0  # the same for the whole curve: what lies beyond is capped before the search for the bend
_LEAST = 5e-324  # the smallest float64 above 0
_DRAWN = 200  # points of a curve in a notebook
_FLAT = 0.1  # a knee less than this below the chord of the curve is none


@dataclass(frozen=True)
class EpsEstimate:
    """A radius for DBSCAN, with the curve it was read from."""

    eps: float
    min_samples: int
    curve: Floats  # (m,) the min_samples-distances, smallest first
    share: Floats  # (m,) the share of the rows (by weight) up to each
    knee: int  # where on the curve
    reason: str

    def __float__(self) -> float:
        return self.eps

    def __str__(self) -> str:
        return f"{self.eps:g}: {self.reason}"

    def _repr_html_(self) -> str:
        """Return the value, its reason and its curve, for notebooks."""
        return _estimate_html("ε", self.eps, self.reason, self.curve, self.share)


def k_distances(
    X: ArrayLike,
    k: int,
    *,
    metric: str = "euclidean",
    sample_weight: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> Floats:
    """Compute for each row the least radius whose ball holds k rows, itself included.

    DBSCAN with this ε and min_samples=k makes the row a core point, and with any smaller ε not.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The points.
    k : int
        How many rows; the row itself is the first.
    metric : {"euclidean", "manhattan", "chebyshev", "cosine"}, default="euclidean"
        DBSCAN's metric.
    sample_weight : array-like of shape (n_samples,), default=None
        A weight of w counts as w rows.
    n_jobs : int or None, default=None
        Threads.

    Returns
    -------
    ndarray of shape (n_samples,)
        The distances; inf where the whole data does not hold k rows.

    Examples
    --------
    >>> from knoll import scales
    >>> scales.k_distances([[0.0], [1.0], [3.0]], k=2)
    array([1., 1., 2.])
    """
    check_parameters(
        "k_distances",
        {"k": k, "metric": metric, "n_jobs": n_jobs},
        {"k": (Number(1, whole=True),), "metric": _METRIC, "n_jobs": N_JOBS},
    )
    points = check_points(X, n_jobs=n_jobs)
    weights = _check_counts(sample_weight, len(points), "k_distances")
    return _k_distances(points, int(k), weights, resolve_threads(n_jobs), metric)


def _k_distances(
    points: NDArray[Any], k: int, weights: Floats | None, threads: int, metric: str = "euclidean"
) -> Floats:
    exponent = max(0, exponent_of(points) - _MOST_EXPONENT)
    points = times_power(points, -exponent)
    unique = merge_equal_rows(points, threads)
    if unique is not None:  # equal rows have one answer
        rows, mass = unique.sum_weights(weights, threads)
        reaches = _reaches(np.ascontiguousarray(points[rows]), k, mass, threads, metric)[unique.inverse]
    else:
        reaches = _reaches(points, k, weights, threads, metric)
    return reaches if metric == "cosine" else _brought_back(reaches, exponent)  # an angle has no unit


def _brought_back(distances: Floats, exponent: int) -> Floats:
    """Bring distances back: multiply them by 2^exponent; refuse those that float64 cannot hold."""
    back: Floats = times_power(distances, exponent)
    if (np.isfinite(distances) & np.isinf(back)).any():
        raise BadData("Distances between rows of X are larger than the largest float64, 1.8e308. Divide X by 1e10.")
    return back


def _check_counts(sample_weight: Any, n: int, owner: str) -> Floats | None:
    """Check weights that are numbers of rows: their sum is one, too."""
    weights = check_weights(sample_weight, n, owner=owner)
    if weights is not None:
        with np.errstate(over="ignore"):
            total = weights.sum()
        if not np.isfinite(total):
            raise BadData(f"{owner}: the weights add up to more than the largest float64. Divide all weights by 1e10.")
    return weights


def _reaches(points: NDArray[Any], k: int, weights: Floats | None, threads: int, metric: str) -> Floats:
    n = len(points)
    reach = np.full(n, np.inf)
    total = float(n) if weights is None else float(weights.sum())
    if total < k:
        return reach
    index = _core.Index(points, 0.0, metric, 2.0, "auto", threads)
    left, n_near = np.arange(n), min(k, n)
    while len(left):
        later = []
        height = max(1, _BLOCK // n_near)
        for begin in range(0, len(left), height):
            chunk = left[begin : begin + height]
            distances = np.empty((len(chunk), n_near))
            near = np.empty((len(chunk), n_near), dtype=np.int64)
            index.knn(points if len(chunk) == n else points[chunk], n_near, distances, near, threads)
            if weights is None:
                reach[chunk] = distances[:, -1]
                continue
            mass = np.cumsum(weights[near], axis=1)
            enough = mass >= k
            for i, j in np.argwhere(np.abs(mass - k) <= 1e-12 * n_near * k):  # close calls by the exact sum
                enough[i, j] = math.fsum(weights[near[i, : j + 1]]) >= k
            found = enough.any(axis=1)
            at = np.argmax(enough, axis=1)
            reach[chunk[found]] = distances[found, at[found]]
            later.append(chunk[~found])
        left = np.concatenate(later) if later else np.empty(0, dtype=np.intp)
        if n_near == n:
            break
        n_near = min(2 * n_near, n)
    return reach


def estimate_eps(
    X: ArrayLike,
    min_samples: int | None = None,
    *,
    metric: str = "euclidean",
    sample_weight: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> EpsEstimate:
    """Suggest ε for DBSCAN: the knee of the sorted `min_samples`-distances.

    Inside clusters these distances are small and change little; among outliers they grow fast. The bend of the curve is
    its point, both axes scaled to [0, 1], that lies furthest below the chord between its ends. The rows below it are
    surely inside clusters; the knee is where the curve leaves their range: Q3 + 2 (Q3 − Q1) of the logarithms of their
    distances, in the manner of Tukey's fences, so that the thin fringes of clusters are not taken for noise.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The points.
    min_samples : int, default=None
        DBSCAN's min_samples; None is twice the number of columns (Sander et al. 1998).
    metric : {"euclidean", "manhattan", "chebyshev", "cosine"}, default="euclidean"
        DBSCAN's metric.
    sample_weight : array-like of shape (n_samples,), default=None
        A weight of w counts as w rows.
    n_jobs : int or None, default=None
        Threads.

    Returns
    -------
    EpsEstimate
        `eps`, `min_samples`, the `curve` with its `share` and `knee`, and the `reason`.

    Examples
    --------
    >>> from knoll import datasets, scales
    >>> X = datasets.x1500().X
    >>> estimate = scales.estimate_eps(X)
    >>> estimate.min_samples, bool(estimate.eps > 0)
    (4, True)
    """
    check_parameters(
        "estimate_eps",
        {"min_samples": min_samples, "metric": metric, "n_jobs": n_jobs},
        {"min_samples": (None, Number(1, whole=True)), "metric": _METRIC, "n_jobs": N_JOBS},
    )
    points = check_points(X, n_jobs=n_jobs)
    weights = _check_counts(sample_weight, len(points), "estimate_eps")
    level = max(2, 2 * points.shape[1]) if min_samples is None else int(min_samples)
    distances = _k_distances(points, level, weights, resolve_threads(n_jobs), metric)
    if not np.isfinite(distances).all():
        total = len(points) if weights is None else float(weights.sum())
        raise BadData(
            f"estimate_eps: the data holds {total:g} rows, fewer than min_samples={level}. "
            "Give more rows or a smaller min_samples."
        )
    mass = np.ones(len(points)) if weights is None else weights
    kept = mass > 0
    order = np.argsort(distances[kept], kind="stable")
    curve = distances[kept][order]
    share = np.cumsum(mass[kept][order]) / mass.sum()
    if curve[-1] == 0:
        eps = _half_gap(points[kept], resolve_threads(n_jobs), metric)
        reason = (
            f"every row equals {level} rows, itself included; this is half the least distance between distinct rows"
        )
        return EpsEstimate(eps, level, curve, share, len(curve) - 1, reason)
    eps, knee, reason = _knee(curve, share, level)
    return EpsEstimate(eps, level, curve, share, knee, reason)


def _knee(curve: Floats, share: Floats, level: int) -> tuple[float, int, str]:
    """Find where the curve leaves the range of what lies below its bend; on distinct values, so rows may repeat."""
    last = np.append(np.flatnonzero(np.diff(curve) > 0), len(curve) - 1)  # of each distinct value
    values, upto = curve[last], share[last]
    if len(values) == 1:
        return float(values[0]), len(curve) - 1, f"all {level}-distances are equal"
    values, upto, last = (a[values > 0] for a in (values, upto, last))
    logs = np.log(values)
    with np.errstate(over="ignore"):
        cap = min(np.exp(_fence(logs, upto, _FAR_OUT)), values[-1])  # a few far outliers must not bend the chord
    span = max(float(cap - values[0]), 5e-324)
    below = (upto - upto[0]) / max(float(upto[-1] - upto[0]), 5e-324) - np.minimum(values - values[0], span) / span
    bend = int(np.argmax(below))
    with np.errstate(over="ignore"):
        fence = np.exp(_fence(logs[: bend + 1], upto[: bend + 1], _FENCE))
    knee = max(bend, int(np.searchsorted(values, fence, side="right")) - 1)
    eps = float(values[knee])
    reason = (
        f"the sorted {level}-distances bend at {values[bend]:.4g} and leave their usual range at {eps:.4g}: "
        f"{100 * upto[knee]:.0f} % of the rows have {level} rows within that radius"
    )
    if below[bend] < _FLAT:
        reason += "; the bend is weak, so look at the curve before trusting it"
    return eps, int(last[knee]), reason


def _fence(logs: Floats, upto: Floats, ranges: float) -> float:
    """Return the upper quartile plus `ranges` interquartile ranges, by cumulative shares."""
    lower, upper = logs[np.searchsorted(upto, np.array([0.25, 0.75]) * upto[-1])]
    return float(upper + ranges * (upper - lower))


def _half_gap(points: NDArray[Any], threads: int, metric: str) -> float:
    """Return half the least distance between distinct rows; 1 where all are equal."""
    distinct = points[find_unique_rows(points, threads).index]
    if len(distinct) == 1:
        return 1.0
    return max(float(_k_distances(distinct, 2, None, threads, metric).min()) / 2, _LEAST)


def estimate_bandwidth(
    X: ArrayLike,
    *,
    quantile: float = 0.3,
    n_samples: int | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Suggest a bandwidth for Mean Shift: the mean radius of a ball that holds a share of the rows.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The points.
    quantile : float, default=0.3
        The share of the rows in a ball, from 0 to 1.
    n_samples : int, default=None
        Take so many rows, drawn at random. None: all rows, or, since the work is their square, 5000 of more, evenly
        spaced in the order of their coordinates.
    random_state : int, RandomState, Generator or None, default=0
        What rows are drawn from.
    n_jobs : int or None, default=None
        Threads.
    sample_weight : array-like of shape (n_samples,), default=None
        A weight of w counts as w rows.

    Returns
    -------
    float
        The bandwidth.

    Examples
    --------
    >>> from knoll import scales
    >>> scales.estimate_bandwidth([[0.0], [1.0], [2.0], [9.0], [10.0], [11.0]], quantile=0.5)
    1.6666666666666667
    """
    check_parameters(
        "estimate_bandwidth",
        {"quantile": quantile, "n_samples": n_samples, "random_state": random_state, "n_jobs": n_jobs},
        {
            "quantile": (Number(0, 1),),
            "n_samples": (None, Number(1, whole=True)),
            "random_state": RANDOM_STATE,
            "n_jobs": N_JOBS,
        },
    )
    points = np.ascontiguousarray(check_points(X, n_jobs=n_jobs), dtype=np.float64)
    weights = check_weights(sample_weight, len(points), owner="estimate_bandwidth")
    if weights is not None:
        points, weights = points[weights > 0], weights[weights > 0]
    if n_samples is not None and n_samples < len(points):
        drawn = np.random.default_rng(draw_seed(random_state)).permutation(len(points))[: int(n_samples)]
        points, weights = points[drawn], None if weights is None else weights[drawn]
        return _mean_reach(points, weights, float(quantile), resolve_threads(n_jobs))
    return _bandwidth(points, weights, float(quantile), resolve_threads(n_jobs))


def _bandwidth(points: Floats, weights: Floats | None, quantile: float, threads: int) -> float:
    """Take the mean reach of all rows, or of a sample evenly spaced in the order of their coordinates."""
    if len(points) > _MOST_ROWS:
        order = np.lexsort(points.T[::-1])
        upto = np.cumsum(np.ones(len(points)) if weights is None else weights[order])
        middle = (np.arange(_MOST_ROWS) + 0.5) * (upto[-1] / _MOST_ROWS)
        points, weights = points[order[np.searchsorted(upto, middle)]], None
    return _mean_reach(points, weights, quantile, threads)


def _mean_reach(points: Floats, weights: Floats | None, quantile: float, threads: int) -> float:
    """Average the least radius around a row that holds the share `quantile` of the weight, at least one row."""
    exponent = extreme_exponent(largest_of(points), _SQUARES)
    if weights is not None:
        weights = times_power(weights, -max(0, exponent_of(weights) - 900))
    total = float(len(points)) if weights is None else math.fsum(weights)
    wanted = total * quantile
    reach = np.empty(len(points))
    wanted = math.floor(wanted) if wanted >= 1 else wanted
    _core.kth_distances(times_power(points, -exponent), weights, wanted, reach, threads)
    mean = math.fsum(reach) / total if weights is None else math.fsum(reach * (weights / total))
    answer = float(_brought_back(np.array(mean), exponent))
    return max(answer, _LEAST) if mean > 0 else answer


# ---- the width of the Gaussian kernel ------------------------------------------------------------------------------

_HEAVY = 2.0**900  # weight of a row, at most
_SAMPLE = 1000  # rows whose neighbours are searched: the median of so many is known to about two per cent


@dataclass(frozen=True)
class SigmaEstimate:
    """A width for the Gaussian kernel, with the distances it was read from."""

    sigma: float
    n_neighbors: int  # rows in the ball, the row in its middle included
    curve: Floats  # (m,) radii of the balls, smallest first
    share: Floats  # (m,) the share of the rows (by weight) up to each
    reason: str

    @property
    def value(self) -> float:
        """σ."""
        return self.sigma

    @property
    def gamma(self) -> float:
        """γ = 1/(2σ²)."""
        with np.errstate(over="ignore"):
            return float(0.5 / np.float64(self.sigma) / np.float64(self.sigma))

    def __float__(self) -> float:
        return self.sigma

    def __str__(self) -> str:
        return f"{self.sigma:g}: {self.reason}"

    def _repr_html_(self) -> str:
        """Return the value, its reason and its curve, for notebooks."""
        return _estimate_html("σ", self.sigma, self.reason, self.curve, self.share)


def estimate_sigma(
    X: ArrayLike,
    n_neighbors: int | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> SigmaEstimate:
    """Suggest σ for the Gaussian kernel: the median radius of the balls that hold a row's nearest neighbours.

    A kernel for spectral clustering should be high to a row's own neighbourhood and low across the space between
    clusters; the neighbourhood is the ball of the ∛n nearest rows (docs/theory/04-kernels-and-spectral.md, eq. 4.26).
    The median over rows is not moved by outliers, nor by a minority of crowded rows.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The points.
    n_neighbors : int, default=None
        Rows in a ball, the row in its middle included. None is the cube root of the number of rows, rounded up, at
        least 2.
    sample_weight : array-like of shape (n_samples,), default=None
        A weight of w counts as w rows. Weights of less than 1 on average, such as shares that add up to 1, are no
        counts: they are multiplied by what makes their sum the number of distinct rows.
    n_jobs : int or None, default=None
        Threads.

    Returns
    -------
    SigmaEstimate
        `sigma`, `n_neighbors`, the `curve` of radii with its `share`, and the `reason`. Of more than 1000 rows so many
        are used, chosen by their content.

    Warns
    -----
    SuspiciousResultWarning
        All rows are equal; σ is 1.

    Notes
    -----
    Where most balls have the radius 0, since most rows have copies, the median is taken over distinct rows instead,
    each counted once.

    Examples
    --------
    >>> import numpy as np
    >>> from knoll import scales
    >>> estimate = scales.estimate_sigma(np.arange(27.0)[:, None])
    >>> estimate.n_neighbors, estimate.sigma
    (3, 1.0)
    """
    check_parameters(
        "estimate_sigma",
        {"n_neighbors": n_neighbors, "n_jobs": n_jobs},
        {"n_neighbors": (None, Number(2, whole=True)), "n_jobs": N_JOBS},
    )
    threads = resolve_threads(n_jobs)
    points = check_points(X, n_jobs=n_jobs)
    weights = check_weights(sample_weight, len(points), owner="estimate_sigma")
    if weights is not None and weights.max() > _HEAVY:  # one such row fills any ball, and their sum stays in float64
        weights = np.minimum(weights, _HEAVY)
    rows = seeding.multiset(points, weights, threads)  # in an order that depends on contents alone
    distinct, mass = points[rows.rows], rows.weights
    if (total := math.fsum(mass)) < len(distinct):  # repetitions add up to at least that
        mass = mass / total * len(distinct)
    curve, share, level = _radii(distinct, mass, n_neighbors, threads)
    sigma = float(curve[np.searchsorted(share, 0.5)])
    reason = f"half of the rows have {level} rows, themselves included, within this distance"
    if sigma == 0 and len(distinct) > 1:
        curve, share, level = _radii(distinct, np.ones(len(distinct)), n_neighbors, threads)
        sigma = float(curve[np.searchsorted(share, 0.5)])
        reason = (
            f"most rows have copies, so copies were counted once: half of the {len(distinct)} distinct rows have "
            f"{level} of them, themselves included, within this distance"
        )
    if sigma == 0:
        reason = "all rows are equal, so no distance is a scale; 1 is as good as any other value"
        warn_caller(f"estimate_sigma: {reason}.", SuspiciousResultWarning)
        sigma = 1.0
    return SigmaEstimate(sigma, level, curve, share, reason)


def _radii(distinct: NDArray[Any], mass: Floats, n_neighbors: int | None, threads: int) -> tuple[Floats, Floats, int]:
    """Sort the radii of balls around distinct rows that hold so many rows: radii, shares of the weight, how many."""
    total = math.fsum(mass)
    level = math.ceil(total ** (1 / 3) - 1e-9) if n_neighbors is None else int(n_neighbors)
    level = max(1, min(max(2, level), math.floor(total)))
    rows, times = np.arange(len(distinct)), mass
    if total > _SAMPLE:  # evenly along the weight, so that a weight is a number of repetitions here, too
        upto = np.cumsum(mass)
        hit = np.searchsorted(upto, (np.arange(_SAMPLE) + 0.5) * (upto[-1] / _SAMPLE))
        rows, counts = np.unique(hit, return_counts=True)
        times = counts.astype(np.float64)
    radii = _reach(distinct, mass, min(level, total) * (1 - 1e-12), rows, threads)
    order = np.argsort(radii, kind="stable")
    counted = np.cumsum(times[order])
    return radii[order], counted / counted[-1], level


def _reach(points: NDArray[Any], mass: Floats, wanted: float, rows: Indices, threads: int) -> Floats:
    """Find the least radius around each of these rows that holds the weight `wanted`."""
    exponent = max(0, exponent_of(points) - _MOST_EXPONENT)
    points = times_power(points, -exponent)
    index = _core.Index(points, 0.0, "euclidean", 2.0, "auto", threads)
    reach, left = np.empty(len(rows)), np.arange(len(rows))
    n_near = min(len(points), max(2, math.ceil(wanted)))
    while len(left):
        queries = np.ascontiguousarray(points[rows[left]])
        distances = np.empty((len(left), n_near))
        near = np.empty((len(left), n_near), dtype=np.int64)
        index.knn(queries, n_near, distances, near, threads)
        enough = np.cumsum(mass[near], axis=1) >= wanted
        enough[:, -1] |= n_near == len(points)
        found = enough[:, -1]
        reach[left[found]] = distances[found, np.argmax(enough[found], axis=1)]
        left, n_near = left[~found], min(2 * n_near, len(points))
    return _brought_back(reach, exponent)


def _estimate_html(symbol: str, value: float, reason: str, curve: Floats, share: Floats) -> str:
    """Return an estimate as HTML: a sentence, and the curve that it was read from with the value across it."""
    head = f"<p><b>{symbol} = {value:.6g}</b><br>{escape(reason)}</p>"
    top = float(max(curve[-1], value)) if len(curve) else 0.0
    if not (math.isfinite(top) and top > 0):
        return head
    at = np.unique(np.linspace(0, len(curve) - 1, _DRAWN).astype(np.int64))
    points = " ".join(f"{300 * share[i]:.1f},{118 - 110 * (curve[i] / top):.1f}" for i in at)
    y = 118 - 110 * (value / top)
    return (
        f'{head}<svg width="300" height="120" viewBox="0 0 300 120" role="img">'
        f"<title>distances, sorted, and {symbol}</title>"
        f'<polyline points="{points}" fill="none" stroke="#0072b2" stroke-width="2"/>'
        f'<line x1="0" x2="300" y1="{y:.1f}" y2="{y:.1f}" stroke="#c8321e" stroke-dasharray="4 3"/></svg>'
    )
