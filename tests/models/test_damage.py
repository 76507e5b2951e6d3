"""Files that are foreign, later, cut, flipped, forged or hostile: knoll's error each time, in little memory."""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import io
import json
import math
import os
import pickle
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import knoll
from knoll import models
from knoll.exceptions import ModelFileError
from knoll.models._format import LATEST, MAJOR

_spec = importlib.util.spec_from_file_location("files", Path(__file__).with_name("files.py"))
files = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(files)


def refused(path: Path, message: str = "") -> str:
    """Both readers refuse the file, with one message that names it, and take no memory to speak of."""
    tracemalloc.start()
    try:
        messages = []
        for reader in (models.read, models.inspect):
            with pytest.raises(ModelFileError, match=message) as caught:
                reader(path)
            messages.append(str(caught.value))
        assert tracemalloc.get_traced_memory()[1] < 4_000_000 + 8 * path.stat().st_size
    finally:
        tracemalloc.stop()
    assert str(path) in messages[0]
    assert "\n" not in messages[0]
    return messages[0]


# ---- the file as a whole ---------------------------------------------------------------------------------------------


def array_file(save, *arrays) -> bytes:
    sink = io.BytesIO()
    save(sink, *arrays)
    return sink.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps(knoll.KMeans()), array_file(np.save, np.zeros(3)), array_file(np.savez, np.zeros(3)),
        b"\x00" * 500, b"x,y\n1,2\n", b"\x89PNG\r\n\x1a\n" + b"\x00" * 100, b"\x89knoll\n" + b"\x00" * 100, b"k",
    ],
)  # fmt: skip
def test_a_foreign_file_is_reported(put, data):
    refused(put(data), r"model\.knoll is not a knoll model file: it begins with b'.*'\. knoll\.save writes one\.")


def test_a_missing_or_empty_file_a_folder_and_a_pipe(put, tmp_path):
    refused(put(b""), r"is empty\.")
    with pytest.raises(ModelFileError, match=r"There is no file .*gone\.knoll\."):
        knoll.load(tmp_path / "gone.knoll")
    with pytest.raises(ModelFileError, match="cannot be read: Is a directory"):
        knoll.load(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    handle = os.open(tmp_path / "pipe", os.O_RDWR)  # so that opening it does not wait for a writer
    try:
        with pytest.raises(ModelFileError, match="is not a file on a disk"):
            knoll.load(tmp_path / "pipe")
    finally:
        os.close(handle)


@pytest.mark.parametrize("major", [MAJOR - 1, LATEST + 1, 300])
def test_another_major_version_is_reported_before_anything_else(put, small, major):
    data = bytearray(small)
    data[8:10] = major.to_bytes(2, "little")
    output = rf"has format {major}\.0, and knoll {knoll.__version__} reads {MAJOR}\.x to {LATEST}\.x\. Upgrade knoll\."
    refused(put(bytes(data)), output)


def test_a_later_minor_version_is_read(put, small):
    header, arrays = files.split(small)
    path = put(files.forged({**header, "novelty": [1]}, arrays, version=(1, 9)))
    assert models.read(path).estimator.n_clusters == 2
    assert models.inspect(path).format == "1.9"


def test_a_file_of_a_later_knoll_reports_it(put, small):
    header, arrays = files.split(small)
    later = {**header, "knoll": "99.1.0", "parameters": {**header["parameters"], "warp": 9}}
    with pytest.raises(ModelFileError, match=r"written by knoll 99\.1\.0 and this is .*'warp'.*Upgrade knoll\."):
        models.read(put(files.forged(later, arrays)))


def test_every_truncation_is_reported(put, small):
    path = put(small)
    for length in reversed(range(len(small))):
        os.truncate(path, length)
        with pytest.raises(ModelFileError) as caught:
            models.read(path)
        output = str(caught.value)
        assert "is empty" in output if length == 0 else "is cut short" in output, (length, output)


def test_bytes_after_the_end_are_reported(put, small):
    refused(put(small + b"\x00"), "has 1 bytes after the end of the model")
    refused(put(small + small), f"has {len(small)} bytes after the end of the model")


def test_every_flipped_bit_is_reported(put, small):
    """All bits of the prefix and the digest, and every third byte's of what follows."""
    path = put(small)
    offsets = {*range(32), *range(len(small) - 32, len(small)), *range(32, len(small), 3)}
    for offset in sorted(offsets):
        data = bytearray(small)
        data[offset] ^= 1 << (offset % 8)
        path.write_bytes(data)
        with pytest.raises(ModelFileError):
            models.read(path)
    data = bytearray(small)
    data[len(data) // 2] ^= 16
    refused(put(bytes(data)), "is damaged: its contents do not match their SHA-256. Copy it again")


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_bytes_changed_under_a_fitting_digest_never_bring_another_error(put, small, data):
    """Damage that the check sum cannot see: the model is refused, or what is read is a model."""
    changed = bytearray(small)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(8, len(small) - 33))] = data.draw(st.integers(0, 255))
    path = put(files.resigned(bytes(changed)))
    for reader in (models.read, models.inspect):
        with contextlib.suppress(ModelFileError):
            reader(path)


# ---- headers ---------------------------------------------------------------------------------------------------------

LABELS = "fitted.labels_"


def edited(header, **entry):
    changed = copy.deepcopy(header)
    changed["arrays"][LABELS].update(entry)
    return changed


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"dtype": "|O"}, r"array 'fitted.labels_' has the unknown dtype '\|O'"),
        ({"dtype": "O"}, "unknown dtype"),
        ({"dtype": ">i4"}, "unknown dtype"),
        ({"dtype": "<f16"}, "unknown dtype"),
        ({"dtype": "<M8[s]"}, "unknown dtype"),
        ({"dtype": "<U99999999"}, "unknown dtype"),
        ({"dtype": "i4,f8"}, "unknown dtype"),
        ({"dtype": 3}, "the entry of array"),
        ({"dtype": "<f8"}, "ends 16 bytes beyond the section of arrays"),
        ({"shape": [-4]}, r"has the shape \[-4\]"),
        ({"shape": [4.0]}, "has the shape"),
        ({"shape": [True]}, "has the shape"),
        ({"shape": "4"}, "the entry of array"),
        ({"shape": [2] * 33}, "has the shape"),
        ({"shape": [1 << 40, 1 << 40]}, "more than memory can address"),
        ({"shape": [0, 1 << 62]}, "more than memory can address"),
        ({"shape": [1 << 50]}, "bytes beyond the section of arrays"),
        ({"shape": [10**4000]}, "more than memory can address"),
        ({"shape": [3]}, "4 bytes belong to no array"),
        ({"offset": 0}, "lies at 0, not at"),
        ({"offset": -64}, "lies at -64, not at"),
        ({"offset": 1 << 70}, "not at"),
        ({"offset": "64"}, "the entry of array"),
        ({"order": "K"}, "the entry of array"),
    ],
)
def test_forged_tables_of_arrays_are_refused(put, small, entry, message):
    header, arrays = files.split(small)
    assert list(header["arrays"])[-1] == LABELS
    refused(put(files.forged(edited(header, **entry), arrays)), message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"class": "OrderedDict"}, "its class is 'OrderedDict', which is none of AgglomerativeClustering, DBSCAN, "),
        ({"class": "os.system"}, "which is none of"),
        ({"class": None}, "which is none of"),
        ({"class": ["KMeans"]}, "which is none of"),
        ({"arrays": None}, "it has no table of arrays"),
        ({"arrays": {}}, "bytes belong to no array"),
        ({"preparation": {"columns": ["a"]}}, "the preparation of its data makes no sense"),
        ({"preparation": None}, "the preparation of its data makes no sense"),
    ],
)
def test_forged_headers_are_refused(put, small, change, message):
    header, arrays = files.split(small)
    refused(put(files.forged({**header, **change}, arrays)), message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"class": "DBSCAN"}, "unexpected keyword argument"),
        ({"parameters": []}, "damaged"),
        ({"fitted": {"a_": {"float": "1e"}}}, "damaged"),
        ({"fitted": {"predict": 1}}, "predict is not a fitted attribute"),
        ({"fitted": {}}, "n_features_in_ missing"),
        ({"fitted": {"a_": {"array": "fitted.labels_", "object": 3}}}, "unknown entry"),
        ({"fitted": {"a_": {"csr": [], "shape": [1, 2]}}}, "damaged"),
        ({"fitted": {"a_": {"csr": [1, 2, 3], "shape": [1e400, 2]}}}, "damaged"),
        ({"fitted": {"a_": {"csr": ["x", "y", "z"], "shape": [2**62, 2**62]}}}, "damaged"),
        ({"fitted": {"a_": {"array": "elsewhere", "object": False}}}, "elsewhere"),
    ],
)
def test_states_that_make_no_estimator_are_refused(put, small, change, message):
    header, arrays = files.split(small)
    with pytest.raises(ModelFileError, match=message):
        models.read(put(files.forged(json.dumps({**header, **change}).replace("Infinity", "1e400").encode(), arrays)))


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("knoll", "its header does not name the knoll that wrote it"),
        ("class", "its class is None"),
        ("arrays", "it has no table of arrays"),
        ("parameters", "its header has no parameters or no fitted attributes"),
        ("fitted", "its header has no parameters or no fitted attributes"),
    ],
)
def test_every_field_of_the_header_is_needed(put, small, missing, message):
    header, arrays = files.split(small)
    path = put(files.forged({name: value for name, value in header.items() if name != missing}, arrays))
    with pytest.raises(ModelFileError, match=message):
        models.inspect(path)


def test_inspect_refuses_entries_that_it_cannot_show(put, small):
    header, arrays = files.split(small)
    path = put(files.forged({**header, "fitted": {"a_": {"strange": 1}}}, arrays))
    with pytest.raises(ModelFileError, match=r"its header has the unknown entry {'strange': 1}"):
        models.inspect(path)


def test_a_file_that_shrinks_while_it_is_read_is_reported(put, small, monkeypatch):
    path = put(small)
    shown = os.fstat

    def longer(handle):
        facts = shown(handle)
        os.truncate(path, len(small) // 2)  # after its length was read
        return facts

    monkeypatch.setattr(os, "fstat", longer)
    with pytest.raises(ModelFileError, match="is damaged: it grew shorter while it was read"):
        models.read(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"[" * 100_000 + b"]" * 100_000, "nested 100000 deep, 64 at most"),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, "nested 5000 deep, 64 at most"),
        (b"[]", "its header is no mapping"),
        (b"{", "its header is no JSON"),
        (b"", "its header is no JSON"),
        (b'{"a": NaN}', "has NaN, which is no JSON"),
        (b'{"a": -Infinity}', "has -Infinity, which is no JSON"),
        (b'{"a": 1, "a": 2}', "has a name twice"),
        (b'{"a": ' + b"9" * 100_000 + b"}", "its header is no JSON"),
        (b"\xff\xfe{}", "its header is no JSON"),
        (b'"' + b"\\" * 10_001, "its header is no JSON"),
    ],
)
def test_headers_that_are_no_json_are_refused(put, text, message):
    refused(put(files.forged(text)), message)


def test_brackets_in_text_are_no_nesting(tmp_path):
    model = knoll.KMeans(2, random_state=0).fit([[1.0], [2.0]])
    model.extra_ = '\\"[[[{' * 100
    knoll.save(model, tmp_path / "m.knoll")
    assert knoll.load(tmp_path / "m.knoll").extra_ == model.extra_


@pytest.mark.parametrize("length", [1 << 40, 1 << 63, (1 << 64) - 1])
def test_a_header_longer_than_the_file_is_refused(put, small, length):
    header, arrays = files.split(small)
    refused(put(files.forged(header, arrays, length=length)), rf"its header has {length} bytes")


def test_values_that_no_array_has_are_refused(put, tmp_path):
    model = knoll.KMeans(2, random_state=0).fit([[1.0], [2.0]])
    model.flags_, model.words_ = np.array([True] * 64), np.array(["abcdefgh"])
    knoll.save(model, tmp_path / "m.knoll")
    data = (tmp_path / "m.knoll").read_bytes()
    for old, new, message in (
        (b"\x01" * 64, b"\x01" * 63 + b"\x02", "an entry that is neither true nor false"),
        ("abcdefgh".encode("utf-32-le"), b"\xff" * 32, "a letter that is not Unicode"),
        ("abcdefgh".encode("utf-32-le"), b"\x00\xd8\x00\x00" * 8, "a letter that is not Unicode"),
    ):
        assert data.count(old) == 1
        with pytest.raises(ModelFileError, match=message):
            models.read(put(files.resigned(data.replace(old, new))))


def test_a_preparation_must_make_sense(put, small):
    header, arrays = files.split(small)
    good = models.Preparation.fit([[1.0, 2.0]], ["a", "b"]).plain()
    assert models.read(put(files.forged({**header, "preparation": good}, arrays))).preparation is not None
    for change in (
        {"scale": "odd"}, {"missing": "?"}, {"columns": ["a"]}, {"columns": [1, 2]}, {"spread": [0.0, 1.0]},
        {"spread": [-1.0, 1.0]}, {"center": [1, 2]}, {"center": ["1", "2"]}, {"fill": None},
    ):  # fmt: skip
        refused(put(files.forged({**header, "preparation": {**good, **change}}, arrays)), "makes no sense")


# ---- models that are well-formed and lie -----------------------------------------------------------------------------


def test_sparse_arrays_that_point_outside_are_refused(put, tmp_path):
    X = np.arange(20.0).repeat(2)[:, None] + np.arange(3)
    knoll.save(knoll.DBSCAN(eps=0.5, min_samples=2).fit(scipy.sparse.csr_array(X)), tmp_path / "m.knoll")
    header, arrays = files.split((tmp_path / "m.knoll").read_bytes())
    entry = header["arrays"]["fitted.components_.indices"]
    assert entry["dtype"] == "<i4"
    for value in (3, -1, 2**31 - 1):
        lies = bytearray(arrays)
        lies[entry["offset"] : entry["offset"] + 4] = value.to_bytes(4, "little", signed=True)
        with pytest.raises(ModelFileError, match="components_ cannot be made again: ind"):
            models.read(put(files.forged(header, bytes(lies))))


def test_labels_that_number_no_centre_are_refused(put, tmp_path):
    knoll.save(knoll.KernelKMeans(2, sigma=1.0, random_state=0).fit([[0.0], [1.0], [8.0]]), tmp_path / "m.knoll")
    header, arrays = files.split((tmp_path / "m.knoll").read_bytes())
    entry = header["arrays"]["fitted.center_labels_"]
    for value in (2, -1, 2**31 - 1):
        lies = bytearray(arrays)
        lies[entry["offset"] : entry["offset"] + 4] = value.to_bytes(4, "little", signed=True)
        with pytest.raises(ModelFileError, match=r"center_labels_ has entries outside 0 … 1"):
            models.read(put(files.forged(header, bytes(lies))))


@pytest.mark.parametrize("seed", [0, 1])
def test_models_that_lie_are_refused_or_answer(tmp_path, seed):
    """The check sum does not show who wrote a file: what the reader lets through must fail in no method, nor crash."""
    command = [sys.executable, str(Path(__file__).with_name("forge.py")), "30", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    assert counts["faults"] == {}
    assert counts["read"] > 150  # a number that was another one is still a model
    assert counts["refused"] > 500


@pytest.mark.parametrize("end", [-(2**31), -1, 0, 1, 2**31 - 1])
def test_compressed_rows_that_end_elsewhere_are_refused(put, end):
    """SciPy lets a negative last entry of indptr pass, and then reads outside of the arrays."""
    model = knoll.DBSCAN(eps=0.5, min_samples=2).fit(scipy.sparse.csr_array(np.eye(4)[[0, 0, 1, 1]]))
    header, arrays = model.to_state()
    name = "fitted.components_.indptr"
    arrays[name] = np.append(arrays[name][:-1], end).astype(np.int32)
    with pytest.raises(ModelFileError, match="components_ cannot be made again: indptr"):
        models.read(put(files.of_state(header, arrays)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shape": [-4, 4]}, "three arrays and two sides"),
        ({"shape": [4]}, "three arrays and two sides"),
        ({"shape": [3, 4]}, "one entry more than 3 rows"),
        ({"shape": [4, 1]}, "indices must be from 0 to 0"),
        ({"data": np.ones(3)}, "there are 3 data and 4 indices"),
        ({"data": np.ones((4, 1))}, "arrays of one dimension"),
        ({"indices": np.zeros(4)}, "must be whole numbers"),
        ({"indptr": np.array([0, 2, 1, 3, 4])}, "indptr must go from 0 upwards"),
        ({"indptr": np.array([1, 1, 2, 3, 4])}, "indptr must go from 0 upwards"),
        ({"indptr": np.array([0, 1, 2, 3, 5])}, "indptr leads to 5"),
    ],
)
def test_compressed_rows_must_fit_together(put, change, message):
    model = knoll.DBSCAN(eps=0.5, min_samples=2).fit(scipy.sparse.csr_array(np.eye(4)[[0, 0, 1, 1]]))
    header, arrays = model.to_state()
    header["fitted"]["components_"]["shape"] = change.pop("shape", header["fitted"]["components_"]["shape"])
    arrays |= {f"fitted.components_.{name}": array for name, array in change.items()}
    with pytest.raises(ModelFileError, match=message):
        models.read(put(files.of_state(header, arrays)))


@pytest.mark.parametrize(
    ("model", "change", "message"),
    [
        (
            "KMeans",
            {"cluster_centers_": np.ones((2, 3))},
            r"cluster_centers_ has the shape \(2, 3\), which does not fit",
        ),
        ("KMeans", {"cluster_centers_": np.full((2, 1), np.nan)}, "cluster_centers_ has entries that are not finite"),
        ("KMeans", {"cluster_centers_": np.ones((2, 1), int)}, "cluster_centers_ has dtype int64, and must be real"),
        ("KMeans", {"cluster_centers_": 3}, "cluster_centers_ is not an array"),
        ("KMeans", {"n_features_in_": -1}, "n_features_in_ is -1"),
        ("KMeans", {"n_features_in_": True}, "n_features_in_ is True"),
        ("KMeans", {"n_clusters": -3}, "n_clusters must be"),
        ("DBSCAN", {"core_sample_indices_": np.array([0, 1, 2, 99])}, "core_sample_indices_ has entries outside 0 … 3"),
        ("DBSCAN", {"core_sample_indices_": np.array([0, 1, 2, -1])}, "core_sample_indices_ has entries outside 0 … 3"),
        ("MeanShift", {"bandwidth_": math.nan}, "bandwidth_ is nan"),
        ("MeanShift", {"bandwidth_": math.inf}, "bandwidth_ is inf"),
        ("MeanShift", {"bandwidth_": -1.0}, "bandwidth_ is -1.0"),
        ("MeanShift", {"bandwidth_": "wide"}, "bandwidth_ is 'wide'"),
        ("MeanShift", {"weights_": np.ones(3)}, r"weights_ has the shape \(3,\), which does not fit the others"),
        ("SpectralClustering", {"n_clusters_": 5, "links_": None}, r"rule_\['matrix'\] has the shape \(2, 2\)"),
        ("GaussianMixture", {"covariance_type_": "odd"}, "covariance_type_ is 'odd', and must be full or tied or "),
        ("GaussianMixture", {"covariance_type_": "diag"}, r"covariances_ has the shape \(2, 1, 1\)"),
        ("GaussianMixture", {"weights_": np.zeros(2)}, "noise_weight_ and weights_ sum to 0, and must sum to 1"),
        ("GaussianMixture", {"weights_": np.array([1.5, -0.5])}, "weights_ has the entry -0.5, and must be >= 0"),
        ("MixedMixture", {"weights_": np.zeros(2)}, "weights_ sum to 0, and must sum to 1"),
        ("GaussianMixture", {"precisions_cholesky_": np.zeros((2, 1, 1))}, "precisions_cholesky_ has a diagonal that"),
        ("GaussianMixture", {"history_": {"a": np.ones(2), "b": np.ones(1)}}, "history_ has columns of different"),
        (
            "DBSCAN",
            {"core_sample_indices_": np.array([1, 0, 2, 3])},
            "core_sample_indices_ has entries that do not inc",
        ),
        ("DBSCAN", {"formulation": "climbing"}, "climbed_ missing, and needed with these parameters"),
        ("KernelKMeans", {"level_shift_": 1e-308}, "row_names_ missing, and needed with these parameters"),
        ("KernelKMeans", {"level_shift_": -1.0}, "level_shift_ is -1.0"),
        ("KMeans", {"labels_": np.array([0, 1, 2, 0], np.int32)}, r"labels_ has entries outside 0 … 1"),
        ("KMeans", {"labels_": np.array([0.0, 1.0, 1.0, 0.0])}, "labels_ has dtype float64, and must be whole"),
        ("KMeans", {"feature_names_in_": np.array(["a", "b"], object)}, r"feature_names_in_ has the shape \(2,\)"),
    ],
)
def test_what_does_not_fit_together_is_named(model, change, message, tmp_path, put):
    made = {
        "KMeans": knoll.KMeans(2),
        "DBSCAN": knoll.DBSCAN(2.5, min_samples=2),
        "KernelKMeans": knoll.KernelKMeans(2, sigma=3.0, random_state=0),
        "MeanShift": knoll.MeanShift(bandwidth=3.0),
        "SpectralClustering": knoll.SpectralClustering(2, sigma=3.0, random_state=0),
        "GaussianMixture": knoll.GaussianMixture(2, random_state=0),
        "MixedMixture": knoll.MixedMixture(2, random_state=0),
    }
    liar = made[model].fit(np.array([[0.0], [1.0], [9.0], [7.0]]))
    for name, value in change.items():
        setattr(liar, name, value)
    with pytest.raises(ModelFileError, match=f"{model} cannot be saved: .*{message}"):
        knoll.save(liar, tmp_path / "m.knoll")
    assert os.listdir(tmp_path) == []
    with pytest.raises(ModelFileError, match=f"m.knoll is damaged: .*{message}"):
        knoll.load(put(files.of_state(*liar.to_state()), "m.knoll"))


def test_the_forger_forges_well(put, small):
    """What the tests above change is what they mean to change."""
    header, arrays = files.split(small)
    again = models.read(put(files.forged(header, arrays))).estimator
    assert again.cluster_centers_.tolist() == [[0.25, 1.0], [9.0, 8.75]]
    assert files.resigned(small) == small
    assert json.loads(json.dumps(header)) == header
