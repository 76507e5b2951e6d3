"""The choice of a route: how to multiply by the affinity matrix A of points, and where the eigensolver begins.

Every route ends with the same exact operator (exact to rounding), which gives degrees, residuals and extension. The
approximate ones, pivoted Cholesky and the non-uniform FFT, give a start that the exact operator then improves. Where
they are requested by name, they give the answer, and the exact operator certifies its error
(docs/decisions/0016-spectral.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from knoll._common.rescale import affinity_exponent, times_power
from knoll._system import free_memory
from knoll.exceptions import BadData, CostError, InvalidParameter
from knoll.kernels import Gaussian, Kernel
from knoll.kernels.operators import CachedOperator, check_matrix
from knoll.spectral.low_rank import fourier_grid, has_finufft

APPROXIMATE = ("cholesky", "finufft")  # operators whose error one exact application certifies
_SMALL = 512  # rows up to which a matrix is stored and LAPACK takes it whole
_APPLICATIONS = 12  # assumed of a solve
_PAIR = (2.0, 0.13)  # ns of a pair of rows in an application to a dozen columns: constant, and for each column of X
_STORED = (32.0, 37.0, 0.1)  # ns of a stored pair in a whole solve: small matrix, large matrix; for each column of X
_LARGE = 1 << 27  # bytes of a matrix from which the system's fresh pages cost more than the work on them
_TRUNCATED = 0.9  # share of the pairs left, below which the route is called truncated
_SKETCHED = 30_000  # rows from which a low-rank start pays
_MODES = 2**24  # of the Fourier grid, at most
_FEW_MODES = 2**18  # always allowed: a transform takes a few hundredths of a second
_LONG = 2e10  # pairs of one application from which a start by the FFT beats many exact applications
_UNCHECKED = ("tiles", "heaviside")  # operator and kernel beside the Gaussian whose values need no check


@dataclass(frozen=True)
class Route:
    """How A is applied, and why."""

    name: str  # stored, tiles, truncated, cholesky or finufft
    reason: str
    operator: Any = None  # exact to rounding; None in a plan whose matrix is not stored yet
    cutoff: float = 0.0  # pairs farther apart are left out; 0: none
    sketch: str = "none"  # where the start comes from: none, cholesky or finufft

    @property
    def approximate(self) -> bool:
        """Whether the answer is that of the sketch, which the exact operator only certifies."""
        return self.name in APPROXIMATE


def choose_route(kernel: Kernel, points: NDArray[Any], name: str, threads: int, *, whole: bool, owner: str) -> Route:
    """Choose the route for a kernel on points; `name` is the requested operator, "auto" leaves the choice to us.

    `whole` forbids truncation, as a zero diagonal does: the omitted values are small beside A_ii = 1 only.
    """
    if not isinstance(kernel, Gaussian) and name not in ("auto", "stored") and (name, kernel.name) != _UNCHECKED:
        raise BadData(
            f"{owner}: operator={name!r} is for the Gaussian kernel; {kernel.name!r} is stored. Use operator='auto'."
        )
    if whole and name in APPROXIMATE:
        raise InvalidParameter(
            f"{owner}: operator={name!r} approximates the kernel with its diagonal, and zero_diagonal=True leaves that "
            "out. Use operator='auto', or zero_diagonal=False."
        )
    if name == "finufft" and isinstance(kernel, Gaussian):
        _need_finufft(points, kernel.sigma, owner)
    route = plan_route(kernel, points, name, threads, whole=whole)
    if route.operator is not None:
        return route
    return replace(route, operator=store(kernel, points, threads, owner, whole=whole and isinstance(kernel, Gaussian)))


def plan_route(kernel: Kernel, points: NDArray[Any], name: str, threads: int, *, whole: bool) -> Route:
    """Plan the route by n, d, σ and the free memory, before anything large is computed."""
    n, d = points.shape
    all_pairs = n * (n + 1) // 2
    if not isinstance(kernel, Gaussian):
        if kernel.name == "heaviside" and (name == "tiles" or (n > _SMALL and name == "auto")):
            return Route("tiles", f"{kernel.name} tiles of {n} rows", kernel.operator(points, threads))
        return Route("stored", f"the values of {kernel.name} are checked, so they are kept")
    if name == "stored" or (name == "auto" and n <= _SMALL):
        return Route("stored", "operator='stored' was requested" if name == "stored" else _size(n))
    cutoff = 0.0 if whole or name == "tiles" else kernel.cutoff(n)
    operator: Any = kernel.operator(points, threads, cutoff)
    share = operator.pairs / all_pairs
    if name == "auto" and stored_pays(n, d, share) and 24 * n * n < free_memory():
        return Route("stored", f"{_size(n)}, and a stored value of {d} columns is read faster than computed again")
    if name in APPROXIMATE:
        reason = f"operator={name!r} was requested; certified by one exact application"
        return Route(name, reason, operator, cutoff, name)
    exact = "truncated" if cutoff > 0 and (name == "truncated" or share < _TRUNCATED) else "tiles"
    reason = "no pair is left out"
    if cutoff:
        reason = f"{operator.pairs:.3g} of {all_pairs:.3g} pairs of rows lie within {cutoff:.3g}"
    sketch = _sketch_for(points, kernel.sigma, operator.pairs)
    if sketch != "none":
        reason += f"; the start comes from {'pivoted Cholesky' if sketch == 'cholesky' else 'FINUFFT'}"
    return Route(exact, reason, operator, cutoff, sketch)


def _sketch_for(points: NDArray[Any], sigma: float, pairs: int) -> str:
    """Choose where the start of a solve comes from."""
    n, d = points.shape
    if n < _SKETCHED:
        return "none"
    by_fft = pairs >= _LONG and has_finufft() and d <= 3 and fourier_grid(points, sigma, 1e-10)[0] <= _MODES
    return "finufft" if by_fft else "cholesky"


def stored_pays(n: int, d: int, share: float) -> bool:
    """Return whether a solve is faster with the stored matrix than with tiles of that share of the pairs."""
    size = 8 * n * n
    small, large, wide = _STORED
    tiles = share * _APPLICATIONS * (_PAIR[0] + _PAIR[1] * d)
    return size <= 1 << 30 and tiles > (small if size < _LARGE else large) + wide * d


def _size(n: int) -> str:
    return f"{n} rows: the matrix takes {8 * n * n / 2**20:.1f} MB"


def store(
    kernel: Kernel, points: Any, threads: int, owner: str, *, whole: bool = False, power: int | None = None
) -> CachedOperator:
    """Compute the matrix of a kernel, and refuse one that is no affinity; `whole` keeps the smallest values too.

    It is divided by 2^power; None chooses the power for this matrix.
    """
    n, memory = points.shape[0], free_memory()
    needed = 8 * n * n
    if 2 * needed > memory:
        raise CostError(
            f"{owner}: the {kernel.name} matrix of {n} rows takes {needed / 2**30:.1f} GB (twice that while it is "
            f"checked), and {memory / 2**30:.1f} GB are free. Use affinity='rbf' with operator='auto', which needs no "
            "matrix, or affinity='nearest_neighbors'."
        )
    if isinstance(kernel, Gaussian):  # symmetric to the bit and in [0, 1] by itself
        return CachedOperator(kernel, points, threads, floor=0.0 if whole else 2.0**-53 / n)
    matrix = kernel.tile(points, points, threads)
    check_matrix(matrix, f"{owner}: the affinity {kernel.name!r}", negative=False)
    power = affinity_exponent(matrix) if power is None else power
    matrix = times_power(matrix, -power)
    return CachedOperator(kernel, points, threads, power=power, matrix=(matrix + matrix.T) / 2)


def _need_finufft(points: NDArray[Any], sigma: float, owner: str) -> None:
    if points.shape[1] > 3:
        raise BadData(
            f"{owner}: operator='finufft' is for at most 3 columns, X has {points.shape[1]}. Use operator='auto'."
        )
    if not has_finufft():
        raise BadData(f"{owner}: operator='finufft' needs FINUFFT. Install it with pip install knoll[fast].")
    most = max(_FEW_MODES, min(_MODES, len(points) ** 2))  # a transform of more modes costs more than all pairs
    if (modes := fourier_grid(points, sigma, 1e-10)[0]) > most:
        raise BadData(
            f"{owner}: sigma={sigma:g} is so small beside the extent of X that its Fourier grid would have {modes} "
            f"modes; at most {most} are allowed for {len(points)} rows. Use operator='truncated'."
        )
