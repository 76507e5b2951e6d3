"""A large CSV: the types of the first rows are tried for all, and the last row decides as the first one would."""

from __future__ import annotations

import numpy as np
import pytest

from knoll.tables import Rules, open_table

ROWS = 9000  # beyond the first 64 kB
CELLS = {  # of all rows, and of one more
    "whole numbers, then a fraction": (lambda i: str(i % 50), "2.5"),
    "numbers, then text": (lambda i: f"{i % 50}.25", "many"),
    "dates, then another format": (lambda i: f"2024-01-{i % 28 + 1:02}", "3.2.2024"),
    "dates, then a time": (lambda i: f"2024-01-{i % 28 + 1:02}", "2024-02-01T12:00:00"),
    "truth, then another word": (lambda i: ("true", "false")[i % 2], "maybe"),
    "text, then a number": (lambda i: f"t{i % 9}", "7"),
    "text, then a missing value": (lambda i: f"t{i % 9}", "n/a"),
    "numbers, then nothing": (lambda i: str(i % 50), ""),
    "money": (lambda i: f"€{i % 50}", "$7"),
}


def read(path, rows):
    path.write_text("\n".join(["x,y", *rows]) + "\n")
    with open_table(path) as source:
        return source.read_typed(None, None, None, Rules())


@pytest.mark.parametrize("case", CELLS)
def test_the_last_row_counts_as_much_as_the_first(case, tmp_path):
    cell, other = CELLS[case]
    usual = [f"{cell(i)},{i}.5" for i in range(ROWS)]
    assert len("\n".join(usual)) > 1 << 16
    last, first = (
        read(tmp_path / "a.csv", [*usual, f"{other},0.25"]),
        read(tmp_path / "b.csv", [f"{other},0.25", *usual]),
    )
    for a, b in zip(last.schema.columns, first.schema.columns, strict=True):
        assert (a.type, a.categories, a.sentinels, a.format) == (b.type, b.categories, b.sentinels, b.format)
    order = np.r_[ROWS, :ROWS]
    np.testing.assert_array_equal(last.X[order], first.X)
    np.testing.assert_array_equal(last.mixed.codes[order], first.mixed.codes)
