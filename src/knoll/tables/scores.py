"""Categories as scores: coordinates of what a category has in common with the other columns.

Indicator columns of a category put a row on one of a few points. Distances between them would decide a clustering
alone, and the clusters would be the combinations of levels. A category that is independent of all other columns has no
information about groups in the table; one that depends on them shares components with them.

So the table is standardised as in factor analysis of mixed data (Pagès 2004): numbers to variance 1, the indicator of a
level with share p divided by √p, so that a category of L levels has variance 1 in each of L − 1 directions. Of
independent columns all eigenvalues of the covariance matrix are 1 but for sampling, which moves them to (1 + √(D/n))²
at most (Marchenko and Pastur 1967). The components beyond that limit are kept, and a category is replaced by its
projection onto them. Numbers stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from knoll._typing import Floats

__all__ = ["category_units", "influences", "score_loadings"]

_ROUNDING = 1e-9
_LEAST = 2  # scores of a table without numbers


def category_units(shares: Floats) -> Floats:
    """Return what the indicators of a category are divided by: √p of each level; √(p(1 − p)) of a single column."""
    units = np.sqrt(shares * (1 - shares)) if len(shares) == 1 else np.sqrt(shares)
    return np.where(units > 0, units, 1.0)


def score_loadings(Z: Floats, n_numeric: int, levels: Sequence[int]) -> Floats:
    """Return the matrix (D, r) that turns standardised columns into the scores of the categories.

    Parameters
    ----------
    Z : ndarray of shape (n, D)
        Numbers, then indicators, centred and in units of `category_units`; 0 where a value is missing.
    n_numeric : int
        How many columns are numbers.
    levels : sequence of int
        The number of levels of each category.

    Returns
    -------
    ndarray of shape (D, r)
        Z @ loadings has the distances of the projected categories. Without a component beyond the limit r is 0: the
        categories are independent of each other and of the numbers, as far as these rows show. A table without
        numbers has two scores at least.

    Examples
    --------
    >>> import numpy as np
    >>> from knoll.tables.scores import score_loadings
    >>> rng = np.random.default_rng(0)
    >>> numbers = rng.normal(size=(400, 3))
    >>> related, unrelated = np.sign(numbers.sum(axis=1)), np.sign(rng.normal(size=400))
    >>> loadings = score_loadings(np.column_stack([numbers, related, unrelated]), 3, (2, 2))
    >>> loadings.shape
    (5, 1)
    >>> bool(abs(loadings[3, 0]) > 5 * abs(loadings[4, 0]))
    True
    """
    vectors = _components(Z, n_numeric, levels)  # (D, c)
    if n_numeric == 0:
        return vectors
    # rows of Z·V·Vₖᵀ, Vₖ the entries of the categories; Vₖᵀ = U·S·Wᵀ, and W only rotates
    left, lengths, _ = np.linalg.svd(vectors[n_numeric:].T, full_matrices=False)
    kept = lengths > _ROUNDING
    return np.asarray(vectors @ (left[:, kept] * lengths[kept]))


def _components(Z: Floats, n_numeric: int, levels: Sequence[int]) -> Floats:
    """Return the eigenvectors of the covariance matrix beyond the limit of independent columns, (D, c)."""
    n, width = Z.shape
    directions = max(1, n_numeric + sum(max(count - 1, 1) for count in levels))
    covariance = Z.T @ Z / n
    values, vectors = np.linalg.eigh(covariance)
    values, vectors = values[::-1], vectors[:, ::-1]
    variance = float(np.trace(covariance)) / directions  # below 1 where values are missing
    count = int((values > variance * (1 + np.sqrt(directions / n)) ** 2).sum())
    if n_numeric == 0:
        count = max(count, min(_LEAST, directions))  # something to show, whatever it is worth
    kept = vectors[:, :count]
    peak = np.abs(kept).argmax(axis=0)  # an eigenvector has no sign of its own
    return np.asarray(kept * np.where(kept[peak, np.arange(count)] < 0, -1.0, 1.0)).reshape(width, count)


def influences(Z: Floats, loadings: Floats, n_numeric: int, blocks: Sequence[slice]) -> Floats:
    """Return the share of each column of the table in the mean squared distance of two rows, numbers first.

    A score is divided among the columns by their covariance with it.
    """
    own = Z[:, :n_numeric].var(axis=0)  # (p,)
    shares = np.zeros(n_numeric + len(blocks))
    shares[:n_numeric] = own
    if loadings.shape[1]:
        scores = Z @ loadings  # (n, r)
        each = loadings * (Z.T @ scores) / len(Z)  # (D, r): the sums of the columns are the variances of the scores
        whole = np.array([each[block].sum() for block in blocks])
        total = float(scores.var(axis=0).sum())
        seen = whole.clip(min=0.0)
        shares[n_numeric:] = total * seen / seen.sum() if seen.sum() > 0 else 0.0
    return shares / shares.sum() if shares.sum() > 0 else shares
