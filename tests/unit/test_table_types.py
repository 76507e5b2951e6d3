"""Types of columns: cells and what they become, rules that the order of rows cannot change, schemas in files."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from knoll import reference
from knoll.exceptions import BadData, InvalidParameter
from knoll.models import Preparation
from knoll.tables import Column, MixedTable, Rules, Schema, recognise
from knoll.tables.recognition import typed
from knoll.tables.typed import frame_table

NAN = float("nan")
DAY = 86400.0

# name: cells, type, values of the first rows; the cells are repeated, so that few values are categories
CELLS = {
    "plain": (["1.5", "-2", "3e2", ".5"], "number", [1.5, -2.0, 300.0, 0.5]),
    "words for missing": (["1", "n/a", "?", "NULL", "2", "--", " "], "number", [1, NAN, NAN, NAN, 2, NAN, NAN]),
    "currency and thousands": (["€43,042", "€1,200", "€80"], "number", [43042, 1200, 80]),
    "currency after": (["12.50 €", "3 €", "1,000 €"], "number", [12.5, 3, 1000]),
    "accounting": (["($1,200.50)", "$3", "-$4"], "number", [-1200.5, 3, -4]),
    "percent": (["12 %", "7%", "-3.5 %"], "number", [12, 7, -3.5]),
    "decimal comma": (["1,5", "2,25", "10"], "number", [1.5, 2.25, 10]),
    "points between thousands": (["1.234.567,8", "12,5", "1.000"], "number", [1234567.8, 12.5, 1000]),
    "spaces between thousands": (["1 234 567", "12", "1\u202f000"], "number", [1234567, 12, 1000]),
    "apostrophes": (["1'234.5", "12", "7"], "number", [1234.5, 12, 7]),
    "true minus": (["−5", "3", "4"], "number", [-5, 3, 4]),
    "Boolean words": (["Yes", "no", "YES", ""], "boolean", [1, 0, 1, -1]),
    "Boolean letters": (["t", "f", "t"], "boolean", [1, 0, 1]),
    "German Booleans": (["ja", "nein", "?"], "boolean", [1, 0, -1]),
    "ISO dates": (["1970-01-02", "1970-02-01", "NULL"], "date", [1, 31, NAN]),
    "ISO times": (["1970-01-01T12:00:00", "1970-01-02 06:00", "1970-01-03"], "date", [0.5, 1.25, 2]),
    "day first": (["13/01/1970", "1/2/1970", "3/1/1970"], "date", [12, 31, 2]),
    "month first": (["1/13/1970", "2/1/1970", "1/3/1970"], "date", [12, 31, 2]),
    "German dates": (["2.1.1970", "1.2.1970"], "date", [1, 31]),
    "two digits of a year": (["31.01.70", "01.02.70"], "date", [30, 31]),
    "names of months": (["2 Jan 1970", "1 Feb 1970"], "date", [1, 31]),
    "American names": (["Jan 2, 1970", "Feb 1, 1970"], "date", [1, 31]),
    "times of day": (["10:30", "9:15:36", "0:00"], "time", [10.5, 9.26, 0]),
    "categories": (["red", "blue", " red ", "green", "NA"], "category", [2, 0, 2, 1, -1]),
    "grades with a plus": (["1", "2", "3+"], "category", [0, 1, 2]),
    "one value": (["x", "x", ""], "constant", []),
    "nothing": (["", "n/a"], "empty", []),
}  # fmt: skip
# cells that are as they are, since their number matters; type, and a phrase of the reason
OTHERS = {
    "identifiers": ([f"u{i}" for i in range(30)], "id", "an identifier, a different text in every row"),
    "free text": ([f"the customer called about bill {i}" for i in range(30)], "text", "free text"),
    "many levels": ([f"c{i % 150}" for i in range(450)], "text", "text with 150 different values"),
    "slips": (
        [*map(str, range(29)), "12 kg"],
        "mixed",
        "though 96% of its cells are numbers: row 30 has '12 kg'",
    ),
    "mixture": ([str(i) if i % 2 else f"x{i}" for i in range(30)], "mixed", "text and numbers mixed (50% numbers"),
    "currencies": (["$1", "€2", "$3", "€4"] * 5, "other", "amounts in several units: $, €"),
    "three formats": (["2024-01-05", "05.01.2024", "Jan 5, 2024"] * 5, "mixed", "dates in several formats: row 1 has"),
    "two orders": (["13/01/2024", "01/14/2024"] * 5, "mixed", "dates in several formats: row 2 has"),
    "nearly empty": ([*["1", "2", "3"], *[""] * 297], "empty", "99 % of its values are missing"),
}


def column(cells, name="x", **rules):
    return recognise(pa.table({name: cells}), Rules(**rules)).columns[0]


def values(cells, **rules):
    _, rows = typed(pa.table({"x": cells}), Rules(**rules))
    return rows.numeric[:, 0] if rows.numeric.shape[1] else rows.codes[:, 0]


@pytest.mark.parametrize(("cells", "expected_type", "expected"), CELLS.values(), ids=CELLS.keys())
def test_cells_have_a_type_and_values(cells, expected_type, expected):
    cells = cells * 10
    found = column(cells)
    assert (found.type, found.used) == (expected_type, bool(expected))
    if expected:
        np.testing.assert_array_equal(values(cells), np.array(expected * 10, dtype=float))


@pytest.mark.parametrize("name", CELLS)
def test_the_reference_agrees(name):
    """Plain Python over every cell, where the reference has the format."""
    cells = CELLS[name][0] * 10
    if name == "spaces between thousands":
        cells = [cell.replace("\u202f", " ") for cell in cells]
    if name == "ISO times":  # a T between date and time
        cells = [cell.replace("T", " ") for cell in cells]
    expected_type, expected = reference.column_type(cells)
    assert column(cells).type == expected_type
    if expected:
        np.testing.assert_array_equal(values(cells), np.array(expected, dtype=float))


@pytest.mark.parametrize(("cells", "expected_type", "reason"), OTHERS.values(), ids=OTHERS.keys())
def test_columns_that_are_left_out_have_a_reason(cells, expected_type, reason):
    found = column(cells)
    assert found.type == expected_type
    assert not found.used
    assert reason in found.reason


@pytest.mark.parametrize("name", [*CELLS, *OTHERS])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_order_of_rows_does_not_matter(name, seed):
    cells = CELLS[name][0] * 10 if name in CELLS else OTHERS[name][0]
    order = np.random.default_rng(seed).permutation(len(cells))
    one, other = column(cells), column([cells[i] for i in order])
    for field in ("type", "format", "unit", "categories", "sentinels", "log", "used"):
        assert getattr(one, field) == getattr(other, field)
    if one.used:
        np.testing.assert_array_equal(values(cells)[order], values([cells[i] for i in order]))


NUMBERS = np.arange(40) % 17
DTYPES = {
    "int64": (pa.array(NUMBERS), "number"),
    "int8": (pa.array(NUMBERS, pa.int8()), "number"),
    "float32": (pa.array(NUMBERS, pa.float32()), "number"),
    "decimal": (pa.array(NUMBERS).cast(pa.decimal128(25, 2)), "number"),
    "date32": (pa.array(NUMBERS, pa.int32()).cast(pa.date32()), "date"),
    "timestamp": (pa.array(NUMBERS).cast(pa.timestamp("ms", "UTC")), "date"),
    "time": (pa.array(NUMBERS, pa.int32()).cast(pa.time32("s")), "time"),
    "duration": (pa.array(NUMBERS).cast(pa.duration("s")), "date"),
    "bool": (pa.array(NUMBERS % 2 == 0), "boolean"),
    "dictionary": (pa.array([f"c{i}" for i in NUMBERS]).dictionary_encode(), "category"),
    "dictionary of numbers": (pa.array(NUMBERS).dictionary_encode(), "category"),
    "large text": (pa.array([f"c{i}" for i in NUMBERS], pa.large_string()), "category"),
    "list": (pa.array([[i] for i in NUMBERS]), "other"),
    "null": (pa.nulls(40), "empty"),
}


@pytest.mark.parametrize(("cells", "expected_type"), DTYPES.values(), ids=DTYPES.keys())
def test_stored_types(cells, expected_type):
    assert column(cells).type == expected_type
    assert column(pa.chunked_array([cells.slice(0, 13), cells.slice(13)])) == column(cells)


def test_dates_are_the_same_however_they_are_stored():
    days = ["2024-02-28", "2024-02-29", "1960-01-01"]
    stored = pa.array(days).cast(pa.date32())
    assert values(days).tolist() == values(stored).tolist() == values(stored.cast(pa.timestamp("ns"))).tolist()
    moments = ["2024-02-28T12:34:56Z", "2024-02-28T13:34:56+01:00", "2024-02-28 00:00"]
    found = values(moments)
    assert (
        found[0]
        == found[1]
        == values(pa.array(["2024-02-28 12:34:56"] * 2 + ["2024-01-01"]).cast(pa.timestamp("us")))[0]
    )


# ---- names and numbers ---------------------------------------------------------------------------------------------


def test_names_that_mean_something():
    n = 60
    table = pa.table({
        "customer_id": np.random.default_rng(0).permutation(n) * 7,
        "id": np.arange(n)[::-1] + 3,
        "region_code": np.arange(n) % 4,
        "children": np.arange(n) % 4,
        "class": np.arange(n) % 3,
        "label": ["a", "b"] * 30,
        "x": np.arange(n) / 7,
        "copy": np.arange(n) / 7,
    })  # fmt: skip
    schema = recognise(table)
    assert {c.name: c.type for c in schema.columns} == {
        "customer_id": "id", "id": "id", "region_code": "category", "children": "number", "class": "label",
        "label": "label", "x": "number", "copy": "duplicate",
    }  # fmt: skip
    assert schema.left_out["id"] == "apparently a row number; name it in --columns to use it"
    assert schema.left_out["class"].startswith("looks like known classes; use --truth class")
    assert schema.left_out["copy"] == "the same values as 'x'"
    requested = recognise(table, Rules(requested=["id", "class", "copy", "x"]))
    assert [c.name for c in requested.used] == ["id", "class", "x", "copy"]


@pytest.mark.parametrize(
    ("numbers", "sentinels"),
    [
        ([20, 30, 41, -999, -999], ("-999",)),
        ([0.5, 1.5, 0.7, -99, -99, -99], ("-99",)),
        ([20, 30, 41, 999, 999], ("999",)),
        ([20, 30, 41, -999, -999, -99, -99], ("-999", "-99")),
        ([20, 30, 41, -999], ()),  # once may be a number
        ([-500, 30, 410, -999, -999], ()),  # near the others
        ([-5, 30, 41, -999, -999], ()),  # numbers below 0 occur
        ([10, 2000, 5000, 9999, 9999], ()),
        ([0, 60_000, 31_000, -999, -999], ("-999",)),
        ([1, 2, 3], ()),
    ],
)
def test_sentinels(numbers, sentinels):
    assert set(column(numbers * 1).sentinels) == set(sentinels)
    found = values(numbers)
    assert np.isnan(found).sum() == sum(str(x) in sentinels for x in numbers)


def test_ambiguity_is_stated():
    assert column(["05/06/2024", "03/01/2024", "1/2/2023"]).note == (
        "x: read as month/day/year; day/month/year is possible, too: --types x=date:%d/%m/%Y"
    )
    assert column(["05/06/2024", "13/01/2024"]).note == ""
    assert column(["5.6.2024", "3.1.2024"]).note.startswith("x: read as day/month/year")
    assert column(["43,042", "1,200"]).note == "x: '43,042' is read as 43042"
    assert column(["43,042", "1,200.5"]).note == ""
    assert values(["43,042", "1,5"]).tolist() == [43.042, 1.5]
    assert values(["43.042", "1.200"], decimal=",").tolist() == [43042, 1200]  # in a file with decimal commas


# ---- requested types -----------------------------------------------------------------------------------------------


def test_types_can_be_requested():
    assert column([1, 2, 3, 1], types={"x": "category"}).categories == ("1", "2", "3")
    assert column([10, 9, 10], types={"x": "category"}).categories == ("9", "10")
    assert column([1.0, 2.0, None], types={"x": "category"}).categories == ("1", "2")
    assert column(["m", "f", "m"], types={"x": "boolean"}).categories == ("f", "m")
    assert values(["20240105", "20240201"], types={"x": "date:%Y%m%d"}).tolist() == [19727.0, 19754.0]
    assert values(["05/06/2024"] * 2, types={"x": "date:%d/%m/%Y"}).tolist() == [19879.0] * 2
    assert column(["1", "2"], types={"x": "ignore"}).reason == "ignored by request"
    found = column([*map(str, range(9)), "unknown"], types={"x": "number"})
    assert found.sentinels == ("unknown",)
    assert found.note == "x: 1 cells are no numbers and count as missing; row 10 has 'unknown'"


@pytest.mark.parametrize(
    ("cells", "rules", "error", "message"),
    [
        (["a", "b"], {"types": {"y": "category"}}, InvalidParameter, "types: the table has no column 'y'. It has: x."),
        (["a", "b"], {"types": {"x": "colour"}}, InvalidParameter, "'x' cannot be 'colour'. Choose from: number"),
        (["a", "b"], {"log": ["y"]}, InvalidParameter, "log: the table has no column 'y'"),
        (["a", "b"], {"ignore": ["y"]}, InvalidParameter, "ignore: the table has no column 'y'"),
        (["a", "b"] * 5, {"log": ["x"]}, InvalidParameter, "log: column 'x' of the table is no number that is used"),
        ([1.0, -2.0], {"log": ["x"]}, BadData, "column 'x': row 2 has -2, which has no logarithm"),
        (["a", "b", "1"], {"types": {"x": "number"}}, BadData, "'x' cannot be a number: row 1 has 'a', and so do most"),
        (["a", "b", "c"], {"types": {"x": "boolean"}}, BadData, r"a boolean: it has 3 values \(a, b, c\), not 2"),
        (["a", "b"], {"types": {"x": "date"}}, BadData, "'x' cannot be a date: row 1 has 'a'"),
        (OTHERS["three formats"][0], {"types": {"x": "date"}}, BadData, "cannot be a date: dates in several formats"),
        (["1", "25:99"], {"types": {"x": "time"}}, BadData, "cannot be a time: row 1 has '1'"),
        ([None, None], {"types": {"x": "date"}}, BadData, "cannot be a date: it is empty"),
        ([[1], [2]], {"types": {"x": "category"}}, BadData, "cannot be a category: it is of type list"),
        ([f"l{i}" for i in range(10**5)], {"types": {"x": "category"}}, BadData, "it has 100000 levels, 1000 at most"),
        (["u1", "u2"], {"requested": ["x"]}, BadData, "column 'x' cannot be used: an identifier"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_clear_sentence(cells, rules, error, message):
    with pytest.raises(error, match=message) as caught:
        column(cells, **rules)
    assert str(caught.value).count("\n") == 0


def test_logarithms():
    rng = np.random.default_rng(0)
    table = pa.table({"wide": np.exp(rng.normal(0, 2, 500)), "even": rng.normal(50, 1, 500),
                      "counts": np.floor(np.exp(rng.normal(1, 2, 500))), "below": rng.normal(0, 1, 500)})  # fmt: skip
    schema, rows = typed(table, Rules(log="auto"))
    assert [c.log for c in schema.columns] == ["log", "", "log1p", ""]
    assert schema.encoded == ("log(wide)", "even", "log1p(counts)", "below")
    np.testing.assert_array_equal(rows.numeric[:, 0], np.log(table["wide"].to_numpy()))
    again = schema.apply(pa.table({"wide": [0.0, 1.0], "even": [1, 2], "counts": [0, -2], "below": [1, 2]}))
    np.testing.assert_array_equal(again.numeric[:, [0, 2]], [[NAN, 0], [0, NAN]])  # no logarithm: missing
    assert typed(table, Rules(log=["even"]))[0].columns[1].log == "log"


# ---- new tables ------------------------------------------------------------------------------------------------------


@pytest.fixture
def schema():
    return recognise(pa.table({
        "paid": ["€1,200", "€80", "n/a", "€40"], "city": ["Rome", "Oslo", "Rome", "Oslo"],
        "member": ["yes", "no", "no", None], "age": [30, 40, 50, 60], "when": ["3.4.2024", "30.4.2024"] * 2,
    }))  # fmt: skip


def test_a_schema_applies_to_new_tables(schema):
    new = pd.DataFrame({"when": ["1.5.2024", None], "member": [True, False], "city": ["Bonn", "Oslo"],
                        "age": [1.5, None], "paid": ["€7", "?"], "more": [1, 2]})  # fmt: skip
    rows = schema.apply(new)
    np.testing.assert_array_equal(rows.numeric, [[7, 1.5, 19844], [NAN, NAN, NAN]])
    assert rows.codes.tolist() == [[-1, 1], [0, 0]]  # Bonn is unknown
    assert rows.sizes.tolist() == [2, 2]
    polars = pl.DataFrame({"when": ["1.5.2024"], "member": ["YES"], "city": ["Rome"], "age": [3], "paid": ["12"]})
    assert schema.apply(polars).codes.tolist() == [[1, 1]]
    with pytest.raises(BadData, match="the table has no column 'city'"):
        schema.apply(new.drop(columns="city"))
    with pytest.raises(BadData, match=r"column 'paid' is a number, but row 1 has 'much'. Fix that cell."):
        schema.apply(new.assign(paid=["much", "€3"]))
    with pytest.raises(BadData, match=r"column 'when' is a date as %d.%m.%Y, but row 2 has '31.2.2024'"):
        schema.apply(new.assign(when=["1.5.2024", "31.2.2024"]))


def test_values_of_a_requested_boolean_are_its_own():
    schema = recognise(pa.table({"x": ["f", "M", "m", "f"]}), Rules(types={"x": "ignore"}))
    assert schema.used == ()
    schema = recognise(pa.table({"x": ["f", "m", "m", "f"]}), Rules(types={"x": "boolean"}))
    assert schema.apply(pa.table({"x": ["M", "f", "yes", None]})).codes[:, 0].tolist() == [1, 0, -1, -1]


def test_a_schema_goes_through_json(schema):
    again = Schema.from_plain(json.loads(json.dumps(schema.plain())))
    assert again == schema
    assert schema.only_used().used == schema.used
    for wrong in (
        {}, [1], [{"name": "a"}], [{"name": "a", "type": "colour"}], [{"name": "a", "type": "number", "reason": "x"}],
        [{"name": "a", "type": "id"}], [{"name": "a", "type": "category"}], [{"name": 1, "type": "number"}],
        [{"name": "a", "type": "boolean", "categories": ["x"]}], [{"name": "a", "type": "number", "log": "ln"}],
        [{"name": "a", "type": "category", "categories": ["x", "x"]}], [{"name": "a", "type": "number", "new": "x"}],
        [{"name": "a", "type": "number", "format": "xy"}], [{"name": "a", "type": "number"}] * 2,
    ):  # fmt: skip
        with pytest.raises(BadData):
            Schema.from_plain(wrong)


# ---- the encoding ----------------------------------------------------------------------------------------------------


def mixed_rows(n=200, seed=0):
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.choice(4, n, p=[0.7, 0.1, 0.1, 0.1]), rng.integers(0, 2, n), rng.integers(0, 9, n)])
    return MixedTable(rng.normal(5, 3, (n, 2)), codes.astype(np.int32), tuple(np.arange(k) for k in (4, 2, 9)))


def schema_of(rows):
    numbers = [Column(f"x{j}", "number") for j in range(rows.numeric.shape[1])]
    codes = [
        Column(f"c{j}", "boolean" if count == 2 else "category", categories=tuple(map(str, range(count))))
        for j, count in enumerate(rows.sizes)
    ]
    return Schema((*numbers, *codes))


def test_the_encoding_is_that_of_the_reference():
    rows = mixed_rows()
    schema = schema_of(rows)
    made = Preparation.fit(rows.encode(), schema.encoded, schema=schema)
    expected = reference.encode_mixed(rows.numeric, rows.codes, rows.sizes)
    np.testing.assert_allclose(made.apply(rows.encode()), expected, atol=1e-12)


def test_a_category_counts_as_one_number():
    """The mean squared distance of two rows over each column, number or category, is 2."""
    rows = mixed_rows()
    schema = schema_of(rows)
    Z = Preparation.fit(rows.encode(), schema.encoded, schema=schema).apply(rows.encode())
    for block in [slice(0, 1), slice(1, 2), *schema.blocks]:
        pairs = ((Z[:, None, block] - Z[None, :, block]) ** 2).sum(axis=2)
        assert pairs.mean() == pytest.approx(2.0)


def test_preparations_with_types_are_kept_in_files_and_free_of_order():
    rows = mixed_rows()
    schema = schema_of(rows)
    for scale in ("standard", "robust", "common", "none", "auto"):
        made = Preparation.fit(rows.encode(), schema.encoded, scale=scale, schema=schema)
        assert Preparation.from_plain(json.loads(json.dumps(made.plain()))) == made
        other = MixedTable(rows.numeric[::-1], rows.codes[::-1], rows.levels)
        assert Preparation.fit(other.encode(), schema.encoded, scale=scale, schema=schema) == made
    plain = Schema(schema.numeric)
    assert Preparation.fit(rows.numeric, ["x0", "x1"], schema=plain) == Preparation.fit(rows.numeric, ["x0", "x1"])


# ---- tables of Python ------------------------------------------------------------------------------------------------


def test_frames_of_all_libraries_are_read_alike():
    cells = {"x": [1.5, 2.5, None, 4.0], "city": ["Rome", "Oslo", "Rome", None], "when": ["3.4.2024", "30.4.2024"] * 2}
    cells = {name: column * 2 for name, column in cells.items()}
    tables = [frame_table(make(cells)) for make in (pd.DataFrame, pl.DataFrame, pa.table)]
    for table in tables:
        assert table.columns == ("x", "when", "city=Rome")
        np.testing.assert_array_equal(table.X[:, 0], [1.5, 2.5, 2.5, 4.0] * 2)
        np.testing.assert_array_equal(table.X, tables[0].X)
    assert tables[0].notes[-1].startswith("4 missing values in 4 of 8 rows: methods for mixed tables use")
    dropped = frame_table(pd.DataFrame(cells), missing="drop")
    assert dropped.rows.tolist() == [0, 1, 4, 5]
    with pytest.raises(BadData, match="Use missing='drop'"):
        frame_table(pd.DataFrame(cells), missing="error")
    with pytest.raises(InvalidParameter, match="missing must be one of model, median, drop, error, got 'guess'"):
        frame_table(pd.DataFrame(cells), missing="guess")


def test_python_objects_of_several_types_are_text():
    table = frame_table(pd.DataFrame({"x": np.arange(20) * 0.7, "odd": [1, "a"] * 10, "when": [pd.Timestamp(0)] * 20}))
    assert table.columns == ("x", "odd=a")
    assert table.left_out == {"when": "a single value, '1970-01-01 00:00:00'"}


def test_single_precision_stays():
    X = np.arange(40, dtype=np.float32).reshape(20, 2) % 7
    assert frame_table(pd.DataFrame(X, columns=["a", "b"])).X.dtype == np.float32
    assert frame_table(pd.DataFrame(X.astype(float), columns=["a", "b"])).X.dtype == np.float64
