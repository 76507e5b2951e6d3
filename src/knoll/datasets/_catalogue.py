"""The list of datasets by name."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from typing import Any

from knoll.datasets import _paper, _tables
from knoll.datasets._types import Dataset
from knoll.exceptions import InvalidParameter, InvalidType

_LOADERS: dict[str, Callable[..., Dataset]] = {
    "one_gaussian": _paper.one_gaussian,
    "x1500": _paper.x1500,
    "circles": _paper.circles,
    "banana": _paper.banana,
    "three_component_density": _paper.three_component_density,
    "iris": _tables.iris,
    "wine": _tables.wine,
    "breast_cancer": _tables.breast_cancer,
    "digits": _tables.digits,
    "diabetes": _tables.diabetes,
    "linnerud": _tables.linnerud,
}


def names() -> list[str]:
    """Return the names that :func:`load` takes: the paper's data in its order, then scikit-learn's tables.

    Examples
    --------
    >>> from knoll import datasets
    >>> datasets.names()[:3]
    ['one_gaussian', 'x1500', 'circles']
    """
    return list(_LOADERS)


def load(name: str, **options: Any) -> Dataset:
    """Return the dataset of that name.

    Parameters
    ----------
    name : str
        One of :func:`names`; case, hyphens and blanks do not matter.
    **options
        Passed on to the function of that name, e.g. ``n_samples``, ``noise``, ``random_state``.

    Returns
    -------
    Dataset
        A fresh copy.

    Examples
    --------
    >>> from knoll import datasets
    >>> datasets.load("circles", n_samples=80).X.shape
    (80, 2)
    """
    if not isinstance(name, str):
        raise InvalidType(f"name must be a string, got {name!r}. knoll.datasets.names() lists the names.")
    key = name.strip().lower().replace("-", "_").replace(" ", "_")
    if key not in _LOADERS:
        close = difflib.get_close_matches(key, _LOADERS, n=3)
        hint = f"Did you mean {' or '.join(map(repr, close))}?" if close else f"Known: {', '.join(_LOADERS)}."
        raise InvalidParameter(f"there is no dataset named {name!r}. {hint} knoll.datasets.names() lists them all.")
    loader = _LOADERS[key]
    unknown = options.keys() - inspect.signature(loader).parameters.keys()
    if unknown:
        known = ", ".join(inspect.signature(loader).parameters) or "none"
        raise InvalidParameter(f"dataset {key!r} has no option {min(unknown)!r}. Its options: {known}.")
    return loader(**options)
