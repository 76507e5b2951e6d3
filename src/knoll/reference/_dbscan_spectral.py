"""Box 7, DBSCAN, spectral version: clusters are eigenvectors of D^-½AD^-½ with eigenvalue one   (eq. 5.6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from knoll._typing import Bools, Floats, Ints
from knoll.exceptions import BadData
from knoll.reference import _check as check
from knoll.reference._common import attach_borders, components, frozen, squared_distances, within


class DBSCANSpectralState(NamedTuple):
    """What the steps of box 7 have made so far; what is still to come has size 0."""

    step: str
    A: Floats  # (n, n); after the filter (n_core, n_core)
    d: Floats  # (n,) the diagonal of D; after the filter recomputed, (n_core,)
    core: Bools  # (n,) all False before the core points are known
    eigenvalues: Floats  # (n_core,) largest first
    Z: Floats  # (n_core, clusters) the eigenvectors Z̃ of eigenvalue one
    labels: Ints  # (n,) −1: in no cluster (yet)


def dbscan_spectral(X: ArrayLike, eps: float, min_pts: int) -> Iterator[DBSCANSpectralState]:
    """Box 7, "DBSCAN, Spectral version" (eq. 5.1 to 5.6).

    Parameters
    ----------
    X : (n, d) array
        The points.
    eps : float
        The radius ε > 0 (and ≥ 1e-150, whose square float64 can hold); a distance equal to ε is inside.
    min_pts : int
        The level minPts ≥ 1.

    Yields
    ------
    DBSCANSpectralState
        After each of the box's five steps.

    Raises
    ------
    BadData
        The graph of core points is so large that float64 could not distinguish an eigenvalue one from the next.

    Notes
    -----
    Departures (docs/theory/errata.md): core means d_i ≥ minPts, as in the other versions (item 1); a border
    point takes the *cluster* of its closest core point, ties to the smallest coordinates (item 3); D is
    recomputed on the core points (item 8); clusters are read from the cosines of the rows of Z̃, which are
    0 or 1 in any basis (item 9). Clusters are numbered by their lowest core row.

    Examples
    --------
    >>> from knoll.reference import dbscan_spectral, run
    >>> run(dbscan_spectral([[0.0], [1.0], [2.0], [9.0]], eps=1.0, min_pts=3)).labels
    array([ 0,  0,  0, -1])
    """
    return frozen(_dbscan_spectral(check.points(X), check.radius(eps), check.level(min_pts)))


def _dbscan_spectral(X: Floats, eps: float, min_pts: int) -> Iterator[DBSCANSpectralState]:
    n, none = len(X), np.empty(0)
    core, labels = np.zeros(n, dtype=bool), np.full(n, -1, dtype=np.int64)

    d2 = squared_distances(X, X)
    A = within(d2, eps).astype(np.float64)  # (n, n) eq. 5.1
    yield DBSCANSpectralState("Graph step", A, none, core, none, np.empty((0, 0)), labels)

    d = A.sum(axis=1)  # D = diag(A1): d_i = |N_ε(x_i)|
    yield DBSCANSpectralState("Weights matrix step", A, d, core, none, np.empty((0, 0)), labels)

    core = d >= min_pts
    A = A[np.ix_(core, core)]  # (n_core, n_core)
    d = A.sum(axis=1)  # recomputed: the removed neighbours no longer count
    yield DBSCANSpectralState("Core points identification step", A, d, core, none, np.empty((0, 0)), labels)

    tolerance = eigenvalue_one(len(d), d.sum())
    values, vectors = np.linalg.eigh(A / np.sqrt(d)[:, None] / np.sqrt(d))
    eigenvalues, vectors = values[::-1].copy(), vectors[:, ::-1]
    Z = vectors[:, eigenvalues > 1 - tolerance].copy()
    P = Z @ Z.T  # P_ij = √(d_i d_j)/vol_c inside cluster c, 0 between clusters, whatever the basis
    length = np.sqrt(np.diagonal(P))
    labels = labels.copy()
    labels[core] = components(P / np.outer(length, length) > 0.5, np.ones(len(d), dtype=bool))
    yield DBSCANSpectralState("Eigendecomposition step", A, d, core, eigenvalues, Z, labels)

    labels = attach_borders(X, d2, eps, core, labels)
    yield DBSCANSpectralState("Outliers identification step", A, d, core, eigenvalues, Z, labels)


def eigenvalue_one(n_core: int, volume: float) -> float:
    """How far below one an eigenvalue may be computed and still *be* one.

    In a connected graph the second eigenvalue is at most 1 − 1/(diameter · volume); the diameter is below
    n_core, so half of 1/(n_core · volume) separates the two. eigh errs by about n_core · 2⁻⁵²: where that is
    not far below the gap, the multiplicity of one cannot be known from float64 eigenvalues.
    """
    gap = 1 / max(n_core * volume, 1.0)
    error = 4 * n_core * np.finfo(np.float64).eps
    if error > gap / 4:
        raise BadData(
            f"dbscan_spectral: at {n_core} core points and {volume:.0f} links an eigenvalue may be {gap:.1e} "
            "below one without being one, closer than float64 can resolve. dbscan_graph finds the same clusters."
        )
    return gap / 2
