"""Ward's heights add up to the objective of k-means, for every number of clusters."""

import numpy as np

from knoll import AgglomerativeClustering, datasets, relations

X = datasets.load("iris").X
model = AgglomerativeClustering(3, compute_distances=True).fit(X)
means = np.array([X[model.labels_ == c].mean(axis=0) for c in range(3)])
J = np.square(X - means[model.labels_]).sum()
print(f"J of the cut {J:.6f}, half of the sum of squared heights {np.square(model.distances_[:-2]).sum() / 2:.6f}")

certificate = relations.get("ward-is-kmeans-by-merging").certify(X)
print(certificate)
assert certificate.holds
