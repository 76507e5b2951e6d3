"""A comparison of a table in blocks: that in memory of the same rows, free of order, with labels for all."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import knoll
from knoll._common.blocks import Block
from knoll._common.passes import LocalPasses
from knoll._common.sample import draw_rows
from knoll.exceptions import BadData, InvalidParameter

pa = pytest.importorskip("pyarrow")
QUICK = {"methods": ["kmeans", "gaussian-mixture"], "k": range(2, 5), "seed": 0}


def table(n=1_500):
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 3, n)
    return pa.table(
        {
            "number": np.arange(n),
            "height": rng.normal(size=n) + 6 * groups,
            "width": rng.normal(size=n) - 5 * groups,
            "age": rng.integers(0, 90, n),
        }
    )


def write(folder, rows, files=3):
    import pyarrow.parquet

    cuts = np.linspace(0, rows.num_rows, files + 1).astype(int)
    for number, (begin, end) in enumerate(itertools.pairwise(cuts)):
        pyarrow.parquet.write_table(rows.slice(begin, end - begin), folder / f"part-{number}.parquet")
    return knoll.blocks.open(f"{folder}/part-*.parquet")


def test_few_rows_are_compared_as_in_memory(tmp_path):
    rows = table()
    here, there = knoll.compare(rows, **QUICK), knoll.compare(write(tmp_path, rows), **QUICK)
    assert there.recommendation.method == here.recommendation.method
    assert (there.confidence, there.verdict) == (here.confidence, here.verdict)
    assert there.scaling.columns == here.scaling.columns  # the number of a row is left out
    np.testing.assert_array_equal(there.labels, here.labels)
    assert any("all 1500 rows were compared" in note for note in there.notes)
    for method in here.answers():
        labels = np.concatenate(list(there.label(write(tmp_path, rows), method=method)))
        np.testing.assert_array_equal(labels, there.answers()[method].labels)


def test_many_rows_are_drawn_by_their_contents(tmp_path, monkeypatch):
    """Another order and other files: the same answer, of the same rows."""
    monkeypatch.setattr("knoll.comparison.streamed.ROWS", 1_000)
    rows = table(6_000)
    found = []
    for number, order in enumerate((np.arange(6_000), np.random.default_rng(1).permutation(6_000))):
        folder = tmp_path / str(number)
        folder.mkdir()
        blocks = write(folder, rows.take(pa.array(order)), files=3 + number)
        comparison = knoll.compare(blocks, **QUICK)
        assert "read in blocks; compared on 1000 of 6000 rows, drawn by their contents." in comparison.notes
        labels = np.empty(6_000, dtype=np.int64)
        labels[order] = np.concatenate(list(comparison.label(blocks)))
        found.append((comparison.recommendation.method, comparison.confidence, labels))
    (method, confidence, labels), (other, same, again) = found
    assert (method, confidence) == (other, same)
    np.testing.assert_array_equal(labels, again)
    whole = knoll.compare(rows, **QUICK)
    assert whole.recommendation.method == method
    assert knoll.metrics.adjusted_rand_score(whole.labels, labels) > 0.98


def test_drawn_rows_repeat_as_often_as_among_all():
    """Of rows with many copies a share is drawn that is theirs; about as many rows as requested."""
    rng = np.random.default_rng(0)
    X = np.vstack([np.tile([[1.0, 2.0]], (3_000, 1)), rng.integers(0, 40, size=(9_000, 2)).astype(float)])
    for seed in range(5):
        passes = LocalPasses(lambda: (Block(chunk, None) for chunk in np.array_split(X, 5)), X.dtype, 1)
        drawn = draw_rows(passes, len(X), seed, 500)
        assert 480 <= len(drawn) <= 520
        assert abs((drawn == [1.0, 2.0]).all(axis=1).mean() - 0.25) < 0.02
        shuffled = X[rng.permutation(len(X))]
        again = draw_rows(LocalPasses(lambda: iter([Block(shuffled, None)]), X.dtype, 1), len(X), seed, 500)  # noqa: B023
        np.testing.assert_array_equal(drawn, again)


def test_what_blocks_cannot_do(tmp_path):
    rows = table()
    with pytest.raises(BadData, match=r"compared by its numbers, and member is of another type\. Name the other"):
        knoll.compare(write(tmp_path, rows.append_column("member", pa.array(np.arange(1_500) % 2))), **QUICK)
    gap = rows.set_column(1, "height", pa.array([None, *np.zeros(1_499)]))
    with pytest.raises(BadData, match="a NaN at row 0, column 'height'"):
        knoll.compare(write(tmp_path, gap), **QUICK)
    blocks = write(tmp_path, rows)
    with pytest.raises(InvalidParameter, match="columns: name those of a table in blocks where it is opened"):
        knoll.compare(blocks, columns=["height"], **QUICK)
    with pytest.raises(InvalidParameter, match="Unknown method 'none'"):
        next(knoll.compare(blocks, **QUICK).label(blocks, method="none"))
