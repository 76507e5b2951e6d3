"""What is this cluster? `explain` compares each with the other rows, and finds rules, example rows and a name."""

from __future__ import annotations

from knoll.explanation.engine import explain
from knoll.explanation.profiles import ColumnProfile, LevelShare
from knoll.explanation.result import Cluster, ExampleRow, Explanation
from knoll.explanation.rules import Rule

__all__ = ["Cluster", "ColumnProfile", "ExampleRow", "Explanation", "LevelShare", "Rule", "explain"]
