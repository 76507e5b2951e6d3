"""Laws that estimators have in common; each returns None, or what is wrong."""

from __future__ import annotations

import contextlib
import pickle
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import clone

import knoll
from fuzz.case import Case, Law

__all__ = [
    "differs",
    "exact_powers",
    "exponent_range",
    "finite",
    "integer_weights",
    "partitions_differ",
    "permuted",
    "predict_is_labels",
    "quiet",
    "repeated",
    "same_bits_of_any_form",
    "same_bits_of_any_threads",
    "survives_clone",
    "survives_pickle",
    "survives_saving",
]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Leave out what an oracle of another library warns of."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def differs(a: Any, b: Any, names: tuple[str, ...], *, relative: float = 0.0) -> str | None:
    """Compare attributes of two models, to the bit unless an error relative to their largest entry is allowed."""
    for name in names:
        one, two = (_plain(getattr(model, name)) for model in (a, b))
        if one.shape != two.shape:
            return f"{name} has shapes {one.shape} and {two.shape}"
        if np.array_equal(one, two, equal_nan=one.dtype.kind == "f"):
            continue
        if relative and one.dtype.kind == "f":
            with np.errstate(all="ignore"):
                gap = np.abs(one - two)
                if (gap <= relative * max(np.abs(one).max(), np.abs(two).max())).all():
                    continue
        at = tuple(int(i[0]) for i in np.nonzero(one != two)) if one.ndim else ()
        return f"{name}{list(at)}: {one[at]!r} and {two[at]!r}"
    return None


def _plain(value: Any) -> Any:
    if value is None:
        return np.zeros(0)
    return value.toarray() if hasattr(value, "toarray") else np.asarray(value)


def partitions_differ(a: Any, b: Any) -> bool:
    """Return whether two labellings partition the rows differently; −1 is a label like others."""
    pairs = set(zip(np.asarray(a).tolist(), np.asarray(b).tolist()))
    return len(pairs) != len({x for x, _ in pairs}) or len(pairs) != len({y for _, y in pairs})


# ---- laws that need no parameters ----------------------------------------------------------------------------------


def predict_is_labels(case: Case, model: Any) -> str | None:
    """predict(X) == labels_ on the training data, noise included."""
    predicted = model.predict(case.input())
    if predicted.shape != (len(case.X),):
        return f"predict has shape {predicted.shape} for {len(case.X)} rows"
    wrong = np.flatnonzero(predicted != model.labels_)
    if len(wrong):
        row = int(wrong[0])
        return f"{len(wrong)} rows differ; row {row}: labels_ {model.labels_[row]}, predict {predicted[row]}"
    return None


def survives_pickle(case: Case, model: Any) -> str | None:
    """A pickled model answers as before."""
    return _same_model(case, model, pickle.loads(pickle.dumps(model)))


def survives_clone(case: Case, model: Any) -> str | None:
    """A clone has the same parameters, and is not fitted."""
    again = clone(model)
    one, two = model.get_params(), again.get_params()
    for name, value in one.items():
        if not np.array_equal(np.asarray(value, dtype=object), np.asarray(two[name], dtype=object)):
            return f"{name} is {two[name]!r} in the clone, {value!r} in the model"
    return "the clone is fitted" if hasattr(again, "n_features_in_") else None


def survives_saving(case: Case, model: Any) -> str | None:
    """A model that was fitted is saved, loads, and answers as before."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.knoll"
        knoll.save(model, path)
        return _same_model(case, model, knoll.load(path))


def _same_model(case: Case, model: Any, again: Any) -> str | None:
    names = tuple(name for name, value in vars(model).items() if name.endswith("_") and _is_data(value))
    found = differs(model, again, names)
    if found is None and hasattr(model, "predict"):
        one, two = model.predict(case.input()), again.predict(case.input())
        found = None if np.array_equal(one, two) else "predict differs"
    return found


def _is_data(value: Any) -> bool:
    return isinstance(value, np.ndarray | float | int) or scipy.sparse.issparse(value)


# ---- laws made for a family ----------------------------------------------------------------------------------------


def finite(*names: str) -> Law:
    """Answers of finite data are finite."""

    def answers_are_finite(case: Case, model: Any) -> str | None:
        for name in names:
            values = np.asarray(getattr(model, name), dtype=float)
            if not np.isfinite(values).all():
                return f"{name} has {values[~np.isfinite(values)][0]}"
        return None

    return answers_are_finite


def same_bits_of_any_form(*names: str) -> Law:
    """Layouts and containers of the same numbers give the same bits."""

    def any_form_gives_the_same_bits(case: Case, model: Any) -> str | None:
        if case.form == "C":
            return None
        return differs(model, case.fit(case.X), names)

    return any_form_gives_the_same_bits


def same_bits_of_any_threads(*names: str) -> Law:
    """Threads give the same bits."""

    def any_threads_give_the_same_bits(case: Case, model: Any) -> str | None:
        return differs(model, case.fit(n_jobs=3), names)

    return any_threads_give_the_same_bits


# ---- other cases with the same answer ------------------------------------------------------------------------------


def permuted(case: Case) -> tuple[np.ndarray[Any, Any], Any, Any]:
    """Return an order, the rows in it, and their weights."""
    order = case.rng(11).permutation(len(case.X))
    return order, np.ascontiguousarray(case.X[order]), None if case.weights is None else case.weights[order]


def integer_weights(case: Case) -> bool:
    """Whether the weights are small whole numbers, so that they can be repetitions."""
    return case.weight_sort in ("integers", "with zeros")


def repeated(case: Case) -> Any:
    """Return each row as often as its weight."""
    return np.repeat(case.X, case.mass.astype(int), axis=0)


def exact_powers(X: Any, wanted: int, headroom: int = 8) -> int:
    """Return a power of two near the wanted one by which every entry of X can be multiplied without rounding."""
    values = np.abs(np.asarray(X, dtype=np.float64))
    values = values[values > 0]
    if not len(values):
        return wanted
    lowest = min(_split_exponent(float(v)) for v in values)  # the exponent of the last bit of the finest number
    highest = int(np.frexp(values.max())[1])
    return (
        int(np.clip(wanted, -1074 - lowest, 1024 - headroom - highest))
        if -1074 - lowest <= 1024 - headroom - highest
        else 0
    )


def exponent_range(X: Any) -> int:
    """Return how many powers of two lie between the largest and the smallest entry that is not 0."""
    values = np.abs(np.asarray(X, dtype=np.float64))
    values = values[values > 0]
    return int(np.frexp(values.max())[1] - np.frexp(values.min())[1]) if len(values) else 0


def _split_exponent(value: float) -> int:
    mantissa, exponent = np.frexp(value)
    whole = int(mantissa * 2.0**53)
    return int(exponent) - 53 + ((whole & -whole).bit_length() - 1)
