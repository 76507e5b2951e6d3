"""A mixture of shrinking spheres turns into k-means: watch the responsibilities harden as ε falls."""

from knoll import datasets, relations

X = datasets.load("x1500").X
relation = relations.get("mixture-to-kmeans")

# The path: EM with Σ = εI for ever smaller ε.
for frame in relation.path(X, steps=6, n_clusters=3):
    soft = (frame.arrays["responsibilities"].max(axis=1) < 0.99).sum()
    print(f"{frame.title:14} {soft:4} of {len(X)} points belong to more than one component")

# The certificate: from a stated ε on, EM's steps are those of k-means.
certificate = relation.certify(X, n_clusters=3)
print(certificate)
assert certificate.holds
