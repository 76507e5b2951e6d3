"""Several methods on one table: `compare` chooses their parameters, fits them, and recommends one answer."""

from __future__ import annotations

from knoll.comparison.engine import compare
from knoll.comparison.result import (
    Agreement,
    Candidate,
    Comparison,
    Event,
    Evidence,
    Failure,
    Null,
    Recommendation,
    Shortcut,
    Structure,
)

__all__ = [
    "Agreement",
    "Candidate",
    "Comparison",
    "Event",
    "Evidence",
    "Failure",
    "Null",
    "Recommendation",
    "Shortcut",
    "Structure",
    "compare",
]
