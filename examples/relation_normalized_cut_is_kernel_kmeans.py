"""The normalized cut is weighted kernel k-means with W = D, K = D⁻¹AD⁻¹; with W = D⁻¹, K = A it is another problem."""

import numpy as np

from knoll import datasets, relations

# Four points on a line: which of two clusterings does each problem prefer?
x = np.array([0.0, 0.0, 2.0, 4.0])
A = np.exp(-((x[:, None] - x) ** 2) / 2)
d = A.sum(axis=1)
M = A / np.sqrt(np.outer(d, d))


def trace(labels, weights):
    """Tr YᵀMY with Y_ic = √(w_i / s_c)."""
    total = 0.0
    for c in np.unique(labels):
        y = np.sqrt(weights) * (labels == c) / np.sqrt(weights[labels == c].sum())
        total += y @ M @ y
    return total


for labels in (np.array([0, 0, 1, 1]), np.array([0, 0, 0, 1])):
    print(labels, f"W = D⁻¹: {trace(labels, 1 / d):.4f}   W = D: {trace(labels, d):.4f}")
assert trace(np.array([0, 0, 1, 1]), 1 / d) > trace(np.array([0, 0, 0, 1]), 1 / d)  # the one takes {0, 0 | 2, 4}
assert trace(np.array([0, 0, 1, 1]), d) < trace(np.array([0, 0, 0, 1]), d)  # the cut {0, 0, 2 | 4}

certificate = relations.get("normalized-cut-is-kernel-kmeans").certify(datasets.load("banana", n_samples=300).X)
print(certificate)
assert certificate.holds
