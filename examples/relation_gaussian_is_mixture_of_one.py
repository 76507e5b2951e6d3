"""One Gaussian is a mixture of one: the same mean and covariance, by a formula and by EM."""

import numpy as np

from knoll import Gaussian, GaussianMixture, datasets, relations

X = datasets.load("one_gaussian").X

one = Gaussian().fit(X)
mixture = GaussianMixture(1, reg_covar=0).fit(X)
print("mean        ", one.mean_, "by formula,", mixture.means_[0], "by EM")
print("covariance   differs by", np.abs(one.covariance_ - mixture.covariances_[0]).max())

certificate = relations.get("gaussian-is-mixture-of-one").certify(X)
print(certificate)
assert certificate.holds
