"""The judge: integer tables equal the trained trees, ranks follow the stated rule, draws are as documented."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from battery.boosters import tables_of, thresholds_of, train, train_order
from battery.collect import collect, load, save
from battery.figures import choose, score_given_k
from battery.generator import STRUCTURED, STRUCTURELESS, TEST_ONLY, draw
from battery.train import (
    DIGEST,
    calibrated,
    choices_on_unseen,
    folds_of_recipes,
    folds_of_sets,
    made_judge,
    weights_of,
    with_thresholds,
)
from knoll.comparison.boosting import UNIT, Boosted, encode
from knoll.comparison.judge import Judge, Judgement, rank, shortlist, the_judge
from knoll.comparison.recommend import verdict_of


@pytest.fixture(scope="module")
def sets():
    recipes = ("gaussians", "moons", "none-gaussian")
    return [collect(draw(recipe, seed), seed) for recipe in recipes for seed in (11, 13)]


@pytest.fixture(scope="module")
def judge(sets) -> Judge:
    raw = made_judge(sets, rounds=40)
    choices = [choose(raw, one) for one in sets]
    return with_thresholds(calibrated(raw, choices), [one for one in choices if not one.structured])


def test_tables_equal_the_trees_they_come_from():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 5))
    y = X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2])
    models = [train(X, y, np.ones(600), leaves=12, rounds=20, seed=seed) for seed in (0, 1)]
    thresholds = thresholds_of(models, 5)
    tables = tables_of(models, thresholds)
    again = Boosted.from_arrays(tables.arrays("a"), "a")
    new = np.vstack([rng.normal(size=(300, 5)), thresholds[:, :3].T])  # values at the thresholds, too
    for found in (tables, again):
        mean = sum(model.predict(new, num_threads=1) for model in models) / 2
        assert np.abs(found.predict(encode(new, thresholds)) - mean).max() <= 40 * UNIT / 2


def test_a_judge_comes_back_from_its_file(judge, sets, tmp_path, monkeypatch):
    judge.save(tmp_path / "judge.npz")
    with np.load(tmp_path / "judge.npz") as tables:
        again = Judge.from_tables(tables)
    assert again.digest() == judge.digest()
    assert np.array_equal(again.scores(sets[0].features), judge.scores(sets[0].features))


def test_it_prefers_what_it_was_trained_to(judge, sets):
    chosen = [choose(judge, one) for one in sets]
    assert all(c.ari > 0.8 * c.best for c in chosen if c.structured)
    assert all((c.lead_of_one > 0) != c.structured for c in chosen)
    assert np.all(np.abs(judge.confidence(np.array([c.index for c in chosen])) - 0.5) <= 0.5)
    assert score_given_k(judge, sets[0], sets[0].numbers) > 0.8


def test_the_rule_of_the_order():
    k, least = np.array([1, 4, 3, 3, 2]), np.full(5, 9)
    apart = np.eye(5) * 0.5 + 0.5
    score = np.array([2.0, 0.5, 0.5002, 0.5, 0.1])  # equal to a thousandth: fewer clusters, then the earlier
    assert rank(score, k, least, apart, 100).tolist() == [2, 3, 1, 4]
    assert rank(score, k, least, apart, 100, [4, 2]).tolist() == [1, 4]
    assert rank(score, k, least, apart, 100, [7]).tolist() == []
    assert shortlist(apart, [2, 3, 1, 4], 3) == [2, 3, 1]
    assert shortlist(np.full((5, 5), 0.9), [2, 3, 1, 4], 3) == [2]
    small = np.array([9, 9, 4, 9, 9])  # a cluster of four rows comes last, unless the table is small
    assert rank(score, k, small, apart, 100).tolist() == [3, 1, 4, 2]
    assert rank(score, k, small, apart, 80).tolist() == [2, 3, 1, 4]
    alike = np.full((5, 5), 0.95)
    near = np.array([2.0, 0.52, 0.50, 0.48, 0.46])  # of answers about as good and about the same, the fewest clusters
    assert rank(near, k, least, alike, 100).tolist() == [2, 1, 3, 4]
    assert rank(near, k, least, apart, 100).tolist() == [1, 2, 3, 4]


def test_the_order_puts_high_grades_first_within_each_group():
    """Grades that are a figure plus an offset of the group are learnt, though the figure determines little."""
    rng = np.random.default_rng(1)
    offset = np.repeat(rng.integers(0, 15, size=100), 20)
    x = rng.uniform(0, 15, size=2000)
    X = np.column_stack([x, rng.normal(size=2000)])
    model = train_order(X, np.round(x + offset).astype(np.int64), [20] * 100, leaves=7, rounds=60)
    predicted = model.predict(X, num_threads=1).reshape(100, 20)
    first = x.reshape(100, 20)[np.arange(100), predicted.argmax(axis=1)]
    assert np.mean(x.reshape(100, 20).max(axis=1) - first) < 0.5


def test_every_set_is_in_one_fold_and_not_trained_on(sets, monkeypatch):
    monkeypatch.setattr("battery.train._ROUNDS", 3)
    for folds in (folds_of_sets(sets), folds_of_recipes(sets, 3)):
        assert sorted(np.concatenate(folds).tolist()) == list(range(len(sets)))
        found = choices_on_unseen(sets, folds, jobs=2)
        assert [one.recipe for one in found] == [sets[at].recipe for at in np.concatenate(folds)]
    assert all(len({sets[at].recipe for at in fold}) == 1 for fold in folds_of_recipes(sets, 3))


def test_one_cluster_has_its_share_of_the_weight():
    assert weights_of(5).tolist() == pytest.approx([0.1, 0.225, 0.225, 0.225, 0.225])


def test_the_thresholds_allow_the_shares_that_they_are_made_for(judge, sets):
    """Of 500 sets without clusters, 4 % are not called "none", and half of them "clusters"."""
    one = next(one for one in (choose(judge, each) for each in sets) if not one.structured)
    leads = np.random.default_rng(0).normal(size=500)
    found = with_thresholds(judge, [replace(one, lead_of_one=float(lead)) for lead in leads])
    assert found.clear_lead < found.none_lead
    assert (leads <= found.none_lead).sum() == 20
    assert (leads <= found.clear_lead).sum() == 10


def test_the_verdict_is_open_between_the_thresholds():
    score = np.array([0.5, 0.1, 0.6, 0.8])
    judged = Judgement(None, np.empty((4, 0)), score, score, none_below=0.4, clusters_from=0.7)
    assert [verdict_of(judged, best, 100) for best in (1, 2, 3)] == ["none", "unclear", "clusters"]
    assert [verdict_of(judged, best, 30) for best in (1, 2, 3)] == ["unclear"] * 3  # few rows


def test_a_collected_set_comes_back_from_its_file(sets, tmp_path):
    save(tmp_path / "one.npz", sets[0])
    again = load(tmp_path / "one.npz")
    assert (again.recipe, again.names, again.sources) == (sets[0].recipe, sets[0].names, sets[0].sources)
    np.testing.assert_allclose(again.features, sets[0].features, rtol=1e-6)


@pytest.mark.parametrize("recipe", [*STRUCTURED, *STRUCTURELESS])
def test_a_recipe_draws_finite_rows_with_its_labels(recipe):
    for seed in range(3):
        sample, again = draw(recipe, seed), draw(recipe, seed)
        assert np.array_equal(sample.X, again.X)
        assert np.isfinite(sample.X).all()
        assert 48 <= len(sample.X) <= 8000
        assert sample.structured == (recipe in STRUCTURED)
        assert all(len(y) == len(sample.X) and y.min() >= -1 for y in sample.labelings)


def test_recipes_for_testing_are_of_both_sorts():
    assert set(TEST_ONLY) & set(STRUCTURED)
    assert set(TEST_ONLY) & set(STRUCTURELESS)


def test_the_judge_that_ships_is_the_one_that_was_trained():
    assert the_judge().digest() == DIGEST.read_text().strip()


def test_the_judge_that_ships_knows_the_present_figures(sets):
    assert the_judge().names == sets[0].names
    assert 0.0 <= the_judge().curve.min() <= the_judge().curve.max() <= 1.0
