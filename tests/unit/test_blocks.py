"""Files and streams in blocks: the bits of the table in memory, and one clear line for what cannot be read."""

from __future__ import annotations

import os

import numpy as np
import pytest

import knoll
from knoll import Gaussian, GaussianMixture, KMeans
from knoll.exceptions import BadData, InvalidParameter, InvalidType

pa = pytest.importorskip("pyarrow")
feather = pytest.importorskip("pyarrow.feather")
parquet = pytest.importorskip("pyarrow.parquet")

CENTERS = "cluster_centers_", "inertia_", "cluster_weights_"


def rows(n=9000):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 2)) + 5 * rng.integers(0, 3, size=(n, 1))


def table(X, **more):
    return pa.table({"height": X[:, 0], "width": X[:, 1], **more})


def write(folder, form, X, cuts=(2500, 2501)):
    """Write the rows as several files of a format, and return their pattern."""
    for number, chunk in enumerate(np.split(X, cuts)):
        path = folder / f"part-{number}.{form}"
        if form == "parquet":
            parquet.write_table(table(chunk), path, row_group_size=1000)
        elif form == "arrow":
            feather.write_feather(table(chunk), path)
        elif form == "npy":
            np.save(path, chunk)
        else:
            text = "\n".join(f"{float(a)!r},{float(b)!r}" for a, b in chunk)
            path.write_text(f"height,width\n{text}\n")
    return str(folder / f"part-*.{form}")


def fit(source, **options):
    return KMeans(3, random_state=0).fit_blocks(knoll.blocks.open(source, **options))


def same(model, other, names=CENTERS):
    for name in names:
        assert np.asarray(getattr(model, name)).tobytes() == np.asarray(getattr(other, name)).tobytes(), name


@pytest.mark.parametrize("form", ["parquet", "arrow", "npy", "csv"])
def test_files_give_the_bits_of_the_table(tmp_path, form):
    X = rows()
    model = fit(write(tmp_path, form, X))
    same(model, KMeans(3, random_state=0).fit(X))
    blocks = knoll.blocks.open(write(tmp_path, form, X))
    assert blocks.columns == (("column 1", "column 2") if form == "npy" else ("height", "width"))
    labels = np.concatenate([model.predict(block) for block in blocks()])
    np.testing.assert_array_equal(labels, KMeans(3, random_state=0).fit(X).labels_)


@pytest.mark.parametrize("header", [None, True, False])
def test_a_first_line_of_numbers(tmp_path, header):
    path = tmp_path / "years.csv"
    path.write_text("2019,2020\n1,2\n1.5,2.5\n")
    blocks = knoll.blocks.open([path, path], header=header)
    assert blocks.columns == (("2019", "2020") if header else ("column 1", "column 2"))
    each = [[1, 2], [1.5, 2.5]] if header else [[2019, 2020], [1, 2], [1.5, 2.5]]
    assert np.concatenate(list(blocks())).tolist() == each + each


@pytest.mark.parametrize("estimator", [Gaussian(), GaussianMixture(2, random_state=0, max_iter=3, tol=0.5)])
def test_every_estimator_reads_files(tmp_path, estimator):
    X = rows(6000)
    pattern = write(tmp_path, "parquet", X)
    names = ["covariance_"] if isinstance(estimator, Gaussian) else ["covariances_", "means_"]
    same(estimator.fit_blocks(knoll.blocks.open(pattern)), type(estimator)(**estimator.get_params()).fit(X), names)


def test_single_precision_stays_single(tmp_path):
    X = rows().astype(np.float32)
    np.save(tmp_path / "x.npy", X)
    model = fit(tmp_path / "x.npy")
    assert model.cluster_centers_.dtype == np.float32
    same(model, KMeans(3, random_state=0).fit(X))


def test_columns_and_weights(tmp_path):
    X, w = rows(3000), np.random.default_rng(1).integers(0, 3, 3000).astype(float)
    parquet.write_table(table(X, name=["a"] * 3000, w=w), tmp_path / "x.parquet")
    blocks = knoll.blocks.open(tmp_path / "x.parquet", weight="w")
    assert blocks.columns == ("height", "width")  # text is left out, and so is the weight
    same(KMeans(3, random_state=0).fit_blocks(blocks), KMeans(3, random_state=0).fit(X, sample_weight=w))
    one = fit([tmp_path / "x.parquet"], columns=["width"])
    same(one, KMeans(3, random_state=0).fit(X[:, 1:]))


def test_arrow_streams(tmp_path):
    X = rows(3000)
    whole = KMeans(3, random_state=0).fit(X)
    same(fit(table(X)), whole)

    class Query:
        """What polars and DuckDB have: a new stream on each request."""

        def __arrow_c_stream__(self, requested_schema=None):
            return pa.RecordBatchReader.from_batches(
                table(X).schema, table(X).to_batches(max_chunksize=700)
            ).__arrow_c_stream__(requested_schema)

    same(fit(Query()), whole)
    with pytest.raises(InvalidParameter, match=r"a RecordBatchReader can be read once, .*write it to a file"):
        fit(table(X).to_reader())


def test_polars_and_duckdb():
    X = rows(3000)
    whole = KMeans(3, random_state=0).fit(X)
    polars = pytest.importorskip("polars")
    same(fit(polars.DataFrame({"height": X[:, 0], "width": X[:, 1]})), whole)


# ---- bad input: one clear line each --------------------------------------------------------------------------------


def refused(message, source, error=BadData, **options):
    with pytest.raises(error, match=message) as caught:
        fit(source, **options)
    assert "\n" not in str(caught.value)


def test_a_pattern_that_matches_nothing(tmp_path):
    refused(r"No file matches '.*none-\*\.parquet'\. Check the folder and the pattern\.", tmp_path / "none-*.parquet")
    refused(r"There is no file .*none\.parquet\.", tmp_path / "none.parquet")


def test_files_whose_columns_differ(tmp_path):
    pattern = write(tmp_path, "csv", rows(100), cuts=(50,))
    (tmp_path / "part-1.csv").write_text("height,depth\n1,2\n")
    refused(
        r"part-1\.csv has no column 'width', which .*part-0\.csv has\. It has: height, depth\. All files must", pattern
    )


def test_a_file_that_changes_between_passes(tmp_path):
    path = tmp_path / "x.csv"
    write(tmp_path, "csv", rows(100), cuts=())
    os.rename(tmp_path / "part-0.csv", path)
    blocks = knoll.blocks.open(path)
    list(blocks())
    path.write_text("height,width\n1,2\n3,4\n")
    with pytest.raises(BadData, match=r"x\.csv has changed since it was opened\. .*write to another file"):
        KMeans(2).fit_blocks(blocks)


def test_a_text_column(tmp_path):
    parquet.write_table(pa.table({"x": [1.0, 2.0], "name": ["a", "b"]}), tmp_path / "x.parquet")
    refused(r"x\.parquet: column 'name' cannot be used: ", tmp_path / "x.parquet", columns=["x", "name"])
    refused(
        r"x\.parquet has no column 'z'\. It has: x, name\.", tmp_path / "x.parquet", InvalidParameter, columns=["z"]
    )
    parquet.write_table(pa.table({"name": ["a", "b"]}), tmp_path / "y.parquet")
    refused(r"y\.parquet has no numeric column to cluster on\. It has: name\.", tmp_path / "y.parquet")


def test_a_text_after_many_numbers(tmp_path):
    (tmp_path / "x.csv").write_text("a\n" + "1\n" * 50_000 + "many\n")
    refused(r"x\.csv: .*'many'", tmp_path / "x.csv")


def test_an_empty_file_among_many(tmp_path):
    """Without a line of numbers a text is refused; a Parquet file with columns and no rows has none to add."""
    X = rows(100)
    pattern = write(tmp_path, "parquet", X, cuts=(50,))
    parquet.write_table(table(X[:0]), tmp_path / "part-2.parquet")
    same(fit(pattern), KMeans(3, random_state=0).fit(X))
    pattern = write(tmp_path, "csv", X, cuts=(50,))
    (tmp_path / "part-2.csv").write_text("height,width\n")
    refused(r"part-2\.csv has one line and no numbers", pattern)
    (tmp_path / "part-2.csv").write_text("")
    refused(r"part-2\.csv is empty", pattern)


def test_a_truncated_file(tmp_path):
    write(tmp_path, "parquet", rows(5000), cuts=())
    path = tmp_path / "part-0.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    refused(r"part-0\.parquet is damaged: ", path)


def test_what_is_no_table():
    refused("a path, a pattern, several of them, or an object with __arrow_c_stream__ is needed, got 7", 7, InvalidType)


def test_a_missing_value_is_named_by_row_and_column(tmp_path):
    X = rows(9000)
    X[8765, 1] = np.nan
    with pytest.raises(BadData, match="a NaN at row 8765, column 'width'"):
        fit(write(tmp_path, "parquet", X))
