"""The kernel trick: k-means on φ(x) = [x, ‖x‖] and kernel k-means with κ(x, y) = xᵀy + ‖x‖‖y‖ are one (figure 8)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from knoll._typing import Floats
from knoll.exceptions import BadData
from knoll.reference import kmeans, weighted_kernel_kmeans
from knoll.relations._common import squared_distances, start_centers
from knoll.relations._kernel import margin
from knoll.relations.certificate import Certificate, Check, Precondition
from knoll.relations.relation import Relation


class KernelTrick(Relation):
    """Kernel k-means computes in the feature space implicitly what k-means computes on the mapped rows."""

    name: ClassVar = "kernel-trick"
    source: ClassVar = "k-means"
    target: ClassVar = "weighted kernel k-means"
    statement: ClassVar = (
        "Kernel k-means with κ(x, y) = xᵀy + ‖x‖‖y‖ takes the same steps as k-means on the rows lifted by their "
        "length. That a plane separates two groups there does not mean that k-means finds it."
    )
    formula: ClassVar = "κ(x, y) = φ(x)ᵀφ(y),  φ(x) = [x, ‖x‖]"
    most_rows: ClassVar = 3_000
    _defaults: ClassVar = {"n_clusters": 2, "random_state": 0, "labels": None}

    def _certify(self, X: Floats, **parameters: Any) -> Certificate:
        k = int(parameters["n_clusters"])
        x = X - X.mean(axis=0)
        length = np.sqrt(np.square(x).sum(axis=1))
        lifted = np.column_stack([x, length])  # (n, d + 1): φ
        K = x @ x.T + np.outer(length, length)
        scale = float(np.square(lifted).sum()) or 1.0
        centers = start_centers(lifted, k, int(parameters["random_state"]), self.name)
        plain = [state for state in kmeans(lifted, centers) if state.step == "E step"]
        inner = [state for state in weighted_kernel_kmeans(K, plain[0].labels) if state.step == "E step"]
        # the start's labels are plain's first E step, so the kernel's t-th E step is plain's (t + 1)-th
        steps = min(len(plain) - 1, len(inner))
        tied = _closest_call(lifted, plain) / scale * len(x)
        differ = [int((a.labels != b.labels).sum()) for a, b in zip(plain[1:], inner)]
        objective = [abs(a.objective - b.objective) / scale for a, b in zip(plain[1:], inner)]
        numbers: dict[str, Any] = {"n_clusters": k, "steps compared": steps}
        if parameters["labels"] is not None:
            classes = np.asarray(parameters["labels"])
            if classes.shape != (len(X),) or len(np.unique(classes)) != 2:
                raise BadData(f"{self.name}: labels must name two groups, one entry for each of {len(X)} rows.")
            first = classes == classes[0]
            numbers["a plane separates the two groups of rows"] = margin(x, first) > 1e-12
            numbers["a plane separates them once lifted"] = margin(lifted, first) > 1e-12
            found = plain[-1].labels
            numbers["k-means on the lifted rows finds them"] = bool(
                k == 2 and (np.array_equal(found == found[0], first))
            )
        return self._certificate(
            preconditions=(Precondition("no row is tied between two means", tied > 1e-12, f"margin {tied:.1e}"),),
            checks=(
                Check("rows with another label in some step", float(max(differ, default=0)), 0.0),
                Check("objective of a step, relative", float(max(objective, default=0.0)), 1e-10),
            ),
            numbers=numbers,
        )


def _closest_call(lifted: Floats, states: list[Any]) -> float:
    """Return the smallest difference between the two nearest squared distances of a row, over all steps."""
    smallest = np.inf
    for state in states:
        square = squared_distances(lifted, state.mu)
        if square.shape[1] > 1:
            ordered = np.sort(square, axis=1)
            smallest = min(smallest, float((ordered[:, 1] - ordered[:, 0]).min()))
    return smallest
