"""Merge, split, move: labels and notes in, labels and notes out. Clusters made by hand are marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from knoll._typing import Bools, Ints
from knoll.exceptions import BadData
from knoll.explorer.state import Note

__all__ = ["check_clusters", "divide", "merge", "move", "next_label"]

Edited = tuple[Ints, dict[int, Note]]


def check_clusters(labels: Ints, clusters: Sequence[int], least: int = 1) -> list[int]:
    """Return the clusters, each once and in order; all must have rows."""
    chosen = sorted({int(one) for one in clusters})
    there = set(np.unique(labels).tolist())
    for one in chosen:
        if one not in there or one < 0:
            raise BadData(f"there is no cluster {one}.")
    if len(chosen) < least:
        raise BadData(f"at least {least} different clusters are needed, got {len(chosen)}.")
    return chosen


def next_label(labels: Ints) -> int:
    """Return the number of a new cluster."""
    return int(labels.max(initial=-1)) + 1


def merge(labels: Ints, notes: Mapping[int, Note], clusters: Sequence[int], name: str | None) -> Edited:
    """Join clusters under the smallest of their numbers; its name stays if no other is given."""
    chosen = check_clusters(labels, clusters, 2)
    first = chosen[0]
    text = f"merged from {', '.join(map(str, chosen[:-1]))} and {chosen[-1]}"
    kept = notes.get(first, Note()).name if name is None else name
    return np.where(np.isin(labels, chosen), first, labels), {**notes, first: Note(kept, text)}


def move(labels: Ints, notes: Mapping[int, Note], rows: Bools, to: int, origin: str) -> Edited:
    """Give rows to a cluster, to the noise (−1), or to a new cluster, the next number."""
    if not rows.any():
        raise BadData("no row is selected, so nothing can be moved.")
    new = next_label(labels)
    if to != -1 and to != new:
        check_clusters(labels, [to])
    out = np.where(rows, to, labels)
    if to == -1:
        return out, dict(notes)
    note = notes.get(to, Note())
    text = origin or "selected rows"
    return out, {**notes, to: Note(note.name, text if to == new else f"with moved rows: {text}")}


def divide(labels: Ints, notes: Mapping[int, Note], rows: Bools, subclusters: Ints, origin: str) -> Edited:
    """Give new clusters to some rows by the labels of these rows alone; their noise is noise.

    Where the rows are the whole of one cluster, its number goes to the first subcluster.
    """
    whole = np.unique(labels[rows])
    alone = len(whole) == 1 and whole[0] >= 0 and not (labels[~rows] == whole[0]).any()
    found, at = np.unique(subclusters, return_inverse=True)
    new, out, added = next_label(labels), labels.copy(), dict(notes)
    numbers = []
    for label in found:
        if label < 0:
            numbers.append(-1)
        elif alone and int(whole[0]) not in numbers:
            numbers.append(int(whole[0]))
        else:
            numbers.append(new)
            new += 1
    out[rows] = np.array(numbers, dtype=np.int64)[at]
    for number in numbers:
        if number >= 0:
            added[number] = Note("", origin)
    return out, added
