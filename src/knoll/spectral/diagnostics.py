"""Diagnostics of a spectral clustering: its history, and warnings about suspicious results."""

from __future__ import annotations

import time

import numpy as np

from knoll._common.loop import History, make_history
from knoll._typing import Floats, Labels
from knoll.base import warn_caller
from knoll.exceptions import (
    ApproximationWarning,
    ConvergenceWarning,
    DisconnectedGraphWarning,
    SuspiciousResultWarning,
)
from knoll.spectral.affinity import OWNER, Affinity
from knoll.spectral.embed import Spectrum
from knoll.spectral.solve import EigenResult

_ALL_SIMILAR = 0.05  # a second eigenvalue below this: rows are hardly distinguished
_NO_GAP = 1e-7  # eigenvalues closer than this are not separated by the computed vectors


class Watch:
    """Keeps, and under `verbose` prints, the progress of the eigensolver and of the partition step."""

    def __init__(self, begun: float, verbose: int) -> None:
        self.verbose, self.last = verbose, begun
        self.rows: list[tuple[float, float, float]] = []

    def __call__(self, _: int, objective: float, residual: float) -> None:
        """Record an application."""
        now = time.perf_counter()
        self.rows.append((objective, residual, now - self.last))
        self.last = now
        self.report(f"application {len(self.rows)}, largest residual {residual:.3g}")

    def report(self, text: str) -> None:
        """Print under `verbose`."""
        if self.verbose:
            print(f"{OWNER}: {text}", flush=True)

    def history(self, spectrum: Spectrum) -> History:
        """Return the recorded steps; LAPACK counts as one."""
        if not self.rows:
            self(1, float(spectrum.values.sum()), float(spectrum.residuals.max(initial=0.0)))
        return make_history(*zip(*self.rows, strict=True))


def warn_of_filled(filled: int, k: int, columns: int, linked: bool) -> None:
    """Warn when fewer clusters were found than requested."""
    if filled < k and linked:
        why, remedy = "rows repeat, or their similarities do", "Ask for fewer clusters"
        if columns < k:
            why = f"the embedding has n_components={columns} columns"
            remedy = "Leave n_components out, or ask for fewer clusters"
        _warn(
            f"number of distinct clusters ({filled}) found smaller than n_clusters ({k}): {why}. {remedy}.",
            ConvergenceWarning,
        )


def warn_of_far_rows(labels: Labels, w: Floats, k: int) -> str:
    """Warn when the eigengap counted sets too small to be clusters; return a note on them.

    A set with fewer rows than the ball that σ is estimated from, the cube root of all, contains no whole neighbourhood.
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


def warn_of_asymmetry(affinity: Affinity) -> None:
    """Warn when a precomputed graph was not symmetric."""
    if affinity.asymmetric is not None:
        i, j = affinity.asymmetric
        _warn(
            f"the precomputed affinity is not symmetric (row {i}, column {j} differs from row {j}, column {i}): it was "
            "averaged with its transpose. Pass (A + A.T) / 2 to avoid this warning.",
            SuspiciousResultWarning,
        )


def warn_of_eigenpairs(result: EigenResult, tol: float) -> None:
    """Warn when a residual is above the tolerance."""
    spectrum = result.spectrum
    worst = float(spectrum.residuals.max(initial=0.0))
    if result.route.approximate and worst > max(tol, 1e-12):
        _warn(
            f"operator={result.route.name!r} is approximate: an eigenpair has a residual of {worst:.2g}, above "
            f"eigen_tol={tol:g}. Use operator='auto', or a larger eigen_tol.",
            ApproximationWarning,
        )
    elif worst > max(tol, 1e-12) or not spectrum.converged:
        _warn(
            f"the eigensolver stopped after {spectrum.applications} applications with a residual of {worst:.2g}, "
            f"above eigen_tol={tol:g}. Raise max_iter or eigen_tol.",
            ConvergenceWarning,
        )


def warn_of_components(result: EigenResult, affinity: Affinity, k: int) -> None:
    """Warn when the graph is disconnected."""
    components, sigma = result.components, affinity.sigma
    alone = int(np.count_nonzero(components.labels < 0))
    remedy = "Use a larger sigma" if sigma else "Give more links"
    joined = "the others joined the " + ("heaviest" if affinity.params.precomputed else "nearest")
    if not components.count:
        small = "" if sigma is None else f" sigma={sigma:.3g} is far too small."
        _warn(f"no row has a link to another: all are in one cluster.{small} {remedy}.", DisconnectedGraphWarning)
    elif components.count > k:
        far = sigma is not None and components.count >= max(2, len(components.labels) // 2)
        small = f" sigma={sigma:.3g} is far too small." if far else ""
        _warn(
            f"the graph falls into {components.count} components, more than n_clusters={k}: the {k} heaviest are the "
            f"clusters, {joined}.{small} {remedy}, or ask for {components.count} clusters.",
            DisconnectedGraphWarning,
        )
    elif alone:
        row = int(np.flatnonzero(components.labels < 0)[0])
        _warn(
            f"{alone} row{'s have' if alone > 1 else ' has'} no link at all (row {row} is the first): "
            f"{joined.replace('the others', 'such rows')}. {remedy}, or drop them.",
            DisconnectedGraphWarning,
        )


def warn_of_gap(result: EigenResult, affinity: Affinity, k: int) -> None:
    """Warn when the eigenvalues of a graph with links show no clusters."""
    if not result.components.count:
        return
    spectrum, sigma = result.spectrum, affinity.sigma
    gap = np.inf if spectrum.following is None else float(spectrum.values[-1] - spectrum.following)
    if sigma is not None and k > 1 and len(spectrum.values) > 1 and spectrum.values[1] < _ALL_SIMILAR:
        _warn(
            f"all rows are nearly alike to this kernel (the second eigenvalue is {spectrum.values[1]:.2g}): "
            f"sigma={sigma:.3g} is far too large, and the clusters mean little. Use a smaller sigma; "
            "knoll.scales.estimate_sigma(X) suggests one.",
            SuspiciousResultWarning,
        )
    elif result.components.count <= k and k > 1 and abs(gap) < _NO_GAP:
        _warn(
            f"eigenvalue {len(spectrum.values)} and the next differ by {gap:.2g} only: other "
            "eigenvectors would do as well, and the clusters depend on which. Ask for another number of clusters.",
            SuspiciousResultWarning,
        )


def _warn(text: str, category: type[Warning]) -> None:
    warn_caller(f"{OWNER}: {text}", category)
