"""The first line of a text: names, or a row; where lines end; and what is reported about it."""

from __future__ import annotations

import inspect
import json
from dataclasses import fields

import click
import numpy as np
import pytest

import knoll
from knoll.cli import _options
from knoll.cli._explore_results import open_results
from knoll.exceptions import BadData
from knoll.tables import Reading, open_table, read_table

YEARS = "2019,2020\n1,2\n1.1,2.1\n9,8\n9.1,8.2\n"
NOTE = "no column names found: the first line (2019, 2020) is all numbers and counts as a row; if not, add --header"


@pytest.fixture
def years(tmp_path):
    path = tmp_path / "years.csv"
    path.write_text(YEARS)
    return path


@pytest.mark.parametrize(
    ("content", "header", "columns", "rows"),
    [
        (YEARS, None, ("column 1", "column 2"), 5),
        (YEARS, True, ("2019", "2020"), 4),
        (YEARS, False, ("column 1", "column 2"), 5),
        ("a,2020\n1,2\n", None, ("a", "2020"), 1),  # one name is enough
        (",NA\n1,2\n", None, ("column 1", "column 2"), 2),  # missing values are a row
        ("\n \n2019,2020\n1,2\n", True, ("2019", "2020"), 1),
        ("2019;2020\n1,5;2\n", True, ("2019", "2020"), 1),
    ],
)
def test_names_or_a_row(tmp_path, content, header, columns, rows):
    path = tmp_path / "data.csv"
    path.write_text(content)
    table = read_table(path, reading=Reading(header=header))
    assert (table.columns, len(table.X)) == (columns, rows)
    with open_table(path, reading=Reading(header=header)) as opened:
        assert tuple(opened.numeric_columns()) == columns
        assert sum(len(piece.X) for piece in opened.pieces(columns)) == rows
        assert opened.notes == table.notes
    assert len(table.notes) == (header is None and columns[0] == "column 1")


def test_a_row_may_be_text(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("x,1\ny,2\nz,4\n")
    table = read_table(path, reading=Reading(header=False))
    assert (table.columns, table.X.tolist()) == (("column 2",), [[1], [2], [4]])
    path.write_text("1,2\n")
    with pytest.raises(BadData, match="has one line and no rows: a table has a line of names and then rows"):
        read_table(path, reading=Reading(header=True))


def test_names_that_are_requested_are_found_on_a_line_of_numbers(years):
    """Without this there would be no such column: the rule turns an error into an answer, and nothing else."""
    assert read_table(years, columns=["2020"]).X.tolist() == [[2], [2.1], [8], [8.2]]
    assert read_table(years, ids="2019").ids.tolist() == [1, 1.1, 9, 9.1]
    with pytest.raises(ValueError, match=r"has no column '2020'. It has: column 1, column 2. Note: no column names"):
        read_table(years, columns=["2020", "2021"])


def test_every_command_reports_it(years, tmp_path, call):
    out = tmp_path / "out"
    quick = ("--methods", "kmeans", "--k", "2", "--budget", "1", "--out", out)
    for args in (("fit", "gaussian", years), ("relate", years, "--only", "kernel-trick"), ("compare", years, *quick)):
        code, text, _ = call(*args)
        assert (code, text.count(NOTE)) == (0, 1), args
    assert json.loads((out / "summary.json").read_text())["data"]["facts"] == [NOTE]
    for args in (("fit", "gaussian", years), ("relate", years, "--only", "kernel-trick")):
        for option in ("--header", "--no-header"):
            code, text, errors = call(*args, option)
            assert (code, NOTE in text + errors) == (0, False)
    assert call("fit", "gaussian", years, "--quiet") == (0, "", "")


def test_the_command_of_a_comparison_keeps_the_choice(years, tmp_path, call):
    for option in ("--header", "--no-header"):
        out = tmp_path / option
        args = ("--methods", "kmeans", "--k", "2", "--budget", "1", "--out", out, "--quiet")
        assert call("compare", years, option, *args) == (0, "", "")
        assert f" {option} " in json.loads((out / "summary.json").read_text())["command"]


def test_a_folder_of_results_is_explored_as_it_was_read(years, tmp_path, call):
    for option, rows in (("--header", 4), ("--no-header", 5)):
        out = tmp_path / option
        words = ("--methods", "kmeans", "--k", "2", "--budget", "1", "--out", out, "--quiet")
        assert call("compare", years, option, *words) == (0, "", "")
        opened = open_results(out, None)
        assert (len(opened.source), f"header={option == '--header'}" in opened.source.opened) == (rows, True)


@pytest.mark.parametrize(
    ("option", "first", "columns", "rows"),
    [
        ("--header", "2019,2020", ["2019", "2020"], 2000),  # else they are a row
        ("--no-header", "2019,2020", ["column 1", "column 2"], 2001),
        ("--no-header", "x,7", ["column 2"], 2001),  # else they are names
    ],
)
def test_a_table_in_blocks_is_read_like_one_in_memory(tmp_path, call, option, first, columns, rows):
    path, out = tmp_path / "table.csv", tmp_path / "model.knoll"
    numbers = np.random.default_rng(0).normal(size=(2000, 2))
    np.savetxt(path, numbers, delimiter=",", header=first, comments="", fmt="%.17g")
    chosen = ["--columns", *columns] if first == "x,7" else []  # names that are asked for would be found anyway
    found = []
    for memory in ("1GB", "10kB"):
        words = (option, *chosen, "--memory", memory, "--scale", "none")
        code, text, errors = call("fit", "gaussian", path, *words, "--json", "--force", "--out", out)
        assert code == 0, errors
        data = json.loads(text)["data"]
        assert any("read in blocks" in note for note in data["notes"]) == (memory == "10kB")
        found.append((data["rows"], data["columns"], knoll.models.read(out).estimator.mean_.tolist()))
    assert found[0] == found[1]
    assert found[0][:2] == (rows, columns)


def test_every_field_of_the_record_is_an_option_and_a_keyword():
    @click.command()
    @_options.reading()
    def command(reading): ...

    names = {field.name for field in fields(Reading)}
    assert {option.name for option in command.params} == names
    assert names <= set(inspect.signature(knoll.blocks.open).parameters)


def test_predict_goes_by_the_names_of_the_model(years, tmp_path, call):
    def fit(path, *args):
        model = tmp_path / f"{len(args)}.knoll"
        assert call("fit", "kmeans", path, "--param", "n_clusters=2", "--quiet", "--out", model, *args)[0] == 0
        return model

    def labels(*args):
        code, text, errors = call("predict", *args)
        assert code == 0, errors
        return len(text.splitlines()) - 1

    named, numbered = fit(years, "--header"), fit(years)
    bare, letters = tmp_path / "bare.csv", tmp_path / "letters.csv"
    bare.write_text("1,2\n9,8\n")
    letters.write_text("a,b\n1,2\n9,8\n")
    assert labels(named, years) == 4  # its names are on the first line
    assert labels(named, years, "--header") == 4
    assert labels(numbered, years) == 5
    assert labels(numbered, bare) == 2
    code, _, errors = call("predict", named, bare)
    assert code == 2
    assert errors.startswith(
        f"knoll: {named} has the columns 2019, 2020, and {bare} has none of them. It has: column 1, column 2. "
        "If they are the same in the same order, add --columns 'column 1,column 2'. Note: no column names found: "
    )
    assert labels(named, bare, "--columns", "column 1,column 2") == 2
    code, _, errors = call("predict", numbered, letters)
    assert code == 2
    assert "has none of them. It has: a, b. If they are the same in the same order, add --columns a,b." in errors
    assert labels(numbered, letters, "--columns", "a,b") == 2


SEPARATORS = [
    *(("utf-8", letter) for letter in "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"),
    *(("utf-16", letter) for letter in "\x0b\x1c\x85\u2028"),
    *(("latin-1", letter) for letter in "\x0c\x1d\x85"),
]


@pytest.mark.parametrize(("encoding", "letter"), SEPARATORS)
@pytest.mark.parametrize("where", ["a{}x", "{}x", "a{}", '"a{}"'])
def test_lines_end_at_line_ends_alone(tmp_path, letter, encoding, where):
    path = tmp_path / "data.csv"
    name = where.format(letter)
    extra = "é" if encoding == "latin-1" else ""  # what shows that it is no UTF-8
    path.write_bytes(f"{name},b{extra}\n1,2\n3,4\n".encode(encoding))
    columns = (name.strip('"'), f"b{extra}")
    assert read_table(path).columns == columns
    with open_table(path) as opened:
        assert [piece.X.tolist() for piece in opened.pieces(columns)] == [[[1, 2], [3, 4]]]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("inner", ["\n", "\r\n", "\r", "\n\n", "\n,\n"])
@pytest.mark.parametrize("before", ["", "\n", "  \n\n"])
def test_quoted_names_may_have_lines(tmp_path, end, inner, before):
    path = tmp_path / "data.csv"
    text = f'"a{inner}x",b{end}1,2{end}3,4{end}'
    path.write_bytes((before.replace("\n", end) + text).encode())
    columns = (f"a{inner}x", "b")
    table = read_table(path)
    assert (table.columns, table.X.tolist()) == (columns, [[1, 2], [3, 4]])
    with open_table(path) as opened:
        assert [piece.X.tolist() for piece in opened.pieces(columns)] == [[[1, 2], [3, 4]]]


def test_a_header_longer_than_a_block(tmp_path):
    path = tmp_path / "data.csv"
    names = [f"a column whose number is {j:05} of very many" for j in range(40_000)]
    path.write_text(",".join(names) + "\n" + ",".join(["1"] * 40_000) + "\n" + ",".join(["2"] * 40_000) + "\n")
    assert path.stat().st_size > 1 << 20
    assert read_table(path).columns == tuple(names)
    with open_table(path) as opened:
        assert [piece.X.shape for piece in opened.pieces(names[:2])] == [(2, 2)]
