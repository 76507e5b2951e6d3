"""What is recommended, and what never is: one cluster, nearly all noise, what its own figures speak against."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from knoll.cli import main
from knoll.comparison import Agreement, Comparison, compare, fitting
from knoll.comparison.density_summary import DensitySummary
from knoll.comparison.recommend import NOT_FOUND, recommend
from knoll.metrics import adjusted_rand_score
from knoll.registry import METHODS, compared

RNG = np.random.default_rng


def three(n: int = 60) -> np.ndarray:
    return np.concatenate([c + RNG(c).normal(size=(n, 2)) for c in (0, 8, 16)])


def spots() -> np.ndarray:
    """Thirty places on a map, in radians."""
    centres = np.c_[RNG(0).uniform(0.8, 0.9, 30), RNG(1).uniform(0.1, 0.3, 30)]
    return np.repeat(centres, 40, axis=0) + 1e-3 * RNG(2).normal(size=(1200, 2))


def many() -> np.ndarray:
    """29 clusters on a lattice, more than are tried."""
    centres = 8.0 * np.array([(i % 6, i // 6) for i in range(29)])
    return np.concatenate([c + RNG(i).normal(size=(40, 2)) for i, c in enumerate(centres)])


TOO_SMALL = {"metric": "haversine", "eps": 1.5e-4}


def not_found(found: Comparison, words: str) -> None:
    advice = found.recommendation
    assert (advice.method, advice.verdict, advice.runner_up) == (None, "not found", None)
    assert advice.reasons[0] == NOT_FOUND
    assert words in advice.reasons[1]
    assert advice.structure.verdict == "clusters"
    assert (found.labels == 0).all()
    assert "recommended: none, no method found clusters" in repr(found)
    assert found.summary()["recommendation"]["verdict"] == "not found"


# ---- what its own figures call worthless ---------------------------------------------------------------------------


def test_nearly_all_noise_is_not_recommended():
    found = compare(spots(), methods=["dbscan"], scale="none", parameters={"dbscan": TOO_SMALL})
    one = found.candidates["dbscan"]
    assert one.n_clusters > 1
    assert one.noise > 0.95
    not_found(found, "dbscan: 9")


def test_one_cluster_is_not_recommended():
    found = compare(many(), methods=["spectral"], budget=1e5)
    assert found.candidates["spectral"].n_clusters == 1
    not_found(found, "spectral: it has 1 cluster.")


def test_an_unstable_answer_gives_way_to_one_that_matches_nearly_as_well(monkeypatch):
    """All six find the three clusters; refits of the one that is ranked first agree by 0.51."""
    usual = compare(three(), budget=20).recommendation
    real = fitting.stability

    def unstable(method, chosen, view):
        figures = real(method, chosen, view)
        return (0.51, 0.1) if type(method) is type(METHODS[usual.method].make_proposer()) else figures

    monkeypatch.setattr(fitting, "stability", unstable)
    advice = compare(three(), budget=20).recommendation
    assert advice.method == usual.runner_up
    assert advice.runner_up == usual.method
    assert " is less stable under refits (0.51) than " in advice.why_not


def test_terminal_report_and_summary_say_that_nothing_was_found(tmp_path, capsys):
    np.save(tmp_path / "spots.npy", spots())
    settings = [f"--set=dbscan.{name}={value}" for name, value in TOO_SMALL.items()]
    words = ["--methods", "dbscan", "--scale", "none", "--out", str(tmp_path / "out"), *settings]
    assert main(["compare", str(tmp_path / "spots.npy"), *words]) == 0
    text = capsys.readouterr().out
    assert NOT_FOUND in text.splitlines()
    assert "Recommended" not in text
    assert "→" not in text
    page = (tmp_path / "out" / "report.html").read_text()
    assert '<section id="recommendation" class="card none"' in page
    assert '<h2 id="recommended">No usable clustering was found</h2>' in page
    assert NOT_FOUND in page
    assert "recommended</span>" not in page
    told = json.loads((tmp_path / "out" / "summary.json").read_text())["recommendation"]
    assert (told["method"], told["verdict"], told["reasons"][0]) == (None, "not found", NOT_FOUND)


# ---- a number of clusters that was given ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["normal", "uniform", "few rows"])
@pytest.mark.parametrize("method", [None, *compared()[:4]])
def test_a_number_that_was_given_is_recommended_whatever_the_density_shows(kind, method):
    X = {"normal": RNG(5).normal(size=(200, 3)), "uniform": RNG(5).uniform(size=(200, 3)),
         "few rows": RNG(5).normal(size=(15, 2))}[kind]  # fmt: skip
    found = compare(X, methods=method, k=[3])
    advice = found.recommendation
    assert advice.verdict == "recommended"
    assert found.candidates[advice.method].n_clusters == 3
    assert adjusted_rand_score(found.labels, found.candidates[advice.method].labels) == 1.0
    assert advice.structure.verdict == ("unknown" if kind == "few rows" else "none")
    assert "because the number of clusters was specified" in advice.reasons[1]
    assert compare(X, methods=method, k=[1, 3]).recommendation.method is None


def test_the_number_that_was_given_comes_before_the_density():
    """Three clear clusters, and four asked for: no method's three are taken."""
    found = compare(three(), k=[4])
    assert found.candidates[found.recommendation.method].n_clusters == 4
    assert found.recommendation.verdict == "recommended"


def test_on_the_command_line(tmp_path, capsys):
    np.save(tmp_path / "X.npy", RNG(5).normal(size=(200, 3)))
    for k, verdict in (("3", "recommended"), ("2..4", "recommended"), ("1..4", "no clusters")):
        words = ["--methods", "kmeans,dbscan", "--k", k, "--force", "--json", "--out", str(tmp_path / "out")]
        assert main(["compare", str(tmp_path / "X.npy"), *words]) == 0
        assert json.loads(capsys.readouterr().out)["recommendation"]["verdict"] == verdict


def test_one_cluster_is_not_recommended_for_a_number_either():
    found = compare(np.ones((30, 2)), methods=["kmeans", "dbscan"], k=[3])
    assert (found.recommendation.method, found.recommendation.verdict) == (None, "not found")
    assert found.recommendation.reasons[0] == "None of these methods found at least two clusters."


# ---- for any figures -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole() -> tuple[Comparison, DensitySummary]:
    kept = []
    patch = pytest.MonkeyPatch()
    patch.setattr("knoll.comparison.engine.recommend", lambda *told: kept.append(told[3]) or recommend(*told))
    found = compare(three(), budget=20)
    patch.undo()
    return found, kept[0]


SHARE = st.floats(0, 1)
FIGURES = st.tuples(st.integers(0, 5), SHARE, st.none() | SHARE, SHARE)


@settings(max_examples=300, deadline=None)
@example([(2, 0.0, 0.1, 1.0), (2, 0.0, None, 0.99), (2, 0.0, 0.9, 0.98), *[(0, 0.0, None, 0.0)] * 3], "clusters", None)
@given(
    st.lists(FIGURES, min_size=6, max_size=6),
    st.sampled_from(["clusters", "none", "unknown"]),
    st.none() | st.sets(st.integers(2, 5), min_size=1),
)
def test_what_is_recommended_is_never_worthless(whole, figures, verdict, numbers):
    found, survey = whole
    survey = replace(survey, structure=replace(survey.structure, verdict=verdict))
    answers = {
        name: replace(found.candidates[name], n_clusters=k, noise=noise, stability=stable)
        for name, (k, noise, stable, _) in zip(compared(), figures, strict=True)
    }
    density_ari = {name: figure[3] for name, figure in zip(compared(), figures, strict=True)}
    agreement = Agreement(compared(), np.eye(6))
    advice = recommend(answers, density_ari, agreement, survey, numbers)
    usable = [name for name, one in answers.items() if one.n_clusters > 1 and one.noise <= 0.9]
    if numbers is None:
        usable = [name for name in usable if density_ari[name] >= 0.2] if verdict == "clusters" else []
    assert (advice.method is None) == (not usable)
    assert (advice.verdict == "recommended") == bool(usable)
    if numbers is not None:
        assert advice.verdict in ("recommended", "not found")
        usable = [name for name in usable if answers[name].n_clusters in numbers] or usable
    if not usable:
        assert (advice.runner_up, advice.why_not) == (None, "")
        return
    assert advice.method in usable
    assert advice.runner_up in {None, *usable} - {advice.method}
    one, best = answers[advice.method], max(density_ari[name] for name in usable)
    assert density_ari[advice.method] >= best - 0.055  # matches are ranked in steps of 0.01
    if one.stability is None:  # what is not known is no reason to pass over another
        assert round(density_ari[advice.method], 2) == round(best, 2)
    near = [answers[name].stability for name in usable if density_ari[name] >= best - 0.04]
    assert one.stability is None or all(one.stability >= (other or 0.0) - 0.2 for other in near)
