"""The loop and the blocks."""

from __future__ import annotations

import numpy as np
import pytest

from knoll._common.blocks import Block, regrid
from knoll._common.loop import StepReport, iterate


def halve(state):
    return state / 2, StepReport(objective=state, changed=state / 2)


def test_the_loop_stops_by_its_rule_or_its_limit():
    state, history = iterate(halve, 64.0, max_iter=100, stop=lambda reports: reports[-1].changed < 1)
    assert state == 0.5
    assert history["objective"].tolist() == [64, 32, 16, 8, 4, 2, 1]
    assert history["iteration"].tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert (history["seconds"] >= 0).all()
    state, history = iterate(halve, 64.0, max_iter=2, stop=lambda reports: False)
    assert state == 16
    state, history = iterate(halve, 64.0, max_iter=0, stop=lambda reports: False)
    assert state == 64
    assert all(len(column) == 0 for column in history.values())


def test_the_hook_sees_every_step():
    seen = []
    iterate(
        halve,
        8.0,
        max_iter=3,
        stop=lambda reports: False,
        hook=lambda i, report: seen.append((i, report.changed)),
    )
    assert seen == [(1, 4.0), (2, 2.0), (3, 1.0)]


@pytest.mark.parametrize("sizes", [[10], [1] * 10, [3, 7], [0, 4, 0, 6], [4, 4, 2], [9, 1], []])
def test_blocks_are_cut_along_the_grid(sizes):
    X, w = np.arange(20.0).reshape(10, 2), np.arange(10.0)
    cuts = np.cumsum(sizes)[:-1] if sizes else []
    blocks = [Block(x, v) for x, v in zip(np.split(X, cuts), np.split(w, cuts))] if sizes else []
    out = list(regrid(blocks, 4))
    if not sizes:
        assert out == []
        return
    assert all(len(block.points) % 4 == 0 for block in out[:-1])
    assert (np.concatenate([block.points for block in out]) == X).all()
    assert (np.concatenate([block.weights for block in out]) == w).all()


def test_blocks_without_weights_count_once_beside_blocks_with():
    blocks = [Block(np.zeros((3, 1)), None), Block(np.zeros((3, 1)), np.full(3, 5.0))]
    (joined,) = regrid(blocks, 100)
    assert joined.weights.tolist() == [1, 1, 1, 5, 5, 5]
