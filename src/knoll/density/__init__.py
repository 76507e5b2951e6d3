"""Clusters by density: DBSCAN in three formulations, and Mean Shift."""

from __future__ import annotations

from knoll.density.dbscan import DBSCAN
from knoll.density.mean_shift import MeanShift

__all__ = ["DBSCAN", "MeanShift"]
