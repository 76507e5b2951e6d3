"""The classes that a model file may hold: a file names one of these, and nothing else is imported."""

from __future__ import annotations

from knoll.base import Estimator
from knoll.registry import METHODS, Method

_OTHERS = (  # which `knoll fit` and `knoll.compare` do not offer
    Method("density-tree", "density tree", "knoll.density.DensityTree"),
    Method("nearest-rows", "nearest rows", "knoll.neighbors.NearestRows"),
)


def class_names() -> tuple[str, ...]:
    """Return the names of the classes."""
    return tuple(sorted(method.estimator_name for method in (*METHODS.values(), *_OTHERS) if method.estimator))


def find_class(name: str) -> type[Estimator] | None:
    """Return the class of a name, if there is one."""
    found = next((method for method in (*METHODS.values(), *_OTHERS) if method.estimator_name == name), None)
    return None if found is None else found.estimator_class()
