"""The evidence for spectral clustering's number: the gap can be seen, and its words are for people."""

from __future__ import annotations

import numpy as np
import pytest

from knoll import compare
from knoll.comparison.spectrum import eigengap_evidence


class Solved:
    """As much of a fitted SpectralClustering as the evidence reads."""

    def __init__(self, values, following, reason="", k=2):
        self.eigenvalues_ = np.array(values)
        self.eigengap_ = self.eigenvalues_[-1] - following
        self.n_clusters_reason_, self.n_clusters_ = reason, k


def test_the_eigenvalue_after_the_gap_is_part_of_it():
    auto = Solved([1.0, 0.9999], 0.94, "after 2 eigenvalues (0.9999) the next is 0.94, a gap 130 times as wide")
    gap = eigengap_evidence(auto, 2, auto, "widest gap")
    assert gap.y["eigenvalue"].tolist() == pytest.approx([1.0, 0.9999, 0.94])
    assert gap.x.tolist() == [1.0, 2.0, 3.0]
    assert (gap.chosen, gap.reason) == (2.0, "after 2 eigenvalues (0.9999) the next is 0.94, a gap 130 times as wide.")


def test_a_next_one_that_nobody_knows_is_left_out():
    auto = Solved([1.0, 1.0], np.nan, "all 2 eigenvalues are one")
    assert eigengap_evidence(auto, 2, auto, "widest gap").y["eigenvalue"].tolist() == [1.0, 1.0]


def test_a_number_from_elsewhere_says_so():
    auto, model = Solved([1.0, 0.99], 0.5), Solved([1.0, 0.99, 0.5, 0.45], 0.4)
    more = eigengap_evidence(model, 4, auto, "density")
    assert more.y["eigenvalue"].tolist() == pytest.approx([1.0, 0.99, 0.5, 0.45, 0.4])
    assert more.reason == (
        "the density suggests 4 clusters; after 4 eigenvalues (0.45) the next is 0.4; the widest gap is after 2."
    )
    assert eigengap_evidence(model, 4, auto, "numbers to try").reason.startswith(
        "4 was chosen from the numbers to try; "
    )
    other = Solved([1.0, 0.7, 0.6], 0.1)  # of another affinity: its own eigenvalues, and no word of the other's gap
    alone = eigengap_evidence(other, 3, auto, "density")
    assert alone.y["eigenvalue"].tolist() == pytest.approx([1.0, 0.7, 0.6, 0.1])
    assert alone.reason == "the density suggests 3 clusters; after 3 eigenvalues (0.6) the next is 0.1."
    model.affinity = "nearest_neighbors"  # eigenvalues that look alike by chance
    assert "widest" not in eigengap_evidence(model, 4, auto, "density").reason


def test_the_evidence_is_that_of_the_answer():
    """The chosen place is the answer's number, the next eigenvalue is there, and a scale only if it is used."""
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, np.pi, 300)
    moons = np.c_[np.cos(angle), np.sin(angle)] + 0.05 * rng.normal(size=(300, 2))
    moons[150:] = [1.0, 0.5] - moons[150:]
    X = np.r_[moons, rng.uniform([-2, -1.5], [3, 2], (80, 2))]
    one = compare(X, methods=["spectral"], k=range(2, 5)).candidates["spectral"]
    gap = one.evidence[-1]
    assert (gap.name, gap.chosen) == ("eigengap", one.parameters["n_clusters"])
    assert len(gap.x) > gap.chosen
    assert ("sigma" in one.parameters) == (one.evidence[0].parameter == "sigma")


def test_a_width_is_shown_with_what_it_came_from():
    X = np.random.default_rng(1).normal(size=(120, 2))
    X[:60] += 8
    usual = compare(X, methods=["kernel-kmeans"], k=[2]).candidates["kernel-kmeans"]
    assert usual.evidence[0].reason.startswith(f"σ = {usual.parameters['sigma']:.4g}")
    given = {"kernel-kmeans": {"sigma": 1.23}, "spectral": {"gamma": 0.3}}
    by_hand = compare(X, methods=list(given), k=[2], parameters=given).candidates
    assert by_hand["kernel-kmeans"].evidence[0].reason.startswith("σ = 1.23 was set by hand; ")
    assert [each.parameter for each in by_hand["spectral"].evidence] == ["n_clusters"]
