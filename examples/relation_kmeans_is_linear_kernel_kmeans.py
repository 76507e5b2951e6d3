"""k-means is kernel k-means with the linear kernel; its clusters lie in half-spaces, which two circles never do."""

from knoll import datasets, relations

relation = relations.get("kmeans-is-linear-kernel-kmeans")
data = datasets.load("x1500")
certificate = relation.certify(data.X, n_clusters=3)
print(certificate)
assert certificate.holds

# Give it the two circles as a clustering: no plane separates them, so k-means cannot return them.
circles = datasets.load("circles")
print(relation.certify(circles.X, n_clusters=2, labels=circles.y))
