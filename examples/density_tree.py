"""Grow one density tree, read DBSCAN at several radii from it, and take the clusters that stay longest."""

import numpy as np

from knoll import HDBSCAN, datasets

X = datasets.load("x1500").X
model = HDBSCAN(min_cluster_size=20, min_samples=10).fit(X)
print("HDBSCAN:", np.bincount(model.labels_[model.labels_ >= 0]), "rows,", (model.labels_ < 0).sum(), "noise")

for eps in (0.2, 0.4, 1.0):  # no further fit
    labels = model.cut(eps)
    print(f"DBSCAN at eps {eps}: {labels.max() + 1} clusters, {(labels < 0).sum()} rows of noise")

curves = model.curves(min_cluster_size=20)
three = np.flatnonzero(curves.clusters == 3)
print(f"three clusters from eps {curves.eps[three[0]]:.2f} to {curves.eps[three[-1] + 1]:.2f}")

for size, labels in zip((10, 20, 40), model.labels_for((10, 20, 40)), strict=True):
    print("clusters of at least", size, "rows:", labels.max() + 1)
