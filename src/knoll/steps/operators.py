"""Which way to multiply by the affinity matrix A: stored, tiles, truncated tiles; and what to begin from.

Every route ends with the same exact operator (exact to rounding): degrees, certificate and extension come from it. The
approximate ones, pivoted Cholesky and the non-uniform FFT, give a start that the exact operator then improves, or, when
they are asked for by name, the answer whose error the exact operator certifies (docs/decisions/0016-spectral.md).
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from knoll.exceptions import BadData, CostError, InvalidParameter
from knoll.kernel_matrix import check_matrix
from knoll.kernels import Gaussian, Kernel
from knoll.memory import free_memory
from knoll.steps.eigen import times
from knoll.steps.scaling import affinity_power, largest_of, scaled

__all__ = [
    "Affinity",
    "Links",
    "Plan",
    "Route",
    "Stored",
    "ZeroDiagonal",
    "check_matrix",
    "choose",
    "free_memory",
    "has_finufft",
    "level",
    "modes",
    "plan",
    "store",
    "stored_pays",
]

Floats = NDArray[np.float64]

_SMALL = 512  # rows up to which a matrix is stored and LAPACK takes it whole
_APPLICATIONS = 12  # that a solve is taken to make
_PAIR = (2.0, 0.13)  # ns of a pair of rows in an application to a dozen columns: constant, and for each column of X
_STORED = (32.0, 37.0, 0.1)  # ns of a stored pair in a whole solve: small matrix, large matrix; for each column of X
_LARGE = 1 << 27  # bytes of a matrix from which the system's fresh pages cost more than what is done with them
_TRUNCATED = 0.9  # share of the pairs left at which leaving out the others is worth the name
_SKETCHED = 30_000  # rows from which a low-rank start pays
_MODES = 2**24  # of the Fourier grid, at most
_FAR = 2.0**80  # in units of σ: far more modes than these
_LONG = 2e10  # pairs of one application from which a start by the FFT beats many exact applications
_FEW = 2.0**-10  # of the diagonal: a degree below this has lost digits to it
_BLOCK = 2**21  # entries of a block of rows
_FREE = ("tiles", "heaviside")  # whose values need no check, and whose tiles are cheap


class Affinity(Protocol):
    """What a spectral solve asks of A: products, never A itself. Every prepared kernel is one."""

    n: int

    def diag(self) -> Floats:
        """Return the diagonal, (n,)."""
        ...

    def rows(self, i: NDArray[np.int64]) -> Floats:
        """Return the rows i, (m, n)."""
        ...

    def apply(self, B: Floats) -> Floats:
        """Return A B, (n, b)."""
        ...

    def apply_rows(self, Y: Any, B: Floats) -> Floats:
        """Return A(Y, X) B for other rows Y, (q, b)."""
        ...


@dataclass(frozen=True)
class Route:
    """How A is applied, and why."""

    name: str  # stored, tiles, truncated, cholesky or finufft
    reason: str
    operator: Affinity  # exact to rounding
    cutoff: float  # pairs farther apart are left out; 0: none
    sketch: str  # what the start comes from: none, cholesky or finufft
    refine: bool  # whether the exact operator goes on from there


@dataclass(frozen=True)
class Plan:
    """The route that a kernel on points would take, before anything large is made."""

    name: str
    reason: str
    cutoff: float = 0.0
    sketch: str = "none"
    operator: Any = None  # of tiles, which are made when needed; None: to be stored
    pairs: int = 0  # of rows, in one application
    bytes: int = 0  # that the operator holds


def choose(kernel: Kernel, points: NDArray[Any], name: str, threads: int, *, whole: bool, owner: str) -> Route:
    """Choose the route for a kernel on points; `name` is the user's wish, "auto" leaves it to us.

    `whole` forbids truncation, as a zero diagonal does: what is left out is small beside A_ii = 1 only.
    """
    if not isinstance(kernel, Gaussian) and name not in ("auto", "stored") and (name, kernel.name) != _FREE:
        raise BadData(
            f"{owner}: operator={name!r} is for the Gaussian kernel; {kernel.name!r} is stored. Use operator='auto'."
        )
    if whole and name in ("cholesky", "finufft"):
        raise InvalidParameter(
            f"{owner}: operator={name!r} approximates the kernel with its diagonal, and zero_diagonal=True leaves that "
            "out. Use operator='auto', or zero_diagonal=False."
        )
    if name == "finufft" and isinstance(kernel, Gaussian):
        _need_finufft(points, kernel.sigma, owner)
    taken = plan(kernel, points, name, threads, whole=whole)
    operator = taken.operator
    if operator is None:
        operator = store(kernel, points, threads, owner, whole=whole and isinstance(kernel, Gaussian))
    return Route(
        taken.name, taken.reason, operator, taken.cutoff, taken.sketch, taken.name not in ("cholesky", "finufft")
    )


def plan(kernel: Kernel, points: NDArray[Any], name: str, threads: int, *, whole: bool) -> Plan:
    """Plan the route: by n, d, σ, and the memory at hand."""
    n, d = points.shape
    all_pairs = n * (n + 1) // 2
    if not isinstance(kernel, Gaussian):
        if kernel.name == "heaviside" and (name == "tiles" or (n > _SMALL and name == "auto")):
            tiled: Any = kernel.operator(points, threads)
            return Plan("tiles", f"{kernel.name} tiles of {n} rows", 0.0, "none", tiled, all_pairs, tiled.bytes)
        return Plan("stored", f"the values of {kernel.name} are checked, so they are kept")
    if name == "stored" or (name == "auto" and n <= _SMALL):
        return Plan("stored", "operator='stored' was asked for" if name == "stored" else _size(n))
    cutoff = 0.0 if whole or name == "tiles" else kernel.cutoff(n)
    operator: Any = kernel.operator(points, threads, cutoff)
    pairs = int(operator.pairs)
    share = pairs / all_pairs
    if name == "auto" and stored_pays(n, d, share) and 24 * n * n < free_memory():
        return Plan("stored", f"{_size(n)}, and a stored value of {d} columns is read faster than made again")
    if name in ("cholesky", "finufft"):
        reason = f"operator={name!r} was asked for; certified by one exact application"
        return Plan(name, reason, cutoff, name, operator, pairs, operator.bytes)
    exact = "truncated" if cutoff > 0 and (name == "truncated" or share < _TRUNCATED) else "tiles"
    reason = (
        f"{pairs:.3g} of {all_pairs:.3g} pairs of rows lie within {cutoff:.3g}" if cutoff else "no pair is left out"
    )
    sketch = "none"
    if n >= _SKETCHED:
        by_fft = pairs >= _LONG and has_finufft() and d <= 3 and modes(points, kernel.sigma, 1e-10)[0] <= _MODES
        sketch = "finufft" if by_fft else "cholesky"
        reason += f"; the start comes from {'pivoted Cholesky' if sketch == 'cholesky' else 'FINUFFT'}"
    return Plan(exact, reason, cutoff, sketch, operator, pairs, operator.bytes)


def stored_pays(n: int, d: int, share: float) -> bool:
    """Tell whether a solve is faster with the stored matrix than with tiles of that share of the pairs."""
    size = 8 * n * n
    small, large, wide = _STORED
    tiles = share * _APPLICATIONS * (_PAIR[0] + _PAIR[1] * d)
    return size <= 1 << 30 and tiles > (small if size < _LARGE else large) + wide * d


def _size(n: int) -> str:
    return f"{n} rows: the matrix takes {8 * n * n / 2**20:.1f} MB"


# ---- matrices that are there -----------------------------------------------------------------------------------------


class Stored:
    """The matrix of a kernel on n rows over 2^power, kept whole and symmetric to the bit; below the floor it is 0."""

    def __init__(self, kernel: Kernel, points: Any, threads: int, floor: float = 0.0, power: int = 0) -> None:
        self.kernel, self.points, self.threads, self._floor, self.power = kernel, points, threads, floor, power
        self.n = points.shape[0]

    @cached_property
    def matrix(self) -> Floats:
        """The matrix, made when it is first asked for: other rows can do without."""
        return self._tile(self.points)

    def _tile(self, Y: Any) -> Floats:
        tile = scaled(self.kernel.tile(Y, self.points, self.threads), -self.power)
        if self._floor > 0:
            tile[tile < self._floor] = 0.0
        return tile

    def diag(self) -> Floats:
        """Return the diagonal, (n,)."""
        return self.matrix.diagonal().copy()

    def rows(self, i: NDArray[np.int64]) -> Floats:
        """Return the rows i, (m, n)."""
        return self.matrix[i]

    def apply(self, B: Floats) -> Floats:
        """Return A B."""
        return times(self.matrix, B, self.threads)

    def apply_rows(self, Y: Any, B: Floats) -> Floats:
        """Return κ(Y, X) B, a block of rows at a time."""
        out = np.empty((Y.shape[0], B.shape[1]))
        height = max(1, _BLOCK // self.n)
        for begin in range(0, Y.shape[0], height):
            out[begin : begin + height] = times(self._tile(Y[begin : begin + height]), B, self.threads)
        return out


def store(
    kernel: Kernel, points: Any, threads: int, owner: str, *, whole: bool = False, power: int | None = None
) -> Stored:
    """Compute the matrix of a kernel, and refuse what cannot be an affinity; `whole` keeps the smallest values too.

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
    floor = 0.0 if whole or not isinstance(kernel, Gaussian) else 2.0**-53 / n
    stored = Stored(kernel, points, threads, floor)
    if not isinstance(kernel, Gaussian):  # symmetric to the bit and in [0, 1] by itself
        check_matrix(stored.matrix, f"{owner}: the affinity {kernel.name!r}", threads, negative=False)
        stored.power = affinity_power(largest_of(stored.matrix)) if power is None else power
        matrix = scaled(stored.matrix, -stored.power)
        stored.matrix = (matrix + matrix.T) / 2
    return stored


class Links:
    """A sparse graph of our own making: compressed rows, symmetric, columns sorted; no check is needed."""

    def __init__(self, matrix: Any) -> None:
        self.matrix, self.n = matrix, matrix.shape[0]

    def diag(self) -> Floats:
        """Return the diagonal, (n,)."""
        return np.asarray(self.matrix.diagonal())

    def rows(self, i: NDArray[np.int64]) -> Floats:
        """Return the rows i, (m, n)."""
        return np.asarray(self.matrix[i].toarray())

    def apply(self, B: Floats) -> Floats:
        """Return A B."""
        return np.asarray(self.matrix @ B)

    def apply_rows(self, Y: Any, B: Floats) -> Floats:
        """Return the rows of links Y times B; a row's bits do not depend on the others."""
        return np.asarray(Y @ B)


class ZeroDiagonal:
    """A − diag(A): Ng, Jordan and Weiss leave a row's link to itself out.

    Rows whose other links are few beside A_ii are summed anew without it, since a difference would lose their digits.
    """

    def __init__(self, operator: Affinity, twin: Any) -> None:
        self.operator, self.n = operator, operator.n
        self._twin = twin  # rows Y → the training row that each is taken to be, or −1
        self._diagonal = operator.diag()
        degree = operator.apply(np.ones((self.n, 1)))[:, 0] - self._diagonal
        self._low = np.flatnonzero(degree < _FEW * self._diagonal)

    def diag(self) -> Floats:
        """Return zeros."""
        return np.zeros(self.n)

    def rows(self, i: NDArray[np.int64]) -> Floats:
        """Return the rows i, (m, n)."""
        out = np.array(self.operator.rows(i))
        out[np.arange(len(i)), i] = 0.0
        return out

    def apply(self, B: Floats) -> Floats:
        """Return A B without the diagonal."""
        out = self.operator.apply(B) - self._diagonal[:, None] * B
        self._anew(self._low, self._low, B, out)
        return out

    def apply_rows(self, Y: Any, B: Floats) -> Floats:
        """Return κ(Y, X) B; a row that equals one of the fit is taken to be that row."""
        out = np.array(self.operator.apply_rows(Y, B))
        twins = self._twin(Y)
        own = np.flatnonzero(twins >= 0)
        out[own] -= self._diagonal[twins[own], None] * B[twins[own]]
        low = own[np.isin(twins[own], self._low)]
        self._anew(low, twins[low], B, out)
        return out

    def _anew(self, places: NDArray[Any], rows: NDArray[Any], B: Floats, out: Floats) -> None:
        height = max(1, _BLOCK // self.n)
        for begin in range(0, len(places), height):
            some = slice(begin, begin + height)
            out[places[some]] = times(self.rows(rows[some].astype(np.int64)), B)


# ---- what is at hand -----------------------------------------------------------------------------------------------


def has_finufft() -> bool:
    """Tell whether FINUFFT is installed; it is an extra, "fast"."""
    return importlib.util.find_spec("finufft") is not None


def modes(points: NDArray[Any], sigma: float, tol: float) -> tuple[int, Floats, float]:
    """Size the Fourier grid for a Gaussian of width σ to a tolerance: number of modes, period, highest frequency.

    The last two are for the points and σ of `level`.
    """
    points, sigma = level(points, sigma)
    reach = sigma * np.sqrt(2 * np.log(1 / tol))
    extent = np.ptp(points, axis=0)
    if not (extent < _FAR).all():
        return 2**62, extent, np.inf
    period = extent + reach  # images of the data must not be felt
    top = reach / sigma / sigma  # where the transform has fallen to the tolerance
    counts = 2 * np.ceil(top * period / (2 * np.pi)) + 2
    return int(min(np.prod(counts), 2**62)), period, float(top)


def level(points: NDArray[Any], sigma: float) -> tuple[Floats, float]:
    """Divide points and σ by a power of two, so that σ is near one; points farther than float64 reaches are clipped."""
    power = int(np.frexp(sigma)[1])
    with np.errstate(over="ignore", under="ignore"):
        near = np.clip(np.ldexp(points.astype(np.float64, copy=False), -power), -_FAR, _FAR)
    return near, float(np.ldexp(sigma, -power))


def _need_finufft(points: NDArray[Any], sigma: float, owner: str) -> None:
    if points.shape[1] > 3:
        raise BadData(
            f"{owner}: operator='finufft' is for at most 3 columns, X has {points.shape[1]}. Use operator='auto'."
        )
    if not has_finufft():
        raise BadData(f"{owner}: operator='finufft' needs FINUFFT. Install it with pip install knoll[fast].")
    if modes(points, sigma, 1e-10)[0] > _MODES:
        raise BadData(
            f"{owner}: sigma={sigma:g} is so small beside the extent of X that its Fourier grid would have more than "
            f"{_MODES} modes. Use operator='truncated'."
        )
