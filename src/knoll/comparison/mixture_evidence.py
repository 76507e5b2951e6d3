"""Mixtures as evidence: the number of Gaussians by BIC, goodness of fit, stability, and which components are clusters.

With enough components a mixture approximates any density, so three questions follow BIC's choice.

*Goodness of fit.* If the data came from the mixture, it would predict unseen rows better than the kernel density
estimate does. Samples from the mixture show by how much. A mixture whose lead is much smaller is misspecified: its
components approximate something else.

*Stability.* Refits on halves of the data agree where components are real, and not where they tile a smooth density.

*Which components form one cluster?* Those with a large directly estimated misclassification probability (Hennig 2010),
and those that share their centre, as a heavy-tailed cluster needs. Otherwise density drops decide: the smallest
density along the ridgeline between two components (Ray and Lindsay 2005), relative to the lower of their peaks.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from knoll import tuning
from knoll._common.linalg import covariance_of, times
from knoll._typing import Floats, Ints
from knoll.comparison.density_modes import (
    MIN_ROWS,
    MIN_SHARE,
    KernelEstimate,
    kernel_estimate,
    merge_modes,
    squared_distances,
)
from knoll.comparison.result import Evidence
from knoll.gaussian.covariance import COVARIANCE_TYPES, estimated_types
from knoll.metrics import adjusted_rand_score
from knoll.mixture.estimator import GaussianMixture

_N_INIT = 4
_PATIENCE = 4  # consecutive numbers of components without a smaller BIC, after which a covariance type is abandoned
_DRAWS = 4  # samples from the mixture
_SPLITS = 5
_MISCLASSIFIED = 0.1  # share of a component's rows assigned to another: above it the two are one cluster
_RIDGE_POINTS = 25
_DEEP = 1.5  # a drop this large in log density, to 1/4.5 of the peak, separates clusters on its own
_SHALLOW = 0.3  # components with a smaller drop between them are tried as one
_WELL_SPECIFIED = -2.0  # standard errors: a smaller lead means a misspecified mixture
_VERY_STABLE = 0.92  # adjusted Rand index of refits on halves
_STABLE = 0.8


@dataclass(frozen=True)
class MixtureEvidence:
    """What a mixture shows about the clusters in the data."""

    lead: float  # over the kernel density estimate, in log-likelihood of unseen rows
    lead_error: float  # its standard error
    expected_lead: float  # for data from the mixture
    halves: float | None  # agreement of refits on halves; None: not computed
    groups: tuple[int, ...]  # the cluster of each component
    labels: Ints  # (m,) the cluster of each row
    count: int  # clusters with at least 2 % of the rows
    trusted: bool  # whether groups of components count as clusters without a deep density drop
    reason: str

    @property
    def goodness_of_fit(self) -> float:
        """The difference of the lead and its expectation, in standard errors."""
        return (self.lead - self.expected_lead) / self.lead_error


def fit_mixtures(
    points: Floats,
    numbers: tuple[int, ...],
    overrides: Mapping[str, Any],
    seed: int,
    n_jobs: int | None,
    progress: Callable[[float], None] = lambda share: None,
    *,
    single: bool = True,
) -> tuple[Any, Evidence]:
    """Fit mixtures of every covariance type and number of components; return the smallest BIC's, and the curves.

    `overrides` are parameters set by the user; one component is tried, too, if `single`. Unlike
    `tuning.choose_n_components` it gives up a covariance type early, leaves degenerate fits out, and merges components.
    """
    n, d = points.shape
    others = dict(overrides)
    types = (others.pop("covariance_type"),) if "covariance_type" in others else estimated_types()
    tried = (1, *numbers) if single else numbers
    if "n_components" in others:
        tried = (int(others.pop("n_components")),)
    curve = {name: np.full(len(tried), np.nan) for name in types}
    fits: list[tuple[float, Any]] = []
    collapsed: list[tuple[float, Any]] = []  # used if there are no others
    for number, name in enumerate(types):
        best, worse = np.inf, 0
        for at, k in enumerate(tried):
            progress((number + at / len(tried)) / len(types))
            if at > 0 and (k * (d + 1) > n / 2 if COVARIANCE_TYPES[name].own_matrices else k > n / 4):
                break  # fewer than two rows per parameter direction of a component
            settings = {"n_init": _N_INIT if k > 1 else 1, "random_state": seed, "n_jobs": n_jobs}
            model = GaussianMixture(n_components=k, covariance_type=name, **(settings | others)).fit(points)
            curve[name][at] = bic = float(model.bic(points))
            degenerate = k > 1 and len(tried) > 1 and _collapsed(model, d)
            (collapsed if degenerate else fits).append((bic, model))
            best, worse = min(best, bic), 0 if bic < best else worse + 1
            if worse >= _PATIENCE:
                break
    fits = fits or collapsed
    bic, model = min(fits, key=lambda pair: pair[0])
    if len(tried) > 1:
        with contextlib.suppress(np.linalg.LinAlgError):  # extreme data: the fit is kept
            bic, model = _merge_where_better(points, bic, model, tried)
        curve[model.covariance_type][tried.index(int(model.n_components))] = bic
    score = {(other.covariance_type, int(other.n_components)): value for value, other in fits}
    score[model.covariance_type, int(model.n_components)] = bic
    reason = tuning._by_criterion("bic", sorted(score, key=lambda pair: score[pair]), score, np.array(tried))
    shown = {label: values for label, values in curve.items() if not np.isnan(values).all()}
    x, chosen = np.array(tried, dtype=np.float64), float(model.n_components)
    return model, Evidence("BIC", "n_components", x, shown, chosen, reason, "components", "BIC")


def _collapsed(model: Any, d: int) -> bool:
    """Whether a component with its own shape has too few rows for it, so that its likelihood is meaningless."""
    sizes = np.bincount(model.labels_[model.labels_ >= 0], minlength=int(model.n_components))
    return bool(COVARIANCE_TYPES[model.covariance_type].own_shapes and sizes.min() < d + 2)


def _merge_where_better(points: Floats, bic: float, model: Any, tried: tuple[int, ...]) -> tuple[float, Any]:
    """Merge pairs of components without a density drop between them, as long as EM from there reduces BIC."""
    merged = True
    while merged and model.n_components - 1 in tried:
        merged = False
        peaks, drop = _saddles(model)
        near = [(drop[a, b], a, b) for a in range(len(peaks)) for b in range(a) if drop[a, b] < _SHALLOW]
        for _, a, b in sorted(near)[:5]:
            groups = np.arange(len(peaks))
            groups[groups == a] = b
            groups = np.unique(groups, return_inverse=True)[1]
            other = _fit_from(points, groups[model.labels_], model, len(peaks) - 1)
            if other is not None and other.bic(points) < bic and not _collapsed(other, points.shape[1]):
                bic, model, merged = float(other.bic(points)), other, True
                break
    return bic, model


def _fit_from(points: Floats, labels: Ints, model: Any, k: int) -> Any:
    """Run EM from the moments of a partition, one component per cluster; None where a cluster is too small."""
    sizes = np.bincount(labels, minlength=k)
    d = points.shape[1]
    if sizes.min() < d + 2:
        return None
    means = np.array([points[labels == c].mean(axis=0) for c in range(k)])
    scatter = [covariance_of(points[labels == c]) + 1e-6 * np.eye(d) for c in range(k)]
    precisions = COVARIANCE_TYPES[model.covariance_type].precisions_of(scatter, sizes)
    init = {"means_init": means, "weights_init": sizes / sizes.sum(), "precisions_init": precisions, "n_init": 1}
    return GaussianMixture(**(model.get_params() | {"n_components": k} | init)).fit(points)


# ---- goodness of fit and stability ---------------------------------------------------------------------------------


def assess_mixture(points: Floats, model: Any, kernel: KernelEstimate, seed: int) -> MixtureEvidence:
    """Test the goodness of fit and the stability of the mixture, and find which of its components are clusters."""
    m, d = points.shape
    k = int(model.n_components)
    own = model.score_samples(points)
    n_parameters = _n_parameters(model, d)
    lead = float(own.sum() - n_parameters - kernel.log_density.sum())  # corrected for optimism (Akaike)
    error = math.sqrt(m) * float((own - kernel.log_density).std()) * math.sqrt(1 + 1 / _DRAWS)
    expected = float(np.mean([_expected_lead(model, m, n_parameters, kernel.k, seed + draw) for draw in range(_DRAWS)]))
    error = max(error, 1e-12)
    well_specified = (lead - expected) / error > _WELL_SPECIFIED
    halves, trusted = None, False
    if k == 1:
        reason = "one Gaussian is enough"
    elif not well_specified:
        reason = (
            f"a mixture of {k} Gaussians is only an approximation: its log-likelihood exceeds that of a kernel density "
            f"estimate by {lead:.0f}, and by {expected:.0f} ± {error:.0f} in data from the mixture"
        )
    else:
        halves = _agreement_of_halves(points, model, seed)
        trusted = halves >= _VERY_STABLE or (halves >= _STABLE and lead > error)
        refits = "agree" if trusted else "do not agree enough"
        reason = (
            f"the data is consistent with a mixture of {k} Gaussians (log-likelihood {lead:.0f} above a kernel density "
            f"estimate, {expected:.0f} ± {error:.0f} expected), and refits on halves of the rows {refits} "
            f"(adjusted Rand index {halves:.2f})"
        )
    if trusted:
        groups = _merged_components(model, points)
    else:
        groups = _by_density_drops(model, _DEEP) if well_specified else np.zeros(k, np.int64)
    labels = np.where(model.labels_ < 0, -1, groups[np.maximum(model.labels_, 0)])
    sizes = np.bincount(labels[labels >= 0], minlength=1)
    count = max(1, int((sizes >= max(MIN_ROWS, MIN_SHARE * m)).sum()))  # a few outliers are not a cluster
    return MixtureEvidence(
        lead, error, expected, halves, tuple(int(g) for g in groups), labels, count, trusted, reason
    )  # fmt: skip


def _expected_lead(model: Any, m: int, n_parameters: float, k: int, seed: int) -> float:
    """Sample m rows from the mixture, and return its lead over a kernel density estimate there."""
    drawn = _draw(model, m, np.random.default_rng([seed, 7]))
    near = tuple(sorted({max(5, k // 2), k, 2 * k}))
    kernel = kernel_estimate(squared_distances(drawn), drawn.shape[1], near)
    # the parameters were not fitted to these rows: fitted ones would gain n_parameters/2 on average
    return float(model.score_samples(drawn).sum() - n_parameters / 2 - kernel.log_density.sum())


def _draw(model: Any, m: int, rng: np.random.Generator) -> Floats:
    share = np.asarray(model.weights_, dtype=np.float64)
    counts = rng.multinomial(m, share / share.sum())
    d = model.means_.shape[1]
    samples = []
    for mean, precision, count in zip(model.means_, _precisions(model), counts, strict=True):
        lower: Any = np.linalg.cholesky(np.linalg.inv(precision) + 1e-12 * np.eye(d))
        samples.append(mean + times(rng.normal(size=(count, d)), lower.T))
    return np.concatenate(samples)


def _agreement_of_halves(points: Floats, model: Any, seed: int) -> float:
    """Refit on both halves of the rows; return the mean adjusted Rand index of their clusters over random splits."""
    m = len(points)
    settings = model.get_params() | {
        "n_init": _N_INIT, "means_init": None, "weights_init": None, "precisions_init": None,
    }  # fmt: skip
    found = []
    for split in range(_SPLITS):
        order = np.random.default_rng([seed, 11, split]).permutation(m)
        labels = []
        for half in (np.sort(order[: m // 2]), np.sort(order[m // 2 :])):
            refit = GaussianMixture(**settings).fit(points[half])
            labels.append(_merged_components(refit, points)[refit.predict(points)])
        found.append(adjusted_rand_score(labels[0], labels[1]))
    return float(np.mean(found))


# ---- which components are one cluster ------------------------------------------------------------------------------


def _merged_components(model: Any, points: Floats) -> Ints:
    """Merge concentric components, then those most often confused; return the cluster of each component.

    Probabilities are recomputed after each merge: a small component between two clusters joins one, not both.
    """
    k = int(model.n_components)
    groups = _concentric(model)
    probabilities = np.asarray(model.predict_proba(points), dtype=np.float64)[:, :k]  # (m, k)
    while groups.max() > 0:
        count = int(groups.max()) + 1
        shares = np.zeros((len(points), count))
        for component, group in enumerate(groups):
            shares[:, group] += probabilities[:, component]
        own = shares.argmax(axis=1)
        confusion = np.array([shares[own == b].sum(axis=0) for b in range(count)]).T  # [a, b]: of a, assigned to b
        confusion /= np.maximum(shares.sum(axis=0)[:, None], 1e-300)
        np.fill_diagonal(confusion, 0)
        a, b = np.unravel_index(int(np.argmax(confusion)), confusion.shape)
        if confusion[a, b] <= _MISCLASSIFIED:
            break
        groups[groups == a] = b
        groups = np.unique(groups, return_inverse=True)[1]
    return groups.astype(np.int64)


def _concentric(model: Any) -> Ints:
    """Merge components whose means differ by less than a standard deviation of the narrower one: heavy tails."""
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


def _by_density_drops(model: Any, deep: float) -> Ints:
    """Merge components without a deep density drop between them."""
    k = int(model.n_components)
    if k == 1:
        return np.zeros(1, np.int64)
    peaks, drop = _saddles(model)
    pairs = np.array([(a, b) for a in range(k) for b in range(a)])
    height = np.array([min(peaks[a], peaks[b]) - drop[a, b] for a, b in pairs])
    weights = np.asarray(model.weights_, dtype=np.float64)
    return merge_modes(peaks, pairs, height, weights, MIN_SHARE, lambda _: deep, np.zeros(k))[0]


def _saddles(model: Any) -> tuple[Floats, Floats]:
    """Return log f at the means, (k,), and its drop along the ridgeline of each pair below the lower mean, (k, k)."""
    k = int(model.n_components)
    peaks = model.score_samples(model.means_)
    precisions = _precisions(model)
    drop = np.zeros((k, k))
    for a in range(k):
        for b in range(a):
            ridge = _ridge(model.means_[a], model.means_[b], precisions[a], precisions[b])
            low = float(model.score_samples(ridge).min())
            drop[a, b] = drop[b, a] = max(0.0, min(peaks[a], peaks[b]) - low)
    return peaks, drop


def _ridge(mean_a: Floats, mean_b: Floats, prec_a: Floats, prec_b: Floats) -> Floats:
    """Compute the ridgeline: x(t) maximises (1−t) log N_a + t log N_b; all modes and saddles of the pair lie on it."""
    t = np.linspace(0, 1, _RIDGE_POINTS)[:, None, None]
    matrix = (1 - t) * prec_a + t * prec_b  # (along, d, d)
    right = (1 - t[:, :, 0]) * (prec_a @ mean_a) + t[:, :, 0] * (prec_b @ mean_b)
    return np.asarray(np.linalg.solve(matrix, right[:, :, None])[:, :, 0], dtype=np.float64)


def _precisions(model: Any) -> Floats:
    """Return the inverse covariances as (k, d, d), whatever their type."""
    k, d = model.means_.shape
    precisions = np.asarray(model.precisions_, dtype=np.float64)
    return COVARIANCE_TYPES[model.covariance_type_].as_matrices(precisions, k, d)


def _n_parameters(model: Any, d: int) -> float:
    """Count the free parameters of the mixture."""
    k = int(model.n_components)
    return float(COVARIANCE_TYPES[model.covariance_type_].n_parameters(k, d) + k * d + k - 1)
