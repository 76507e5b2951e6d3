"""The constraints of the relations' parameters, by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from knoll.validation import Number, Rule

_COUNT = (Number(1, whole=True),)
_SCALE = (None, Number(0, strict=True))  # None: from the data

_RULES: Mapping[str, tuple[Rule | None, ...]] = {
    "n_clusters": _COUNT,
    "n_components": _COUNT,
    "max_iter": _COUNT,
    "eps": _SCALE,
    "min_samples": (None, *_COUNT),
    "bandwidth": _SCALE,
    "sigma": _SCALE,
    "random_state": (Number(0, 2**64 - 1, whole=True),),
}


def rules_of(names: Iterable[str]) -> Mapping[str, tuple[Rule | None, ...]]:
    """Return the constraints of these parameters; `labels` are checked by the relation itself."""
    return {name: _RULES[name] for name in names if name != "labels"}
