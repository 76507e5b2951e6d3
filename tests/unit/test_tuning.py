"""The choice of k: the curves are exact, the choice follows from them, and the reason explains it."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.metrics

from knoll import GaussianMixture, KMeans, datasets, tuning
from knoll.exceptions import BadData, InvalidParameter


@pytest.fixture(scope="module")
def blobs() -> np.ndarray:
    generator = np.random.default_rng(3)
    centers = np.array([[0, 0], [6, 0], [0, 6], [6, 6]], dtype=float)
    return centers[generator.integers(4, size=400)] + generator.normal(size=(400, 2)) * 0.5


@pytest.mark.parametrize("criterion", ["bic", "aic", "icl"])
def test_components_by_criterion(criterion):
    X = datasets.x1500().X
    choice = tuning.choose_n_components(
        X, range(1, 6), criterion=criterion, covariance_types=("full", "diag"), random_state=0
    )
    assert choice.candidates.tolist() == [1, 2, 3, 4, 5]
    best = min(float(scores.min()) for scores in choice.curve.values())
    assert float(choice.curve[choice.model.covariance_type][choice.best - 1]) == best
    assert criterion.upper() in choice.reason
    assert getattr(choice.model, criterion)(X) == pytest.approx(best)
    options = {"n_init": 5, "reg_covar": 1e-6 * X.var(axis=0).mean(), "random_state": 0}
    again = GaussianMixture(choice.best, covariance_type=choice.model.covariance_type, **options).fit(X)
    np.testing.assert_array_equal(again.labels_, choice.model.labels_)


def test_three_components_are_found():
    X = datasets.x1500().X
    assert tuning.choose_n_components(X, range(1, 6), random_state=0).best == 3


@pytest.mark.parametrize("criterion", ["silhouette", "elbow", "gap"])
def test_four_clusters_are_found(blobs, criterion):
    choice = tuning.choose_n_clusters(
        blobs, range(2, 8) if criterion == "silhouette" else range(1, 8), criterion=criterion, random_state=0
    )
    assert choice.best == 4, choice
    assert str(choice).startswith("4: ")
    inertia = [KMeans(int(k), n_init=3, random_state=0).fit(blobs).inertia_ for k in choice.candidates]
    np.testing.assert_allclose(choice.curve["inertia"], inertia)


def test_gap_can_answer_one():
    X = np.random.default_rng(0).uniform(size=(300, 2))
    assert tuning.choose_n_clusters(X, range(1, 5), criterion="gap", random_state=0).best == 1


def test_the_silhouette_curve_is_scikit_learns(blobs):
    choice = tuning.choose_n_clusters(blobs, [2, 3, 4], random_state=0)
    for k, score in zip(choice.candidates, choice.curve["silhouette"], strict=True):
        labels = KMeans(int(k), n_init=3, random_state=0).fit_predict(blobs)
        assert score == pytest.approx(sklearn.metrics.silhouette_score(blobs, labels), abs=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_silhouettes_are_scikit_learns(blobs, dtype):
    labels = np.random.default_rng(0).integers(-1, 4, size=len(blobs))
    X = blobs.astype(dtype)
    expected = sklearn.metrics.silhouette_samples(X.astype(np.float64), labels)
    np.testing.assert_allclose(tuning.silhouette_samples(X, labels), expected, atol=1e-12)


def test_a_weight_in_a_silhouette_is_a_repetition(blobs):
    generator = np.random.default_rng(0)
    X, weights, labels = blobs[:60], generator.integers(0, 4, size=60), generator.integers(0, 3, size=60)
    weighted = tuning.silhouette_samples(X, labels, sample_weight=weights)
    repeated = tuning.silhouette_samples(np.repeat(X, weights, axis=0), np.repeat(labels, weights))
    np.testing.assert_allclose(np.repeat(weighted, weights), repeated, atol=1e-12)


def test_a_sample_is_reported(blobs, monkeypatch):
    monkeypatch.setattr(tuning, "_SCORED_ROWS", 100)
    choice = tuning.choose_n_clusters(blobs, [3, 4, 5], random_state=0)
    assert "a sample of 100 of 400 distinct rows, standard error" in choice.reason
    assert (choice.curve["standard_error"] > 0).all()


def test_the_end_of_the_range_is_reported(blobs):
    assert "largest number tried" in tuning.choose_n_clusters(blobs, [2, 3], random_state=0).reason


def test_no_bend_is_reported():
    X = np.random.default_rng(0).uniform(size=(2000, 8))
    assert "not significant" in tuning.choose_n_clusters(X, range(2, 6), criterion="elbow", random_state=0).reason


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda X: tuning.choose_n_components(X, criterion="dic"), r"criterion must be one of 'bic', 'aic', 'icl'"),
        (lambda X: tuning.choose_n_components(X, []), r"no candidate is left of \[\] for 5 rows"),
        (lambda X: tuning.choose_n_components(X, [0]), r"candidates must be >= 1, got 0"),
        (lambda X: tuning.choose_n_components(X, 3), r"candidates must be whole numbers, got 3"),
        (lambda X: tuning.choose_n_components(X, [1], covariance_types=()), r"covariance_types is empty"),
        (lambda X: tuning.choose_n_components(X, [1], covariance_types=["round"]), r"covariance_types must be one of"),
        (lambda X: tuning.choose_n_clusters(X, [1]), r"candidates must be >= 2, got 1"),
        (lambda X: tuning.choose_n_clusters(X, [1, 2], criterion="elbow"), r"an elbow needs at least 3 candidates"),
        (
            lambda X: tuning.choose_n_clusters(X, criterion="gap", sample_weight=np.ones(5)),
            r"unweighted reference data, so sample_weight has no meaning",
        ),
    ],
)
def test_messages(call, message):
    with pytest.raises(InvalidParameter, match=message):
        call(np.arange(10.0).reshape(5, 2))


def test_data_without_two_clusters():
    with pytest.raises(BadData, match=r"there is only one cluster"):
        tuning.silhouette_samples([[0.0], [1.0]], [0, 0])
    with pytest.raises(BadData, match=r"labels has shape \(1,\); give one for each of 2 rows"):
        tuning.silhouette_samples([[0.0], [1.0]], [0])
    with pytest.raises(BadData, match=r"only one cluster has a row of weight > 0"):
        tuning.silhouette_samples([[0.0], [1.0]], [0, 1], sample_weight=[1, 0])


# ---- units, order and weights --------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [-600, -30, 30, 400])
def test_the_unit_of_the_data_does_not_change_the_number_of_components(power):
    X = datasets.x1500().X[::5]
    plain = tuning.choose_n_components(X, range(1, 5), random_state=0, n_init=2)
    scaled = tuning.choose_n_components(np.ldexp(X, power), range(1, 5), random_state=0, n_init=2)
    assert plain.best == scaled.best
    np.testing.assert_array_equal(plain.model.labels_, scaled.model.labels_)
    shift = scaled.curve["full"] - plain.curve["full"]  # −2 log of the Jacobian, the same for every candidate
    np.testing.assert_allclose(shift, 2 * X.size * power * np.log(2), rtol=1e-9)
    assert tuning.choose_n_components(X, [3], reg_covar=0.5).model.reg_covar == 0.5


@pytest.mark.parametrize("scale", [2.0**665, 2.0**-665])
@pytest.mark.parametrize("criterion", ["silhouette", "elbow", "gap"])
def test_clusters_of_extreme_data(blobs, criterion, scale):
    options = {"criterion": criterion, "random_state": 0, "n_references": 5}
    plain = tuning.choose_n_clusters(blobs, range(2, 7), **options)
    extreme = tuning.choose_n_clusters(blobs * scale, range(2, 7), **options)
    assert extreme.best == plain.best == 4
    name = {"elbow": "below_chord"}.get(criterion, criterion)
    np.testing.assert_allclose(extreme.curve[name], plain.curve[name], rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(extreme.model.cluster_centers_, plain.model.cluster_centers_ * scale)


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_silhouettes_of_extreme_data(blobs, scale):
    labels = np.random.default_rng(0).integers(0, 3, size=len(blobs))
    expected = tuning.silhouette_samples(blobs, labels)
    np.testing.assert_allclose(tuning.silhouette_samples(blobs * scale, labels), expected, atol=1e-12)


@pytest.mark.parametrize("criterion", ["silhouette", "elbow", "gap"])
def test_the_order_of_rows_changes_no_curve(blobs, criterion, monkeypatch):
    monkeypatch.setattr(tuning, "_SCORED_ROWS", 100)
    options = {"criterion": criterion, "random_state": 0, "n_references": 3}
    one = tuning.choose_n_clusters(blobs, range(2, 6), **options)
    other = tuning.choose_n_clusters(blobs[::-1], range(2, 6), **options)
    for name, values in one.curve.items():
        np.testing.assert_array_equal(other.curve[name], values)


def test_a_sample_takes_rows_that_count(blobs, monkeypatch):
    """Rows of weight 0 are absent, and a weight is a repetition, in the sample too."""
    monkeypatch.setattr(tuning, "_SCORED_ROWS", 50)
    weights = np.random.default_rng(0).integers(0, 3, size=len(blobs))
    weighted = tuning.choose_n_clusters(blobs, [3, 4], sample_weight=weights, random_state=0)
    repeated = tuning.choose_n_clusters(np.repeat(blobs, weights, axis=0), [3, 4], random_state=0)
    for name in ("silhouette", "standard_error"):
        np.testing.assert_allclose(weighted.curve[name], repeated.curve[name], rtol=1e-12)


def test_candidates_are_limited_by_the_rows_that_count():
    X, weights = np.random.default_rng(0).normal(size=(8, 1)), [1, 1, 1, 0, 0, 0, 0, 0]
    assert tuning.choose_n_clusters(X, range(1, 6), criterion="elbow", sample_weight=weights).candidates[-1] == 3
    with pytest.raises(InvalidParameter, match=r"no candidate is left of \[4\] for 3 rows"):
        tuning.choose_n_components(X, [4], sample_weight=weights)


def test_what_is_no_data_is_blamed_on_the_data():
    with pytest.raises(BadData, match=r"array"):
        tuning.choose_n_components(None, [1])
    with pytest.raises(BadData, match=r"X has a NaN at row 1, column 0"):
        tuning.choose_n_components([[0.0], [np.nan]], [1])


def test_an_absent_row_does_not_choose_the_scale():
    X = np.concatenate([np.arange(9.0), 100 + np.arange(9.0), 200 + np.arange(9.0), [1.7e308]])[:, None]
    weights = np.r_[np.ones(27), 0.0]
    for criterion in ("silhouette", "elbow"):
        choice = tuning.choose_n_clusters(X, range(2, 7), criterion=criterion, sample_weight=weights, random_state=0)
        alone = tuning.choose_n_clusters(X[:27], range(2, 7), criterion=criterion, random_state=0)
        assert choice.best == alone.best == 3
        np.testing.assert_array_equal(choice.curve["inertia"], alone.curve["inertia"])
        assert len(choice.model.labels_) == 28


@pytest.mark.parametrize("choose", [tuning.choose_n_clusters, tuning.choose_n_components])
def test_weights_that_leave_float64_are_reported(choose):
    X = np.random.default_rng(0).normal(size=(30, 2))
    with pytest.raises(BadData, match=rf"{choose.__name__}: the sum of sample_weight leaves float64. Divide"):
        choose(X, [2, 3], sample_weight=np.full(30, 1e308))
