"""Spectral clustering: find groups of any shape by what is near to what, with a width and a number read from the data.

python examples/spectral.py               prints
python examples/spectral.py picture.png   also draws
"""

import sys

from knoll import KMeans, SpectralClustering, datasets, metrics, plots, scales, tuning

# Two crescents in the plane. k-means can only cut straight.
data = datasets.load("banana")
X = data.X
print(f"k-means:  AMI {metrics.adjusted_mutual_info_score(data.y, KMeans(2, random_state=0).fit_predict(X)):.2f}")

# The width of the Gaussian kernel is read from the data, unless you give one.
print("sigma", scales.estimate_sigma(X))
model = SpectralClustering(2, random_state=0).fit(X)
print(f"spectral: AMI {metrics.adjusted_mutual_info_score(data.y, model.labels_):.2f}")

# The certificate: how far each eigenpair is from being exact, by one application of the true matrix.
print("eigenvalues", model.eigenvalues_.round(6), "residuals below", f"{max(model.eigen_residual_.max(), 1e-16):.0e}")
print(f"operator: {model.operator_}, because {model.operator_reason_}")
print(f"normalized cut {model.normalized_cut_:.2g}")

# How many clusters? Ask for some more eigenvalues and look for the gap.
more = SpectralClustering(2, n_components=10, random_state=0).fit(X)
choice = tuning.eigengap(more.eigenvalues_, n_samples=len(X))
print("clusters", choice)

# New points are embedded by their similarities to the old ones; on the training data predict gives the labels back.
print("the points (-0.5, 0.9) and (1.5, -0.4) belong to", model.predict([[-0.5, 0.9], [1.5, -0.4]]))
assert (model.predict(X) == model.labels_).all()

if len(sys.argv) > 1:
    import matplotlib.pyplot as plt

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    plots.scatter(X, model.labels_, left)
    plots.embedding(model, middle)
    plots.eigenvalues(choice, right)
    figure.savefig(sys.argv[1], dpi=120)
    print("drawn in", sys.argv[1])
