"""Model files: whatever was fitted is saved and loads with the same bits; damaged files are refused."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import has_fit_parameter

import knoll
from fuzz.case import Case, Family, Rng
from fuzz.families import (
    agglomerative,
    dbscan,
    gaussian,
    hdbscan,
    kernel_kmeans,
    kmeans,
    mean_shift,
    mixture,
    optics,
    spectral,
)
from fuzz.laws import differs, quiet, survives_saving
from fuzz.tables import Table
from knoll.exceptions import ModelFileError

_FAMILIES = (
    gaussian, mixture, kmeans, kernel_kmeans, spectral, dbscan, mean_shift, hdbscan, optics, agglomerative,
)  # fmt: skip


def parameters(rng: Rng, table: Table) -> dict[str, Any]:
    """Draw an estimator and its parameters as its own family does."""
    family = _FAMILIES[rng.integers(len(_FAMILIES))].FAMILY
    return {"estimator": family.estimator, "parameters": family.parameters(rng, table)}


def _fitted(case: Case) -> Any:
    """Fit; None where the family itself refuses or fails, which other laws check."""
    model = case.parameters["estimator"](**case.parameters["parameters"])
    weighted = has_fit_parameter(model, "sample_weight") and case.weights is not None
    try:
        with quiet():
            return model.fit(case.input(), **({"sample_weight": case.weights} if weighted else {}))
    except Exception:
        return None


def files_hold_the_whole_model(case: Case, model: Any) -> str | None:
    """A saved model loads, has the same bits and the same answers; saving again writes the same bytes."""
    fitted = _fitted(case)
    if fitted is None:
        return None
    if found := survives_saving(case, fitted):
        return f"{type(fitted).__name__}: {found}"
    with tempfile.TemporaryDirectory() as folder:
        one, two = Path(folder) / "one.knoll", Path(folder) / "two.knoll"
        knoll.save(fitted, one)
        knoll.save(knoll.load(one), two)
        return (
            None if one.read_bytes() == two.read_bytes() else f"{type(fitted).__name__}: saved again, the bytes differ"
        )


def states_hold_the_whole_model(case: Case, model: Any) -> str | None:
    """from_state(to_state) answers as before."""
    fitted = _fitted(case)
    if fitted is None:
        return None
    again = type(fitted).from_state(*fitted.to_state())
    names = tuple(name for name, value in vars(fitted).items() if name.endswith("_") and isinstance(value, np.ndarray))
    return differs(fitted, again, names)


def damaged_files_are_refused(case: Case, model: Any) -> str | None:
    """A flipped bit, a cut and a tail raise ModelFileError."""
    fitted = _fitted(case)
    if fitted is None:
        return None
    rng = case.rng(6)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.knoll"
        knoll.save(fitted, path)
        whole = path.read_bytes()
        at = int(rng.integers(len(whole)))
        flipped = bytearray(whole)
        flipped[at] ^= 1 << int(rng.integers(8))
        for name, data in (("flipped", bytes(flipped)), ("cut", whole[:at]), ("with a tail", whole + b"tail")):
            path.write_bytes(data)
            try:
                knoll.load(path)
            except ModelFileError:
                continue
            return f"a file {name} at byte {at} of {len(whole)} loads"
    return None


FAMILY = Family(
    name="models",
    estimator=None,
    parameters=parameters,
    most_rows=30,
    most_columns=4,
    laws=(files_hold_the_whole_model, states_hold_the_whole_model, damaged_files_are_refused),
)
