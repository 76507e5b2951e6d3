"""All six methods on one table, judged alike: `compare` chooses their parameters, fits them, and recommends one answer.

The module can be called: `knoll.compare(X)` is `knoll.compare.compare(X)`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from knoll.compare.engine import compare
from knoll.compare.result import (
    METHODS,
    Agreement,
    Candidate,
    Comparison,
    Event,
    Evidence,
    Failure,
    Null,
    Recommendation,
    Structure,
)

__all__ = [
    "METHODS",
    "Agreement",
    "Candidate",
    "Comparison",
    "Event",
    "Evidence",
    "Failure",
    "Null",
    "Recommendation",
    "Structure",
    "compare",
]


class _Callable(ModuleType):
    """Lets the module stand for its one function: importing it hides the name `knoll.compare` otherwise."""

    def __call__(self, *args: Any, **kwargs: Any) -> Comparison:
        return compare(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
