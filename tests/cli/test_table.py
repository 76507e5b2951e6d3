"""Files become points: every format, odd CSV dialects, and broken files whose errors name what is wrong."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from knoll.exceptions import BadData, InvalidParameter
from knoll.tables import fill_missing, open_table, read_table

PLAIN = "x,y\n1.5,2\n-3,4e2\n"
NUMBERS = [[1.5, 2.0], [-3.0, 400.0]]


def write(tmp_path: Path, content: str | bytes, name: str = "data.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pa.parquet.write_table(table, sink)
    return sink.getvalue()


def feather(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pa.feather.write_feather(table, sink)
    return sink.getvalue()


def array_file(save, *arrays, **named) -> bytes:
    sink = io.BytesIO()
    save(sink, *arrays, **named)
    return sink.getvalue()


FORMATS = {
    "comma": PLAIN,
    "tab": PLAIN.replace(",", "\t"),
    "semicolon": PLAIN.replace(",", ";"),
    "bar": PLAIN.replace(",", "|"),
    "decimal-comma": "x;y\n1,5;2\n-3;4e2\n",  # a decimal comma
    "bom": "\ufeff" + PLAIN,
    "blank": "\n" + PLAIN,
    "crlf": PLAIN.replace("\n", "\r\n"),
    "quoted": '"x","y"\n"1.5","2"\n"-3","4e2"\n',
    "utf16": PLAIN.encode("utf-16"),
    "gzip": gzip.compress(PLAIN.encode()),
    "zstd": pa.compress(PLAIN.encode(), codec="zstd", asbytes=True),
    "parquet": parquet(pa.table({"x": [1.5, -3.0], "y": [2, 400]})),
    "feather": feather(pa.table({"x": [1.5, -3.0], "y": [2, 400]})),
    "npy": array_file(np.save, np.array([(1.5, 2), (-3, 400)], dtype=[("x", "f4"), ("y", "i2")])),
}


@pytest.mark.parametrize("content", FORMATS.values(), ids=FORMATS.keys())
def test_the_contents_report_the_format(tmp_path, content):
    table = read_table(write(tmp_path, content, "data"))
    assert table.columns == ("x", "y")
    assert table.X.dtype == np.float64
    assert table.X.tolist() == NUMBERS
    assert table.left_out == {}


def test_arrays_without_names_get_numbers(tmp_path):
    X = np.arange(6.0).reshape(3, 2)
    assert read_table(write(tmp_path, array_file(np.save, X))).columns == ("column 1", "column 2")
    table = read_table(write(tmp_path, array_file(np.savez, X=X, kind=np.array([0, 1, 1]))), truth="kind")
    assert table.truth is not None
    assert table.truth.tolist() == [0, 1, 1]
    assert read_table(write(tmp_path, "1,2\n3,4\n")).X.tolist() == [[1, 2], [3, 4]]


def test_what_is_left_out_is_left_out_with_its_reason(tmp_path):
    rows = [f"{i},{i},name {i},2020-01-0{i % 9 + 1},true,{i / 2},,{i}" for i in range(20)]
    rows[17] = rows[17][: rows[17].rindex(",")] + ",12 kg"
    table = read_table(write(tmp_path, "id,n,name,when,ok,half,none,mass\n" + "\n".join(rows)))
    assert table.columns == ("n", "half")
    assert table.left_out == {
        "id": "apparently a row number; name it in --columns to use it",
        "name": "text",
        "when": "a date or time",
        "ok": "true or false, not a number; write it as 0 and 1 to use it",
        "none": "empty",
        "mass": "text, though 95% of its cells are numbers: row 18 has '12 kg'",
    }


def test_columns_ids_and_truth(tmp_path):
    path = write(tmp_path, "id,x,y,kind\n7,1,2,a\n8,3,4,b\n")
    table = read_table(path, columns=["y"], ids="id", truth="kind")
    assert (table.columns, table.X.tolist()) == (("y",), [[2], [4]])
    assert table.ids is not None
    assert table.truth is not None
    assert (table.ids.tolist(), table.truth.tolist()) == ([7, 8], ["a", "b"])
    assert read_table(path, columns=["id"]).X.tolist() == [[7], [8]]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (["007", "8"], ["007", "8"]), (["7", "-8"], [7, -8]), (["7.0", "8"], ["7.0", "8"]),
        (["1e5", "2"], ["1e5", "2"]),
        (["2024-01-01", "2024-01-02"], ["2024-01-01", "2024-01-02"]), (["true", "false"], ["true", "false"]),
        (["9" * 20, "1"], ["9" * 20, "1"]), (["+7", "8"], ["+7", "8"]),
    ],
)  # fmt: skip
def test_ids_are_kept_as_they_are_written(tmp_path, written, read):
    """As ``knoll predict`` does: 007 and 7 are two rows."""
    path = write(tmp_path, "id,x,y\n" + "".join(f"{name},{i},{i}\n" for i, name in enumerate(written)))
    found = read_table(path, ids="id")
    assert found.ids is not None
    assert (found.ids.tolist(), found.columns) == (read, ("x", "y"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (b"\xef\xbb\xbf\r\n", "is empty"),
        ("x,y\n1,2\n3,4\n".encode("utf-32"), "is a text in UTF-32, which cannot be read\\. .* Save it as UTF-8\\."),
        ("x,y\n1," + 200_000 * "z" + "\n3,4\n", "a cell has more than 131072 characters. Shorten"),
        (
            "x,y\n" + "1,2\n" * 40_000 + "3," + (1 << 22) * "z",
            "a line is longer than 1048576 bytes, or a quotation mark",
        ),
        ("x,y\n", "has one line and no numbers"),
        ("name\nbob\n", r"has no numeric column to cluster \('name' is text\)"),
        ("x,y\n1,2\n1,2,3\n", "line 3 has 3 cells where 2 are expected. Fix that line."),
        (b"\x00\x01\x02" * 50, "cannot be read"),
        (b"PAR1 and no more", "is damaged"),
        (b"\x1f\x8b and no more", "looks like gzip and cannot be unpacked"),
        (b"PK\x03\x04 and no more", "is damaged"),
        (array_file(np.save, np.zeros((2, 2, 2))), "contains an array of 3 dimensions"),
        (array_file(np.savez, a=np.zeros(3)), r"has no array of two dimensions. It has: a."),
        (
            array_file(np.save, np.array([[{}]], dtype=object), allow_pickle=True),
            "contains Python objects instead of numbers. Save it with a numeric dtype.",
        ),
    ],
)
def test_a_broken_file_is_reported_what_is_wrong(tmp_path, content, message):
    with pytest.raises(BadData, match=message):
        read_table(write(tmp_path, content))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(BadData, match=r"There is no file .*nope.csv."):
        read_table(tmp_path / "nope.csv")
    with pytest.raises(BadData, match="cannot be read: Is a directory"):
        read_table(tmp_path)
    with pytest.raises(InvalidParameter, match=r"has no column 'z'. It has: x, y."):
        read_table(write(tmp_path, PLAIN), columns=["z"])
    with pytest.raises(BadData, match="line 2 has 'bob' in column 'name', where a number is needed"):
        read_table(write(tmp_path, "x,name\n1,bob\n"), columns=["name"])


def test_missing_values(tmp_path):
    table = read_table(write(tmp_path, "x,y\n1,2\nNA,4\n5,?\n3,6\n"))
    with pytest.raises(
        BadData, match=r"2 missing values in 2 of 4 rows, the first in row 2, column 'x'. Use --missing"
    ):
        fill_missing(table)
    dropped, note = fill_missing(table, "drop")
    assert dropped.X.tolist() == [[1, 2], [3, 6]]
    assert dropped.rows.tolist() == [0, 3]
    assert note.endswith("these rows were left out")
    filled, note = fill_missing(table, "median")
    assert filled.X.tolist() == [[1, 2], [3, 4], [5, 4], [3, 6]]
    assert note.endswith("filled in with the median of the column")
    assert fill_missing(filled)[1] == ""
    with pytest.raises(BadData, match="every row has a missing value"):
        fill_missing(read_table(write(tmp_path, "x,y\n1,\n,2\n")), "drop")
    with pytest.raises(InvalidParameter, match="missing must be one of"):
        fill_missing(table, "guess")


def test_infinities_are_missing_values(tmp_path):
    with pytest.raises(BadData, match="1 missing value in 1 of 2 rows"):
        fill_missing(read_table(write(tmp_path, array_file(np.save, np.array([[1.0], [np.inf]])))))


def test_numbers_beyond_float64_are_named(tmp_path, call):
    """They count as missing, but are not gaps in the file."""
    table = tmp_path / "t.csv"
    table.write_text("a,b\n1,1e309\n1,2\n3,\n4,5\n")
    code, _, errors = call("fit", "kmeans", table, "--out", tmp_path / "m.knoll")
    assert code == 2
    assert "2 missing values in 2 of 4 rows" in errors
    assert errors.endswith("Infinite, or beyond float64: 1 of these values.\n")
    code, text, errors = call(
        "fit", "kmeans", table, "--param", "n_clusters=2", "--missing", "drop", "--out", tmp_path / "m.knoll"
    )
    assert code == 0
    assert "these rows were left out; 1 of these values infinite, or beyond float64" in text + errors


def test_a_latin_file_keeps_its_letters(tmp_path):
    assert read_table(write(tmp_path, "größe,y\n1,2\n".encode("latin-1"))).columns == ("größe", "y")


def test_columns_of_one_name_stay_apart(tmp_path):
    assert read_table(write(tmp_path, "a,a,\n1,2,3\n")).columns == ("a", "a'", "column 3")


def test_arrays_of_another_machine_and_of_no_numbers(tmp_path):
    """Arrow takes neither swapped bytes nor complex numbers; the first are read, the second are named."""
    X = np.arange(6.0).reshape(3, 2)
    swapped = array_file(np.savez, X=X.astype(">f8"), kind=np.array([0, 1, 1], dtype=">i4"))
    table = read_table(write(tmp_path, swapped), truth="kind")
    assert table.X.tolist() == X.tolist()
    assert table.truth is not None
    assert table.truth.tolist() == [0, 1, 1]
    with pytest.raises(BadData, match=r"contains values of dtype complex128; a table must have real numbers"):
        read_table(write(tmp_path, array_file(np.save, X + 1j)))
    for shape, what in (((0, 2), "rows"), ((3, 0), "columns")):
        with pytest.raises(BadData, match=rf"has no {what}: its array is of shape \({shape[0]}, {shape[1]}\)"):
            read_table(write(tmp_path, array_file(np.save, np.ones(shape))))


@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize("rows", [1, 4])
def test_lines_longer_than_the_first_read(tmp_path, end, rows):
    """A header of more bytes than are read first is read to its end, whole or in pieces."""
    names = [f"a column with the number {j}" for j in range(6000)]
    lines = [",".join(names), *(",".join(str(i + j / 8) for j in range(6000)) for i in range(rows))]
    path = write(tmp_path, "\n".join(lines) + end)
    expected = np.arange(rows)[:, None] + np.arange(6000) / 8
    table = read_table(path)
    assert table.columns == tuple(names)
    np.testing.assert_array_equal(table.X, expected)
    with open_table(path) as opened:
        assert opened.numeric_columns() == names
        np.testing.assert_array_equal(np.concatenate([piece.X for piece in opened.pieces(names)]), expected)


def test_whole_files_and_streams_are_of_one_mind(tmp_path):
    """One guess of the dialect serves both: the same names and numbers, whatever the file looks like."""
    for form, content in FORMATS.items():
        path = write(tmp_path, content, "data")
        table = read_table(path)
        with open_table(path) as opened:
            assert tuple(opened.numeric_columns()) == table.columns, form
            pieces = [piece.X for piece in opened.pieces(table.columns)]
        assert np.concatenate(pieces).tolist() == table.X.tolist() == NUMBERS, form


def test_labels_beside_a_table_are_no_column_of_it(tmp_path):
    """What `np.savez(path, X=X, y=y)` writes: y is left out with a note, unless it is requested."""
    X = np.arange(12.0).reshape(6, 2)
    np.savez(tmp_path / "data.npz", X=X, y=np.arange(6) % 2)
    table = read_table(tmp_path / "data.npz")
    assert table.X.tolist() == X.tolist()
    assert table.left_out == {"y": "an array beside X; name it in --columns to use it, or in --truth"}
    assert read_table(tmp_path / "data.npz", truth="y").truth.tolist() == [0, 1, 0, 1, 0, 1]
    assert read_table(tmp_path / "data.npz", columns=["column 2", "y"]).columns == ("column 2", "y")
