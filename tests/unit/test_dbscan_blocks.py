"""DBSCAN.fit_blocks: labels in memory, in files or handed over; what is refused; nothing is left behind."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
import tempfile
import textwrap

import numpy as np
import pytest

import knoll
from knoll import DBSCAN, CancelToken
from knoll._common import scratch
from knoll._common.scratch import NumberedRows, RowStore, Scratch
from knoll.density import regions
from knoll.density.regions import Box
from knoll.exceptions import BadData, Cancelled, CostError, InvalidParameter, ModelFileError, SuspiciousResultWarning

EPS, MEMORY = 0.12, "150kB"  # which 8000 rows are some ten regions in


def table(n=8000, d=2, seed=0):
    random = np.random.default_rng(seed)
    return random.normal(size=(n, d)) + 6 * random.integers(0, 3, size=(n, 1))


X = table()
EXPECTED = DBSCAN(EPS).fit(X).labels_


def blocks(cuts=(2500, 2501, 2501)):
    return lambda: iter(np.split(X, cuts))


def held(process, folder):
    """The files in a folder that a process has open, with a name or without."""
    found = []
    for descriptor in os.listdir(f"/proc/{process}/fd"):
        with contextlib.suppress(FileNotFoundError):  # it was that of the list
            found.append(os.readlink(f"/proc/{process}/fd/{descriptor}"))
    return [name for name in found if str(folder) in name]


# ---- labels out ----------------------------------------------------------------------------------------------------


def test_the_labels_of_fit_in_several_regions():
    model = DBSCAN(EPS).fit_blocks(blocks(), memory=MEMORY)
    np.testing.assert_array_equal(model.labels_, EXPECTED)
    assert model.labels_.dtype == EXPECTED.dtype
    facts = model.regions_
    assert facts["regions"] > 5
    assert facts["rows"] == len(X)
    assert facts["noise"] == (EXPECTED < 0).sum()
    assert facts["core"] == len(DBSCAN(EPS).fit(X).core_sample_indices_)
    np.testing.assert_array_equal(model.cluster_sizes_, np.bincount(EXPECTED[EXPECTED >= 0]))
    assert model.n_features_in_ == 2


@pytest.mark.parametrize("form", ["npy", "parquet"])
def test_a_folder_has_a_file_for_each_block_that_has_rows(tmp_path, form):
    model = DBSCAN(EPS).fit_blocks(blocks(), labels=tmp_path / "labels", form=form, memory=MEMORY)
    assert not hasattr(model, "labels_")
    names = [f"part-0000{number}.{form}" for number in range(3)]
    assert sorted(os.listdir(tmp_path / "labels")) == names
    assert os.listdir(tmp_path) == ["labels"]
    if form == "npy":
        parts = [np.load(tmp_path / "labels" / name) for name in names]
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        tables = [parquet.read_table(tmp_path / "labels" / name) for name in names]
        parts = [each["label"].to_numpy() for each in tables]
        core = np.concatenate([each["core"].to_numpy() for each in tables])
        np.testing.assert_array_equal(np.flatnonzero(core), DBSCAN(EPS).fit(X).core_sample_indices_)
    assert [len(part) for part in parts] == [2500, 1, 5499]
    np.testing.assert_array_equal(np.concatenate(parts), EXPECTED)


def test_a_function_gets_the_labels_in_order():
    found = []
    model = DBSCAN(EPS).fit_blocks(blocks(), labels=found.append, memory=MEMORY)
    np.testing.assert_array_equal(np.concatenate(found), EXPECTED)
    assert not hasattr(model, "labels_")


def test_files_are_read_once(tmp_path):
    for number, part in enumerate(np.array_split(X, 3)):
        np.save(tmp_path / f"part-{number}.npy", part)
    model = DBSCAN(EPS).fit_blocks(knoll.blocks.open(str(tmp_path / "part-*.npy")), memory=MEMORY, scratch=tmp_path)
    np.testing.assert_array_equal(model.labels_, EXPECTED)
    calls = []

    def once():
        calls.append(1)
        return iter(np.array_split(X, 3))

    DBSCAN(EPS).fit_blocks(once, memory=MEMORY)
    assert calls == [1]


def test_a_fit_of_all_rows_forgets_the_one_in_blocks_and_the_other_way_round():
    model = DBSCAN(EPS).fit_blocks(blocks(), memory=MEMORY).fit(X)
    assert not hasattr(model, "regions_")
    np.testing.assert_array_equal(model.predict(X), EXPECTED)
    model.fit_blocks(blocks())
    for attribute in ("core_sample_indices_", "components_", "fit_weights_"):
        assert not hasattr(model, attribute)


def test_without_core_points_nothing_is_predicted_or_saved(tmp_path):
    model = DBSCAN(EPS).fit_blocks(blocks())
    for method in (model.predict, model.predict_kind):
        with pytest.raises(InvalidParameter, match=r"keeps no core points.*Fit a sample of the rows with fit\."):
            method(X)
    with pytest.raises(ModelFileError, match="nothing to save or to predict by"):
        knoll.save(model, tmp_path / "model.knoll")


def test_warnings_are_those_of_fit():
    for eps in (1e-6, 100.0):
        with pytest.warns(SuspiciousResultWarning) as expected:
            DBSCAN(eps).fit(X)
        with pytest.warns(SuspiciousResultWarning) as found:
            DBSCAN(eps).fit_blocks(blocks())
        assert [str(each.message) for each in found] == [str(each.message) for each in expected]


# ---- rows that cannot be cut ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_equal_rows_are_merged(weighted):
    equal = np.vstack([np.zeros((20_000, 2)), X[:50] + 100])
    weights = np.random.default_rng(0).choice([0.0, 0.1, 1.0], size=len(equal)) if weighted else None
    expected = DBSCAN(EPS).fit(equal, sample_weight=weights).labels_
    pairs = [equal] if weights is None else [(equal, weights)]
    model = DBSCAN(EPS).fit_blocks(lambda: iter(pairs), memory=MEMORY)
    np.testing.assert_array_equal(model.labels_, expected)


def test_an_eps_larger_than_the_extent_needs_all_rows_at_once():
    with pytest.warns(SuspiciousResultWarning, match="all 8000 points are in one cluster"):
        model = DBSCAN(100.0).fit_blocks(blocks(), memory="10MB")
    assert not model.labels_.any()
    message = (
        r"8000 rows within a few eps=100 of each other cannot be divided into regions. Together they take about "
        r"1\.02 MB, more than memory=150 kB. Raise memory, take a smaller eps, or fit a sample"
    )
    with pytest.raises(CostError, match=message):
        DBSCAN(100.0).fit_blocks(blocks(), memory=MEMORY)


def test_many_columns_are_refused_with_the_figure():
    wide = np.random.default_rng(0).normal(size=(8000, 12))
    with pytest.raises(CostError, match=r"cannot be divided|would hold each row"):
        DBSCAN(3.0).fit_blocks(lambda: iter([wide]), memory="400kB")
    expected = DBSCAN(3.0).fit(wide).labels_
    np.testing.assert_array_equal(DBSCAN(3.0).fit_blocks(lambda: iter([wide]), memory="10MB").labels_, expected)


def test_a_bad_sample_only_costs_another_cut(monkeypatch):
    """Cuts come from a sample; one that has seen the first rows alone makes regions that are too large."""
    ordered = X[np.argsort(X[:, 0])]
    whole, calls = regions.Sample.rows, []

    def first_rows(self):
        calls.append(1)
        return whole(self)[: 1000 if len(calls) == 1 else None]

    monkeypatch.setattr(regions.Sample, "rows", first_rows)
    model = DBSCAN(EPS).fit_blocks(lambda: iter([ordered]), memory="300kB")
    np.testing.assert_array_equal(model.labels_, DBSCAN(EPS).fit(ordered).labels_)
    assert len(calls) > 1


# ---- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "options", "error", "message"),
    [
        (DBSCAN(border="first"), {}, InvalidParameter, "fit_blocks has no border='first', which needs all rows"),
        (DBSCAN(noise="nearest"), {}, InvalidParameter, "fit_blocks has no noise='nearest'"),
        (DBSCAN(formulation="climbing"), {}, InvalidParameter, "fit_blocks has no formulation='climbing'"),
        (DBSCAN(metric="cosine"), {}, CostError, "which metric='cosine' does not allow. Take euclidean, manhattan"),
        (DBSCAN(metric="haversine"), {}, CostError, "which metric='haversine' does not allow"),
        (DBSCAN(metric="minkowski", p=3), {}, CostError, "which metric='minkowski' does not allow"),
        (DBSCAN(eps=-1.0), {}, InvalidParameter, "eps must be > 0"),
        (
            DBSCAN(),
            {"memory": "much"},
            InvalidParameter,
            "memory must be a number of bytes > 0 or a text such as '4GB'",
        ),
        (DBSCAN(), {"memory": 0}, InvalidParameter, "memory must be a number of bytes > 0"),
        (DBSCAN(), {"scratch": "/nowhere"}, InvalidParameter, "scratch: no file can be made in /nowhere"),
        (DBSCAN(), {"labels": __file__}, InvalidParameter, "already exists. Name a folder that is empty"),
        (DBSCAN(), {"labels": "/proc/labels"}, InvalidParameter, "labels: /proc/labels cannot be written"),
        (DBSCAN(), {"labels": "x", "form": "csv"}, InvalidParameter, "form must be 'npy' or 'parquet', got 'csv'"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_read(model, options, error, message):
    def never():
        raise AssertionError("it was read")
        yield

    before = dict(vars(model))
    with pytest.raises(error, match=message):
        model.fit_blocks(never, **options)
    assert vars(model) == before


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], "make_blocks\\(\\) gave no rows"),
        ([np.empty((0, 2))], "make_blocks\\(\\) gave no rows"),
        ([(X[:5], np.zeros(5))], "every sample_weight is zero"),
        ([X[:5], (X[:5], np.array([1, 1, -1.0, 1, 1]))], "sample_weight must be finite and >= 0, got -1.0 at row 7"),
        ([X, np.array([[0.0, 1], [1, np.nan]])], "a NaN at row 8001, column 1"),
        ([X[:7], X[:7, :1]], "X has 1 features, but DBSCAN is expecting 2"),
    ],
)
def test_bad_rows_are_named_by_their_number_in_the_table(parts, message, tmp_path):
    with pytest.raises((BadData, ValueError), match=message):
        DBSCAN(EPS).fit_blocks(lambda: iter(parts), labels=tmp_path / "labels", memory=MEMORY)
    assert not os.listdir(tmp_path)


def test_a_file_that_changes_while_it_is_read(tmp_path):
    np.save(tmp_path / "a.npy", X)
    rows = knoll.blocks.open(str(tmp_path / "a.npy"))
    np.save(tmp_path / "a.npy", X[:-1])
    with pytest.raises(BadData, match="has changed since it was opened"):
        DBSCAN(EPS).fit_blocks(rows)


# ---- faults --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError("the reader broke"), SystemExit(3)])
@pytest.mark.parametrize("where", ["read", "solve", "labels"])
def test_nothing_is_left_behind(tmp_path, monkeypatch, error, where):
    """Whatever ends the fit: the estimator is as before, no file is open, the folders are empty."""
    model = DBSCAN(EPS).fit(X[:2000])
    before = dict(vars(model))

    def broken():
        yield X[:5000]
        if where == "read":
            raise error
        yield X[5000:]

    if where == "solve":
        calls = []
        whole = knoll.density.region_fit.Rule.cluster

        def fails(self, points, weights):
            calls.append(1)
            if len(calls) == 3:
                raise error
            return whole(self, points, weights)

        monkeypatch.setattr(knoll.density.region_fit.Rule, "cluster", fails)
    if where == "labels":
        monkeypatch.setattr(knoll._common.label_folder.LabelFolder, "_append", lambda *_: (_ for _ in ()).throw(error))
    with pytest.raises(type(error) if isinstance(error, BaseException) else error):
        model.fit_blocks(broken, labels=tmp_path / "labels", memory=MEMORY, scratch=tmp_path)
    assert vars(model) == before
    assert not os.listdir(tmp_path)
    if sys.platform == "linux":
        assert not held("self", tmp_path)


def test_a_cancelled_fit_ends(tmp_path):
    token = CancelToken()

    def cancelled():
        yield X
        token.cancel()
        yield X

    with token, pytest.raises(Cancelled):
        DBSCAN(EPS).fit_blocks(cancelled, labels=tmp_path / "labels", scratch=tmp_path)
    assert not os.listdir(tmp_path)


def test_a_full_disk_is_one_sentence(tmp_path, monkeypatch):
    class Full:
        def __init__(self, file):
            self.file, self.left = file, 100_000

        def write(self, data):
            if self.left <= 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self.left -= len(data)
            return self.file.write(data)

        def __getattr__(self, name):
            return getattr(self.file, name)

    whole = tempfile.TemporaryFile
    monkeypatch.setattr(scratch.tempfile, "TemporaryFile", lambda **options: Full(whole(**options)))
    with pytest.raises(CostError, match=r"the scratch folder .* cannot take more than .*: No space left on device"):
        DBSCAN(EPS).fit_blocks(blocks(), memory=MEMORY, scratch=tmp_path)
    assert not os.listdir(tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="open files are looked up in /proc")
def test_a_killed_process_leaves_no_scratch(tmp_path):
    """SIGKILL in the middle: scratch files have no names."""
    program = """
        import sys, time
        import numpy as np
        from knoll import DBSCAN

        X = np.random.default_rng(0).normal(size=(50_000, 2))

        def slow():
            yield X
            print("reading", flush=True)
            time.sleep(60)

        DBSCAN(0.1).fit_blocks(slow, memory="1MB", scratch=sys.argv[1])
    """
    words = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"reading\n"
        assert held(process.pid, tmp_path)
        process.send_signal(signal.SIGKILL)
    assert not os.listdir(tmp_path)


# ---- memory --------------------------------------------------------------------------------------------------------

CHILD = """
    import sys
    import numpy as np
    from knoll import DBSCAN
    from knoll._system import peak_memory

    rows = 1_000_000

    def blocks():
        for number in range(50):
            random = np.random.default_rng(number)
            yield random.normal(size=(rows // 50, 2)) + 20 * random.integers(0, 30, size=(rows // 50, 2))

    DBSCAN(0.1).fit_blocks(lambda: [next(blocks())], labels=lambda labels: None)
    before = peak_memory()
    if sys.argv[1] == "blocks":
        model = DBSCAN(0.1).fit_blocks(blocks, labels=lambda labels: None, memory="16MB", scratch=sys.argv[2])
        print(model.cluster_sizes_.sum(), peak_memory() - before)
    else:
        model = DBSCAN(0.1).fit(np.concatenate(list(blocks())))
        print((model.labels_ >= 0).sum(), peak_memory() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a child is read from /proc")
def test_a_million_rows_take_the_memory_that_was_set(tmp_path):
    found = []
    for way in ("blocks", "whole"):
        words = [sys.executable, "-c", textwrap.dedent(CHILD), way, str(tmp_path)]
        out = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout
        found.append([int(word) for word in out.split()])
    (clustered, little), (expected, much) = found
    assert clustered == expected
    assert little < 24e6
    assert little < much / 3


# ---- the pieces ----------------------------------------------------------------------------------------------------


def test_rows_come_back_from_scratch(tmp_path):
    with Scratch(tmp_path) as file:
        store = RowStore(file, 3, np.float32)
        random = np.random.default_rng(0)
        points, weights = random.normal(size=(20, 3)).astype(np.float32), random.random(20)
        store.append(NumberedRows(np.arange(5, 10), points[:5], None))
        store.append(NumberedRows(np.array([11, 14, 15]), points[5:8], weights[5:8]))
        store.append(NumberedRows(np.arange(0), points[:0], None))
        store.append(NumberedRows(np.arange(20, 32), points[8:], weights[8:]))
        store.flush()
        assert store.rows == 20
        rows = store.whole()
        np.testing.assert_array_equal(rows.numbers, [*range(5, 10), 11, 14, 15, *range(20, 32)])
        np.testing.assert_array_equal(rows.points, points)
        np.testing.assert_array_equal(rows.weights, [1] * 5 + weights[5:].tolist())
        assert [len(chunk.numbers) for chunk in store.chunks(0)] == [5, 3, 12]
        assert [len(chunk.numbers) for chunk in store.chunks(6)] == [8, 12]
        assert next(store.chunks(0)).weights is None
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("value", [0.0, 1.0, -1e30, 3e38, 1e-40, 0.1])
@pytest.mark.parametrize("reach", [1e-320, 0.1, 1e10, np.inf])
def test_bounds_of_halos_are_rounded_outwards(dtype, value, reach):
    value = float(dtype(value))
    low, high = (bound(value, reach, np.dtype(dtype)) for bound in (regions._down, regions._up))
    assert low.dtype == high.dtype == dtype
    assert float(low) <= value - reach
    assert value + reach <= float(high)
    if np.isfinite(reach):
        near = np.finfo(dtype).eps * (abs(value) + reach) * 2 + np.finfo(dtype).smallest_subnormal * 2.0
        assert float(high) - (value + reach) <= near or np.isinf(high)


def test_a_box_knows_its_rows_and_those_that_two_regions_need():
    below, above = Box.everything(1).cut(0, 2.0)
    x = np.array([[0.0], [1.0], [1.5], [2.0], [2.5], [3.0], [9.0]])
    assert below.owns(x).tolist() == [True, True, True, False, False, False, False]
    assert (above.owns(x) == ~below.owns(x)).all()
    assert (
        below.shares(x, 1.0).tolist() == above.shares(x, 1.0).tolist() == [False, True, True, True, True, True, False]
    )
    assert not Box.everything(1).shares(x, 1.0).any()
    left, right = Box.everything(2).cut(0, 2.0)
    assert left.touches(right, 0.5)
    middle, far = right.cut(0, 9.0)
    assert not left.touches(far, 0.5)
    assert left.touches(far, 8.0)
    assert middle.touches(far, 0.5)


def test_cuts_prefer_gaps_and_leave_what_cannot_be_cut():
    random = np.random.default_rng(0)
    two = np.concatenate([random.normal(size=(500, 2)), random.normal(size=(500, 2)) + np.array([0.0, 50.0])])
    cut = regions.plan_cuts(two, Box.everything(2), 1000, 600, 0.5)
    assert cut.axis == 1
    assert 5 < cut.value < 45
    assert regions.copies(two, cut, 0.5) == 1000
    assert regions.plan_cuts(two, Box.everything(2), 1000, 600, 100.0) == Box.everything(2)
    assert regions.plan_cuts(np.ones((1000, 2)), Box.everything(2), 1000, 600, 0.5) == Box.everything(2)


def test_a_sample_is_spread_over_all_rows():
    sample = regions.Sample(1000)
    for begin in range(0, 100_000, 777):
        sample.add(np.arange(begin, min(begin + 777, 100_000))[:, None].astype(float))
    rows = sample.rows()[:, 0]
    assert 900 <= len(rows) <= 2000
    counts = np.histogram(rows, bins=10, range=(0, 100_000))[0]
    assert counts.min() > 0.8 * len(rows) / 10
