"""The component that wins is not the nearest in Mahalanobis distance: width and weight count too."""

from scipy.stats import norm

from knoll import datasets, relations

# A point at 1.5 between N(0, 1) and N(4, 9), equally heavy: 1.5 deviations from one, 0.83 from the other.
x = 1.5
print("Mahalanobis  ", abs(x - 0) / 1, "and", abs(x - 4) / 3, "so the second is nearer")
print("density      ", norm(0, 1).pdf(x).round(3), "and", norm(4, 3).pdf(x).round(3), "so the first is likelier")
assert norm(0, 1).pdf(x) > norm(4, 3).pdf(x)

certificate = relations.get("mixture-distance").certify(datasets.load("iris").X, n_components=3)
print(certificate)
assert certificate.holds
