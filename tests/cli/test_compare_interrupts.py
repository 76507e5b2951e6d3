"""Ctrl-C while ``knoll compare`` runs: what is fitted is kept, whole; twice means it."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow.parquet
import pytest

from knoll import comparison as engine
from knoll.registry import compared, title

QUICK = ("--methods", "kmeans,gmm,dbscan", "--k", "2..4", "--budget", "5")


@pytest.fixture(autouse=True)
def ctrl_c():
    """SIGINT does what it does in a shell's foreground, also where the tests were started in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press(target, name, monkeypatch, *, times=1):
    """Send a true SIGINT to ourselves when this function is called."""
    run, left = getattr(target, name), [times]

    def pressed(*args, **options):
        if left[0]:
            left[0] -= 1
            signal.raise_signal(signal.SIGINT)
        return run(*args, **options)

    monkeypatch.setattr(target, name, pressed)


def kept(out):
    """The methods whose answers labels, models, report and summary share."""
    labels = pyarrow.parquet.read_table(out / "labels.parquet").column_names
    summary = json.loads((out / "summary.json").read_text())
    methods = [name for name in compared() if name in labels]
    assert list(summary["candidates"]) == methods
    others = [f"alternative-{i + 1}" for i in range(len(summary["recommendation"]["alternatives"]))]
    assert sorted(path.stem for path in (out / "models").iterdir()) == sorted([*methods, *others])
    assert [name for name in labels if name.startswith("alternative-")] == others
    assert sorted(os.listdir(out)) == ["labels.parquet", "models", "report.html", "summary.json"]
    page = (out / "report.html").read_text()
    assert all(title(name) in page for name in methods)
    return methods, summary, page


ALL_THREE = ["gaussian-mixture", "kmeans", "dbscan"]
STAGES = {
    "judge: agreement": ("knoll.comparison.engine", "agreement_of", ALL_THREE),
    "judge: score": ("knoll.comparison.engine", "join_answers", ALL_THREE),
    "judge: truth": ("knoll.comparison.engine", "truth_scores", ALL_THREE),
    "fit: stability of the first": ("knoll.comparison.fitting", "stability", None),
    "fit: scores of the first": ("knoll.comparison.fitting", "internal_scores", None),
    "report": ("knoll.cli._compare_files", "comparison_page", ALL_THREE),
    "writing: labels": ("knoll.cli._compare_files", "_write_labels", ALL_THREE),
    "writing: models": ("knoll.cli._compare_files", "save", ALL_THREE),
    "writing: summary": ("knoll.cli._compare_files", "_write_summary", ALL_THREE),
}


@pytest.mark.parametrize("stage", STAGES)
def test_ctrl_c_in_any_stage_keeps_what_is_fitted(table, tmp_path, monkeypatch, call, stage):
    module, function, finished = STAGES[stage]
    press(importlib.import_module(module), function, monkeypatch)
    out = tmp_path / "out"
    code, _, errors = call("compare", table, "--truth", "kind", "--out", out, *QUICK)
    assert code == 130
    assert errors.endswith(f"knoll: interrupted; the finished results are in {out}.\n")
    methods, summary, page = kept(out)
    assert methods == (finished or [summary["recommendation"]["method"]])  # in a fit: it is finished, and no other
    assert summary["interrupted"]
    assert summary["recommendation"]["method"] in methods
    assert "Interrupted." in page


@pytest.mark.parametrize(
    ("module", "name"),
    [("knoll.cli._results", "_exchange"), ("knoll.cli._compare_terminal", "print_result")],
    ids=["moving", "reporting"],
)
def test_ctrl_c_when_all_is_written_takes_nothing_back(table, tmp_path, monkeypatch, call, module, name):
    press(importlib.import_module(module), name, monkeypatch)
    code, _, errors = call("compare", table, "--out", tmp_path / "out", *QUICK)
    assert code == 130
    assert errors.endswith(f"knoll: interrupted; the finished results are in {tmp_path / 'out'}.\n")
    assert kept(tmp_path / "out")[0] == ALL_THREE
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_in_a_fit_keeps_the_methods_before_it(table, tmp_path, monkeypatch, call):
    monkeypatch.setattr(engine, "compare", interrupting("gaussian-mixture"))
    code, _, errors = call("compare", table, "--out", tmp_path / "out", *QUICK)
    assert code == 130
    assert errors.endswith(f"knoll: interrupted; the finished results are in {tmp_path / 'out'}.\n")
    methods, summary, page = kept(tmp_path / "out")
    assert methods == ["kmeans", "dbscan"]  # the quick methods come first
    failures = [(failure["method"], failure["reason"]) for failure in summary["failures"]]
    assert failures == [("gaussian-mixture", "interrupted")]
    assert "Interrupted." in page


def interrupting(after):
    """An engine whose reader presses Ctrl-C when this method begins."""
    run = engine.compare

    def compare(*args, progress, **options):
        def on_event(event):
            progress(event)
            if event.method == after:
                signal.raise_signal(signal.SIGINT)

        return run(*args, progress=on_event, **options)

    return compare


def test_ctrl_c_before_the_first_answer_leaves_nothing(table, tmp_path, monkeypatch, call):
    monkeypatch.setattr(engine, "compare", interrupting("dbscan"))
    code, _, errors = call("compare", table, "--out", tmp_path / "new" / "out", *QUICK)
    assert code == 130
    assert "interrupted; unfinished files were removed" in errors
    assert os.listdir(tmp_path) == []


def test_ctrl_c_twice_means_it(table, tmp_path, monkeypatch, call):
    press(importlib.import_module("knoll.cli._compare_files"), "comparison_page", monkeypatch, times=2)
    code, _, errors = call("compare", table, "--out", tmp_path / "new" / "out", *QUICK)
    assert code == 130
    assert errors.endswith("knoll: interrupted; unfinished files were removed.\n")
    assert os.listdir(tmp_path) == []


def test_ctrl_c_in_a_process_of_its_own(tmp_path):
    """A true signal while a fit runs: the answers so far are written, and the exit code is that of an interrupt."""
    X = np.random.default_rng(0).normal(size=(2000, 4))
    np.save(tmp_path / "x.npy", X)
    args = [sys.executable, "-m", "knoll", "compare", "x.npy", "--methods", "kmeans,spectral,mean-shift", "--exact"]
    run = subprocess.Popen(args, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in run.stderr:
        if "spectral clustering: " in line:
            break
    time.sleep(0.05)
    run.send_signal(signal.SIGINT)
    output = run.communicate(timeout=60)[1]
    assert run.returncode == 130, output
    assert output.endswith("knoll: interrupted; the finished results are in comparison.\n")
    assert (tmp_path / "comparison" / "models" / "kmeans.knoll").exists()
