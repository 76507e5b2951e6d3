"""What is saved is what is loaded: every estimator, every type of value, to the bit."""

from __future__ import annotations

import hashlib
import math
import os
import stat
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import knoll
from knoll import kernels, models
from knoll.exceptions import InvalidType, ModelFileError, SuspiciousResultWarning
from knoll.neighbors import NearestRows

ROWS = np.random.default_rng(0).normal(size=(120, 3)) + 6.0 * np.arange(3).repeat(40)[:, None]
GRAPH = np.exp(-((ROWS[:, None] - ROWS[None]) ** 2).sum(axis=2) / 8)
WEIGHTS = np.arange(120) % 3 + 0.5
FIXTURES = Path(__file__).parents[1] / "fixtures"

# Every estimator, and the variants that keep other things than usual.
CASES = {
    "gaussian": (knoll.Gaussian(random_state=3), ROWS, {}),
    "gmm": (knoll.GaussianMixture(3, random_state=0), ROWS, {}),
    "gmm-fixed": (knoll.GaussianMixture(3, covariance_type="fixed", fixed_variance=1.0, random_state=0), ROWS, {}),
    "gmm-tied": (knoll.GaussianMixture(3, covariance_type="tied", random_state=0), np.asfortranarray(ROWS), {}),
    "gmm-start": (knoll.GaussianMixture(3, means_init=ROWS[:3].tolist(), random_state=0), ROWS, {}),
    "kmeans": (knoll.KMeans(3, random_state=2**63), ROWS, {"sample_weight": WEIGHTS}),
    "kmeans-float32": (knoll.KMeans(3, random_state=0), ROWS.astype(np.float32), {}),
    "kmeans-start": (knoll.KMeans(3, init=np.asfortranarray(ROWS[[0, 50, 100]])), ROWS, {}),
    "mixed": (
        knoll.MixedMixture(3, categorical_features=[3], random_state=0),
        np.column_stack([np.where(ROWS < -2, np.nan, ROWS), np.arange(120) % 4]),
        {"sample_weight": WEIGHTS},
    ),
    "mixed-numbers": (knoll.MixedMixture(3, random_state=0), ROWS, {}),
    "mixed-text": (
        knoll.MixedMixture(2, covariance_type="diag", random_state=0),
        pd.DataFrame({"x": ROWS[:, 0], "größe": np.array(["a", "ß", None], dtype=object)[np.arange(120) % 3]}),
        {},
    ),
    "prototypes": (
        knoll.KPrototypes(3, categorical_features=[3], random_state=0),
        np.column_stack([ROWS, np.arange(120) % 4]),
        {"sample_weight": WEIGHTS},
    ),
    "kernel": (knoll.KernelKMeans(3, sigma=3.0, random_state=0), ROWS, {"sample_weight": WEIGHTS}),
    "kernel-heaviside": (knoll.KernelKMeans(3, kernel="heaviside", eps=3.0, random_state=0), ROWS, {}),
    "kernel-precomputed": (knoll.KernelKMeans(3, kernel="precomputed", random_state=0), GRAPH, {}),
    "spectral": (knoll.SpectralClustering(3, sigma=2.0, random_state=0), ROWS, {}),
    "spectral-neighbours": (
        knoll.SpectralClustering(3, affinity="nearest_neighbors", n_neighbors=30, random_state=0),
        ROWS,
        {},
    ),
    "spectral-precomputed": (knoll.SpectralClustering(3, affinity="precomputed", random_state=0), GRAPH, {}),
    "dbscan": (knoll.DBSCAN(eps=1.5), ROWS, {"sample_weight": WEIGHTS}),
    "dbscan-climbing": (knoll.DBSCAN(eps=1.5, formulation="climbing"), ROWS, {}),
    "dbscan-sparse-array": (knoll.DBSCAN(eps=1.5), scipy.sparse.csr_array(ROWS), {}),
    "dbscan-sparse-matrix": (knoll.DBSCAN(eps=1.5), scipy.sparse.csr_matrix(ROWS), {}),
    "dbscan-minkowski": (knoll.DBSCAN(eps=1.5, metric="minkowski", p=1.5), ROWS, {}),
    "density-tree": (knoll.DensityTree(4, metric="cosine"), ROWS, {}),
    "hdbscan": (knoll.HDBSCAN(min_samples=4, store_centers="both"), ROWS, {"sample_weight": WEIGHTS}),
    "hdbscan-absent": (knoll.HDBSCAN(noise="nearest"), ROWS, {"sample_weight": np.arange(120) % 3}),
    "hdbscan-sparse": (knoll.HDBSCAN(), scipy.sparse.csr_array(ROWS), {}),
    "hdbscan-canberra": (knoll.HDBSCAN(metric="canberra"), ROWS, {}),
    "agglomerative": (knoll.AgglomerativeClustering(3), ROWS, {"sample_weight": WEIGHTS}),
    "agglomerative-distances": (
        knoll.AgglomerativeClustering(None, distance_threshold=2.0, linkage="average"),
        ROWS,
        {},
    ),
    "optics": (knoll.OPTICS(), ROWS, {}),
    "optics-dbscan": (knoll.OPTICS(cluster_method="dbscan", eps=2.0), ROWS, {}),
    "mean-shift": (knoll.MeanShift(bandwidth=3.0), ROWS, {"sample_weight": WEIGHTS}),
    "mean-shift-seeds": (knoll.MeanShift(bandwidth=3.0, seeds=ROWS[::30]), ROWS, {}),
    "nearest-rows": (NearestRows(), ROWS, {"y": np.arange(120) % 3 - 1}),
    "names": (knoll.KMeans(3, random_state=0), pd.DataFrame(ROWS, columns=["a", "größe", "c"]), {}),
}


def assert_same(a, b, where="model"):
    """Equal in type, dtype, shape, order and bits, all the way down."""
    assert type(a) is type(b), where
    if isinstance(a, np.ndarray):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), where
        if a.dtype == object:
            assert a.tolist() == b.tolist(), where
        else:
            assert a.tobytes() == b.tobytes(), where
            rows_first = a.flags.c_contiguous or not a.flags.f_contiguous  # what has gaps comes back without
            assert b.flags.c_contiguous if rows_first else b.flags.f_contiguous, where
        assert b.flags.writeable
        assert b.flags.aligned
    elif scipy.sparse.issparse(a):
        assert a.shape == b.shape
        for field in ("data", "indices", "indptr"):
            assert_same(getattr(a, field), getattr(b, field), f"{where}.{field}")
    elif isinstance(a, dict):
        assert list(a) == list(b), where
        for name in a:
            assert_same(a[name], b[name], f"{where}.{name}")
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), where
        for i, (x, y) in enumerate(zip(a, b)):
            assert_same(x, y, f"{where}.{i}")
    elif isinstance(a, float):
        assert a.hex() == b.hex(), where
    else:
        assert a == b, where


def timeless(model):
    """The history as a file holds it: without the seconds, which no two fits have in common."""
    history = getattr(model, "history_", None)
    return {} if history is None else {"history_": {**history, "seconds": 0 * history["seconds"]}}


@pytest.fixture(scope="module", params=CASES.values(), ids=CASES.keys())
def fitted(request):
    model, X, options = request.param
    return model.fit(X, **options), X


def test_every_estimator_comes_back_to_the_bit(fitted, tmp_path):
    model, X = fitted
    assert knoll.save(model, tmp_path / "m.knoll") is None
    again = knoll.load(tmp_path / "m.knoll")
    assert type(again) is type(model)
    assert vars(again).keys() == vars(model).keys()
    for name, value in {**vars(model), **timeless(model)}.items():
        assert_same(value, vars(again)[name], name)
    for method in ("predict", "predict_proba", "transform", "score_samples", "mahalanobis", "predict_kind"):
        if hasattr(model, method):
            assert_same(getattr(model, method)(X), getattr(again, method)(X), method)


def test_every_public_estimator_is_among_the_cases_and_in_the_table():
    from knoll.models._classes import class_names

    public = {
        name for name in knoll.__all__ if isinstance(thing := getattr(knoll, name), type) and hasattr(thing, "fit")
    }
    assert public | {"NearestRows"} == {type(model).__name__ for model, _, _ in CASES.values()} == set(class_names())


def test_saving_twice_gives_the_same_bytes(fitted, tmp_path):
    model, _ = fitted
    for name in ("a", "b"):
        knoll.save(model, tmp_path / name)
    knoll.save(knoll.load(tmp_path / "a"), tmp_path / "c")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == (tmp_path / "c").read_bytes()


def test_equal_fits_make_equal_files(fitted, tmp_path):
    """A store that is keyed by the digest sees one model: no clock and no other accident is in a file."""
    model, X = fitted
    options = next(options for other, _, options in CASES.values() if other is model)
    digests = []
    for name in ("a", "b"):
        knoll.save(clone(model).fit(X, **options), tmp_path / name)
        digests.append(hashlib.sha256((tmp_path / name).read_bytes()).hexdigest())
    assert digests[0] == digests[1]


def test_a_history_goes_on_after_a_file(tmp_path):
    """Seconds before the file are 0, those after it are measured; the columns stay of one length."""
    model = knoll.KMeans(3, random_state=0).partial_fit(ROWS)
    assert model.history_["seconds"][0] > 0
    knoll.save(model, tmp_path / "m.knoll")
    assert model.history_["seconds"][0] > 0  # the model itself is left alone
    again = knoll.load(tmp_path / "m.knoll").partial_fit(ROWS)
    assert again.history_["seconds"][0] == 0 < again.history_["seconds"][1]
    assert {len(column) for column in again.history_.values()} == {2}
    np.testing.assert_array_equal(again.cluster_centers_, model.partial_fit(ROWS).cluster_centers_)


@pytest.mark.parametrize(
    "value",
    [
        math.nan, math.inf, -math.inf, -0.0, 5e-324, 0.1, 2**70, -1, True, None, "", "\x00\U0001f3d4\ud7ff", "a" * 5000,
        np.float32(0.1), np.int16(-3), np.str_("ü"), np.bool_(True), 1 + np.complex128(2j), np.float64("nan"),
        [1, [2.5, [None, math.nan]], ()], (1, "a"), {"a": {"b": [np.eye(2), {}]}},
        np.array(3.0), np.zeros((0, 3)), np.zeros((3, 0), order="F"), np.arange(24.0).reshape(2, 3, 4),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.array([True, False]), np.array(["a", "ö", ""]),
        np.array(["x", "yy"], dtype=object), np.arange(3, dtype=np.uint8), np.array([np.nan, -0.0, np.inf], np.float16),
        np.arange(12.0)[::3], scipy.sparse.csr_array(np.eye(3)[:, :2]),
    ],
    ids=lambda value: f"{type(value).__name__}",
)  # fmt: skip
def test_any_value_survives(value, tmp_path):
    model = knoll.KMeans(2, random_state=0).fit([[1.0], [2.0]])
    model.extra_ = value
    knoll.save(model, tmp_path / "m.knoll")
    assert_same(value, knoll.load(tmp_path / "m.knoll").extra_)


DTYPES = ["?", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16", "U3"]


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_array_survives(tmp_path, data):
    """Every dtype, shape and order, to the bit, signs of zeros and payloads of NaNs too."""
    shape = data.draw(arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    array = data.draw(arrays.arrays(data.draw(st.sampled_from(DTYPES)), shape))
    model = knoll.KMeans(2, random_state=0).fit([[1.0], [2.0]])
    model.extra_ = np.asfortranarray(array) if data.draw(st.booleans()) else array
    model.nested_ = {"a": [1, (array,)]}
    knoll.save(model, tmp_path / "m.knoll")
    again = knoll.load(tmp_path / "m.knoll")
    assert_same(model.extra_, again.extra_)
    assert_same(model.nested_, again.nested_)


def test_other_byte_orders_come_back_as_this_machines(tmp_path):
    model = knoll.KMeans(2, init=np.array([[1.0], [2.0]], dtype=">f8")).fit([[1.0], [2.0]])
    model.words_ = np.array(["größe"], dtype=">U5")
    knoll.save(model, tmp_path / "m.knoll")
    assert knoll.load(tmp_path / "m.knoll").words_.tolist() == ["größe"]
    again = knoll.load(tmp_path / "m.knoll").init
    assert again.dtype == np.dtype(np.float64)
    assert again.tolist() == [[1.0], [2.0]]


def test_arrays_lie_at_multiples_of_64_little_endian(tmp_path):
    from knoll.models._format import Prefix

    model = knoll.KMeans(2, random_state=0).fit([[1.0], [2.0]])
    model.mark_ = np.array([1.5, -2.0])
    knoll.save(model, tmp_path / "m.knoll")
    data = (tmp_path / "m.knoll").read_bytes()
    assert data.find(np.array([1.5, -2.0], dtype="<f8").tobytes()) % 64 == 0
    assert Prefix.of(data[:32]).file == len(data)


# ---- what is refused -------------------------------------------------------------------------------------------------


def start(X, k, random_state):
    return X[:k]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (knoll.KMeans(2, init=start, n_init=1), r"parameters\.init is <function start.*which a model file cannot hold"),
        (
            knoll.DBSCAN(eps=1.0, metric=lambda a, b: abs(a - b).sum()),
            r"parameters\.metric is <function .*cannot hold.*Set that parameter to a name or an array",
        ),
        (knoll.KernelKMeans(2, kernel=kernels.Gaussian(1.0), random_state=0), r"parameters\.kernel is Gaussian\(sigma"),
        (
            knoll.KMeans(2, random_state=np.random.default_rng(0)),
            r"random_state is Generator\(PCG64\).*a random generator. Call set_params\(random_state=None\) first",
        ),
        (knoll.KMeans(2, random_state=np.random.RandomState(0)), r"random_state is RandomState.*a random generator"),
        (knoll.KMeans(2, init=np.array([[1.0] * 3, [2.0] * 3], object)), "init is an array of Python objects"),
    ],
)
def test_what_a_file_cannot_hold_is_refused_by_name(model, message, tmp_path):
    model.fit(ROWS)
    with pytest.raises(ModelFileError, match=message):
        knoll.save(model, tmp_path / "m.knoll")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({1: 2}, "extra_ has the key 1, which is not text"),
        (scipy.sparse.coo_array(np.eye(2)), r"extra_ is a sparse array in the format 'coo'.*tocsr"),
        (np.array(["2020-01-01"], "datetime64[D]"), r"fitted\.extra_ is an array of datetime64\[D\]"),
        (np.zeros(2, "f8,i4"), "is an array of"),
        (b"bytes", "which a model file cannot hold"),
        (open, "which a model file cannot hold"),
        ("\ud800", "a text in it is not Unicode"),
        (np.array(["a", "\ud800"]), r"fitted\.extra_ has a letter that is not Unicode"),
    ],
)
def test_odd_values_are_refused_by_name(value, message, tmp_path):
    model = knoll.KMeans(2, random_state=0).fit([[1.0], [2.0]])
    model.extra_ = value
    with pytest.raises(ModelFileError, match=message):
        knoll.save(model, tmp_path / "m.knoll")


def test_headers_are_bounded_when_written_too(tmp_path, monkeypatch):
    model = knoll.KMeans(2, random_state=0).fit([[1.0], [2.0]])
    nested = []
    for _ in range(40):
        nested = [nested]
    model.extra_ = nested
    with pytest.raises(ModelFileError, match=r"nested 8[0-9] deep, 64 at most"):
        knoll.save(model, tmp_path / "m.knoll")
    monkeypatch.setattr("knoll.models._format.MOST_HEADER", 100)
    with pytest.raises(ModelFileError, match=r"bytes as text, 100 at most. Give lists as arrays"):
        knoll.save(knoll.KMeans(2, random_state=0).fit([[1.0], [2.0]]), tmp_path / "m.knoll")


def test_only_fitted_estimators_of_knoll(tmp_path):
    class Mine(knoll.KMeans):
        pass

    with pytest.raises(InvalidType, match="takes a fitted estimator of knoll, got 'model'"):
        knoll.save("model", tmp_path / "m.knoll")
    with pytest.raises(InvalidType, match="Mine is not a class that a model file can name: AgglomerativeClustering, "):
        knoll.save(Mine(2).fit(ROWS), tmp_path / "m.knoll")
    with pytest.raises(NotFittedError):
        knoll.save(knoll.KMeans(2), tmp_path / "m.knoll")
    assert os.listdir(tmp_path) == []


# ---- whole or not at all ---------------------------------------------------------------------------------------------


@pytest.fixture
def model():
    return knoll.KMeans(2, random_state=0).fit([[1.0], [2.0], [5.0]])


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt(), MemoryError()])
def test_a_save_that_fails_leaves_the_old_file_and_nothing_else(model, tmp_path, monkeypatch, error):
    path = tmp_path / "m.knoll"
    path.write_bytes(b"old")

    def fail(handle):
        raise error

    monkeypatch.setattr(os, "fsync", fail)
    expected = ModelFileError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected) as caught:
        knoll.save(model, path)
    if expected is ModelFileError:
        assert str(caught.value) == f"cannot write {path}: No space left on device. Choose another path."
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["m.knoll"]


def test_the_path_must_be_writable(model, tmp_path):
    with pytest.raises(ModelFileError, match=r"cannot write .*nowhere.*No such file or directory"):
        knoll.save(model, tmp_path / "nowhere" / "m.knoll")
    with pytest.raises(ModelFileError, match=r"cannot write .*Is a directory"):
        knoll.save(model, tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX files")
def test_links_pipes_and_permissions(model, tmp_path):
    (tmp_path / "plain").touch()
    knoll.save(model, tmp_path / "m.knoll")
    assert (tmp_path / "m.knoll").stat().st_mode == (tmp_path / "plain").stat().st_mode
    (tmp_path / "link.knoll").symlink_to("plain")
    knoll.save(model, str(tmp_path / "link.knoll"))
    assert (tmp_path / "link.knoll").is_symlink()
    assert (tmp_path / "plain").read_bytes() == (tmp_path / "m.knoll").read_bytes()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    knoll.save(model, pipe)
    reader.join(10)
    assert got == [(tmp_path / "m.knoll").read_bytes()]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_many_threads_may_save_at_once(model, tmp_path):
    threads = [threading.Thread(target=knoll.save, args=(model, tmp_path / "m.knoll")) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert os.listdir(tmp_path) == ["m.knoll"]
    assert knoll.load(tmp_path / "m.knoll").inertia_ == model.inertia_


# ---- preparation, inspection, the fixture ----------------------------------------------------------------------------


def test_a_scaled_model_warns_when_it_is_loaded_bare(tmp_path):
    made = models.Preparation.fit(ROWS, ["a", "b", "c"], scale="standard", missing="drop")
    model = knoll.KMeans(3, random_state=0).fit(made.apply(ROWS))
    models.save(model, tmp_path / "m.knoll", preparation=made)
    again = models.read(tmp_path / "m.knoll")
    assert again.preparation == made
    np.testing.assert_array_equal(again.estimator.predict(again.preparation.apply(ROWS)), model.labels_)
    with pytest.warns(
        SuspiciousResultWarning, match=r"m\.knoll: the columns were scaled \(standard\) before"
    ) as caught:
        knoll.load(tmp_path / "m.knoll")
    assert caught[0].filename == __file__
    bare = models.Preparation.fit(ROWS, ["a", "b", "c"], scale="none")
    models.save(model, tmp_path / "n.knoll", preparation=bare)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        knoll.load(tmp_path / "n.knoll")


def test_inspect_reports_all_and_reads_no_array(tmp_path, monkeypatch):
    model = knoll.GaussianMixture(3, means_init=ROWS[:3], random_state=0).fit(ROWS)
    made = models.Preparation.fit(ROWS, ["a", "b", "c"], scale="robust")
    models.save(model, tmp_path / "m.knoll", preparation=made)
    monkeypatch.setattr("knoll.models._read._array", None)
    info = models.inspect(tmp_path / "m.knoll")
    assert (info.kind, info.knoll, info.format) == ("GaussianMixture", knoll.__version__, "1.0")
    assert info.nbytes == (tmp_path / "m.knoll").stat().st_size
    assert info.parameters["means_init"] == "float64 (3, 3)"
    assert info.parameters["n_components"] == 3
    assert info.fitted["labels_"] == "int64 (120,)"
    assert info.fitted["noise_log_density_"] == "-inf"
    assert info.arrays["fitted.means_"] == 72
    assert info.preparation == made
    assert info.digest == (tmp_path / "m.knoll").read_bytes()[-32:].hex()


def test_the_first_file_of_this_format_is_still_read():
    """tests/fixtures/first.knoll was written by knoll 0.1.0 and is never to be written again (fixtures/README.md)."""
    folder = Path(__file__).parents[1] / "fixtures"
    model = models.read(folder / "first.knoll")
    assert type(model.estimator) is knoll.GaussianMixture
    assert model.estimator.get_params()["covariance_type"] == "diag"
    assert model.estimator.random_state == 7
    assert model.preparation is not None
    assert model.preparation.columns == ("sepal length (cm)", "petal length (cm)")
    assert model.preparation.scale == "standard"
    X = knoll.datasets.load("iris").X[:, [0, 2]]
    labels = model.estimator.predict(model.preparation.apply(X))
    np.testing.assert_array_equal(labels, model.estimator.labels_)
    assert models.inspect(folder / "first.knoll").digest == (
        (folder / "first.knoll.sha256").read_text(encoding="ascii").strip()
    )


def test_a_spectral_model_from_before_row_scaling_was_chosen_labels_as_it_did():
    """Written by 0.1.0 with rows of length one, which was the default then; its answers were noted when it was."""
    generator = np.random.default_rng(0)
    X = np.r_[generator.normal(size=(30, 2)), generator.normal(size=(30, 2)) + 3].round(3)
    model = knoll.load(FIXTURES / "spectral.knoll")
    assert not hasattr(model, "row_scaling_")
    assert model.row_scaling == "unit"
    assert (model.predict(X) == model.labels_).all()
    found = "".join(map(str, model.predict((X + 0.5).round(3))))
    assert found == "222122222112122222212121122212110010110011000010110110000100"
    again = knoll.SpectralClustering.from_state(*without_default(model))
    assert (again.predict(X) == model.labels_).all()


def without_default(model):
    """The state of a model that does not even name the parameter."""
    header, arrays = model.to_state()
    del header["parameters"]["row_scaling"]
    return header, arrays
