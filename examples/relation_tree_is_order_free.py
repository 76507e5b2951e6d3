"""Shuffled rows have the same clusters of HDBSCAN: no tie is decided by the order of the rows."""

import numpy as np

from knoll import HDBSCAN, datasets, relations
from knoll.metrics import adjusted_rand_score

X = datasets.load("banana").X
order = np.random.default_rng(0).permutation(len(X))
labels = HDBSCAN(5).fit(X).labels_
print("agreement after a shuffle:", adjusted_rand_score(labels[order], HDBSCAN(5).fit(X[order]).labels_))

certificate = relations.get("tree-is-order-free").certify(X)
print(certificate)
assert certificate.holds
