"""What the algorithms cost, in counted distances: how they grow with n, k and T, and what the fast path saves."""

import numpy as np

from knoll import DBSCAN, datasets, reference, relations

X = datasets.load("x1500").X

# Count one box of the reference: every pair once, so twice the rows are four times the distances.
for n in (100, 200, 400):
    with reference.counted() as tally:
        labels = reference.run(reference.dbscan_graph(X[:n], eps=0.5, min_pts=5)).labels
    print(f"{n} rows: {tally.distances} distances")
    assert tally.distances == n * n
    assert np.array_equal(labels, DBSCAN(eps=0.5, min_samples=5).fit(X[:n]).labels_)

certificate = relations.get("complexity-table").certify(X)
print(certificate)
assert certificate.holds
