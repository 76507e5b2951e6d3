"""A row explained: its values, its membership in the shown answer, and its true neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from knoll._typing import Floats, Ints
from knoll.base import collect_warnings
from knoll.exceptions import BadData
from knoll.explorer.state import Answer

if TYPE_CHECKING:
    from knoll.explorer.session import Session

__all__ = ["explain_row", "find_row"]

_NEAREST = 10
_FOUND = 20  # rows of one id
_MOST_PATH = 2_000  # steps of a climb that are sent
_CELLS = 200


def find_row(session: Session, id: str = "") -> list[int]:
    """Return the rows of an id; if there is none, the row of that number."""
    source = session.source
    if source.ids is not None and (rows := np.flatnonzero(source.ids.astype(str) == id)[:_FOUND]).size:
        return [int(row) for row in rows]
    number = int(id) if id.strip().isascii() and id.strip().isdecimal() and len(id) < 16 else -1
    return [number] if 0 <= number < len(source) else []


def explain_row(session: Session, row: int = -1) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a row is, why it is where it is, and which rows are nearest in all columns."""
    source = session.source
    if not 0 <= row < len(source):
        raise BadData(f"row must be from 0 to {len(source) - 1}, got {row}.")
    near, distances = session.fits.nearest(row, _NEAREST)
    arrays: dict[str, Any] = {"neighbors": near.astype(np.int32), "distances": distances}
    facts: dict[str, Any] = {
        "row": row,
        "id": source.id(row),
        "label": None,
        "cells": source.cells(row, _CELLS),
        "kind": None,
        "within": None,
        "clusters": [],
        "text": "",
    }
    answer = session.state.answer
    if answer is not None:
        facts |= {"label": int(answer.labels[row])}
        facts |= _membership(session, answer, row)
        with collect_warnings():
            if answer.method == "mean-shift" and not answer.by_hand and answer.origin == "fit":
                path = session.fits.model_of(answer).paths(source.points[row : row + 1])[0]
                arrays["path"] = np.asarray(path[:_MOST_PATH], dtype=np.float32)
                facts["text"] = f"It climbs to its mode in {len(path) - 1} steps."
    return facts, arrays


def _membership(session: Session, answer: Answer, row: int) -> dict[str, Any]:
    """Report where the row is among the clusters."""
    own = answer.origin == "fit" and not answer.by_hand
    if own and answer.method == "gaussian-mixture":
        shares = session.fits.model_of(answer).predict_proba(session.source.points[row : row + 1])[0]
        order = np.argsort(-shares, kind="stable")[:5]
        clusters = [{"label": int(at), "share": float(shares[at])} for at in order]
        return {"clusters": clusters, "text": f"Its share of component {order[0]} is {shares[order[0]]:.2f}."}
    clusters = _by_distance(*session.fits.means(answer.labels), session.source.points[row])
    if own and answer.method == "dbscan" and answer.parameters["metric"] == "euclidean":
        return {"clusters": clusters, **_density(session, answer, row)}
    if len(clusters) < 2:
        return {"clusters": clusters}
    first, second = clusters[:2]
    text = (
        f"The mean of cluster {first['label']} is nearest, at {first['distance']:.3g}; the next, of {second['label']}, "
    )
    return {"clusters": clusters, "text": text + f"at {second['distance']:.3g}."}


def _by_distance(labels: Ints, means: Floats, point: Floats) -> list[dict[str, Any]]:
    distances = np.sqrt(((means - point) ** 2).sum(axis=1))
    order = np.argsort(distances, kind="stable")[:5]
    return [{"label": int(labels[at]), "distance": float(distances[at])} for at in order]


def _density(session: Session, answer: Answer, row: int) -> dict[str, Any]:
    """Report whether a row is core, border or noise, and by how many rows."""
    eps, needed = float(answer.parameters["eps"]), int(answer.parameters["min_samples"])
    within = session.fits.within(row, eps)
    if within >= needed:
        return {"kind": "core", "within": within, "text": f"{within} rows lie within ε, itself included: core."}
    row_type = "border" if answer.labels[row] >= 0 else "noise"
    reason = "but a core row does" if row_type == "border" else "and no core row does"
    text = f"Only {within} of {needed} rows lie within ε, {reason}: {row_type}."
    return {"kind": row_type, "within": within, "text": text}
