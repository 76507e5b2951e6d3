"""Every relation holds on the paper's data; certificates can fail, decline, and report where."""

from __future__ import annotations

import numpy as np
import pytest

import knoll
from knoll import relations
from knoll.exceptions import BadData, InvalidParameter
from knoll.relations import certificate as certificates
from knoll.relations import mean_shift_ascent, mixture_to_kmeans

DATA = {name: knoll.datasets.load(name).X for name in ("x1500", "circles", "banana", "iris")}
DATA["lattice"] = np.stack(np.meshgrid(np.arange(5.0), np.arange(4.0)), axis=-1).reshape(-1, 2)


@pytest.mark.parametrize("relation", relations.all(), ids=lambda relation: relation.name)
@pytest.mark.parametrize("name", ["circles", "iris"])
def test_it_holds(relation: relations.Relation, name: str) -> None:
    certificate = relation.certify(DATA[name])
    assert certificate.verdict == "holds", str(certificate)
    assert bool(certificate)
    assert certificate.seconds > 0
    assert certificate.tightest in certificate.checks
    for word in (relation.name, "holds", relation.statement):
        assert word in str(certificate)


@pytest.mark.parametrize("relation", relations.all(), ids=lambda relation: relation.name)
def test_ties_do_not_fool_it(relation: relations.Relation) -> None:
    """On a lattice everything is tied: a relation holds there or reports that it does not apply, and why."""
    certificate = relation.certify(DATA["lattice"])
    assert certificate.verdict != "fails", str(certificate)
    if certificate.verdict == "does not apply":
        assert any(condition.detail for condition in certificate.preconditions if not condition.holds)


@pytest.mark.parametrize(
    "relation", [r for r in relations.all() if isinstance(r, relations.Limit)], ids=lambda r: r.name
)
def test_a_path_goes_from_one_end_to_the_other(relation: relations.Limit) -> None:
    path = relation.path(DATA["circles"], steps=5)
    assert 2 <= len(path) <= 5
    values = [frame.value for frame in path]
    assert values == sorted(values) or values == sorted(values, reverse=True)
    for frame in path:
        assert frame.title
        assert frame.labels is not None
        assert frame.labels.shape == (len(path.points),)


def test_the_map_is_whole() -> None:
    names = [relation.name for relation in relations.all()]
    assert len(set(names)) == len(names)
    for relation in relations.all():
        assert relations.get(relation.name) is relation
        assert relation.statement.endswith(".")
        assert relation.formula
        assert relation.source != relation.target
        assert relation.name in repr(relation)
    with pytest.raises(InvalidParameter, match=r"No relation is called 'x'. There are: gaussian-is"):
        relations.get("x")


def test_bad_input_is_named() -> None:
    relation = relations.get("mixture-to-kmeans")
    with pytest.raises(InvalidParameter, match=r"has no parameter 'k'. It takes: n_clusters, random_state, max_iter"):
        relation.certify(DATA["iris"], k=3)
    with pytest.raises(InvalidParameter, match="n_clusters must be >= 1, got 0"):
        relation.certify(DATA["iris"], n_clusters=0)
    with pytest.raises(BadData, match=r"n_clusters=3, but X has only 1 unique rows"):
        relation.certify(np.zeros((5, 2)))
    with pytest.raises(BadData, match="needs at least 2 rows, got 1"):
        relation.certify([[1.0, 2.0]])
    with pytest.raises(BadData, match=r"NaN"):
        relation.certify([[1.0, np.nan], [0.0, 1.0]])
    with pytest.raises(BadData, match=r"at most 8000 rows, got 8001.*Pass a sample"):
        relations.get("dbscan-is-single-linkage").certify(np.zeros((8001, 1)))
    with pytest.raises(InvalidParameter, match=r"steps must be >= 2, got 1"):
        relations.get("dbscan-is-single-linkage").path(DATA["iris"], steps=1)  # type: ignore[attr-defined]


# ---- certificates --------------------------------------------------------------------------------------------------


def test_a_certificate_can_fail_and_can_decline() -> None:
    broken = certificates.Certificate(
        "r", "S.", checks=(certificates.Check("a", 2.0, 1.0), certificates.Check("b", 0, 1))
    )
    assert broken.verdict == "fails"
    assert not broken
    assert broken.tightest.what == "a"
    assert "violated" in str(broken)
    no = certificates.Precondition("ground", False, "row 3")
    declined = certificates.Certificate("r", "S.", checks=(), preconditions=(no,))
    assert declined.verdict == "does not apply"
    assert not declined
    assert "ground: no, row 3" in str(declined)
    assert not certificates.Check("nan", float("nan"), 1.0).holds
    assert certificates.Check("least", 1.0, 1.0, at_least=True).holds
    assert not certificates.Check("least", 0.0, 1.0, at_least=True).holds


# ---- single arrows: the cases that show what they are about --------------------------------------------------------


def test_mixture_to_kmeans_declines_on_a_tie() -> None:
    certificate = relations.get("mixture-to-kmeans").certify([[-1.0], [0.0], [1.0]], n_clusters=2)
    if certificate.verdict == "does not apply":
        assert "tied" in str(certificate)
    else:  # the start put 0 with one of the others at once: then nothing is tied
        assert certificate.numbers["Δ"] > 0


def test_mixture_to_kmeans_would_notice_a_softer_mixture(monkeypatch: pytest.MonkeyPatch) -> None:
    """With an ε a thousand times too large EM is not k-means, and the certificate reports it."""
    hard = mixture_to_kmeans._hard_eps
    monkeypatch.setattr(mixture_to_kmeans, "_hard_eps", lambda *arguments: 1e5 * hard(*arguments))
    assert relations.get("mixture-to-kmeans").certify(DATA["x1500"]).verdict == "fails"


def test_mixture_distance_finds_the_rows_where_mahalanobis_errs() -> None:
    certificate = relations.get("mixture-distance").certify(
        DATA["x1500"], n_components=4
    )  # 22 to 154 rows, by the seed
    assert certificate.numbers["rows that Mahalanobis alone would assign to another component"] > 0


@pytest.mark.parametrize(
    ("points", "min_samples", "reason", "rows"),
    [
        ([[0.0], [1.0], [2.0]], 3, "stuck border", [0, 2]),
        ([[-0.5, 0.0], [0.5, 0.0], [0.0, 1.0]], 3, "new mode", [0, 1]),
        ([[-1.6, 0], [1.6, 0], [-0.6, 0], [0.6, 0], [0, -0.6], [0, 0.6]], 4, "bridge", None),
    ],
)
def test_the_climb_differs_from_the_graph_for_a_reason(
    points: list[list[float]], min_samples: int, reason: str, rows: list[int] | None
) -> None:
    certificate = relations.get("dbscan-graph-and-climb").certify(points, eps=1.0, min_samples=min_samples)
    assert certificate.holds, str(certificate)
    assert certificate.numbers[f"rows: {reason}"] > 0
    if rows is not None:
        assert certificate.numbers[f"first rows: {reason}"] == rows


def test_the_smallest_level_is_sharp() -> None:
    """{0, .2, 1} at ε = 1 needs n + 1: the bound of errata item 7 is attained."""
    certificate = relations.get("climb-to-mean-shift").certify([[0.0], [0.2], [1.0]], bandwidth=1.0)
    assert certificate.holds, str(certificate)
    assert certificate.numbers["L*"] == 4


def test_an_end_with_a_row_on_its_sphere_is_no_peak() -> None:
    certificate = relations.get("mean-shift-ascent").certify([[-1.0], [0.0], [1.0]], bandwidth=1.0)
    assert certificate.holds, str(certificate)
    assert certificate.numbers["end points with a row on their sphere"] >= 1


def test_mean_shift_ascent_would_notice_a_descent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Backwards, the paths fall."""
    climb = mean_shift_ascent.KernelDensity.paths
    monkeypatch.setattr(
        mean_shift_ascent.KernelDensity, "paths", lambda self, *a: [path[::-1] for path in climb(self, *a)]
    )
    assert relations.get("mean-shift-ascent").certify(DATA["circles"]).verdict == "fails"
