"""`knoll.explain`: names, example rows, stability, odd tables, and its errors."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

import knoll
from knoll.exceptions import BadData, InvalidParameter
from tests.explanation.tables import random_table


@pytest.fixture
def customers():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 100)
    spend = np.array([40.0, 900, 300])[labels] * np.exp(0.2 * rng.normal(size=300))
    visits = rng.poisson(np.array([2, 20, 9])[labels])
    newsletter = np.where(rng.random(300) < np.array([0.05, 0.9, 0.5])[labels], "yes", "no")
    frame = pd.DataFrame({"spend": spend.round(2), "visits": visits, "newsletter": newsletter})
    frame.index = [f"row-{i}" for i in range(300)]
    return frame, labels


def test_names_report_what_sets_a_cluster_apart(customers):
    frame, labels = customers
    names = knoll.explain(labels, frame).names
    assert names[0] in ("low spend, few visits", "few visits, low spend")
    assert names[1] in ("high spend, many visits", "many visits, high spend")
    assert len(set(names.values())) == 3


def test_names_are_unique_even_where_nothing_sets_clusters_apart():
    x = np.random.default_rng(0).normal(size=(400, 2))
    found = knoll.explain(np.arange(400) % 20, x)
    assert len(set(found.names.values())) == 20
    assert found.names[3] == "cluster 3"


@pytest.mark.parametrize("seed", range(5))
def test_names_are_unique_on_random_tables(seed):
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(12, 2)) * 3
    labels = rng.integers(0, 12, 900)
    found = knoll.explain(labels, centers[labels] + rng.normal(size=(900, 2)), columns=["a", "b"])
    assert len(set(found.names.values())) == 12


def test_names_can_be_set(customers):
    frame, labels = customers
    found = knoll.explain(labels, frame, names={0: "Rare", 1: "Regulars"})
    assert (found.names[0], found.names[1]) == ("Rare", "Regulars")
    assert found.names[2] not in ("Rare", "Regulars")
    assert knoll.explain(labels, frame, names=["a", "b", "c"]).names == {0: "a", 1: "b", 2: "c"}
    texts = knoll.explain(np.array(["x", "y", "z"])[labels], frame)
    assert texts.names == {0: "x", 1: "y", 2: "z"}
    proposed = knoll.explain(labels, frame).names[0]
    both = knoll.explain(labels, frame, names={1: proposed}).names
    assert len(set(both.values())) == 3


def test_typical_rows_are_the_nearest_to_the_centre(customers):
    frame, labels = customers
    points = np.column_stack([np.log(frame["spend"]), frame["visits"]])
    found = knoll.explain(labels, frame, points=points, rows=4)
    for cluster in found.clusters:
        own = np.flatnonzero(labels == cluster.label)
        far = np.linalg.norm(points[own] - points[own].mean(axis=0), axis=1)
        nearest = own[np.argsort(far, kind="stable")[:4]]
        assert sorted(row.value for row in cluster.typical) == pytest.approx(np.sort(far)[:4])
        assert {row.row for row in cluster.typical} == set(nearest.tolist())
        assert all(row.id == f"row-{row.row}" for row in cluster.typical)
        cells = cluster.typical[0].cells
        assert cells["visits"] == str(frame["visits"].iloc[cluster.typical[0].row])


def examples(labels, table, points, unit=1.0):
    clusters = knoll.explain(labels, table, points=points).clusters
    typical = [[(row.row, row.value / unit) for row in cluster.typical] for cluster in clusters]
    return typical, [[row.row for row in cluster.border] for cluster in clusters]


@pytest.mark.parametrize("power", [130, 400, 1000, -250, -600])
def test_example_rows_do_not_depend_on_the_unit_of_the_points(power):
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 60)
    x = rng.normal(size=(120, 2)) + 2.0 * labels[:, None]
    expected = examples(labels, x, x)
    assert all(expected[1])
    assert examples(labels, x, np.ldexp(x, power), 2.0**power) == expected


def test_border_rows_do_not_depend_on_the_origin():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 60)
    x = np.round(rng.normal(size=(120, 2)) * 64 + 96 * labels[:, None])  # integers, which can be moved without rounding
    assert examples(labels, x, x + 2.0**40)[1] == examples(labels, x, x)[1]


def test_border_rows_lie_between_two_clusters():
    x = np.r_[np.linspace(0, 1, 60), np.linspace(1.02, 2, 60), np.linspace(9, 10, 60)]
    labels = np.repeat([0, 1, 2], 60)
    found = knoll.explain(labels, x[:, None], columns=["x"], names=["left", "middle", "right"], rows=2)
    assert [row.row for row in found[0].border] == [59]
    assert found[0].border[0].reason == "near middle"
    assert found[1].border[0].row == 60
    assert found[2].border == ()


def test_unusual_rows_come_with_the_value_that_is_unusual(customers):
    frame, labels = customers
    frame.loc["row-17", "spend"] = 5000.0
    found = knoll.explain(labels, frame)
    (first, *_) = found[0].unusual
    assert (first.row, first.id) == (17, "row-17")
    assert first.reason.startswith("spend 5000, half of the cluster ")


def test_stability_of_a_model():
    rng = np.random.default_rng(0)
    x = np.r_[rng.normal(size=(80, 2)), rng.normal(size=(80, 2)) + 12, rng.normal(size=(160, 2)) + np.array([24, 0])]
    model = knoll.KMeans(3, n_init=3, random_state=0).fit(x)
    found = knoll.explain(model, x)
    assert all(cluster.stability > 0.99 for cluster in found.clusters)
    cloud = rng.normal(size=(300, 2))
    divided = knoll.explain(knoll.KMeans(6, random_state=0).fit(cloud), cloud)  # where it is cut is chance
    assert np.mean([cluster.stability for cluster in divided.clusters]) < 0.8
    assert "10 refits to random halves" in found.notes[-1]
    assert all(one.stability is None for one in knoll.explain(model, x, resamples=0).clusters)
    assert all(one.stability is None for one in knoll.explain(model.labels_, x).clusters)


def test_the_columns_of_a_model_are_the_used_ones(customers):
    frame, _ = customers
    model = knoll.KMeans(3, random_state=0).fit(frame[["spend", "visits"]])
    found = knoll.explain(model, frame, resamples=2)
    assert [one.used for one in found[0].columns] == [True, True, False]
    assert found.clusters[0].stability is not None
    later = knoll.explain(model, frame.iloc[:50], resamples=0)
    assert later.n_rows == 50


@pytest.mark.parametrize("convert", [lambda f: f, pl.from_pandas, lambda f: {c: f[c].tolist() for c in f}])
def test_every_type_of_table(customers, convert):
    frame, labels = customers
    found = knoll.explain(labels, convert(frame.reset_index(drop=True)))
    assert found.to_dict() == knoll.explain(labels, frame.reset_index(drop=True)).to_dict()


# ---- odd tables ------------------------------------------------------------------------------------------------------


def test_one_cluster():
    found = knoll.explain(np.zeros(50, int), np.random.default_rng(0).normal(size=(50, 2)))
    assert found.names == {0: "all rows"}
    assert (found.depth, found.fidelity) == (0, 1.0)
    assert found[0].traits == ()
    assert found[0].columns[0].quartiles is not None
    assert found.to_sql() == "0"
    assert repr(found).startswith("1 cluster of 50 rows\n")


def test_all_noise():
    found = knoll.explain(np.full(50, -1), np.random.default_rng(0).normal(size=(50, 2)))
    assert found.names == {-1: "noise"}
    assert repr(found).startswith("0 clusters and noise of 50 rows")


def test_noise_is_a_group_of_its_own():
    table, labels = random_table(0)
    found = knoll.explain(labels, table)
    assert found.clusters[-1].label == -1
    assert found.clusters[-1].name == "noise"
    assert found.clusters[-1].size == (labels < 0).sum()


@pytest.mark.parametrize("n", [2, 3])
def test_few_rows(n):
    found = knoll.explain(np.arange(n), {"x": np.arange(n) * 1.0, "y": list("abc")[:n]})
    assert len(found.clusters) == n
    assert found.fidelity == 1.0


def test_one_row_has_nothing_to_describe():
    with pytest.raises(BadData, match=r"the table has no column that can be described \('x': a single value"):
        knoll.explain([0], {"x": [1.0]})


def test_constant_and_empty_columns_are_left_out(customers):
    frame, labels = customers
    found = knoll.explain(labels, frame.assign(version=3, empty=None, kind="x"))
    assert set(found.left_out) == {"version", "empty", "kind"}
    numbers = knoll.explain([0, 0, 1, 1], [[1.0, 5.0, np.nan], [2.0, 5.0, np.nan], [8.0, 5.0, np.nan], [9.0, 5.0, 1.0]])
    assert numbers.left_out == {"1": "a single value", "2": "a single value"}


def test_a_category_with_many_levels(customers):
    frame, labels = customers
    rng = np.random.default_rng(0)
    texts = [f"T{i}" for i in range(300)]
    many = np.where(labels == 1, "common", [f"L{i}" for i in rng.integers(0, 290, 300)])
    found = knoll.explain(labels, frame.assign(many=many, note=texts), used=["spend", "visits", "newsletter"])
    one = next(each for each in found[1].columns if each.column == "many")
    assert one.levels[0].value == "common"
    assert one.levels[0].share == 1.0
    assert "note" in found.left_out


def test_a_column_that_is_missing_in_one_cluster(customers):
    frame, labels = customers
    frame["spend"] = frame["spend"].where(labels != 1)
    found = knoll.explain(labels, frame)
    one = found[1].columns[0]
    assert (one.missing, one.missing_others, one.quartiles) == (1.0, 0.0, None)
    assert "missing in 100 %, others 0 %" in one.details
    assert found.fidelity > 0.95


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_extreme_numbers(scale):
    rng = np.random.default_rng(0)
    x = (rng.random((90, 2)) + np.repeat([[0.0], [2.0], [4.0]], 30, axis=0)) * scale / 8
    found = knoll.explain(np.repeat([0, 1, 2], 30), x)
    assert found.fidelity == 1.0
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))


def test_a_million_rows_report_what_was_sampled():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 60_000)
    found = knoll.explain(labels, rng.normal(size=(60_000, 2)) + 4 * labels[:, None])
    assert any("chosen on 30\u202f000 different rows" in note for note in found.notes)
    assert any("sample of about 3000 rows" in note for note in found.notes)
    assert any("exact to 1/4096" in note for note in found.notes)
    assert found.fidelity > 0.9


# ---- for people ------------------------------------------------------------------------------------------------------


def test_what_is_shown_is_escaped():
    found = knoll.explain([0, 0, 1, 1] * 5, {"<b>x</b>": [1.0, 2, 8, 9] * 5}, names={0: "<script>"})
    html = found._repr_html_()
    assert "<script>" not in html
    assert "<b>x" not in html
    assert "&lt;script&gt;" in html


def test_the_frame_has_a_row_for_each_cluster_and_column(customers):
    frame, labels = customers
    found = knoll.explain(labels, frame).to_frame()
    assert len(found) == 9
    spend = found[(found["cluster"] == 0) & (found["column"] == "spend")].iloc[0]
    assert spend["median"] == np.median(frame["spend"][labels == 0])
    flag = found[(found["cluster"] == 1) & (found["column"] == "newsletter")].iloc[0]
    assert flag["level"] == "yes"
    assert flag["lift"] == pytest.approx(flag["share"] / flag["others_share"])


def test_it_is_plain_data(customers):
    frame, labels = customers
    output = knoll.explain(labels, frame).to_dict()
    assert json.loads(json.dumps(output, allow_nan=False)) == output
    assert set(output) == {"n_rows", "fidelity", "depth", "left_out", "notes", "sql", "python", "clusters"}


# ---- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"depth": 5}, InvalidParameter, "depth must be a whole number from 0 to 4, got 5"),
        ({"rows": -1}, InvalidParameter, "rows must be a whole number from 0 to 100, got -1"),
        ({"names": {7: "x"}}, InvalidParameter, "names: there is no cluster 7. There are: 0, 1, 2."),
        ({"names": {0: "x", 1: "x"}}, InvalidParameter, "names: 'x' is the name of two clusters"),
        ({"names": {0: " "}}, InvalidParameter, "names: the name of cluster 0 is empty"),
        ({"names": "abc"}, InvalidParameter, "names must be a mapping or a sequence, got 'abc'"),
        ({"used": ["cost"]}, InvalidParameter, "used: the table has no column 'cost'. It has: spend, visits"),
        ({"ids": "name"}, InvalidParameter, "ids: the table has no column 'name'"),
        ({"ids": [1, 2]}, InvalidParameter, "ids has 2 entries for 300 rows"),
        ({"sample_weight": [1.0]}, BadData, "sample_weight must be 300 finite numbers >= 0"),
        ({"sample_weight": np.zeros(300)}, BadData, "every row has weight 0"),
        ({"sample_weight": np.full(300, 1e307)}, BadData, "sample_weight adds up to more than the largest float64"),
        ({"sample_weight": np.ma.masked_less(np.arange(300.0), 2)}, BadData, "sample_weight has 2 masked entries"),
        ({"points": [[1.0]]}, BadData, "points must be 300 rows of finite numbers"),
        ({"points": np.ma.masked_less(np.arange(300.0)[:, None], 3)}, BadData, "points has 3 masked entries"),
    ],
)
def test_errors(customers, options, error, message):
    frame, labels = customers
    with pytest.raises(error, match=message.replace("(", r"\(")):
        knoll.explain(labels, frame, **options)


def test_errors_of_labels_and_tables(customers):
    frame, labels = customers
    with pytest.raises(BadData, match="labels has 299 entries for 300 rows of the table"):
        knoll.explain(labels[1:], frame)
    with pytest.raises(BadData, match="labels must be whole numbers, −1 for noise, or texts"):
        knoll.explain(labels + 0.5, frame)
    with pytest.raises(BadData, match=r"labels must have one entry for each row, got shape \(2, 2\)"):
        knoll.explain([[0, 1], [1, 0]], frame)
    with pytest.raises(BadData, match="labels has 100 masked entries, and what lies under a mask would count"):
        knoll.explain(np.ma.masked_equal(labels, 2), frame)
    with pytest.raises(BadData, match="table has 1 masked entries"):
        knoll.explain(labels, np.ma.masked_equal(np.arange(300.0)[:, None], 7))
    with pytest.raises(BadData, match="table must be a data frame or rows and columns of numbers"):
        knoll.explain(labels, np.array([["a"]] * 300))
    with pytest.raises(InvalidParameter, match="columns has 1 names for 2 columns"):
        knoll.explain(labels, np.zeros((300, 2)), columns=["a"])
    with pytest.raises(InvalidParameter, match=r"there is no cluster 9\. There are: 0, 1, 2\."):
        knoll.explain(labels, frame)[9]
