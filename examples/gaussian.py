"""One Gaussian: fit it, query it, draw it.

python examples/gaussian.py               prints
python examples/gaussian.py picture.png   also draws
"""

import sys

import numpy as np

from knoll import Gaussian, datasets, plots

# 500 points in the plane, drawn from one correlated Gaussian whose parameters we know.
data = datasets.load("one_gaussian")
truth = data.model

# The maximum likelihood estimate: the mean, and the covariance divided by n (not n - 1).
model = Gaussian().fit(data.X)
print("mean       ", model.mean_.round(3), "  drawn from", truth.means[0])
print("covariance ", model.covariance_.round(3).tolist())
print("drawn from ", truth.covariances[0].round(3).tolist())

# No other Gaussian gives these points a higher likelihood, not even the one they were drawn from.
fitted, drawn_from = model.score(data.X), truth.log_density(data.X).sum()
print(f"log-likelihood {fitted:.2f}, of the Gaussian they were drawn from {drawn_from:.2f}")
assert fitted >= drawn_from

# How far out is each point, in standard deviations? About 1.1 % of a plane Gaussian lies beyond three.
distance = model.mahalanobis(data.X)
print(f"{np.mean(distance > 3):.1%} of the points lie outside the three-sigma ellipse:", model.ellipse(n_std=3))

# New points from the model. A fixed seed gives the same ones again.
print("two samples", model.sample(2, random_state=0).round(2).tolist())

# A point with weight 2 is a point that was seen twice.
weights = np.ones(len(data.X))
weights[0] = 2
twice = Gaussian().fit(np.vstack([data.X, data.X[:1]]))
assert np.allclose(Gaussian().fit(data.X, sample_weight=weights).mean_, twice.mean_)

if len(sys.argv) > 1:
    plots.gaussian(model, data.X).figure.savefig(sys.argv[1], dpi=120)
    print("drawn in", sys.argv[1])
