"""The map of operators: how long each product with a Gaussian affinity takes, over n, d and σ, and what is taken.

    python -m benchmarks.operators              the whole map, some minutes; writes docs/operators.md
    python -m benchmarks.operators --rows 5000  a subset, printed only; --write puts it into the page

A solve is modelled as the setting up of an operator and twelve applications to twelve columns: seconds of processor
time, one thread, so that other work on the machine does not count. What would take longer than some seconds is
estimated from fewer rows (marked ≈): all pairs grow with n², and the cost of a pair is measured.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import describe
from knoll.kernels import Gaussian
from knoll.spectral.eigen import inner, times
from knoll.spectral.low_rank import fourier_grid, gauss_sum, has_finufft
from knoll.spectral.route import choose_route, store

PAGE = Path(__file__).resolve().parents[1] / "docs" / "operators.md"
ROWS = (2_000, 5_000, 10_000, 50_000, 200_000)
COLUMNS = (1, 2, 3, 5, 10, 30)
SHARES = (0.03, 0.1, 0.3, 1.0)  # σ over the data's scale, the root of the mean variance of a column
APPLICATIONS, WIDTH = 12, 12
PAIRS = 3e8  # above these one application is estimated from fewer rows
EXACT = ("stored", "tiles", "truncated")
PROBE = 10_000  # rows for the test of the kernel's rank
RANK, LEFT = 640, 1e-4  # of a factorisation, as the starts of a solve need it


@dataclass(frozen=True)
class Time:
    """Seconds for setting up and for one application; whether they were measured in full."""

    setup: float
    apply: float
    measured: bool = True
    note: str = ""

    @property
    def solve(self) -> float:
        return self.setup + APPLICATIONS * self.apply

    def __str__(self) -> str:
        return f"{'' if self.measured else '≈'}{self.solve:.2g}{self.note}"


def clouds(n: int, d: int, seed: int = 0) -> np.ndarray:
    """Eight clouds of deviation 1 whose centres have deviation 3."""
    generator = np.random.default_rng(seed)
    return generator.normal(size=(n, d)) + 3 * generator.normal(size=(8, d))[generator.integers(8, size=n)]


def cpu(call: Callable[[], Any], least: float = 0.05) -> tuple[float, Any]:
    """Time a call: the best of two, or of more where it is short."""
    best, spent, result = np.inf, 0.0, None
    for _ in range(20):
        begun = time.process_time()
        result = call()
        took = time.process_time() - begun
        best, spent = min(best, took), spent + took
        if spent > least:
            break
    return float(best), result


def stored(X: np.ndarray, sigma: float) -> Time | None:
    if 8 * len(X) ** 2 > 1 << 30:
        return None  # more than a matrix may take
    setup, _ = cpu(lambda: store(Gaussian(sigma), X, 1, "operators").matrix)
    operator = store(Gaussian(sigma), X, 1, "operators")
    operator.apply(np.ones((len(X), 1)))  # makes the matrix
    apply, _ = cpu(lambda: operator.apply(np.ones((len(X), WIDTH))))
    return Time(setup, apply)


def tiles(X: np.ndarray, sigma: float, cutoff: float = 0.0) -> Time:
    setup, operator = cpu(lambda: Gaussian(sigma).operator(X, 1, cutoff))
    pairs: Any = operator.pairs
    if pairs <= PAIRS:
        return Time(setup, cpu(lambda: operator.apply(np.ones((len(X), WIDTH))))[0])
    fewer = np.ascontiguousarray(X[: int(np.sqrt(PAIRS))])  # a random subset: the rows have no order
    small = Gaussian(sigma).operator(fewer, 1, cutoff)
    took, _ = cpu(lambda: small.apply(np.ones((len(fewer), WIDTH))))
    return Time(setup, took * float(pairs) / float(small.pairs), measured=False)  # type: ignore[attr-defined]


def truncated(X: np.ndarray, sigma: float) -> Time:
    return tiles(X, sigma, Gaussian(sigma).cutoff(len(X)))


def finufft(X: np.ndarray, sigma: float) -> Time | None:
    if X.shape[1] > 3 or not has_finufft() or fourier_grid(X, sigma, 1e-10)[0] > 2**24:
        return None
    setup, multiply = cpu(lambda: gauss_sum(X, sigma, 1e-9, 1))
    return Time(setup, cpu(lambda: multiply(np.ones((len(X), WIDTH))))[0])


def cholesky(X: np.ndarray, sigma: float) -> Time | None:
    if 8 * len(X) * (RANK + 96) > 1 << 31:
        return None
    if len(X) > 2 * PROBE and cholesky(X[:PROBE], sigma) is None:
        return None  # what a subset of the rows refuses, all of them do, after a minute
    core: Any = Gaussian(sigma).operator(X, 1, Gaussian(sigma).cutoff(len(X)))
    begun = time.process_time()
    factor, _, left = core.core.pivoted_cholesky(min(RANK, len(X)), LEFT, 1)
    setup = time.process_time() - begun
    if float(left.max()) > 0.2:
        return None  # refused: the kernel is not of low rank
    B = np.ones((len(X), WIDTH))
    return Time(setup, cpu(lambda: times(factor, inner(factor, B)))[0], note=f" (rank {factor.shape[1]})")


OPERATORS: dict[str, Callable[[np.ndarray, float], Time | None]] = {
    "stored": stored,
    "tiles": tiles,
    "truncated": truncated,
    "finufft": finufft,
    "cholesky": cholesky,
}


@dataclass(frozen=True)
class GridPoint:
    """One point of the map."""

    n: int
    d: int
    share: float
    times: dict[str, Time]
    taken: str
    start: str

    @property
    def best(self) -> str:
        return min((name for name in EXACT if name in self.times), key=lambda name: self.times[name].solve)

    @property
    def ratio(self) -> float:
        return self.times[self.taken].solve / self.times[self.best].solve


def visit(n: int, d: int, share: float) -> GridPoint:
    X = clouds(n, d)
    sigma = share * float(np.sqrt(X.var(axis=0).mean()))
    found = {name: took for name, solve in OPERATORS.items() if (took := solve(X, sigma)) is not None}
    route = choose_route(Gaussian(sigma), X, "auto", 1, whole=False, owner="operators")
    return GridPoint(n, d, share, found, route.name, route.sketch)


HEAD = ("n", "d", "σ / scale", *OPERATORS, "fastest exact", "auto takes", "auto / fastest")


def row(point: GridPoint) -> list[str]:
    cells = [str(point.times.get(name, "–")) for name in OPERATORS]
    begun = "" if point.start == "none" else f", start by {point.start}"
    taken = f"{point.taken}{begun}"
    return [f"{point.n:,}", str(point.d), f"{point.share:g}", *cells, point.best, taken, f"{point.ratio:.2f}"]


def rows_of(text: str) -> dict[tuple[int, int, float], list[str]]:
    """Read the table of a page again: where, and what its cells contain."""
    found = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == len(HEAD) and cells[0].replace(",", "").isdigit():
            found[int(cells[1]), int(cells[0].replace(",", "")), float(cells[2])] = cells
    return found


def page(rows: dict[tuple[int, int, float], list[str]]) -> str:
    """Write the page: rows by columns of X, then rows, then σ."""
    ratios = [float(cells[-1]) for cells in rows.values()]
    close = sum(ratio <= 1.1 for ratio in ratios)
    lines = [
        "# The map of operators",
        "",
        f"Seconds of processor time of one thread for a solve of {APPLICATIONS} applications to {WIDTH} columns, the "
        "setting up included, by each method to multiply by a Gaussian affinity: eight clouds of deviation 1 whose "
        "centres have deviation 3, σ over the scale of a column. The first three methods are exact to rounding; the "
        "other two are what a solve may begin from ([decision 0016](decisions/0016-spectral.md)). ≈: estimated from "
        "fewer rows. –: not to be had (more than 1 GB, more than 3 columns, not of low rank).",
        "",
        f'{date.today()}, {describe()["cpu"]}. At worst `operator="auto"` takes {max(ratios):.2f} times as long as the '
        f"fastest exact method; in {close} of {len(ratios)} grid points at most a tenth longer. "
        "Written by `python -m benchmarks.operators`.",
        "",
        "| " + " | ".join(HEAD) + " |",
        "|" + "---|" * len(HEAD),
        *("| " + " | ".join(rows[where]) + " |" for where in sorted(rows)),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operators", description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, nargs="*", help="these numbers of rows only")
    parser.add_argument("--columns", type=int, nargs="*", help="these numbers of columns only")
    parser.add_argument("--write", action="store_true", help="put a subset of the map into the page")
    options = parser.parse_args()
    subset = bool(options.rows or options.columns)
    rows = rows_of(PAGE.read_text(encoding="utf-8")) if subset else {}
    print(" ".join(f"{name:>14}" for name in HEAD), flush=True)
    for d in options.columns or COLUMNS:
        for n in options.rows or ROWS:
            for share in SHARES:
                rows[d, n, share] = row(visit(n, d, share))
                print(" ".join(f"{cell:>14}" for cell in rows[d, n, share]), flush=True)
        if options.write or not subset:  # as far as it has come
            PAGE.write_text(page(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
