"""Find clusters of any shape and the noise between them, with a radius read from the data."""

import numpy as np

from knoll import DBSCAN, datasets, scales

X = datasets.load("circles").X

estimate = scales.estimate_eps(X, min_samples=5)
print("eps", estimate)

model = DBSCAN(eps=estimate.eps, min_samples=5).fit(X)
clusters, sizes = np.unique(model.labels_, return_counts=True)
for cluster, size in zip(clusters, sizes, strict=True):
    print("noise" if cluster < 0 else f"cluster {cluster}", size, "points")

print("a point in the middle is", model.predict_kind([[0.0, 0.0]])[0])
