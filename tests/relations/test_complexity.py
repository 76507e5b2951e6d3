"""The complexity table counts: it holds on the paper's data, and fails for a wrong statement or for more work."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import knoll
from knoll import reference, relations
from knoll.density.ascent import KernelDensity
from knoll.reference import _ascent, _dbscan_graph, _em_gmm, _embedding, _kmeans
from knoll.relations import _work, complexity
from knoll.relations._work import Seen

RELATION = relations.get("complexity-table")
X = np.ascontiguousarray(knoll.datasets.load("circles").X[::2])
Patch = pytest.MonkeyPatch
SCALES = _work.Scales(eps=0.3, min_samples=30, bandwidth=0.6, sigma=0.2, seed=0)


@pytest.mark.parametrize("name", ["x1500", "banana"])
def test_it_holds_on_the_papers_data(name: str) -> None:
    certificate = RELATION.certify(knoll.datasets.load(name).X)
    assert certificate.verdict == "holds", str(certificate)
    assert "spectral clustering: the paper says O(n²d); it is O(n²d + n²kT_eig)" in str(certificate)


@pytest.mark.parametrize("seed", range(4))
def test_it_holds_on_any_shape(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(64, 300)), int(rng.integers(1, 9))
    points = rng.choice([1e-6, 1.0, 1e6]) * rng.standard_t(3, size=(n, d)) + rng.choice([0.0, 1e7])
    points[rng.integers(n, size=n // 4)] = points[0]  # copies
    certificate = RELATION.certify(points)
    assert certificate.verdict == "holds", str(certificate)


# ---- what the reference counts is what its definition says ----------------------------------------------------------


def test_the_counts_of_the_reference() -> None:
    n, k = len(X), 4
    for t, seen in enumerate(_work.REFERENCE["k-means"](X, k, SCALES), 1):
        assert seen == Seen(n, k, t, n * k * t)
    for t, seen in enumerate(_work.REFERENCE["EM-GMM"](X, k, SCALES), 1):
        assert seen == Seen(n, k, t, n * k * t)
    for name in ("spectral clustering", "DBSCAN"):
        assert _work.REFERENCE[name](X, k, SCALES) == [Seen(n, k, 1, n * n)]
    for name in ("climbing DBSCAN", "Mean Shift"):
        seen = _work.REFERENCE[name](X, k, SCALES)
        assert len(seen) > 2
        assert all(s.count == pytest.approx(n * n * s.T, rel=1e-12) for s in seen)


def test_reference_and_fast_path_take_the_same_rounds() -> None:
    """T is not the count's: both sides read it from their own states, and agree."""
    for name in ("climbing DBSCAN", "Mean Shift"):
        slow, fast = (paths[name](X, 2, SCALES)[-1] for paths in (_work.REFERENCE, _work.FAST))
        assert abs(fast.T - slow.T) < 1e-12


def test_tallies_nest_and_end() -> None:
    with reference.counted() as outer:
        reference.run(reference.dbscan_graph(X[:10], 1.0, 2))
        with reference.counted() as inner:
            reference.run(reference.dbscan_graph(X[:20], 1.0, 2))
    reference.run(reference.dbscan_graph(X[:30], 1.0, 2))
    assert (outer.distances, inner.distances) == (500, 400)


def test_another_thread_counts_for_itself() -> None:
    with reference.counted() as tally:
        thread = threading.Thread(target=lambda: reference.run(reference.dbscan_graph(X[:20], 1.0, 2)))
        thread.start()
        thread.join()
    assert tally.distances == 0


def test_the_climb_counts_every_distance() -> None:
    """One leaf holds all rows here, so that a look is a distance to each of them."""
    points = np.random.default_rng(0).normal(size=(64, 4))
    ends = KernelDensity(points, None, 1.0, gaussian=True).ascend(points, 500)
    assert ends.distances == 64 * ends.steps.sum()
    half = np.ascontiguousarray(points[:32])
    for row in half[:4]:
        ends = KernelDensity(half, None, 1.0).ascend(row[None], 500)
        assert ends.distances == 32 * (ends.steps[0] + 1)


def test_an_exponent_is_that_of_the_power() -> None:
    seen = [Seen(n, k, T, 3 * n * n * T) for n in (8, 16, 64) for k in (1, 2) for T in (1, 2, 5)]
    found = complexity.exponents(seen, {"n": 2, "k": 0, "T": 1})
    assert found == pytest.approx({"n": 2, "k": 0, "T": 1}, abs=1e-12)
    assert complexity.exponents([s for s in seen if s.T == 2], {"n": 2, "T": 1}) == pytest.approx({"n": 2})
    logarithm = [replace(s, count=round(1e6 * s.n**2 * np.log(s.n))) for s in seen]
    assert complexity.exponents(logarithm, {"n": 2})["n"] > 2 + 2 * complexity._TOLERANCE


# ---- it can fail, row by row ----------------------------------------------------------------------------------------


def squared_anyway(module: object) -> Callable[[Patch], None]:
    """Make a box of the reference look at all pairs of its points once for every distance matrix that it computes."""

    def perturb(patch: Patch) -> None:
        plain = module.squared_distances  # type: ignore[attr-defined]
        patch.setattr(module, "squared_distances", lambda A, B: (plain(X, X), plain(A, B))[1])

    return perturb


def cubed(module: object) -> Callable[[Patch], None]:
    """Make it look once a row."""

    def perturb(patch: Patch) -> None:
        plain = module.squared_distances  # type: ignore[attr-defined]
        patch.setattr(module, "squared_distances", lambda A, B: [plain(A, B) for _ in A].pop())

    return perturb


def densities_of_all_pairs(patch: Patch) -> None:
    plain = _em_gmm._log_joint

    def more(points, *args):
        reference._count.spent(len(points) ** 2)
        return plain(points, *args)

    patch.setattr(_em_gmm, "_log_joint", more)


MORE_WORK: dict[str, Callable[[Patch], None]] = {
    "EM-GMM": densities_of_all_pairs,
    "k-means": squared_anyway(_kmeans),
    "spectral clustering": cubed(_embedding),
    "DBSCAN": cubed(_dbscan_graph),
    "climbing DBSCAN": squared_anyway(_ascent),
    "Mean Shift": squared_anyway(_ascent),
}


def only(name: str, patch: Patch) -> None:
    """Leave one row of the table, for a quick test."""
    patch.setattr(complexity, "TABLE", tuple(cost for cost in complexity.TABLE if cost.algorithm == name))


@pytest.mark.parametrize("name", MORE_WORK)
def test_more_work_in_the_reference_is_seen(name: str, monkeypatch: Patch) -> None:
    only(name, monkeypatch)
    assert RELATION.certify(X).verdict == "holds"
    MORE_WORK[name](monkeypatch)
    broken = [check.what for check in RELATION.certify(X).checks if not check.holds]
    assert any(what.startswith(f"{name}: difference of the exponents of the reference") for what in broken), broken


@pytest.mark.parametrize("name", _work.FAST)
def test_more_work_in_the_fast_path_is_seen(name: str, monkeypatch: Patch) -> None:
    only(name, monkeypatch)
    plain = _work.FAST[name]
    more = lambda *args: [replace(seen, count=200 * seen.count) for seen in plain(*args)]  # noqa: E731
    monkeypatch.setitem(_work.FAST, name, more)
    broken = [check.what for check in RELATION.certify(X).checks if not check.holds]
    assert [what.startswith(f"{name}: the fast path's count") for what in broken] == [True], broken


UNCORRECTED = {"spectral clustering": {"matrix_free": False}, "climbing DBSCAN": {"powers": {"n": 2}}}


@pytest.mark.parametrize("name", UNCORRECTED)
def test_what_the_paper_claims_uncorrected_fails(name: str, monkeypatch: Patch) -> None:
    table = tuple(replace(c, **UNCORRECTED[name]) if c.algorithm == name else c for c in complexity.TABLE)
    monkeypatch.setattr(complexity, "TABLE", table)
    certificate = RELATION.certify(X, eps=0.1, min_samples=20)  # few are dense enough at once: they climb
    broken = [check.what for check in certificate.checks if not check.holds]
    assert certificate.verdict == "fails"
    assert broken
    assert all(what.startswith(name) for what in broken)


# ---- what it cannot take --------------------------------------------------------------------------------------------


def test_too_few_rows_are_named() -> None:
    certificate = RELATION.certify(X[:63])
    assert certificate.verdict == "does not apply"
    assert "at least 64 rows, to see growth: no, got 63" in str(certificate)
    copies = RELATION.certify(np.repeat(X[:3], 40, axis=0))
    assert copies.verdict == "does not apply"
    assert "at least 4 unique rows among every eighth of them: no, got 3: shuffle the rows" in str(copies)
