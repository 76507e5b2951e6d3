"""DBSCAN by climbing is a relative of DBSCAN: the same cores, the same or larger clusters of them, other borders."""

import numpy as np

from knoll import DBSCAN, datasets, relations

# The smallest difference: three points on a line. The outer ones are border points that cannot climb.
X = np.array([[0.0], [1.0], [2.0]])
for formulation in ("graph", "climbing"):
    print(f"{formulation:9}", DBSCAN(eps=1.0, min_samples=3, formulation=formulation).fit(X).labels_)

certificate = relations.get("dbscan-graph-and-climb").certify(datasets.load("three_component_density").X)
print(certificate)
assert certificate.holds
