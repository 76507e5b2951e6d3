"""Latitude and longitude: recognised, put on a plane or a sphere whose distances are those on the Earth."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import knoll
from knoll import DBSCAN, compare, models
from knoll.exceptions import BadData, InvalidParameter
from knoll.metrics import adjusted_rand_score
from knoll.models import Preparation
from knoll.report.comparison_view import shown_rows
from knoll.tables import recognise
from knoll.tables.positions import MOST_DISTORTION, RADIUS, Position, pairs_of, unwrapped
from knoll.tables.typed import frame_table

CITIES = np.array([[52.5, 13.4], [48.85, 2.35], [-17.7, 179.9], [64.1, -21.9]])  # the third one lies across 180°


def haversine(a, b):
    """Return the distance on the sphere in km."""
    (p, q), (r, s) = np.radians(a).T, np.radians(b).T
    return 2 * RADIUS * np.arcsin(np.sqrt(np.sin((r - p) / 2) ** 2 + np.cos(p) * np.cos(r) * np.sin((s - q) / 2) ** 2))


def around(centers, n, deviation=0.3, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, len(centers), n)
    X = centers[group] + rng.normal(0, deviation, (n, 2)) / np.c_[np.ones(n), np.cos(np.radians(centers[group][:, 0]))]
    X[:, 1] = (X[:, 1] + 180) % 360 - 180
    return X, group


def frame(X, **more):
    return pd.DataFrame({"lat": X[:, 0], "lon": X[:, 1], **more})


# ---- distances -------------------------------------------------------------------------------------------------------


@given(st.floats(-89, 89), st.floats(-180, 180), st.sampled_from([1e-4, 0.01, 1.0, 20.0]), st.integers(0, 10**6))
def test_distances_on_the_plane_are_those_on_the_earth_up_to_the_distortion(up, across, extent, seed):
    rng = np.random.default_rng(seed)
    X = np.column_stack([
        np.clip(up + rng.uniform(-extent, extent, 40), -90, 90),
        across + rng.uniform(-extent, extent, 40) / max(0.02, np.cos(np.radians(up))),
    ])  # fmt: skip
    X[:, 1] = (X[:, 1] + 180) % 360 - 180
    position = Position(0, 1).fitted(X)
    found = position.coordinates(X)
    a, b = np.triu_indices(40, 1)
    here, truth = np.sqrt(((found[a] - found[b]) ** 2).sum(axis=1)), haversine(X[a], X[b])
    if position.form == "sphere":
        np.testing.assert_allclose(here, 2 * RADIUS * np.sin(truth / RADIUS / 2), rtol=1e-9, atol=1e-6)
    else:
        assert 1 <= position.distortion <= MOST_DISTORTION
        most = position.distortion * (1 + 1e-9)
        assert (here <= most * truth + 1e-6).all()
        assert (most * here >= truth - 1e-6).all()


def test_areas_on_the_plane_are_those_on_the_earth():
    corners = np.array([[50.0, 10.0], [50.0, 10.1], [50.1, 10.1], [50.1, 10.0]])
    x, y = Position(0, 1, center=(45.0, 0.0)).coordinates(corners).T
    area = 0.5 * abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1)))
    truth = RADIUS**2 * np.radians(0.1) * (np.sin(np.radians(50.1)) - np.sin(np.radians(50.0)))
    np.testing.assert_allclose(area, truth, rtol=1e-5)


def test_the_order_of_rows_changes_nothing_and_a_file_keeps_it():
    X, _ = around(CITIES, 60)
    table = frame_table(frame(X, city=np.where(X[:, 0] > 50, "n", "s")))
    made = Preparation.fit(table.X, table.columns, scale="auto", schema=table.schema)
    order = np.random.default_rng(1).permutation(len(X))
    assert Preparation.fit(table.X[order], table.columns, scale="auto", schema=table.schema) == made
    assert Preparation.from_plain(json.loads(json.dumps(made.plain()))) == made
    assert made.names[:3] == (
        *("km along x (lat, lon)", "km along y (lat, lon)", "km along z (lat, lon)")[:2],
        "km along z (lat, lon)",
    )
    scaled = made.apply(table.X)
    assert scaled.shape[1] == len(made.names) == 4
    np.testing.assert_allclose(scaled[:, :3].var(axis=0).sum(), 2)  # as much as two standardised columns


@pytest.mark.parametrize("change", [
    {"form": "cube"}, {"latitude": 1}, {"longitude": 5}, {"center": [100.0, 0.0]}, {"distortion": 0.5}, {"more": 1},
])  # fmt: skip
def test_a_file_with_a_senseless_position_is_refused(change):
    X, _ = around(CITIES[:2], 20)
    table = frame_table(frame(X))
    plain = Preparation.fit(table.X, table.columns, scale="auto", schema=table.schema).plain()
    plain["positions"][0] |= change
    with pytest.raises(Exception, match="makes no sense"):
        Preparation.from_plain(plain)


def test_a_missing_coordinate_leaves_the_position_out():
    X, _ = around(CITIES[:1], 50)
    X[3, 1] = np.nan
    found = Position(0, 1).fitted(X).coordinates(X)
    assert np.isnan(found[3]).all()
    assert np.isfinite(np.delete(found, 3, axis=0)).all()


# ---- recognition -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("up", "across"), [
    ("lat", "lon"), ("Latitude", "Longitude"), ("LAT", "LNG"), ("pickup_latitude", "pickup_longitude"),
    ("pickupLat", "pickupLng"), ("lat (deg)", "long (deg)"), ("Breitengrad", "Längengrad"),
])  # fmt: skip
def test_pairs_are_found_by_their_names(up, across):
    schema = recognise(pd.DataFrame({across: [13.4, 2.35, -0.1], "x": [1.0, 2, 4], up: [52.5, 48.85, 51.5]}))
    assert [(c.name, c.type) for c in schema.columns] == [(across, "longitude"), ("x", "number"), (up, "latitude")]
    assert [(p.latitude, p.longitude) for p in schema.positions] == [(2, 0)]


def test_columns_of_other_names_or_ranges_are_numbers():
    values = {"latency": [10.0, 20, 30], "longest": [1.0, 2, 4], "lat": [1.0, 95, 3]}
    assert {c.type for c in recognise(pd.DataFrame(values)).columns} == {"number"}
    swapped = recognise(pd.DataFrame({"lat": [113.4, 2.35, 9.0], "lon": [52.5, 48.85, 47.0]})).columns
    assert [c.type for c in swapped] == ["number", "number"]
    assert "they would be if lat and lon were swapped" in swapped[0].note
    radians = recognise(pd.DataFrame(np.radians([[52.5, 13.4], [48.85, 2.35]]), columns=["lat", "lon"])).columns
    assert [c.type for c in radians] == ["number", "number"]
    assert "look like radians; if they are degrees: --types lat=latitude,lon=longitude" in radians[0].note


def test_types_name_a_pair():
    values = {"y": ["52,5", "48,85", "51,5"], "x": ["13,4", "2,35", "-0,1"]}
    table = frame_table(pd.DataFrame(values), types={"y": "latitude", "x": "longitude"})
    assert [c.type for c in table.schema.columns] == ["latitude", "longitude"]
    with pytest.raises(BadData, match="column 'y' is a latitude; name the longitude, too"):
        frame_table(pd.DataFrame(values), types={"y": "latitude"})
    with pytest.raises(BadData, match="column 'a' cannot be a latitude: they are not degrees"):
        frame_table(pd.DataFrame({"a": [100.0, 1, 2], "b": [1.0, 2, 3]}), types={"a": "latitude", "b": "longitude"})
    assert {c.type for c in frame_table(frame(CITIES), types={"lat": "number"}).schema.columns} == {"number"}


def test_several_pairs_are_paired_by_the_remainder_of_their_names():
    assert pairs_of(["lat_a", "lat_b"], ["lon_b", "lon_a"]) == [("lat_a", "lon_a"), ("lat_b", "lon_b")]
    assert pairs_of(["y"], ["x", "z"]) == [("y", "x")]


# ---- comparisons -----------------------------------------------------------------------------------------------------


def test_clusters_across_180_degrees_stay_whole():
    X, group = around(CITIES, 400)
    found = compare(frame(X), methods=["kmeans", "gaussian-mixture", "dbscan"], budget=20, progress=False)
    assert adjusted_rand_score(group, found.labels) == 1
    assert any("distances are chords of the Earth, in km" in note for note in found.notes)


def test_a_map_reports_where_it_is_and_new_rows_go_onto_it(tmp_path):
    centers = np.array([[52.3, 13.0], [52.5, 13.4], [52.7, 13.1]])
    X, group = around(centers, 300, 0.01)
    found = compare(frame(X), methods=["kmeans", "dbscan"], budget=20, progress=False)
    assert adjusted_rand_score(group, found.labels) == 1
    assert any(re.search(r"in km on an equal-area map around 52\.\d+° N, 13\.\d+° E \(error under", note)
               for note in found.notes)  # fmt: skip
    found.save(tmp_path / "model.knoll")
    read = models.read(tmp_path / "model.knoll")
    assert read.preparation == found.scaling
    np.testing.assert_array_equal(read.estimator.predict(read.preparation.apply(frame(X))), found.labels)


def test_a_radius_may_be_a_length():
    X, _ = around(np.array([[52.3, 13.0], [52.35, 13.05]]), 500, 0.004, seed=3)
    near = {"eps": "150m", "min_samples": 5}
    truth = DBSCAN(metric="haversine", **near).fit(np.radians(X))
    for parameters in (near, near | {"metric": "haversine"}, {**near, "metric": "haversine", "eps": 0.15 / RADIUS}):
        found = compare(frame(X), methods=["dbscan"], parameters={"dbscan": parameters}, exact=True, progress=False)
        np.testing.assert_array_equal(found.candidates["dbscan"].labels >= 0, truth.labels_ >= 0)
        assert adjusted_rand_score(found.candidates["dbscan"].labels, truth.labels_) == 1
    with pytest.raises(InvalidParameter, match="metric=haversine of dbscan needs a table with a latitude and a longit"):
        compare(X, methods=["dbscan"], parameters={"dbscan": near | {"metric": "haversine"}}, progress=False)


def test_positions_beside_other_columns_and_gaps():
    X, group = around(CITIES[[0, 1]], 300, seed=2)
    rng = np.random.default_rng(0)
    X[rng.random(300) < 0.05, 1] = np.nan
    table = frame(X, spend=rng.normal(0, 1, 300), kind=np.where(group == 0, "a", "b"))
    found = compare(table, methods=["mixed-mixture", "k-prototypes", "kmeans"], budget=20, progress=False)
    assert adjusted_rand_score(group, found.labels) > 0.9
    for name, candidate in found.candidates.items():
        prepared = found.preparation(candidate).apply(table)
        np.testing.assert_array_equal(candidate.model.predict(prepared), candidate.labels, name)


# ---- pictures and files ----------------------------------------------------------------------------------------------


def test_the_map_has_longitude_across_in_equal_units():
    X = np.array([[60.0, 178.0], [60.0, -178.0], [61.0, 179.0]])
    table = frame_table(frame(X))
    made = Preparation.fit(table.X, table.columns, scale="auto", schema=table.schema)
    shown = shown_rows(made.apply(table.X), made, np.arange(3), 3, table.X)
    across, up = shown.positions.T
    assert shown.equal
    assert up.tolist() == [60, 60, 61]
    np.testing.assert_allclose(np.diff(across)[0], 4 * np.cos(np.radians(up.mean())))
    assert [axis.name for axis in shown.axes] == ["lon (degrees)", "lat (degrees)"]
    assert "−179°" in [text for _, text in shown.axes[0].ticks]
    np.testing.assert_array_equal(unwrapped(np.array([178.0, -178, np.nan])), [178, 182, np.nan])


def test_geojson_has_clusters_and_names(tmp_path):
    X, _ = around(CITIES, 80)
    X[0] = np.nan
    table = frame(X).set_index(pd.Index([f"s{i}" for i in range(80)]))
    found = compare(table, methods=["kmeans"], budget=10, progress=False)
    read = json.loads(found.to_geojson(tmp_path / "points.geojson", names={0: "Zürich"}).read_text(encoding="utf-8"))
    assert read["type"] == "FeatureCollection"
    assert len(read["features"]) == 80
    first, second = read["features"][:2]
    assert first["geometry"] is None
    assert first["properties"]["id"] == "s0"
    np.testing.assert_allclose(second["geometry"]["coordinates"], X[1, ::-1], atol=1e-7)
    assert second["properties"]["cluster"] == found.labels[1] == second["properties"]["kmeans"]
    assert {one["properties"]["name"] for one in read["features"] if one["properties"]["cluster"] == 0} == {"Zürich"}
    plain = compare(np.random.default_rng(0).normal(size=(30, 2)), methods=["kmeans"], progress=False)
    with pytest.raises(BadData, match="GeoJSON needs a table with a latitude and a longitude"):
        plain.to_geojson(tmp_path / "none.geojson")


def test_it_is_a_map_in_matplotlib_too():
    X, _ = around(CITIES[:1], 50)
    ax = compare(frame(X), methods=["kmeans"], progress=False).plot()
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("lon", "lat")
    np.testing.assert_allclose(ax.get_aspect(), 1 / np.cos(np.radians(X[:, 0].mean())))


def test_the_clusters_of_the_directions_have_names():
    X, _ = around(np.array([[52.0, 13.0], [53.0, 13.0]]), 100, 0.02)
    names = compare(frame(X), methods=["kmeans"], progress=False).explain(resamples=0).names.values()
    assert {name.split(",")[0] for name in names} == {"north", "south"}


# ---- the command line ------------------------------------------------------------------------------------------------


def test_fit_takes_degrees_for_haversine_and_geojson_comes_out(tmp_path, capsys):
    from knoll.cli import main

    X, _ = around(np.array([[52.3, 13.0], [52.35, 13.05]]), 300, 0.004)
    path, model, out = tmp_path / "shops.csv", tmp_path / "shops.knoll", tmp_path / "labels.geojson"
    frame(X, shop=[f"s{i}" for i in range(300)]).to_csv(path, index=False)
    call = ["fit", "dbscan", path, "--param", "metric=haversine", "--param", "eps=150m", "--out", model]
    assert main([str(arg) for arg in call]) == 0
    assert "lat, lon: degrees, converted to radians for the haversine metric." in capsys.readouterr().out
    truth = DBSCAN(eps="150m", metric="haversine").fit(np.radians(X))
    np.testing.assert_array_equal(knoll.load(model).labels_, truth.labels_)
    assert main(["predict", str(model), str(path), "--id", "shop", "--out", str(out)]) == 0
    features = json.loads(out.read_text())["features"]
    assert [one["properties"]["label"] for one in features] == truth.labels_.tolist()
    capsys.readouterr()
    assert main(["fit", "dbscan", "iris", "--param", "metric=haversine"]) == 2
    assert "takes a table with a latitude and a longitude, in degrees, and nothing else" in capsys.readouterr().err


def test_compare_writes_points(tmp_path, capsys):
    from knoll.cli import main

    X, _ = around(CITIES[:2], 60)
    frame(X).to_csv(tmp_path / "cities.csv", index=False)
    args = [
        "compare",
        tmp_path / "cities.csv",
        "--methods",
        "kmeans",
        "--out",
        tmp_path / "out",
        "--format",
        "geojson",
    ]
    assert main([str(arg) for arg in args]) == 0
    assert "Positions by lat, lon: distances are in km on an equal-area map" in " ".join(
        capsys.readouterr().out.split()
    )
    page = (tmp_path / "out" / "report.html").read_text()
    assert "distances are in km on an equal-area map" in page
    assert "Horizontal: lon (degrees)" in page
    read = json.loads((tmp_path / "out" / "labels.geojson").read_text())
    assert {"row", "cluster", "name", "kmeans"} <= set(read["features"][0]["properties"])
    args[1:2] = ["iris"]
    assert main([*map(str, args), "--force"]) == 2
    assert "GeoJSON needs a table with a latitude and a longitude" in capsys.readouterr().err
