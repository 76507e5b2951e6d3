"""The judge: integer tables equal the trained trees, ranks follow the stated rule, the generator draws what it says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

from battery.boosters import tables_of, thresholds_of
from battery.collect import collect, load, save
from battery.figures import choose, told
from battery.generator import STRUCTURED, STRUCTURELESS, TEST_ONLY, draw
from battery.train import made_judge
from knoll.comparison.boosting import Boosted, encode
from knoll.comparison.judge import Judge, Judgement, differing, ranked


@pytest.fixture(scope="module")
def sets():
    kinds = ("gaussians", "moons", "none-gaussian")
    return [collect(draw(kind, seed), seed) for kind in kinds for seed in (11, 13)]


@pytest.fixture(scope="module")
def judge(sets) -> Judge:
    return made_judge(sets, sets, rounds=25)


def test_tables_equal_the_trees_they_come_from():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 5))
    y = X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2])
    model = HistGradientBoostingRegressor(max_iter=20, max_leaf_nodes=12).fit(X, y)
    thresholds = thresholds_of([model], 5)
    tables = tables_of(model, thresholds)
    again = Boosted.from_arrays(tables.arrays("a"), "a")
    new = np.vstack([rng.normal(size=(300, 5)), thresholds[:, :3].T])  # values at the thresholds, too
    for found in (tables, again):
        assert np.abs(found.predict(encode(new, thresholds)) - model.predict(new)).max() < 21 * 2.0**-17


def test_a_judge_comes_back_from_its_file(judge, sets, tmp_path, monkeypatch):
    judge.save(tmp_path / "judge.npz")
    with np.load(tmp_path / "judge.npz") as tables:
        again = Judge.from_tables(tables)
    assert again.digest() == judge.digest()
    assert np.array_equal(again.score(sets[0].features), judge.score(sets[0].features))


def test_it_prefers_what_it_was_trained_to(judge, sets):
    chosen = [choose(judge, one) for one in sets]
    assert all(c.ari > 0.8 * c.best for c in chosen if c.structured)
    assert all(c.none for c in chosen if not c.structured)
    assert all(0.0 <= c.confidence <= 1.0 for c in chosen)
    assert told(judge, sets[0], [len(np.unique(sets[0].clusters))]) >= 0.0


def test_equal_scores_go_to_fewer_clusters_then_to_the_earlier(judge, sets):
    class Of:
        """A pool with numbers of clusters alone."""

        n_clusters = np.array([1, 4, 3, 3, 2])
        ari = np.array(np.eye(5) * 0.5 + 0.5)

    score = np.array([2.0, 0.5, 0.5002, 0.5, 0.1])
    judged = Judgement(Of, np.zeros((5, 1)), score, score, 2.0)
    assert ranked(judged).tolist() == [2, 3, 1, 4]
    assert ranked(judged, [4, 2]).tolist() == [1, 4]
    assert differing(judged, ranked(judged), 3) == [2, 3, 1]
    judged = replace(judged, pool=type("Alike", (Of,), {"ari": np.full((5, 5), 0.9)}))
    assert differing(judged, ranked(judged), 3) == [2]


def test_a_collected_set_comes_back_from_its_file(sets, tmp_path):
    save(tmp_path / "one.npz", sets[0])
    again = load(tmp_path / "one.npz")
    assert (again.kind, again.names, again.sources) == (sets[0].kind, sets[0].names, sets[0].sources)
    np.testing.assert_allclose(again.features, sets[0].features, rtol=1e-6)


@pytest.mark.parametrize("kind", [*STRUCTURED, *STRUCTURELESS])
def test_a_kind_draws_finite_rows_with_its_labels(kind):
    for seed in range(3):
        sample, again = draw(kind, seed), draw(kind, seed)
        assert np.array_equal(sample.X, again.X)
        assert np.isfinite(sample.X).all()
        assert 48 <= len(sample.X) <= 8000
        assert sample.structured == (kind in STRUCTURED)
        assert all(len(y) == len(sample.X) and y.min() >= -1 for y in sample.labelings)


def test_kinds_for_testing_are_of_both_sorts():
    assert set(TEST_ONLY) & set(STRUCTURED)
    assert set(TEST_ONLY) & set(STRUCTURELESS)
