"""One fit of the tree has the labels of DBSCAN for every ε, border points included."""

from knoll import DBSCAN, DensityTree, datasets, relations

X = datasets.load("banana").X
tree = DensityTree(min_samples=5).fit(X)
for eps in (0.1, 0.13, 0.16):
    assert (tree.cut(eps) == DBSCAN(eps, min_samples=5).fit(X).labels_).all()

certificate = relations.get("every-eps-dbscan").certify(X)
print(certificate)
assert certificate.holds
