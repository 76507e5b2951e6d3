"""Clusters by density: DBSCAN in three formulations, the density tree, HDBSCAN, OPTICS, and Mean Shift."""

from __future__ import annotations

from knoll.density.dbscan import DBSCAN
from knoll.density.hdbscan import HDBSCAN
from knoll.density.mean_shift import MeanShift
from knoll.density.optics import OPTICS
from knoll.density.tree import DensityTree

__all__ = ["DBSCAN", "DensityTree", "HDBSCAN", "MeanShift", "OPTICS"]  # noqa: RUF022 - in plain order
