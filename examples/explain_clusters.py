"""Explain the clusters of a table: names, the columns that set them apart, rules as SQL, and typical rows."""

import numpy as np

import knoll

rng = np.random.default_rng(0)
group = rng.choice(3, size=900, p=[0.5, 0.3, 0.2])
customers = {
    "spend": (np.array([40, 900, 300])[group] * np.exp(0.3 * rng.normal(size=900))).round(2),
    "visits": rng.poisson(np.array([2, 20, 9])[group]),
    "city": np.where(rng.random(900) < 0.6, np.array(["Rome", "Oslo", "Bonn"])[group], "Lima"),
}
points = np.column_stack([np.log(customers["spend"]), np.sqrt(customers["visits"])])
model = knoll.GaussianMixture(3, random_state=0).fit(points)

# the city was not used: it is described, and no rule uses it
found = knoll.explain(model.labels_, customers, used=["spend", "visits"], points=points)
print(found)
print(found.to_sql(table="customers", use_names=True))
for cluster in found.clusters:
    city = next(column for column in cluster.columns if column.column == "city")
    print(f"{cluster.name}: {city.text}; a typical row: {cluster.typical[0].cells}")
