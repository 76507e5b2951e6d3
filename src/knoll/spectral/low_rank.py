"""Approximate eigenvectors to begin from: of a low-rank factor FFᵀ, or of a Gauss sum by the non-uniform FFT.

They return functions f on the rows, v_i = √(w_i d_i) f_i: this form needs no degrees, which the exact operator gives
later.
"""

from __future__ import annotations

import importlib.util
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll._common.linalg import eigh, inner, times
from knoll._common.rescale import exponent_of, times_power
from knoll._typing import Floats
from knoll.spectral.eigen import top_eigenpairs

_RANK = 640  # columns of F, at most
_FACTOR_BYTES = 1 << 31  # of F, at most
_LEFT = 1e-4  # stop where no diagonal entry has more than this left: two or three exact products then suffice
_LEFT_SHORT = 1e-2  # the same where memory allows few columns
_POOR = 0.05  # a kernel whose mean diagonal has more than this left is not of low rank
_ABSENT = 0.2  # a row with more than this left is hardly represented: an eigenvector of its own would be missed
_FFT_TOL = 1e-9
_FAR = 2.0**80  # in units of σ: needs far more modes than a grid may have


@dataclass(frozen=True)
class Sketch:
    """Functions on the rows, best first, and a note on their quality."""

    functions: Floats  # (n, p)
    note: str


def most_rank(n: int) -> int:
    """Return the largest number of columns of a factor."""
    return int(min(_RANK, n, _FACTOR_BYTES // (8 * n)))


def by_cholesky(core: Any, n: int, weights: Floats, p: int, threads: int) -> Sketch | None:
    """Take the Ritz vectors of D^-½FFᵀD^-½ from pivoted Cholesky K ≈ FFᵀ; None where K is not of low rank.

    ‖K − FFᵀ‖ ≤ trace(K − FFᵀ), which the factorisation yields as it goes.
    """
    rank = most_rank(n)
    if rank < p:
        return None
    factor, _, left = core.pivoted_cholesky(rank, _LEFT if rank == _RANK else _LEFT_SHORT, threads)
    if factor.shape[1] < min(p, n) or float(left.mean()) > _POOR or float(left.max()) > _ABSENT:
        return None
    degree = times(factor, inner(factor, weights[:, None], threads), threads)  # (n, 1): F Fᵀ w
    degree = np.maximum(degree, left[:, None] + 2.0**-52) + left[:, None]
    factor *= np.sqrt(weights[:, None] / degree)  # (n, r): now that of D^-½KD^-½
    gram = inner(factor, factor, threads)  # (r, r)
    r = len(gram)
    values, rotation = eigh(gram, min(p, r))
    vectors = times(factor, rotation[:, ::-1] / np.sqrt(np.maximum(values[::-1], 2.0**-40)), threads)
    functions = vectors / np.sqrt(weights[:, None] * degree)
    return Sketch(functions, f"rank {r}, trace left {float(left.sum()) / n:.1e} of n")


def by_finufft(
    points: NDArray[Any], sigma: float, weights: Floats, p: int, k: int, tol: float, seed: int, threads: int
) -> Sketch:
    """Solve the eigenproblem with products by the non-uniform FFT, whose error is absolute and small."""
    n = len(points)
    multiply = gauss_sum(points, sigma, _FFT_TOL, threads)
    degree = np.maximum(multiply(weights[:, None]), weights[:, None])  # A_ii = 1: no degree is smaller
    scale = np.sqrt(weights[:, None] / degree)
    first = np.sqrt(weights[:, None] * degree)
    first /= np.sqrt(np.einsum("ij,ij->", first, first))
    pairs = top_eigenpairs(
        lambda B: scale * multiply(scale * B),
        n,
        min(k, n - 1),
        first=first,
        tol=max(tol / 4, 1e-8),
        loose=1,
        seed=seed,
        threads=threads,
    )
    functions = np.hstack([first, pairs.vectors]) / np.sqrt(weights[:, None] * degree)
    return Sketch(functions, f"{pairs.applications} products, residual {pairs.residuals.max(initial=0.0):.1e}")


def gauss_sum(points: NDArray[Any], sigma: float, tol: float, threads: int) -> Any:
    """Make B → K·B for the Gaussian kernel in at most 3 dimensions, in O(n log(1/tol)^d) and a small grid.

    κ(r) = Σ_m ĝ_m e^{i h·m·r}: the trapezoidal rule for its Fourier integral, with a period that the data and the
    range of the kernel fit into. Each transform runs on one thread, so that its bits do not depend on their number.
    """
    import finufft

    n, d = points.shape
    _, period, top = fourier_grid(points, sigma, tol)
    points, sigma = _in_units_of_sigma(points, sigma)
    step = 2 * np.pi / period  # (d,)
    half = np.ceil(top / step).astype(int)  # highest mode
    counts = tuple(int(c) for c in 2 * half + 1)
    middle = (points.max(axis=0).astype(np.float64) + points.min(axis=0)) / 2
    angles = [np.ascontiguousarray((points[:, j] - middle[j]) * step[j]) for j in range(d)]
    weight = np.ones((1,) * d)
    for j in range(d):
        frequency = step[j] * np.arange(-half[j], half[j] + 1)
        line = step[j] * sigma / np.sqrt(2 * np.pi) * np.exp(-0.5 * (sigma * frequency) ** 2)
        weight = weight * line.reshape([-1 if a == j else 1 for a in range(d)])
    to_modes, to_points = (getattr(finufft, f"nufft{d}d{number}") for number in (1, 2))

    def one(pair: Floats) -> Any:  # two real columns in one complex one: K is real
        strength = np.ascontiguousarray(pair[:, 0] + 1j * pair[:, 1])
        grid = to_modes(*angles, strength, counts, eps=tol, isign=-1, nthreads=1)
        return to_points(*angles, np.ascontiguousarray(grid * weight), eps=tol, isign=1, nthreads=1)

    def multiply(block: Floats) -> Floats:
        wide = block if block.shape[1] % 2 == 0 else np.hstack([block, np.zeros((n, 1))])
        out = np.empty((n, wide.shape[1]))
        starts = range(0, wide.shape[1], 2)
        with ThreadPoolExecutor(max(1, min(threads, len(starts)))) as pool:
            for c, sums in zip(starts, pool.map(lambda c: one(wide[:, c : c + 2]), starts)):
                out[:, c], out[:, c + 1] = sums.real, sums.imag
        return out[:, : block.shape[1]]

    return multiply


def has_finufft() -> bool:
    """Return whether FINUFFT is installed; it is an extra, "fast"."""
    return importlib.util.find_spec("finufft") is not None


def fourier_grid(points: NDArray[Any], sigma: float, tol: float) -> tuple[int, Floats, float]:
    """Size the Fourier grid for a Gaussian of width σ to a tolerance: number of modes, period, highest frequency.

    The last two are in the units of `_in_units_of_sigma`.
    """
    points, sigma = _in_units_of_sigma(points, sigma)
    reach = sigma * np.sqrt(2 * np.log(1 / tol))
    extent = np.ptp(points, axis=0)
    if not (extent < _FAR).all():
        return 2**62, extent, np.inf
    period = extent + reach  # periodic images of the data must not contribute
    top = reach / sigma / sigma  # where the transform has fallen to the tolerance
    counts = 2 * np.ceil(top * period / (2 * np.pi)) + 2
    return int(min(np.prod(counts), 2**62)), period, float(top)


def _in_units_of_sigma(points: NDArray[Any], sigma: float) -> tuple[Floats, float]:
    """Divide points and σ by a power of two, so that σ is near one; points beyond ±2^80 are clipped."""
    exponent = exponent_of(sigma)
    near = np.clip(times_power(points.astype(np.float64, copy=False), -exponent), -_FAR, _FAR)
    return near, float(times_power(sigma, -exponent))
