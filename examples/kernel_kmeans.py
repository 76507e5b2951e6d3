"""Kernel k-means: clusters that no straight line separates, and a graph cut in two."""

import numpy as np

from knoll import KernelKMeans, KMeans, kernels

# A disc inside a ring. k-means cuts both in half; in the feature space of the squared radius they lie apart.
rng = np.random.default_rng(0)
angle, ring = rng.uniform(0, 2 * np.pi, size=400), np.repeat([0, 1], 200)
radius = np.where(ring, 3.0, 1.0) + rng.normal(scale=0.1, size=400)
X = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def share(labels: np.ndarray) -> float:
    """The share of rows in the right cluster, whatever the clusters are called."""
    right = float(np.mean(labels == ring))
    return max(right, 1 - right)


def squared_radii(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """The kernel of φ(x) = ‖x‖²."""
    return np.outer(np.sum(A * A, axis=1), np.sum(B * B, axis=1))


plain = KMeans(2, random_state=0).fit(X)
lifted = KernelKMeans(2, kernel=squared_radii, random_state=0).fit(X)
print(f"k-means:        {100 * share(plain.labels_):.0f} % of the rows right")
print(f"kernel k-means: {100 * share(lifted.labels_):.0f} % of the rows right")

# The Gaussian kernel, its width taken from the data; the objective falls with every step.
model = KernelKMeans(3, random_state=0, local_search=True).fit(X)
print(f"sigma = {model.sigma_:.3g}, J = {model.objective_:.1f} after {model.n_iter_} steps")
print("J by step:", np.round(model.history_["objective"], 1))

# A graph: similarities of rows that are near each other. With weights D and K = D⁻¹AD⁻¹ the objective is its
# normalized cut; the start solves the relaxed problem.
A = kernels.Gaussian(0.3).tile(X, X)
A[A < 0.01] = 0.0
degrees = A.sum(axis=1)
cut = KernelKMeans(2, kernel="precomputed", init="spectral", random_state=0)
cut.fit(A / np.outer(degrees, degrees), sample_weight=degrees)
print(f"normalized cut {cut.normalized_cut_:.4f}; of the ring and the disc {kernels.normalized_cut(A, ring):.4f}")
