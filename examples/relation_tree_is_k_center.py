"""The components of DBSCAN, noise as single rows, are an optimal k-center clustering of the tree's ultrametric."""

import numpy as np

from knoll import DensityTree, datasets, relations

X = datasets.load("banana").X
tree = DensityTree(min_samples=5).fit(X)
bars = np.sort(tree.bars_[1:])[::-1]
for k in (2, 5, 20):
    print(f"k = {k}: least radius {tree.centers(k, power=np.inf).cost:.4f}, bar number {k} {bars[k - 1]:.4f}")

certificate = relations.get("tree-is-k-center").certify(X)
print(certificate)
assert certificate.holds
