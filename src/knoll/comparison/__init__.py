"""Several methods on one table: `compare` chooses their parameters, fits them, and recommends one answer."""

from __future__ import annotations

from knoll.comparison.engine import compare
from knoll.comparison.result import (
    Agreement,
    Alternative,
    Candidate,
    Comparison,
    Event,
    Evidence,
    Failure,
    Recommendation,
    Shortcut,
)

__all__ = [
    "Agreement",
    "Alternative",
    "Candidate",
    "Comparison",
    "Event",
    "Evidence",
    "Failure",
    "Recommendation",
    "Shortcut",
    "compare",
]
