"""Clusters with a long life survive: rows that move by δ change the heights of the tree by at most 2δ."""

from knoll import DensityTree, datasets, relations

X = datasets.load("banana").X
bands = DensityTree(min_samples=5).fit(X).bands()
print("the two longest-lived modes survive errors of", bands.delta[:2])

certificate = relations.get("tree-is-persistence").certify(X)
print(certificate)
assert certificate.holds
