"""No data makes a relation fail that is true, warn, or end in anything but a sentence of what to do."""

from __future__ import annotations

import re

import numpy as np
import pytest

from knoll import relations
from knoll.exceptions import BadData, InvalidParameter, KnollError
from knoll.relations._common import shifted_to_zero
from knoll.relations._kernel import indicator

PLAIN = np.random.default_rng(0).normal(size=(60, 2))
HARD = {
    "two rows": PLAIN[:2],
    "three rows": PLAIN[:3],
    "all rows equal": np.ones((20, 2)),
    "four rows, six times": np.repeat(PLAIN[:4], 6, axis=0),
    "a constant column": np.column_stack([PLAIN, np.full(60, 7.0)]),
    "more columns than rows": np.random.default_rng(1).normal(size=(8, 50)),
    "ties": np.random.default_rng(2).integers(0, 3, size=(50, 3)).astype(float),
    "on a line": np.column_stack([np.arange(30.0), 2 * np.arange(30.0)]),
    "almost on a line": np.column_stack([PLAIN[:, 0], 3 * PLAIN[:, 0] + 1e-7 * PLAIN[:, 1]]),
    "an outlier at 1e6": np.concatenate([PLAIN, [[1e6, 1e6]]]),
    "two groups 1e5 apart": np.concatenate([PLAIN, PLAIN + 1e5]),
    "powers of ten": 10.0 ** np.arange(-20, 20)[:, None],
    "moved by 1e8": PLAIN + 1e8,
    "moved by -1e15": PLAIN - 1e15,
    "1e150": PLAIN * 1e150,
    "1e-150": PLAIN * 1e-150,
    "1e300": PLAIN * 1e300,
    "1e-300": PLAIN * 1e-300,
    "one column large, one small": PLAIN * [1e150, 1e-150],
}


@pytest.mark.parametrize("relation", relations.all(), ids=lambda relation: relation.name)
@pytest.mark.parametrize("name", HARD)
def test_it_holds_declines_or_reports_what_to_do(relation: relations.Relation, name: str) -> None:
    """Warnings are errors here, so this also checks that nothing is computed from a NaN on the way."""
    X = HARD[name]
    for k in (None, 1, len(X)):
        parameters = {p: k for p in ("n_clusters", "n_components") if k is not None and p in relation.parameters}
        if k is not None and not parameters:
            continue
        try:
            certificate = relation.certify(X, **parameters)
        except KnollError:
            continue
        assert certificate.verdict != "fails", str(certificate)


@pytest.mark.parametrize("name", ["mixture-to-kmeans", "mean-shift-ascent", "gaussian-is-mixture-of-one"])
@pytest.mark.parametrize("far", [1e8, -1e12])
def test_far_from_zero_it_holds_all_the_same(name: str, far: float) -> None:
    certificate = relations.get(name).certify(PLAIN + np.array([far, 0.0]))
    assert certificate.verdict == "holds", str(certificate)


def test_bringing_near_changes_no_distance() -> None:
    X = np.column_stack([PLAIN[:, 0] + 1e8, PLAIN[:, 1] - 3e7, PLAIN[:, 0]])
    near = shifted_to_zero(X)
    assert np.abs(near).max() < 10
    assert np.array_equal(near[:, None] - near, X[:, None] - X)
    assert np.array_equal(near[:, 2], X[:, 2])


@pytest.mark.parametrize("relation", relations.all(), ids=lambda relation: relation.name)
def test_extreme_data_is_refused_with_the_remedy(relation: relations.Relation) -> None:
    with pytest.raises(BadData, match=r"X has values up to 2\.\d+e\+300, whose squares overflow. Divide X by"):
        relation.certify(HARD["1e300"])
    with pytest.raises(BadData, match=r"lie within 4\.\d+e-300 of each other.*Multiply X by a power of two near"):
        relation.certify(HARD["1e-300"])


@pytest.mark.parametrize("name", ["climb-to-mean-shift", "mean-shift-ascent"])
def test_a_bandwidth_of_zero_is_no_bandwidth(name: str) -> None:
    with pytest.raises(BadData, match=r"The estimated bandwidth of 20 rows is 0.*Set bandwidth > 0"):
        relations.get(name).certify(HARD["all rows equal"])
    assert relations.get(name).certify(HARD["all rows equal"], bandwidth=1.0)


def test_more_clusters_than_rows() -> None:
    with pytest.raises(BadData, match=r"n_clusters=61, but there are 60 rows. Use n_clusters <= 60"):
        relations.get("normalized-cut-is-kernel-kmeans").certify(PLAIN, n_clusters=61)


def test_a_component_that_died_takes_no_row() -> None:
    """All rows equal: all components but one lose their weight, and log 0 must not hide a wrong label."""
    certificate = relations.get("mixture-distance").certify(HARD["all rows equal"], n_components=3)
    assert certificate.verdict == "holds"
    assert all(np.isfinite(check.value) for check in certificate.checks)


def test_an_empty_cluster_has_no_column() -> None:
    Y = indicator(np.array([0, 2, 2]), np.ones(3))
    assert Y.shape == (3, 2)
    assert np.allclose(Y.T @ Y, np.eye(2))


@pytest.mark.parametrize("relation", relations.all(), ids=lambda relation: relation.name)
@pytest.mark.parametrize("length", [1e-300, 1e300])
def test_a_scale_whose_square_leaves_float64_is_refused(relation: relations.Relation, length: float) -> None:
    for scale in {"eps", "bandwidth", "sigma"} & set(relation.parameters):
        with pytest.raises(
            InvalidParameter, match=rf"{scale} must lie between .*, got {re.escape(f'{length:g}')}.*Multiply X and"
        ):
            relation.certify(PLAIN, **{scale: length})
