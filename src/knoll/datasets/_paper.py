"""The data of the paper's figures, drawn anew from fixed seeds (the paper prints pictures, not tables)."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np

from knoll._typing import Floats
from knoll.datasets._sampling import affine, check_noise, check_size, normals, seed_of, uniforms
from knoll.datasets._types import Dataset, Mixture
from knoll.exceptions import InvalidParameter, InvalidType

_SOURCE = "drawn by knoll.datasets from a fixed seed, after a figure of 'An algorithmic Introduction to Clustering'"
_AXES = ("x", "y")


def _ellipse(degrees: float, long: float, short: float) -> Floats:
    """Return R·diag(long, short), the root of the covariance of an ellipse turned by `degrees`."""
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return np.array([[c * long, -s * short], [s * long, c * short]])


def _mixture(weights: list[float], means: list[tuple[float, float]], roots: list[Floats]) -> Mixture:
    return Mixture(np.array(weights), np.array(means), np.array([root @ root.T for root in roots]))


def one_gaussian(n_samples: int = 500, *, random_state: Any = 0) -> Dataset:
    """Draw points from one correlated Gaussian in the plane (the section on one Gaussian).

    Parameters
    ----------
    n_samples : int, default=500
        How many points.
    random_state : int, Generator, RandomState or None, default=0
        The seed; None draws new points every time.

    Returns
    -------
    Dataset
        With `y` None and the Gaussian as a mixture of one in `model`.

    Examples
    --------
    >>> from knoll.datasets import one_gaussian
    >>> one_gaussian().X.shape
    (500, 2)
    """
    n = check_size(n_samples, 1)
    root = _ellipse(35.0, 2.0, 0.7)
    model = _mixture([1.0], [(2.0, 1.0)], [root])
    return Dataset(
        name="one_gaussian",
        X=affine(normals(seed_of(random_state), n, 2), model.means[0], root),
        y=None,
        feature_names=_AXES,
        target_names=(),
        description="One Gaussian in the plane, its long axis at 35 degrees.",
        source=_SOURCE,
        model=model,
    )


def x1500() -> Dataset:
    """Return X₁₅₀₀: three long ellipses of 500 points each (the sections on mixtures and k-means).

    The ellipses are arranged so that a Gaussian mixture of three full covariances, fitted by EM to convergence,
    misplaces exactly two points, both of class 0 into class 2: AMI 0.992 and ARI 0.996, the paper's figures.
    k-means cuts the ellipses across (ARI 0.52). No point is near the mixture's border: the two largest
    responsibilities of every point differ by a factor of at least 8.

    Returns
    -------
    Dataset
        The rows are sorted by class.

    Examples
    --------
    >>> import numpy as np
    >>> from knoll.datasets import x1500
    >>> np.bincount(x1500().y)
    array([500, 500, 500])
    """
    roots = [_ellipse(40.0, 2.0, 0.35), _ellipse(40.0, 2.0, 0.35), _ellipse(125.0, 1.8, 0.4)]
    model = _mixture([1 / 3] * 3, [(0.0, 0.0), (2.1, -1.8), (5.8, 4.4)], roots)
    z = normals(227, 1500, 2)  # 227: of 300 seeds the one with two misplaced points and the widest margin
    components = [affine(z[500 * c : 500 * (c + 1)], model.means[c], roots[c]) for c in range(3)]
    return Dataset(
        name="x1500",
        X=np.concatenate(components),
        y=np.repeat(np.arange(3, dtype=np.int64), 500),
        feature_names=_AXES,
        target_names=("left", "right", "upper"),
        description="Three long ellipses of 500 points each: a mixture finds them, k-means does not.",
        source=_SOURCE,
        model=model,
    )


def circles(n_samples: int = 500, *, noise: float = 0.05, factor: float = 0.4, random_state: Any = 0) -> Dataset:
    """Draw two concentric circles: no line separates them (the section on kernels).

    Parameters
    ----------
    n_samples : int, default=500
        How many points in both circles; the outer one takes the odd one.
    noise : float, default=0.05
        Standard deviation of the Gaussian added to each coordinate.
    factor : float, default=0.4
        Radius of the inner circle; the outer one has radius 1.
    random_state : int, Generator, RandomState or None, default=0
        The seed; None draws new points every time.

    Returns
    -------
    Dataset
        Class 0 is the outer circle, class 1 the inner one.

    Examples
    --------
    >>> from knoll.datasets import circles
    >>> circles(100, noise=0).X[0]
    array([1., 0.])
    """
    n, sigma = check_size(n_samples, 2), check_noise(noise)
    if not isinstance(factor, numbers.Real) or isinstance(factor, bool):
        raise InvalidType(f"factor must be a number, got {factor!r}. It is the inner circle's radius, e.g. 0.4.")
    if not 0 < factor < 1:
        raise InvalidParameter(f"factor must lie between 0 and 1, got {factor}. The outer circle has radius 1.")
    n_inner = n // 2
    outer = 2.0 * np.pi * np.arange(n - n_inner) / (n - n_inner)
    inner = 2.0 * np.pi * np.arange(n_inner) / n_inner
    X = np.concatenate(
        [
            np.column_stack([np.cos(outer), np.sin(outer)]),
            float(factor) * np.column_stack([np.cos(inner), np.sin(inner)]),
        ]
    )
    return Dataset(
        name="circles",
        X=X + sigma * normals(seed_of(random_state), n, 2),
        y=np.repeat(np.arange(2, dtype=np.int64), [n - n_inner, n_inner]),
        feature_names=_AXES,
        target_names=("outer", "inner"),
        description="Two concentric circles: no line separates them, the distance to the centre does.",
        source=_SOURCE,
    )


def banana(n_samples: int = 500, *, noise: float = 0.06, random_state: Any = 0) -> Dataset:
    """Draw two bananas, each reaching into the hollow of the other (the section on spectral clustering).

    Parameters
    ----------
    n_samples : int, default=500
        How many points in both bananas; the upper one takes the odd one.
    noise : float, default=0.06
        Standard deviation of the Gaussian added to each coordinate.
    random_state : int, Generator, RandomState or None, default=0
        The seed; None draws new points every time.

    Returns
    -------
    Dataset
        Class 0 is the upper banana, class 1 the lower one.

    Examples
    --------
    >>> from knoll.datasets import banana
    >>> banana(300).target_names
    ('upper', 'lower')
    """
    n, sigma = check_size(n_samples, 2), check_noise(noise)
    n_lower = n // 2
    upper = np.pi * (np.arange(n - n_lower) + 0.5) / (n - n_lower)
    lower = np.pi * (np.arange(n_lower) + 0.5) / n_lower
    X = np.concatenate(
        [
            np.column_stack([np.cos(upper), np.sin(upper)]),
            np.column_stack([1.0 - np.cos(lower), 0.5 - np.sin(lower)]),
        ]
    )
    return Dataset(
        name="banana",
        X=X + sigma * normals(seed_of(random_state), n, 2),
        y=np.repeat(np.arange(2, dtype=np.int64), [n - n_lower, n_lower]),
        feature_names=_AXES,
        target_names=("upper", "lower"),
        description="Two half circles that reach into each other: connected, but far from round.",
        source=_SOURCE,
    )


def three_component_density(n_samples: int = 600, *, random_state: Any = 0) -> Dataset:
    """Draw from a density with three modes (the sections on DBSCAN and Mean Shift).

    `model` holds the mixture, so that the true density can be drawn beside the points. A plane at height 0.02
    cuts three islands out of it.

    Parameters
    ----------
    n_samples : int, default=600
        How many points.
    random_state : int, Generator, RandomState or None, default=0
        The seed; None draws new points every time.

    Returns
    -------
    Dataset
        `y` is the component each point was drawn from.

    Examples
    --------
    >>> from knoll.datasets import three_component_density
    >>> data = three_component_density()
    >>> data.model.density(data.X).shape
    (600,)
    """
    n = check_size(n_samples, 1)
    roots = [_ellipse(0.0, 0.9, 0.7), _ellipse(60.0, 1.1, 0.5), _ellipse(-30.0, 0.8, 0.5)]
    model = _mixture([0.45, 0.3, 0.25], [(-2.0, -1.0), (1.5, -1.2), (0.2, 2.4)], roots)
    seed = seed_of(random_state)
    y = np.searchsorted(np.cumsum(model.weights)[:-1], uniforms(seed, n), side="right").astype(np.int64)
    z = normals(seed, n, 2, stream=1)
    X = np.empty((n, 2))
    for c, root in enumerate(roots):
        X[y == c] = affine(z[y == c], model.means[c], root)
    return Dataset(
        name="three_component_density",
        X=X,
        y=y,
        feature_names=_AXES,
        target_names=("left", "right", "upper"),
        description="A sample of a density with three modes of different shape, and the density itself.",
        source=_SOURCE,
        model=model,
    )
