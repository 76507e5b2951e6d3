"""Every step of Mean Shift climbs the Epanechnikov density, by at least n‖y⁺ − y‖²; its ends need not be peaks."""

from knoll import MeanShift, datasets, relations

# Three points: the middle one stays where it is, though the density is lowest there. Two points lie on its sphere.
model = MeanShift(bandwidth=1.0).fit([[-1.0], [0.0], [1.0]])
print("ends  ", model.climbed_.ravel(), " peaks:", model.is_peak_)
assert not model.is_peak_[1]

certificate = relations.get("mean-shift-ascent").certify(datasets.load("banana").X, bandwidth=0.4)
print(certificate)
assert certificate.holds
