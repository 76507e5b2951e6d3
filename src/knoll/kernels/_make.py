"""From the parameters of an estimator to a kernel."""

from __future__ import annotations

from typing import Any

from knoll.exceptions import InvalidParameter, InvalidType
from knoll.kernels._given import Function, Precomputed
from knoll.kernels._in_core import Gaussian, Heaviside, Linear, Polynomial
from knoll.kernels._protocol import Kernel
from knoll.validation import Number, check_parameters

__all__ = ["make"]


def make(
    kernel: Any,
    gamma: float | None = None,
    sigma: float | None = None,
    degree: int = 3,
    coef0: float = 1.0,
    eps: float | None = None,
    *,
    owner: str = "make",
) -> Kernel:
    """Make a kernel from the parameters of an estimator; those that it does not use are left alone.

    Parameters
    ----------
    kernel : str, callable or Kernel
        "rbf" or "gaussian", "heaviside", "poly" or "polynomial", "linear", "precomputed", a function of two rows or of
        two arrays of rows, or a kernel that is made already.
    gamma, sigma : float, optional
        The width of the Gaussian kernel: one of them, γ = 1/(2σ²).
    degree, coef0 : int, float
        The polynomial kernel's.
    eps : float, optional
        The Heaviside kernel's.
    owner : str, default="make"
        Whose parameters they are, for messages.

    Returns
    -------
    Kernel

    Examples
    --------
    >>> from knoll import kernels
    >>> kernels.make("rbf", gamma=50.0)
    Gaussian(sigma=0.1)
    >>> kernels.make("poly", degree=2, coef0=0.0)
    Polynomial(degree=2, coef0=0.0)
    """
    if isinstance(kernel, str):
        match kernel:
            case "rbf" | "gaussian":
                return _gaussian(gamma, sigma, owner)
            case "heaviside":
                if eps is None:
                    raise InvalidParameter(
                        f"{owner}: kernel='heaviside' needs eps, got None. knoll.scales.estimate_eps(X) suggests one."
                    )
                return Heaviside(eps)
            case "poly" | "polynomial":
                return Polynomial(degree, coef0)
            case "linear":
                return Linear()
            case "precomputed":
                return Precomputed()
        raise InvalidParameter(
            f"{owner}: kernel must be 'rbf', 'heaviside', 'poly', 'linear', 'precomputed', a callable or a kernel of "
            f"knoll.kernels, got {kernel!r}."
        )
    if isinstance(kernel, Kernel):
        return kernel
    if callable(kernel):
        return Function(kernel)
    raise InvalidType(f"{owner}: kernel must be a name, a callable or a kernel of knoll.kernels, got {kernel!r}.")


def _gaussian(gamma: float | None, sigma: float | None, owner: str) -> Gaussian:
    rule = {"sigma": (None, Number(0, strict=True)), "gamma": (None, Number(0, strict=True))}
    check_parameters(owner, {"sigma": sigma, "gamma": gamma}, rule)
    if sigma is not None and gamma is not None:
        raise InvalidParameter(
            f"{owner}: give sigma or gamma, not both (gamma = 1/(2 sigma²)), got sigma={sigma!r} and gamma={gamma!r}."
        )
    if sigma is not None:
        return Gaussian(sigma)
    if gamma is not None:
        return Gaussian.from_gamma(gamma)
    raise InvalidParameter(
        f"{owner}: the Gaussian kernel needs sigma or gamma, got neither. knoll.scales.estimate_sigma(X) suggests one."
    )
