"""The methods have two names each: a word without blanks for options, files and keys, and one that people use."""

from __future__ import annotations

import re

__all__ = ["NAMES", "named"]

NAMES = {
    "gaussian-mixture": "Gaussian mixture",
    "kmeans": "k-means",
    "kernel-kmeans": "kernel k-means",
    "spectral": "spectral clustering",
    "dbscan": "DBSCAN",
    "mean-shift": "Mean Shift",
}
_WORDS = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, NAMES))})(?![\w-])")


def named(text: str) -> str:
    """Call methods in a sentence by the names that people have for them.

    Examples
    --------
    >>> from knoll.comparison.names import named
    >>> named("Two groups, found by kmeans; dbscan agrees.")
    'Two groups, found by k-means; DBSCAN agrees.'
    """
    return _WORDS.sub(lambda found: NAMES[found[0]], text)
