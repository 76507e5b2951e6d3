"""Which engine computes: this process, one that the user has made, or the workers of a client of dask."""

from __future__ import annotations

from typing import Any

from knoll._common.blocks import BlockSource
from knoll._common.passes import Engine, LocalPasses, Passes
from knoll.exceptions import InvalidType

__all__ = ["open_passes", "passes_by"]


def open_passes(make_blocks: Any, estimator: Any, threads: int, engine: Any = None) -> Passes:
    """Make passes over the blocks of a user, in this process unless an engine is set."""
    source = BlockSource(make_blocks, estimator)
    source.require_rows()
    return passes_by(engine, source, threads)


def passes_by(engine: Any, source: BlockSource, threads: int) -> Passes:
    """Make passes over checked blocks."""
    if engine is None:
        return LocalPasses(source, source.dtype, threads)
    found: Engine = _engine(engine)
    return found.passes(source, source.dtype, threads)


def _engine(engine: Any) -> Any:
    if hasattr(engine, "passes"):
        return engine
    if type(engine).__module__.partition(".")[0] == "distributed":
        from knoll.engines.dask import DaskEngine

        return DaskEngine(engine)
    raise InvalidType(
        f"engine must be a dask Client, or an object with a method passes(source, dtype, threads), got {engine!r:.60}."
    )
