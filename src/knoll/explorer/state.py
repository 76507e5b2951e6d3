"""What is on screen, as immutable values: an answer with its clusters, a selection, a filter; and the steps to it.

A step never changes: undo, redo and going back move a position along the steps. Labels keep their numbers through every
edit (a merged cluster has the smallest, a new one the next free number), so that colours stay with their clusters.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from knoll._typing import Bools, Ints

__all__ = ["Answer", "Filter", "History", "Note", "Selection", "State", "Step", "answer_id"]


@dataclass(frozen=True)
class Note:
    """What the user has noted about a cluster."""

    name: str = ""
    by_hand: str = ""  # how the cluster was made, where no method made it


@dataclass(frozen=True, eq=False)
class Answer:
    """A clustering: of a method, or of a person who has edited one."""

    id: str
    method: str
    title: str
    parameters: Mapping[str, Any]
    labels: Ints  # (n,) −1 noise
    origin: str = "fit"  # "fit", "recommended", "given" or "by hand"
    how: str = "all rows"
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()
    python: str = ""  # the plain estimator's line with these labels
    model: Any = None
    stability: float | None = None
    notes: Mapping[int, Note] = field(default_factory=dict)

    @property
    def by_hand(self) -> bool:
        """Whether a cluster was made by hand."""
        return any(note.by_hand for note in self.notes.values())

    def sizes(self) -> dict[int, int]:
        """Return the rows of each cluster that has any."""
        counts = np.bincount(self.labels[self.labels >= 0])
        return {int(label): int(counts[label]) for label in np.flatnonzero(counts)}

    def noted(self, labels: Ints, notes: Mapping[int, Note]) -> Answer:
        """Return the answer as a person has edited it; notes of clusters that are gone go with them."""
        there = set(np.unique(labels[labels >= 0]).tolist())
        kept = {label: note for label, note in sorted(notes.items()) if label in there and note != Note()}
        return replace(self, labels=labels if labels is self.labels else frozen(labels), notes=kept)

    def plain(self) -> dict[str, Any]:
        """Return the answer as the page sees it, without labels."""
        sizes = self.sizes()
        clusters = [
            {"label": label, "size": size, **vars(self.notes.get(label, Note()))} for label, size in sizes.items()
        ]
        return {
            **self.brief(),
            "how": self.how,
            "by_hand": self.by_hand,
            "seconds": self.seconds,
            "noise": 1 - sum(sizes.values()) / max(1, len(self.labels)),
            "warnings": list(self.warnings),
            "stability": self.stability,
            "python": self.python,
            "clusters": clusters,
        }

    def brief(self) -> dict[str, Any]:
        """Return what a list of answers shows."""
        return {
            "id": self.id,
            "method": self.method,
            "title": self.title,
            "parameters": dict(self.parameters),
            "n_clusters": len(self.sizes()),
            "origin": self.origin,
        }

    def digest(self) -> str:
        """Return a digest of the labels, and of what the user has noted about them."""
        notes = {label: vars(note) for label, note in self.notes.items()}
        return _digest([self.method, dict(self.parameters), notes], self.labels)


@dataclass(frozen=True, eq=False)
class Selection:
    """Some rows, and where they come from."""

    mask: Bools  # (n,)
    origin: str = ""

    @property
    def size(self) -> int:
        """How many rows there are."""
        return int(self.mask.sum())


@dataclass(frozen=True)
class Filter:
    """Which rows are shown; the fit is that of all rows."""

    where: tuple[Mapping[str, Any], ...] = ()
    hide: tuple[int, ...] = ()
    noise: bool = True

    def plain(self) -> dict[str, Any]:
        """Return the filter as the page sees it."""
        return {"where": [dict(one) for one in self.where], "hide": list(self.hide), "noise": self.noise}


@dataclass(frozen=True, eq=False)
class State:
    """What is on screen."""

    answer: Answer | None = None
    selection: Selection | None = None
    filter: Filter = Filter()

    @cached_property
    def marked(self) -> tuple[int, ...]:
        """The clusters that the selection is made of, noise as −1; none if it divides one."""
        if self.answer is None or self.selection is None:
            return ()
        labels = self.answer.labels + 1
        counts, chosen = np.bincount(labels), np.bincount(labels[self.selection.mask])
        found = np.flatnonzero(chosen)
        whole = bool((counts[found] == chosen[found]).all())
        return tuple((found - 1).tolist()) if whole else ()

    def digest(self) -> str:
        """Return a digest: equal states have equal ones, whatever path led to them."""
        answer = None if self.answer is None else self.answer.digest()
        origin = None if self.selection is None else self.selection.origin
        mask = np.zeros(0, bool) if self.selection is None else self.selection.mask
        return _digest([answer, origin, self.filter.plain()], mask)


@dataclass(frozen=True, eq=False)
class Step:
    """One action and the state after it."""

    do: str
    text: str  # what was done, for people
    python: str  # the line that does it again
    state: State
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class History:
    """The steps, the first of which is the beginning, and the position among them."""

    steps: tuple[Step, ...]
    position: int = 0

    @property
    def state(self) -> State:
        """The state at the position."""
        return self.steps[self.position].state

    def after(self, step: Step) -> History:
        """Return the history with one more step at the position; what was undone is gone."""
        return History((*self.steps[: self.position + 1], step), self.position + 1)

    def at(self, position: int) -> History:
        """Return the history at another position, as far as there is one."""
        return replace(self, position=min(max(0, position), len(self.steps) - 1))


def frozen(labels: Ints) -> Ints:
    """Return labels as int64 that nobody can change."""
    out = np.array(labels, dtype=np.int64)
    out.setflags(write=False)
    return out


def answer_id(method: str, parameters: Mapping[str, Any], labels: Ints) -> str:
    """Name an answer by what it is, so that a replayed session has the same names."""
    return f"{method}-{_digest([method, dict(parameters)], labels)[:8]}"


def _digest(facts: Any, array: Any) -> str:
    found = hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode())
    found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()
