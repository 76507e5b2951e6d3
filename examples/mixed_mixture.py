"""Cluster a table of numbers and categories with missing values, and fill what is missing."""

import numpy as np

from knoll import KPrototypes, MixedMixture, metrics

rng = np.random.default_rng(0)
group = rng.integers(3, size=600)
rows = np.column_stack(
    [
        rng.normal(2.0 * group, 0.8),
        rng.normal(-group, 1.0),
        np.where(rng.random(600) < 0.8, group, rng.integers(3, size=600)),
        rng.random(600) < 0.2 + 0.3 * group,
    ]
)
rows[rng.random(rows.shape) < 0.1] = np.nan

for k in (1, 2, 3, 4):
    print(k, "components: BIC", round(MixedMixture(k, categorical_features=[2, 3], random_state=0).fit(rows).bic(rows)))

model = MixedMixture(3, categorical_features=[2, 3], random_state=0).fit(rows)
print("agreement", round(metrics.adjusted_rand_score(model.labels_, group), 2), "weights", model.weights_.round(2))
print("probabilities of the levels of column 2\n", model.category_probabilities_[0].round(2))
print(
    "a row", rows[np.isnan(rows).any(axis=1)][0], "filled", model.impute(rows)[np.isnan(rows).any(axis=1)][0].round(2)
)

prototypes = KPrototypes(3, categorical_features=[2, 3], random_state=0).fit(rows)
print("k-prototypes", round(metrics.adjusted_rand_score(prototypes.labels_, group), 2))
