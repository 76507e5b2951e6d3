"""With the distances of a density tree, spectral clustering has one eigenvalue 1 for each cluster, and zeros."""

from knoll import datasets, relations

certificate = relations.get("spectral-on-the-tree").certify(datasets.load("banana").X[::2])
print(certificate)
assert certificate.holds
