"""Warnings about suspicious results of kernel k-means."""

from __future__ import annotations

import numpy as np

from knoll import kernels
from knoll.base import warn_caller
from knoll.exceptions import ConvergenceWarning, SuspiciousResultWarning
from knoll.kernel_kmeans.means import Problem
from knoll.kernel_kmeans.steps import Outcome

_ALONE = 1e-3  # links to other rows, of those to itself: below it a row is isolated
_ALIKE = 1e-10  # total sum of squares in feature space, of Σ w K_ii: below it rounding hides the differences


def warn_of(best: Outcome, problem: Problem, kernel: kernels.Kernel, k: int) -> None:
    """Warn of empty clusters, and of a width that leaves all rows isolated or alike."""
    means = best.means
    found = int(np.count_nonzero(np.bincount(best.last.labels, minlength=means.k)))
    if found < k:
        warn_caller(
            f"Number of distinct clusters ({found}) found smaller than n_clusters ({k}). Possibly "
            "due to duplicate points in X. Ask for fewer clusters.",
            ConvergenceWarning,
        )
    if not isinstance(kernel, kernels.Gaussian | kernels.Heaviside) or problem.n < 2:
        return
    links = means.G.sum(axis=1)  # (n,) of a row to all, itself included
    itself = problem.weigh(problem.diagonal)
    alone = float(np.mean(links - itself <= _ALONE * itself))
    name, value = ("sigma", kernel.sigma) if isinstance(kernel, kernels.Gaussian) else ("eps", kernel.eps)
    if alone > 0.5:
        text = (
            f"{name}={value:g} is far too small: {100 * alone:.0f} % of the rows are similar to no other row, so "
            f"their clusters mean little. knoll.scales.estimate_{name}(X) suggests a value."
        )
    elif means.scatter <= _ALIKE * problem.total and len(np.unique(problem.groups)) > 1:
        text = (
            f"{name}={value:g} is far too large: all rows are alike in feature space up to rounding. "
            f"knoll.scales.estimate_{name}(X) suggests a value."
        )
    else:
        return
    warn_caller(f"KernelKMeans: {text}", SuspiciousResultWarning)
