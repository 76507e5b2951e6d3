"""Effects, quartiles and shares are those of brute force; neither row order nor "weight or repetition" matters."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pyarrow as pa
import pytest

import knoll
from tests.explanation.tables import random_table


def profile(found, label, column):
    return next(one for one in found[label].columns if one.column == column)


def largest_difference(here, others):
    """The effect of a number by brute force: over all intervals of its values."""
    values = np.unique(np.r_[here, others])
    best = 0.0
    for a, b in itertools.combinations_with_replacement(values, 2):
        inside = [((x >= a) & (x <= b)).mean() for x in (here, others)]
        best = max(best, abs(inside[0] - inside[1]))
    return best


@pytest.mark.parametrize("seed", range(6))
def test_the_effect_of_a_number(seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, 90)
    x = np.round(rng.normal(size=90) + labels * (seed - 2) / 2, 1)
    x[labels == 1] *= 0.3  # a narrow cluster in the middle
    found = knoll.explain(labels, x[:, None], columns=["x"])
    for label in range(3):
        here, others = x[labels == label], x[labels != label]
        one = profile(found, label, "x")
        brute = largest_difference(here, others)
        # one-sided ranges are preferred where they are nearly as good
        assert 0.8 * brute - 1e-12 <= one.effect <= brute + 1e-12
        low, high = one.bounds
        low, high = -np.inf if low is None else low, np.inf if high is None else high
        inside = [(v > low) & (v <= high) for v in (here, others)]
        shares = [float(np.mean(i)) if one.direction != "extreme" else 1 - float(np.mean(i)) for i in inside]
        assert (one.share, one.share_others) == pytest.approx(tuple(shares))
        assert one.effect == pytest.approx(abs(shares[0] - shares[1]))


@pytest.mark.parametrize("seed", range(4))
def test_quartiles_are_those_of_numpy(seed):
    rng = np.random.default_rng(seed)
    labels, x = rng.integers(0, 3, 101), np.round(rng.normal(size=101), 1)
    found = knoll.explain(labels, x[:, None], columns=["x"])
    for label in range(3):
        one = profile(found, label, "x")
        for output, rows in ((one.quartiles, labels == label), (one.others, labels != label)):
            assert output == pytest.approx(np.quantile(x[rows], [0.25, 0.5, 0.75], method="averaged_inverted_cdf"))


def test_shares_and_lift_of_levels():
    city = ["Rome"] * 30 + ["Oslo"] * 10 + ["Rome"] * 5 + ["Oslo"] * 35 + ["Bonn"] * 20
    labels = np.repeat([0, 1], [40, 60])
    one = profile(knoll.explain(labels, {"city": city}), 0, "city")
    assert [(level.value, level.share) for level in one.levels] == [("Rome", 0.75), ("Bonn", 0.0), ("Oslo", 0.25)]
    rome = one.levels[0]
    assert (rome.others, rome.lift) == (pytest.approx(5 / 60), pytest.approx(9.0))
    assert one.effect == pytest.approx(0.75 - 5 / 60)
    assert one.text == "city Rome 75 % (others 8 %)"
    assert one.distinctive


def test_the_effect_of_a_category_is_the_total_variation_distance():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 4000)
    level = np.where(rng.random(4000) < 0.5, labels, rng.integers(0, 4, 4000))
    one = profile(knoll.explain(labels, {"code": [f"L{c}" for c in level]}), 0, "code")
    p, q = (np.bincount(level[labels == label], minlength=4) / (labels == label).sum() for label in (0, 1))
    assert one.effect == pytest.approx(np.abs(p - q).sum() / 2, abs=0.03)


def test_random_groups_have_no_distinctive_columns():
    rng = np.random.default_rng(1)
    distinctive = 0
    for _ in range(40):
        labels = rng.integers(0, 3, 60)
        table = {"x": rng.normal(size=60), "level": rng.choice(list("abcdefgh"), 60), "count": rng.poisson(3, 60)}
        distinctive += sum(len(cluster.traits) for cluster in knoll.explain(labels, table, rows=0).clusters)
    assert distinctive <= 0.03 * 40 * 9


def without_rows(found):
    output = found.to_dict()
    for cluster in output["clusters"]:
        for role in ("typical", "border", "unusual"):
            cluster[role] = [(row["id"], row["reason"]) for row in cluster[role]]
    return json.dumps(output, sort_keys=True)


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_rows_does_not_matter(seed):
    table, labels = random_table(seed, 400)
    order = np.random.default_rng(seed).permutation(400)
    one = knoll.explain(labels, table, ids=np.arange(400))
    two = knoll.explain(labels[order], table.take(order), ids=order)
    assert without_rows(one) == without_rows(two)


def test_a_weight_is_a_repetition():
    table, labels = random_table(4, 200)
    times = np.random.default_rng(4).integers(0, 4, 200)
    weighted = knoll.explain(labels, table, sample_weight=times, rows=0).to_dict()
    repeated = knoll.explain(np.repeat(labels, times), table.take(np.repeat(np.arange(200), times)), rows=0).to_dict()
    assert weighted.pop("n_rows") == (times > 0).sum()
    assert repeated.pop("n_rows") == times.sum()
    assert json.dumps(weighted) == json.dumps(repeated)


def test_any_increasing_function_keeps_the_effect():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 300)
    x = rng.normal(size=300) + labels
    effects = [
        [one.effect for one in (profile(knoll.explain(labels, f(x)[:, None], columns=["x"]), k, "x") for k in range(3))]
        for f in (lambda v: v, np.exp, lambda v: v**3)
    ]
    assert effects[0] == pytest.approx(effects[1])
    assert effects[0] == pytest.approx(effects[2])


def test_columns_that_were_left_out_are_described_and_no_rule_uses_them():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 200)
    table = pa.table({
        "spend": rng.normal(size=200) + 3 * labels, "class": np.array(["rare", "regular"])[labels],
        "customer_id": [f"C{i}" for i in range(200)], "version": [3] * 200,
    })  # fmt: skip
    found = knoll.explain(labels, table)
    one = profile(found, 1, "class")
    assert (one.used, one.effect) == (False, 1.0)
    assert one.text == "class regular 100 % (others 0 %)"
    assert [trait.column for trait in found[1].traits] == ["spend", "class"]
    assert "class" not in " ".join(found.rules()) + found[0].name + found[1].name
    assert set(found.left_out) == {"customer_id", "version"}


def test_the_middle_of_a_range():
    x = np.r_[np.linspace(0, 1, 50), np.linspace(4, 5, 50), np.linspace(8, 9, 50)]
    found = knoll.explain(np.repeat([0, 1, 2], 50), x[:, None], columns=["x"])
    one = profile(found, 1, "x")
    assert (one.direction, one.effect) == ("medium", 1.0)
    assert one.bounds == (2.5, 6.5)
    assert profile(knoll.explain(np.repeat([0, 1, 0], 50), x[:, None], columns=["x"]), 0, "x").direction == "extreme"
