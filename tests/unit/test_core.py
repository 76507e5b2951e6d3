"""The native core as Python sees it: exact sums, instruction sets, build facts."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import knoll
from knoll import _core
from knoll._system import build_facts

finite = st.floats(allow_nan=False, allow_infinity=False)


def exact_sum(values, split=0) -> float:
    """Σ values through the moments kernel: one row per value about origin 0, and the first moment is their sum."""
    halves = []
    for half in (values[:split], values[split:]):
        sums = np.zeros((_core.SUM_WORDS, 3), dtype=np.int64)
        for value in half:  # one call each: nothing is added in float64
            _core.add_moments(np.array([[value]]), None, np.zeros(1), sums, 1)
        halves.append(sums)
    _core.exact_merge(halves[0], halves[1], 1)
    out = np.empty(3)
    _core.exact_round(halves[0], out, 1)
    assert out[0] == len(values)
    return float(out[1])


@given(st.lists(finite, max_size=30), st.integers(0, 30), st.randoms())
def test_exact_sums_are_fsum_in_any_order_and_grouping(values, split, random):
    try:
        expected = math.fsum(values)
    except OverflowError:
        return  # fsum gives up on intermediate overflow; the C++ tests go there
    assert exact_sum(values, split) == expected
    random.shuffle(values)
    assert exact_sum(values, split // 2) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [([np.inf, 1.0], np.inf), ([np.inf, -np.inf], np.nan), ([np.nan, 1.0], np.nan), ([-np.inf], -np.inf)],
)
def test_exact_sums_of_what_is_not_finite(values, expected):
    np.testing.assert_equal(exact_sum(values, 1), expected)


def test_exp_and_log_are_numpys_to_two_units():
    x = np.linspace(-700, 700, 100_001)
    y = np.empty_like(x)
    _core.exp(x, y)
    np.testing.assert_array_max_ulp(y, np.exp(x), maxulp=3)  # ours ≤ 2, and NumPy's own error
    _core.log(y, y)
    np.testing.assert_allclose(y, x, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: _core.add_moments(np.zeros((3, 2)), np.ones(2), np.zeros(2), np.zeros((70, 6), np.int64), 1),
            "weights",
        ),
        (lambda: _core.add_moments(np.zeros((3, 2)), None, np.zeros(3), np.zeros((70, 6), np.int64), 1), "origin"),
        (lambda: _core.add_moments(np.zeros((3, 2)), None, np.zeros(2), np.zeros((70, 5), np.int64), 1), "sums"),
        (lambda: _core.mahalanobis2(np.zeros((3, 2)), np.zeros(2), np.zeros((2, 3)), np.zeros(3), 1), "factor"),
        (lambda: _core.mahalanobis2(np.zeros((3, 2)), np.zeros(2), np.zeros((2, 2)), np.zeros(2), 1), "out"),
        (lambda: _core.exact_round(np.zeros((70, 5), np.int64), np.zeros(4), 1), "out"),
        (lambda: _core.cholesky(np.zeros((2, 3)), 0.0), "square"),
        (lambda: _core.invert_lower(np.zeros((2, 2)), np.zeros((3, 3))), "square"),
        (lambda: _core.exp(np.zeros(2), np.zeros(3)), "one length"),
    ],
)
def test_shapes_are_checked_before_a_kernel_runs(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, timeout=120
    )


FIT = """
import json, warnings
import numpy as np
from knoll import Gaussian, _core
X = np.random.default_rng(0).normal(size=(10_000, 7)) @ np.triu(np.ones((7, 7)))
model = Gaussian(random_state=3).fit(X)
answers = [model.covariance_, model.score_samples(X[:50]), model.sample(5)]
print(json.dumps([_core.build_info()["instruction set"], *(answer.tolist() for answer in answers)]))
"""


def test_instruction_sets_agree():
    here = build_facts()["instruction sets available"].split(", ")
    answers = {}
    for name in here:
        done = run(FIT, KNOLL_ISA=name)
        assert done.returncode == 0, done.stderr
        found, *numbers = json.loads(done.stdout)
        assert found == name
        answers[name] = [np.array(n) for n in numbers]
    for name in here[1:]:
        for ours, theirs in zip(answers[name], answers[here[0]]):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def test_an_unknown_instruction_set_is_reported():
    done = run("import knoll; knoll.Gaussian", KNOLL_ISA="sse9")
    assert done.returncode != 0
    assert "KNOLL_ISA is sse9, but this build on this machine can run only:" in done.stderr


def test_show_build_prints_what_a_report_needs(capsys):
    knoll.show_build()
    text = capsys.readouterr().out
    for word in ("compiler", "instruction set", "threads", "numpy", knoll.__version__):
        assert word in text
    assert _core.version == knoll.__version__
