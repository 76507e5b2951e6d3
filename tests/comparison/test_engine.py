"""The laws of a comparison: what must not change it, what must be kept, and what it reports of bad input."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import knoll
from knoll import SpectralClustering
from knoll._system import build_facts
from knoll.comparison import Comparison, compare, engine, fitting
from knoll.comparison.fitting import content_order, drawn_rows
from knoll.comparison.methods import DBSCANProposer, KMeansProposer, MixtureProposer
from knoll.comparison.plan import SUBSAMPLE, make_plan
from knoll.comparison.result import Shortcut
from knoll.exceptions import BadData, InvalidParameter, KnollError
from knoll.metrics import adjusted_rand_score
from knoll.registry import compared

QUICK = ("gaussian-mixture", "kmeans", "dbscan")


def three(n: int = 70, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    centres = np.array([[0, 0, 0], [9, 0, 0], [0, 9, 9]])
    return np.concatenate([c + rng.normal(size=(n, 3)) for c in centres]), np.repeat(np.arange(3), n)


@pytest.fixture(autouse=True)
def ctrl_c():
    """SIGINT does what it does in a shell's foreground, also where the tests were started in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def whole() -> Comparison:
    X, y = three()
    return compare(X, k=range(2, 6), truth=y)


def same(a: Comparison, b: Comparison) -> None:
    """All that was decided is equal, bit for bit; times are not."""
    assert a.summary()["recommendation"] == b.summary()["recommendation"]
    assert list(a.candidates) == list(b.candidates)
    for name, one in a.candidates.items():
        other = b.candidates[name]
        assert np.array_equal(one.labels, other.labels), name
        assert one.parameters == other.parameters, name
        assert one.scores == other.scores, name
        assert (one.stability, one.stability_spread) == (other.stability, other.stability_spread), name
    assert np.array_equal(a.agreement.matrix, b.agreement.matrix)


# ---- what is found -------------------------------------------------------------------------------------------------


def test_all_methods_answer_and_the_clusters_are_found(whole):
    assert tuple(whole.candidates) == compared()
    assert whole.failures == ()
    assert whole.recommendation.method in compared()
    assert whole.verdict == "clusters"
    assert adjusted_rand_score(whole.labels, three()[1]) == 1.0
    assert np.array_equal(whole.labels, whole.candidates[whole.recommendation.method].labels)
    assert whole.recommendation.level == "clear"
    assert whole.confidence == whole.candidates[whole.recommendation.method].expected > 0.85
    assert whole.recommendation.caution.endswith(".")


def test_every_answer_has_its_evidence(whole):
    for name, one in whole.candidates.items():
        assert one.evidence, name
        for evidence in one.evidence:
            assert evidence.reason.endswith(".")
            assert all(len(curve) == len(evidence.x) for curve in evidence.y.values()), (name, evidence.name)
        assert one.n_clusters == len(np.unique(one.labels[one.labels >= 0]))
        assert one.noise == np.mean(one.labels < 0)
        assert one.fitted_rows == 210
        assert one.how == "all rows"


def test_labels_are_those_of_the_models(whole):
    X = whole.scaling.apply(three()[0])
    for name, one in whole.candidates.items():
        assert np.array_equal(one.model.predict(X), one.labels), name
    mixture = whole.candidates["gaussian-mixture"]
    assert mixture.probabilities.shape == (210, mixture.n_clusters)
    assert np.allclose(mixture.probabilities.sum(axis=1), 1)


def test_agreement_is_symmetric_with_ones(whole):
    matrix = whole.agreement.matrix
    assert np.array_equal(matrix, matrix.T)
    assert (np.diag(matrix) == 1).all()
    assert whole.agreement.methods == compared()


def test_truth_is_scored_and_does_not_decide(whole):
    X, y = three()
    for name, one in whole.candidates.items():
        assert whole.truth_scores[name]["ari"] == adjusted_rand_score(y, one.labels)
    shuffled = compare(X, methods=QUICK, k=range(2, 6), truth=np.array(list("ab"))[np.arange(210) % 2])
    same(shuffled, compare(X, methods=QUICK, k=range(2, 6)))
    assert shuffled.truth_scores["kmeans"]["ari"] < 0.1


def test_the_summary_is_plain_and_the_table_short(whole):
    text = json.loads(json.dumps(whole.summary(), allow_nan=False))
    assert list(text["candidates"]) == list(compared())
    assert (text["verdict"], text["recommendation"]["verdict"]) == ("clusters", "clusters")
    assert text["candidates"]["kmeans"]["sizes"] == [70, 70, 70]
    assert len(repr(whole).splitlines()) < 19
    assert f"recommended: {whole.recommendation.method}" in repr(whole)


def test_it_is_one_call():
    X, _ = three(30)
    assert knoll.compare(X, methods="kmeans", k=[3]).candidates["kmeans"].n_clusters == 3


def test_the_reasons_are_plain_sentences(whole):
    advice = whole.recommendation
    assert advice.reasons[0] == f"Three clusters, found by {advice.method}."
    assert re.match(r"\d+ of \d+ kinds of method find about the same clusters", advice.reasons[1])
    assert all(reason.endswith(".") for reason in advice.reasons)


# ---- what must not change it ---------------------------------------------------------------------------------------


def test_the_order_of_rows_does_not_matter(whole):
    X, _ = three()
    order = np.random.default_rng(1).permutation(len(X))
    turned = compare(X[order], k=range(2, 6))
    for name, one in whole.candidates.items():
        assert adjusted_rand_score(one.labels[order], turned.candidates[name].labels) == 1.0, name
    assert turned.recommendation.method == whole.recommendation.method
    assert turned.recommendation.reasons == whole.recommendation.reasons


def test_the_number_of_threads_does_not_matter(whole):
    same(compare(three()[0], k=range(2, 6), n_jobs=2), compare(three()[0], k=range(2, 6), n_jobs=1))


ANSWERS = """
import json
from battery.generator import draw
from knoll.comparison import compare
found = compare(draw("none-sheet", 2).X, n_jobs=1)
labels = {name: one.labels.tolist() for name, one in found.answers().items()}
print(json.dumps([found.recommendation.method, found.verdict, round(found.confidence, 9), labels]))
"""


def test_the_instruction_set_does_not_matter():
    """Also for an answer of forty clusters of spectral clustering, whose k-means once began elsewhere."""
    sets = build_facts()["instruction sets available"].split(", ")
    answers = {
        name: subprocess.run(
            [sys.executable, "-W", "ignore", "-c", ANSWERS], env={**os.environ, "KNOLL_ISA": name},
            capture_output=True, text=True, check=True, cwd=Path(__file__).resolve().parents[2],
        ).stdout
        for name in sets
    }  # fmt: skip
    assert all(answer == answers[sets[0]] for answer in answers.values())


@pytest.mark.parametrize("scale", ["standard", "robust"])
def test_the_units_of_a_column_do_not_matter(scale):
    X, _ = three()
    units = np.array([1024.0, 1.0, 2.0**-20])  # powers of two, so that not a bit changes
    same(
        compare(X, methods=QUICK, k=range(2, 5), scale=scale),
        compare(X * units, methods=QUICK, k=range(2, 5), scale=scale),
    )


def test_unscaled_columns_keep_their_units():
    X, _ = three()
    found = compare(X * [1, 1, 1e-6], methods=["kmeans"], k=[2, 3], scale="none")
    assert set(found.scaling.spread) == {1.0}
    assert np.array_equal(found.scaling.apply(X), X)


@pytest.mark.parametrize("levels", [1, 2, 5, 10**9])
@pytest.mark.parametrize("d", [1, 3])
def test_rows_are_sorted_by_content(levels, d):
    """The same order as a sort by all columns, the first one first; equal rows stay as they came."""
    X = np.random.default_rng(0).integers(levels, size=(300, d)) / 4
    X[::7] = -0.0
    assert np.array_equal(content_order(X), np.lexsort(X.T[::-1]))


def test_smaller_draws_are_subsets_of_larger_ones():
    order = content_order(np.random.default_rng(0).normal(size=(500, 2)))
    small, large = drawn_rows(order, 50, 3), drawn_rows(order, 200, 3)
    assert len(small) == 50
    assert set(small) < set(large)
    assert set(small) != set(drawn_rows(order, 50, 4))
    assert np.array_equal(drawn_rows(order, 500, 3), order)


# ---- samples -------------------------------------------------------------------------------------------------------


def test_a_budget_that_was_too_small_is_reported():
    X, _ = three(200)
    found = compare(X, methods=["kmeans"], k=[3], budget=1e-3)
    least = (
        f"Choosing parameters on 400 rows and labelling all {len(X)} takes that long. Use methods= (--methods) "
        "to run fewer methods."
    )
    assert found.notes[-1:] == (f"It took {found.seconds:.2g} s, more than the budget of 0.001 s. {least}",)
    assert compare(X, methods=["kmeans"], k=[3], budget=1e-3, exact=True).notes == ()
    assert compare(X, methods=["kmeans"], k=[3]).notes == ()


def test_a_setting_too_large_for_halves_has_no_stability():
    X = np.random.default_rng(0).normal(size=(30, 2))
    found = compare(X, methods=["kmeans"], k=[3], parameters={"kmeans": {"n_clusters": 20}})
    assert found.failures == ()
    assert found.candidates["kmeans"].stability is None
    assert found.candidates["kmeans"].n_clusters == 20


def test_a_long_table_is_sampled_and_reports_it():
    X, y = three(2000)
    found = compare(X, methods=["kmeans", "mean-shift"], k=[3], truth=y)
    assert found.candidates["kmeans"].how == "all rows"
    slow = found.candidates["mean-shift"]
    assert (slow.fitted_rows, slow.how) == (SUBSAMPLE, f"sample of {SUBSAMPLE}, the others by predict")
    assert found.notes[0] == f"Parameters were chosen, and answers judged, on {SUBSAMPLE} of 6000 rows drawn at random."
    assert found.notes[1] == f"mean-shift: {slow.shortcut}."
    assert found.candidates["kmeans"].shortcut is None
    assert found.truth_scores["mean-shift"]["ari"] > 0.99
    assert np.array_equal(slow.labels, slow.model.predict(found.scaling.apply(X)))


@pytest.mark.parametrize("name", compared())
def test_every_shortcut_has_a_certificate(name):
    """Each method on a sample of a table with clear clusters: the share, and a fit to other rows that agrees."""
    X, _ = three(1500)
    found = compare(X, methods=[name], k=[3], budget=0.02)  # so little that the linear methods are sampled, too
    one = found.candidates[name]
    assert one.fitted_rows < len(X)
    assert one.shortcut.share == one.fitted_rows / len(X)
    assert one.shortcut.others in (one.fitted_rows, len(X) - one.fitted_rows)
    assert one.shortcut.agreement > 0.8
    assert (one.shortcut.residual is not None) == isinstance(one.model, SpectralClustering)
    output, agreement = str(one.shortcut), f"{one.shortcut.agreement:.2f}"
    assert f"fitted on {100 * one.shortcut.share:.2g} % of the rows, the others labelled by predict" in output
    assert f"adjusted Rand index {agreement} with a fit to {one.fitted_rows} other rows" in output
    assert json.loads(json.dumps(found.summary()))["candidates"][name]["shortcut"]["share"] == one.shortcut.share


def test_a_certificate_can_be_bad():
    """Rows of one Gaussian: three pieces of it are cut elsewhere by other rows."""
    X = np.random.default_rng(0).normal(size=(5000, 3))
    found = compare(X, methods=["kmeans"], k=[7], budget=0.02)
    assert found.candidates["kmeans"].shortcut.agreement < 0.9


def test_a_second_draw_takes_other_rows():
    order = content_order(np.random.default_rng(0).normal(size=(500, 2)))
    first, second = drawn_rows(order, 200, 3), drawn_rows(order, 200, 3, after=200)
    assert len(second) == 200
    assert not set(first) & set(second)
    assert len(drawn_rows(order, 400, 3, after=400)) == 400  # as many as requested, though some were drawn before


def test_a_sample_of_nearly_all_rows_is_all_rows():
    rows = [make_plan(n, 4, compared(), 10.0, exact=False).routes["dbscan"].rows for n in (100_000, 80_000, 200_000)]
    assert rows == [66_667, 80_000, 66_667]
    assert [str(Shortcut(share, 9, 1.0, None)).split(";")[0] for share in (0.9999, 0.123, 0.0114, 0.0004)] == [
        f"fitted on {output} % of the rows, the others labelled by predict" for output in ("99", "12", "1.1", "0.04")
    ]


def test_exact_takes_every_row_and_reports_the_cost():
    plan = make_plan(10**6, 4, compared(), 120.0, exact=True)
    assert all(route.rows == 10**6 and route.how == "all rows" for route in plan.routes.values())
    assert plan.seconds > 1e4
    assert "spectral, dbscan" in str(plan)
    assert str(plan).endswith(": all rows")
    usual = make_plan(10**6, 4, compared(), 120.0, exact=False)
    assert usual.seconds < 120
    assert usual.routes["spectral"].rows == SUBSAMPLE
    subsamples = [make_plan(10**6, 4, compared(), budget, exact=False).subsample for budget in (0.01, 1, 5, 30, 120)]
    assert subsamples == sorted(subsamples)
    assert (subsamples[0], subsamples[-1]) == (400, SUBSAMPLE)


# ---- no structure --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("distribution", ["normal", "uniform"])
@pytest.mark.parametrize("k", [None, range(1, 5)])
def test_data_without_clusters_is_called_that_and_is_divided_all_the_same(distribution, k):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(300, 3)) if distribution == "normal" else rng.uniform(size=(300, 3))
    found = compare(X, methods=QUICK, k=k)
    assert (found.verdict, found.recommendation.level) == ("none", "a guess")
    assert "one continuous cloud" in found.recommendation.caution
    assert found.labels.max() >= 1
    assert set(found.candidates) == set(QUICK)
    assert "verdict: none" in repr(found)
    assert compare(X, methods=QUICK, k=[3]).verdict == "clusters"  # the number was given


def test_equal_rows_are_refused_and_few_rows_leave_the_verdict_open():
    for k in (None, [2], [3]):
        with pytest.raises(BadData, match=r"all 50 rows are equal: there is nothing to divide\."):
            compare(np.zeros((50, 3)), k=k)
    for n in (2, 3, 6, 9, 39):
        found = compare(np.random.default_rng(n).normal(size=(n, 2)))
        assert found.verdict == "unclear"
        assert "Fewer than 40 rows" in found.recommendation.caution
        assert len(found.labels) == n


@pytest.mark.parametrize("scale", ["standard", "none"])
@pytest.mark.parametrize("unit", [1e200, 1e-200])
def test_extreme_numbers(unit, scale):
    X, y = three(40)
    found = compare(unit * X, methods=["kmeans", "dbscan"], k=[2, 3], scale=scale)
    assert adjusted_rand_score(found.labels, y) > 0.95
    assert found.failures == ()
    json.dumps(found.summary(), allow_nan=False)


@pytest.mark.parametrize("power", [-10, -20, -500])
def test_small_units_blur_no_mixture(power):
    X, y = three(40)
    usual = compare(X, methods=["gaussian-mixture"], k=[2, 3, 4], scale="none")
    found = compare(np.ldexp(X, power), methods=["gaussian-mixture"], k=[2, 3, 4], scale="none")
    assert np.array_equal(found.labels, usual.labels)
    assert adjusted_rand_score(found.labels, y) == 1.0


def test_rows_that_are_copies_of_two_rows():
    found = compare(np.repeat([[0.0, 0.0], [1.0, 1.0]], 60, axis=0), k=[2, 3])
    assert found.failures == ()
    assert found.candidates["mean-shift"].n_clusters == 2
    assert adjusted_rand_score(found.labels, np.repeat([0, 1], 60)) == 1.0


def test_a_few_outliers_are_no_cluster():
    X = np.r_[np.random.default_rng(0).normal(size=(200, 2)), [[1e3, 1e3]]]
    assert compare(X, methods=QUICK, k=range(1, 5), scale="none").verdict == "none"


def test_constant_and_repeated_columns_change_nothing_but_the_remarks():
    X, y = three()
    wide = np.c_[X, np.full(len(X), 7.0), X[:, 0]]
    found = compare(wide, methods=QUICK, k=range(2, 5), columns=["a", "b", "c", "still", "again"])
    assert found.profile.constant == ("still",)
    assert found.profile.remarks[0] == "still has a single value and was ignored."
    assert adjusted_rand_score(found.labels, y) == 1.0


def test_columns_of_few_values_are_named():
    rng = np.random.default_rng(0)
    X = np.c_[rng.integers(1, 6, size=200), rng.normal(size=200), rng.integers(0, 2, size=200)]
    profile = compare(X, methods=["kmeans"], k=[2], columns=["grade", "size", "smokes"]).profile
    assert "Few distinct values: grade (5), smokes (2). Clusters may only reflect these." in profile.remarks
    assert not any(
        "distinct values" in remark for remark in compare(X[:, [1]], methods=["kmeans"], k=[2]).profile.remarks
    )
    assert not any("distinct values" in remark for remark in compare(X[:20], methods=["kmeans"], k=[2]).profile.remarks)


def test_the_profile_names_copies_and_scales():
    X = np.r_[three(20)[0], three(20)[0][:7]] * [1, 1, 1e4]
    profile = compare(X, methods=["kmeans"], k=[2], columns=["a", "b", "salary"]).profile
    assert profile.duplicates == 7
    assert "7 of 67 rows are duplicates of another row." in profile.remarks
    assert any(remark.startswith("Ranges differ widely (salary is ") for remark in profile.remarks)


# ---- by hand, failures, Ctrl-C -------------------------------------------------------------------------------------


def test_parameters_by_hand_are_obeyed():
    X, _ = three(40)
    by_hand = {
        "gaussian-mixture": {"n_components": 4, "covariance_type": "diag"},
        "kmeans": {"n_clusters": 5},
        "kernel-kmeans": {"sigma": 0.7, "n_clusters": 2},
        "spectral": {"sigma": 0.4, "n_clusters": 4},
        "dbscan": {"eps": 0.5, "min_samples": 4},
        "hdbscan": {"min_cluster_size": 11},
        "agglomerative": {"linkage": "complete", "n_clusters": 3},
        "mean-shift": {"bandwidth": 0.9},
    }
    found = compare(X, k=range(2, 6), parameters=by_hand)
    assert found.failures == ()
    for name, values in by_hand.items():
        for parameter, value in values.items():
            assert found.candidates[name].parameters[parameter] == value
            if name != "agglomerative":  # it cannot label new rows
                assert getattr(found.candidates[name].estimator, parameter) == value


def test_a_method_that_raises_is_a_failure(monkeypatch):
    def broken(self, subsample, numbers, overrides):
        raise KnollError("no luck")

    monkeypatch.setattr(KMeansProposer, "propose", broken)
    found = compare(three(40)[0], methods=QUICK, k=range(2, 5))
    assert [(f.method, f.reason) for f in found.failures] == [("kmeans", "no luck")]
    assert set(found.candidates) == {"gaussian-mixture", "dbscan"}
    assert found.recommendation.method is not None
    assert "kmeans" in repr(found)


def test_ctrl_c_keeps_what_is_finished(monkeypatch):
    def stopped(self, subsample, numbers, overrides):
        raise KeyboardInterrupt

    monkeypatch.setattr(MixtureProposer, "propose", stopped)
    found = compare(three(40)[0], methods=[*QUICK, "spectral"], k=range(2, 5))
    assert found.interrupted
    assert set(found.candidates) == {"kmeans", "dbscan"}  # the quick methods come first
    assert [(f.method, f.reason) for f in found.failures] == [("gaussian-mixture", "interrupted")]
    assert found.recommendation.method in ("kmeans", "dbscan")
    json.dumps(found.summary(), allow_nan=False)


def test_ctrl_c_before_anything_is_finished(monkeypatch):
    def stopped(self, subsample, numbers, overrides):
        raise KeyboardInterrupt

    monkeypatch.setattr(DBSCANProposer, "propose", stopped)
    with pytest.raises(KeyboardInterrupt):
        compare(three(40)[0], methods=["kmeans", "dbscan"])


@pytest.mark.parametrize("stage", ["agreement_of", "join_answers", "truth_scores"])
def test_ctrl_c_while_judging_keeps_every_answer(monkeypatch, stage):
    run, pressed = getattr(engine, stage), []

    def press(*arguments):
        if not pressed:
            pressed.append(True)
            signal.raise_signal(signal.SIGINT)
        return run(*arguments)

    X, y = three(40)
    whole = compare(X, methods=QUICK, k=range(2, 5), truth=y)
    monkeypatch.setattr(engine, stage, press)
    found = compare(X, methods=QUICK, k=range(2, 5), truth=y)
    assert found.interrupted
    same(found, whole)
    assert found.truth_scores == whole.truth_scores


def test_ctrl_c_during_the_fits_keeps_the_recommended_answer(monkeypatch):
    whole, real, pressed = compare(three(40)[0], methods=QUICK, k=range(2, 5)), fitting.stability, []

    def press(*arguments):
        if not pressed:
            pressed.append(True)
            signal.raise_signal(signal.SIGINT)
        return real(*arguments)

    monkeypatch.setattr(fitting, "stability", press)
    found = compare(three(40)[0], methods=QUICK, k=range(2, 5))
    assert found.interrupted
    assert found.recommendation.method == whole.recommendation.method
    assert np.array_equal(found.labels, whole.labels)
    assert set(found.candidates) <= set(whole.candidates)


def test_mixtures_by_hand_that_cannot_be_fitted_do_not_stop_the_others():
    by_hand = {"gaussian-mixture": {"n_components": 2, "means_init": np.zeros((2, 7))}}
    found = compare(three(40)[0], methods=QUICK, k=range(2, 5), parameters=by_hand)
    (failure,) = found.failures
    assert failure.method == "gaussian-mixture"
    assert "shape" in failure.reason
    assert set(found.candidates) == {"kmeans", "dbscan"}


def test_more_clusters_than_the_subsample_has_rows_are_a_failure_with_its_reason():
    X, _ = three(300)
    found = compare(
        X, methods=["kmeans", "dbscan"], k=range(2, 4), budget=0.02, parameters={"kmeans": {"n_clusters": 500}}
    )
    output = "n_clusters=500 exceeds the 400 rows that parameters are chosen on. Reduce it, or increase the budget."
    assert [(one.method, one.reason) for one in found.failures] == [("kmeans", output)]
    assert list(found.candidates) == ["dbscan"]


def test_numbers_not_to_be_tried_are_not_taken():
    """Three clear clusters, and two requested: every method that takes a number takes two."""
    X, _ = three(40)
    found = compare(X, k=[2])
    for name in ("gaussian-mixture", "kmeans", "kernel-kmeans", "spectral"):
        assert found.candidates[name].n_clusters == 2, name


def test_a_foreign_error_is_a_failure_with_its_message(monkeypatch):
    def broken(self, subsample, numbers, overrides):
        raise ValueError("attempt to get argmax of an empty sequence")

    monkeypatch.setattr(KMeansProposer, "propose", broken)
    found = compare(three(40)[0], methods=QUICK, k=range(2, 5))
    output = "it cannot be fitted to these rows (attempt to get argmax of an empty sequence)"
    assert [(f.method, f.reason) for f in found.failures] == [("kmeans", output)]


@pytest.mark.parametrize(
    "X",
    [
        np.repeat([[0.0, 0.0], [1.0, 1.0]], 2, axis=0),
        np.arange(4.0).reshape(2, 2),
        np.repeat(np.arange(3.0)[:, None], 30, axis=0),
        np.r_[np.zeros((99, 2)), np.ones((1, 2))],
        np.random.default_rng(0).normal(size=(8, 20)),
        np.eye(25),
    ],
    ids=["two points twice", "two rows", "three values", "one row apart", "fewer rows than columns", "all as far"],
)
@pytest.mark.parametrize("scale", ["standard", "robust", "none"])
def test_little_data_stops_no_method(X, scale):
    found = compare(X, scale=scale)
    assert {one.reason for one in found.failures} <= {"it found fewer than two clusters"}
    assert {"kmeans", "agglomerative"} <= set(found.candidates)
    json.dumps(found.summary(), allow_nan=False)


def test_progress_rises_to_one():
    events = []
    compare(three(40)[0], methods=["kmeans", "dbscan"], k=[2, 3], progress=events.append)
    fractions = [event.fraction for event in events]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    assert {"plan", "kmeans", "dbscan", "judge"} == {event.method for event in events}
    assert all(event.memory > 0 for event in events)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"methods": ["kmeens"]},
            "methods: unknown method 'kmeens'. Choose from: mixed-mixture, k-prototypes, ",
        ),
        ({"methods": []}, "methods is empty. Choose from: "),
        ({"k": [0, 2]}, "k must be whole numbers from 1 on with one above 1, got [0, 2]. For one to fifteen: range("),
        ({"k": [1]}, "k must be whole numbers from 1 on with one above 1, got [1]. For one to fifteen: range(1, 16)."),
        ({"k": 3}, "k must be some whole numbers, got 3. For one to fifteen: range(1, 16)."),
        ({"scale": "unit"}, "scale must be one of auto, standard, robust, common, none, got 'unit'."),
        ({"parameters": {"kmeens": {}}}, "parameters: unknown method 'kmeens'. Choose from: "),
        ({"parameters": {"kmeans": {"eps": 1}}}, "parameters: kmeans has no 'eps'. It has "),
        ({"parameters": {"dbscan": {"eps": -1}}}, "DBSCAN: eps must be > 0, got -1. "),
        ({"parameters": {"dbscan": {"min_samples": 0}}}, "DBSCAN: min_samples must be "),
        ({"parameters": {"kmeans": {"n_clusters": 0}}}, "KMeans: n_clusters must be >= 1, got 0."),
        (
            {"parameters": {"gaussian-mixture": {"covariance_type": "round"}}},
            "GaussianMixture: covariance_type must be ",
        ),
        ({"parameters": {"mean-shift": {"bandwidth": 0}}}, "MeanShift: bandwidth must be > 0, got 0"),
        ({"parameters": {"spectral": {"sigma": "wide"}}}, "SpectralClustering: sigma must be "),
        (
            {"parameters": {"spectral": {"sigma": 1.0, "gamma": 1.0}}},
            "sigma and gamma = 1/(2σ²) are the same parameter.",
        ),
        ({"parameters": {"kernel-kmeans": {"kernel": "round"}}}, "KernelKMeans: kernel must be 'rbf', "),
        ({"parameters": {"kmeans": {"init": "nowhere"}}}, "init"),
        ({"parameters": {"dbscan": {"metric": "nothing"}}}, "DBSCAN: metric 'nothing' cannot be computed"),
        ({"parameters": {"gaussian-mixture": {"covariance_type": "fixed"}}}, "fixed"),
        ({"parameters": {"kmeans": {"n_clusters": 31}}}, "n_clusters of kmeans is 31, but there are 30 rows."),
        ({"parameters": {"kmeans": {"n_jobs": 1}}}, "n_jobs of kmeans: use n_jobs of the comparison instead."),
        ({"parameters": {"kmeans": {"random_state": 1}}}, "random_state of kmeans: use seed instead."),
        (
            {"methods": ["kmeans"], "parameters": {"dbscan": {"eps": 1}}},
            "dbscan is not among the methods, which are kmeans.",
        ),
        ({"k": range(40, 50)}, "k begins at 40, but there are 30 rows. Try fewer clusters."),
        ({"columns": ["a"]}, "columns has 1 names for 3 columns. Give one for each."),
        ({"budget": 0}, "budget must be > 0, got 0"),
    ],
)
def test_wrong_parameters_are_named(wrong, message):
    with pytest.raises(InvalidParameter) as caught:
        compare(three(10)[0], **wrong)
    assert str(caught.value).startswith(message) or message in str(caught.value)


def test_wrong_data_is_named():
    with pytest.raises(BadData, match="compare needs at least 2 rows, got 1"):
        compare([[1.0, 2.0]])
    with pytest.raises(BadData, match="truth must have one label for each of 30 rows, got shape \\(29,\\)"):
        compare(three(10)[0], methods=["kmeans"], k=[2], truth=np.zeros(29))


@pytest.mark.parametrize("n", [7, 8, 12, 19])
def test_few_rows_have_fewer_neighbours(n):
    X = np.random.default_rng(0).normal(size=(n, 2))
    found = compare(X, methods=["spectral", "kmeans"], k=[2])
    assert not found.failures
