"""Model selection: the number of clusters or components, with the curve of the criterion and the reason.

Internal criteria are not the truth: they show which model the data supports under the criterion's own assumptions
(docs/guide/choosing-parameters.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from knoll._common import seeding
from knoll._common.blocks import Block
from knoll._common.rescale import Rescaling, largest_of, without_absent
from knoll._system import resolve_threads
from knoll._typing import Floats, Ints
from knoll.exceptions import BadData, InvalidParameter
from knoll.gaussian.covariance import COVARIANCE_TYPES, estimated_types
from knoll.kmeans.estimator import KMeans
from knoll.metrics import silhouette_samples
from knoll.mixture.estimator import GaussianMixture
from knoll.mixture.preprocess import summarize
from knoll.spectral.eigengap import eigengap as _eigengap
from knoll.validation import (
    N_JOBS,
    RANDOM_STATE,
    Choice,
    Number,
    check_parameters,
    check_points,
    check_weights,
    draw_seed,
    refuse_masked,
)

__all__ = ["Selection", "choose_n_clusters", "choose_n_components", "eigengap", "silhouette_samples"]

_STRONG = 10.0  # a difference in BIC beyond which evidence is called very strong (Kass & Raftery 1995)
_FLAT = 0.1  # an elbow less than this below the chord of its curve is not significant
_REG_COVAR = 1e-6  # of the mean variance, added to covariances
_SCORED_ROWS = 20_000  # unique rows; silhouettes use every pair, so more are sampled


@dataclass(frozen=True)
class Selection:
    """The choice, its reason, and the curve of the criterion."""

    best: int  # the number of clusters or components
    criterion: str
    candidates: Ints  # (m,) the numbers tried
    curve: Mapping[str, Floats]  # the criterion at each candidate; one array a covariance type, or by name
    reason: str
    model: Any  # the estimator, fitted at the choice; None where nothing was fitted

    def __str__(self) -> str:
        return f"{self.best}: {self.reason}"


# ---- the number of components of a mixture -------------------------------------------------------------------------


def choose_n_components(
    X: ArrayLike,
    candidates: Iterable[int] = range(1, 11),
    *,
    criterion: str = "bic",
    covariance_types: Sequence[str] = ("full",),
    sample_weight: ArrayLike | None = None,
    n_init: int = 5,
    reg_covar: float | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> Selection:
    """Choose the number of components of a Gaussian mixture, and its covariance type, by an information criterion.

    BIC = −2 log p(X) + q log n, AIC = −2 log p(X) + 2q, ICL = BIC − 2 Σ_i log λ_i,label(i); q counts the free
    parameters. The smallest is chosen, ties go to the smaller model.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The points.
    candidates : iterable of int, default=range(1, 11)
        The numbers to try; those above the number of rows of weight > 0 are left out.
    criterion : {"bic", "aic", "icl"}, default="bic"
        BIC for the number of Gaussians the density needs, ICL for well separated clusters, AIC for prediction.
    covariance_types : sequence of str, default=("full",)
        The types to try.
    sample_weight : array-like of shape (n_samples,), default=None
        A weight of w counts as w rows, also in BIC's n.
    n_init : int, default=5
        Starts of each fit; the best is kept. EM finds a local maximum: with one start the comparison is unreliable.
    reg_covar : float, default=None
        Added to the diagonal of every covariance. None: 1e-6 of the mean variance of the columns, so that the choice
        does not depend on the units of X.
    random_state : int, RandomState, Generator or None, default=None
        The seed of the initialisations, shared by all candidates.
    n_jobs : int or None, default=None
        Threads of each fit.

    Returns
    -------
    Selection
        `best`, `reason`, `curve` (one array for each covariance type) and the fitted `model`.

    Examples
    --------
    >>> from knoll import datasets, tuning
    >>> X = datasets.x1500().X
    >>> choice = tuning.choose_n_components(X, range(1, 6), random_state=0)
    >>> choice.best, choice.model.covariance_type
    (3, 'full')
    """
    check_parameters(
        "choose_n_components",
        {"criterion": criterion, "reg_covar": reg_covar},
        {"criterion": (Choice(("bic", "aic", "icl")),), "reg_covar": (None, Number(0))},
    )
    _check_common("choose_n_components", n_init, random_state, n_jobs)
    types = _covariance_types(covariance_types)
    points = check_points(X, n_jobs=n_jobs)
    weights = check_weights(sample_weight, len(points), owner="choose_n_components")
    _refuse_heavy("choose_n_components", weights)
    numbers = _candidates("choose_n_components", candidates, 1, _counted(points, weights))
    seed = draw_seed(random_state)
    added = _small_variance(points, weights, resolve_threads(n_jobs)) if reg_covar is None else float(reg_covar)
    fits: dict[tuple[str, int], Any] = {}
    curve = {name: np.full(len(numbers), np.nan) for name in types}
    for name in types:
        for at, k in enumerate(numbers):
            model = GaussianMixture(
                n_components=int(k),
                covariance_type=name,
                n_init=n_init,
                reg_covar=added,
                random_state=seed,
                n_jobs=n_jobs,
            ).fit(X, sample_weight=sample_weight)
            curve[name][at] = getattr(model, criterion)(X, sample_weight=sample_weight)
            fits[name, int(k)] = model
    d = points.shape[1]  # between equal scores the smaller model is chosen
    size = {(name, k): COVARIANCE_TYPES[name].n_parameters(k, d) + k * (d + 1) for name, k in fits}
    score = {(name, int(k)): float(curve[name][at]) for name in types for at, k in enumerate(numbers)}
    ranked = sorted(score, key=lambda pair: (score[pair], size[pair]))
    best = ranked[0]
    return Selection(
        best=best[1],
        criterion=criterion,
        candidates=numbers,
        curve=curve,
        reason=_by_criterion(criterion, ranked, score, numbers),
        model=fits[best],
    )


def _small_variance(points: NDArray[Any], weights: Floats | None, threads: int) -> float:
    """Return 1e-6 of the mean variance of the columns."""
    rows = summarize(points, weights, estimator=None, box=False, unit=0.0, one_unit=True, matrix=False, threads=threads)
    variance = float(rows.centering.variances.mean()) / rows.centering.scale / rows.centering.scale
    return float(min(rows.scaling.from_units(_REG_COVAR * variance, length=2), np.finfo(np.float64).max))


def _by_criterion(
    criterion: str, ranked: list[tuple[str, int]], score: Mapping[tuple[str, int], float], numbers: Ints
) -> str:
    name, k = ranked[0]
    text = f"{criterion.upper()} is smallest for {k} {name} component{'s' if k > 1 else ''} ({score[ranked[0]]:.6g})"
    if len(ranked) > 1:
        behind = score[ranked[1]] - score[ranked[0]]
        other, number = ranked[1]
        text += f"; the next best, {number} {other}, is {behind:.3g} higher"
        text += " (strong evidence)" if behind > _STRONG else f" (less than {_STRONG:g}: weak evidence)"
    return text + _at_the_end(k, numbers) + "."


def _covariance_types(covariance_types: Sequence[str]) -> tuple[str, ...]:
    types = (covariance_types,) if isinstance(covariance_types, str) else tuple(covariance_types)
    known = estimated_types()
    if not types:
        raise InvalidParameter(
            f"choose_n_components: covariance_types is empty. Give one or more of {', '.join(known)}."
        )
    for name in types:
        check_parameters("choose_n_components", {"covariance_types": name}, {"covariance_types": (Choice(known),)})
    return tuple(dict.fromkeys(types))


# ---- the number of clusters of k-means -----------------------------------------------------------------------------


def choose_n_clusters(
    X: ArrayLike,
    candidates: Iterable[int] | None = None,
    *,
    criterion: str = "silhouette",
    sample_weight: ArrayLike | None = None,
    n_init: int = 3,
    n_references: int = 20,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> Selection:
    """Choose the number of clusters of k-means by the silhouette, the elbow of the inertia, or the gap statistic.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The points.
    candidates : iterable of int, default=None
        The numbers to try; None: 1…10 (2…10 for the silhouette, which has no meaning for one cluster).
    criterion : {"silhouette", "elbow", "gap"}, default="silhouette"
        "silhouette": the largest mean silhouette (Rousseeuw 1987). "elbow": the point of the inertia's curve that lies
        furthest below its chord. "gap": the smallest k whose gap is within one standard error of the next one's
        (Tibshirani, Walther & Hastie 2001), against uniform data in the box along the principal axes; the only one
        that can answer 1.
    sample_weight : array-like of shape (n_samples,), default=None
        A weight of w counts as w rows. Not for the gap, whose reference data has none.
    n_init : int, default=3
        Starts of each fit; the best is kept.
    n_references : int, default=20
        Reference data sets of the gap statistic.
    random_state : int, RandomState, Generator or None, default=None
        The seed of initialisations, samples and reference data.
    n_jobs : int or None, default=None
        Threads of each fit.

    Returns
    -------
    Selection
        `best`, `reason`, `curve` ("inertia" and what the criterion computes) and the fitted `model`.

    Examples
    --------
    >>> import numpy as np
    >>> from knoll import tuning
    >>> X = np.concatenate([np.arange(9.0), 100 + np.arange(9.0), 200 + np.arange(9.0)])[:, None]
    >>> choice = tuning.choose_n_clusters(X, range(2, 7), random_state=0)
    >>> choice.best
    3
    """
    check_parameters(
        "choose_n_clusters",
        {"criterion": criterion, "n_references": n_references},
        {"criterion": (Choice(("silhouette", "elbow", "gap")),), "n_references": (Number(2, whole=True),)},
    )
    _check_common("choose_n_clusters", n_init, random_state, n_jobs)
    if criterion == "gap" and sample_weight is not None:
        raise InvalidParameter(
            "choose_n_clusters: the gap statistic compares with unweighted reference data, so sample_weight has no "
            "meaning for it. Use criterion='silhouette' or 'elbow'."
        )
    points = check_points(X, n_jobs=n_jobs)
    weights = check_weights(sample_weight, len(points), owner="choose_n_clusters")
    _refuse_heavy("choose_n_clusters", weights)
    least = 2 if criterion == "silhouette" else 1
    numbers = _candidates(
        "choose_n_clusters", range(least, 11) if candidates is None else candidates, least, _counted(points, weights)
    )
    if criterion == "elbow" and len(numbers) < 3:
        raise InvalidParameter(f"choose_n_clusters: an elbow needs at least 3 candidates, got {numbers.tolist()}.")
    seed = draw_seed(random_state)
    original = Block(points, weights)
    counted, largest = without_absent(original, largest_of(points))
    weights = counted.weights
    scaling = Rescaling.fitting(largest, 1.0, [Block(counted.points, None)])  # squares of extreme data leave float64
    points = scaling.down(counted.points)
    models = [_kmeans(points, weights, int(k), n_init, seed, n_jobs) for k in numbers]
    inertia = np.array([model.inertia_ for model in models])
    match criterion:
        case "silhouette":
            at, curve, reason = _by_silhouette(points, weights, numbers, models, seed, n_jobs)
        case "elbow":
            at, curve, reason = _by_elbow(numbers, inertia)
        case _:
            at, curve, reason = _by_gap(points, numbers, inertia, n_init, n_references, seed, n_jobs)
    reason += _at_the_end(int(numbers[at]), numbers) + "."
    best = int(numbers[at])
    model = models[at] if points is original.points else _kmeans(*original, best, n_init, seed, n_jobs)
    curve = {"inertia": scaling.from_units(inertia, length=2), **curve}
    return Selection(best, criterion, numbers, curve, reason, model)


def _kmeans(points: NDArray[Any], weights: Floats | None, k: int, n_init: int, seed: int, n_jobs: int | None) -> Any:
    return KMeans(n_clusters=k, n_init=n_init, random_state=seed, n_jobs=n_jobs).fit(points, sample_weight=weights)


def _by_silhouette(
    points: NDArray[Any],
    weights: Floats | None,
    numbers: Ints,
    models: list[Any],
    seed: int,
    n_jobs: int | None,
) -> tuple[int, dict[str, Floats], str]:
    distinct = seeding.multiset(points, weights, resolve_threads(n_jobs))  # in an order that rows do not choose
    n = len(distinct.rows)
    rows, mass = distinct.rows, distinct.weights
    if n > _SCORED_ROWS:
        subset = np.sort(np.random.default_rng(seed).choice(n, _SCORED_ROWS, replace=False))
        rows, mass = rows[subset], mass[subset]
    means, errors = np.full(len(numbers), np.nan), np.zeros(len(numbers))
    for at, model in enumerate(models):
        labels = model.labels_[rows]
        sizes = np.bincount(labels, weights=mass)
        if np.count_nonzero(sizes) < 2:
            continue
        if sizes.max() <= 1:  # each row is alone in its cluster
            means[at] = 0.0
            continue
        values = silhouette_samples(points[rows], labels, sample_weight=mass, n_jobs=n_jobs)
        means[at] = np.average(values, weights=mass)
        if n > _SCORED_ROWS:
            share = mass / mass.sum()
            errors[at] = np.sqrt(np.sum(share * (values - means[at]) ** 2) * np.sum(share * share))
    if np.isnan(means).all():
        raise BadData(
            "choose_n_clusters: every fit has a single cluster: all rows are equal, or the weight of one exceeds "
            "all others."
        )
    at = int(np.nanargmax(means))
    reason = f"the mean silhouette is largest for {numbers[at]} clusters ({means[at]:.3f})"
    if means[at] < 0.25:
        reason += ", but it is below 0.25: the data shows no clear clusters of this shape"
    curve = {"silhouette": means}
    if n > _SCORED_ROWS:
        curve["standard_error"] = errors
        reason += f"; taken over a sample of {_SCORED_ROWS} of {n} distinct rows, standard error {errors[at]:.1g}"
    return at, curve, reason


def _by_elbow(numbers: Ints, inertia: Floats) -> tuple[int, dict[str, Floats], str]:
    """Take the point furthest below the chord between the curve's ends, both axes scaled to [0, 1]."""
    along = (numbers - numbers[0]) / (numbers[-1] - numbers[0])
    fall = inertia[0] - inertia[-1]
    height = (inertia - inertia[-1]) / fall if fall > 0 else 1.0 - along
    below = 1.0 - along - height
    at = int(np.argmax(below))
    reason = f"the inertia bends most at {numbers[at]} clusters, {below[at]:.2f} below the chord of its curve"
    if below[at] < _FLAT:
        reason += ", which is not significant: the curve supports no particular number"
    return at, {"below_chord": below}, reason


def _by_gap(
    points: NDArray[Any],
    numbers: Ints,
    inertia: Floats,
    n_init: int,
    n_references: int,
    seed: int,
    n_jobs: int | None,
) -> tuple[int, dict[str, Floats], str]:
    """Compare log W_k with that of uniform data in the box along the principal axes."""
    points = points[np.lexsort(points.T)]  # sums below must not depend on the order of rows
    center = points.mean(axis=0, dtype=np.float64)
    _, _, axes = np.linalg.svd(points - center, full_matrices=False)
    rotated = (points - center) @ axes.T
    low, high = rotated.min(axis=0), rotated.max(axis=0)
    rng = np.random.default_rng(seed)
    reference = np.empty((n_references, len(numbers)))
    smallest = np.finfo(np.float64).tiny  # W may be 0 where k reaches the number of distinct rows
    for b in range(n_references):
        uniform = rng.uniform(low, high, size=rotated.shape) @ axes + center
        uniform = uniform.astype(points.dtype, copy=False)
        for at, k in enumerate(numbers):
            fitted = _kmeans(uniform, None, int(k), n_init, seed, n_jobs)
            reference[b, at] = np.log(max(fitted.inertia_, smallest))
    gap = reference.mean(axis=0) - np.log(np.maximum(inertia, smallest))
    error = reference.std(axis=0) * np.sqrt(1 + 1 / n_references)
    at, reason = len(numbers) - 1, "no gap is within a standard error of the next one, so the last candidate was chosen"
    for i in range(len(numbers) - 1):
        if gap[i] >= gap[i + 1] - error[i + 1]:
            at = i
            reason = (
                f"{numbers[i]} is the smallest number of clusters whose gap ({gap[i]:.3f}) is within one standard "
                f"error of the next one's ({gap[i + 1]:.3f} ± {error[i + 1]:.3f})"
            )
            break
    return at, {"gap": gap, "standard_error": error}, reason


# ---- the number of clusters of spectral clustering -----------------------------------------------------------------


def eigengap(eigenvalues: ArrayLike, *, n_samples: int | None = None) -> Selection:
    """Choose the number of clusters of spectral clustering by the gap between eigenvalues.

    An eigenvalue λ of D^-½AD^-½ near one belongs to a set of points that a random walk hardly leaves: 1 − λ shows how
    easily. Such sets come first, then 1 − λ jumps. The jump is measured in log odds, log((1 − λ)/λ), so that clusters
    that are long and thin count like round ones; and against what one uniform cluster would show, where
    1 − λ_k grows as a power of k − 1 (docs/theory/04-kernels-and-spectral.md, eq. 4.28 to 4.30). The k with the largest
    excess is chosen, ties go to the smaller k; 1 where none exceeds log 2.5; the last where all eigenvalues are one.
    Outliers far from everything are sets that a walk hardly leaves, too, and are counted.

    Parameters
    ----------
    eigenvalues : array-like of shape (m,)
        The largest eigenvalues of D^-½AD^-½, at least two, in any order: candidates are 1, …, m − 1. About five to ten
        beyond the largest number in question are enough.
    n_samples : int, default=None
        The number of rows they come from: differences of about n·2⁻⁴⁹ are rounding. None: m.

    Returns
    -------
    Selection
        `best`, `reason`, and the `curve` with "eigengap", what was compared, "eigenvalue", λ_k, and "difference",
        λ_k − λ_{k+1}; no `model`.

    Examples
    --------
    >>> from knoll import tuning
    >>> choice = tuning.eigengap([1.0, 0.999, 0.998, 0.4, 0.37, 0.35, 0.3])
    >>> choice.best
    3
    """
    check_parameters("eigengap", {"n_samples": n_samples}, {"n_samples": (None, Number(1, whole=True))})
    refuse_masked(eigenvalues, "eigenvalues")
    try:
        values = np.sort(np.asarray(eigenvalues, dtype=np.float64).reshape(np.shape(eigenvalues)))[::-1]
    except (TypeError, ValueError):
        raise BadData(f"eigengap: eigenvalues must be numbers, got {eigenvalues!r:.60}.") from None
    if values.ndim != 1 or len(values) < 2:
        raise BadData(f"eigengap: eigenvalues must be at least two numbers in a row, got shape {values.shape}.")
    if not np.isfinite(values).all():
        position = int(np.flatnonzero(~np.isfinite(np.asarray(eigenvalues, dtype=np.float64)))[0])
        raise BadData(
            f"eigengap: the eigenvalue at position {position} is not finite. Solve for the eigenvalues again."
        )
    worst = float(values[0] if values[0] > 1 + 1e-6 else values[-1])
    if abs(worst) > 1 + 1e-6:
        raise BadData(
            f"eigengap: an eigenvalue is {worst:g}, and those of D^-½AD^-½ lie between -1 and 1. "
            "Divide the similarities by the roots of both degrees first."
        )
    gap = _eigengap(values, len(values) if n_samples is None else int(n_samples))
    curve = {"eigengap": gap.jumps, "eigenvalue": values[:-1].copy(), "difference": values[:-1] - values[1:]}
    numbers = np.arange(1, len(values), dtype=np.int64)
    return Selection(gap.best, "eigengap", numbers, curve, gap.reason + _at_the_end(gap.best, numbers) + ".", None)


# ---- validation ----------------------------------------------------------------------------------------------------


def _check_common(owner: str, n_init: int, random_state: Any, n_jobs: int | None) -> None:
    values = {"n_init": n_init, "random_state": random_state, "n_jobs": n_jobs}
    check_parameters(
        owner, values, {"n_init": (Number(1, whole=True),), "random_state": RANDOM_STATE, "n_jobs": N_JOBS}
    )


def _refuse_heavy(owner: str, weights: Floats | None) -> None:
    with np.errstate(over="ignore"):
        heavy = weights is not None and not np.isfinite(weights.sum())
    if heavy:
        raise BadData(f"{owner}: the sum of sample_weight leaves float64. Divide the weights by their largest.")


def _counted(points: NDArray[Any], weights: Floats | None) -> int:
    """Count the rows of weight > 0."""
    return len(points) if weights is None else int(np.count_nonzero(weights))


def _candidates(owner: str, candidates: Iterable[int], least: int, rows: int) -> Ints:
    """Return the numbers to try, in order and without those above the number of rows."""
    try:
        requested = list(candidates)
    except TypeError:
        raise InvalidParameter(
            f"{owner}: candidates must be whole numbers, got {candidates!r}. For one to ten: range(1, 11)."
        ) from None
    for k in requested:
        check_parameters(owner, {"candidates": k}, {"candidates": (Number(least, whole=True),)})
    numbers = np.unique(np.array([int(k) for k in requested if k <= rows], dtype=np.int64))
    if not len(numbers):
        raise InvalidParameter(
            f"{owner}: no candidate is left of {requested!r:.60} for {rows} row{'s' if rows != 1 else ''}. "
            f"Give numbers from {least} to the number of rows."
        )
    return numbers


def _at_the_end(k: int, numbers: Ints) -> str:
    if len(numbers) > 1 and k == numbers[-1]:
        return f"; {k} is the largest number tried, so try larger ones too"
    return ""
