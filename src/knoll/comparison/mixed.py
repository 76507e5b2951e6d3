"""Methods for tables with categories and missing values: they take the typed columns, not their encoding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from knoll._typing import Floats, Ints
from knoll.comparison.methods import MixtureProposer, Partition, Proposer, numbers_to_try
from knoll.comparison.subsample import Subsample
from knoll.gaussian.covariance import compared_types
from knoll.kmeans.prototypes import KPrototypes
from knoll.mixture.mixed import MixedMixture

__all__ = ["KPrototypesProposer", "MixedMixtureProposer"]

_MOST = 15  # clusters


def _categories(subsample: Subsample) -> list[int]:
    """Return the columns of the typed rows that are categories."""
    assert subsample.mixed is not None
    return list(range(subsample.mixed.n_numeric, subsample.mixed.values.shape[1]))


class _OfTypedRows(Proposer):
    """A method that takes typed rows: numbers with NaN, and codes of categories."""

    mixed = True

    def rows(self, subsample: Subsample) -> Floats:
        assert subsample.mixed is not None
        return subsample.mixed.values


class MixedMixtureProposer(_OfTypedRows, MixtureProposer):
    """Mixtures of Gaussians and categories, of two covariance types, and those of best BIC with components joined."""

    estimator = MixedMixture
    prefix = "mixed"

    def types(self, subsample: Subsample) -> Sequence[str]:
        assert subsample.mixed is not None
        types = compared_types("mixed")
        return types if subsample.mixed.n_numeric > 1 else types[1:]

    def joins(self, name: str, types: Sequence[str]) -> bool:
        return True

    def _numbers(
        self, name: str, types: Sequence[str], tried: Sequence[int], done: set[int], n: int, d: int
    ) -> list[int]:
        few = [k for k in tried if k <= _MOST] or list(tried[:1])
        return super()._numbers(name, types, few, done, n, max(1, d))

    def _settings(self, subsample: Subsample, name: str, k: int, overrides: Mapping[str, Any]) -> dict[str, Any]:
        return super()._settings(subsample, name, k, overrides) | {"categorical_features": _categories(subsample)}

    def fit(self, chosen: Partition, points: Floats, subsample: Subsample) -> Any:
        return MixedMixture(**chosen.model.get_params()).fit(points)


class KPrototypesProposer(_OfTypedRows):
    """k-prototypes for every number of clusters."""

    estimator = KPrototypes

    def propose(
        self, subsample: Subsample, numbers: Sequence[int], overrides: Mapping[str, Any]
    ) -> Iterator[Partition]:
        usual = self.settings(subsample) | {"categorical_features": _categories(subsample)}
        tried = numbers_to_try("n_clusters", numbers, overrides, subsample.n)
        for k in [k for k in tried if k <= _MOST] or tried:
            model = KPrototypes(**(usual | dict(overrides) | {"n_clusters": k})).fit(self.rows(subsample))
            chosen = {"n_clusters": k} | dict(overrides)
            yield Partition("k-prototypes", model.labels_.astype(np.int64), chosen, model)

    def fit(self, chosen: Partition, points: Floats, subsample: Subsample) -> Any:
        return KPrototypes(**chosen.model.get_params()).fit(points)

    def scores(self, model: Any, points: Floats, labels: Ints) -> dict[str, float]:
        return {"objective": -float(model.score(points))}
