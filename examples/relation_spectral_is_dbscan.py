"""Spectral clustering with a Heaviside kernel and a filter is DBSCAN: clusters from eigenvectors of eigenvalue one."""

import numpy as np

from knoll import DBSCAN, datasets, relations

X = datasets.load("circles", n_samples=150).X
graph = DBSCAN(eps=0.35, min_samples=4).fit(X)
spectral = DBSCAN(eps=0.35, min_samples=4, formulation="spectral").fit(X)
print("clusters   ", np.unique(graph.labels_), "from the graph,", np.unique(spectral.labels_), "from eigenvectors")
assert (graph.labels_ == spectral.labels_).all()

certificate = relations.get("spectral-is-dbscan").certify(X, eps=0.35, min_samples=4)
print(certificate)
assert certificate.holds
