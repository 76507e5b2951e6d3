"""EM with covariances εI is k-means at temperature ε; as it cools, coinciding means separate."""

import numpy as np

from knoll import datasets, relations

X = datasets.load("x1500").X
annealing = relations.get("annealing")
for state in annealing.path(X, steps=8):
    distinct = len(np.unique(state.arrays["means"].round(2), axis=0))
    print(f"{state.title:10}  {distinct} distinct means")

certificate = annealing.certify(X)
print(certificate)
assert certificate.holds
