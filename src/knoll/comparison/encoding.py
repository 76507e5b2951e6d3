"""A table with categories or missing values, as rows for methods that take numbers and for methods that take types.

The first are the numbers, scaled, and the scores of the categories (`knoll.tables.scores`), with means for missing
values. The second are the same numbers and the codes of the categories, with NaN for missing values. Answers are judged
on the first.
"""

from __future__ import annotations

import numpy as np

from knoll._format import listed, percent
from knoll._typing import Floats, Indices
from knoll.comparison.subsample import MixedRows
from knoll.models import Preparation
from knoll.tables.table import Table

__all__ = ["encoded_rows", "mixed_notes", "prepared", "with_gaps_marked"]

_LITTLE = 0.25  # of an equal share in the mean squared distance: a column with less has hardly any influence


def encoded_rows(table: Table, missing: str) -> Floats | None:
    """Return the encoded columns with NaN for missing values; None for a table of complete numbers."""
    if table.schema is None or table.mixed is None:
        return None
    if missing != "model":
        return table.X.astype(np.float64) if table.schema.categorical else None
    X = table.mixed.encode()
    gaps = ~np.isfinite(X)
    if not table.schema.categorical and not gaps.any():
        return None
    return np.where(gaps, np.nan, X)


def with_gaps_marked(encoded: Floats) -> Floats:
    """Return finite columns that determine the encoded ones, to sort rows by."""
    gaps = np.isnan(encoded)
    marked = np.where(gaps, 0.0, encoded)
    return np.hstack([marked, gaps[:, gaps.any(axis=0)]]) if gaps.any() else marked


def prepared(
    encoded: Floats, order: Indices, table: Table, scale: str, missing: str
) -> tuple[Preparation, Floats, MixedRows]:
    """Return the preparation, the rows that it makes, and the typed rows; `order` is that of the contents."""
    assert table.schema is not None
    made = Preparation.fit_scores(encoded[order], table.schema, scale=scale, missing=missing)
    typed = made.with_codes().apply(encoded)
    return made, made.apply(encoded), MixedRows(typed, made.n_numbers)


def mixed_notes(made: Preparation, encoded: Floats) -> tuple[str, ...]:
    """Report how much each column counts where there are categories."""
    assert made.schema is not None
    return (_influence(made, encoded),) if made.schema.categorical else ()


def _influence(made: Preparation, encoded: Floats) -> str:
    shares = sorted(made.influences(encoded).items(), key=lambda item: -item[1])
    least = _LITTLE / len(shares)
    much = [f"{name} {percent(share)}" for name, share in shares if share >= least]
    little = [name for name, share in shares if share < least]
    others = f"; hardly any (nearly independent of the others): {listed(little)}" if little else ""
    return f"Influence of the columns on distances: {listed(much)}{others}."
