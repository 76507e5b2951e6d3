"""Random tables of all column types, with names and levels that a careless quotation would trip over."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa

NASTY = ['it\'s "x"', "a\\b", "'; DROP TABLE rows; --", "line\nbreak", "ünï`code"]


def random_table(seed: int, n: int = 300) -> tuple[pa.Table, np.ndarray]:
    """Return a table with missing values in every column, and labels that depend on its columns, with noise."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(-1, 4, n)
    shift = labels.astype(float)
    number = np.round(rng.normal(size=n) + 2 * shift, 2)
    count = rng.poisson(4 + 3 * np.maximum(shift, 0))
    days = (18_000 + 200 * shift + 60 * rng.normal(size=n)).astype(int)
    dates = [datetime.date(1970, 1, 1) + datetime.timedelta(days=int(day)) for day in days]
    moments = [datetime.datetime(2026, 3, 1) + datetime.timedelta(seconds=int(9000 * (s + u)))
               for s, u in zip(shift, rng.random(n))]  # fmt: skip
    times = [datetime.time(int(h), int(m)) for h, m in zip(4 * np.maximum(shift, 0) + 3, rng.integers(0, 60, n))]
    level = [NASTY[c] for c in np.where(rng.random(n) < 0.7, np.maximum(labels, 0), rng.integers(0, 5, n))]
    code = np.where(rng.random(n) < 0.8, labels + 2, 7)
    flag = rng.random(n) < np.array([0.1, 0.9, 0.2, 0.8, 0.5])[labels + 1]
    word = np.where(flag, "Yes", "no").tolist()
    columns = {
        "num'ber": number.tolist(), "count": count.tolist(), 'da"te': dates, "moment": moments, "time": times,
        "le\\vel": level, "region_code": code.tolist(), "flag": flag.tolist(), "word": word,
    }  # fmt: skip
    for values in columns.values():
        for row in np.flatnonzero(rng.random(n) < 0.08):
            values[row] = None
    return pa.table(columns), labels
