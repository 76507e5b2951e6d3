"""The contract of an estimator, held by every public one."""

from __future__ import annotations

import importlib.util
import json
import pickle
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from knoll.exceptions import BadData, InvalidParameter, KnollError, ModelFileError

_spec = importlib.util.spec_from_file_location("contract", Path(__file__).with_name("contract.py"))
contract = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(contract)

ESTIMATORS = contract.public_estimators()
pytestmark = pytest.mark.filterwarnings("ignore::knoll.exceptions.SuspiciousResultWarning")
each = pytest.mark.parametrize("Estimator", ESTIMATORS, ids=lambda e: e.__name__)


def make(Estimator, **parameters):
    known = Estimator().get_params()
    wanted = {"random_state": 7, **contract.PARAMETERS.get(Estimator.__name__, {}), **parameters}
    return Estimator(**{name: value for name, value in wanted.items() if name in known})


def test_estimators_are_found():
    assert "Gaussian" in {e.__name__ for e in ESTIMATORS}


@parametrize_with_checks(
    [Estimator() for Estimator in ESTIMATORS],
    expected_failed_checks=lambda estimator: contract.EXPECTED_FAILED_CHECKS.get(type(estimator).__name__, {}),
)
def test_scikit_learn_contract(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its data is often degenerate on purpose
        check(estimator)


@each
@pytest.mark.parametrize("n_jobs", [2, 3, 8, None, -1])
def test_same_bits_for_any_number_of_threads(Estimator, n_jobs):
    X = contract.data()
    one, many = (make(Estimator, n_jobs=jobs).fit(X) for jobs in (1, n_jobs))
    contract.assert_same_bits(contract.fitted(one), contract.fitted(many))
    contract.assert_same_bits(contract.outputs(one, X), contract.outputs(many, X))


def layouts(X, tmp_path):
    n, d = X.shape
    wide = np.zeros((2 * n, 3 * d), dtype=X.dtype)
    wide[::2, ::3] = X
    record = np.zeros(n, dtype=np.dtype([("pad", "u1"), ("x", X.dtype, (d,))]))
    record["x"] = X
    file = np.memmap(tmp_path / "x.bin", dtype=X.dtype, mode="w+", shape=X.shape)
    file[:] = X
    frozen = X.copy()
    frozen.flags.writeable = False
    return {
        "fortran": np.asfortranarray(X),
        "strided": wide[::2, ::3],
        "backwards": X[::-1].copy()[::-1],
        "misaligned": record["x"],
        "memory-mapped": file,
        "read-only": frozen,
        "list": X.tolist(),
    }


@each
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_same_bits_for_any_layout(Estimator, dtype, tmp_path):
    X = contract.data(n=5_000).astype(dtype)
    straight = make(Estimator).fit(X)
    before = X.copy()
    for name, other in layouts(X, tmp_path).items():
        if name == "list" and dtype == np.float32:
            continue  # a list has no dtype: it becomes float64
        model = make(Estimator).fit(other)
        contract.assert_same_bits(contract.fitted(straight), contract.fitted(model))
        contract.assert_same_bits(contract.outputs(straight, X), contract.outputs(model, other))
    assert (before == X).all()


@each
def test_integers_are_numbers(Estimator):
    X = np.round(contract.data(n=500) * 10).astype(np.int32)
    contract.assert_same_bits(
        contract.fitted(make(Estimator).fit(X)), contract.fitted(make(Estimator).fit(X.astype(np.float64)))
    )


@each
def test_float32_in_float32_out(Estimator):
    X = contract.data(n=500).astype(np.float32)
    model = make(Estimator).fit(X)
    exact = make(Estimator).fit(X.astype(np.float64))
    for name, value in contract.outputs(model, X).items():
        assert value.dtype in (np.float32, np.int64, np.int32), name
        np.testing.assert_allclose(value, contract.outputs(exact, X.astype(np.float64))[name], rtol=2e-5, atol=2e-5)


@each
def test_a_weight_is_a_number_of_repetitions(Estimator):
    if Estimator.__name__ in contract.UNWEIGHTED:
        with pytest.raises(TypeError, match="sample_weight"):
            make(Estimator).fit(contract.data(n=40), sample_weight=np.ones(40))
        return
    X = contract.data(n=300)
    weights = np.random.default_rng(1).integers(0, 4, size=len(X))
    weighted = make(Estimator).fit(X, sample_weight=weights)
    repeated = make(Estimator).fit(np.repeat(X, weights, axis=0))
    scaled = make(Estimator).fit(X[weights > 0], sample_weight=weights[weights > 0].astype(float))
    for name, value in contract.outputs(weighted, X).items():
        np.testing.assert_allclose(value, contract.outputs(repeated, X)[name], rtol=1e-9, atol=1e-9, err_msg=name)
        np.testing.assert_allclose(value, contract.outputs(scaled, X)[name], rtol=1e-9, atol=1e-9, err_msg=name)


@each
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], "one weight for each row"),
        ([[1.0]] * 40, "1D array"),
        ([-1.0] + [1.0] * 39, r"must be finite and >= 0, got -1.0 at row 0"),
        ([np.nan] + [1.0] * 39, r"must be finite and >= 0, got nan at row 0"),
        ([0.0] * 40, "every sample_weight is zero"),
        (["a"] * 40, "must be real numbers"),
    ],
)
def test_bad_weights_are_reported(Estimator, weights, message):
    if Estimator.__name__ in contract.UNWEIGHTED:
        return
    if Estimator.__name__ in contract.NEGATIVE_WEIGHTS:
        message = message.replace(" and >= 0", "")
        if -1.0 in weights:
            make(Estimator).fit(contract.data(n=40), sample_weight=weights)
            return
    with pytest.raises(BadData, match=message):
        make(Estimator).fit(contract.data(n=40), sample_weight=weights)


@each
def test_state_survives_json_and_pickle(Estimator):
    X = contract.data(n=500)
    model = make(Estimator).fit(X)
    header, arrays = model.to_state()
    again = Estimator.from_state(json.loads(json.dumps(header)), arrays)
    for copy in (again, pickle.loads(pickle.dumps(model))):
        assert copy.get_params() == model.get_params()
        contract.assert_same_bits(contract.fitted(model), contract.fitted(copy))
        contract.assert_same_bits(contract.outputs(model, X), contract.outputs(copy, X))
    for array in arrays.values():
        array.flags.writeable = False  # a state and its model live apart
    for name, value in vars(again).items():
        assert not (isinstance(value, np.ndarray) and any(np.shares_memory(value, a) for a in arrays.values())), name
    unfitted = clone(model)
    assert not any(name.endswith("_") for name in vars(unfitted))


@each
def test_state_keeps_names_and_refuses_what_is_not_its_own(Estimator):
    frame = pd.DataFrame(contract.data(n=50), columns=["a", "b", "c"])
    model = make(Estimator).fit(frame)
    header, arrays = model.to_state()
    assert list(Estimator.from_state(header, arrays).feature_names_in_) == ["a", "b", "c"]
    with pytest.raises(ModelFileError, match=r"use knoll\.Other\.from_state"):
        Estimator.from_state({**header, "class": "Other"}, arrays)
    fitted = header["fitted"]
    for damaged in (
        {**header, "fitted": {**fitted, "score": 1}},
        {**header, "fitted": {**fitted, "__dict__": 1}},
        {**header, "fitted": {name: value for name, value in fitted.items() if name not in Estimator._fitted}},
        {**header, "fitted": {**fitted, "n_features_in_": {"float": "abc"}}},
        {**header, "parameters": {"unheard_of": 1}},
        {**header, "parameters": None},
    ):
        with pytest.raises(ModelFileError, match="damaged"):
            Estimator.from_state(damaged, arrays)
    with pytest.raises(ModelFileError, match="damaged"):
        Estimator.from_state(header, {})
    with pytest.raises(ModelFileError, match="not the state of a knoll estimator"):
        Estimator.from_state({}, {})


@each
def test_history_is_equal_arrays(Estimator):
    if Estimator.__name__ in contract.ONE_STEP:
        assert not hasattr(make(Estimator).fit(contract.data(n=500)), "history_")
        return
    history = make(Estimator).fit(contract.data(n=500)).history_
    assert {"iteration", "objective", "changed", "seconds"} <= history.keys()
    assert len({len(column) for column in history.values()}) == 1
    assert (np.diff(history["iteration"]) == 1).all()


@each
def test_nan_and_infinity_are_named_with_their_position(Estimator):
    frame = pd.DataFrame(contract.data(n=50), columns=["age", "b", "c"])
    frame.loc[17, "age"] = np.nan
    if Estimator.__name__ in contract.MISSING:
        model = make(Estimator).fit(frame)
        assert all(np.isfinite(value).all() for value in contract.outputs(model, frame).values())
    else:
        with pytest.raises(
            BadData,
            match=r"^Input X contains NaN\.\nX has a NaN at row 17, column 'age'\. Drop or impute .* KNNImputer",
        ) as caught:
            make(Estimator).fit(frame)
        assert "supervised" not in str(caught.value)
    X = contract.data(n=50)
    X[3, 2] = np.inf
    X[9, 0] = -np.inf
    with pytest.raises(BadData, match=r"X has an infinity at row 3, column 2 \(and 1 more\)"):
        make(Estimator).fit(X)
    model = make(Estimator).fit(contract.data(n=50))
    for method in contract.outputs(model, contract.data(n=5)):
        with pytest.raises(BadData, match="at row 3, column 2"):
            getattr(model, method)(X)


@each
@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((0, 3)), "minimum of 1 is required"),
        (np.zeros((3, 0)), "minimum of 1 is required"),
        (np.zeros(3), "Expected 2D array"),
        (np.zeros((2, 2, 2)), "dim 3"),
        ([["a", "b"]], "could not convert string"),
    ],
)
def test_data_that_cannot_be_used_is_reported(Estimator, X, message):
    with pytest.raises(BadData, match=message):
        make(Estimator).fit(X)


@each
def test_parameters_are_checked_at_fit(Estimator):
    X = contract.data(n=50)
    with pytest.raises(InvalidParameter, match=r"n_jobs must not be 0"):
        make(Estimator, n_jobs=0).fit(X)
    with pytest.raises(TypeError, match=r"n_jobs must be None or a whole number, got 'two'"):
        make(Estimator, n_jobs="two").fit(X)
    if "random_state" in Estimator().get_params():
        with pytest.raises(KnollError, match=r"random_state must be >= 0.*got -3"):
            make(Estimator, random_state=-3).fit(X)


@each
def test_a_failed_fit_leaves_the_estimator_as_it_was(Estimator):
    X = contract.data(n=100)
    model = make(Estimator).fit(X)
    before = contract.fitted(model)
    with pytest.raises(BadData):
        model.fit(np.full((5, 3), np.inf))
    contract.assert_same_bits(before, contract.fitted(model))
