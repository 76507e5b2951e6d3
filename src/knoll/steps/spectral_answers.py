"""What a fitted spectral clustering answers: labels of other rows, A itself, and what the labels are worth."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from knoll.base import Estimator
from knoll.steps import partition
from knoll.steps import spectral as steps
from knoll.steps.affinity import Source, Wish, digest
from knoll.steps.extension import Extension
from knoll.steps.scaling import scaled
from knoll.steps.spectral_door import points_of
from knoll.steps.spectral_solve import Demand, solve

__all__ = ["SpectralAnswers"]

Floats = NDArray[np.float64]

_TOL = 1e-8  # what eigen_tol="auto" means
_MATRIX_BYTES = 1 << 30  # of an affinity matrix that is made on request


class SpectralAnswers(Estimator):
    """The part of SpectralClustering that needs no more than what a fit left."""

    row_scaling: str
    formulation: str
    eigen_solver: str | None
    operator: str
    eigen_tol: Any
    max_iter: int
    zero_diagonal: bool
    n_clusters_: int
    fit_points_: Any
    graph_: Any
    radius_: Floats | None
    graph_digest_: str
    affinity_power_: int  # graph_ and extension_ are in units of A over 2^affinity_power_
    sigma_: float | None
    operator_: str
    cutoff_: float
    rule_: dict[str, Any]
    inertia_: float
    extension_: Floats
    eigenvalues_: Floats
    next_eigenvalue_: float | None
    embedding_: NDArray[Any]
    fit_labels_: NDArray[np.int32]
    links_: Floats | None

    def predict(self, X: ArrayLike) -> NDArray[np.int32]:
        """Label rows by the Nyström extension of the embedding; training rows get their `labels_`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_queries, n_features), or (n_queries, n_samples)
            Points; or their similarities (distances) to the rows of the fit where `affinity` takes such.

        Returns
        -------
        ndarray of shape (n_queries,) of int32
            The labels.
        """
        check_is_fitted(self)
        queries, _ = points_of(X, self._wish(), self, self._threads(), reset=False)
        return self._predict(queries)[0]

    def _wish(self) -> Wish:
        names = ("affinity", "gamma", "sigma", "n_neighbors", "degree", "coef0", "kernel_params", "zero_diagonal")
        return Wish(**{name: getattr(self, name) for name in names})

    def _source(self) -> Source:
        """Take up A of the fit again."""
        wish, power = self._wish(), self._power()
        if wish.graph:
            options = {"graph": self.graph_, "radius": self.radius_, "name": self.graph_digest_, "power": power}
            return Source(wish, self.fit_points_, **options)
        if self.sigma_ is not None:
            wish = replace(wish, gamma=None, sigma=self.sigma_)
        kernel, sigma, reason = wish.kernel(self.fit_points_, None, self._threads())
        return Source(wish, self.fit_points_, kernel, sigma, reason, power=power)

    def _row_scaling(self) -> str:
        """Return the scaling of the fit; models from before it was kept have it as a parameter."""
        named = vars(self).get("row_scaling_", self.row_scaling)
        return "unit" if named == "auto" else str(named)

    def _power(self) -> int:
        """Return the power of two that similarities were divided by; models from before it was kept divided by none."""
        return int(vars(self).get("affinity_power_", 0))

    def _predict(self, queries: Any) -> tuple[NDArray[np.int32], Floats]:
        """Label and embed rows."""
        threads, source = self._threads(), self._source()
        if source.name and queries.shape[0] == len(self.fit_labels_) and digest(queries) == source.name:
            return np.array(self.fit_labels_), self.embedding_  # the graph of the fit itself
        rule = partition.Rule(self.rule_["kind"], self.rule_["matrix"], self.inertia_)
        extension = Extension(
            source, self.extension_, rule, self.fit_labels_, self._row_scaling(), int(self.n_clusters_)
        )
        return extension(source.operator(self.operator_, self.cutoff_, threads), queries, threads)

    @property
    def affinity_matrix_(self) -> Any:
        """A, where it takes at most 1 GB: kept for graphs, computed for kernels."""
        check_is_fitted(self)
        if self.graph_ is not None:
            return scaled(self.graph_, self._power())
        points = np.asarray(self.fit_points_)
        if 8 * len(points) ** 2 > _MATRIX_BYTES:
            raise AttributeError(
                f"affinity_matrix_ of {len(points)} rows would take {8 * len(points) ** 2 / 2**30:.1f} GB; it is made "
                "for at most 1 GB."
            )
        kernel: Any = self._source().kernel
        matrix = kernel.tile(points, points, self._threads())
        if self.zero_diagonal:
            np.fill_diagonal(matrix, 0.0)
        return matrix

    def _tol(self) -> float:
        return _TOL if self.eigen_tol == "auto" else float(self.eigen_tol)

    def _demand(self, m: int, k: int, seed: int, threads: int, gap: bool, hook: steps.Hook | None = None) -> Demand:
        """Ask for m pairs and up to k components."""
        most = int(self.max_iter)
        return Demand(m, k, self.eigen_solver, self.operator, self._tol(), most, seed, threads, gap, hook)

    @property
    def eigengap_(self) -> float:
        """The last of the eigenvalues minus the next."""
        check_is_fitted(self)
        if self.next_eigenvalue_ is None:
            m, w = len(self.eigenvalues_), np.ascontiguousarray(self.extension_[:, -1])
            demand = self._demand(m, m, 0, self._threads(), gap=True)
            self.next_eigenvalue_ = solve(self._source(), w, demand).spectrum.following
        return float(self.eigenvalues_[-1] - np.float64(self.next_eigenvalue_))

    @property
    def normalized_cut_(self) -> float:
        """(1/k) Σ_c links(V_c, V∖V_c)/links(V_c, V) of the labels (eq. 4.12); a cluster without links counts 0."""
        within, volume = self._cut()[:2]
        linked = volume > 0
        return float(np.maximum(1 - within[linked] / volume[linked], 0.0).sum() / len(volume))

    @property
    def objective_(self) -> float:
        """The normalized cut, or kernel k-means' trace Σ_c (Σ_ij w_i K_ij w_j)/Σ_i w_i with w = 1/d (eq. 4.6)."""
        if self.formulation == "graph":
            return self.normalized_cut_
        return float(self._cut()[2].sum())

    def _cut(self) -> Floats:
        check_is_fitted(self)
        if self.links_ is None:
            operator = self._source().operator(self.operator_, self.cutoff_, self._threads())
            w = np.ascontiguousarray(self.extension_[:, -1])
            degrees = operator.apply(w[:, None])[:, 0]
            self.links_ = steps.cut_terms(operator, self.fit_labels_, int(self.n_clusters_), w, degrees)
        return np.asarray(self.links_)
