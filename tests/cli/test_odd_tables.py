"""Odd and malformed files through ``fit``, ``predict`` and ``compare``: an answer or one line, never a bug report."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import pickle
import re
import tarfile
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
import scipy.sparse

CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def saved(write, *values, **options) -> bytes:
    sink = io.BytesIO()
    write(sink, *values, **options)
    return sink.getvalue()


def npy(array, **options) -> bytes:
    return saved(np.save, array, **options)


def parquet(table, **options) -> bytes:
    sink = io.BytesIO()
    pa.parquet.write_table(table, sink, **options)
    return sink.getvalue()


def feather(table, **options) -> bytes:
    sink = io.BytesIO()
    pa.feather.write_feather(table, sink, **options)
    return sink.getvalue()


def archive(**members: bytes) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "/").replace("_", "."), content)
    return sink.getvalue()


def tar() -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("data.csv"))
    return sink.getvalue()


def invalid_text() -> pa.Array:
    """Strings that are no UTF-8, as a careless writer may leave them in a column."""
    return pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(np.array([0, 2, 4], "<i4")), pa.py_buffer(b"\xff\xfea\xff")]
    )


ROWS = "1,2\n3,4\n9,8\n9,9\n"
GRID = np.arange(12.0).reshape(6, 2)
RECORDS = np.array([(1, 2.0), (3, 4.0), (5, 7.0)], dtype=[("a", "i4"), ("b", "f8")])
NPZ = saved(np.savez, X=GRID)
PARQUET = parquet(pa.table({"a": [1.0, 2.0, 5.0], "b": [3.0, 4.0, 4.0]}))
FEATHER = feather(pa.table({"a": [1.0, 2.0, 5.0], "b": [3.0, 4.0, 4.0]}))

ODD: dict[str, bytes] = {
    "nothing": b"",
    "spaces": b" \n \t \n",
    "a-bom": b"\xef\xbb\xbf",
    "zeros": b"\x00" * 4096,
    "one-quote": b'"',
    "empty-quotes": b'""\n""\n',
    "unclosed-quote": b'a,b\n1,2\n"3,4\n5,6\n',
    "unclosed-header": b'"a,b\n1,2\n3,4\n',
    "quote-in-cell": b'a,b\n1"x,2\n3,4\n',
    "only-commas": b",,,\n,,,\n",
    "ragged": b"a,b\n1,2\n3\n4,5,6\n",
    "wide-header": b"a,b,c,d\n1,2\n3,4\n",
    "narrow-header": b"a\n1,2\n3,4\n",
    "same-names": b"a,a,a\n" + b"1,2,3\n3,4,5\n",
    "no-names": b",,\n1,2,3\n3,4,5\n",
    "numbers-only": ROWS.encode(),
    "years": b"2019,2020\n" + ROWS.encode(),
    "carriage-returns": b"a,b\r" + ROWS.replace("\n", "\r").encode(),
    "mixed-ends": b"a,b\r\n1,2\r3,4\n9,8\r\n",
    "separators": "a\u2028b\x0bc\x0cd\x1ce\x85,b\n".encode() + ROWS.encode(),
    "latin-separator": b"more\x85,b\n" + ROWS.encode(),
    "lines-in-header": b'"a\r\nb\n\nc",b\n' + ROWS.encode(),
    "escapes": b"\x1b[2J\x1b]0;owned\x07a,b\x9b31m\n" + ROWS.encode(),
    "escapes-in-cells": b"a,b\n\x1b[31m,2\n3,4\n",
    "bidi": "\u202ea\u2066,b\u200f\n".encode() + ROWS.encode(),
    "markup": b"[red]a[/red],[/]b\n" + ROWS.encode(),
    "null-in-header": "a\x00,b\n1,2\n3,4\n".encode("utf-16"),
    "utf16-cut": "a,b\n1,2\n3,4\n".encode("utf-16")[:-1],
    "utf32": "a,b\n1,2\n3,4\n".encode("utf-32"),
    "half-letter": b"a,\xc3\n1,2\n3,4\n",
    "two-encodings": "é,b\n1,2\n".encode() + b"\xe9,4\n",
    "arabic-digits": "١,٢\n٣,٤\n".encode(),
    "huge-numbers": b"a,b\n1e999,1e-999\n3,4\n-1e999,1\n",
    "long-cell": b"a,b\n1," + b"9" * 200_000 + b"\n3,4\n",
    "long-header": b"a" * 300_000 + b",b\n" + ROWS.encode(),
    "long-lines": b",".join(b"column %d" % j for j in range(40_000)) + b"\n" + b",".join([b"1"] * 40_000) + b"\n",
    "one-line": b"1,2,3",
    "json": json.dumps([{"a": 1}, {"a": 2}]).encode(),
    "json-lines": b'{"a": 1}\n{"a": 2}\n',
    "html": b"<!DOCTYPE html><table><tr><td>1</td></tr></table>",
    "matrix-market": b"%%MatrixMarket matrix coordinate real general\n3 3 1\n1 1 1\n",
    "pickle": pickle.dumps(GRID),
    "bz2": bz2.compress(ROWS.encode()),
    "xz": lzma.compress(ROWS.encode()),
    "hdf5": b"\x89HDF\r\n\x1a\n" + bytes(64),
    "xls": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(64),
    "xlsx": archive(xl__workbook_xml=b"<a/>"),
    "zip-of-csv": archive(data_csv=ROWS.encode()),
    "zip-without-members": archive(),
    "zip-cut": NPZ[: len(NPZ) // 2],
    "npz-bad-member": archive(X_npy=b"\x93NUMPY and no more"),
    "npz-text-member": archive(X_npy=b"hello"),
    "npz-other-member": archive(X_npy=npy(GRID), readme_txt=b"hello"),
    "npz-two": saved(np.savez, a=GRID, b=GRID),
    "npz-none": saved(np.savez, a=np.zeros(3), b=np.float64(1)),
    "npz-objects": saved(np.savez, a=np.array([[{}]], dtype=object)),
    "npz-sparse": saved(scipy.sparse.save_npz, scipy.sparse.csr_array(GRID)),
    "npz-surrogates": saved(np.savez, X=GRID, name=np.array(["\ud800"] * 6)),
    "tar": tar(),
    "gzip-of-nothing": gzip.compress(b""),
    "gzip-of-gzip": gzip.compress(gzip.compress(ROWS.encode())),
    "gzip-cut": gzip.compress(ROWS.encode() * 99)[:-9],
    "gzip-of-tar": gzip.compress(tar()),
    "npy-0d": npy(np.float64(1)),
    "npy-1d": npy(np.arange(5.0)),
    "npy-3d": npy(np.zeros((2, 2, 2))),
    "npy-empty": npy(np.zeros((0, 3))),
    "npy-no-columns": npy(np.zeros((3, 0))),
    "npy-objects": npy(np.array([[{}]], dtype=object), allow_pickle=True),
    "npy-text": npy(np.array([["a", "b"], ["c", "d"]])),
    "npy-bytes": npy(np.array([[b"a"], [b"b"]])),
    "npy-complex": npy(GRID + 1j),
    "npy-dates": npy(np.array([["2020-01-01"], ["2020-01-02"]], dtype="M8[D]")),
    "npy-bool": npy(GRID > 3),
    "npy-half": npy(GRID.astype("f2")),
    "npy-long": npy(GRID.astype(np.longdouble)),
    "npy-swapped": npy(GRID.astype(">f8")),
    "npy-fortran": npy(np.asfortranarray(GRID)),
    "npy-records": npy(RECORDS),
    "npy-records-0d": npy(RECORDS[0].reshape(())),
    "npy-records-2d": npy(np.array([RECORDS, RECORDS])),
    "npy-records-column": npy(RECORDS[:, None]),
    "npy-records-of-arrays": npy(np.zeros(3, dtype=[("a", "f8", (2,)), ("b", "f8")])),
    "npy-records-nested": npy(np.zeros(3, dtype=[("a", [("x", "f8")]), ("b", "f8")])),
    "npy-nan": npy(np.full((4, 2), np.nan)),
    "npy-cut": npy(GRID)[:-9],
    "npy-no-header": b"\x93NUMPY\x01\x00",
    "npy-strange-version": b"\x93NUMPY\x09\x00" + npy(GRID)[8:],
    "npy-code": npy(GRID).replace(b"(6, 2)", b"(x, 2)"),
    "parquet-cut": PARQUET[:-20],
    "parquet-middle": PARQUET[:40] + PARQUET[60:],
    "parquet-no-columns": parquet(pa.table({})),
    "parquet-null-column": parquet(pa.table({"a": [1.0, 2.0], "b": pa.nulls(2)})),
    "parquet-invalid-text": parquet(pa.table({"a": [1.0, 2.0], "b": [2.0, 3.0], "t": invalid_text()})),
    "parquet-nested": parquet(pa.table({"a": [[1.0], [2.0]]})),
    "parquet-decimal": parquet(pa.table({"a": pa.array([1, 2], pa.decimal128(10, 2)), "b": [1, 2]})),
    "parquet-names": parquet(pa.table({"\x1b[2J": [1.0, 2.0], "": [1.0, 3.0]})),
    "feather-cut": FEATHER[: len(FEATHER) // 2],
    "feather-v1": b"FEA1" + bytes(64) + b"FEA1",
    "knoll": b"\x89knoll\r\n" + bytes(64),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    import knoll

    path = tmp_path_factory.mktemp("odd") / "m.knoll"
    knoll.save(knoll.KMeans(2, random_state=0).fit(GRID), path)
    return path


@pytest.mark.parametrize("name", ODD)
def test_an_answer_or_one_line(name, model, tmp_path, call):
    """And whatever the file contains, no control character of it reaches the terminal."""
    path = tmp_path / "data"
    path.write_bytes(ODD[name])
    for args in (
        ("fit", "kmeans", path, "--param", "n_clusters=2", "--labels", tmp_path / "l.csv"),
        ("fit", "kmeans", path, "--columns", "a,nowhere"),
        ("fit", "gaussian", path, "--missing", "median", "--header", "--json"),
        ("predict", model, path, "--out", tmp_path / "p.csv", "--force"),
        ("predict", model, path, "--columns", "a,b", "--no-header", "--missing", "drop"),
        ("compare", path, "--methods", "kmeans", "--k", "2", "--budget", "1", "--out", tmp_path / "out"),
    ):
        code, text, errors = call(*args)
        assert code in (0, 2), errors
        assert code == 0 or (errors.startswith("knoll: ") and errors.count("\n") == 1), errors
        assert not CONTROL.search(text + errors), (args, text + errors)
        if "--json" in args and code == 0:
            json.loads(text)
