"""The rules as SQL and as Python give every row what the tree gives it, missing values and odd names included."""

from __future__ import annotations

import sqlite3

import numpy as np
import pyarrow as pa
import pytest

import knoll
from knoll.exceptions import InvalidParameter
from knoll.explanation.tree import round_between
from tests.explanation.tables import random_table


def by_python(found, rows):
    namespace: dict[str, object] = {}
    exec(compile(found.to_python(), "rules", "exec"), namespace)
    return np.array([namespace["cluster"](row) for row in rows])


def by_sqlite(found, table, **options):
    """SQLite stores dates and times as texts in ISO format, Booleans as numbers."""
    connection = sqlite3.connect(":memory:")
    names = ", ".join('"' + name.replace('"', '""') + '"' for name in table.column_names)
    connection.execute(f"CREATE TABLE rows ({names})")
    cells = [[str(cell) if hasattr(cell, "isoformat") else cell for cell in row.values()] for row in table.to_pylist()]
    marks = ", ".join("?" * table.num_columns)
    connection.executemany(f"INSERT INTO rows VALUES ({marks})", cells)
    query = found.to_sql(table="rows", **options)
    return np.array([row[-1] for row in connection.execute(query)])


@pytest.mark.parametrize("seed", range(8))
def test_python_and_sql_are_the_tree(seed):
    table, labels = random_table(seed)
    used = list(np.random.default_rng(seed).permutation(table.column_names)[: 2 + seed])
    found = knoll.explain(labels, table, used=used)
    assert found.depth >= 1
    expected = found.predict_rules()
    assert (by_python(found, table.to_pylist()) == expected).all()
    assert (by_sqlite(found, table) == expected).all()
    names = found.names
    assert by_sqlite(found, table, use_names=True).tolist() == [names[label] for label in expected]


@pytest.mark.parametrize("column", random_table(0)[0].column_names)
def test_every_type_of_column_alone(column):
    table, labels = random_table(11)
    one = table.select([column])
    found = knoll.explain(labels, one)
    assert found.depth >= 1
    expected = found.predict_rules()
    assert (by_python(found, one.to_pylist()) == expected).all()
    assert (by_sqlite(found, one) == expected).all()


def test_a_sentinel_is_missing_for_the_rules_too():
    rng = np.random.default_rng(0)
    x = np.where(rng.random(200) < 0.2, -999, rng.integers(0, 50, 200))
    labels = np.where(x == -999, 2, x > 25)
    table = pa.table({"x": x})
    found = knoll.explain(labels, table)
    assert found.fidelity > 0.7
    assert "NULLIF" in found.to_sql()
    assert (by_sqlite(found, table) == found.predict_rules()).all()
    assert (by_python(found, table.to_pylist()) == found.predict_rules()).all()


def test_fidelity_coverage_and_precision_are_counted():
    table, labels = random_table(3)
    found = knoll.explain(labels, table)
    again = found.predict_rules()
    assert found.fidelity == pytest.approx((again == labels).mean())
    for cluster in found.clusters:
        own, covered = labels == cluster.label, again == cluster.label
        assert cluster.coverage == pytest.approx((own & covered).sum() / own.sum())
        if covered.any():
            assert cluster.precision == pytest.approx((own & covered).sum() / covered.sum())
        assert sum(rule.coverage for rule in cluster.rules) == pytest.approx(cluster.coverage)
    assert sum(rule.rows for cluster in found.clusters for rule in cluster.rules) == len(labels)


def test_the_tree_finds_separable_clusters_and_no_more_than_it_needs():
    x = np.r_[np.arange(50.0), np.arange(100.0, 150), np.arange(300.0, 350)]
    labels = np.repeat([0, 1, 2], 50)
    found = knoll.explain(labels, np.column_stack([x, np.sin(x)]), columns=["size", "wave"])
    assert found.fidelity == 1.0
    assert found.depth == 2
    assert [rule for cluster in found.clusters for rule in cluster.rules if "wave" in rule.text] == []
    assert [cluster.rules[0].text for cluster in found.clusters] == [
        "size at most 80", "size between 80 and 200", "size above 200",
    ]  # fmt: skip


@pytest.mark.parametrize("depth", range(5))
def test_no_more_levels_than_requested(depth):
    table, labels = random_table(5)
    found = knoll.explain(labels, table, depth=depth)
    assert found.depth <= depth
    if depth == 0:
        assert "no rule separates them" in repr(found)
        assert found.to_sql() == str(int(np.bincount(labels + 1).argmax() - 1))


def test_values_that_float32_cannot_distinguish():
    x = 1e9 + np.arange(64.0)
    found = knoll.explain((x >= 1e9 + 17).astype(int), x[:, None])
    assert found.fidelity == 1.0
    (rule,) = found[0].rules
    assert rule.text == "0 at most 1\u202f000\u202f000\u202f016"


@pytest.mark.parametrize("scale", [1e-300, 1e-9, 1.0, 1e12, 1e300])
def test_thresholds_of_any_magnitude(scale):
    x = np.r_[1.0, 1.5, 2.0, 5.0, 5.5, 6.0] * scale
    labels = np.array([0, 0, 0, 1, 1, 1])
    found = knoll.explain(labels, x[:, None])
    assert found.fidelity == 1.0
    assert (by_python(found, [{"0": value} for value in x]) == labels).all()


def digits_before(low, high):
    """Leading digits that two numbers share, about."""
    return max(0, int(np.ceil(np.log10(max(abs(low), abs(high)) / (high - low)))))


def test_round_numbers_between_two():
    rng = np.random.default_rng(0)
    for low, high in np.sort(rng.normal(size=(500, 2)) * 10.0 ** rng.integers(-8, 9, (500, 1)), axis=1):
        found = round_between(low, high)
        assert low <= found < high
        assert float(f"{found:.{2 + digits_before(low, high)}g}") == found
    for low, high in np.sort(rng.integers(-1000, 1000, (500, 2)), axis=1):
        if low < high:
            found = round_between(float(low), float(high), whole=True)
            assert found == int(found)
            assert low <= found < high


def test_quotation_in_each_dialect():
    table = pa.table({'a"`\\b': ["x'\\y", "z"] * 10})
    labels = np.array([0, 1] * 10)
    found = knoll.explain(labels, table)
    assert """"a""`\\b\"""" in found.to_sql()
    assert "'z'" in found.to_sql() or "'x''\\y'" in found.to_sql()
    mysql = found.to_sql(dialect="mysql", table="t`; DROP")
    assert '`a"``\\b`' in mysql
    assert mysql.endswith("FROM `t``; DROP`")
    assert '`a"\\`\\\\b`' in found.to_sql(dialect="bigquery")
    with pytest.raises(InvalidParameter, match="dialect must be one of standard, mysql, bigquery, got 'oracle'"):
        found.to_sql(dialect="oracle")
    with pytest.raises(InvalidParameter, match="function must be a name of Python, got 'my rule'"):
        found.to_python("my rule")


def test_a_level_with_a_backslash_ends_no_string_of_mysql():
    table = pa.table({"x": ["\\"] * 10 + ["y"] * 10 + ["w"] * 10})
    case = knoll.explain(np.repeat([0, 1, 2], 10), table).to_sql(dialect="mysql")
    assert "'\\'" not in case
    if "\\" in case:
        assert "'\\\\'" in case
