"""Eigenvectors bound every clustering: no partition has a trace above the sum of the largest eigenvalues."""

from knoll import datasets, relations

X = datasets.load("banana", n_samples=200).X
certificate = relations.get("trace-relaxation").certify(X, n_clusters=2)
print(certificate)
assert certificate.holds
