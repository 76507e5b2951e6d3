"""Whatever a fit left: it is saved and comes back, or `save` gives the reason and writes nothing."""

from __future__ import annotations

import importlib.util
import os
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

import knoll
from knoll import models
from knoll._schema import COMMON
from knoll.exceptions import ConvergenceWarning, KnollError, ModelFileError
from knoll.mixture import em

_spec = importlib.util.spec_from_file_location("odd", Path(__file__).with_name("odd.py"))
odd = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(odd)

FIXTURES = Path(__file__).parents[1] / "fixtures" / "models"
METHODS = ("predict", "predict_proba", "transform", "score_samples", "predict_kind")


def assert_equal(a, b, where):
    """Equal in type and bits; NaN equals itself, seconds are left out."""
    assert type(a) is type(b), where
    if isinstance(a, dict):
        assert list(a) == list(b), where
        for name in a.keys() - {"seconds"}:
            assert_equal(a[name], b[name], f"{where}.{name}")
    elif isinstance(a, tuple):
        assert len(a) == len(b), where
        for i, (one, other) in enumerate(zip(a, b, strict=True)):
            assert_equal(one, other, f"{where}.{i}")
    elif scipy.sparse.issparse(a):
        assert a.shape == b.shape, where
        for name in ("data", "indices", "indptr"):
            assert_equal(getattr(a, name), getattr(b, name), f"{where}.{name}")
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype, where
        np.testing.assert_array_equal(a, b, err_msg=where)
    else:
        assert a == b or (a != a and b != b), where


def answer(model, method, X):
    """What a method does: its answer, or the error it raises."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return getattr(model, method)(X)
        except Exception as error:
            return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("name", odd.NAMES)
def test_every_fit_comes_back_or_save_reports_why_not(name, tmp_path):
    """Zero weights, k = n, k > distinct rows, one row, duplicates, 1e±300, float32, sparse, precomputed, any option."""
    path, saved, refused = tmp_path / "m.knoll", 0, []
    for seed, model, X in odd.fits(name, 120):
        fitted = {attribute for attribute in vars(model) if attribute.endswith("_")}
        assert fitted <= {*COMMON, *model._fitted}, seed  # each has its rule
        path.unlink(missing_ok=True)
        try:
            knoll.save(model, path)
        except KnollError as error:
            refused.append((seed, str(error)))
            assert os.listdir(tmp_path) == []
            continue
        saved += 1
        again = knoll.load(path)
        assert vars(again).keys() == vars(model).keys()
        for attribute in fitted:
            assert_equal(vars(model)[attribute], vars(again)[attribute], f"{seed} {attribute}")
        for method in METHODS:
            if hasattr(model, method):
                assert_equal(answer(model, method, X), answer(again, method, X), f"{seed} {method}")
    assert saved >= 60
    assert len(refused) <= 0.02 * saved, refused


@pytest.mark.parametrize("k", [2, 3])
def test_a_cluster_may_have_no_row(k, tmp_path):
    """One row counts, and k clusters were requested: the others are empty, and the model comes back so."""
    X = [[0.0], [1.0], [2.0]]
    with pytest.warns(ConvergenceWarning, match=r"Number of distinct clusters \(1\)"):
        model = knoll.KernelKMeans(k, sigma=1.0, random_state=0).fit(X, sample_weight=[1, 0, 0])
    knoll.save(model, tmp_path / "m.knoll")
    again = knoll.load(tmp_path / "m.knoll")
    np.testing.assert_array_equal(again.predict(X), model.labels_)
    np.testing.assert_array_equal(again.cluster_weights_, model.cluster_weights_)


@pytest.mark.parametrize("seed", [124, 223, 268, 480, 632])
def test_shares_of_a_mixture_stay_within_one(seed, tmp_path):
    """π = (Σ of the component's responsibilities)/(Σ of all), each sum rounded: these came out above 1."""
    r = np.random.default_rng(seed)
    n, d, s = int(r.integers(2, 60)), int(r.integers(1, 4)), 10.0 ** r.uniform(-60, 60)
    X = r.normal(size=(n, d)) * s
    if r.random() < 0.3:
        X = np.round(X / s) * s
    w = r.random(n) * 10.0 ** r.uniform(-20, 20) if r.random() < 0.8 else None
    if w is not None and r.random() < 0.3:
        w *= r.integers(0, 2, n)
    noise = True if r.random() < 0.5 else float(10.0 ** r.uniform(-10, 10) * s**-d)
    model = knoll.GaussianMixture(int(r.integers(1, min(n, 4))), noise=noise, tol=0.0, random_state=0)
    model.set_params(max_iter=int(r.choice([1, 3, 10, 50])), reg_covar=float(r.choice([0, 1e-6])))
    model.set_params(init_params=str(r.choice(["kmeans", "random"])))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, sample_weight=w)
    assert 0 <= model.noise_weight_ <= 1
    assert ((model.weights_ >= 0) & (model.weights_ <= 1)).all()
    knoll.save(model, tmp_path / "m.knoll")
    knoll.load(tmp_path / "m.knoll")


def test_the_share_of_the_noise_stays_within_one():
    """The same where all is noise: Σ of its responsibilities one unit above Σ of all."""
    model = knoll.GaussianMixture(1, noise=True, random_state=0).fit(np.arange(9.0)[:, None])
    nobody = np.zeros(1)
    sums = em._Rounded(0.0, 1.0, 1.0000000000000002, nobody, nobody[None], None, nobody > 0, 0.0)
    state, _ = em._finish(sums, SimpleNamespace(expected=True), model._model()[1], 0.0, False, 1, None)
    assert state.noise.weight == 1.0
    assert state.weights.tolist() == [0.0]


def test_a_share_that_rounding_put_above_one_is_read(tmp_path):
    """Files written before shares were bounded."""
    model = knoll.GaussianMixture(1, noise=True, random_state=0).fit(np.arange(9.0)[:, None])
    model.weights_, model.noise_weight_ = np.zeros(1), 1.0000000000000002
    knoll.save(model, tmp_path / "m.knoll")
    assert knoll.load(tmp_path / "m.knoll").noise_weight_ == 1.0000000000000002


def test_a_kernel_so_wide_that_nothing_is_left_out_is_saved(tmp_path):
    X = 1e306 * np.arange(8.0)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = knoll.SpectralClustering(2, sigma=1e308, operator="truncated", random_state=0).fit(X)
    assert model.cutoff_ == 0  # no pair of rows is left out
    knoll.save(model, tmp_path / "m.knoll")
    np.testing.assert_array_equal(knoll.load(tmp_path / "m.knoll").predict(X), model.labels_)


def test_a_violation_is_named_and_nothing_is_written(tmp_path):
    path = tmp_path / "m.knoll"
    model = knoll.KMeans(2, random_state=0).fit([[1.0], [2.0], [5.0]])
    knoll.save(model, path)
    before = path.read_bytes()
    model.cluster_centers_[0, 0] = np.nan
    with pytest.raises(
        ModelFileError, match="KMeans cannot be saved: cluster_centers_ has entries that are not finite"
    ):
        knoll.save(model, path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m.knoll"]


def test_a_preparation_that_cannot_be_read_is_not_written(tmp_path):
    model = knoll.KMeans(2, random_state=0).fit([[1.0], [2.0], [5.0]])
    for center in (np.inf, 1):  # neither is a float that a reader takes
        made = models.Preparation(("a",), "standard", "error", (center,), (1.0,), (0.0,))
        with pytest.raises(ModelFileError, match="KMeans cannot be saved: "):
            models.save(model, tmp_path / "m.knoll", preparation=made)
    assert os.listdir(tmp_path) == []


def test_parameters_set_after_a_fit_may_need_what_it_did_not_leave(tmp_path):
    X = np.arange(12.0)[:, None]
    model = knoll.DBSCAN(1.5).fit(X).set_params(formulation="climbing")
    with pytest.raises(ModelFileError, match="DBSCAN cannot be saved: climbed_ missing, and needed with these param"):
        knoll.save(model, tmp_path / "m.knoll")


def test_a_fit_leaves_nothing_of_another_formulation(tmp_path):
    X = np.arange(12.0)[:, None]
    model = knoll.DBSCAN(1.5, formulation="climbing").fit(X)
    assert hasattr(model, "climbed_")
    model.set_params(formulation="graph").fit(X[:6])
    assert not hasattr(model, "climbed_")
    assert not hasattr(model, "climbed_labels_")
    knoll.save(model, tmp_path / "m.knoll")


# ---- files of knoll 0.1.0 --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*.knoll")), ids=lambda path: path.stem)
def test_files_of_every_estimator_are_still_read(path, tmp_path):
    """tests/fixtures/models holds what knoll 0.1.0 wrote, never to be written again (fixtures/README.md)."""
    X = np.ascontiguousarray(knoll.datasets.load("iris").X[::5])
    model = knoll.load(path)
    if path.stem == "kernel-kmeans-empty":
        X = X[:3]
    if path.stem == "kernel-kmeans-precomputed":
        X = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2))
    if isinstance(model, knoll.Gaussian):
        np.testing.assert_array_equal(model.mean_, clone(model).fit(X).mean_)
    elif not hasattr(model, "predict"):
        name = "labels_" if hasattr(model, "labels_") else "bars_"
        np.testing.assert_array_equal(getattr(model, name), getattr(clone(model).fit(X), name))
    else:
        np.testing.assert_array_equal(model.predict(X), model.labels_)
    knoll.save(model, tmp_path / "m.knoll")
    assert vars(knoll.load(tmp_path / "m.knoll")).keys() == vars(model).keys()


def test_there_is_a_file_of_every_estimator():
    from knoll.models._classes import class_names

    assert {type(knoll.load(path)).__name__ for path in FIXTURES.glob("*.knoll")} == set(class_names())
