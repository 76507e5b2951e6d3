"""The clusters of a table as numbered groups with weights; noise is a group of its own, the last one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knoll._typing import Bools, Floats, Ints

__all__ = ["Groups", "of_others"]


@dataclass(frozen=True)
class Groups:
    """Which group each row belongs to.

    Attributes
    ----------
    labels : ndarray of shape (g,)
        The label of each group, ascending, −1 (noise) last.
    at : ndarray of shape (n,)
        The group of each row.
    weights : ndarray of shape (n,)
        Positive weights: a weight of w counts as w rows.
    """

    labels: Ints
    at: Ints
    weights: Floats

    @classmethod
    def of(cls, labels: Ints, weights: Floats) -> Groups:
        """Number the groups; every negative label is noise."""
        plain = np.where(labels < 0, -1, labels)
        found, at = np.unique(plain, return_inverse=True)
        if found[0] < 0:
            found, at = np.r_[found[1:], -1], np.where(at == 0, len(found) - 1, at - 1)
        return cls(found.astype(np.int64), at.astype(np.int64), weights)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def sizes(self) -> Floats:
        """(g,) the weight of each group."""
        return self.counts(np.zeros(len(self.at), dtype=np.int64), 1)[:, 0]

    def counts(self, codes: Ints, n_codes: int, keep: Bools | None = None) -> Floats:
        """Return the weight of each code in each group; rows that are not kept do not count.

        Returns
        -------
        ndarray of shape (g, n_codes)
        """
        at, weights = (self.at, self.weights) if keep is None else (self.at[keep], self.weights[keep])
        codes = codes if keep is None else codes[keep]
        flat = np.bincount(at * n_codes + codes, weights=weights, minlength=len(self) * n_codes)
        return flat.reshape(len(self), n_codes).astype(np.float64, copy=False)


def of_others(counts: Floats) -> Floats:
    """Return for each group the counts of all others, (g, m): sums, since differences of unlike weights cancel."""
    before, after = np.zeros_like(counts), np.zeros_like(counts)
    before[1:] = np.cumsum(counts[:-1], axis=0)
    after[:-1] = np.cumsum(counts[:0:-1], axis=0)[::-1]
    return before + after
