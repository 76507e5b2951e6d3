"""knoll: clustering as one family, exact and fast.

Names are loaded when first used, so that ``import knoll`` costs nothing and ``knoll --help`` answers at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "Gaussian": "knoll.gaussian",
    "MeanShift": "knoll.mean_shift",
    "show_build": "knoll.build",
}
_MODULES = ("datasets", "exceptions", "metrics", "plots", "reference")

__all__ = [
    "Gaussian",
    "MeanShift",
    "__version__",
    "datasets",
    "exceptions",
    "metrics",
    "plots",
    "reference",
    "show_build",
]

if TYPE_CHECKING:
    from knoll import datasets, exceptions, metrics, plots, reference
    from knoll.build import show_build
    from knoll.gaussian import Gaussian
    from knoll.mean_shift import MeanShift
else:

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return importlib.import_module(f"knoll.{name}")
        if name in _HOME:
            return getattr(importlib.import_module(_HOME[name]), name)
        raise AttributeError(f"module 'knoll' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
