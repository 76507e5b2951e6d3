"""Where the results go of ``knoll compare``: older ones, full disks, and folders that cannot be written to."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from knoll.cli import _results
from knoll.exceptions import ModelFileError

QUICK = ("--methods", "kmeans,gmm,dbscan", "--k", "2..4", "--budget", "5")


def test_older_results_are_not_replaced_unless_that_is_requested(table, tmp_path, call):
    out = tmp_path / "out"
    out.mkdir()
    (out / "labels.parquet").write_text("mine")
    (out / "notes.txt").write_text("keep me")
    for force in ((), ("--force",)):
        code, _, errors = call("compare", table, "--out", out, *force, *QUICK)
        assert code == 2
        assert errors == (
            f"knoll: {out / 'labels.parquet'} exists, and knoll did not write it or it was changed since. "
            "Choose another path with --out, or move it.\n"
        )
        assert (out / "labels.parquet").read_text() == "mine"
    (out / "labels.parquet").unlink()
    for _ in range(2):  # the second time over a whole set of results
        assert call("compare", table, "--out", out, "--force", "--quiet", *QUICK) == (0, "", "")
    code, _, errors = call("compare", table, "--out", out, *QUICK)
    models = ", ".join(f"models/{name}" for name in sorted(os.listdir(out / "models")))
    assert "models/dbscan.knoll, models/gaussian-mixture.knoll, models/kmeans.knoll" in models
    files = f"labels.parquet, {models}, report.html"
    assert (code, errors) == (
        2,
        f"knoll: {out} already has results of knoll ({files}, summary.json). "
        "Choose another path with --out, or replace them with --force.\n",
    )
    assert sorted(os.listdir(out)) == ["labels.parquet", "models", "notes.txt", "report.html", "summary.json"]
    assert (out / "notes.txt").read_text() == "keep me"


@pytest.mark.parametrize("stuck", [False, True], ids=["taken back", "stuck"])
def test_an_exchange_that_fails_is_taken_back(tmp_path, monkeypatch, stuck):
    out = tmp_path / "out"
    (out / "models").mkdir(parents=True)
    (out / "models" / "old.knoll").write_text("old")
    (out / "summary.json").write_text("old")
    monkeypatch.setattr(_results, "owned", lambda folder: {"models/old.knoll", "summary.json"})
    real, count = os.replace, iter(range(99))

    def replace(source, target):
        number = next(count)
        if number == 3 or (stuck and number > 3):
            raise OSError(5, "Input/output error")
        real(source, target)

    def fail():
        with _results.whole_results(out, True) as scratch:
            (scratch / "models").mkdir()
            (scratch / "models" / "new.knoll").write_text("new")
            (scratch / "report.html").write_text("new")
            (scratch / "summary.json").write_text("new")
            monkeypatch.setattr(_results.os, "replace", replace)

    with pytest.raises(_results.CannotWrite, match="Input/output error") as caught:
        fail()
    old = out if not stuck else next(out.glob(".knoll.*.part")) / "old"
    assert (f"The earlier files are in {old}." in caught.value.message) == stuck
    assert (old / "models" / "old.knoll").read_text() == "old"
    assert (old / "summary.json").read_text() == "old"
    if not stuck:
        assert sorted(os.listdir(out)) == ["models", "summary.json"]


def test_a_file_where_the_folder_should_be(table, tmp_path, call):
    (tmp_path / "file").write_text("")
    code, _, errors = call("compare", table, "--out", tmp_path / "file", *QUICK)
    assert (code, errors) == (
        2, f"knoll: cannot write {tmp_path / 'file'}: it is a file. Choose another path with --out.\n",
    )  # fmt: skip
    code, _, errors = call("compare", table, "--out", tmp_path / "file" / "deeper", "--quiet", *QUICK)
    assert code == 2
    assert f"cannot write {tmp_path / 'file' / 'deeper'}: Not a directory. Choose another path with --out." in errors


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="this system has no /proc")
def test_a_path_that_cannot_be_written_to(table, call):
    code, _, errors = call("compare", table, "--out", "/proc/self/nowhere", "--quiet", *QUICK)
    assert code == 2
    assert errors.startswith("knoll: cannot write /proc/self/nowhere: ")
    assert errors.endswith("Choose another path with --out.\n")


@pytest.mark.parametrize(
    "error",
    [OSError("libfont.so: cannot open shared object file"), FileNotFoundError(2, "No such file", "/x/page.html")],
)
def test_an_error_of_an_import_is_not_one_of_the_folder(table, tmp_path, monkeypatch, call, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("knoll.cli._compare_files.comparison_page", fail)
    code, _, errors = call("compare", table, "--out", tmp_path / "out", "--quiet", *QUICK)
    assert code == 1
    assert errors.startswith(f"knoll: internal error ({type(error).__name__}: ")
    assert not (tmp_path / "out").exists()


def test_a_full_disk_leaves_nothing(table, tmp_path):
    """A limit on the size of files stands for a disk without room: writing fails half-way."""
    code = (
        "import resource, sys; from knoll.cli import main; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000)); sys.exit(main(sys.argv[1:]))"
    )
    out = tmp_path / "deep" / "out"
    args = ["compare", str(table), "--out", str(out), "--quiet", *QUICK]
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2, done.stderr
    assert done.stderr == f"knoll: cannot write {out}: File too large. Choose another path with --out.\n"
    assert os.listdir(tmp_path) == []


def test_a_disk_that_is_full_at_the_last_model_leaves_nothing(table, tmp_path, monkeypatch, call):
    from knoll.cli import _compare_files

    def save(model, path, **options):
        if path.stem == "dbscan":
            raise ModelFileError(f"cannot write {path}") from OSError(28, "No space left on device")
        path.write_text("a model")

    monkeypatch.setattr(_compare_files, "save", save)
    code, _, errors = call("compare", table, "--out", tmp_path / "out", "--quiet", *QUICK)
    assert (code, errors) == (
        2,
        f"knoll: cannot write {tmp_path / 'out'}: No space left on device. Choose another path with --out.\n",
    )
    assert os.listdir(tmp_path) == []
