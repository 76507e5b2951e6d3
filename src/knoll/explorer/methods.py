"""What a page may set: for every method a closed list of parameters, each checked by the rules of its own estimator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from knoll.exceptions import InvalidParameter
from knoll.gaussian.covariance import estimated_types
from knoll.registry import METHODS, Method, find

__all__ = ["BUDGET", "OFFERED", "Parameter", "checked", "method_of", "offered", "rows_for"]

BUDGET = 20.0  # seconds of processor time that a fit may take, as estimated; slower methods see fewer rows
LEAST_ROWS = 2_000  # of such a fit


@dataclass(frozen=True)
class Parameter:
    """One parameter as a control of the page."""

    name: str
    type: str  # "int", "float", "choice" or "flag"
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    log: bool = False
    curve: bool = False

    def plain(self, default: Any) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {**vars(self), "choices": list(self.choices), "default": default}


def _whole(name: str, low: int, high: int, *, log: bool = False, curve: bool = False) -> Parameter:
    return Parameter(name, "int", low, high, log=log, curve=curve)


def _length(name: str, *, curve: bool = False) -> Parameter:
    return Parameter(name, "float", log=True, curve=curve)


def _choice(name: str, *choices: str) -> Parameter:
    return Parameter(name, "choice", choices=choices)


OFFERED: dict[str, tuple[Parameter, ...]] = {
    "gaussian-mixture": (
        _whole("n_components", 1, 30, curve=True),
        _choice("covariance_type", *estimated_types()),
        Parameter("reg_covar", "float", 0.0, log=True),
        _whole("n_init", 1, 20),
        _whole("max_iter", 1, 1000, log=True),
    ),
    "kmeans": (_whole("n_clusters", 1, 60, curve=True), _whole("n_init", 1, 50), _whole("max_iter", 1, 1000, log=True)),
    "kernel-kmeans": (_whole("n_clusters", 1, 30), _length("sigma"), _whole("n_init", 1, 20)),
    "spectral": (
        _whole("n_clusters", 1, 30, curve=True),
        _choice("affinity", "rbf", "nearest_neighbors"),
        _length("sigma"),
        _whole("n_neighbors", 2, 100, log=True),
    ),
    "dbscan": (
        _length("eps", curve=True),
        _whole("min_samples", 1, 100, log=True),
        _choice("metric", "euclidean", "manhattan", "chebyshev", "cosine"),
        _choice("border", "closest", "first", "noise"),
        _choice("noise", "keep", "nearest"),
    ),
    "hdbscan": (
        _whole("min_cluster_size", 2, 1000, log=True, curve=True),
        _whole("min_samples", 1, 100, log=True),
        _choice("cluster_selection_method", "eom", "leaf"),
        Parameter("cluster_selection_epsilon", "float", 0.0),
        Parameter("allow_single_cluster", "flag"),
        _choice("noise", "keep", "nearest"),
    ),
    "agglomerative": (
        _whole("n_clusters", 1, 60, curve=True),
        _choice("linkage", "ward", "complete", "average", "single"),
    ),
    "mean-shift": (
        _length("bandwidth", curve=True),
        _choice("kernel", "flat", "gaussian"),
        Parameter("cluster_all", "flag"),
    ),
    "optics": (_whole("min_samples", 2, 100, log=True), Parameter("xi", "float", 0.0, 1.0)),
    "mixed-mixture": (_whole("n_components", 1, 15), _choice("covariance_type", *estimated_types())),
    "k-prototypes": (_whole("n_clusters", 1, 15), _whole("n_init", 1, 20)),
}
_USUAL: dict[str, dict[str, Any]] = {  # where the class has another default, or none for a table of its own
    "kmeans": {"n_clusters": 3, "n_init": 2},
    "gaussian-mixture": {"n_components": 3, "reg_covar": 1e-5},
    "kernel-kmeans": {"n_clusters": 3, "n_init": 1},
    "spectral": {"n_clusters": 3, "affinity": "nearest_neighbors"},
    "agglomerative": {"n_clusters": 3},
    "hdbscan": {"min_cluster_size": 15, "min_samples": 10},
    "dbscan": {"min_samples": 10},
    "mixed-mixture": {"n_components": 3},
    "k-prototypes": {"n_clusters": 3},
}


def method_of(name: Any) -> Method:
    """Return the method of a name that a page may request."""
    found = find(name) if isinstance(name, str) else None
    if found is None or found.name not in OFFERED:
        raise InvalidParameter(f"method: there is no {name!r}. Choose some of {', '.join(OFFERED)}.")
    return found


def usual(method: Method) -> dict[str, Any]:
    """Return the value that each offered parameter has if it is not set."""
    own = method.estimator_class()().get_params()
    return {one.name: _USUAL.get(method.name, {}).get(one.name, own.get(one.name)) for one in OFFERED[method.name]}


def checked(method: Method, parameters: Any) -> dict[str, Any]:
    """Return the parameters of a fit; an unknown name and a value that breaks a rule are refused."""
    if not isinstance(parameters, Mapping):
        raise InvalidParameter(f"parameters must be a mapping, got {parameters!r:.60}.")
    known = usual(method)
    for name, value in parameters.items():
        if name not in known:
            raise InvalidParameter(f"parameters: {method.name} has no {name!r} here. It has {', '.join(known)}.")
        if not isinstance(value, str | int | float | bool | None):
            raise InvalidParameter(f"parameters: {name} must be a number, a text, true, false or null.")
    for one in OFFERED[method.name]:  # a text that is no choice would name a function or a file elsewhere
        value = parameters.get(one.name)
        if isinstance(value, str) and value not in one.choices:
            raise InvalidParameter(
                f"parameters: {one.name} must be {'one of ' + ', '.join(one.choices) if one.choices else 'a number'}, "
                f"got {value!r:.60}."
            )
    found = {**known, **parameters}
    method.estimator_class()(**{name: value for name, value in found.items() if value is not None})._check_parameters()
    return found


def rows_for(method: Method, n: int, columns: int) -> int:
    """Return how many rows a fit sees: all, or as many as its time permits."""
    if method.seconds(n, columns) <= BUDGET:
        return n
    one = method.seconds(1, columns)
    return min(n, max(LEAST_ROWS, int(BUDGET / one if method.row_seconds else (BUDGET / one) ** 0.5)))


def offered(n: int, columns: int, mixed: bool) -> list[dict[str, Any]]:
    """Return the methods for a table, as the page shows them."""
    found = []
    for name, parameters in OFFERED.items():
        method = METHODS[name]
        if method.mixed and not mixed:
            continue
        default = usual(method)
        found.append(
            {
                "name": name,
                "title": method.title,
                "slow": rows_for(method, n, columns) < n,
                "parameters": [one.plain(default[one.name]) for one in parameters],
            }
        )
    return found
