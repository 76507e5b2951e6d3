"""Labels for fixed seeds are what they were: a change is meant, and stands in the change log.

``python -m tests.digest --write`` keeps new ones.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.digest.cases import answer, cases
from tests.digest.digests import of_bits, of_labels

KEPT = json.loads(Path(__file__).with_name("labels.json").read_text(encoding="utf-8"))
CASES = dict(cases())
FAMILIES = sorted({name.split("/")[0] for name in CASES})


@pytest.mark.parametrize("family", FAMILIES)
def test_labels_for_fixed_seeds_are_unchanged(family):
    found = {name: of_labels(answer(fit)) for name, fit in CASES.items() if name.split("/")[0] == family}
    kept = {name: digest for name, digest in KEPT.items() if name.split("/")[0] == family}
    assert found == kept


def test_a_change_would_be_seen():
    one, other = (answer(CASES[f"kmeans-auto/plane/float64/{weighting}"]) for weighting in ("plain", "whole"))
    assert of_labels(one) != of_labels({**one, "labels_": one["labels_"][::-1]})
    assert of_bits(one) != of_bits(other)
    moved = one["cluster_centers_"].copy()
    moved[0, 0] += 1e-12
    assert of_bits(one) != of_bits({**one, "cluster_centers_": moved})
