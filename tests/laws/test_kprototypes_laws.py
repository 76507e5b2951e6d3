"""Laws of KPrototypes: the objective never rises; orders and repetition change nothing; k-means on indicators."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from knoll import KMeans, KPrototypes, load, save
from knoll.exceptions import BadData, ConvergenceWarning, InvalidParameter
from knoll.reference import kprototypes, run


def table(n=240, p=3, q=3, missing=0.1, seed=0, k=3):
    rng = np.random.default_rng(seed)
    group = rng.integers(k, size=n)
    X = rng.normal(size=(n, p)) + 3 * rng.normal(size=(k, p))[group]
    codes = np.where(rng.random((n, q)) < 0.7, group[:, None], rng.integers(4, size=(n, q)))
    rows = np.column_stack([X, codes.astype(float)])
    rows[rng.random(rows.shape) < missing] = np.nan
    return rows


def fitted(rows, p=3, k=3, sample_weight=None, **options):
    options = {"random_state": 0, "categorical_features": np.arange(rows.shape[1]) >= p, **options}
    return KPrototypes(k, **options).fit(rows, sample_weight=sample_weight)


def brute(rows, model, p=3):
    """The distances by their definition, one row and one prototype at a time."""
    found = np.zeros((len(rows), len(model.cluster_means_)))
    for (i, row), c in itertools.product(enumerate(rows), range(found.shape[1])):
        for j, value in enumerate(row):
            if value != value:
                continue
            if j < p:
                found[i, c] += (value - model.cluster_means_[c, j]) ** 2
            else:
                levels = model.categories_[j - p]
                found[i, c] += model.gamma_ * (levels[model.cluster_modes_[c, j - p]] != value)
    return found


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize(("p", "q"), [(3, 3), (0, 4), (3, 0), (1, 1)])
def test_distances_objective_and_fixed_point(missing, p, q):
    for seed in range(4):
        rows = table(p=p, q=q, missing=missing, seed=seed)
        model = fitted(rows, p=p, random_state=seed)
        distances = brute(rows, model, p)
        np.testing.assert_allclose(model.transform(rows), distances, rtol=1e-12, atol=1e-12)
        assert (model.predict(rows) == model.labels_).all()
        assert (model.labels_ == model.transform(rows).argmin(axis=1)).all()
        assert model.inertia_ == pytest.approx(distances.min(axis=1).sum())
        objective = model.history_["objective"]
        assert (np.diff(objective) <= 1e-10 * objective[1:]).all()
        assert model.score(rows) == pytest.approx(-model.inertia_)
        for c in range(3):
            own = rows[model.labels_ == c]
            for j in range(p):
                if len(own) and not np.isnan(own[:, j]).all():
                    assert model.cluster_means_[c, j] == pytest.approx(np.nanmean(own[:, j]), abs=1e-10)
            for j in range(q):
                counts = [(own[:, p + j] == level).sum() for level in model.categories_[j]]
                if sum(counts):
                    assert counts[model.cluster_modes_[c, j]] == max(counts)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_steps_equal_the_reference(missing):
    rows = table(missing=missing)
    start = fitted(rows, max_iter=50)
    codes = np.where(np.isnan(rows[:, 3:]), -1, rows[:, 3:]).astype(int)
    state = run(kprototypes(rows[:, :3], codes, start.cluster_means_, start.cluster_modes_, start.gamma_))
    assert (state.labels == start.labels_).all()
    np.testing.assert_allclose(state.means, start.cluster_means_, rtol=1e-12)
    assert (state.modes == start.cluster_modes_).all()
    assert state.objective == pytest.approx(start.inertia_)


def test_orders_repetition_and_threads_change_nothing():
    rng = np.random.default_rng(1)
    rows = table()
    times = rng.integers(0, 4, size=len(rows))
    repeated = np.repeat(rows, times, axis=0)
    model = fitted(rows, sample_weight=times)
    order = np.array([4, 1, 5, 0, 3, 2])
    for other in (fitted(repeated, n_jobs=3), fitted(rng.permutation(repeated), n_jobs=1)):
        assert model.cluster_means_.tobytes() == other.cluster_means_.tobytes()
        assert (model.cluster_modes_ == other.cluster_modes_).all()
        assert model.gamma_ == other.gamma_
        assert (model.history_["objective"] == other.history_["objective"]).all()
        assert model.inertia_ == other.inertia_ == model.history_["objective"][-1]
    moved = fitted(rows[:, order], sample_weight=times, categorical_features=order >= 3)
    assert (moved.labels_ == model.labels_).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_the_order_of_rows_changes_no_bit_of_a_sum(weighted):
    rng = np.random.default_rng(2)
    for seed in range(8):
        rows = table(n=150, seed=seed)
        weights, order = rng.uniform(0.1, 3.0, size=len(rows)) if weighted else np.ones(len(rows)), rng.permutation(150)
        model = fitted(rows, sample_weight=weights)
        other = fitted(rows[order], sample_weight=weights[order])
        assert model.inertia_ == other.inertia_
        assert model.score(rows, sample_weight=weights) == model.score(rows[order], sample_weight=weights[order])


def indicators(rows, model, p=3):
    """Numbers, and an indicator of length √(γ/2) for each level."""
    length = np.sqrt(model.gamma_ / 2)
    blocks = [length * (rows[:, p + j, None] == levels) for j, levels in enumerate(model.categories_)]
    return np.column_stack([rows[:, :p], *blocks])


def test_relation_to_kmeans_on_indicator_columns():
    """Distances to prototypes are squared Euclidean ones (eq. 3.19), and the objectives bound each other (eq. 3.20)."""
    for seed in range(5):
        rows = table(missing=0.0, seed=seed)
        model = fitted(rows, random_state=seed)
        wide = indicators(rows, model)
        levels = [v[model.cluster_modes_[:, j]] for j, v in enumerate(model.categories_)]
        vertices = indicators(np.column_stack([model.cluster_means_, *levels]), model)
        squared = np.square(wide[:, None] - vertices[None]).sum(axis=2)
        np.testing.assert_allclose(squared, model.transform(rows), rtol=1e-12, atol=1e-12)
        means = np.array([wide[model.labels_ == c].mean(axis=0) for c in range(3)])
        for c in range(3):  # a mode is the mean rounded to a vertex: its largest indicator
            at = 3
            for j, level in enumerate(model.categories_):
                block = means[c, at : at + len(level)]
                assert block[model.cluster_modes_[c, j]] == pytest.approx(block.max())
                at += len(level)
        kmeans = np.square(wide - means[model.labels_]).sum()
        assert kmeans <= model.inertia_ * (1 + 1e-12)
        assert model.inertia_ <= 2 * kmeans * (1 + 1e-12)


def test_numbers_alone_are_kmeans():
    rows = table(q=0, missing=0.0)
    model = fitted(rows)
    again = KMeans(3, init=model.cluster_means_, n_init=1).fit(rows)
    assert (again.labels_ == model.labels_).all()
    assert again.inertia_ == pytest.approx(model.inertia_)


def test_rows_and_columns_without_a_value():
    rows = table()
    rows[5], rows[:, 1], rows[:, 4] = np.nan, np.nan, np.nan
    model = fitted(rows)
    assert model.labels_[5] == 0
    assert (model.transform(rows)[5] == 0).all()
    assert (model.cluster_modes_[:, 1] == -1).all()
    assert np.isfinite(model.cluster_means_).all()


@pytest.mark.parametrize("factor", [2.0**-600, 2.0**-300, 2.0**300, 2.0**450])
def test_units_do_not_matter(factor):
    rows = table()
    scaled = rows * np.where(np.arange(6) < 3, factor, 1.0)
    assert (fitted(rows).labels_ == fitted(scaled).labels_).all()


def test_empty_clusters_move():
    rows = np.repeat(table(n=6, missing=0.0), 4, axis=0)
    assert len(np.unique(fitted(rows, k=6, init="random", random_state=1).labels_)) == 6
    assert fitted(rows, k=6).inertia_ == pytest.approx(0.0, abs=1e-20)
    assert fitted(rows, k=9).inertia_ == pytest.approx(0.0, abs=1e-20)


def test_frames_and_model_files(tmp_path):
    rows = table()
    frame = pd.DataFrame(rows).rename(columns=str)
    frame["4"] = [f"level {v:g}" if v == v else None for v in frame["4"]]
    model = KPrototypes(3, categorical_features=["3", "4", "5"], random_state=0).fit(frame)
    assert (model.labels_ == fitted(rows).labels_).all()
    save(model, tmp_path / "model.knoll")
    again = load(tmp_path / "model.knoll")
    assert again.transform(frame).tobytes() == model.transform(frame).tobytes()


def test_what_is_wrong_is_named():
    with pytest.raises(BadData, match="Take fewer clusters"):
        fitted(table(n=4), k=5)
    with pytest.raises(InvalidParameter, match="gamma must be >= 0"):
        fitted(table(), gamma=-1.0)
    with pytest.warns(ConvergenceWarning, match="Increase max_iter"):
        fitted(table(), max_iter=1)


def test_distances_are_sums_column_by_column():
    """To the bit, with missing values, for any number of threads and rows that fill no block."""
    rows = table(1300, seed=5)
    model = fitted(rows, k=4)
    expected = np.zeros((len(rows), 4))
    for c in range(4):
        for j in range(3):
            expected[:, c] += np.where(np.isnan(rows[:, j]), 0.0, (rows[:, j] - model.cluster_means_[c, j]) ** 2)
        levels = [model.categories_[j][model.cluster_modes_[c, j]] for j in range(3)]
        differ = ((rows[:, 3:] != levels) & ~np.isnan(rows[:, 3:])).sum(axis=1)
        expected[:, c] += model.gamma_ * differ
    for threads in (1, 2, 5):
        model.set_params(n_jobs=threads)
        np.testing.assert_array_equal(model.transform(rows), expected)
        np.testing.assert_array_equal(model.predict(rows), expected.argmin(axis=1))
