"""Validation: messages name the value, the rule and the remedy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from knoll.exceptions import BadData, InvalidParameter, InvalidType, KnollError
from knoll.validation import (
    RANDOM_STATE,
    Choice,
    Flag,
    Instance,
    Number,
    aligned,
    check_parameters,
    check_points,
    draw_seed,
)

EPS = (Number(0, strict=True, remedy="knoll.scales.estimate_eps(X) suggests a value."),)


@pytest.mark.parametrize(
    ("rules", "value", "error", "message"),
    [
        (
            EPS,
            -1.0,
            InvalidParameter,
            "A: p must be > 0, got -1.0. knoll.scales.estimate_eps(X) suggests a value.",
        ),
        (
            EPS,
            float("nan"),
            InvalidParameter,
            "A: p must be > 0, got nan. knoll.scales.estimate_eps(X) suggests a value.",
        ),
        (
            EPS,
            "x",
            InvalidType,
            "A: p must be a number, got 'x'. knoll.scales.estimate_eps(X) suggests a value.",
        ),
        (
            EPS,
            True,
            InvalidType,
            "A: p must be a number, got True. knoll.scales.estimate_eps(X) suggests a value.",
        ),
        ((Number(1, 5, whole=True),), 6, InvalidParameter, "A: p must be >= 1 and <= 5, got 6."),
        ((Number(1, whole=True),), 2.0, InvalidType, "A: p must be a whole number, got 2.0."),
        ((None, Number(0)), -2, InvalidParameter, "A: p must be >= 0, got -2."),
        ((None, Number(0)), [], InvalidType, "A: p must be None or a number, got []."),
        ((Choice(("a", "b")),), "c", InvalidParameter, "A: p must be one of 'a', 'b', got 'c'."),
        ((Choice(("a", "b")), Number(0)), "c", InvalidParameter, "A: p must be one of 'a', 'b', got 'c'."),
        ((Flag(),), 1, InvalidType, "A: p must be True or False, got 1."),
        ((Instance((dict,), "a mapping"),), 1, InvalidType, "A: p must be a mapping, got 1."),
    ],
)
def test_a_broken_rule_is_named(rules, value, error, message):
    with pytest.raises(error) as caught:
        check_parameters("A", {"p": value}, {"p": rules})
    assert str(caught.value) == message
    assert isinstance(caught.value, KnollError)
    assert isinstance(caught.value, TypeError if error is InvalidType else ValueError)


@pytest.mark.parametrize(
    ("rules", "value"),
    [
        (EPS, np.float32(0.1)),
        ((Number(1, 5, whole=True),), np.int64(5)),
        ((None, Number(0)), None),
        ((Choice(("a", "b")),), "b"),
        ((Flag(),), np.True_),
        (RANDOM_STATE, 2**64 - 1),
        (RANDOM_STATE, np.random.default_rng(0)),
        (RANDOM_STATE, np.random.RandomState(0)),
    ],
)
def test_a_kept_rule_is_silent(rules, value):
    check_parameters("A", {"p": value}, {"p": rules})


def test_seeds():
    assert draw_seed(7) == 7
    assert draw_seed(np.int64(7)) == 7
    assert draw_seed(np.random.RandomState(3)) == draw_seed(np.random.RandomState(3))
    assert draw_seed(np.random.default_rng(3)) == draw_seed(np.random.default_rng(3))
    assert draw_seed(None) != draw_seed(None)
    state = np.random.RandomState(3)
    assert draw_seed(state) != draw_seed(state)


def test_points_are_not_copied_without_need():
    for X in (
        np.zeros((4, 3)),
        np.zeros((4, 3), dtype=np.float32),
        np.zeros((4, 3), order="F"),
        np.zeros((8, 6))[::2, ::3],
    ):
        assert np.shares_memory(check_points(X), X)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("order", ["C", "F", "strided"])
@pytest.mark.parametrize("position", [(0, 0), (17, 3), (49, 6), (31, 0)])
def test_one_bad_number_is_found_anywhere(bad, dtype, order, position):
    X = np.random.default_rng(0).normal(size=(50, 7)).astype(dtype)
    X[position] = bad
    X = np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2] if order == "strided" else np.asarray(X, order=order)
    with pytest.raises(BadData, match=rf"at row {position[0]}, column {position[1]}\. Drop or impute"):
        check_points(X)


def test_text_is_named_with_row_column_and_remedy():
    position = "X has 'b' at row 1, column {}, where a number is needed. Drop the column, or encode it as numbers"
    mixed = [[1.0, "2"], [3.0, "b"]]
    for X in (mixed, np.array(mixed, dtype=object)):
        with pytest.raises(BadData, match="(?s)could not convert string to float.*" + position.format(1)):
            check_points(X)
    pandas = pytest.importorskip("pandas")
    with pytest.raises(BadData, match=position.format("'town'")):
        check_points(pandas.DataFrame({"age": [1.0, 3.0], "town": ["2", "b"]}))


def test_large_finite_numbers_pass():
    check_points(np.full((1000, 7), 1.7e308))
    check_points(np.full((1000, 7), 3.4e38, dtype=np.float32))


def test_sparse_where_it_is_allowed():
    X = scipy.sparse.random(30, 20, density=0.2, format="coo", random_state=0)
    assert check_points(X, sparse=True).format == "csr"
    with pytest.raises(InvalidType, match=r"[Ss]parse"):
        check_points(X)
    X = X.tocsr()
    X.data[5] = np.nan
    with pytest.raises(BadData, match="X has a NaN at row"):
        check_points(X, sparse=True)


def test_packed_records_are_copied_and_only_those():
    record = np.zeros(5, dtype=np.dtype([("pad", "u1"), ("x", "f8", (3,))]))["x"]
    assert not record.flags.aligned
    assert aligned(record).flags.aligned
    straight = np.zeros((5, 3))
    assert aligned(straight) is straight


@pytest.mark.parametrize("X", ["points.csv", np.array("points.csv")])
def test_the_name_of_a_file_is_no_table(X):
    with pytest.raises(BadData, match=r"(?s)could not convert.*a table of numbers, rows by columns; a file is read"):
        check_points(X)
