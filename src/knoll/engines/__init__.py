"""Who computes a fit in blocks: this process, or the workers of a dask cluster. dask is imported when it is seen."""

from __future__ import annotations

from knoll._common.passes import Engine
from knoll.engines.checkpoint import Checkpoint
from knoll.engines.choice import open_passes
from knoll.engines.collections import fit_collection, lazily

__all__ = ["Checkpoint", "Engine", "fit_collection", "lazily", "open_passes"]
