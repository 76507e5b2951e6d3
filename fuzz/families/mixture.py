"""GaussianMixture: log densities by Decimal, the likelihood that never falls, scikit-learn from the same start."""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from sklearn.mixture import GaussianMixture as Peer

import knoll
from fuzz.case import Case, Family, Refusal, Rng
from fuzz.exact import DECIMAL, decimals
from fuzz.laws import (
    differs,
    exact_powers,
    exponent_range,
    finite,
    integer_weights,
    permuted,
    predict_is_labels,
    quiet,
    repeated,
    same_bits_of_any_form,
    same_bits_of_any_threads,
    survives_clone,
    survives_pickle,
    survives_saving,
)
from fuzz.tables import Table
from knoll.gaussian.covariance import COVARIANCE_TYPES

ANSWERS = ("weights_", "means_", "covariances_", "precisions_cholesky_", "labels_", "lower_bound_", "n_iter_")
_SHARES = {"full": 0.35, "tied": 0.2, "diag": 0.2, "spherical": 0.15}  # of the cases; each other type is as rare:
_RARE = 0.1


def parameters(rng: Rng, table: Table) -> dict[str, Any]:
    """Draw parameters; a quarter of the starts are given."""
    X = table.X.astype(np.float64)
    n = len(X)
    k = int(rng.integers(1, min(n, 5) + 1))
    shares = np.array([_SHARES.get(name, _RARE) for name in COVARIANCE_TYPES])
    shape = str(rng.choice(list(COVARIANCE_TYPES), p=shares / shares.sum()))
    drawn: dict[str, Any] = {
        "n_components": k,
        "covariance_type": shape,
        "reg_covar": float(rng.choice([1e-6, 1e-6, 0.0, 1e-3, 10.0 ** rng.uniform(-300, 100)])),
        "max_iter": int(rng.choice([0, 1, 3, 10, 40])),
        "tol": float(rng.choice([1e-3, 1e-3, 0.0])),
        "random_state": int(rng.integers(1000)),
        "init_params": str(rng.choice(["kmeans", "k-means++", "random", "random_from_data"])),
        "n_jobs": 1,
    }
    if rng.random() < 0.2:
        drawn["noise"] = True
    if COVARIANCE_TYPES[shape].free_type is not None:  # its variance is held, so it must be given
        with np.errstate(all="ignore"):
            variance = float(X.var())
        drawn["fixed_variance"] = variance if 0 < variance < np.inf else 1.0
    elif rng.random() < 0.25:
        drawn |= _explicit_start(rng, X, k, shape)
    return drawn


def _explicit_start(rng: Rng, X: Any, k: int, shape: str) -> dict[str, Any]:
    d = X.shape[1]
    with np.errstate(all="ignore"):
        variances = X.var(axis=0)
        precisions = np.where((variances > 0) & (1 / variances < 1e300), 1 / variances, 1.0)
    if not np.isfinite(precisions).all():
        precisions = np.ones(d)
    sides = COVARIANCE_TYPES[shape].sides.split()
    one: Any = np.diag(precisions) if sides.count("d") == 2 else precisions if "d" in sides else precisions.min()
    precisions_init = np.broadcast_to(one, COVARIANCE_TYPES[shape].shape_of(k, d)).copy()
    return {
        "weights_init": np.full(k, 1 / k),
        "means_init": X[rng.choice(len(X), k, replace=False)],
        "precisions_init": precisions_init,
    }


def factors_are_finite(case: Case, model: Any) -> str | None:
    """The factors that the methods read are numbers; those of extreme data are the scaled ones."""
    name = "scaled_precisions_cholesky_" if hasattr(model, "column_exponents_") else "precisions_cholesky_"
    return None if np.isfinite(getattr(model, name)).all() else f"{name} is not finite"


# ---- exact oracle --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Units:
    """The parameters that a model computes with, for columns divided by 2^exponents; mostly by 1."""

    exponents: list[int]
    means: Any  # (k, d)
    factors: Any

    @classmethod
    def of(cls, model: Any) -> _Units:
        d = model.means_.shape[1]
        if not hasattr(model, "column_exponents_"):
            return cls([0] * d, model.means_.astype(np.float64), model.precisions_cholesky_.astype(np.float64))
        return cls(model.column_exponents_.tolist(), model.scaled_means_, model.scaled_precisions_cholesky_)

    def down(self, row: list[float]) -> list[Decimal]:
        """Divide exactly where float64 holds the quotient: sixty digits may not."""
        pairs = [(x, math.ldexp(x, -e), e) for x, e in zip(row, self.exponents)]
        return [Decimal(y) if math.ldexp(y, e) == x else Decimal(x) / Decimal(2) ** e for x, y, e in pairs]


def log_densities_are_exact(case: Case, model: Any) -> str | None:
    """score_samples is log Σ_c π_c N(x | μ_c, Σ_c) of the model's own parameters, by sixty digits.

    The parameters of extreme data are the scaled ones. x and μ_c are taken about the mean of the model, which costs
    roundings of the largest distance to it; those are allowed up to one per cent of the answer.
    """
    if model.noise_log_density_ == math.inf:
        return None
    sample = np.flatnonzero(case.present)[:6]
    found = model.score_samples(case.input())[sample]
    units = _Units.of(model)
    with decimal.localcontext(DECIMAL):
        widest = _widest(case, units)
        volume = sum(units.exponents) * Decimal(2).ln()
        for value, row in zip(found.tolist(), case.X[sample].astype(np.float64).tolist()):
            scaled = units.down(row)
            if max(abs(x) for x in scaled) > Decimal(2) ** 500 and any(units.exponents):
                continue  # a row of negligible weight, far out beside those that the units are made for
            exact, doubt = _log_density(model, units, scaled, widest)
            exact -= volume
            if exact < -(Decimal(2) ** 1009):
                continue  # squared distances from 2^1010 on count as that: the density is 0 in float64 either way
            if found.dtype == np.float32 and exact < -Decimal(float(np.finfo(np.float32).max)):
                continue  # answers are of the dtype of the rows, and its largest number then
            digits = Decimal("1e-5") if found.dtype == np.float32 else Decimal("1e-10")
            slack = digits * (1 + abs(exact)) + min(doubt, (1 + abs(exact)) / 100)
            if not math.isfinite(value) or abs(Decimal(value) - exact) > slack:
                return f"score_samples is {value!r}, exactly {float(exact)!r}"
    return None


def _widest(case: Case, units: _Units) -> Decimal:
    """Return the widest distance, in any column, of the means and of the rows of the fit, in the model's units."""
    rows = case.X[case.present].astype(np.float64)
    ends = [units.down(rows.min(axis=0).tolist()), units.down(rows.max(axis=0).tolist())]
    ends += [decimals(units.means.min(axis=0).tolist()), decimals(units.means.max(axis=0).tolist())]
    return max(max(column) - min(column) for column in zip(*ends))


def _log_density(model: Any, units: _Units, row: list[Decimal], widest: Decimal) -> tuple[Decimal, Decimal]:
    """Return the exact logarithm of the density in the model's units, and how much of it rounding may cost."""
    d = len(row)
    tau = Decimal(d) / 2 * (2 * Decimal("3.14159265358979323846264338327950288419716939937510582097494")).ln()
    terms: list[tuple[Decimal, Decimal]] = []
    for c, weight in enumerate(model.weights_.astype(np.float64).tolist()):
        if weight == 0:
            continue
        about = [x - m for x, m in zip(row, decimals(units.means[c].tolist()))]
        square, log_det, steep = _whitened(model, units, c, about)
        blur = steep * widest * d * Decimal(2) ** -50  # of the length of Uᵀ(x − μ)
        terms.append((Decimal(weight).ln() + log_det - square / 2 - tau, blur * (square.sqrt() + blur)))
    if model.noise_weight_ > 0:
        volume = sum(units.exponents) * Decimal(2).ln()
        terms.append((Decimal(model.noise_weight_).ln() + Decimal(model.noise_log_density_) + volume, Decimal("1e-12")))
    top = max(term for term, _ in terms)
    total = sum(((term - top).exp() for term, _ in terms), Decimal(0))
    return top + total.ln(), max(doubt for term, doubt in terms if term >= top - 60)


def _whitened(model: Any, units: _Units, c: int, about: list[Decimal]) -> tuple[Decimal, Decimal, Decimal]:
    """Return ‖Uᵀ(x − μ)‖², log |U|, and the largest entry of U."""
    d, covariance_type = len(about), model.covariance_type_
    if covariance_type == "fixed":
        variance = Decimal(model.fixed_variance_) / Decimal(4) ** units.exponents[0]
        rounding = Decimal(2) ** (-20 if model.precisions_cholesky_.dtype == np.float32 else -40)
        variance = max(variance, Decimal(float(units.factors[c])) ** -2 * (1 - rounding))  # more where ε was too narrow
        factors = [1 / variance.sqrt()] * d
    elif covariance_type in ("diag", "spherical"):
        factors = decimals(np.broadcast_to(units.factors[c], d).tolist())
    else:
        matrix = units.factors if covariance_type == "tied" else units.factors[c]
        columns = [decimals(column) for column in matrix.T.tolist()]
        values = [sum((u * a for u, a in zip(column, about)), Decimal(0)) for column in columns]
        log_det = sum((abs(columns[j][j]).ln() for j in range(d)), Decimal(0))
        return sum((v * v for v in values), Decimal(0)), log_det, max(abs(u) for column in columns for u in column)
    square = sum(((f * a) ** 2 for f, a in zip(factors, about)), Decimal(0))
    return square, sum((f.ln() for f in factors), Decimal(0)), max(factors)


# ---- what must hold of any model -----------------------------------------------------------------------------------


def densities_are_numbers(case: Case, model: Any) -> str | None:
    """No NaN anywhere; the log density of a row of the fit is finite, and so are score and criteria."""
    scores = model.score_samples(case.input())
    if np.isnan(scores).any():
        return "score_samples has NaN"
    for name, value in (
        ("predict_proba", model.predict_proba(case.input())),
        ("sample", model.sample(20, random_state=0)[0]),
    ):
        if not np.isfinite(value).all():
            return f"{name} has {value[~np.isfinite(value)][0]}"
    if np.isfinite(scores.astype(np.float64)).all() and np.abs(scores.astype(np.float64)).max() < 1e300:
        for name in ("score", "aic", "bic", "icl"):
            if not math.isfinite(getattr(model, name)(case.input())):
                return f"{name} is {getattr(model, name)(case.input())} though every score_samples is finite"
    return None


def responsibilities_sum_to_one(case: Case, model: Any) -> str | None:
    """Each row of predict_proba sums to one, and its largest entry is the label."""
    proba = model.predict_proba(case.input()).astype(np.float64)
    if not np.isfinite(proba).all():
        return None  # checked by another law
    slack = 1e-5 if case.X.dtype == np.float32 else 1e-9
    if (np.abs(proba.sum(axis=1) - 1) > slack).any() or proba.min() < 0:
        return f"a row sums to {proba.sum(axis=1)[np.abs(proba.sum(axis=1) - 1).argmax()]!r}"
    noise = model.noise_log_density_ > -math.inf
    columns = np.where(model.labels_ < 0, proba.shape[1] - 1, model.labels_) if noise else model.labels_
    own = proba[np.arange(len(proba)), columns]
    return "a label is not the largest responsibility" if (own < proba.max(axis=1) - slack).any() else None


def weights_are_shares(case: Case, model: Any) -> str | None:
    """π and the noise's share lie in [0, 1] and sum to one."""
    shares = np.append(model.weights_.astype(np.float64), model.noise_weight_)
    slack = 1e-5 if case.X.dtype == np.float32 else 1e-12
    if shares.min() < 0 or shares.max() > 1 + slack or abs(shares.sum() - 1) > slack:
        return f"weights_ {model.weights_}, noise_weight_ {model.noise_weight_!r}"
    return None


def means_lie_in_the_box(case: Case, model: Any) -> str | None:
    """A mean of rows lies between the least and the largest of them; a start that is given may not."""
    if "means_init" in case.parameters and model.n_iter_ == 0:
        return None
    rows = case.X[case.present].astype(np.float64)
    low, high, means = rows.min(axis=0), rows.max(axis=0), model.means_.astype(np.float64)
    alive = model.weights_ > 0
    slack = np.maximum(np.abs(low), np.abs(high)) * (1e-6 if case.X.dtype == np.float32 else 1e-14)
    if case.X.dtype == np.float32:
        slack = slack + 2e-45
    with np.errstate(over="ignore"):
        outside = ((means < low - slack) | (means > high + slack)) & alive[:, None]
    if not outside.any():
        return None
    c, j = (int(i[0]) for i in np.nonzero(outside))
    return f"mean {c}, column {j}: {means[c, j]!r} is outside of [{low[j]!r}, {high[j]!r}]"


def covariances_are_positive(case: Case, model: Any) -> str | None:
    """Variances are above 0 and finite, unless the squares of the data leave float64."""
    covariances = np.asarray(model.covariances_, dtype=np.float64)
    name, d = model.covariance_type_, case.X.shape[1]
    variances = np.diagonal(covariances, axis1=-2, axis2=-1) if name in ("full", "tied") else covariances
    largest = float(np.abs(case.X.astype(np.float64)).max())
    if largest > 1e150 or (case.X.dtype == np.float32 and largest > 1e15):
        return None
    if not np.isfinite(covariances).all():
        return f"covariances_ has {covariances[~np.isfinite(covariances)][0]} where |X| is at most {largest:.3g}"
    if (variances < 0).any():
        return f"a variance is {variances.min()}"
    return f"{d} columns, a variance of 0 on ordinary data" if case.ordinary and not variances.all() else None


def the_likelihood_never_falls(case: Case, model: Any) -> str | None:
    """With reg_covar=0 no step lowers the likelihood, up to rounding."""
    bounds = model.lower_bounds_
    if model.reg_covar > 0 or len(bounds) < 2 or not case.ordinary:
        return None
    fall = -np.diff(bounds) - 1e-9 * np.maximum(1.0, np.abs(bounds[1:]))
    return (
        f"step {int(fall.argmax()) + 1}: {bounds[fall.argmax()]!r} → {bounds[fall.argmax() + 1]!r}"
        if (fall > 0).any()
        else None
    )


def bounds_are_finite(case: Case, model: Any) -> str | None:
    """The lower bound of a fit with iterations is a number, and so is the density of the noise."""
    if math.isnan(model.noise_log_density_) or model.noise_log_density_ == math.inf:
        return f"noise_log_density_ is {model.noise_log_density_}"
    return None if np.isfinite(model.lower_bounds_).all() else f"lower_bounds_ has {model.lower_bounds_}"


# ---- the same problem in another guise -----------------------------------------------------------------------------


def a_weight_is_a_number_of_repetitions(case: Case, model: Any) -> str | None:
    """Whole weights make the same steps as repeated rows; a few steps, since EM makes much of a little rounding."""
    if not integer_weights(case) or not _steady(case):
        return None
    mine, other = case.fit(case.X, max_iter=3, tol=0.0), case.fit(repeated(case), None, max_iter=3, tol=0.0)
    return _bounds_differ(mine, other)


def the_order_of_rows_does_not_matter(case: Case, model: Any) -> str | None:
    """Permuted rows make the same steps, up to rounding."""
    if not _steady(case):
        return None
    _, X, weights = permuted(case)
    return _bounds_differ(case.fit(case.X, max_iter=3, tol=0.0), case.fit(X, weights, max_iter=3, tol=0.0))


def _steady(case: Case) -> bool:
    """Whether rounding stays rounding: separate rows in general position, whose components do not collapse."""
    X = case.X[case.present]
    k = case.parameters["n_components"]
    shape = case.table.shape in ("cloud", "blobs") and case.ordinary and case.X.dtype == np.float64
    return shape and len(X) >= 4 * k * (case.X.shape[1] + 1) and case.parameters["reg_covar"] >= 1e-7


def _bounds_differ(a: Any, b: Any) -> str | None:
    if len(a.lower_bounds_) == len(b.lower_bounds_) and np.allclose(
        a.lower_bounds_, b.lower_bounds_, rtol=1e-6, atol=1e-6
    ):
        return None
    return f"lower_bounds_ {a.lower_bounds_.tolist()} and {b.lower_bounds_.tolist()}"


def powers_of_two_are_units(case: Case, model: Any) -> str | None:
    """2^p X and 2^q w have the same labels and the means 2^p μ, to the bit, where reg_covar is 0.

    Equal rows have no length to which the floor of the variance could be relative. It is then a number, as the volume
    of the noise's box is, and which of the two densities is higher depends on the unit.
    """
    if np.count_nonzero(case.present) < model.n_components:
        return None  # weights in place of rows: only their sum makes them enough
    q = 0 if case.weights is None else exact_powers(case.weights, int(case.rng(4).choice([-200, 0, 5, 200])))
    weights = None if case.weights is None else np.ldexp(case.weights, q)
    has_start = "means_init" in case.parameters
    if case.parameters["reg_covar"] > 0 or model.covariance_type == "fixed" or has_start or not case.ordinary:
        return differs(model, case.fit(weights=weights), ANSWERS) if q and case.ordinary else None
    if (
        case.X.dtype == np.float32
        or case.parameters.get("noise", False) not in (False, True)
        or (case.parameters.get("noise", False) and (case.X[case.present] == case.X[case.present][0]).all())
        or exponent_range(case.X) > 60
    ):
        return None
    p = exact_powers(case.X, int(case.rng(3).choice([-450, -40, 3, 40, 450])))
    other = case.fit(np.ldexp(case.X.astype(np.float64), p), weights)
    if not np.array_equal(model.labels_, other.labels_):
        return f"labels_ differ under 2^{p} X, 2^{q} w"
    return None if np.array_equal(np.ldexp(model.means_, p), other.means_) else f"means_ differ under 2^{p} X, 2^{q} w"


def blocks_give_the_same_bits(case: Case, model: Any) -> str | None:
    """fit_blocks with any cuts is fit."""
    n = len(case.X)
    cuts = sorted(case.rng(5).integers(0, n + 1, size=2).tolist())
    chunks = [p for p in np.split(np.arange(n), cuts) if len(p)]
    blocks = [case.X[p] if case.weights is None else (case.X[p], case.weights[p]) for p in chunks]
    other = case.make().fit_blocks(lambda: iter(blocks))
    return differs(model, other, tuple(name for name in ANSWERS if name != "labels_"))


def scikit_learn_agrees(case: Case, model: Any) -> str | None:
    """From the same start scikit-learn comes to the same parameters, where nothing collapses."""
    if "means_init" not in case.parameters or not _steady(case) or case.weights is not None or model.n_iter_ == 0:
        return None
    if case.parameters.get("noise", False):
        return None
    names = (
        "n_components",
        "covariance_type",
        "weights_init",
        "means_init",
        "precisions_init",
        "reg_covar",
        "max_iter",
        "tol",
    )
    with quiet():
        try:
            peer = Peer(**{name: case.parameters[name] for name in names}).fit(case.X)
        except ValueError:
            return None  # an ill-defined covariance there
    least = min(peer.weights_.min(), model.weights_.min())
    if least * len(case.X) < 1.5 * (case.X.shape[1] + 1):
        return None  # a component about to collapse: ten roundings that are added there decide
    if peer.n_iter_ != model.n_iter_:
        return f"{model.n_iter_} iterations, scikit-learn makes {peer.n_iter_}"
    size = np.abs(case.X).max()
    gap = np.abs(peer.means_ - model.means_).max() / size
    return f"means_ differ by {gap:.3g}" if gap > 1e-5 else None


def more_restarts_are_no_worse(case: Case, model: Any) -> str | None:
    """n_init=3 keeps the best of three starts, the first of which is that of n_init=1."""
    if not case.ordinary or "means_init" in case.parameters or model.n_iter_ == 0:
        return None
    other = case.fit(n_init=3)
    if other.lower_bound_ < model.lower_bound_ - 1e-12 * abs(model.lower_bound_):
        return f"lower_bound_ {other.lower_bound_!r} of three starts, {model.lower_bound_!r} of one"
    return None


FAMILY = Family(
    name="mixture",
    estimator=knoll.GaussianMixture,
    parameters=parameters,
    laws=(
        finite("weights_", "means_", "noise_weight_"),
        factors_are_finite,
        bounds_are_finite,
        predict_is_labels,
        log_densities_are_exact,
        densities_are_numbers,
        responsibilities_sum_to_one,
        weights_are_shares,
        means_lie_in_the_box,
        covariances_are_positive,
        the_likelihood_never_falls,
        same_bits_of_any_form(*ANSWERS),
        same_bits_of_any_threads(*ANSWERS),
        a_weight_is_a_number_of_repetitions,
        the_order_of_rows_does_not_matter,
        powers_of_two_are_units,
        blocks_give_the_same_bits,
        more_restarts_are_no_worse,
        scikit_learn_agrees,
        survives_pickle,
        survives_clone,
        survives_saving,
    ),
    refusals=(
        Refusal(
            "n_samples >= n_components",
            lambda case: case.mass.sum() < case.parameters["n_components"],
            "weights count as rows",
        ),
    ),
)
