"""Data to try things on: the paper's pictures, seeded, and scikit-learn's tables, under one interface.

Every loader returns a fresh :class:`Dataset`; :func:`names` lists them and :func:`load` takes a name.

>>> from knoll import datasets
>>> data = datasets.load("x1500")
>>> data.X.shape, data.target_names
((1500, 2), ('left', 'right', 'upper'))
"""

from __future__ import annotations

from knoll.datasets._catalogue import load, names
from knoll.datasets._paper import banana, circles, one_gaussian, three_component_density, x1500
from knoll.datasets._tables import breast_cancer, diabetes, digits, iris, linnerud, wine
from knoll.datasets._types import Dataset, Mixture

__all__ = [
    "Dataset",
    "Mixture",
    "banana",
    "breast_cancer",
    "circles",
    "diabetes",
    "digits",
    "iris",
    "linnerud",
    "load",
    "names",
    "one_gaussian",
    "three_component_density",
    "wine",
    "x1500",
]
