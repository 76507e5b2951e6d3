"""Random numbers that are the same on every machine and NumPy version; checks of the loaders' arguments.

NumPy promises that the *bits* of PCG64 never change, but not that ``Generator.standard_normal`` makes of them
the same numbers in the next release. So we take the bits and make the uniforms and normals ourselves.
"""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from knoll.exceptions import InvalidParameter, InvalidType

__all__ = ["affine", "check_noise", "check_size", "normals", "seed_of", "uniforms"]


def uniforms(seed: int, n: int) -> NDArray[np.float64]:
    """Return `n` numbers in the open interval (0, 1): the middles of 2⁵³ equal cells."""
    bits = np.random.PCG64(seed).random_raw(n)
    return ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def normals(seed: int, n: int, d: int) -> NDArray[np.float64]:
    """Return an (n, d) array of standard normals, by the inverse of their distribution function."""
    return np.asarray(ndtri(uniforms(seed, n * d)), dtype=np.float64).reshape(n, d)


def affine(z: NDArray[np.float64], mean: NDArray[np.float64], root: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return mean + root·z for each row of `z`, added in a fixed order (a BLAS would not promise one)."""
    out = np.repeat(mean[None, :], len(z), axis=0)
    for j in range(root.shape[1]):
        out += z[:, j, None] * root[None, :, j]
    return out


def seed_of(random_state: Any) -> int:
    """Turn None, an int, a RandomState or a Generator into one seed."""
    if random_state is None:
        return int(np.random.default_rng().integers(2**63))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**63, dtype=np.int64))
    if isinstance(random_state, numbers.Integral) and not isinstance(random_state, bool):
        if random_state < 0:
            raise InvalidParameter(f"random_state must be >= 0, got {random_state}. Any other integer will do.")
        return int(random_state)
    raise InvalidType(
        f"random_state must be an int, a numpy Generator or RandomState, or None, got {random_state!r}. "
        "An int gives the same points every time."
    )


def check_size(n_samples: Any, at_least: int) -> int:
    """Return `n_samples` as an int, or say why it is none."""
    if not isinstance(n_samples, numbers.Integral) or isinstance(n_samples, bool):
        raise InvalidType(f"n_samples must be an integer, got {n_samples!r}. Write e.g. n_samples=500.")
    if n_samples < at_least:
        raise InvalidParameter(f"n_samples must be >= {at_least}, got {n_samples}. Write e.g. n_samples=500.")
    return int(n_samples)


def check_noise(noise: Any) -> float:
    """Return `noise` as a float, or say why it is none."""
    if not isinstance(noise, numbers.Real) or isinstance(noise, bool):
        raise InvalidType(f"noise must be a number, got {noise!r}. It is the standard deviation; 0 means none.")
    if not (float(noise) >= 0 and math.isfinite(noise)):
        raise InvalidParameter(
            f"noise must be finite and >= 0, got {noise}. It is the standard deviation; 0 means none."
        )
    return float(noise)
