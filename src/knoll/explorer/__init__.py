"""The explorer: an interactive page in which a person finds, questions and keeps clusters.

| module | what it does |
|---|---|
| session | `Session`: a table, the answers that were tried, the steps among them; no web in it |
| source, opening | the table as it was read and as methods take it |
| state, edits, rows | immutable states and steps; merge, split and move; which rows |
| hosts, widget | `explore`: a page in the browser, or a widget in a notebook |
| methods, fits | what may be set, and fits that are kept |
"""

from __future__ import annotations

from knoll.explorer.hosts import explore
from knoll.explorer.session import Session

__all__ = ["Session", "explore"]
