"""The bindings of the mixed passes refuse whatever could become a wrong address."""

from __future__ import annotations

import numpy as np
import pytest

from knoll import _core


def arguments(n=20, p=2, q=2, k=3, full=True):
    rng = np.random.default_rng(0)
    levels = 7
    return {
        "y": rng.normal(size=(n, p)),
        "codes": rng.integers(0, levels, size=(n, q)).astype(np.int32),
        "weights": np.ones(n),
        "starts": np.array([0, 12, n]),
        "observed": np.array([[True, True], [True, False]]),
        "log_weights": np.full(k, -1.0),
        "means": np.zeros((k, p)),
        "scales": np.tile(np.eye(p).reshape(1, -1), (k, 1)) if full else np.ones((k, p)),
        "full": full,
        "table": np.full((levels, k), -1.0),
        "pivots": np.zeros((k, p)),
        "head": np.empty(2),
        "moments": np.empty((k, 1 + 2 * p + (p * (p + 1) // 2 if full else p))),
        "counts": np.empty((levels, k)),
        "peaks": np.empty(k),
        "threads": 1,
    }


@pytest.mark.parametrize("full", [False, True])
def test_good_arguments_are_taken(full):
    call = arguments(full=full)
    _core.sum_mixed(**call)
    assert np.isfinite(call["moments"]).all()
    assert call["head"][1] == 20


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("codes", np.full((20, 2), 7, dtype=np.int32), "codes must be rows of the table"),
        ("codes", np.full((20, 2), -1, dtype=np.int32), "codes must be rows of the table"),
        ("codes", np.zeros((19, 2), dtype=np.int32), "one row per row of y"),
        ("codes", np.zeros((20, 4), dtype=np.int32)[:, ::2], "codes must be contiguous"),
        ("y", np.zeros((20, 4))[:, ::2], "y must be contiguous"),
        ("y", np.zeros((20, 3)), "one column per column of means"),
        ("weights", np.ones(19), "one entry per row"),
        ("starts", np.array([0, 12, 21]), "starts must rise"),
        ("starts", np.array([0, 25, 20]), "starts must rise"),
        ("starts", np.array([1, 12, 20]), "starts must rise"),
        ("starts", np.array([0, 20]), "one entry per group"),
        ("observed", np.ones((2, 3), dtype=bool), "one entry per group"),
        ("log_weights", np.full(3, -np.inf), "a living component"),
        ("log_weights", np.zeros(2), "one entry per component"),
        ("scales", np.ones((3, 2)), "scales must fit"),
        ("table", np.zeros((7, 2)), "one column per component"),
        ("pivots", np.zeros((3, 3)), "pivots must be"),
        ("moments", np.empty((3, 7)), "moments must be"),
        ("counts", np.empty((6, 3)), "counts must be"),
        ("peaks", np.empty(2), "peaks must have"),
        ("head", np.empty(3), "head must have"),
        ("threads", 0, "threads must be"),
    ],
)
def test_wrong_arguments_are_refused(name, value, message):
    with pytest.raises(ValueError, match=message):
        _core.sum_mixed(**{**arguments(), name: value})


@pytest.mark.parametrize(
    ("name", "shape"),
    [("resp", (20, 2)), ("labels", (19,)), ("log_prob", (21,)), ("joint", (20, 4)), ("filled", (20, 3))],
)
def test_outputs_of_another_shape_are_refused(name, shape):
    call = arguments()
    taken = ("y", "codes", "starts", "observed", "log_weights", "means", "scales", "full", "table", "threads")
    outputs = dict.fromkeys(("resp", "labels", "log_prob", "joint", "filled"))
    outputs[name] = np.empty(shape, dtype=np.int64 if name == "labels" else np.float64)
    with pytest.raises(ValueError, match=f"{name} must"):
        _core.expect_mixed(**{one: call[one] for one in taken}, **outputs)


def test_outputs_that_overlap_are_refused():
    call = arguments()
    call["peaks"] = call["head"]
    with pytest.raises(ValueError, match="overlap"):
        _core.sum_mixed(**call)
