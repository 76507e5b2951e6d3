"""A short run of the fuzz of the bindings: every function is reached, and nothing crashes, hangs or fails otherwise."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from fuzz.bindings import ACCEPTED, REFUSED, main


def test_no_binding_crashes_or_hangs():
    result = main(8, seed=0)
    assert not result.faults, "\n\n".join(result.faults)
    assert not result.unreached()
    changed = result.counts[:, [ACCEPTED, REFUSED]].sum(axis=0)
    assert (changed > 0).all(), result.table()
