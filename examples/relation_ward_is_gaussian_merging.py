"""Ward's merges lose the least likelihood of Gaussians with one variance."""

from knoll import datasets, relations

certificate = relations.get("ward-is-gaussian-merging").certify(datasets.load("iris").X)
print(certificate)
assert certificate.holds
