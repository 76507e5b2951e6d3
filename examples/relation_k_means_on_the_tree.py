"""k-means with the distances of a density tree: the best centres for every k, from one pass."""

from knoll import DensityTree, datasets, relations

X = datasets.load("banana").X
tree = DensityTree(min_samples=5).fit(X)
for found in tree.centers((1, 2, 3)):
    print(f"cost {found.cost:.4f}, centres {sorted(found.rows.tolist())}")

certificate = relations.get("k-means-on-the-tree").certify(X)
print(certificate)
assert certificate.holds
