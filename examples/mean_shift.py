"""Mean Shift: every point ascends to a mode of the density.

python examples/mean_shift.py               prints
python examples/mean_shift.py picture.png   also draws
"""

import sys

import numpy as np

from knoll import MeanShift, datasets, metrics, plots

# Three modes in 1500 points of the plane; the number is not a parameter.
data = datasets.load("x1500")
model = MeanShift(bandwidth=1.2).fit(data.X)
print(len(model.cluster_centers_), "clusters; their tops:")
print(model.cluster_centers_.round(2))
print(f"agreement with the truth: AMI {metrics.adjusted_mutual_info_score(data.y, model.labels_):.2f}")

# Each point moves to the mean of its neighbours until they are the same as before.
steps = model.n_steps_
print(f"paths take {steps.min()} to {steps.max()} steps, {steps.mean():.1f} on average")

# The path of one point. The altitude, the sum of eps^2 - distance^2 over its neighbours, never falls.
path = model.paths(data.X[:1])[0]
distance2 = ((path[:, None, :] - data.X) ** 2).sum(axis=2)
altitude = np.maximum(0, 1.2**2 - distance2).sum(axis=1)
print("altitudes on one path:", altitude.round(0).tolist())
assert (np.diff(altitude) >= -1e-9).all()

# A new point climbs, too. On the training data predict gives the labels back.
print("a new point at (0, 0) belongs to cluster", model.predict([[0.0, 0.0]])[0])
assert (model.predict(data.X) == model.labels_).all()

if len(sys.argv) > 1:
    plots.climb(model, data.X).figure.savefig(sys.argv[1], dpi=120)
    print("drawn in", sys.argv[1])
