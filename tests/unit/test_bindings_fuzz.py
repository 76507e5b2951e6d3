"""A short run of the fuzz of the bindings: every function is reached, and nothing crashes, hangs or fails otherwise."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from fuzz.bindings import ACCEPTED, REFUSED, main
from knoll import _core


def test_no_binding_crashes_or_hangs():
    result = main(8, seed=0)
    assert not result.faults, "\n\n".join(result.faults)
    assert not result.unreached()
    changed = result.counts[:, [ACCEPTED, REFUSED]].sum(axis=0)
    assert (changed > 0).all(), result.table()


def test_any_byte_but_zero_is_true():
    rng = np.random.default_rng(0)
    marks = rng.random(40) < 0.4
    odd = np.where(marks, rng.integers(1, 256, size=40), 0).astype(np.uint8).view(np.bool_)
    parent = np.array([-1, *(rng.integers(0, i) for i in range(1, 40))])
    answers = []
    for flags in (marks, odd):
        around = np.empty(40, np.int64)
        _core.enclosing_clusters(parent, flags, around)
        answers.append(around)
    np.testing.assert_array_equal(*answers)
