"""From the Gaussian to the Heaviside kernel: κ_p(r) = exp(−½ (r/ε)^2p) grows steeper until it is a step."""

from knoll import datasets, relations

X = datasets.load("banana", n_samples=120).X
relation = relations.get("gaussian-to-heaviside")

for frame in relation.path(X, steps=5, eps=0.25):
    half, same, double = (frame.arrays["curve"][i] for i in (50, 100, 200))
    print(f"{frame.title:9} similarity at ε/2, ε and 2ε: {half:.3f} {same:.3f} {double:.3f}")

certificate = relation.certify(X, eps=0.25)
print(certificate)
assert certificate.holds
