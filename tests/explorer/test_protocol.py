"""The wire: every message over HTTP gives what the session gives."""

from __future__ import annotations

import numpy as np
import pytest

import knoll
from knoll import DBSCAN, GaussianMixture, KMeans
from knoll.explorer import Session
from knoll.explorer.asking import ACTIONS
from knoll.explorer.wire import packed, unpacked


def labels_of(arrays):
    found = arrays["labels"]
    return np.where(found == 65535, -1, found.astype(np.int64)) if found.dtype == np.uint16 else found.astype(np.int64)


def test_open_sends_the_points_first(client):
    frames = client.frames("open")
    assert [header["kind"] for header, _ in frames] == ["part", "part", "result"]
    table = frames[0][0]["table"]
    assert (table["n"], table["drawn"], table["name"]) == (150, 150, "iris")
    session = client.page.session
    np.testing.assert_array_equal(frames[1][1]["points"], session.source.points.T.astype(np.float32))
    for at, axis in enumerate(table["axes"]):
        values = frames[1][1]["points"][at] * axis["spread"] + axis["center"]
        np.testing.assert_allclose(values, session.source.column(axis["column"]).values, rtol=1e-5)
    assert {one["name"] for one in frames[2][0]["methods"]} >= {"kmeans", "dbscan", "gaussian-mixture"}
    assert frames[2][0]["state"]["answer"] is None
    assert "labels" not in frames[2][1]


def test_fit_merge_undo(client):
    header, arrays = client.result("fit", method="kmeans", parameters={"n_clusters": 3})
    points = client.page.session.source.points
    plain = KMeans(3, n_init=2, random_state=0).fit(points).labels_
    np.testing.assert_array_equal(labels_of(arrays), plain)
    assert set(arrays) == {"labels", "shown"}
    assert header["state"]["answer"]["n_clusters"] == 3
    header, arrays = client.result("merge", clusters=[0, 2], name="<b>both</b>")
    np.testing.assert_array_equal(labels_of(arrays), np.where(plain == 2, 0, plain))
    assert header["state"]["answer"]["clusters"][0]["name"] == "<b>both</b>"
    header, arrays = client.result("undo")
    np.testing.assert_array_equal(labels_of(arrays), plain)
    assert (header["state"]["undo"], header["state"]["redo"]) == (True, True)
    header, arrays = client.result("rename", cluster=1, name="x")
    assert "labels" not in arrays
    assert header["state"]["redo"] is False


def test_a_dragged_slider_changes_no_state(client):
    header, arrays = client.result("fit", method="dbscan", parameters={"eps": 0.5, "min_samples": 5}, commit=False)
    plain = DBSCAN(0.5, min_samples=5).fit(client.page.session.source.points).labels_
    np.testing.assert_array_equal(labels_of(arrays), plain)
    assert header["state"]["step"] == 0
    assert header["state"]["answer"] is None
    header, arrays = client.result("cut", eps=0.5, min_samples=5)
    np.testing.assert_array_equal(labels_of(arrays), plain)
    assert header["state"]["step"] == 1
    header, arrays = client.result("cut", min_cluster_size=10, min_samples=5, commit=False)
    assert header["answer"]["method"] == "hdbscan"
    assert header["state"]["answer"]["method"] == "dbscan"


def test_selections(client):
    client.result("fit", method="kmeans", parameters={"n_clusters": 3})
    n, rng = 150, np.random.default_rng(0)
    mask = rng.random(n) < 0.3
    header, arrays = client.result("select", {"mask": packed(mask)}, origin="lasso in principal plane")
    np.testing.assert_array_equal(unpacked(arrays["selection"], n), mask)
    assert header["state"]["selection"] == {
        "size": int(mask.sum()),
        "origin": "lasso in principal plane",
        "clusters": [],
    }
    _, arrays = client.result("select", clusters=[1], mode="keep")
    np.testing.assert_array_equal(unpacked(arrays["selection"], n), mask & (client.page.session.labels == 1))
    _, arrays = client.result("select", where=[{"column": "petal width (cm)", "low": 1.0}])
    np.testing.assert_array_equal(unpacked(arrays["selection"], n), client.page.session.source.values[:, 3] >= 1)
    header, _ = client.result("select", none=True)
    assert header["state"]["selection"] is None
    assert client.ask("select", where=[{"column": "nothing", "low": 1}])[0]["code"] == "refused"
    assert client.ask("select", {"mask": packed(mask)[:-1]})[0]["code"] == "refused"


def test_filter_keeps_the_fit(client):
    client.result("fit", method="dbscan", parameters={"eps": 0.5, "min_samples": 5})
    header, arrays = client.result("filter", hide=[1], noise=False)
    labels = client.page.session.labels
    np.testing.assert_array_equal(unpacked(arrays["shown"], 150), labels == 0)
    assert set(arrays) == {"shown"}
    assert header["state"]["shown"] == int((labels == 0).sum())


@pytest.mark.parametrize(
    ("method", "parameter"),
    [
        ("dbscan", "eps"),
        ("hdbscan", "min_cluster_size"),
        ("gaussian-mixture", "n_components"),
        ("kmeans", "n_clusters"),
        ("spectral", "n_clusters"),
        ("mean-shift", "bandwidth"),
        ("agglomerative", "n_clusters"),
    ],
)
def test_curves(client, method, parameter):
    header, arrays = client.result("curve", method=method, parameter=parameter)
    curve = header["curve"]
    assert arrays["y"].shape == (len(curve["curves"]), len(arrays["x"]))
    assert (np.diff(arrays["x"]) > 0).all()
    assert arrays["x"].min() <= curve["suggested"] <= arrays["x"].max()
    assert curve["reason"]


def test_the_curve_of_eps_is_what_dbscan_gives(client):
    header, arrays = client.result("curve", method="dbscan", parameter="eps", parameters={"min_samples": 5})
    clusters, not_core = arrays["y"]
    points = client.page.session.source.points
    for at in range(0, 256, 17):
        plain = DBSCAN(arrays["x"][at], min_samples=5, border="noise")
        from knoll.base import collect_warnings

        with collect_warnings():
            labels = plain.fit(points).labels_
        assert clusters[at] == labels.max() + 1
        assert not_core[at] == pytest.approx((labels < 0).mean())
        assert not_core[at] == pytest.approx(1 - len(plain.core_sample_indices_) / 150)
    assert header["curve"]["suggested"] == pytest.approx(float(knoll.scales.estimate_eps(points, 5)))


def test_compare_groups_is_explain(client):
    client.result("fit", method="kmeans", parameters={"n_clusters": 3})
    session = client.page.session
    groups = client.result("compare_groups", a={"cluster": 1})[0]["groups"]
    found = knoll.explain((session.labels != 1).astype(int), session.source.table, resamples=0)
    effects = {one.column: one.effect for one in found[0].columns}
    assert {one["column"]: one["effect"] for one in groups["columns"]} == pytest.approx(effects)
    assert [one["effect"] for one in groups["columns"]] == sorted(effects.values(), reverse=True)
    assert groups["fidelity"] == pytest.approx(found.fidelity)
    assert groups["sketch"] == (found.fidelity < 0.9)
    for column in groups["columns"]:
        if column["edges"]:
            assert sum(column["counts_a"]) == groups["a"]["size"]
            assert sum(column["counts_b"]) == groups["b"]["size"]
    assert any("p-values" in note for note in groups["notes"])
    two = client.result("compare_groups", a={"cluster": 0}, b={"cluster": 2})[0]["groups"]
    assert two["a"]["size"] + two["b"]["size"] == int(np.isin(session.labels, [0, 2]).sum())
    assert client.ask("compare_groups", a={"cluster": 0}, b={"cluster": 0})[0]["code"] == "refused"


def test_a_row_is_explained(client):
    session = client.page.session
    points = session.source.points
    client.result("fit", method="dbscan", parameters={"eps": 0.5, "min_samples": 5})
    plain = DBSCAN(0.5, min_samples=5).fit(points)
    core = set(plain.core_sample_indices_.tolist())
    for row in range(0, 150, 7):
        header, arrays = client.result("explain_row", row=row)
        distances = np.sqrt(((points - points[row]) ** 2).sum(axis=1))
        kind = "core" if row in core else "border" if plain.labels_[row] >= 0 else "noise"
        assert header["row"]["kind"] == kind
        assert header["row"]["within"] == int((distances <= 0.5).sum())
        others = np.delete(distances, row)
        np.testing.assert_allclose(arrays["distances"], np.sort(others)[:10])
        np.testing.assert_allclose(distances[arrays["neighbors"]], arrays["distances"])
        assert row not in arrays["neighbors"]
    client.result("fit", method="gaussian-mixture", parameters={"n_components": 3})
    shares = GaussianMixture(3, reg_covar=1e-5, random_state=0).fit(points).predict_proba(points[60:61])[0]
    found = client.result("explain_row", row=60)[0]["row"]["clusters"]
    assert found[0]["share"] == pytest.approx(shares.max())
    client.result("fit", method="mean-shift", parameters={"bandwidth": 1.0})
    _, arrays = client.result("explain_row", row=60)
    np.testing.assert_allclose(arrays["path"][0], points[60], rtol=1e-6)
    np.testing.assert_allclose(
        arrays["path"], knoll.MeanShift(bandwidth=1.0).fit(points).paths(points[60:61])[0], rtol=1e-6
    )
    assert client.result("find_row", id="42")[0]["rows"] == [42]
    assert client.result("find_row", id="-1")[0]["rows"] == []
    assert client.ask("explain_row", row=150)[0]["code"] == "refused"


def test_views(client):
    session = client.page.session
    points = session.source.points
    header, arrays = client.result("view", kind="principal")
    values = np.linalg.eigvalsh(np.cov(points.T))
    assert header["view"]["variance"] == pytest.approx(values[-2:].sum() / values.sum())
    np.testing.assert_allclose(arrays["axes"] @ arrays["axes"].T, np.eye(2), atol=1e-6)
    assert 0 < header["view"]["kept"] <= 1
    assert client.ask("view", kind="separating")[0]["code"] == "refused"
    client.result("fit", method="kmeans", parameters={"n_clusters": 3})
    _, plane = client.result("view", kind="separating")
    assert separation(points @ plane["axes"].T, session.labels) >= separation(points @ arrays["axes"].T, session.labels)
    header, arrays = client.result("view", kind="columns", x=2, y=3)
    np.testing.assert_array_equal(arrays["axes"], np.eye(4, dtype=np.float32)[[2, 3]])
    assert header["view"]["x_label"] == "petal length (cm)"
    _, arrays = client.result("view", kind="tour", frames=60)
    assert arrays["axes"].shape == (60, 2, 4)
    for axes in arrays["axes"]:
        np.testing.assert_allclose(axes @ axes.T, np.eye(2), atol=1e-5)
    assert np.abs(np.diff(arrays["axes"], axis=0)).max() < 0.35  # no frame jumps
    _, arrays = client.result("view", kind="spectral")
    assert np.isfinite(arrays["positions"]).all()
    assert arrays["positions"].shape == (2, 150)
    header, arrays = client.result("view", kind="given", x="petal length (cm)", y="petal width (cm)")
    assert np.corrcoef(arrays["positions"][0], session.source.values[:, 2])[0, 1] == pytest.approx(1)
    assert "given" in header["view"]["title"]


def separation(plane, labels):
    """Fisher's criterion: the trace of the scatter between the clusters over that within them."""
    means = np.array([plane[labels == c].mean(axis=0) for c in labels])
    within, between = plane - means, means - plane.mean(axis=0)
    return np.trace(np.linalg.solve(within.T @ within, between.T @ between))


def test_two_answers(client):
    session = client.page.session
    client.result("fit", method="dbscan", parameters={"eps": 0.5, "min_samples": 5})
    client.result("fit", method="kmeans", parameters={"n_clusters": 3})
    a, b = (one.id for one in session.answers())
    header, arrays = client.result("contingency", a=a, b=b)
    table, first, second = header["contingency"], session.find(a).labels, session.find(b).labels
    for i, label in enumerate(table["a"]):
        for j, other in enumerate(table["b"]):
            assert arrays["counts"][i, j] == ((first == label) & (second == other)).sum()
    assert table["ari"] == pytest.approx(knoll.metrics.adjusted_rand_score(first, second))
    assert table["ami"] == pytest.approx(knoll.metrics.adjusted_mutual_info_score(first, second))
    matched = sum(arrays["counts"][table["a"].index(x), table["b"].index(int(y))] for y, x in table["match"].items())
    assert table["differ"] == 150 - matched
    header, _ = client.result("select", differ={"a": a, "b": b})
    assert header["state"]["selection"]["size"] == table["differ"]
    cell = [table["a"][0], table["b"][0]]
    header, _ = client.result("select", cells={"a": a, "b": b, "cells": [cell]})
    assert header["state"]["selection"]["size"] == arrays["counts"][0, 0]


def test_the_histogram_counts_every_shown_row(client):
    client.result("fit", method="dbscan", parameters={"eps": 0.5, "min_samples": 5})
    axes = np.eye(4, dtype=np.float32)[:2]
    points = client.page.session.source.points
    box = [
        float(points[:, 0].min()),
        float(points[:, 0].max()) + 1e-6,
        float(points[:, 1].min()),
        float(points[:, 1].max()) + 1e-6,
    ]
    header, arrays = client.result("density2d", {"axes": axes}, box=box, bins=[10, 7])
    labels = client.page.session.labels
    assert arrays["counts"].shape == (3, 7, 10)
    np.testing.assert_array_equal(
        arrays["counts"].sum(axis=(1, 2)), [(labels == 0).sum(), (labels == 1).sum(), (labels < 0).sum()]
    )
    expected = np.histogram2d(points[labels == 0, 1], points[labels == 0, 0], (7, 10), [box[2:], box[:2]])[0]
    np.testing.assert_array_equal(arrays["counts"][0], expected)
    assert header["labels"] == [0, 1]
    client.result("filter", hide=[0])
    _, arrays = client.result("density2d", {"axes": axes}, box=box, bins=[10, 7])
    assert arrays["counts"][0].sum() == 0


def test_stability(client):
    client.result("fit", method="kmeans", parameters={"n_clusters": 3})
    found = client.result("stability")[0]["stability"]
    assert [one["label"] for one in found] == [0, 1, 2]
    assert all(0.3 < one["jaccard"] <= 1 for one in found)
    client.result("merge", clusters=[0, 1])
    assert client.ask("stability")[0]["code"] == "refused"


@pytest.mark.parametrize("relation", ["mixture-to-kmeans", "gaussian-to-heaviside", "climb-to-mean-shift"])
def test_morph(client, relation):
    client.result("fit", method="kmeans", parameters={"n_clusters": 3})
    step = client.page.session.history.position
    frames = [client.result("morph", relation=relation, at=at) for at in (0.0, 0.5, 1.0)]
    points = client.page.session.source.points
    parameters = {"n_clusters": 3} if relation == "mixture-to-kmeans" else {}
    path = knoll.relations.get(relation).path(points, 24, **parameters)
    for (header, arrays), at in zip(frames, (0, 12, len(path) - 1)):
        if len(path) == 24:
            np.testing.assert_array_equal(labels_of(arrays), path[at].labels)
        assert header["morph"]["verdict"] in ("holds", "fails", "does not apply")
        assert header["morph"]["measured"]
    assert client.page.session.history.position == step


def test_log_and_refit(client):
    client.result("fit", method="kmeans", parameters={"n_clusters": 2})
    client.result("select", clusters=[0])
    header, arrays = client.result("refit", methods=["kmeans", "gaussian-mixture"], budget=20)
    assert header["refit"]["verdict"] in ("clusters", "none", "unclear")
    assert ("labels" in arrays) == (header["refit"]["verdict"] != "none")
    log = client.result("log")[0]
    assert log["attempts"] == 1
    assert log["log"][-1]["current"]
    assert log["script"] == client.page.session.script()


def test_a_recommendation_comes_in_the_background(client):
    assert client.result("recommend", methods=["kmeans", "dbscan"], budget=20)[0]["running"]
    last, done = 0, False
    while not done:
        found = client.http.get("/api/events", params={"after": last}).json()
        last = found["last"]
        done = any(one.get("done") for one in found["events"] if one["kind"] == "recommend")
    header = client.result("recommendation")[0]
    assert not header["running"]
    found = knoll.compare(client.page.session.source.table, methods=["kmeans", "dbscan"], budget=20, progress=False)
    best = client.page.session.find(header["recommendation"]["answer"])
    np.testing.assert_array_equal(best.labels, found.labels)
    assert header["recommendation"]["verdict"] == found.verdict
    header, arrays = client.result("state")  # it is shown: nothing else was
    assert header["state"]["answer"]["id"] == best.id
    np.testing.assert_array_equal(labels_of(arrays), found.labels)


def test_every_message_is_documented():
    from pathlib import Path

    text = (Path(__file__).parents[2] / "docs/guide/explorer-protocol.md").read_text(encoding="utf-8")
    table = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    for name in [*ACTIONS, "cancel"]:
        assert any(f"`{name}`" in cell for cell in table), name


def test_a_session_and_the_page_do_the_same(client):
    """The law of the page: each action over HTTP and by the session comes to the same state."""
    other = Session.open("iris")
    client.result("fit", method="kmeans", parameters={"n_clusters": 4})
    client.result("select", clusters=[0, 3])
    client.result("split", cluster=1, into=2)
    client.result("move", group="selection", to=2)
    client.result("merge", clusters=[1, 2])
    client.result("filter", where=[{"column": "petal width (cm)", "high": 1.5}])
    other.fit("kmeans", n_clusters=4)
    other.select(clusters=[0, 3]).split(1, 2).move("selection", 2).merge([1, 2])
    other.filter(where=[{"column": "petal width (cm)", "high": 1.5}])
    assert other.digest == client.page.session.digest
