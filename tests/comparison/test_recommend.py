"""What is recommended, and what never is: one cluster, nearly all noise, a verdict that nobody requested."""

from __future__ import annotations

import json

import numpy as np
import pytest

from battery.generator import draw
from knoll.cli import main
from knoll.comparison import compare, fitting
from knoll.comparison.fitting import Table, content_order, drawn_rows, fit_answer
from knoll.comparison.judge import GRAIN, beside, the_judge
from knoll.comparison.methods import propose_all
from knoll.comparison.plan import make_plan
from knoll.comparison.pool import join_answers, numbers_for
from knoll.comparison.recommend import CLEAR, LIKELY, STABLE, caution_for, level_of
from knoll.comparison.result import Alternative
from knoll.comparison.stability import stability
from knoll.comparison.subsample import Subsample
from knoll.exceptions import BadData
from knoll.metrics import adjusted_rand_score
from knoll.models import load, save
from knoll.registry import compared

RNG = np.random.default_rng


def three(n: int = 60) -> np.ndarray:
    return np.concatenate([c + RNG(c).normal(size=(n, 2)) for c in (0, 8, 16)])


def groups_of_groups() -> np.ndarray:
    """Two groups of three clusters each: two and six clusters are both right."""
    small = np.array([[0, 0], [7, 0], [3.5, 6]])
    return np.concatenate([c + far + RNG(i).normal(size=(50, 2)) for i, far in enumerate((0, 60)) for c in small])


def moons(n: int = 200) -> np.ndarray:
    t = np.linspace(0, np.pi, n)
    X = np.r_[np.c_[np.cos(t), np.sin(t)], np.c_[1 - np.cos(t), 0.5 - np.sin(t)]]
    return X + 0.06 * RNG(0).normal(size=X.shape)


# ---- the answer ----------------------------------------------------------------------------------------------------


def test_nearly_all_noise_is_not_recommended():
    centres = np.c_[RNG(0).uniform(0.8, 0.9, 30), RNG(1).uniform(0.1, 0.3, 30)]
    X = np.repeat(centres, 40, axis=0) + 1e-3 * RNG(2).normal(size=(1200, 2))
    by_hand = {"dbscan": {"metric": "haversine", "eps": 1.5e-4}}
    with pytest.raises(BadData, match=r"no method found two clusters in most of the rows \(dbscan: .* \d+ % noise\)\."):
        compare(X, methods=["dbscan"], scale="none", parameters=by_hand)
    found = compare(X, methods=["dbscan", "kmeans"], scale="none", parameters=by_hand)
    assert found.recommendation.method == "kmeans"


@pytest.mark.parametrize("method", compared())
def test_one_method_alone_gives_the_answer(method):
    X = three()
    found = compare(X, methods=[method])
    assert found.recommendation.method == method
    assert found.labels.max() >= 1
    assert adjusted_rand_score(found.labels, np.repeat([0, 1, 2], 60)) > 0.9


@pytest.mark.parametrize("number", [25, 29, 40])
def test_many_clusters_are_found(number):
    centres = 9.0 * np.array([(i % 7, i // 7) for i in range(number)])
    X = np.concatenate([c + RNG(i).normal(size=(30, 2)) for i, c in enumerate(centres)])
    found = compare(X)
    assert adjusted_rand_score(found.labels, np.repeat(np.arange(number), 30)) > 0.9


# ---- a number of clusters that was given ---------------------------------------------------------------------------


@pytest.mark.parametrize("recipe", ["normal", "uniform", "few rows"])
@pytest.mark.parametrize("method", [None, *compared()[:4]])
def test_a_number_that_was_given_is_recommended_and_there_is_no_verdict_of_none(recipe, method):
    X = {"normal": RNG(5).normal(size=(200, 3)), "uniform": RNG(5).uniform(size=(200, 3)),
         "few rows": RNG(5).normal(size=(15, 2))}[recipe]  # fmt: skip
    found = compare(X, methods=method, k=[3])
    assert found.verdict == "clusters"
    assert found.candidates[found.recommendation.method].n_clusters == 3
    assert len(np.unique(found.labels[found.labels >= 0])) == 3


@pytest.mark.parametrize("k", [2, 4, 11, 13, 33])
def test_any_number_of_clusters_can_be_requested(k):
    """Also those that are not on the grid, and more than rows allow by default."""
    found = compare(three(), k=[k])
    assert found.candidates[found.recommendation.method].n_clusters == k


def test_every_method_gives_the_number_that_was_requested():
    found = compare(three(), k=[4])
    for name in ("gaussian-mixture", "kmeans", "spectral", "genie", "agglomerative"):
        assert found.candidates[name].n_clusters == 4, name


def test_near_ties_go_to_few_clusters_that_many_methods_found():
    """Answers with some rows as noise, or with a tiny cluster more, have about the same score."""
    from knoll import datasets

    found = compare(datasets.x1500().X)
    assert len(np.unique(found.labels)) == 3
    assert adjusted_rand_score(found.labels, datasets.x1500().y) > 0.98
    for name in ("gaussian-mixture", "spectral", "dbscan", "hdbscan", "genie"):
        assert found.candidates[name].n_clusters == 3, name


def test_on_the_command_line(tmp_path, capsys):
    np.save(tmp_path / "X.npy", RNG(5).normal(size=(200, 3)))
    for k, verdict in (("3", "clusters"), ("2..4", "clusters"), ("1..4", "none")):
        args = ["--methods", "kmeans,dbscan", "--k", k, "--force", "--json", "--out", str(tmp_path / "out")]
        assert main(["compare", str(tmp_path / "X.npy"), *args]) == 0
        text = json.loads(capsys.readouterr().out)
        assert text["verdict"] == text["recommendation"]["verdict"] == verdict
        assert text["recommendation"]["method"] in ("kmeans", "dbscan")


# ---- confidence, alternatives, reasons -----------------------------------------------------------------------------


def test_the_levels_of_the_confidence():
    assert [level_of(c) for c in (0.0, 0.49, LIKELY, 0.84, CLEAR, 1.0)] == [
        "a guess", "a guess", "likely", "likely", "clear", "clear",
    ]  # fmt: skip
    near, far = (Alternative(None, defensible, "finer", 0.5) for defensible in (True, False))
    assert "guess" in caution_for("clusters", "a guess", [], 100, required=False)
    assert "Several" in caution_for("clusters", "likely", [far, near], 100, required=False)
    assert "was given" in caution_for("clusters", "clear", [far], 100, required=True)


def test_alternatives_differ_and_report_how():
    found = compare(groups_of_groups())
    assert 1 <= len(found.alternatives) <= 2
    for other in found.alternatives:
        assert other.agreement < 0.8
        assert other.agreement == adjusted_rand_score(found.labels, other.candidate.labels)
        assert other.relation in ("finer", "coarser", "different")
        if other.relation != "different":
            assert (other.candidate.n_clusters > found.labels.max() + 1) == (other.relation == "finer")
    numbers = {found.labels.max() + 1, *(other.candidate.n_clusters for other in found.alternatives)}
    assert {2, 6} <= numbers


@pytest.mark.parametrize(("recipe", "seed"), [("moons", 77), ("overlapping", 77), ("tree", 2)])
def test_no_answer_is_expected_to_be_better_than_the_recommended_one(recipe, seed):
    """In the first two tables the judge alone expects more of an answer that it ranks lower."""
    found = compare(draw(recipe, seed).X)
    expected = [found.confidence, *(other.candidate.expected for other in found.alternatives)]
    assert expected == sorted(expected, reverse=True)
    assert found.confidence == max(one.expected for one in found.candidates.values())
    same = [one for one in found.candidates.values() if adjusted_rand_score(one.labels, found.labels) == 1]
    assert {one.expected for one in same} == {found.confidence}


def test_what_is_expected_beside_the_first_answer():
    ari = np.array([[1.0, 1.0, 0.5, 0.2, 0.8], *([[0.0] * 5] * 4)])
    got = beside(np.array([0.75, 0.75, 0.5, 1.0, 1.0]), ari, 0)
    assert got.tolist() == pytest.approx([0.75, 0.75, 0.75 * 0.5 + 0.25 * 0.5, 0.75 * 0.2 + 0.25, 0.75])


@pytest.mark.parametrize("k", [None, [3], [2, 4, 5]])
@pytest.mark.parametrize(("recipe", "seed"), [("moons", 77), ("densities", 4), ("none-gaussian", 3)])
def test_the_curve_is_the_evidence_for_the_number_taken(recipe, seed, k):
    found = compare(draw(recipe, seed).X[:300], k=k)
    for name, one in found.candidates.items():
        for curve in one.evidence:
            scores = dict(zip(curve.x.astype(int).tolist(), curve.y["score"].tolist(), strict=True))
            assert curve.chosen == one.n_clusters or not one.shortcut, name
            own, best = scores[int(curve.chosen)], max(scores.values())
            if "of clusters." in curve.reason:
                assert own >= best - GRAIN, name
            elif "were requested." in curve.reason:
                assert own >= max(score for number, score in scores.items() if number in k) - GRAIN, name
            elif "nearly as good" in curve.reason:
                assert best - 0.1 - GRAIN <= own < best, name
            else:
                assert "very few rows" in curve.reason, name


def test_of_methods_that_found_the_same_the_stable_one_is_taken(monkeypatch):
    """Refits on halves that find other clusters count against a method, if another one found them, too."""
    X = three()
    usual = compare(X)
    first = usual.recommendation.method
    assert "other clusters" not in usual.recommendation.caution

    def unstable(proposer, chosen, subsample):
        return (0.3, 0.1) if chosen.method == first else stability(proposer, chosen, subsample)

    monkeypatch.setattr(fitting, "stability", unstable)
    found = compare(X)
    assert found.recommendation.method != first
    assert found.candidates[found.recommendation.method].stability >= STABLE
    assert adjusted_rand_score(found.labels, usual.labels) > 0.98
    alone = compare(X, methods=[first])  # no other method: it is reported
    assert "find other clusters (adjusted Rand index 0.30)" in alone.recommendation.caution


def test_a_fact_is_given_only_if_the_score_depends_on_it(monkeypatch):
    from knoll.comparison import recommend

    X = three()
    assert len(compare(X).recommendation.reasons) > 2
    monkeypatch.setattr(recommend, "_MATTERS", np.inf)
    assert len(compare(X).recommendation.reasons) == 1


def test_the_least_certain_cluster_is_named_by_its_label():
    from knoll.comparison.recommend import _density
    from knoll.comparison.subsample import Subsample

    X = np.r_[three(), RNG(9).normal(loc=[1.5, -0.5], size=(60, 2))]  # the first and the last touch
    X = X[np.lexsort(X.T[::-1])]
    labels = np.argmin(((X[:, None] - [[0, 0], [8, 8], [16, 16], [1.5, -0.5]]) ** 2).sum(-1), axis=1)
    weakest = _density(Subsample(X, 0, 1), labels, seen=np.array([7, 5, 6, 8])[labels])
    assert weakest.startswith(("Cluster 7 is the least certain", "Cluster 8 is the least certain"))


# ---- what is recommended is what is deployed -----------------------------------------------------------------------


@pytest.mark.parametrize("make", [three, moons, groups_of_groups])
@pytest.mark.parametrize("k", [None, [5]])
def test_every_model_predicts_its_labels_also_from_a_file(make, k, tmp_path):
    X = make()
    found = compare(X, k=k)
    scaled = found.scaling.apply(X)
    others = {f"alternative {i}": one.candidate for i, one in enumerate(found.alternatives)}
    for name, one in {**found.candidates, **others}.items():
        path = tmp_path / f"{name}.knoll"
        save(one.model, path)
        for model in (one.model, load(path)):
            assert np.array_equal(model.predict(scaled), one.labels), name
            if one.probabilities is not None:
                assert np.array_equal(model.predict_proba(scaled), one.probabilities), name


def test_a_table_larger_than_the_subsample_keeps_the_law():
    X = np.concatenate([moons(1500), moons(500) + 6])
    found = compare(X, budget=20)
    scaled = found.scaling.apply(X)
    for name, one in found.candidates.items():
        assert np.array_equal(one.model.predict(scaled), one.labels), name


@pytest.mark.parametrize("budget", [120.0, 0.1])  # with the smaller one answers are made on 400 of the rows
def test_an_answer_of_every_source_predicts_its_labels(budget, tmp_path):
    X = np.r_[moons(250), RNG(1).uniform(-1, 2, size=(60, 2))]
    order, names = content_order(X), compared()
    plan = make_plan(len(X), 2, names, budget, exact=False)
    rows = drawn_rows(order, plan.subsample, 0)
    assert len(rows) == (len(X) if budget > 1 else 400)
    subsample = Subsample(np.ascontiguousarray(X[rows]), 0, 1)
    found = propose_all(subsample, numbers_for(subsample.n), names)
    judged = the_judge().judge(subsample, join_answers(subsample, found))
    table = Table(X, order, plan, subsample)
    pool = enumerate(judged.pool.members[1:], 1)
    members = {(one.source, one.filled): (at, one) for at, group in pool for one in group}
    assert {source for source, _ in members} == set(judged.pool.sources)
    for number, (key, (at, chosen)) in enumerate(members.items()):
        one = fit_answer(table, judged, at, chosen)
        save(one.model, tmp_path / f"{number}.knoll")
        for model in (one.model, load(tmp_path / f"{number}.knoll")):
            assert np.array_equal(model.predict(X), one.labels), key
            if one.probabilities is not None:
                assert np.array_equal(model.predict_proba(X), one.probabilities), key


def test_the_judge_is_read_once():
    assert the_judge() is the_judge()
