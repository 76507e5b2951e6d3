"""Validation of what is drawn: a fitted model with the attributes of the picture, and points with its columns."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from knoll.exceptions import BadData, InvalidType
from knoll.plots.plane import Plane
from knoll.validation import check_points


def check_model(model: Any, owner: str, expected: str, *attributes: str) -> None:
    """Raise an error for a model that is not fitted, or lacks an attribute that `owner` draws."""
    if hasattr(model, "fit"):
        check_is_fitted(model)
    for name in attributes:
        if not hasattr(model, name):
            raise InvalidType(
                f"{owner} draws {expected}, got {type(model).__name__}, which has no {name}. "
                "plots.scatter(X, labels) draws the labels of any model."
            )


def check_drawn(X: ArrayLike, n_features: int | None = None) -> NDArray[Any]:
    """Return the points, which must have the columns of the model."""
    points = check_points(X)
    if n_features is not None and points.shape[1] != n_features:
        raise BadData(f"X has {points.shape[1]} columns, and the model was fitted to {n_features}.")
    return points


def plane_of(X: ArrayLike, n_features: int | None = None) -> tuple[NDArray[Any], Plane]:
    """Return the points, which must have the columns of the model, and their plane."""
    points = check_drawn(X, n_features)
    return points, Plane.of_points(points, _strings(X, "columns"))


def feature_names(model: Any) -> list[str] | None:
    """Return the names of the columns that the model was fitted to, if there are any."""
    return _strings(model, "feature_names_in_")


def _strings(source: Any, attribute: str) -> list[str] | None:
    return [str(name) for name in getattr(source, attribute)] if hasattr(source, attribute) else None
