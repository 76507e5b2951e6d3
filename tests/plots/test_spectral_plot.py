"""Pictures of spectral clustering: the rows of its embedding, its eigenvalues, and the gap after the clusters."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex

from knoll import SpectralClustering, datasets, plots, tuning
from knoll.plots.style import PALETTE, RED


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def banana():
    return SpectralClustering(2, random_state=0).fit(datasets.load("banana").X)


def test_the_embedding_is_drawn_row_by_row_in_the_colours_of_the_clusters(banana):
    ax = plots.embedding(banana)
    drawn = [c for c in ax.collections if len(c.get_offsets())]
    assert [to_hex(c.get_facecolor()[0]).upper() for c in drawn] == list(PALETTE[:2])
    for c, dots in enumerate(drawn):
        np.testing.assert_array_equal(np.asarray(dots.get_offsets()), banana.embedding_[banana.labels_ == c])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("eigenvector 1", "eigenvector 2")


def test_more_eigenvectors_are_drawn_in_their_principal_axes():
    X = np.random.default_rng(0).normal(size=(90, 2)) + 20 * np.repeat([[0, 0], [1, 0], [0, 1]], 30, axis=0)
    ax = plots.embedding(SpectralClustering(3, sigma=6.0, random_state=0).fit(X))
    assert "principal axis 1 of 3" in ax.get_xlabel()


def test_the_eigenvalues_of_a_model_and_the_next_one(banana):
    ax = plots.eigenvalues(banana)
    kept, others, line = ax.lines
    np.testing.assert_array_equal(kept.get_ydata(), banana.eigenvalues_)
    np.testing.assert_allclose(others.get_ydata(), banana.eigenvalues_[-1] - banana.eigengap_)
    assert set(line.get_xdata()) == {2.5}
    assert to_hex(line.get_color()).upper() == RED


def test_the_eigenvalues_of_a_choice():
    values = [1.0, 0.99, 0.98, 0.6, 0.55, 0.5]
    choice = tuning.eigengap(values)
    ax = plots.eigenvalues(choice)
    kept, others, line = ax.lines
    np.testing.assert_allclose(np.concatenate([kept.get_ydata(), others.get_ydata()]), values)
    assert len(kept.get_ydata()) == choice.best == 3
    assert set(line.get_xdata()) == {3.5}
    assert "after 3: gap 0.38" in [text.get_text() for text in ax.texts]
    jumps, marked = plots.selection(choice).lines
    np.testing.assert_array_equal(jumps.get_ydata(), choice.curve["eigengap"])
    assert set(marked.get_xdata()) == {3}


def test_axes_are_reused(banana):
    _, ax = plt.subplots()
    assert plots.embedding(banana, ax) is ax
    assert plots.eigenvalues(banana, ax=ax) is ax
