"""What estimators of mixed tables share: how X is read by a fit, and by a fitted model."""

from __future__ import annotations

from typing import Any, ClassVar

from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from knoll._common.mixed_table import MixedTable, read_mixed
from knoll._typing import Floats
from knoll.base import Estimator
from knoll.validation import check_weights

__all__ = ["MixedColumns", "MixedEstimator"]


class MixedEstimator(Estimator):
    """An estimator with `categorical_features` that takes data frames, arrays and `MixedTable`."""

    categorical_features: Any
    _rules: ClassVar = {}

    def __sklearn_tags__(self) -> Any:
        """Declare that missing values and categories are accepted."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags

    def _read(self, X: Any, sample_weight: ArrayLike | None) -> tuple[MixedTable, Floats | None, Any]:
        """Read the rows of a fit, their weights and the dtype of the numbers, and keep columns and levels."""
        table, self.is_categorical_, dtype = read_mixed(
            X, estimator=self, categorical_features=self.categorical_features
        )
        weights = check_weights(sample_weight, len(table), owner=type(self).__name__)
        table = table.without_absent(weights)
        self.categories_ = table.levels
        return table, weights, dtype

    def _peek(self, X: Any) -> MixedTable:
        """Read rows without keeping anything."""
        return read_mixed(X, estimator=MixedColumns(), categorical_features=self.categorical_features)[0]

    def _table(self, X: Any) -> tuple[MixedTable, Any]:
        """Read rows with the columns and levels of the fit."""
        check_is_fitted(self)
        table, _, dtype = read_mixed(X, estimator=self, fitted=(self.is_categorical_, self.categories_))
        return table, dtype

    def _weighted(self, X: Any, sample_weight: Any) -> tuple[MixedTable, Floats | None]:
        table, _ = self._table(X)
        return table, check_weights(sample_weight, len(table), owner=type(self).__name__)


class MixedColumns(Estimator):
    """Takes names and number of the columns where no estimator shall keep them."""
