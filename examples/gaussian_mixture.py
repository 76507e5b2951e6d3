"""A mixture of Gaussians: how many, which point belongs where, and what belongs nowhere.

python examples/gaussian_mixture.py               prints
python examples/gaussian_mixture.py picture.png   also draws
"""

import sys

import numpy as np

from knoll import GaussianMixture, datasets, metrics, plots

# Iris: 150 flowers of three species, four measures each. Two of the species overlap.
data = datasets.load("iris")
model = GaussianMixture(3, random_state=0).fit(data.X)
print(f"{model.n_iter_} iterations, log-likelihood per flower {model.lower_bound_:.4f}")
print("shares", model.weights_.round(3), "  agreement with the species (AMI)",
      round(metrics.adjusted_mutual_info_score(data.y, model.labels_), 3))  # fmt: skip

# EM never goes downhill (the regularisation aside): the history shows the climb.
assert (np.diff(model.history_["objective"]) > -1e-6).all()

# A point belongs to a component to a degree. These flowers are ambiguous:
degrees = model.predict_proba(data.X)
print("flowers less than 90 % certain:", np.flatnonzero(degrees.max(axis=1) < 0.9).tolist())

# How many components? BIC counts Gaussians, ICL groups: overlap costs it something. Smaller is better.
for k in range(1, 5):
    fit = GaussianMixture(k, random_state=0, n_init=3).fit(data.X)
    print(f"k = {k}: BIC {fit.bic(data.X):7.1f}   ICL {fit.icl(data.X):7.1f}")

# Points that belong to no group: a uniform component takes them, and they get the label -1.
rng = np.random.default_rng(0)
X = np.vstack([rng.normal([0, 0], 1, (300, 2)), rng.normal([8, 4], 1, (200, 2)), rng.uniform(-15, 20, (60, 2))])
noisy = GaussianMixture(2, noise=True, random_state=0).fit(X)
print(f"noise: {noisy.noise_weight_:.1%} of the points; {np.sum(noisy.labels_ == -1)} of 560 are labelled so")
print("means", noisy.means_.round(1).tolist())

# A weight of 2 is a point that was seen twice.
weights = np.ones(len(X))
weights[:300] = 2
twice = GaussianMixture(2, random_state=0).fit(np.vstack([X, X[:300]]))
assert np.allclose(GaussianMixture(2, random_state=0).fit(X, sample_weight=weights).means_, twice.means_)

if len(sys.argv) > 1:
    plots.gaussian_mixture(noisy, X).figure.savefig(sys.argv[1], dpi=120)
    print("drawn in", sys.argv[1])
