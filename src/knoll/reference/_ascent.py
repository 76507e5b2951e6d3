"""One step of the ascent, shared by boxes 9 and 10: x_new ← mean of N_ε(x), always in the static X   (eq. 5.12)."""

from __future__ import annotations

import numpy as np

from knoll._typing import Bools, Floats
from knoll.reference._common import mean, squared_distances, within


class Ascent:
    """The moving copy of X: the position of each point, its neighbours, and the sets of neighbours it has had.

    The next position is a function of the *set* of neighbours alone, so a set that repeats is the end of the
    path; a small step is not (docs/theory/errata.md item 14).
    """

    def __init__(self, X: Floats, eps: float) -> None:
        self.X, self.eps = X, eps
        self.X_climb = X.copy()  # (n, d)
        self.d2 = squared_distances(X, X)  # (n, n) from moving to static points
        self.N: Bools = within(self.d2, eps)  # (n, n) row i is N_ε(x_i)
        self.visited = [{row.tobytes()} for row in self.N]

    def step(self, i: np.intp) -> bool:
        """Move point i to the mean of its neighbours; False when its path has ended."""
        x_new = mean(self.X[self.N[i]])
        d2 = squared_distances(x_new[None], self.X)[0]
        N_new = within(d2, self.eps)
        if not N_new.any():  # only where ε is below the rounding of the coordinates
            return False
        self.X_climb[i], self.d2[i], self.N[i] = x_new, d2, N_new
        key = N_new.tobytes()
        new = key not in self.visited[i]
        self.visited[i].add(key)
        return new

    def altitude(self) -> Floats:
        """f(y_i) = Σ_j max(0, ε² − ‖y_i − x_j‖²): (n,), which no step decreases   (eq. 6.1, 6.2)."""
        height: Floats = np.maximum(0, self.eps * self.eps - self.d2).sum(axis=1)
        return height
