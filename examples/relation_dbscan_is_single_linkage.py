"""With minPts ≤ 2 DBSCAN is single linkage, cut at ε: the first arrow to hierarchical clustering."""

from scipy.cluster.hierarchy import fcluster, linkage

from knoll import DBSCAN, datasets, metrics, relations

X = datasets.load("iris").X
labels = DBSCAN(eps=0.5, min_samples=1).fit(X).labels_
tree = fcluster(linkage(X, "single"), t=0.5, criterion="distance")
print(f"agreement   {metrics.adjusted_rand_score(labels, tree):.3f} with single linkage, {labels.max() + 1} clusters")
assert metrics.adjusted_rand_score(labels, tree) == 1

certificate = relations.get("dbscan-is-single-linkage").certify(X, eps=0.5)
print(certificate)
assert certificate.holds
