"""Small files that unpack to huge ones, or lie about what they hold: refused in one line, before memory is taken."""

from __future__ import annotations

import io
import struct
import tracemalloc

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
import scipy.sparse

import knoll
from knoll._system import peak_memory
from knoll.cli import main
from knoll.exceptions import BadData
from knoll.tables import limits, open_table, read_table

ROWS = 12_345
HUGE = 10**10


def feather(table: pa.Table, compression: str = "zstd") -> bytes:
    sink = io.BytesIO()
    pa.feather.write_feather(table, sink, compression=compression)
    return sink.getvalue()


def parquet(table: pa.Table, **options) -> bytes:
    sink = io.BytesIO()
    pa.parquet.write_table(table, sink, **options)
    return sink.getvalue()


def varint(value: int) -> bytes:
    """A whole number as Parquet's footer writes it (Thrift's compact protocol)."""
    value, out = 2 * value, b""
    while value > 127:
        out, value = out + bytes([value % 128 + 128]), value // 128
    return out + bytes([value])


def claiming(data: bytes, rows: int) -> bytes:
    """A Parquet file whose footer claims so many rows."""
    (length,) = struct.unpack("<I", data[-8:-4])
    footer = data[-8 - length : -8]
    assert footer.count(varint(ROWS)) >= 2
    forged = footer.replace(varint(ROWS), varint(rows))
    return data[: -8 - length] + forged + struct.pack("<I", len(forged)) + b"PAR1"


def lying(data: bytes, old: int, new: int) -> bytes:
    """An Arrow file with one number of eight bytes instead of another."""
    assert struct.pack("<q", old) in data
    return data.replace(struct.pack("<q", old), struct.pack("<q", new))


def sparse_npz(shape: tuple[int, int]) -> bytes:
    """Three entries of a matrix of any shape."""
    sink = io.BytesIO()
    scipy.sparse.save_npz(sink, scipy.sparse.coo_array((np.ones(3), ([0, 1, 2], [0, 1, 1])), shape=shape))
    return sink.getvalue()


def h5ad(rows: int, names: int, form: str = "array") -> bytes:
    """An AnnData file of chunks that were never written."""
    sink = io.BytesIO()
    with h5py.File(sink, "w") as file:
        chunks = {"compression": "gzip", "maxshape": (None,), "chunks": (1 << 16,)}
        if form == "array":
            file.create_dataset("X", shape=(rows, 2), dtype="f8", compression="gzip", chunks=(min(rows, 1 << 16), 2))
        else:
            group = file.create_group("X")
            group.attrs.update({"encoding-type": "csr_matrix", "shape": (10, 2)})
            for name, size in (("data", rows), ("indices", rows), ("indptr", 11)):
                group.create_dataset(name, shape=(size,), dtype="f8" if name == "data" else "i8", **chunks)
        file.create_group("obs").attrs["_index"] = "_index"
        file["obs"].create_dataset("_index", shape=(names,), dtype="S8", **chunks)
    return sink.getvalue()


NUMBERS = pa.table({"x": np.zeros(ROWS), "y": np.arange(ROWS, dtype=np.float64)})
LARGE = r"data unpacks to more than \S+ GB, half of the memory that is free. Take fewer rows, or the columns you need."
TIMES = "data unpacks to more than 300 times its size, which no table does. If it is one, unpack it first."
BOMBS = {
    "parquet-rows": (claiming(parquet(NUMBERS), HUGE), LARGE),
    "feather-rows": (lying(feather(NUMBERS), ROWS, HUGE), "data is damaged: "),
    "feather-plain-rows": (lying(feather(NUMBERS, "uncompressed"), ROWS, HUGE), "data is damaged: "),
    "feather-buffer": (lying(feather(NUMBERS), 8 * ROWS, 1 << 40), "data is damaged: "),
    "feather-lz4-buffer": (lying(feather(NUMBERS, "lz4"), 8 * ROWS, 1 << 40), "data is damaged: "),
    "feather-lie": (lying(feather(NUMBERS), ROWS, 2 * ROWS), "data is damaged: "),
    "feather-plain-lie": (lying(feather(NUMBERS, "uncompressed"), ROWS, 2 * ROWS), "data is damaged: "),
    "feather-negative": (lying(feather(NUMBERS), ROWS, -1), "data (is damaged: |has no rows)"),
    "npz-width": (sparse_npz((3, 10**8)), "data has 100000000 columns; at most 50000 are supported."),
    "npz-rows": (sparse_npz((10**8, 2)), TIMES),
    "h5ad": (h5ad(1 << 25, 3), TIMES),
    "h5ad-sparse": (h5ad(1 << 25, 3, "csr_matrix"), TIMES),
    "parquet-lie": (claiming(parquet(NUMBERS), 2 * ROWS), "data is damaged: it claims 24690 rows and has 12345."),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_file_that_claims_too_much_is_refused(tmp_path, monkeypatch, bomb):
    monkeypatch.chdir(tmp_path)
    content, message = BOMBS[bomb]
    (tmp_path / "data").write_bytes(content)
    before = peak_memory()
    with pytest.raises(BadData, match=message) as caught:
        read_table("data")
    assert "\n" not in str(caught.value)
    assert peak_memory() < before + (1 << 28)  # a buffer may be reserved, but is not filled


def test_names_of_rows_that_are_not_there_are_not_read(tmp_path):
    (tmp_path / "data").write_bytes(h5ad(100, 1 << 26))
    before = peak_memory()
    assert read_table(tmp_path / "data").X.shape == (100, 2)
    assert peak_memory() < before + (1 << 28)


@pytest.mark.parametrize("bomb", [name for name in BOMBS if name.startswith("feather")])
def test_predict_is_as_careful(tmp_path, monkeypatch, capsys, bomb):
    """It reads in pieces: each must fit."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").write_bytes(BOMBS[bomb][0])
    knoll.save(knoll.KMeans(2, random_state=0).fit(np.array([[0.0, 0.0], [1.0, 5.0], [9.0, 9.0]])), "m.knoll")
    assert main(["predict", "m.knoll", "data", "--out", "labels.csv"]) == 2
    output = capsys.readouterr().err
    assert output.count("\n") == 1
    assert output.startswith("knoll: data ")
    assert not (tmp_path / "labels.csv").exists()


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_a_true_bomb_of_feather(tmp_path, monkeypatch, compression):
    """Zeros pack well: the file records what they unpack to, and added up over its batches."""
    table = pa.table({"x": np.zeros(1 << 20)})
    (tmp_path / "data").write_bytes(feather(table, compression))
    monkeypatch.setattr(limits, "free_memory", lambda: 1 << 23)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadData, match=r"data unpacks to more than 0.0042 GB"):
        read_table("data")
    with open_table("data") as opened:  # 2^16 rows at a time are no bomb
        assert sum(len(piece.X) for piece in opened.pieces(["x"])) == 1 << 20


@pytest.mark.parametrize("write", [parquet, feather])
def test_rows_that_take_no_bytes_are_a_bomb(tmp_path, monkeypatch, write):
    """The check of gzip and NPZ, on what the file claims about itself: nothing is unpacked."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(limits, "_BOMB", (1 << 20, 300))
    (tmp_path / "data").write_bytes(write(pa.table({"x": np.zeros(1 << 20), "y": np.ones(1 << 20)})))
    before = pa.total_allocated_bytes()
    with pytest.raises(
        BadData, match=r"data unpacks to more than 300 times its size, .* save it as CSV, or take fewer"
    ):
        read_table("data")
    assert pa.total_allocated_bytes() - before < 1 << 20
    with open_table("data") as opened:  # in pieces it is none
        assert sum(len(piece.X) for piece in opened.pieces(["x", "y"])) == 1 << 20


def test_few_rows_of_huge_texts_are_a_bomb(tmp_path, monkeypatch):
    """The first rows are read for the types of the columns: not where they are what fills the memory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(limits, "_BOMB", (1 << 20, 300))
    table = pa.table({"a": [1.0, 2.0, 3.0], "b": [1.0, 5.0, 3.0], "text": [each * (1 << 24) for each in "xyz"]})
    sink = io.BytesIO()
    pyarrow.parquet.write_table(table, sink, compression="zstd", write_statistics=False)
    (tmp_path / "data").write_bytes(sink.getvalue())
    del table
    before = pa.total_allocated_bytes()
    for columns in (None, ["a", "b"]):
        with pytest.raises(BadData, match=r"data unpacks to more than 300 times its size, .* save it as CSV, or take"):
            read_table("data", columns=columns)
    assert pa.total_allocated_bytes() - before < 1 << 20


@pytest.mark.parametrize("write", [parquet, feather])
def test_a_table_is_in_memory_once_beside_its_file(tmp_path, write):
    options = {"row_group_size": 1 << 15} if write is parquet else {}
    rng = np.random.default_rng(0)
    columns = {f"c{j}": pa.array(rng.normal(size=1 << 18), mask=rng.random(1 << 18) < 0.1) for j in range(4)}
    (tmp_path / "data").write_bytes(write(pa.table(columns), **options))
    tracemalloc.start()
    X = read_table(tmp_path / "data").X
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.5 * X.nbytes  # the array and a piece; Arrow's own copy is not counted here
    expected = np.column_stack([column.to_numpy(zero_copy_only=False) for column in columns.values()])
    np.testing.assert_array_equal(X, expected)


def test_texts_that_are_kept_once_are_not_written_out(tmp_path, monkeypatch):
    """A long text on many rows takes little room in a file of columns; it is unfolded on request alone."""
    table = pa.table({"x": np.arange(300.0), "long": pa.array(["y" * 10**6] * 300)})
    for content in (parquet(table), feather(table.set_column(1, "long", table["long"].dictionary_encode()))):
        (tmp_path / "data").write_bytes(content)
        assert len(content) < 10**6
        tracemalloc.start()
        read = read_table(tmp_path / "data")
        assert (read.columns, read.left_out) == (("x",), {"long": "text"})
        assert tracemalloc.get_traced_memory()[1] < 10**7
        tracemalloc.stop()
        with monkeypatch.context() as patch:
            patch.setattr(limits, "free_memory", lambda: 2 * 10**8)
            with pytest.raises(BadData, match=r"unpacks to more than 0.1 GB"):
                read_table(tmp_path / "data", ids="long")
            with open_table(tmp_path / "data") as opened, pytest.raises(BadData, match="unpacks to more than"):
                list(opened.pieces(["x"], "long"))
        assert list(read_table(tmp_path / "data", ids="long").ids[:1]) == ["y" * 10**6]


def test_columns_within_columns_are_left_out_unread(tmp_path):
    table = pa.table({"x": [1.0, 2.0], "many": [[1.0] * 5, []], "pair": [{"a": 1}, {"a": 2}], "y": [3.0, 4.0]})
    for content in (parquet(table), feather(table)):
        (tmp_path / "data").write_bytes(content)
        read = read_table(tmp_path / "data")
        assert read.columns == ("x", "y")
        assert [reason.partition("<")[0] for reason in read.left_out.values()] == ["of type list", "of type struct"]
        assert read.X.tolist() == [[1, 3], [2, 4]]
        with open_table(tmp_path / "data") as opened:
            assert [piece.X.tolist() for piece in opened.pieces(["y", "x"])] == [[[3, 1], [4, 2]]]


def test_categories(tmp_path):
    """Texts kept once are texts, whatever the file calls them, and may be ids or classes."""
    codes = pa.array(["a", "b", None, "a"]).dictionary_encode()
    slips = pa.array(["1", "2", "x", *["3"] * 20]).dictionary_encode()
    levels = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 1]), pa.array([1.5, 2.5]))
    for write in (parquet, feather):
        (tmp_path / "data").write_bytes(write(pa.table({"x": [1, 2, 3, 4], "kind": codes, "level": levels})))
        read = read_table(tmp_path / "data", truth="kind")
        assert read.truth.tolist() == ["a", "b", None, "a"]
        if write is feather:  # Parquet may forget that they are categories
            assert read.left_out == {"level": "a category, not a number"}
        (tmp_path / "data").write_bytes(write(pa.table({"x": range(23), "slip": slips})))
        assert read_table(tmp_path / "data").left_out == {
            "slip": "text, though 96% of its cells are numbers: row 3 has 'x'"
        }


@pytest.mark.parametrize("write", [parquet, feather])
def test_two_columns_of_one_name_are_reported(tmp_path, write):
    (tmp_path / "data").write_bytes(write(pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["x", "x"])))
    with pytest.raises(BadData, match=r"data has two columns named 'x'. Rename one of them."):
        read_table(tmp_path / "data")
    with pytest.raises(BadData, match="has two columns named 'x'"), open_table(tmp_path / "data"):
        pass


@pytest.mark.parametrize(
    "args",
    [
        ("fit", "kmeans", "data", "--out", "f.knoll"),
        ("compare", "data", "--out", "found"),
        ("relate", "data"),
        ("predict", "m.knoll", "data", "--out", "labels.csv"),
    ],
    ids=lambda args: args[0],
)
def test_every_command_checks_before_it_unpacks(tmp_path, monkeypatch, capsys, args):
    """Equal numbers pack to a thousandth of their size; only `predict`, which reads in pieces, takes the file."""
    monkeypatch.chdir(tmp_path)
    rows = 1 << 20
    group = pa.table({"x": np.ones(rows), "y": np.full(rows, 2.0)})
    with pa.parquet.ParquetWriter("data", group.schema) as writer:
        for _ in range(5):
            writer.write_table(group)
    knoll.save(knoll.KMeans(1, random_state=0).fit(np.array([[0.0, 0.0], [1.0, 5.0]])), "m.knoll")
    if args[0] == "predict":
        monkeypatch.setattr("knoll.tables.limits.free_memory", lambda: 1 << 24)
    before = peak_memory()
    code = main(list(args))
    assert peak_memory() < before + (1 << 27)
    output = capsys.readouterr().err
    if args[0] == "predict":
        assert code == 0, output
        assert (tmp_path / "labels.csv").read_bytes().count(b"\n") == 5 * rows + 1
    else:
        assert (code, output.count("\n")) == (2, 1)
        assert output.startswith("knoll: data unpacks to more than 300 times its size, which no table does.")
