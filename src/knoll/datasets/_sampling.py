"""Random numbers that are the same on every machine and NumPy version; checks of the loaders' arguments.

NumPy promises that the *bits* of PCG64 never change, but not that ``Generator.standard_normal`` makes of them
the same numbers in the next release. So we take the bits and make the uniforms and normals ourselves.
"""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np
from scipy.special import ndtri

from knoll._typing import Floats
from knoll.exceptions import CostError, InvalidParameter, InvalidType

_MAX_SAMPLES = 10**8  # 1.6 GB of points in the plane


def uniforms(seed: int, n: int, stream: int = 0) -> Floats:
    """Return `n` numbers in the open interval (0, 1): the middles of 2⁵³ equal cells.

    The streams of one seed are jumps of 0.6·2¹²⁸ draws apart: two purposes that need one each share nothing,
    which two neighbouring seeds would not give, for the second is somebody's first.
    """
    bits = np.random.PCG64(seed).jumped(stream).random_raw(n)
    return ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def normals(seed: int, n: int, d: int, stream: int = 0) -> Floats:
    """Return an (n, d) array of standard normals, by the inverse of their distribution function."""
    return np.asarray(ndtri(uniforms(seed, n * d, stream)), dtype=np.float64).reshape(n, d)


def affine(z: Floats, mean: Floats, root: Floats) -> Floats:
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
    """Return `n_samples` as an int, or raise with the rule that it breaks."""
    if not isinstance(n_samples, numbers.Integral) or isinstance(n_samples, bool):
        raise InvalidType(f"n_samples must be an integer, got {n_samples!r}. Write e.g. n_samples=500.")
    n = int(n_samples)
    if n < at_least:
        raise InvalidParameter(f"n_samples must be >= {at_least}, got {n}. Write e.g. n_samples=500.")
    if n > _MAX_SAMPLES:
        got = f"{n}, whose points need {16 * n // 10**9} GB" if n < 10**18 else "more than 10**10 GB of points"
        raise CostError(
            f"n_samples must be <= 10**8, got {got}. Draw several smaller sets, each with a random_state of its own."
        )
    return n


def check_noise(noise: Any) -> float:
    """Return `noise` as a float, or raise with the rule that it breaks."""
    if not isinstance(noise, numbers.Real) or isinstance(noise, bool):
        raise InvalidType(f"noise must be a number, got {noise!r}. It is the standard deviation; 0 means none.")
    value: Any = noise
    try:
        sigma = float(value)
    except OverflowError:  # an integer beyond float64
        sigma = math.inf if value > 0 else -math.inf
    if not (sigma >= 0 and math.isfinite(sigma)):
        raise InvalidParameter(
            f"noise must be finite and >= 0, got {sigma}. It is the standard deviation; 0 means none."
        )
    return sigma
