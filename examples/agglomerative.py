"""Merge the two closest clusters until few are left, and see at which heights it happened."""

import numpy as np

from knoll import AgglomerativeClustering, datasets, metrics

data = datasets.load("iris")
model = AgglomerativeClustering(3, compute_distances=True).fit(data.X)
print("sizes", np.bincount(model.labels_), "agreement", round(metrics.adjusted_rand_score(model.labels_, data.y), 3))
print("the last five heights", model.distances_[-5:].round(2))

for linkage in ("average", "complete", "single"):
    labels = AgglomerativeClustering(3, linkage=linkage).fit(data.X).labels_
    print(f"{linkage:9s}", np.bincount(labels))
