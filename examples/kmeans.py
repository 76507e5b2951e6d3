"""k-means: fit it, watch it descend, feed it batch by batch, draw it.

python examples/kmeans.py               prints
python examples/kmeans.py picture.png   also draws
"""

import sys

import numpy as np

from knoll import KMeans, datasets, metrics, plots

# 1500 points in the plane, drawn from a mixture of three Gaussians; data.y reports which one each came from.
data = datasets.load("x1500")
k = len(np.unique(data.y))

# Ten starts, the best is kept. A fixed seed gives the same answer for any order of the rows and any number of threads.
model = KMeans(k, n_init=10, random_state=0).fit(data.X)
print("centres    ", model.cluster_centers_.round(2).tolist())
print("sizes      ", model.cluster_weights_.astype(int).tolist())
print(f"agreement   {metrics.adjusted_rand_score(data.y, model.labels_):.3f} with where the points came from")

# The objective falls with every step.
objective = model.history_["objective"]
print("objective  ", objective.round(1).tolist())
assert (np.diff(objective) <= 1e-9 * objective[0]).all()

# Every label is the closest centre: predict gives the labels of the fit.
assert (model.predict(data.X) == model.labels_).all()

# A row that counts twice is a row that stands there twice, from the seeding on.
weights = np.random.default_rng(0).integers(1, 4, size=len(data.X))
weighted = KMeans(k, random_state=0).fit(data.X, sample_weight=weights)
repeated = KMeans(k, random_state=0).fit(np.repeat(data.X, weights, axis=0))
assert (weighted.cluster_centers_ == repeated.cluster_centers_).all()

# Data in pieces: exactly, in several passes over them (the order of rows does not matter), or roughly, in one.
pieces = [data.X[i::8] for i in range(8)]
exact = KMeans(k, random_state=0).fit_blocks(lambda: pieces)
assert (exact.cluster_centers_ == KMeans(k, random_state=0).fit(data.X).cluster_centers_).all()
rough = KMeans(k, random_state=0)
for piece in pieces:
    rough.partial_fit(piece)
print(f"inertia     {-exact.score(data.X):.1f} in several passes, {-rough.score(data.X):.1f} in one")

if len(sys.argv) > 1:
    plots.kmeans(model, data.X).figure.savefig(sys.argv[1], dpi=120)
    print("drawn in", sys.argv[1])
