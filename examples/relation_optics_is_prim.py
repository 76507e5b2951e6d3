"""With a symmetric reachability, OPTICS is Prim's algorithm: the plot has the heights of the density tree."""

from knoll import datasets, relations

certificate = relations.get("optics-is-prim").certify(datasets.load("banana").X)
print(certificate)
assert certificate.holds
