"""Mixtures as evidence: how many Gaussians BIC asks for, whether they are a true picture, and which are clusters.

A mixture may fit anything if it has components enough, so three questions follow BIC's choice.

*Is it true?* Were the data drawn from the mixture, the mixture would predict unseen rows better than the kernel
estimate does, by an amount that draws from the mixture show. A mixture whose lead is much smaller is an
approximation: its components are pieces of something else.

*Do its parts come back?* Refits on the halves of the data part the rows alike where components are real, and not
where they tile something smooth.

*Which components are one cluster?* Those that are mistaken for each other (Hennig 2010: directly estimated
misclassification probabilities), or that share their centre, as a heavy-tailed cluster needs. Apart from that there
are valleys: the lowest density along the ridge between two components (Ray and Lindsay 2005), against the lower of
their tops.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from knoll._common.linalg import covariance_of, times
from knoll._typing import Floats, Ints
from knoll.comparison.density import (
    LEAST_ROWS,
    LEAST_SHARE,
    KernelEstimate,
    join_hills,
    kernel_estimate,
    squared_distances,
)
from knoll.comparison.result import Evidence
from knoll.gaussian.covariance import COVARIANCE_TYPES, estimated_types
from knoll.metrics import adjusted_rand_score
from knoll.mixture.estimator import GaussianMixture

__all__ = ["MixtureEvidence", "fit_mixtures", "weigh_mixture"]


_STARTS = 4
_GIVE_UP = 4  # numbers of components in a row that do not better BIC, after which a covariance type is left
_DRAWS = 4  # sets drawn from the mixture
_HALVINGS = 5
_MISTAKEN = 0.1  # share of a component's rows that fall to another: more, and the two are one cluster
_ALONG = 25  # places along a ridge
_DEEP = 1.5  # a valley this deep in log density, 4.5 times lower, needs no further witness
_SHALLOW = 0.3  # a ridge with less of a valley: the two components may be one
_TRUE = -2.0  # standard errors: below, the mixture is not a true picture
_ALIKE = 0.92  # adjusted Rand index of halves: almost wholly alike
_RATHER_ALIKE = 0.8


@dataclass(frozen=True)
class MixtureEvidence:
    """What a mixture says about the clusters in the data."""

    model: Any
    lead: float  # over the kernel estimate, in log-likelihood of unseen rows
    lead_error: float  # its standard error
    expected_lead: float  # were the mixture true
    halves: float | None  # agreement of refits on halves; None: not asked
    groups: tuple[int, ...]  # the cluster of each component
    labels: Ints  # (m,) the cluster of each row
    count: int  # of those clusters that hold a fiftieth of the rows
    trusted: bool  # whether components, or groups of them, may be called clusters without a deep valley
    reason: str

    @property
    def truth(self) -> float:
        """How far the lead falls short of what it would be, in standard errors."""
        return (self.lead - self.expected_lead) / self.lead_error


def fit_mixtures(
    points: Floats,
    numbers: tuple[int, ...],
    given: Mapping[str, Any],
    seed: int,
    n_jobs: int | None,
    tick: Callable[[float], None] = lambda share: None,
    *,
    single: bool = True,
) -> tuple[Any, Evidence]:
    """Fit mixtures of every covariance type and number of components; return the one of least BIC, and the curves.

    One component is tried, too, if `single`.
    """
    n, d = points.shape
    types = (given["covariance_type"],) if "covariance_type" in given else estimated_types()
    tried = (int(given["n_components"]),) if "n_components" in given else (1, *numbers) if single else numbers
    rest = {name: value for name, value in given.items() if name not in ("covariance_type", "n_components")}
    curve = {name: np.full(len(tried), np.nan) for name in types}
    fits: list[tuple[float, Any]] = []
    collapsed: list[tuple[float, Any]] = []  # taken where there is nothing else
    for number, name in enumerate(types):
        best, worse = np.inf, 0
        for at, k in enumerate(tried):
            tick((number + at / len(tried)) / len(types))
            if at > 0 and (k * (d + 1) > n / 2 if COVARIANCE_TYPES[name].own_matrices else k > n / 4):
                break  # fewer than two rows for each direction of a component: nothing to estimate it from
            settings = {"n_init": _STARTS if k > 1 else 1, "random_state": seed, "n_jobs": n_jobs}
            model = GaussianMixture(n_components=k, covariance_type=name, **(settings | rest)).fit(points)
            curve[name][at] = bic = float(model.bic(points))
            poor = k > 1 and len(tried) > 1 and _collapsed(model, d)
            (collapsed if poor else fits).append((bic, model))
            best, worse = min(best, bic), 0 if bic < best else worse + 1
            if worse >= _GIVE_UP:
                break
    fits = fits or collapsed
    bic, model = min(fits, key=lambda pair: pair[0])
    if len(tried) > 1:
        with contextlib.suppress(np.linalg.LinAlgError):  # of extreme numbers: then the fit stays as it is
            bic, model = _join_where_better(points, bic, model, tried)
        at = tried.index(model.n_components) if model.n_components in tried else -1
        curve[model.covariance_type][at] = min(bic, curve[model.covariance_type][at])
    k, name = int(model.n_components), model.covariance_type
    reason = f"BIC is smallest for {k} {name} component{'s' if k > 1 else ''} ({bic:.6g})"
    others = [value for value, other in fits if (other.n_components, other.covariance_type) != (k, name)]
    if others:
        reason += f"; the next best is {min(others) - bic:.3g} higher"
    if k == max(tried) and len(tried) > 1:
        reason += f"; {k} is the largest number tried"
    shown = {label: values for label, values in curve.items() if not np.isnan(values).all()}
    x = np.array(tried, dtype=np.float64)
    return model, Evidence("BIC", "n_components", x, shown, float(k), reason + ".", "components", "BIC")


def _collapsed(model: Any, d: int) -> bool:
    """Say whether a component with a shape of its own has too few rows for one: its likelihood means nothing."""
    sizes = np.bincount(model.labels_[model.labels_ >= 0], minlength=int(model.n_components))
    return bool(COVARIANCE_TYPES[model.covariance_type].own_shapes and sizes.min() < d + 2)


def _join_where_better(points: Floats, bic: float, model: Any, tried: tuple[int, ...]) -> tuple[float, Any]:
    """Join two components that no valley parts, begin EM there, and keep that where BIC falls."""
    joined = True
    while joined and model.n_components - 1 in tried:
        joined = False
        tops, depth = _passes(model)
        near = [(depth[a, b], a, b) for a in range(len(tops)) for b in range(a) if depth[a, b] < _SHALLOW]
        for _, a, b in sorted(near)[:5]:
            groups = np.arange(len(tops))
            groups[groups == a] = b
            groups = np.unique(groups, return_inverse=True)[1]
            other = _begin_at(points, groups[model.labels_], model, len(tops) - 1)
            if other is not None and other.bic(points) < bic and not _collapsed(other, points.shape[1]):
                bic, model, joined = float(other.bic(points)), other, True
                break
    return bic, model


def _begin_at(points: Floats, labels: Ints, model: Any, k: int) -> Any:
    """Begin EM at the moments of a partition, with one component a cluster; None where a cluster is too small."""
    sizes = np.bincount(labels, minlength=k)
    d = points.shape[1]
    if sizes.min() < d + 2:
        return None
    means = np.array([points[labels == c].mean(axis=0) for c in range(k)])
    scatter = [covariance_of(points[labels == c]) + 1e-6 * np.eye(d) for c in range(k)]
    precisions = COVARIANCE_TYPES[model.covariance_type].precisions_of(scatter, sizes)
    begun = {"means_init": means, "weights_init": sizes / sizes.sum(), "precisions_init": precisions, "n_init": 1}
    return GaussianMixture(**(model.get_params() | {"n_components": k} | begun)).fit(points)


# ---- the three questions -------------------------------------------------------------------------------------------


def weigh_mixture(points: Floats, model: Any, kernel: KernelEstimate, seed: int) -> MixtureEvidence:
    """Ask whether the mixture is a true picture of the rows, and which of its components are clusters."""
    m, d = points.shape
    k = int(model.n_components)
    own = model.score_samples(points)
    free = _free(model, d)
    lead = float(own.sum() - free - kernel.log_density.sum())  # less the optimism of fitted parameters (Akaike)
    error = math.sqrt(m) * float((own - kernel.log_density).std()) * math.sqrt(1 + 1 / _DRAWS)
    expected = float(np.mean([_lead_if_true(model, m, d, free, kernel.k, seed + draw) for draw in range(_DRAWS)]))
    error = max(error, 1e-12)
    true = (lead - expected) / error > _TRUE
    halves = None
    fine, coarse = _parted(model, points), _by_valleys(model, _DEEP)
    trusted = False
    if k == 1:
        reason = "one Gaussian is enough"
    elif not true:
        reason = (
            f"{k} Gaussians are an approximation: their lead over a kernel estimate is {lead:.0f} in log-likelihood, "
            f"and would be {expected:.0f} ± {error:.0f} if they were the truth"
        )
    else:
        halves = _agreement_of_halves(points, model, seed)
        trusted = halves >= _ALIKE or (halves >= _RATHER_ALIKE and lead > error)
        refits = "agree" if trusted else "do not agree enough"
        reason = (
            f"the data is consistent with a mixture of {k} Gaussians (their lead over a kernel estimate is {lead:.0f}, "
            f"{expected:.0f} ± {error:.0f} expected), and refits on halves of the rows {refits} "
            f"(adjusted Rand index {halves:.2f})"
        )
    groups = fine if trusted else coarse if true else np.zeros(k, np.int64)
    labels = np.where(model.labels_ < 0, -1, groups[np.maximum(model.labels_, 0)])
    sizes = np.bincount(labels[labels >= 0], minlength=1)
    count = max(1, int((sizes >= max(LEAST_ROWS, LEAST_SHARE * m)).sum()))  # a few outliers are no cluster
    return MixtureEvidence(
        model, lead, error, expected, halves, tuple(int(g) for g in groups), labels, count, trusted, reason
    )  # fmt: skip


def _lead_if_true(model: Any, m: int, d: int, free: float, k: int, seed: int) -> float:
    """Draw m rows from the mixture, and return its lead over a kernel estimate there."""
    drawn = _draw(model, m, np.random.default_rng([seed, 7]))
    near = tuple(sorted({max(5, k // 2), k, 2 * k}))
    kernel = kernel_estimate(squared_distances(drawn), d, near)
    # the parameters were not fitted to these rows: fitted ones would be better by free/2 on average
    return float(model.score_samples(drawn).sum() - free / 2 - kernel.log_density.sum())


def _draw(model: Any, m: int, rng: np.random.Generator) -> Floats:
    share = np.asarray(model.weights_, dtype=np.float64)
    counts = rng.multinomial(m, share / share.sum())
    d = model.means_.shape[1]
    parts = []
    for mean, precision, count in zip(model.means_, _precisions(model), counts, strict=True):
        lower: Any = np.linalg.cholesky(np.linalg.inv(precision) + 1e-12 * np.eye(d))
        parts.append(mean + times(rng.normal(size=(count, d)), lower.T))
    return np.concatenate(parts)


def _agreement_of_halves(points: Floats, model: Any, seed: int) -> float:
    """Refit on both halves of the rows, begun anew, and compare how their clusters part all rows; the mean of some."""
    m = len(points)
    settings = model.get_params() | {
        "n_init": _STARTS, "means_init": None, "weights_init": None, "precisions_init": None,
    }  # fmt: skip
    found = []
    for halving in range(_HALVINGS):
        order = np.random.default_rng([seed, 11, halving]).permutation(m)
        labels = []
        for part in (np.sort(order[: m // 2]), np.sort(order[m // 2 :])):
            refit = GaussianMixture(**settings).fit(points[part])
            labels.append(_parted(refit, points)[refit.predict(points)])
        found.append(adjusted_rand_score(labels[0], labels[1]))
    return float(np.mean(found))


# ---- which components are one cluster ------------------------------------------------------------------------------


def _parted(model: Any, points: Floats) -> Ints:
    """Join components that share their centre, then those most mistaken for each other; the cluster of each component.

    After each step clusters are seen as they have become: a thin bridge joins one of the two it leads to, not both.
    """
    k = int(model.n_components)
    groups = _concentric(model)
    chances = np.asarray(model.predict_proba(points), dtype=np.float64)[:, :k]  # (m, k)
    while groups.max() > 0:
        count = int(groups.max()) + 1
        shares = np.zeros((len(points), count))
        for component, group in enumerate(groups):
            shares[:, group] += chances[:, component]
        own = shares.argmax(axis=1)
        falls = np.array([shares[own == b].sum(axis=0) for b in range(count)]).T  # (count, count) of a, falls to b
        falls /= np.maximum(shares.sum(axis=0)[:, None], 1e-300)
        np.fill_diagonal(falls, 0)
        a, b = np.unravel_index(int(np.argmax(falls)), falls.shape)
        if falls[a, b] <= _MISTAKEN:
            break
        groups[groups == a] = b
        groups = np.unique(groups, return_inverse=True)[1]
    return groups.astype(np.int64)


def _concentric(model: Any) -> Ints:
    """Join components whose means lie less than one deviation of the narrower one apart: one centre, heavy tails."""
    k = int(model.n_components)
    groups = np.arange(k)
    precisions = _precisions(model)
    narrow = np.array([np.linalg.slogdet(p)[1] for p in precisions])
    for a in range(k):
        for b in range(a):
            step = model.means_[a] - model.means_[b]
            if step @ precisions[a if narrow[a] > narrow[b] else b] @ step < 1.0:
                groups[groups == groups[a]] = groups[b]
    return np.unique(groups, return_inverse=True)[1].astype(np.int64)


def _by_valleys(model: Any, deep: float) -> Ints:
    """Join components that no deep valley parts."""
    k = int(model.n_components)
    if k == 1:
        return np.zeros(1, np.int64)
    tops, depth = _passes(model)
    pairs = np.array([(a, b) for a in range(k) for b in range(a)])
    height = np.array([min(tops[a], tops[b]) - depth[a, b] for a, b in pairs])
    weights = np.asarray(model.weights_, dtype=np.float64)
    return join_hills(tops, pairs, height, weights, LEAST_SHARE, lambda thin: deep, np.zeros(k))[0]


def _passes(model: Any) -> tuple[Floats, Floats]:
    """Return log f at the means (k,), and how far it falls along the ridge of each pair below the lower of them."""
    k = int(model.n_components)
    tops = model.score_samples(model.means_)
    precisions = _precisions(model)
    depth = np.zeros((k, k))
    for a in range(k):
        for b in range(a):
            ridge = _ridge(model.means_[a], model.means_[b], precisions[a], precisions[b])
            low = float(model.score_samples(ridge).min())
            depth[a, b] = depth[b, a] = max(0.0, min(tops[a], tops[b]) - low)
    return tops, depth


def _ridge(mean_a: Floats, mean_b: Floats, prec_a: Floats, prec_b: Floats) -> Floats:
    """Walk the ridge: x(t) maximises (1−t) log N_a + t log N_b, and all tops and passes of the pair lie on it."""
    t = np.linspace(0, 1, _ALONG)[:, None, None]
    matrix = (1 - t) * prec_a + t * prec_b  # (along, d, d)
    right = (1 - t[:, :, 0]) * (prec_a @ mean_a) + t[:, :, 0] * (prec_b @ mean_b)
    return np.asarray(np.linalg.solve(matrix, right[:, :, None])[:, :, 0], dtype=np.float64)


def _precisions(model: Any) -> Floats:
    """Return the inverse covariances as (k, d, d), whatever their type."""
    k, d = model.means_.shape
    precisions = np.asarray(model.precisions_, dtype=np.float64)
    return COVARIANCE_TYPES[model.covariance_type_].as_matrices(precisions, k, d)


def _free(model: Any, d: int) -> float:
    """Count the free parameters."""
    k = int(model.n_components)
    return float(COVARIANCE_TYPES[model.covariance_type_].n_parameters(k, d) + k * d + k - 1)
