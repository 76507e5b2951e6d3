"""Labelled rows as a model: a new row has the label of the nearest one."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from knoll._schema import Array
from knoll._typing import Ints
from knoll.base import Estimator, all_or_nothing
from knoll.exceptions import BadData
from knoll.neighbors.index import UniqueRowIndex
from knoll.validation import N_JOBS, check_points


class NearestRows(Estimator):
    """Any partition as a model that labels new rows: each has the label of its nearest row of the fit.

    Of equally near rows the one with the lexicographically smallest coordinates counts, so the labels of new rows do
    not depend on the order of the rows of the fit. Equal rows have the label of the first of them.

    Parameters
    ----------
    n_jobs : int or None, default=None
        Threads; None uses every CPU we may use.

    Attributes
    ----------
    points_ : ndarray of shape (n_samples, n_features)
        The rows.
    labels_ : ndarray of shape (n_samples,)
        Their labels, −1 for noise; `predict(X)` of the rows of the fit.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where X has any.

    Examples
    --------
    >>> from knoll.neighbors import NearestRows
    >>> NearestRows().fit([[0.0], [1.0], [5.0]], [0, 0, 1]).predict([[0.4], [4.0]])
    array([0, 1])
    """

    _rules: ClassVar = {"n_jobs": N_JOBS}
    _fitted: ClassVar = {"points_": Array("n d"), "labels_": Array("n", "int64", low=-1, below="n")}

    def __init__(self, *, n_jobs: int | None = None) -> None:
        self.n_jobs = n_jobs

    @all_or_nothing
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Keep the rows and their labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows.
        y : array-like of shape (n_samples,)
            Their labels: whole numbers from 0 on, −1 for noise.

        Returns
        -------
        NearestRows
            The fitted estimator.
        """
        self._check_parameters()
        points = check_points(X, estimator=self, n_jobs=self._threads())
        labels = np.asarray(y)
        if labels.shape != (len(points),) or labels.dtype.kind not in "iu":
            raise BadData(f"y must have a whole number for each of {len(points)} rows, got shape {labels.shape}.")
        if labels.min() < -1 or labels.max() >= len(points):
            raise BadData(f"y must be from -1 to {len(points) - 1}, got {labels.min()} to {labels.max()}.")
        self.points_, self.labels_ = np.array(points), labels.astype(np.int64)
        self.labels_ = self.predict(points)
        return self

    def predict(self, X: ArrayLike) -> Ints:
        """Return the label of the nearest row of the fit.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            The rows to label.

        Returns
        -------
        ndarray of shape (n_queries,)
            The labels, −1 for noise.
        """
        check_is_fitted(self)
        queries: Any = check_points(X, estimator=self, reset=False, n_jobs=self._threads())
        index = UniqueRowIndex(self.points_, np.inf, "euclidean", 2.0, self._threads())
        labels: Ints = self.labels_[index.nearest(queries)[0]]
        return labels
