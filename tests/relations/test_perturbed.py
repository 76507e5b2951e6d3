"""Every certificate can fail: perturb one side a little, and the verdict turns."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

import knoll
from knoll import relations
from knoll.relations import (
    _kernel,
    _tree,
    annealing,
    climb_to_mean_shift,
    complexity,
    dbscan_and_tree,
    every_eps,
    gaussian_and_mixture,
    gaussian_to_heaviside,
    graph_and_climb,
    kernel_and_graph,
    kernel_trick,
    kmeans_and_kernel,
    mean_shift_and_em,
    mean_shift_ascent,
    medoids,
    mixture_distance,
    mixture_to_kmeans,
    normalized_cut,
    optics_and_tree,
    relaxation,
    single_linkage,
    spectral_and_tree,
    spectral_to_dbscan,
    tree_order,
    tree_persistence,
    ward_and_dp_means,
    ward_and_gaussians,
    ward_and_kmeans,
)

X = knoll.datasets.load("circles").X[::2]
Patch = pytest.MonkeyPatch


def shifted_mean(patch: Patch) -> None:
    class Shifted(gaussian_and_mixture.Gaussian):
        def fit(self, points, y=None, sample_weight=None):
            super().fit(points)
            self.mean_ = self.mean_ + 1e-8
            return self

    patch.setattr(gaussian_and_mixture, "Gaussian", Shifted)


def softer_mixture(patch: Patch) -> None:
    hard = mixture_to_kmeans._hard_eps
    patch.setattr(mixture_to_kmeans, "_hard_eps", lambda *arguments: 1e4 * hard(*arguments))


def one_label_moved(patch: Patch) -> None:
    class Moved(mixture_distance.GaussianMixture):
        def predict(self, points):
            labels = super().predict(points)
            labels[7] = (labels[7] + 1) % self.n_components
            return labels

    patch.setattr(mixture_distance, "GaussianMixture", Moved)


def another_kernel(patch: Patch) -> None:
    class Other(kmeans_and_kernel.KernelKMeans):
        def __init__(self, n_clusters, kernel, init, max_iter):
            super().__init__(n_clusters, kernel="rbf", sigma=0.3, init=init, max_iter=max_iter)

    patch.setattr(kmeans_and_kernel, "KernelKMeans", Other)


def a_kernel_that_is_off(patch: Patch) -> None:
    plain = kernel_trick.weighted_kernel_kmeans
    patch.setattr(kernel_trick, "weighted_kernel_kmeans", lambda K, labels: plain(K + 1e-6 * np.eye(len(K)), labels))


def a_lower_bound(patch: Patch) -> None:
    top = relaxation.top_eigenpairs
    patch.setattr(relaxation, "top_eigenpairs", lambda M, k: (top(M, k)[0] - 0.2, top(M, k)[1]))


def another_width(patch: Patch) -> None:
    plain = kernel_and_graph.njw_spectral_graph
    patch.setattr(kernel_and_graph, "njw_spectral_graph", lambda points, k, sigma: plain(points, k, sigma * (1 + 1e-4)))


def a_cut_that_is_off(patch: Patch) -> None:
    plain = normalized_cut.normalized_cut
    patch.setattr(normalized_cut, "normalized_cut", lambda A, labels: plain(A, labels) + 1e-9)


def a_sparser_graph(patch: Patch) -> None:
    plain = spectral_to_dbscan.Heaviside
    patch.setattr(spectral_to_dbscan, "Heaviside", lambda eps: plain(0.5 * eps))


def a_wider_heaviside(patch: Patch) -> None:
    wider = gaussian_to_heaviside.Heaviside
    patch.setattr(gaussian_to_heaviside, "Heaviside", lambda eps: wider(1.01 * eps))


def cores_that_move(patch: Patch) -> None:
    climb = graph_and_climb.KernelDensity.ascend
    patch.setattr(
        graph_and_climb.KernelDensity, "ascend", lambda self, starts, steps, level: climb(self, starts, steps)
    )


def a_level_too_high(patch: Patch) -> None:
    level = climb_to_mean_shift._level
    patch.setattr(climb_to_mean_shift, "_level", lambda *arguments: level(*arguments) + 1)


def paths_backwards(patch: Patch) -> None:
    paths = mean_shift_ascent.KernelDensity.paths
    patch.setattr(
        mean_shift_ascent.KernelDensity, "paths", lambda self, *args: [path[::-1] for path in paths(self, *args)]
    )


def another_linkage(patch: Patch) -> None:
    linkage = single_linkage.linkage
    patch.setattr(single_linkage, "linkage", lambda distances, method: linkage(distances, method="complete"))


def average_instead_of_ward(module) -> Callable[[Patch], None]:
    class Average(module.AgglomerativeClustering):
        def __init__(self, n_clusters, compute_distances):
            super().__init__(n_clusters, linkage="average", compute_distances=compute_distances)

    return lambda patch: patch.setattr(module, "AgglomerativeClustering", Average)


def one_cluster_more(patch: Patch) -> None:
    plain = ward_and_dp_means._clusters_at
    patch.setattr(ward_and_dp_means, "_clusters_at", lambda tree, price: min(tree.n, plain(tree, price) + 1))


def another_tree(module, change: Callable) -> Callable[[Patch], None]:
    """Change a tree after its fit."""

    class Changed(module.DensityTree):
        def fit(self, points, y=None, sample_weight=None):
            super().fit(points, sample_weight=sample_weight)
            change(self)
            return self

    return lambda patch: patch.setattr(module, "DensityTree", Changed)


def one_bar_a_rounding_higher(tree) -> None:
    tree.bars_[len(tree.bars_) // 2] = np.nextafter(tree.bars_[len(tree.bars_) // 2], np.inf)


def shorter_lists(tree) -> None:
    tree.neighbors_ = np.ascontiguousarray(tree.neighbors_[:, :1])


def ties_by_the_number_of_the_row(tree) -> None:
    """Split what merges at one height, as a binary tree does."""
    tree.bars_ = tree.bars_ * (1 + 1e-10 * tree.order_ / len(tree.order_))


def an_asymmetric_ordering(patch: Patch) -> None:
    class Original(optics_and_tree.OPTICS):
        def __init__(self, min_samples, metric="euclidean", cluster_method="dbscan"):
            super().__init__(min_samples=12, metric=metric, cluster_method=cluster_method)

    patch.setattr(optics_and_tree, "OPTICS", Original)


def centers_of_another_power(power: float) -> Callable[[Patch], None]:
    class Other(_tree.DensityTree):
        def centers(self, k, *, power=power):
            return super().centers(k, power=wanted)

    wanted = power
    return lambda patch: patch.setattr(_tree, "DensityTree", Other)


def reachability_in_place_of_the_ultrametric(patch: Patch) -> None:
    patch.setattr(spectral_and_tree, "heights_between", lambda order, bars: _tree.mutual_reachability(X, 8))


def rows_that_move_further(patch: Patch) -> None:
    plain = tree_persistence._directions
    patch.setattr(tree_persistence, "_directions", lambda *arguments: 2 * plain(*arguments))


def a_flat_kernel(patch: Patch) -> None:
    of = mean_shift_and_em.KernelDensity.of
    flat = lambda points, weights, eps, gaussian, threads: of(points, weights, eps, False, threads)  # noqa: E731
    patch.setattr(mean_shift_and_em.KernelDensity, "of", flat)


def another_temperature(patch: Patch) -> None:
    plain = annealing._mixture
    patch.setattr(annealing, "_mixture", lambda points, means, eps, steps: plain(points, means, 1.01 * eps, steps))


def distances_that_are_not_squared(patch: Patch) -> None:
    plain = medoids.squared_distances
    patch.setattr(medoids, "squared_distances", lambda a, b: np.sqrt(plain(a, b)))


def a_table_without_rounds(patch: Patch) -> None:
    patch.setattr(complexity, "TABLE", tuple(dataclasses.replace(c, powers={"n": 2}) for c in complexity.TABLE))


PERTURBED: dict[str, Callable[[Patch], None]] = {
    "gaussian-is-mixture-of-one": shifted_mean,
    "mixture-to-kmeans": softer_mixture,
    "mixture-distance": one_label_moved,
    "kmeans-is-linear-kernel-kmeans": another_kernel,
    "kernel-trick": a_kernel_that_is_off,
    "trace-relaxation": a_lower_bound,
    "spectral-kernel-is-graph": another_width,
    "normalized-cut-is-kernel-kmeans": a_cut_that_is_off,
    "spectral-is-dbscan": a_sparser_graph,
    "gaussian-to-heaviside": a_wider_heaviside,
    "dbscan-graph-and-climb": cores_that_move,
    "climb-to-mean-shift": a_level_too_high,
    "mean-shift-ascent": paths_backwards,
    "dbscan-is-single-linkage": another_linkage,
    "dbscan-star-is-tree-cut": another_tree(dbscan_and_tree, one_bar_a_rounding_higher),
    "every-eps-dbscan": another_tree(every_eps, shorter_lists),
    "tree-is-order-free": another_tree(tree_order, ties_by_the_number_of_the_row),
    "optics-is-prim": an_asymmetric_ordering,
    "spectral-on-the-tree": reachability_in_place_of_the_ultrametric,
    "tree-is-k-center": centers_of_another_power(1.0),
    "k-means-on-the-tree": centers_of_another_power(1.5),
    "tree-is-persistence": rows_that_move_further,
    "mean-shift-is-em": a_flat_kernel,
    "annealing": another_temperature,
    "medoid-sandwich": distances_that_are_not_squared,
    "ward-is-kmeans-by-merging": average_instead_of_ward(ward_and_kmeans),
    "ward-is-dp-means-on-a-tree": one_cluster_more,
    "ward-is-gaussian-merging": average_instead_of_ward(ward_and_gaussians),
    "complexity-table": a_table_without_rounds,
}


SCALES = {
    name: {"eps": 0.15, "min_samples": 8}
    for name in ("spectral-is-dbscan", "dbscan-graph-and-climb", "spectral-on-the-tree", "every-eps-dbscan")
}


def test_every_relation_is_perturbed() -> None:
    assert set(PERTURBED) == {relation.name for relation in relations.all()}


@pytest.mark.parametrize("name", PERTURBED)
def test_the_verdict_turns(name: str, monkeypatch: Patch) -> None:
    relation = relations.get(name)
    parameters = {key: value for key, value in SCALES.get(name, {}).items() if key in relation.parameters}
    assert relation.certify(X, **parameters).verdict == "holds"
    PERTURBED[name](monkeypatch)
    certificate = relation.certify(X, **parameters)
    assert certificate.verdict == "fails", str(certificate)


def test_no_plane_separates_the_circles_but_one_does_once_lifted() -> None:
    data = knoll.datasets.load("circles")
    certificate = relations.get("kernel-trick").certify(data.X, labels=data.y)
    assert certificate.numbers["a plane separates the two groups of rows"] is False
    assert certificate.numbers["a plane separates them once lifted"] is True
    certificate = relations.get("kmeans-is-linear-kernel-kmeans").certify(data.X, labels=data.y)
    assert certificate.numbers["k-means can produce these labels (disjoint convex hulls)"] is False


def test_the_margin_is_that_of_a_plane() -> None:
    points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0], [1.0, 2.0]])
    assert _kernel.margin(points, np.array([True, True, False, False])) > 0.5
    assert _kernel.margin(points, np.array([True, False, False, True])) <= 1e-12
