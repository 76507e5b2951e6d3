"""The same bits whoever computes: every estimator that has `fit_blocks`, under an engine that does its worst."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest

import knoll
from knoll import KMeans
from knoll._common.blocks import Block
from knoll._common.passes import Build, LocalPasses, OneBlock, Run, seams
from knoll.exceptions import BadData, EngineError, InvalidParameter
from knoll.gaussian import steps
from knoll.kmeans import lloyd
from knoll.kmeans.assignment import memory_size
from knoll.mixture import em
from tests.laws.hostile import HostileEngine, sent

COUNTERS = {"n_distances_", "n_rechecks_"}  # what a run takes, not what it finds
COLUMNS = ("iteration", "objective", "changed")  # of the history: the others are times and counters

MODELS = {
    "Gaussian": [{}],
    "GaussianMixture": [
        {"n_components": 3, "random_state": 1, "max_iter": 8},
        {"n_components": 2, "covariance_type": "tied", "init_params": "random", "noise": True, "random_state": 2},
        {"n_components": 3, "covariance_type": "diag", "init_params": "k-means++", "random_state": 5, "max_iter": 5},
    ],
    "KMeans": [
        {"n_clusters": 5, "random_state": 3, "tol": 0.0, "max_iter": 20},
        {"n_clusters": 40, "init": "random", "n_init": 2, "random_state": 4, "max_iter": 6},
    ],
}


def test_every_estimator_with_blocks_is_here():
    classes = (getattr(knoll, name) for name in knoll.__all__)
    found = {each.__name__ for each in classes if inspect.isclass(each) and hasattr(each, "fit_blocks")}
    regions = {"DBSCAN"}  # reads its rows once and takes no engine: tests/laws/test_dbscan_regions_laws.py
    assert found == set(MODELS) | regions


def rows_of(dataset, n, dtype):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 3)) + 6 * rng.integers(0, 4, size=(n, 1))
    if dataset == "copies":
        X = np.round(X)
    elif dataset == "far":
        X[0] = 1e7
    elif dataset == "huge" and dtype == np.float64:
        X *= 1e130
    return X.astype(dtype)


def weights_of(dataset, n):
    rng = np.random.default_rng(5)
    if dataset == "plain":
        return None
    absent = rng.random(n) < 0.3
    return np.where(absent, 0.0, rng.uniform(0.1, 3, n) if dataset == "weighted" else rng.integers(1, 5, n))


def fitted(name, parameters, X, w, **options):
    model = getattr(knoll, name)(**parameters)
    blocks = [X] if w is None else [(X, w)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit_blocks(lambda: blocks, **options)


def facts(model):
    """Every fitted attribute, byte by byte."""
    found = {name: value for name, value in vars(model).items() if name.endswith("_") and name not in COUNTERS}
    history = found.pop("history_")
    found.pop("labels_", None)
    found |= {f"history_[{column}]": history[column] for column in COLUMNS}
    return {
        name: (str(value.dtype), value.shape, value.tobytes()) if isinstance(value, np.ndarray) else repr(value)
        for name, value in found.items()
    }


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("weights", ["plain", "weighted", "whole"])
@pytest.mark.parametrize(("name", "parameters"), [(name, each) for name, several in MODELS.items() for each in several])
def test_the_engine_changes_no_bit(name, parameters, weights, dtype):
    """Any cuts, orders, repetitions, losses and threads: the bits of one array."""
    for seed, (dataset, n, partitions) in enumerate([("copies", 9_000, 9), ("huge", 700, 4), ("far", 4_097, 3)]):
        X, w = rows_of(dataset, n, dtype), weights_of(weights, n)
        alone = fitted(name, parameters, X, w)
        assert facts(fitted(name, parameters, X, w, engine=HostileEngine(seed, partitions))) == facts(alone)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            whole = getattr(knoll, name)(**parameters)
            whole.fit(X) if w is None else whole.fit(X, sample_weight=w)
        assert facts(whole) == facts(alone)


def test_many_rows_start_alike_everywhere():
    """More distinct rows than a sample holds, some of much weight."""
    X = np.vstack([rows_of("plain", 70_000, np.float64), np.tile([[40.0, 0.0, 0.0]], (900, 1))])
    alone = fitted("KMeans", {"n_clusters": 6, "random_state": 0, "max_iter": 3}, X, None)
    for seed in range(2):
        order = np.random.default_rng(seed).permutation(len(X))
        there = fitted(
            "KMeans", {"n_clusters": 6, "random_state": 0, "max_iter": 3}, X[order], None, engine=HostileEngine(seed)
        )
        assert facts(there) == facts(alone)


def test_empty_clusters_move_alike_everywhere():
    X = np.round(rows_of("plain", 9_000, np.float64))
    start = np.vstack([X[:3], np.full((6, 3), 1e4)])
    parameters = {"n_clusters": 9, "init": start, "n_init": 1, "max_iter": 7}
    alone = fitted("KMeans", parameters, X, None)
    assert (alone.cluster_weights_ > 0).all()
    for seed in range(3):
        assert facts(fitted("KMeans", parameters, X, None, engine=HostileEngine(seed))) == facts(alone)


def test_a_nan_is_named_by_its_number_among_all_rows():
    X = rows_of("plain", 9_000, np.float64)
    X[7_654, 1] = np.nan
    for name, several in MODELS.items():
        for engine in (None, HostileEngine(0)):
            with pytest.raises(BadData, match="a NaN at row 7654, column 1"):
                fitted(name, several[0], X, None, engine=engine)


# ---- statistics on the wire ----------------------------------------------------------------------------------------


def test_what_is_sent_is_a_few_words_a_sum():
    """560 bytes a sum in memory, at most eight times a float on the wire."""
    X = rows_of("plain", 9_000, np.float64)
    k, d = 64, X.shape[1]
    kmeans = lloyd.partial(Block(X, None), lloyd.start(X[:k]), 1)
    gaussian = steps.partial(Block(X, None), steps.start(Block(X, None)), 1)
    centering = em.Centering.plain(d)
    state = em.blank(em.Full(), 8, centering)
    mixture = em.partial(Block(X, None), state, 1)
    for stats, sums in ((kmeans, k * (d + 1)), (gaussian, 1 + d + d * (d + 1) // 2), (mixture, len(mixture.sums))):
        size = len(pickle.dumps(stats))
        assert size <= 8 * 8 * sums + 1500, type(stats).__name__
        assert (sent(stats).sums.round() == stats.sums.round()).all()


def test_memory_that_was_never_written_stays_here():
    """A workspace is not initialised. Whatever is in it, the same bytes are sent."""
    X = rows_of("plain", 500, np.float64)
    state = em.blank(em.Full(), 2, em.Centering.plain(3))
    clean = em.partial(Block(X, None), state, 1)
    dirty = em.partial(Block(X, None), state, 1)
    first, last = dirty.sums.used
    dirty.sums.words[:first] = dirty.sums.words[last:] = 0x5EC2E7
    assert pickle.dumps(dirty) == pickle.dumps(clean)
    assert b"\xe7\xc2\x5e" not in pickle.dumps(dirty)
    twice = [stats.merge(clean).sums.round().tolist() for stats in (dirty, clean)]
    assert twice[0] == twice[1]


# ---- seams ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_blocks_begin_at_multiples_of_the_grain(seed):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 12, rng.integers(1, 9)).tolist()
    starts = np.concatenate([[0], np.cumsum(lengths)])
    grain = int(rng.integers(1, 7))
    blocks = seams(lengths, grain)
    rows = [[starts[number] + i for number, piece in block for i in range(piece.start, piece.stop)] for block in blocks]
    assert [row for block in rows for row in block] == list(range(sum(lengths)))
    assert all(block and block[0] % grain == 0 for block in rows)


def test_a_reader_may_fill_one_array_again_and_again():
    X = rows_of("plain", 3_000, np.float64)

    def reader():
        buffer = np.empty((100, 3))
        for begin in range(0, len(X), 100):
            buffer[:] = X[begin : begin + 100]
            yield buffer

    assert KMeans(4, random_state=0).fit_blocks(reader).inertia_ == KMeans(4, random_state=0).fit(X).inertia_


def count_rows(block, _, run):
    return len(block.points)


def test_small_blocks_are_joined():
    rows = [Block(np.zeros((50, 2)), None)] * 100
    local = LocalPasses(lambda: iter(rows), np.dtype(float), 1)
    assert list(local.map(count_rows, None)) == [5000]
    assert (local.rows, local.columns, len(local.first().points)) == (5000, 2, 5000)
    whole = OneBlock(rows[0])
    assert (whole.rows, whole.columns, whole.dtype, list(whole.map(count_rows, None))) == (50, 2, np.float64, [50])
    empty = local.prepared(lambda block: block.rows(0, 0))
    with pytest.raises(BadData, match="no row that counts"):
        empty.first()


def test_memories_have_a_limit(monkeypatch):
    """Blocks without a memory give the same sums; those with one evaluate fewer distances."""
    monkeypatch.setattr("knoll._common.passes._ROWS_AT_ONCE", 0)
    X = rows_of("plain", 20_000, np.float64)
    state, evaluated = lloyd.start(X[:20]), []
    for memory in (0, memory_size(8192, 3, 20), 1 << 30):
        local = LocalPasses(lambda: (Block(chunk, None) for chunk in np.array_split(X, 2)), X.dtype, 1, memory=memory)
        found = [local.total(lloyd._partial, state) for _ in range(3)]
        assert all((each.sums.round() == found[0].sums.round()).all() for each in found)
        evaluated.append(found[-1].distances)
    assert evaluated[0] > evaluated[1] > evaluated[2]


# ---- one instruction set -------------------------------------------------------------------------------------------


def test_another_version_or_instruction_set_is_refused():
    here = Build.here()
    here.require()
    with pytest.raises(EngineError, match=r"worker 7 has knoll .*, and the client 0\.0\.0\. Install the same version"):
        Build("0.0.0", here.instruction_set).require("worker 7")
    with pytest.raises(EngineError, match=r"a worker computes with the instruction set .*, and the client with sse9"):
        Build(here.version, "sse9").require()


def test_a_process_with_another_instruction_set_refuses_to_compute():
    if Build.here().instruction_set == "baseline":
        pytest.skip("this machine has one instruction set")
    check = f"import pickle; pickle.loads({pickle.dumps(Build.here())!r}).require()"
    environment = {"KNOLL_ISA": "baseline", "PATH": ""}
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, env=environment, check=False)
    assert "Set KNOLL_ISA=baseline for all processes." in done.stderr


def test_a_run_is_one_thread_by_default():
    assert Run().threads == 1


# ---- the same start in memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", ["plain", "weighted"])
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("KMeans", {"n_clusters": 6, "random_state": 0, "max_iter": 3}),
        ("KMeans", {"n_clusters": 6, "init": "random", "n_init": 2, "random_state": 0, "max_iter": 3}),
        ("GaussianMixture", {"n_components": 3, "random_state": 0, "max_iter": 3}),
        ("GaussianMixture", {"n_components": 3, "init_params": "random_from_data", "random_state": 0, "max_iter": 3}),
    ],
)
def test_init_size_gives_the_same_start_in_memory_and_in_blocks(name, parameters, weights):
    """Fewer rows than there are: `fit` and `fit_blocks` draw the same ones, in any order of the rows."""
    for dataset in ("plain", "copies", "huge"):
        X, w = rows_of(dataset, 9_000, np.float64), weights_of(weights, 9_000)
        parameters = {**parameters, "init_size": 700}
        blocks = fitted(name, parameters, X, w, engine=HostileEngine(1))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            whole = getattr(knoll, name)(**parameters).fit(X, sample_weight=w)
            other = getattr(knoll, name)(**{**parameters, "init_size": None}).fit(X, sample_weight=w)
        assert facts(whole) == facts(blocks)
        if dataset == "plain":
            assert facts(whole) != facts(other)


def test_init_size_is_checked():
    with pytest.raises(InvalidParameter, match=r"init_size=3 is less than n_clusters=5\. Take a multiple of it"):
        KMeans(5, init_size=3).fit(np.eye(9))
    with pytest.raises(InvalidParameter, match="init_size must be"):
        knoll.GaussianMixture(2, init_size=0).fit(np.eye(9))
