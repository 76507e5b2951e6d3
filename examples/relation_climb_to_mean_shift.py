"""Raise the level of climbing DBSCAN until nobody reaches it: that is Mean Shift, and L* is where it begins.

python examples/relation_climb_to_mean_shift.py             prints
python examples/relation_climb_to_mean_shift.py climb.gif   also makes a film
"""

import sys

from knoll import datasets, plots, relations

X = datasets.load("three_component_density").X
relation = relations.get("climb-to-mean-shift")

path = relation.path(X, steps=7, bandwidth=1.0)
for frame in path:
    moved = (frame.arrays["steps"] > 0).sum()
    print(f"{frame.title:10} {moved:4} of {len(X)} points climb, {frame.labels.max() + 1} groups of ends")

certificate = relation.certify(X, bandwidth=1.0)
print(certificate)
assert certificate.holds

if len(sys.argv) > 1:
    plots.animate(path, seconds=4).save(sys.argv[1], writer="pillow")
    print("drawn in", sys.argv[1])
