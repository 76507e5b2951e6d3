"""The random search itself: estimators that are wrong on purpose are caught, cases can be replayed, hangs end."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import knoll  # noqa: E402
from fuzz import runner  # noqa: E402
from fuzz.__main__ import FAMILIES, main, summary  # noqa: E402
from fuzz.case import make_case  # noqa: E402
from fuzz.families import (  # noqa: E402
    dbscan,
    gaussian,
    kernel_kmeans,
    kmeans,
    mean_shift,
    mixed_mixture,
    mixture,
    spectral,
    tuning,
)
from knoll.gaussian.covariance import COVARIANCE_TYPES, estimated_types  # noqa: E402

# ---- estimators that are wrong on purpose ----------------------------------------------------------------------------


class ShiftedLabels(knoll.KMeans):
    def fit(self, X, y=None, sample_weight=None):
        super().fit(X, sample_weight=sample_weight)
        self.labels_ = (self.labels_ + 1) % self.n_clusters
        return self


class MovedCentres(knoll.KMeans):
    def fit(self, X, y=None, sample_weight=None):
        super().fit(X, sample_weight=sample_weight)
        self.cluster_centers_ = self.cluster_centers_ * (1 + 1e-6)
        return self


class DeafToWeights(knoll.KMeans):
    def fit(self, X, y=None, sample_weight=None):
        return super().fit(X)


class FirstRowsOfMemory(knoll.KMeans):
    def fit(self, X, y=None, sample_weight=None):
        if isinstance(X, np.ndarray) and X.flags.f_contiguous and not X.flags.c_contiguous:
            X = X.T.reshape(X.shape)
        return super().fit(X, sample_weight=sample_weight)


class ThreadsAdd(knoll.KMeans):
    def fit(self, X, y=None, sample_weight=None):
        super().fit(X, sample_weight=sample_weight)
        self.inertia_ += self.inertia_ * 1e-15 * (self.n_jobs or 1)
        return self


class LooseDensities(knoll.GaussianMixture):
    def score_samples(self, X):
        return super().score_samples(X) + 1e-6


class OutsideTheBox(knoll.GaussianMixture):
    def fit(self, X, y=None, sample_weight=None):
        super().fit(X, sample_weight=sample_weight)
        self.means_ = self.means_ * 1.5
        return self


class DividedByOneLess(knoll.Gaussian):
    def fit(self, X, y=None, sample_weight=None):
        super().fit(X, sample_weight=sample_weight)
        n = max(self.weight_, 2)
        self.covariance_ = self.covariance_ * n / (n - 1)
        return self


class OpenBalls(knoll.DBSCAN):
    def fit(self, X, y=None, sample_weight=None):
        eps, self.eps = self.eps, np.nextafter(self.eps, 0)
        super().fit(X, sample_weight=sample_weight)
        self.eps = eps
        return self


class NoNoise(knoll.DBSCAN):
    def fit(self, X, y=None, sample_weight=None):
        super().fit(X, sample_weight=sample_weight)
        self.labels_ = np.maximum(self.labels_, 0)
        return self


class RestlessEnds(knoll.MeanShift):
    def fit(self, X, y=None, sample_weight=None):
        super().fit(X, sample_weight=sample_weight)
        self.climbed_ = self.climbed_ * (1 + 1e-9)
        return self


class LooseEigenvalues(knoll.SpectralClustering):
    def fit(self, X, y=None, sample_weight=None):
        super().fit(X, sample_weight=sample_weight)
        self.eigenvalues_ = self.eigenvalues_ * 0.9999
        return self


class LooseObjective(knoll.KernelKMeans):
    def fit(self, X, y=None, sample_weight=None):
        super().fit(X, sample_weight=sample_weight)
        self.objective_ = self.objective_ * (1 + 1e-6)
        return self


class Talkative(knoll.Gaussian):
    def fit(self, X, y=None, sample_weight=None):
        np.log(np.zeros(1))
        return super().fit(X, sample_weight=sample_weight)


class ForeignError(knoll.Gaussian):
    def fit(self, X, y=None, sample_weight=None):
        raise np.linalg.LinAlgError("singular")


class Fussy(knoll.Gaussian):
    def fit(self, X, y=None, sample_weight=None):
        raise knoll.exceptions.BadData("not today")


@pytest.mark.parametrize(
    ("family", "broken", "law"),
    [
        (kmeans, ShiftedLabels, "labels_are_the_nearest_centres"),
        (kmeans, ShiftedLabels, "predict_is_labels"),
        (kmeans, MovedCentres, "centres_are_means_of_their_rows"),
        (kmeans, DeafToWeights, "a_weight_is_a_number_of_repetitions"),
        (kmeans, FirstRowsOfMemory, "any_form_gives_the_same_bits"),
        (kmeans, ThreadsAdd, "any_threads_give_the_same_bits"),
        (mixture, LooseDensities, "log_densities_are_exact"),
        (mixture, OutsideTheBox, "means_lie_in_the_box"),
        (gaussian, DividedByOneLess, "mean_and_covariance_are_exact"),
        (dbscan, OpenBalls, "answers_follow_the_definition"),
        (dbscan, NoNoise, "answers_follow_the_definition"),
        (mean_shift, RestlessEnds, "ends_are_fixed_points"),
        (spectral, LooseEigenvalues, "eigenvalues_are_those_of_lapack"),
        (kernel_kmeans, LooseObjective, "the_objective_is_what_is_reported"),
        (gaussian, Talkative, "fit: RuntimeWarning"),
        (gaussian, ForeignError, "fit: LinAlgError"),
        (gaussian, Fussy, "refuses ordinary data"),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)).rpartition(".")[2],
)
def test_what_is_wrong_on_purpose_is_caught(family, broken, law):
    spoiled = replace(family.FAMILY, estimator=broken)
    for seed in range(60):
        failures = runner.check_case(make_case(spoiled, seed), only=law.partition(":")[0])
        if any(failure.law.startswith(law) for failure in failures):
            return
    pytest.fail(f"{law} did not notice {broken.__name__}")


def test_a_hang_is_a_failure(monkeypatch):
    class Endless(knoll.Gaussian):
        def fit(self, X, y=None, sample_weight=None):
            while True:
                pass

    monkeypatch.setattr(runner, "CPU_SECONDS", 0.3)
    begun = time.monotonic()
    failures = runner.check_case(make_case(replace(gaussian.FAMILY, estimator=Endless), 0))
    assert [failure.law for failure in failures] == ["fit: hang"]
    assert time.monotonic() - begun < 30


# ---- replay and report -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", [kmeans, mixture, dbscan], ids=["kmeans", "mixture", "dbscan"])
def test_a_seed_is_the_whole_case(family):
    for seed in range(30):
        one, two = (make_case(family.FAMILY, seed) for _ in range(2))
        np.testing.assert_array_equal(one.X, two.X)
        assert (one.form, one.weight_sort) == (two.form, two.weight_sort)
        assert repr(one.parameters) == repr(two.parameters)
        np.testing.assert_array_equal(one.mass, two.mass)


def test_tables_reach_all_magnitudes_and_half_are_ordinary():
    cases = [make_case(kmeans.FAMILY, seed) for seed in range(400)]
    sizes = np.array([np.abs(case.X.astype(float)).max() for case in cases])
    assert sizes.max() > 1e307
    assert sizes[sizes > 0].min() < 1e-310
    assert 0.4 < np.mean([case.table.ordinary for case in cases]) < 0.6
    assert {case.X.dtype.name for case in cases} == {"float64", "float32", "int64"}
    assert {len(case.X) for case in cases} >= {1, 2}
    assert len({case.form for case in cases}) == 12
    assert all(np.isfinite(case.X.astype(float)).all() for case in cases)


def test_a_failure_is_reduced_to_a_few_lines():
    spoiled = replace(kmeans.FAMILY, estimator=ShiftedLabels)
    shown = []
    tally = runner.run(spoiled, range(10), show=shown.append)
    text = next(text for text in shown if "predict_is_labels" in text)
    assert "python -m fuzz --families kmeans --seed" in text
    assert "knoll.ShiftedLabels(" in text
    assert len(text.splitlines()) <= 10
    assert "predict_is_labels" in summary(tally)


def test_the_command_replays_a_case_and_reports_by_its_exit_code(capfd):
    assert main(["--families", "metrics", "--seed", "7", "--cases", "2"]) == 0
    assert "metrics: 2 cases" in capfd.readouterr().out
    assert main(["--families", "nothing"]) == 2
    listed = subprocess.run(
        [sys.executable, "-m", "fuzz", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert all(name in listed.stdout for name in FAMILIES)


@pytest.mark.parametrize("family", [mixture, mixed_mixture, tuning])
def test_every_covariance_type_is_drawn_with_what_it_needs(monkeypatch, family):
    monkeypatch.setitem(COVARIANCE_TYPES, "another", COVARIANCE_TYPES["diag"])
    drawn = [(case.X.shape[1], case.parameters) for case in (make_case(family.FAMILY, seed) for seed in range(300))]
    names = [parameters["types"][0] if family is tuning else parameters["covariance_type"] for _, parameters in drawn]
    assert set(names) == set(COVARIANCE_TYPES if family is mixture else estimated_types())
    given = set()
    for name, (d, parameters) in zip(names, drawn):
        assert ("fixed_variance" in parameters) == (name not in estimated_types())
        if "precisions_init" in parameters:
            given.add(name)
            shape = COVARIANCE_TYPES[name].shape_of(parameters["n_components"], d)
            assert parameters["precisions_init"].shape == shape
    assert given == (set(estimated_types()) if family is mixture else set())
