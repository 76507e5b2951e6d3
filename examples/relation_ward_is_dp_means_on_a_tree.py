"""A cut of Ward's tree is the best pruning of it at a price for each cluster: the objective of DP-means."""

from knoll import datasets, relations

certificate = relations.get("ward-is-dp-means-on-a-tree").certify(datasets.load("iris").X)
print(certificate)
assert certificate.holds
