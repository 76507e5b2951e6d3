"""What is to be said of a spectral clustering: its history, and warnings where it may not be what was wanted."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll.base import warn_caller
from knoll.exceptions import (
    ApproximationWarning,
    ConvergenceWarning,
    DisconnectedGraphWarning,
    SuspiciousResultWarning,
)
from knoll.steps.affinity import OWNER, Source
from knoll.steps.spectral import Spectrum
from knoll.steps.spectral_solve import Solved

__all__ = [
    "Watch",
    "warn_of_asymmetry",
    "warn_of_eigenpairs",
    "warn_of_far_rows",
    "warn_of_filled",
    "warn_of_gap",
    "warn_of_parts",
]

_ALL_SIMILAR = 0.05  # a second eigenvalue below this: hardly a pair of rows is told from another
_NO_GAP = 1e-7  # eigenvalues closer than this are not told apart by the vectors that were found


class Watch:
    """Keeps, and under `verbose` shows, what the eigensolver says after each application; then the partition step."""

    def __init__(self, begun: float, verbose: int) -> None:
        self.verbose, self.last = verbose, begun
        self.rows: list[tuple[float, float, float]] = []

    def __call__(self, _: int, objective: float, residual: float) -> None:
        """Note an application."""
        now = time.perf_counter()
        self.rows.append((objective, residual, now - self.last))
        self.last = now
        self.say(f"application {len(self.rows)}, largest residual {residual:.3g}")

    def say(self, text: str) -> None:
        """Print under `verbose`."""
        if self.verbose:
            print(f"{OWNER}: {text}", flush=True)

    def history(self, spectrum: Spectrum) -> dict[str, NDArray[Any]]:
        """Return what was noted; LAPACK's answer is one step."""
        if not self.rows:
            self(1, float(spectrum.values.sum()), float(spectrum.residuals.max(initial=0.0)))
        table = np.array(self.rows)
        return {
            "iteration": np.arange(1, len(table) + 1),
            "objective": table[:, 0],
            "changed": table[:, 1],
            "seconds": table[:, 2],
        }


def warn_of_filled(filled: int, k: int, columns: int, linked: bool) -> None:
    """Say when fewer clusters were found than asked for."""
    if filled < k and linked:
        why, remedy = "rows repeat, or their similarities do", "Ask for fewer clusters"
        if columns < k:
            why = f"the embedding has n_components={columns} columns"
            remedy = "Leave n_components out, or ask for fewer clusters"
        _warn(
            f"number of distinct clusters ({filled}) found smaller than n_clusters ({k}): {why}. {remedy}.",
            ConvergenceWarning,
        )


def warn_of_far_rows(labels: NDArray[np.int32], w: NDArray[np.float64], k: int) -> str:
    """Say when the eigengap counted sets too small to be clusters; return what there is to say of them.

    A set with fewer rows than the ball that σ is read from, the cube root of all, holds nobody's neighbourhood.
    """
    most = float(w.max())
    mass = np.bincount(labels, weights=w / most, minlength=k)  # in units of the largest weight: sums stay in float64
    least = int(np.ceil(np.cbrt(mass.sum()) * np.cbrt(most) - 1e-9))
    few = int(np.count_nonzero(mass < least / most))
    if k == 1 or not few:
        return ""
    text = f"{few} of these {k} clusters {'have' if few > 1 else 'has'} fewer than {least} rows"
    _warn(
        f"n_clusters='auto': {text}. To eigenvalues a few far rows are a cluster like any other. Drop such rows, use a "
        "larger sigma, or give n_clusters.",
        SuspiciousResultWarning,
    )
    return f"; {text}: a few far rows count like a cluster"


def warn_of_asymmetry(source: Source) -> None:
    """Say when a given graph was not symmetric."""
    if source.asymmetric is not None:
        i, j = source.asymmetric
        _warn(
            f"the precomputed affinity is not symmetric (row {i}, column {j} differs from row {j}, column {i}): it was "
            "averaged with its transpose. Pass (A + A.T) / 2 to say so yourself.",
            SuspiciousResultWarning,
        )


def warn_of_eigenpairs(solved: Solved, tol: float) -> None:
    """Say when a residual is above the tolerance."""
    spectrum = solved.spectrum
    worst = float(spectrum.residuals.max(initial=0.0))
    if solved.route in ("cholesky", "finufft") and worst > max(tol, 1e-12):
        _warn(
            f"operator={solved.route!r} is approximate: an eigenpair has a residual of {worst:.2g}, above "
            f"eigen_tol={tol:g}. Use operator='auto', or a larger eigen_tol.",
            ApproximationWarning,
        )
    elif worst > max(tol, 1e-12) or not spectrum.converged:
        _warn(
            f"the eigensolver stopped after {spectrum.applications} applications with a residual of {worst:.2g}, "
            f"above eigen_tol={tol:g}. Raise max_iter or eigen_tol.",
            ConvergenceWarning,
        )


def warn_of_parts(solved: Solved, source: Source, k: int) -> None:
    """Say when the graph falls apart."""
    parts, sigma = solved.parts, source.sigma
    alone = int(np.count_nonzero(parts.labels < 0))
    remedy = "Use a larger sigma" if sigma else "Give more links"
    joined = "the others joined the " + ("heaviest" if source.wish.given else "nearest")
    if not parts.count:
        small = "" if sigma is None else f" sigma={sigma:.3g} is far too small."
        _warn(f"no row has a link to another: all are in one cluster.{small} {remedy}.", DisconnectedGraphWarning)
    elif parts.count > k:
        far = sigma is not None and parts.count >= max(2, len(parts.labels) // 2)
        small = f" sigma={sigma:.3g} is far too small." if far else ""
        _warn(
            f"the graph falls into {parts.count} components, more than n_clusters={k}: the {k} heaviest are the "
            f"clusters, {joined}.{small} {remedy}, or ask for {parts.count} clusters.",
            DisconnectedGraphWarning,
        )
    elif alone:
        row = int(np.flatnonzero(parts.labels < 0)[0])
        _warn(
            f"{alone} row{'s have' if alone > 1 else ' has'} no link at all (row {row} is the first): "
            f"{joined.replace('the others', 'such rows')}. {remedy}, or drop them.",
            DisconnectedGraphWarning,
        )


def warn_of_gap(solved: Solved, source: Source, k: int) -> None:
    """Say when the eigenvalues of a graph that has links tell of no clusters."""
    if not solved.parts.count:
        return
    spectrum, sigma = solved.spectrum, source.sigma
    gap = np.inf if spectrum.following is None else float(spectrum.values[-1] - spectrum.following)
    if sigma is not None and k > 1 and len(spectrum.values) > 1 and spectrum.values[1] < _ALL_SIMILAR:
        _warn(
            f"all rows are nearly alike to this kernel (the second eigenvalue is {spectrum.values[1]:.2g}): "
            f"sigma={sigma:.3g} is far too large, and the clusters mean little. Use a smaller sigma; "
            "knoll.scales.estimate_sigma(X) suggests one.",
            SuspiciousResultWarning,
        )
    elif solved.parts.count <= k and k > 1 and abs(gap) < _NO_GAP:
        _warn(
            f"eigenvalue {len(spectrum.values)} and the next differ by {gap:.2g} only: other "
            "eigenvectors would do as well, and the clusters depend on which. Ask for another number of clusters.",
            SuspiciousResultWarning,
        )


def _warn(text: str, kind: type[Warning]) -> None:
    warn_caller(f"{OWNER}: {text}", kind)
