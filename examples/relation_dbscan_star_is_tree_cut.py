"""One density tree, cut at any height, is DBSCAN without border points at that ε."""

import numpy as np

from knoll import DBSCAN, DensityTree, datasets, relations

X = datasets.load("banana").X
tree = DensityTree(min_samples=5).fit(X)
for eps in (0.1, 0.13, 0.16):
    labels = DBSCAN(eps, min_samples=5, border="noise").fit(X).labels_
    print(f"ε = {eps}: {labels.max() + 1} clusters, {np.sum(tree.cut(eps, border='noise') != labels)} labels differ")

certificate = relations.get("dbscan-star-is-tree-cut").certify(X)
print(certificate)
assert certificate.holds
