"""The scale of indicator columns, and the level that is filled in.

Under `knoll.models.Preparation` the indicators of a category are divided by √(1 − Σ pₗ²), where pₗ is the share of
level l: then the mean squared distance between two rows of the table, over one category, is 2, as it is over one
standardised number.
"""

from __future__ import annotations

import numpy as np

from knoll._typing import Floats

__all__ = ["block_deviation", "block_fill"]


def block_deviation(indicators: Floats) -> float:
    """Return what the indicators of a category are divided by, so that it counts as one standardised number.

    Examples
    --------
    >>> import numpy as np
    >>> from knoll.tables.mixed import block_deviation
    >>> round(block_deviation(np.eye(4)) ** 2, 12)
    0.75
    """
    shares = indicators.mean(axis=0)  # of counts below 2⁵³: the order of rows does not matter
    if indicators.shape[1] == 1:
        variance = float(shares[0] * (1 - shares[0]))
    else:
        variance = 1.0 - float(np.square(shares).sum())
    return variance**0.5 if variance > 0 else 1.0


def block_fill(indicators: Floats) -> Floats:
    """Return the indicators of the most frequent level, the first of equals; rows with NaN do not count."""
    known = indicators[np.isfinite(indicators[:, 0])]
    shares = known.mean(axis=0) if len(known) else np.zeros(indicators.shape[1])
    if len(shares) == 1:
        return np.array([float(shares[0] > 0.5)])
    return np.eye(len(shares))[int(shares.argmax())]
