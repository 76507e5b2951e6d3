"""The scaling of columns: what is chosen, and what is reported where another one gives another answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist

from knoll import DBSCAN, compare, models, scales
from knoll.comparison.other_scales import scale_notes
from knoll.exceptions import InvalidParameter
from knoll.metrics import adjusted_rand_score
from knoll.models import Preparation
from knoll.report.comparison import comparison_page


def genes(n=400, seed=0):
    """Return three groups in four columns of one unit, beside 150 columns of hardly any variation."""
    rng = np.random.default_rng(seed)
    group = rng.integers(3, size=n)
    centers = np.array([[0, 0, 0, 0], [5, 0, 0, 0], [0, 5, 0, 0]])[group]
    X = np.column_stack([centers + rng.normal(size=(n, 4)), rng.normal(1, 0.1, (n, 150))])
    return X, group


def notes(X, labels, **options):
    made = Preparation.fit(X, [f"x{j}" for j in range(X.shape[1])], scale="auto")
    return scale_notes(X, made.columns, made, labels, np.arange(len(X)), 0, 1, None)


def test_columns_of_one_unit_are_used_as_they_are():
    X, group = genes()
    wrong = (X[:, 10] > 1).astype(np.int64)
    found_notes = notes(X, wrong)
    assert len(found_notes) == 1
    assert found_notes[0].startswith(
        "If the columns have one unit: on columns as they are, not scaled, the answer would differ"
    )
    assert "3 clusters" in found_notes[0]
    assert found_notes[0].endswith('To compare on them: scale="none" (--scale none).')
    assert notes(X, group) == ()  # the answer is found without scaling


def test_nothing_is_reported_where_the_scaling_does_not_matter():
    rng = np.random.default_rng(1)
    group = rng.integers(2, size=300)
    X = rng.normal(size=(300, 5)) + 6 * group[:, None]
    assert notes(X, group) == ()
    assert notes(X, rng.integers(2, size=300)) == ()  # both scalings contradict such labels


def test_far_rows_and_skewed_columns_suggest_others():
    from knoll.comparison.other_scales import _others

    rng = np.random.default_rng(2)
    X = np.column_stack([np.exp(rng.normal(0, 1, 500)), rng.normal(size=(500, 2))])
    X[::50, 1] = 1000.0
    made = Preparation.fit(X, ["spend", "b", "c"], scale="standard")
    options = [other.option for other in _others(X, made.columns, made, np.arange(500))]
    assert options == ['scale="robust" (--scale robust)', 'log="auto" (--log auto)']


def test_compare_reports_it():
    X, _ = genes()
    found = compare(X, methods=["kmeans", "mean-shift"], budget=30, progress=False)
    again = compare(X, methods=["kmeans", "mean-shift"], budget=30, progress=False, scale="standard")
    assert (again.labels == found.labels).all()  # the note changes no answer
    assert not any("would differ" in note for note in again.notes)


# ---- directions ------------------------------------------------------------------------------------------------------


def topics(n=400, seed=0):
    """Return rows of any length in four directions."""
    rng = np.random.default_rng(seed)
    group = rng.integers(4, size=n)
    X = rng.normal(size=(4, 20))[group] + rng.normal(0, 0.3, (n, 20))
    return X * np.exp(rng.normal(0, 1.5, n))[:, None], group


def unit(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def test_rows_of_length_one_are_compared_by_direction(tmp_path):
    X, group = topics()
    found = compare(unit(X).astype(np.float32), methods=["kmeans", "hdbscan"], progress=False)
    assert found.scaling.unit_rows
    assert found.scaling.scale == "common"
    assert any("rows are divided by their lengths (cosine)" in note for note in found.notes)
    assert adjusted_rand_score(group, found.labels) == 1
    same = compare(X, methods=["kmeans", "hdbscan"], metric="cosine", progress=False)
    assert adjusted_rand_score(same.labels, found.labels) == 1
    read = models.read(same.save(tmp_path / "topics.knoll"))
    assert read.preparation == same.scaling
    np.testing.assert_array_equal(read.estimator.predict(read.preparation.apply(7 * X)), same.labels)
    assert not compare(unit(X), methods=["kmeans"], metric="euclidean", progress=False).scaling.unit_rows


def test_a_row_of_zeros_has_no_direction_and_stays():
    made = Preparation.fit([[3.0, 4.0], [0.0, 0.0]], ["a", "b"], scale="none", unit_rows=True)
    np.testing.assert_allclose(made.apply([[3e300, 4e300], [0.0, 0.0]]), [[0.6, 0.8], [0, 0]])
    assert Preparation.from_plain(made.plain()) == made


def test_cosine_needs_numbers():
    frame = pd.DataFrame({"a": [1.0, 2, 3, 4], "b": ["x", "y", "x", "y"]})
    with pytest.raises(InvalidParameter, match="metric='cosine' compares rows of complete numbers"):
        compare(frame, metric="cosine")
    with pytest.raises(InvalidParameter, match="metric must be 'euclidean' or 'cosine', got 'sine'"):
        compare(np.eye(4), metric="sine")


def test_radii_for_other_metrics():
    X, group = topics()
    estimate = scales.estimate_eps(X, 5, metric="cosine")
    labels = DBSCAN(eps=estimate.eps, min_samples=5, metric="cosine").fit_predict(X)
    assert adjusted_rand_score(group[labels >= 0], labels[labels >= 0]) == 1
    for metric in scales.METRICS:
        truth = np.sort(cdist(X, X, {"manhattan": "cityblock"}.get(metric, metric)), axis=1)[:, 4]
        np.testing.assert_allclose(scales.k_distances(X, 5, metric=metric), truth, rtol=1e-9)
    with pytest.raises(InvalidParameter, match="metric must be"):
        scales.k_distances(X, 5, metric="sine")


# ---- Booleans --------------------------------------------------------------------------------------------------------


def segments(n=600, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.integers(4, size=n)
    centers = np.array([[22, 3, 1], [40, 5, 9], [55, 4, 5], [70, 7, 2]])[group]
    frame = pd.DataFrame(centers + rng.normal(size=(n, 3)) * [2.5, 0.4, 0.8], columns=["age", "spend", "visits"])
    return frame, group, rng


@pytest.mark.parametrize("dtype", [int, float, bool])
def test_one_boolean_does_not_decide_alone(dtype):
    frame, group, rng = segments()
    plain = compare(frame, budget=20, progress=False)
    found = compare(frame.assign(newsletter=rng.integers(2, size=len(frame)).astype(dtype)), budget=20, progress=False)
    assert adjusted_rand_score(group, plain.labels) > 0.9 < adjusted_rand_score(group, found.labels)
    assert any("hardly any (nearly independent of the others): newsletter" in note for note in found.notes)


def test_one_hot_columns_do_not_decide():
    frame, group, rng = segments()
    cities = pd.get_dummies(pd.Series(rng.choice(["Rome", "Oslo", "Bonn"], len(frame)), name="city"), prefix="city")
    found = compare(pd.concat([frame, cities.astype(int)], axis=1), budget=20, progress=False)
    assert adjusted_rand_score(group, found.labels) > 0.9
    reason = "one of 3 columns that encode 'city'; give it in one column to use it"
    assert found.table.left_out == {"city_Bonn": reason, "city_Oslo": reason, "city_Rome": reason}
    kept = compare(cities.astype(int), methods=["kmeans"], progress=False)  # there is nothing else
    assert kept.table.left_out == {}


def test_a_date_that_repeats_a_number_counts_once():
    frame, _, rng = segments()
    days = rng.integers(0, 400, len(frame))
    last = (pd.Timestamp("2026-06-30") - pd.to_timedelta(days, unit="D")).strftime("%d.%m.%Y")
    found = compare(frame.assign(recency=days, last=last), methods=["kmeans"], progress=False)
    assert found.table.left_out == {"last": "it orders the rows as 'recency' does; name it in columns to use it"}


def test_the_first_page_reports_what_another_scaling_would_change():
    X, _ = topics()
    found = compare(X, methods=["kmeans"], metric="cosine", progress=False)
    doubt = "On columns divided by their quartiles the answer would differ: 2 clusters"
    text = comparison_page(replace(found, notes=(*found.notes, doubt)), X, name="x", seconds=0.0)
    card = text[text.index('<section id="recommendation"') : text.index("<nav")]
    assert doubt in card
    assert "rows are divided by their lengths (cosine)" in text[: text.index("<main>")]


def test_rare_booleans_are_no_category():
    frame, _, _rng = segments(200)
    rare = {f"has_{name}": np.arange(200) % 67 == j for j, name in enumerate(("boat", "plane"))}
    found = compare(frame.assign(**rare), methods=["kmeans"], progress=False)
    assert found.table.left_out == {}
