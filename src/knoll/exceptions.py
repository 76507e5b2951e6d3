"""The errors and warnings of knoll.

    KnollError
    ├── InvalidParameter   (ValueError)    a parameter breaks its rule; the message names value, rule and remedy
    │   └── InvalidType    (TypeError)     ... because it is of the wrong type
    ├── BadData            (ValueError)    the data cannot be used; the message names row, column and remedy
    ├── CostError          (MemoryError)   the fit exceeds the memory; the message has the figure and the remedy
    ├── ModelFileError     (ValueError)    a saved model cannot be read
    └── EngineError        (RuntimeError)  the processes that compute cannot go on, or do not agree

    Cancelled              (RuntimeError)  a `CancelToken` stopped the computation; nothing is wrong with it

    KnollWarning           (UserWarning)
    ├── ConvergenceWarning                 the loop ended before its criterion was met (scikit-learn's too)
    ├── CollapsedComponentWarning          a covariance became singular and was floored
    ├── SuspiciousResultWarning            the result is defined but suspicious (all noise, one cluster)
    ├── ApproximationWarning               an approximate route was taken, with its error
    └── DisconnectedGraphWarning           the similarity graph is disconnected

Every error that a user can fix is a KnollError beside the built-in that scikit-learn's users expect.
"""

from __future__ import annotations

from sklearn.exceptions import ConvergenceWarning as _SklearnConvergenceWarning

from knoll._core import Cancelled

__all__ = [
    "ApproximationWarning",
    "BadData",
    "Cancelled",
    "CollapsedComponentWarning",
    "ConvergenceWarning",
    "CostError",
    "DisconnectedGraphWarning",
    "EngineError",
    "InvalidParameter",
    "InvalidType",
    "KnollError",
    "KnollWarning",
    "ModelFileError",
    "SuspiciousResultWarning",
]


class KnollError(Exception):
    """The root of everything knoll raises on purpose."""


class InvalidParameter(KnollError, ValueError):
    """A parameter breaks its rule."""


class InvalidType(InvalidParameter, TypeError):
    """A parameter is of the wrong type."""


class BadData(KnollError, ValueError):
    """The data cannot be used as it is."""


class CostError(KnollError, MemoryError):
    """The fit would need more memory than there is."""


class ModelFileError(KnollError, ValueError):
    """A saved model cannot be read."""


class EngineError(KnollError, RuntimeError):
    """The processes that compute cannot go on, or do not agree."""


class KnollWarning(UserWarning):
    """The root of everything knoll warns of."""


class ConvergenceWarning(KnollWarning, _SklearnConvergenceWarning):
    """The loop ended before its criterion was met."""


class CollapsedComponentWarning(KnollWarning):
    """A covariance became singular and was floored."""


class SuspiciousResultWarning(KnollWarning):
    """The result is defined but suspicious."""


class ApproximationWarning(KnollWarning):
    """An approximate route was taken."""


class DisconnectedGraphWarning(KnollWarning):
    """The similarity graph is disconnected."""
