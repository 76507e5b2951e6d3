"""The door of the pictures of models: what is drawn must be fitted, and have what the picture shows."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from knoll.exceptions import InvalidType

__all__ = ["check_model"]


def check_model(model: Any, owner: str, kind: str, *needs: str) -> None:
    """Refuse a model that is not fitted, or lacks what `owner`, a picture of `kind`, draws."""
    if hasattr(model, "fit"):
        check_is_fitted(model)
    for name in needs:
        if not hasattr(model, name):
            raise InvalidType(
                f"{owner} draws {kind}, got {type(model).__name__}, which has no {name}. "
                "plots.scatter(X, labels) draws any model's answer."
            )
