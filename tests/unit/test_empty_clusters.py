"""Where clusters without points begin anew: the module's docstring, transcribed row by row, against what it does."""

import itertools

import numpy as np
import pytest
import scipy.sparse

from knoll import _core
from knoll._common.blocks import Block
from knoll._common.passes import LocalPasses, OneBlock
from knoll.kmeans.assignment import add_sums, assign, memory_for, round_moved, step
from knoll.kmeans.empty_clusters import relocate


def rounded(sums):
    out = np.empty(sums.shape[1])
    _core.exact_round(sums, out, 1)
    return out


class Chunks(LocalPasses):
    """These very blocks: small ones are not joined."""

    def __init__(self, blocks, threads):
        super().__init__(lambda: iter(blocks), np.float64, threads)

    def _blocks(self):
        return self._source()


def dense(points):
    return points.toarray() if scipy.sparse.issparse(points) else points


def transcribed(blocks, centers, empty):
    """The sums after the moves: points as a dictionary, one move after another, every row looked at each time."""
    k, d = centers.shape
    labels, d2 = [], []
    for block in blocks:
        n = block.points.shape[0]
        labels.append(np.empty(n, np.int32))
        d2.append(np.empty(n))
        assign(block.points, centers, labels[-1], d2[-1], 1)
    rows = [
        (b, i, tuple(dense(block.points)[i].tolist()))
        for b, block in enumerate(blocks)
        for i in range(block.points.shape[0])
        if block.weights is None or block.weights[i] > 0
    ]
    clusters = [{point for b, i, point in rows if labels[b][i] == c} for c in range(k)]
    far = {point: d2[b][i] for b, i, point in rows}
    moves = {}
    for cluster in np.flatnonzero(empty):
        of = {point: c for c in range(k) for point in clusters[c]}
        spare = [point for point in far if far[point] > 0 and point not in moves and len(clusters[of[point]]) > 1]
        if not spare:
            break
        point = min(spare, key=lambda point: (-far[point], point))
        clusters[of[point]].remove(point)
        moves[point] = cluster
    if not moves:
        return None
    sums = np.zeros((_core.SUM_WORDS, k * (d + 1)), dtype=np.int64)
    for b, i, point in rows:
        labels[b][i] = moves.get(point, labels[b][i])
    for block, now in zip(blocks, labels):
        add_sums(block, now, sums, 1)
    return rounded(sums)


def lattice(seed, n, d, values=3):
    return np.random.default_rng(seed).integers(-values, values + 1, (n, d)).astype(float)


DATA = {
    "normal": lambda seed: np.random.default_rng(seed).standard_normal((60, 2)),
    "copies": lambda seed: np.random.default_rng(seed).standard_normal((6, 2))[lattice(seed, 60, 1)[:, 0].astype(int)],
    "ties": lambda seed: lattice(seed, 60, 2),
    "signs of zero": lambda seed: lattice(seed, 60, 3, 1) * np.where(lattice(seed + 9, 60, 3) < 0, -1.0, 1.0),
    "a circle": lambda seed: np.vstack([np.eye(8), -np.eye(8)])[np.random.default_rng(seed).integers(0, 16, 60)],
    "one point": lambda seed: np.full((60, 2), 3.0),
}


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("form", ["dense", "columns", "float32", "sparse", "unsorted"])
def test_the_farthest_points_move(name, form):
    for seed in range(6):
        X = DATA[name](seed)
        rng = np.random.default_rng(seed)
        k = int(rng.integers(2, 12))
        centers = np.round(X[rng.integers(0, len(X), k)])
        centers[rng.random(k) < 0.6] = 1e3  # nobody's
        weights = rng.integers(0, 3, len(X)).astype(float) if seed % 2 else None
        if form == "columns":
            X = np.asfortranarray(X)
        elif form == "float32":
            X = X.astype(np.float32)
        elif form == "sparse":
            X = scipy.sparse.csr_array(X)
        elif form == "unsorted":
            X = scattered(X)
        cuts = [0, 7, 30, 31, X.shape[0]] if seed % 3 else [0, X.shape[0]]
        pieces = [slice(a, b) for a, b in itertools.pairwise(cuts)]
        blocks = [Block(X[piece], None if weights is None else weights[piece]) for piece in pieces]
        mass = np.zeros(k)
        for block in blocks:
            labels = np.empty(block.points.shape[0], np.int32)
            assign(block.points, centers, labels, None, 1)
            mass += np.bincount(labels, block.weights, minlength=k)
        expected = transcribed(blocks, centers, mass == 0)
        for threads in (1, 2):
            passes = Chunks(blocks, threads)
            moved = relocate(passes, centers, mass == 0)
            if expected is None:
                assert moved is None
            else:
                np.testing.assert_array_equal(moved.sums.round(), expected)
            if len(blocks) == 1:  # who remembers the labels gives the same, and changes nothing
                memory = memory_for(X, k, "hamerly")
                step(memory, Block(X, weights), centers, threads)
                labels, before = memory.labels.copy(), rounded(memory.sums)
                moved = relocate(OneBlock(blocks[0], threads), centers, mass == 0, memory)
                assert (moved is None) == (expected is None)
                if moved is not None:
                    table = np.empty((2, len(before)))
                    rows = moved.moves.rows, moved.moves.to
                    round_moved(memory, Block(X, weights), *rows, table[0], threads, table[1])
                    np.testing.assert_array_equal(table[0], expected)
                    assert (np.abs(table[1]) <= np.spacing(np.abs(expected)) / 2).all()
                np.testing.assert_array_equal(memory.labels, labels)
                np.testing.assert_array_equal(rounded(memory.sums), before)


def scattered(X):
    """The same matrix in compressed rows whose entries stand in no order, each split in two, zeros stored."""
    n, d = X.shape
    order = np.argsort(np.random.default_rng(n).random((n, 2 * d)), axis=1)
    half = np.hstack([X / 2, X / 2])
    indices = np.hstack([np.tile(np.arange(d), (n, 1))] * 2)
    along = [np.take_along_axis(values, order, axis=1).ravel() for values in (half, indices)]
    return scipy.sparse.csr_array(
        (along[0], along[1].astype(np.int32), np.arange(n + 1, dtype=np.int32) * 2 * d), (n, d)
    )


def test_many_empty_clusters_and_many_copies():
    points = lattice(3, 40, 2, 9)
    X = points[np.random.default_rng(4).integers(0, 40, 3000)]
    centers = np.vstack([points[:2] + 0.25, np.full((58, 2), 1e4)])
    block = Block(X, None)
    empty = np.r_[False, False, np.ones(58, bool)]
    moved = relocate(OneBlock(block), centers, empty)
    np.testing.assert_array_equal(moved.sums.round(), transcribed([block], centers, empty))
    masses = moved.sums.round().reshape(60, 3)[:, 0]
    assert np.count_nonzero(masses) == len(np.unique(X, axis=0))  # every point is alone


def test_the_core_reports_what_is_wrong():
    x, d2 = np.zeros((3, 2)), np.ones(3)
    rows, ends = np.empty(3, np.int64), np.empty(2, np.int64)
    for arguments in [(x, None, d2[:2], rows, ends), (x, d2[:2], d2, rows, ends), (x, None, d2, rows[:2], ends)]:
        with pytest.raises(ValueError, match="one entry per row"):
            _core.farthest_points(*arguments, 1)
    with pytest.raises(ValueError, match="ends must have at least one entry"):
        _core.farthest_points(x, None, d2, rows, ends[:0], 1)
