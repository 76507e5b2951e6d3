"""Order the rows by density, and take clusters from the valleys of the reachability plot."""

import numpy as np

from knoll import OPTICS, datasets

X = datasets.load("circles").X
model = OPTICS(min_samples=8, xi=0.1, min_cluster_size=50).fit(X)
print(model.labels_.max() + 1, "clusters by their valleys")

finite = np.isfinite(model.reachability_)
for eps in np.quantile(model.reachability_[finite], (0.9, 0.99, 1.0)):
    labels = model.cut(float(eps))
    print(f"eps {eps:.3f}: {labels.max() + 1} clusters, {(labels < 0).sum()} rows of noise")
