"""knoll.tuning: choices among few candidates end in an answer that its own curve bears out, or in knoll's errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzz.case import Case, Family, Rng
from fuzz.tables import Table
from knoll import tuning
from knoll.exceptions import KnollError
from knoll.gaussian.covariance import estimated_types


def parameters(rng: Rng, table: Table) -> dict[str, Any]:
    """Draw a criterion and candidates."""
    most = int(rng.integers(2, 5))
    return {
        "criterion": str(rng.choice(["bic", "aic", "icl"])),
        "clusters": str(rng.choice(["silhouette", "elbow", "gap"])),
        "types": [str(rng.choice(estimated_types()))],
        "candidates": range(1, most + 2),
        "seed": int(rng.integers(1000)),
    }


def _refuses(case: Case, error: KnollError, phrases: tuple[str, ...]) -> str | None:
    """Return the message of an error that ordinary data with enough distinct rows should not raise."""
    if not case.ordinary or any(phrase in str(error) for phrase in phrases):
        return None
    return f"{type(error).__name__}: {error}"


def components_are_chosen_by_the_curve(case: Case, model: Any) -> str | None:
    """The chosen number has the least criterion of all, and the model has so many components."""
    p = case.parameters
    try:
        choice = tuning.choose_n_components(
            case.input(), p["candidates"], criterion=p["criterion"], covariance_types=p["types"], n_init=1,
            sample_weight=case.weights, random_state=p["seed"], n_jobs=1,
        )  # fmt: skip
    except KnollError as error:
        return _refuses(case, error, ("candidates", "rows"))
    curve = choice.curve[p["types"][0]]
    if not np.isfinite(curve).all():
        return f"the curve has {curve}"
    at = list(choice.candidates).index(choice.best)
    if curve[at] > curve.min():
        return f"{choice.best} was chosen with {curve[at]!r}, the least is {curve.min()!r}"
    return None if choice.model.n_components == choice.best else "the model has another number of components"


def clusters_are_chosen_among_the_candidates(case: Case, model: Any) -> str | None:
    """The chosen number is a candidate, the model has so many centres, and its curves are numbers."""
    p = case.parameters
    least = 2 if p["clusters"] == "silhouette" else 1
    numbers = [k for k in p["candidates"] if k >= least]
    weights = None if p["clusters"] == "gap" else case.weights
    try:
        choice = tuning.choose_n_clusters(
            case.input(), numbers, criterion=p["clusters"], sample_weight=weights, n_init=1, n_references=3,
            random_state=p["seed"], n_jobs=1,
        )  # fmt: skip
    except KnollError as error:
        return _refuses(case, error, ("candidates", "rows", "distinct", "cluster"))
    if choice.best not in numbers or len(choice.model.cluster_centers_) != choice.best:
        return f"{choice.best} of {numbers}, {len(choice.model.cluster_centers_)} centres"
    if not case.ordinary:
        return None
    for name, curve in choice.curve.items():
        if np.isnan(np.asarray(curve, dtype=float)).all():
            return f"the curve {name!r} is NaN"
    return None


FAMILY = Family(
    name="tuning",
    estimator=None,
    parameters=parameters,
    most_rows=40,
    most_columns=4,
    laws=(components_are_chosen_by_the_curve, clusters_are_chosen_among_the_candidates),
)
