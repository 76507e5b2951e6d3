"""Clusters by density: DBSCAN in three formulations, OPTICS, and Mean Shift."""

from __future__ import annotations

from knoll.density.dbscan import DBSCAN
from knoll.density.mean_shift import MeanShift
from knoll.density.optics import OPTICS

__all__ = ["DBSCAN", "MeanShift", "OPTICS"]  # noqa: RUF022 - in the order of sorted()
