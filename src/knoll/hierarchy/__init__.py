"""Agglomerative clustering: Ward, average, complete and single linkage."""

from __future__ import annotations

from knoll.hierarchy.agglomerative import AgglomerativeClustering

__all__ = ["AgglomerativeClustering"]
