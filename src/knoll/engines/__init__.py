"""Who computes a fit in blocks: this process, or an engine. `choice` says which there are; each is imported when used.

An engine is any object with a method `passes(source, dtype, threads)`, or a client of one that `choice` knows.
"""

from __future__ import annotations

from knoll._common.passes import Engine
from knoll.engines.checkpoint import Checkpoint
from knoll.engines.choice import open_passes
from knoll.engines.collections import fit_collection, lazily

__all__ = ["Checkpoint", "Engine", "fit_collection", "lazily", "open_passes"]
