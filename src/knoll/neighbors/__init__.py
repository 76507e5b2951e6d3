"""Neighbours of rows: the index, the graphs made from it, and labels of the nearest row."""

from __future__ import annotations

from knoll.neighbors.gower import gower_distances
from knoll.neighbors.nearest_rows import NearestRows

__all__ = ["NearestRows", "gower_distances"]
