"""Tables with categories and missing values in a comparison: what counts, what is found, what is deployed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score

from knoll import compare, models
from knoll.comparison.likelihood import likelihood_gains
from knoll.comparison.subsample import MixedRows
from knoll.exceptions import InvalidParameter
from knoll.registry import compared


def customers(n=500, seed=0, missing=0.0):
    """Return four segments of numbers, and two categories that have nothing to do with them."""
    rng = np.random.default_rng(seed)
    group = rng.integers(4, size=n)
    centers = np.array([[20, 9.8, 2], [35, 10.6, 20], [50, 11.2, 8], [65, 10.2, 30]])[group]
    frame = pd.DataFrame({
        "age": rng.normal(centers[:, 0], 3).round(1),
        "income": np.exp(rng.normal(centers[:, 1], 0.12)),
        "visits": rng.poisson(centers[:, 2]).astype(float) + rng.random(n).round(2),
        "plan": np.array(["basic", "plus", "pro", "gold"])[(group + (rng.random(n) < 0.15)) % 4],
        "newsletter": np.where(rng.random(n) < 0.5, "yes", "no"),
        "city": np.array(["Rome", "Oslo", "Bonn"])[rng.integers(3, size=n)],
    })  # fmt: skip
    if missing:
        frame = frame.mask(rng.random(frame.shape) < missing)
    return frame, group


@pytest.fixture(scope="module")
def found():
    frame, group = customers(missing=0.08)
    return compare(frame, n_jobs=1, budget=30.0), frame, group


def test_a_boolean_and_a_category_that_are_independent_do_not_decide(found):
    """The newsletter and the one-hot cities would make segments × newsletter × city of four segments."""
    result, _, group = found
    assert result.verdict == "clusters"
    assert adjusted_rand_score(group, result.labels) > 0.8
    assert result.recommendation.reasons[-1].endswith("(completed likelihood).")
    note = next(note for note in result.notes if note.startswith("Influence of the columns on distances: "))
    without = note.partition("; hardly any (nearly independent of the others): ")[2]
    assert set(without.rstrip(".").split(", ")) == {"newsletter", "city"}


def test_methods_for_mixed_tables_are_compared_on_them_alone(found):
    result, frame, _ = found
    assert tuple(result.candidates)[:2] == ("mixed-mixture", "k-prototypes")
    assert set(compared(mixed=True)) - set(compared()) == {"mixed-mixture", "k-prototypes"}
    with pytest.raises(
        InvalidParameter, match="methods: mixed-mixture is for tables with categories or missing values"
    ):
        compare(frame[["age", "income"]].dropna(), methods=["mixed-mixture"])


def test_every_model_gives_its_labels_again(found, tmp_path):
    """Missing values and unknown categories included, from a file, too."""
    result, frame, _ = found
    for name, candidate in result.candidates.items():
        made = result.preparation(candidate)
        np.testing.assert_array_equal(candidate.model.predict(made.apply(frame)), candidate.labels, err_msg=name)
        models.save(candidate.model, tmp_path / "model.knoll", preparation=made)
        read = models.read(tmp_path / "model.knoll")
        assert read.preparation == made
        np.testing.assert_array_equal(read.estimator.predict(read.preparation.apply(frame)), candidate.labels)
        strange = frame.head(3).assign(city="Paris", plan=None)
        without = frame.head(3).assign(city=None, plan=None)
        made_of = [candidate.model.predict(made.apply(rows)) for rows in (strange, without)]
        np.testing.assert_array_equal(*made_of)


def test_the_order_of_rows_does_not_matter():
    frame, _ = customers(200, missing=0.05)
    order = np.random.default_rng(1).permutation(len(frame))
    methods = ["mixed-mixture", "kmeans", "dbscan"]
    first, second = (compare(rows, methods=methods, n_jobs=1) for rows in (frame, frame.iloc[order]))
    assert first.recommendation.method == second.recommendation.method
    assert adjusted_rand_score(first.labels[order], second.labels) == 1.0


def test_independent_columns_have_no_clusters():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({f"c{j}": rng.integers(2 + j % 3, size=300).astype(str) for j in range(5)}) + "a"
    result = compare(frame, n_jobs=1, budget=20.0)
    assert result.verdict == "none"
    assert (
        "No answer explains the columns better than one cluster of all rows does" in result.recommendation.reasons[-1]
    )


def test_numbers_alone_are_compared_as_before():
    """A data frame of complete numbers, and the array of it: the same candidates, the same bits."""
    rng = np.random.default_rng(0)
    X = np.r_[rng.normal(0, 1, (80, 3)), rng.lognormal(2, 1, (80, 3))]
    a, b = (compare(rows, methods=["kmeans", "dbscan"], n_jobs=1) for rows in (X, pd.DataFrame(X, columns=list("abc"))))
    assert tuple(a.candidates) == tuple(b.candidates) == ("kmeans", "dbscan")
    assert a.scaling.encoding == b.scaling.encoding == "indicators"
    assert (a.scaling.center, a.scaling.spread) == (b.scaling.center, b.scaling.spread)
    np.testing.assert_array_equal(a.labels, b.labels)
    assert a.confidence == b.confidence


def test_a_split_by_an_independent_category_gains_no_likelihood():
    rng = np.random.default_rng(0)
    n = 4000
    x, city = rng.normal(size=n), rng.integers(3, size=n)
    group = rng.integers(2, size=n)
    rows = MixedRows(np.column_stack([x + 6 * group, city, group]), 1)
    gains = likelihood_gains(rows, np.array([city, group, 3 * group + city]).astype(np.int32))
    assert gains[0] < 0 < gains[1]
    assert gains[2] < gains[1]
    hidden = rows.values.copy()
    hidden[rng.random(hidden.shape) < 0.2] = np.nan
    assert likelihood_gains(MixedRows(hidden, 1), group[None].astype(np.int32))[0] > 0


def test_every_answer_is_saved_with_its_own_encoding(found, tmp_path):
    comparison, frame, _ = found
    for name in ("mixed-mixture", "kmeans"):
        read = models.read(comparison.save(tmp_path / f"{name}.knoll", method=name))
        assert read.preparation == comparison.preparation(comparison.candidates[name])
        np.testing.assert_array_equal(
            read.estimator.predict(read.preparation.apply(frame)), comparison.candidates[name].labels
        )
