"""What is done to a table before a model sees it, and again to the next one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from knoll.exceptions import BadData, InvalidParameter
from knoll.models import Preparation

SIZES = st.tuples(st.integers(1, 12), st.integers(1, 4))
NUMBERS = st.floats(-1e6, 1e6).map(lambda x: round(x, 3))


@given(
    arrays.arrays(np.float64, SIZES, elements=NUMBERS), st.sampled_from(["standard", "robust", "none"]), st.randoms()
)
def test_it_is_its_own_whatever_the_order_and_survives_a_file(X, scale, random):
    names = [f"x{j}" for j in range(X.shape[1])]
    made = Preparation.fit(X, names, scale=scale)
    order = list(range(len(X)))
    random.shuffle(order)
    assert Preparation.fit(X[order], names, scale=scale) == made
    assert Preparation.from_plain(made.plain()) == made
    scaled = made.apply(X)
    assert np.isfinite(scaled).all()
    if scale == "none":
        np.testing.assert_array_equal(scaled, X)
    elif scale == "standard":
        np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-6)
        varied = np.ptp(X, axis=0) > 1e-2 * np.abs(X).max(axis=0)
        np.testing.assert_allclose(scaled.std(axis=0)[varied], 1, rtol=1e-9)


def test_robust_scales_a_column_of_which_half_is_one_value():
    X = np.r_[np.zeros(80), np.linspace(0, 1e5, 20)][:, None]
    made = Preparation.fit(X, ["gain"], scale="robust")
    assert made.center == (0.0,)
    np.testing.assert_allclose(made.spread, X.std(), rtol=1e-12)


def test_the_given_array_is_left_alone_and_gaps_stay_gaps():
    X = np.array([[1.0, 2.0], [3.0, 6.0]])
    before = X.copy()
    made = Preparation.fit(X, ["a", "b"])
    made.apply(X)
    np.testing.assert_array_equal(X, before)
    np.testing.assert_array_equal(made.apply([[np.nan, 4.0]]), [[np.nan, 0.0]])


def test_mistakes_are_named():
    with pytest.raises(InvalidParameter, match="scale must be one of auto, standard, robust, common, none, got 'log'"):
        Preparation.fit([[1.0]], ["a"], scale="log")
    with pytest.raises(InvalidParameter, match="missing must be one of error, drop, median, got 'guess'"):
        Preparation.fit([[1.0]], ["a"], missing="guess")
    for X in ([[1.0, 2.0]], [[np.nan]], np.empty((0, 1)), [1.0]):
        with pytest.raises(
            BadData, match=r"X must be finite, with at least one row and a column for each of 1 names; its"
        ):
            Preparation.fit(X, ["a"])
    with pytest.raises(BadData, match=r"X has 2 columns; the model takes 1\."):
        Preparation.fit([[1.0]], ["a"]).apply([[1.0, 2.0]])
