"""The five shapes of a covariance: each builds itself from moments, and is the same in every form."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import knoll
from knoll import GaussianMixture, tuning
from knoll.gaussian.covariance import (
    COVARIANCE_TYPES,
    Diagonal,
    Fixed,
    Full,
    Spherical,
    Tied,
    estimated_types,
)
from knoll.gaussian.moments import FLOOR, Moments
from tests.unit.covariances import made

SHAPES = [Full, Tied, Diagonal, Spherical]


def parameters(shape, k=3, d=4, seed=0):
    """Means, and covariances in scikit-learn's shape."""
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(k, d, d))
    full = roots @ roots.transpose(0, 2, 1) + 0.1 * np.eye(d)
    covariances = {
        Full: full,
        Tied: full[0],
        Diagonal: np.diagonal(full, axis1=1, axis2=2).copy(),
        Spherical: full[:, 0, 0].copy(),
    }
    return rng.normal(size=(k, d)), covariances[shape]


def as_matrices(covariance, k, d):
    """The k covariances as d × d matrices, whatever the shape."""
    values = covariance.covariances_
    if isinstance(covariance, Full):
        return values
    if isinstance(covariance, Tied):
        return np.repeat(values[None], k, axis=0)
    return np.stack([np.diag(np.broadcast_to(v, d)) for v in values])


@pytest.mark.parametrize("shape", SHAPES)
def test_every_form_of_a_covariance_is_the_same_one(shape):
    means, covariances = parameters(shape)
    one = made(shape, means, covariances)
    assert (one.covariances_ == covariances).all()
    for other in (
        shape.from_precisions_cholesky(means, one.precisions_cholesky_),
        shape.from_precisions(means, one.precisions_),
    ):
        np.testing.assert_allclose(other.covariances_, one.covariances_, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(other.precisions_, one.precisions_, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(other.precisions_cholesky_, one.precisions_cholesky_, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(other.log_norms(), one.log_norms(), rtol=1e-12)
    upper, precisions = one.precisions_cholesky_, one.precisions_
    if shape in (Full, Tied):
        np.testing.assert_allclose(upper @ np.swapaxes(upper, -1, -2), precisions, rtol=1e-10, atol=1e-10)
        assert (np.tril(upper, -1) == 0).all()
        np.testing.assert_allclose(precisions @ covariances, np.broadcast_to(np.eye(4), covariances.shape), atol=1e-9)
    else:
        np.testing.assert_allclose(upper**2, precisions, rtol=1e-14)
        np.testing.assert_allclose(precisions * covariances, 1.0, rtol=1e-14)


@pytest.mark.parametrize("shape", [*SHAPES, Fixed])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_densities_are_those_of_scipy(shape, dtype):
    k, d = 3, 4
    X = np.random.default_rng(1).normal(size=(200, d)).astype(dtype)
    if shape is Fixed:
        covariance = Fixed(parameters(Full)[0], 0.3)
    else:
        covariance = made(shape, *parameters(shape))
    matrices = as_matrices(covariance, k, d)
    got = covariance.log_density(X, 2)
    for c in range(k):
        expected = multivariate_normal(covariance.means[c], matrices[c]).logpdf(X.astype(np.float64))
        np.testing.assert_allclose(got[:, c], expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("shape", "count"), [(Full, 3 * 10), (Tied, 10), (Diagonal, 12), (Spherical, 3), (Fixed, 0)])
def test_free_numbers_are_counted(shape, count):
    assert shape().n_parameters(3, 4) == count


@pytest.mark.parametrize("shape", SHAPES)
def test_the_m_step_takes_the_right_average(shape):
    _k, d = 3, 4
    mean, full = parameters(Full, seed=2)
    mass, scale = np.array([1.0, 2.0, 5.0]), np.ones(d)
    stats = Moments(mass, mean, full, scale, reg_covar=0.5)
    got = shape().update(stats)
    regularised = full + 0.5 * np.eye(d)
    expected = {
        Full: regularised,
        Tied: np.average(regularised, axis=0, weights=mass),
        Diagonal: np.diagonal(regularised, axis1=1, axis2=2),
        Spherical: np.diagonal(regularised, axis1=1, axis2=2).mean(axis=1),
    }[shape]
    np.testing.assert_allclose(got.covariances_, expected, rtol=1e-14)
    assert got.floored == ()
    assert (got.means == mean).all()


def test_the_tied_covariance_from_the_scatter_of_all_is_the_direct_one():
    _k, d = 3, 4
    mean, full = parameters(Full, seed=3)
    mass = np.array([1.0, 2.0, 5.0])
    share = mass / mass.sum()
    total = np.einsum("c,cij->ij", share, full) + np.einsum("c,ci,cj->ij", share, mean, mean)
    direct = Tied().update(Moments(mass, mean, full, np.ones(d)))
    indirect = Tied().update(Moments(mass, mean, None, np.ones(d), total=total))
    np.testing.assert_allclose(indirect.covariance, direct.covariance, rtol=1e-13, atol=1e-13)


def test_tied_takes_the_direct_formula_for_far_means_and_when_requested():
    means, covariance = parameters(Tied)
    near = made(Tied, means, covariance)
    assert not near.prepared(direct=False).direct
    assert near.prepared(direct=True).direct
    far = made(Tied, means + 1e6, covariance)
    assert far.prepared(direct=False).direct
    X = np.random.default_rng(2).normal(size=(50, 4))
    one, other = near.prepared(direct=False).log_density(X, 1), near.prepared(direct=True).log_density(X, 1)
    np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_dead_keep_what_they_had(shape):
    means, covariances = parameters(shape)
    before = made(shape, means, covariances)
    mean, full = parameters(Full, seed=4)
    alive = np.array([True, False, True])
    after = before.update(
        Moments(np.array([1.0, 0.0, 1.0]), mean, full * alive[:, None, None], np.ones(4), alive=alive)
    )
    assert (after.means[1] == means[1]).all()
    assert (after.means[[0, 2]] == mean[[0, 2]]).all()
    assert after.floored == ()
    if shape is Tied:
        np.testing.assert_allclose(after.covariance, (full[0] + full[2]) / 2, rtol=1e-14)
    else:
        assert (after.covariances_[1] == covariances[1]).all()
        np.testing.assert_allclose(as_matrices(after, 3, 4)[0].trace(), full[0].trace(), rtol=1e-14)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_collapsed_component_is_floored_and_named(shape):
    k, _d = 3, 4
    mean, full = parameters(Full, seed=5)
    full[1] = 0.0
    scale = np.array([1.0, 2.0, 3.0, 0.0])  # a column that is constant everywhere has the unit of the others
    got = shape().update(Moments(np.ones(k), mean, full if shape is not Tied else full * 0, scale))
    unit = np.array([1.0, 4.0, 9.0, 14.0 / 3])
    assert np.isfinite(got.log_norms()).all()
    if shape is Spherical:
        assert got.floored == ((1, 0),)
        np.testing.assert_allclose(got.variances[1], FLOOR * unit.mean())
    elif shape is Diagonal:
        assert got.floored == ((1, 0), (1, 1), (1, 2), (1, 3))
        np.testing.assert_allclose(got.variances[1], FLOOR * unit)
    elif shape is Full:
        assert got.floored == ((1, 0),)
        np.testing.assert_allclose(got.covariances[1], np.diag(FLOOR * unit), atol=1e-18)
    else:
        assert got.floored == ((-1, 0),)
        np.testing.assert_allclose(got.covariance, np.diag(FLOOR * unit), atol=1e-18)


def test_a_flat_component_keeps_its_long_axes():
    d = 3
    full = np.diag([4.0, 1.0, 0.0])[None]
    got = Full().update(Moments(np.ones(1), np.zeros((1, d)), full, np.ones(d)))
    assert got.floored == ((0, 2),)
    np.testing.assert_allclose(got.covariances[0], np.diag([4.0, 1.0, FLOOR]), rtol=1e-12, atol=1e-18)


def test_rounding_of_equal_points_is_no_variance():
    """Points at a distance m from the origin are rounded by 2⁻⁵³ m, so a variance of that size is none."""
    full, away = np.full((1, 1, 1), 1e-33), np.ones((1, 1))
    assert Full().update(Moments(np.ones(1), away, full, np.ones(1))).floored == ((0, 0),)
    assert (
        Full().update(Moments(np.ones(1), 0 * away, full, np.ones(1))).floored == ()
    )  # at the origin nothing is rounded
    tiny = np.full((1, 1, 1), 1e-25)  # small, but a variance
    assert Full().update(Moments(np.ones(1), away, tiny, np.ones(1))).floored == ()


@pytest.mark.parametrize("shape", SHAPES)
def test_moving_the_frame_moves_the_density_with_the_points(shape):
    means, covariances = parameters(shape)
    one = made(shape, means, covariances)
    origin, scale = np.array([1.0, -2.0, 0.5, 4.0]), 0.25
    X = np.random.default_rng(3).normal(size=(40, 4))
    moved = one.moved(origin, scale)
    got = moved.log_density((X - origin) * scale, 1) + 4 * np.log(scale)
    np.testing.assert_allclose(got, one.log_density(X, 1), rtol=1e-11)
    assert (moved.covariances_ == one.covariances_ / 16).all()  # powers of two are exact


@pytest.mark.parametrize("shape", SHAPES)
def test_change_is_measured_in_standard_deviations(shape):
    means, covariances = parameters(shape)
    one = made(shape, means, covariances)
    assert one.change_from(one) == 0.0
    sigma = np.sqrt(as_matrices(one, 3, 4)[1][2, 2])
    shifted = means.copy()
    shifted[1, 2] += 0.25 * sigma
    assert made(shape, shifted, covariances).change_from(one) == pytest.approx(0.25)
    assert made(shape, means, covariances * 1.5).change_from(one) == pytest.approx(0.5)


def test_a_fixed_covariance_never_changes():
    means, _full = parameters(Full)
    fixed = Fixed(np.zeros((3, 4)), 1e-300)
    after = fixed.update(Moments(np.ones(3), means, None, np.ones(4)))
    assert (after.means == means).all()
    assert (after.covariances_ == 1e-300).all()
    assert after.floored == ()
    assert fixed.change_from(fixed) == 0.0
    assert Fixed(means, 4.0).change_from(Fixed(means + 1.0, 4.0)) == pytest.approx(0.5)
    one = fixed.update(Moments(np.ones(3), means, None, np.ones(4), alive=np.array([True, False, True])))
    assert (one.means[1] == 0).all()
    assert (one.means[0] == means[0]).all()
    assert fixed.precisions_cholesky_**2 == pytest.approx(fixed.precisions_)


# ---- one table of types --------------------------------------------------------------------------------------------


def branches(tree):
    """Lines that compare or match a covariance type, or have the name of one that means nothing else."""
    subjects = ("covariance_type", "covariance_type_")
    for node in ast.walk(tree):
        if isinstance(node, ast.Match):
            compared = [node.subject]
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            literals = [node for side in sides for node in ast.walk(side) if isinstance(node, ast.Constant)]
            compared = sides if any(isinstance(literal.value, str) for literal in literals) else []
        else:
            compared = []
        if any(getattr(side, "attr", getattr(side, "id", "")) in subjects for side in compared):
            yield node.lineno
        if isinstance(node, ast.Constant) and node.value in ("tied", "diag", "spherical"):
            yield node.lineno


@pytest.mark.parametrize(
    "line",
    [
        'shape.covariance_type == "full"',
        'model.covariance_type_ in ("full", "fixed")',
        'sizes = {"tied": 1}',
        'match model.covariance_type:\n    case "full":\n        pass',
    ],
)
def test_a_branch_on_the_type_is_found(line):
    assert list(branches(ast.parse(line)))


def test_no_other_file_branches_on_the_type():
    source = Path(knoll.__file__).parent
    found = {
        f"{path.relative_to(source)}:{line}"
        for path in source.rglob("*.py")
        if path.name != "covariance.py"
        for line in branches(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert not found


def test_the_types_that_are_estimated():
    assert estimated_types() == ("full", "tied", "diag", "spherical")
    assert COVARIANCE_TYPES["fixed"].free_type in estimated_types()


@dataclass(frozen=True)
class Shared(Spherical):
    """One variance for all components."""

    def update(self, stats):
        own = super().update(stats)
        mean = np.average(own.variances, weights=stats.mass)
        return replace(own, variances=np.full(len(own.means), mean))

    @classmethod
    def n_parameters(cls, k, d):
        return 1


def test_a_type_is_added_in_one_place(monkeypatch):
    with pytest.raises(ValueError, match="covariance_type must be one of 'full', 'tied', 'diag', 'spherical', 'fixed'"):
        GaussianMixture(2, covariance_type="shared").fit([[0.0], [1.0]])
    monkeypatch.setitem(COVARIANCE_TYPES, "shared", Shared)
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(200, 2)), rng.normal(8, 2, size=(200, 2))])
    model = GaussianMixture(2, covariance_type="shared", random_state=0).fit(X)
    spherical = GaussianMixture(2, covariance_type="spherical", random_state=0).fit(X)
    assert model.covariances_[0] == model.covariances_[1] == pytest.approx(spherical.covariances_.mean(), rel=0.05)
    assert model.bic(X) == pytest.approx(-2 * len(X) * model.score(X) + (1 + 2 * 2 + 1) * np.log(len(X)))
    again = GaussianMixture.from_state(*model.to_state())
    assert (again.predict(X) == model.labels_).all()
    assert len(model.sample(10)[0]) == 10
    choice = tuning.choose_n_components(X, [1, 2], covariance_types=["spherical", "shared"], random_state=0)
    assert (choice.best, choice.model.covariance_type) == (2, "spherical")


@pytest.mark.parametrize("name", COVARIANCE_TYPES)
def test_arrays_of_a_type_have_its_shape(name):
    shape, (k, d) = COVARIANCE_TYPES[name], (3, 4)
    means, matrices = parameters(Full)
    one = shape.blank(0.5).with_pooled(means, matrices[0], np.sqrt(np.diagonal(matrices[0])), 1.0)
    kept = one.covariances_
    assert kept.shape == shape.shape_of(k, d)
    full = shape.as_matrices(kept, k, d)
    assert full.shape == (k, d, d)
    diagonals = np.broadcast_to(shape.diagonals(kept), (k, d))
    np.testing.assert_array_equal(np.diagonal(full, axis1=1, axis2=2), diagonals)
    powers = np.array([1, 1, 1, 1]) if shape.isotropic else np.array([1, -2, 3, 0])
    unit = np.ldexp(1.0, powers)
    scaled = np.ldexp(kept, shape.covariance_powers(powers))
    np.testing.assert_array_equal(shape.as_matrices(scaled, k, d), full * np.outer(unit, unit))
    assert shape.covariance_fault(kept) == shape.factor_fault(one.precisions_cholesky_) == ""
    assert shape.precision_fault(one.precisions_) == ""
    assert shape.precision_fault(-one.precisions_)
    narrow = one.narrow(means, 8.0)
    if name != "fixed":
        np.testing.assert_allclose(np.broadcast_to(shape.diagonals(narrow.covariances_), (k, d)), 1 / 64)
