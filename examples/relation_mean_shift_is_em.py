"""Mean Shift with the Gaussian kernel is EM, for a mixture with one component a row that moves as a whole."""

from knoll import datasets, relations

certificate = relations.get("mean-shift-is-em").certify(datasets.load("banana").X)
print(certificate)
assert certificate.holds
