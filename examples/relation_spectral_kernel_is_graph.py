"""Spectral clustering written with a kernel and written with a graph: the same embedding, the same clusters."""

from knoll import datasets, relations

X = datasets.load("banana", n_samples=200).X
certificate = relations.get("spectral-kernel-is-graph").certify(X, n_clusters=2)
print(certificate)
assert certificate.holds
