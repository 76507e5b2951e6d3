"""DBSCAN in regions: for any cuts, blocks, memory, weights and dtypes the labels are those of all rows at once."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knoll import DBSCAN, reference
from knoll._common.blocks import BlockSource
from knoll.density.region_fit import Budget, RegionFit
from knoll.density.regions import Box, Cut
from knoll.exceptions import CostError

pytestmark = pytest.mark.filterwarnings("ignore::knoll.exceptions.SuspiciousResultWarning")

RADII = st.sampled_from([0.25, 0.5, 0.7, 1.0, float(np.sqrt(0.5)), 1.5, 4.0])


@st.composite
def tables(draw):
    """Lattices, real numbers with duplicates, and equal rows; float64 and float32, far from 0 and near it."""
    n, d = draw(st.integers(1, 80)), draw(st.sampled_from([1, 1, 2, 2, 2, 3, 4, 5]))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = draw(st.sampled_from(["lattice", "real", "equal", "line"]))
    if shape == "lattice":
        X = random.integers(-4, 5, size=(n, d)) * 0.5
    elif shape == "equal":
        X = np.zeros((n, d))
    elif shape == "line":
        X = np.zeros((n, d))
        X[:, 0] = np.cumsum(random.choice([0.25, 0.5, 0.75, 1.0], size=n))
        X = X[random.permutation(n)]
    else:
        X = random.normal(size=(n, d)) * draw(st.sampled_from([0.3, 1.0, 3.0]))
        X[random.integers(n, size=n // 4)] = X[0]
    X = X + draw(st.sampled_from([0.0, 0.0, 1000.0]))
    return X.astype(draw(st.sampled_from([np.float64, np.float32])))


@st.composite
def weights_of(draw, n):
    """No weights, small whole ones with zeros, or real ones whose sums are near a level."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    which = draw(st.sampled_from(["none", "whole", "tenths", "huge"]))
    if which == "none":
        return None
    if which == "whole":
        w = random.integers(0, 3, size=n).astype(float)
    else:
        w = random.choice([0.0, 0.1, 0.2, 0.7, 1.0] if which == "tenths" else [1e-300, 1.0, 1e20, 0.0], size=n)
    w[0] = max(w[0], 1.0)
    return w


def any_cuts(draw, X, box, depth):
    """Cuts anywhere: at values of rows, beside them, outside of all of them."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return box
    axis = draw(st.integers(0, X.shape[1] - 1))
    value = X[draw(st.integers(0, len(X) - 1)), axis]
    side = draw(st.sampled_from([0.0, 0.0, 0.1, -0.1, 1.0]))
    value = float(X.dtype.type(value + X.dtype.type(side)))
    if not box.low[axis] < value < box.high[axis]:
        return box
    below, above = box.cut(axis, value)
    return Cut(axis, value, any_cuts(draw, X, below, depth - 1), any_cuts(draw, X, above, depth - 1))


def blocks_of(X, w, seed):
    """The table as blocks of any length, some empty."""
    ends = np.sort(np.random.default_rng(seed).integers(0, len(X) + 1, size=3))
    parts = zip(np.split(X, ends), [None] * 4 if w is None else np.split(w, ends), strict=True)
    return [part if weights is None else (part, weights) for part, weights in parts]


def in_regions(model, blocks, cuts, room=None):
    """The labels and core rows by regions cut here; with `room`, those of more rows are cut again."""
    with RegionFit(model._region_rule(), 10**9, Path(tempfile.gettempdir()), model) as fit:
        fit.read(BlockSource(lambda: iter(blocks), model)())
        if room is not None:
            fit._budget = Budget(10**9, room, 16, 100.0)
        fit.solve(cuts)
        found = list(fit.labels())
        assert fit.core_rows == sum(int(each.core.sum()) for each in found)
        labels, core = (np.concatenate(each) for each in zip(*found, strict=True))
        assert fit.clusters == labels.max() + 1
        return labels, np.flatnonzero(core)


@pytest.mark.parametrize("at", [0.5, 1.2, 1.7, 2.2, 2.7])
@pytest.mark.parametrize("flip", [1.0, -1.0])
def test_a_border_row_whose_core_row_has_its_neighbours_in_other_regions(at, flip):
    """Row 0 is on the border of the cluster of row 1, which is core by rows 2ε away from row 0."""
    X = np.array([[0.0], [1.0], [2.0], [2.5], [3.0]]) * flip
    model = DBSCAN(1.0, min_samples=3)
    below, above = Box.everything(1).cut(0, at * flip)
    labels, core = in_regions(model, [X], Cut(0, at * flip, below, above))
    assert labels.tolist() == [0] * 5
    assert core.tolist() == [1, 2, 3, 4]


@settings(max_examples=300)
@given(st.data(), tables(), RADII, st.integers(1, 6), st.sampled_from(["closest", "noise"]))
def test_any_cuts_give_the_labels_of_all_rows_at_once(data, X, eps, level, border):
    w = data.draw(weights_of(len(X)))
    metric = data.draw(st.sampled_from(["euclidean", "euclidean", "manhattan", "chebyshev"]))
    model = DBSCAN(eps, min_samples=level, border=border, metric=metric)
    cuts = any_cuts(data.draw, X, Box.everything(X.shape[1]), 4)
    labels, core = in_regions(model, blocks_of(X, w, data.draw(st.integers(0, 99))), cuts)
    model.fit(X, sample_weight=w)
    np.testing.assert_array_equal(labels, model.labels_)
    np.testing.assert_array_equal(core, model.core_sample_indices_)


@settings(max_examples=60)
@given(st.data(), tables(), RADII, st.integers(1, 6))
def test_little_room_cuts_again_merges_equal_rows_or_refuses(data, X, eps, level):
    w = data.draw(weights_of(len(X)))
    model = DBSCAN(eps, min_samples=level)
    room = data.draw(st.integers(1, 100))
    cuts = any_cuts(data.draw, X, Box.everything(X.shape[1]), 2)
    try:
        labels, core = in_regions(model, blocks_of(X, w, 0), cuts, room)
    except CostError as error:
        if "cannot be divided into regions" not in str(error):
            raise
        assert len(np.unique(X, axis=0)) > room / 40  # a sum of weights is up to 40 addends
        return
    model.fit(X, sample_weight=w)
    np.testing.assert_array_equal(labels, model.labels_)
    np.testing.assert_array_equal(core, model.core_sample_indices_)


@settings(max_examples=25)
@given(
    st.integers(0, 2**32),
    st.integers(2000, 6000),
    st.integers(1, 3),
    st.sampled_from(["60kB", "150kB", "1MB"]),
    st.sampled_from([None, 1, 3]),
)
def test_a_small_memory_gives_the_labels_of_fit(seed, n, d, memory, decimals):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d)) + 4 * random.integers(0, 5, size=(n, 1))
    X = X if decimals is None else X.round(decimals)
    model = DBSCAN(0.1 * d, min_samples=4)
    expected = model.fit(X).labels_
    try:
        found = model.fit_blocks(lambda: iter(blocks_of(X, None, seed)), memory=memory)
    except CostError:
        assert memory != "1MB"  # which all rows fit into
        return
    np.testing.assert_array_equal(found.labels_, expected)
    sizes = np.bincount(expected[expected >= 0], minlength=expected.max() + 1)
    np.testing.assert_array_equal(found.cluster_sizes_, sizes)
    assert found.regions_["noise"] == (expected < 0).sum()


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.sampled_from([1e-300, 1e-162, 1e-30, 1e30, 1e150, 1e300]))
def test_any_magnitude(seed, scale):
    random = np.random.default_rng(seed)
    X = (random.integers(-4, 5, size=(80, 2)) + random.choice([0.0, 0.1], size=(80, 2))) * scale
    model = DBSCAN(scale, min_samples=3)
    box = Box.everything(2)
    below, above = box.cut(0, float(X[3, 0]))
    cuts = Cut(0, float(X[3, 0]), Cut(1, float(X[5, 1]), *below.cut(1, float(X[5, 1]))), above)
    labels, core = in_regions(model, [X], cuts)
    model.fit(X)
    np.testing.assert_array_equal(labels, model.labels_)
    np.testing.assert_array_equal(core, model.core_sample_indices_)


@settings(max_examples=100)
@given(st.data(), tables(), RADII, st.integers(1, 6))
def test_the_reference_in_regions_is_the_graph_version(data, X, eps, level):
    axes = st.integers(0, X.shape[1] - 1)
    cuts = [(data.draw(axes), float(X[data.draw(st.integers(0, len(X) - 1)), 0])) for _ in range(3)]
    found = reference.run(reference.dbscan_regions(X, eps, level, cuts))
    expected = reference.run(reference.dbscan_graph(X, eps, level))
    np.testing.assert_array_equal(found.labels, expected.labels)
    np.testing.assert_array_equal(found.core, expected.core)
