"""``knoll compare``: what it writes, what it says, and that it writes all of it or nothing."""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

from knoll import comparison as engine
from knoll.cli import _results, main
from knoll.cli._compare_words import read_methods, read_numbers, read_settings
from knoll.cli._progress import event_line
from knoll.comparison import Event
from knoll.comparison.result import METHODS
from knoll.exceptions import ModelFileError
from knoll.metrics import adjusted_rand_score

QUICK = ("--methods", "kmeans,gmm,dbscan", "--k", "2..4", "--budget", "5")


@pytest.fixture(autouse=True)
def ctrl_c():
    """SIGINT does what it does in a shell's foreground, also where the tests were started in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def call(capsys):
    def run(*words):
        code = main([str(word) for word in words])
        return code, *capsys.readouterr()

    return run


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Three groups with names, classes, a date and a constant."""
    rng = np.random.default_rng(5)
    path = tmp_path_factory.mktemp("compare") / "plants.csv"
    lines = ["name,height,width,kind,seen,planet"]
    for kind, (x, y) in enumerate([(0, 0), (30, 0), (0, 3)]):
        lines += [
            f"p{kind}-{i},{x + a},{y + 0.1 * b},k{kind},2024-05-{i % 28 + 1:02},3"
            for i, (a, b) in enumerate(rng.normal(size=(40, 2)))
        ]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def results(table):
    """All six methods on that table, once for all who read the files."""
    out = table.parent / "all"
    assert main(["compare", str(table), "--id", "name", "--truth", "kind", "--k", "2..5", "--budget", "20",
                 "--out", str(out), "--quiet"]) == 0  # fmt: skip
    return out


# ---- the files -----------------------------------------------------------------------------------------------------


def test_everything_is_written(results):
    assert sorted(path.name for path in results.iterdir()) == [
        "labels.parquet", "models", "report.html", "summary.json",
    ]  # fmt: skip
    assert sorted(path.stem for path in (results / "models").iterdir()) == sorted(METHODS)


def test_the_labels_have_a_column_for_each_method(results):
    labels = pyarrow.parquet.read_table(results / "labels.parquet")
    assert labels.column_names[:7] == ["name", *METHODS]
    assert labels["name"].to_pylist()[:2] == ["p0-0", "p0-1"]
    shares = np.column_stack([labels[name] for name in labels.column_names[7:]])
    assert all(name.startswith("gaussian-mixture-p") for name in labels.column_names[7:])
    assert np.allclose(shares.sum(axis=1), 1.0)
    truth = np.repeat([0, 1, 2], 40)
    assert adjusted_rand_score(truth, labels["gaussian-mixture"].to_numpy()) == 1.0


def test_the_summary_tells_what_the_labels_hold(results):
    summary = json.loads((results / "summary.json").read_text())
    labels = pyarrow.parquet.read_table(results / "labels.parquet")
    for method, told in summary["candidates"].items():
        found = labels[method].to_numpy()
        assert told["n_clusters"] == len(np.unique(found[found >= 0]))
        assert told["noise"] == (found < 0).mean()
        assert sum(told["sizes"]) == (found >= 0).sum()
    assert summary["recommendation"]["method"] in METHODS
    assert summary["truth_scores"]["gaussian-mixture"]["ari"] == 1.0
    assert summary["data"]["columns"] == ["height", "width", "planet"]
    assert summary["data"]["left_out"] == {"seen": "a date or time"}
    assert not summary["interrupted"]


def test_the_models_label_the_table_as_the_labels_do(results, table, call):
    again = results.parent / "again.csv"
    code, _, errors = call("predict", results / "models" / "kmeans.knoll", table, "--out", again)
    assert (code, errors) == (0, "")
    labels = pyarrow.parquet.read_table(results / "labels.parquet")
    assert pyarrow.csv.read_csv(again)["label"].to_pylist() == labels["kmeans"].to_pylist()


def test_the_same_command_again_writes_the_same(results, table, tmp_path, call):
    command = json.loads((results / "summary.json").read_text())["command"]
    words = command.split()
    assert words[:3] == ["knoll", "compare", str(table)]
    words[words.index("--out") + 1] = str(tmp_path / "again")
    code, _, _ = call(*words[1:], "--jobs", 1, "--quiet")
    assert code == 0
    assert (tmp_path / "again" / "labels.parquet").read_bytes() == (results / "labels.parquet").read_bytes()


def without_times(told):
    """A summary without what the clock and the place of the files say."""
    if isinstance(told, dict):
        return {key: without_times(value) for key, value in told.items() if key not in ("seconds", "command")}
    return [without_times(value) for value in told] if isinstance(told, list) else told


def test_the_same_seed_gives_the_same_bytes_for_any_number_of_threads(table, tmp_path, call):
    for jobs in (1, 2):
        words = ("--out", tmp_path / str(jobs), "--jobs", jobs, "--format", "csv", "--k", "2..4", "--quiet")
        assert call("compare", table, *words) == (0, "", "")
    one, two = (tmp_path / "1", tmp_path / "2")
    assert (one / "labels.csv").read_bytes() == (two / "labels.csv").read_bytes()
    told = [without_times(json.loads((out / "summary.json").read_text())) for out in (one, two)]
    assert json.dumps(told[0]) == json.dumps(told[1])
    for model in os.listdir(one / "models"):
        assert (one / "models" / model).stat().st_size == (two / "models" / model).stat().st_size


def test_labels_as_csv(table, tmp_path, call):
    code, text, errors = call("compare", table, "--out", tmp_path / "out", "--format", "csv", *QUICK)
    assert code == 0
    labels = pyarrow.csv.read_csv(tmp_path / "out" / "labels.csv")
    assert labels.column_names[:4] == ["row", "gaussian-mixture", "kmeans", "dbscan"]
    assert labels["row"].to_pylist() == list(range(120))
    assert not (tmp_path / "out" / "labels.parquet").exists()
    assert "labels.csv" in text
    assert "100 % judge: done" in errors


# ---- the terminal --------------------------------------------------------------------------------------------------


def test_what_a_newcomer_reads(table, tmp_path, call):
    code, text, errors = call("compare", table, "--out", tmp_path / "out", "--truth", "kind", *QUICK)
    assert code == 0
    lines = text.splitlines()
    assert lines[0] == f"{table}: 120 rows, 3 columns; scaled (standard)"
    assert "  left out: name (text), seen (a date or time)" in lines
    assert "  planet is constant and tells nothing." in lines
    head = next(line for line in lines if line.startswith("  method"))
    assert head.split() == ["method", "clusters", "noise", "stable", "truth", "seconds", "fitted", "on"]
    assert [line[2:].split()[0] for line in lines if line.endswith("all rows")] == [
        "gaussian-mixture",
        "kmeans",
        "dbscan",
    ]
    assert any(line.startswith("Recommended: ") for line in lines)
    assert "they are not truth" in " ".join(lines)
    assert f"{tmp_path / 'out' / 'report.html'}     the pictures" in text
    assert max(len(line.replace(str(tmp_path), "")) for line in lines) <= 110
    progress = errors.splitlines()
    assert len(progress) == len(set(progress))
    for method in ("gaussian-mixture", "kmeans", "dbscan"):
        assert any(f" {method}: " in line for line in progress)


def test_quiet_and_json(table, tmp_path, call):
    assert call("compare", table, "--out", tmp_path / "a", "--quiet", *QUICK) == (0, "", "")
    code, text, errors = call("compare", table, "--out", tmp_path / "b", "--json", *QUICK)
    assert (code, errors) == (0, "")
    assert json.loads(text) == json.loads((tmp_path / "b" / "summary.json").read_text())


def test_without_a_file_a_real_table_is_taken(tmp_path, call):
    code, text, _ = call("compare", "--out", tmp_path / "out", "--methods", "kmeans", "--k", "3", "--budget", "5")
    assert code == 0
    assert text.startswith("iris: 150 rows, 4 columns; scaled (standard)\n")
    assert "No file was given, so this is a table that comes with scikit-learn." in text
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["truth_scores"]["kmeans"]["ari"] > 0.5


def answering(words, answer, folder):
    """Run on a terminal, and answer what is asked there; return what was shown and the exit code."""
    main_end, ours = os.openpty()
    done = subprocess.Popen([sys.executable, "-m", "knoll", *words], stdin=ours, stdout=ours, stderr=ours, cwd=folder,
                            env={**os.environ, "TERM": "dumb"}, start_new_session=True)  # fmt: skip
    os.close(ours)
    shown = b""
    try:
        while piece := os.read(main_end, 4096):
            shown += piece
            if b"[y/N]" in shown and answer:
                os.write(main_end, answer)
                answer = b""
    except OSError:  # the other end is closed
        pass
    os.close(main_end)
    return shown.decode(), done.wait(timeout=60)


@pytest.mark.parametrize(("answer", "written"), [(b"n\n", False), (b"\n", False), (b"y\n", True)])
def test_exact_asks_on_a_terminal_when_it_is_much(table, tmp_path, answer, written):
    words = ["compare", str(table), "--methods", "kmeans,spectral", "--k", "3", "--out", "out", "--exact"]
    shown, code = answering([*words, "--budget", "0.001"], answer, tmp_path)
    assert code == 0
    assert "That is more than the budget or the memory that is free. Go on? [y/N]" in shown
    assert ("Nothing was done." in shown) == (not written)
    assert (tmp_path / "out" / "summary.json").exists() == written
    assert os.listdir(tmp_path) == (["out"] if written else [])


def test_exact_asks_nothing_when_it_is_little(table, tmp_path):
    words = ["compare", str(table), "--methods", "kmeans", "--k", "3", "--out", "out", "--exact", "--budget", "99"]
    shown, code = answering(words, b"", tmp_path)
    assert code == 0
    assert "--exact: every method on all 120 rows" in shown
    assert "[y/N]" not in shown


def test_older_results_stay_when_the_answer_is_no(table, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "summary.json").write_text("old")
    words = ["compare", str(table), "--methods", "spectral", "--k", "3", "--out", "out", "--exact", "--force"]
    _, code = answering([*words, "--budget", "0.001"], b"n\n", tmp_path)
    assert code == 0
    assert (tmp_path / "out" / "summary.json").read_text() == "old"


def test_exact_shows_the_cost_first(table, tmp_path, call):
    code, text, _ = call("compare", table, "--out", tmp_path / "out", "--exact", *QUICK)
    assert code == 0
    lines = text.splitlines()
    cost = next(at for at, line in enumerate(lines) if "--exact: every method on all 120 rows, about" in line)
    for at, method in enumerate(["gaussian-mixture", "kmeans", "dbscan"], start=1):
        assert re.fullmatch(rf"    {method}: about \S+ (s|min|h), \S+ (kB|MB|GB) beyond the data", lines[cost + at])
    assert cost < next(at for at, line in enumerate(lines) if line.startswith("  method"))


def test_a_parameter_by_hand(table, tmp_path, call):
    code, _, _ = call("compare", table, "--out", tmp_path / "out", "--set", "dbscan.eps=0.4", "--set",
                      "gmm.covariance_type=diag", *QUICK)  # fmt: skip
    assert code == 0
    found = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert found["candidates"]["dbscan"]["parameters"]["eps"] == 0.4
    assert found["candidates"]["gaussian-mixture"]["parameters"]["covariance_type"] == "diag"
    assert "--set dbscan.eps=0.4 --set gmm.covariance_type=diag" in found["command"]


def test_a_method_that_fails_is_told_and_the_others_stay(table, tmp_path, call):
    """Rows that are no distances: DBSCAN cannot work on them, the others can."""
    code, text, _ = call("compare", table, "--out", tmp_path / "out", "--set", "dbscan.metric=precomputed", *QUICK)
    assert code == 0
    assert "dbscan            no answer: " in text
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert list(summary["candidates"]) == ["gaussian-mixture", "kmeans"]
    assert [failure["method"] for failure in summary["failures"]] == ["dbscan"]
    assert "no answer</span>: " in (tmp_path / "out" / "report.html").read_text()


def test_a_bar_on_a_terminal(table, tmp_path):
    """On a terminal the progress is one live line, which is gone at the end."""
    reader, writer = os.openpty()
    words = [sys.executable, "-m", "knoll", "compare", str(table), "--out", str(tmp_path / "out"), *QUICK]
    done = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=writer, env={**os.environ, "TERM": "xterm"})
    os.close(writer)
    shown = b""
    try:
        while piece := os.read(reader, 4096):
            shown += piece
    except OSError:  # the other end is closed
        pass
    os.close(reader)
    assert done.communicate()[0].startswith(str(table).encode())
    assert done.returncode == 0
    assert b"kmeans: " in shown
    assert b" MB" in shown
    assert b"\x1b[2K" in shown  # the line is cleared


def test_a_line_of_progress():
    assert (
        event_line(Event("kmeans", "fitting", 0.25, 12.4, 312_000_000))
        == " 25 % kmeans: fitting, about 12 s left, 312 MB"
    )
    assert event_line(Event("data", "reading", 0.0, None, 2_140_000_000)) == "  0 % data: reading, 2.1 GB"
    assert event_line(Event("kmeans", "fitting", 0.5, 400.0, 1_000)) == " 50 % kmeans: fitting, about 7 min left, 0 MB"


# ---- Ctrl-C --------------------------------------------------------------------------------------------------------


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
    """The methods of whose answers labels, models, report and summary tell alike."""
    labels = pyarrow.parquet.read_table(out / "labels.parquet").column_names
    summary = json.loads((out / "summary.json").read_text())
    methods = [name for name in METHODS if name in labels]
    assert list(summary["candidates"]) == methods
    assert sorted(path.stem for path in (out / "models").iterdir()) == sorted(methods)
    assert sorted(os.listdir(out)) == ["labels.parquet", "models", "report.html", "summary.json"]
    page = (out / "report.html").read_text()
    assert all(name in page for name in methods)
    return methods, summary, page


ALL_THREE = ["gaussian-mixture", "kmeans", "dbscan"]
STAGES = {
    "judge: agreement": ("knoll.comparison.engine", "agreement_of", ALL_THREE),
    "judge: recommend": ("knoll.comparison.engine", "recommend", ALL_THREE),
    "judge: truth": ("knoll.comparison.engine", "truth_scores", ALL_THREE),
    "fit: stability of the first": ("knoll.comparison.fitting", "stability", ALL_THREE[:1]),
    "fit: scores of the first": ("knoll.comparison.fitting", "internal_scores", ALL_THREE[:1]),
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
    assert errors.endswith(f"knoll: interrupted; what had finished is in {out}.\n")
    methods, summary, page = kept(out)
    assert methods == finished
    assert summary["interrupted"]
    assert summary["recommendation"]["method"] in finished
    assert "Interrupted." in page


@pytest.mark.parametrize(
    ("module", "name"), [("knoll.cli._results", "_exchange"), ("knoll.cli.compare", "_tell")], ids=["moving", "telling"]
)
def test_ctrl_c_when_all_is_written_takes_nothing_back(table, tmp_path, monkeypatch, call, module, name):
    press(importlib.import_module(module), name, monkeypatch)
    code, _, errors = call("compare", table, "--out", tmp_path / "out", *QUICK)
    assert code == 130
    assert errors.endswith(f"knoll: interrupted; what had finished is in {tmp_path / 'out'}.\n")
    assert kept(tmp_path / "out")[0] == ALL_THREE
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_in_a_fit_keeps_the_methods_before_it(table, tmp_path, monkeypatch, call):
    monkeypatch.setattr(engine, "compare", interrupting("dbscan"))
    code, _, errors = call("compare", table, "--out", tmp_path / "out", *QUICK)
    assert code == 130
    assert errors.endswith(f"knoll: interrupted; what had finished is in {tmp_path / 'out'}.\n")
    methods, summary, page = kept(tmp_path / "out")
    assert methods == ["gaussian-mixture", "kmeans"]
    assert [(failure["method"], failure["reason"]) for failure in summary["failures"]] == [("dbscan", "interrupted")]
    assert "Interrupted." in page


def interrupting(after):
    """An engine whose reader presses Ctrl-C when this method begins."""
    run = engine.compare

    def compare(*args, progress, **options):
        def tell(event):
            progress(event)
            if event.method == after:
                signal.raise_signal(signal.SIGINT)

        return run(*args, progress=tell, **options)

    return compare


@pytest.mark.parametrize("when", ["density", "gaussian-mixture"])
def test_ctrl_c_before_the_first_answer_leaves_nothing(table, tmp_path, monkeypatch, call, when):
    monkeypatch.setattr(engine, "compare", interrupting(when))
    code, _, errors = call("compare", table, "--out", tmp_path / "new" / "out", *QUICK)
    assert code == 130
    assert "interrupted; no unfinished file was kept" in errors
    assert os.listdir(tmp_path) == []


def test_ctrl_c_twice_means_it(table, tmp_path, monkeypatch, call):
    press(importlib.import_module("knoll.cli._compare_files"), "comparison_page", monkeypatch, times=2)
    code, _, errors = call("compare", table, "--out", tmp_path / "new" / "out", *QUICK)
    assert code == 130
    assert errors.endswith("knoll: interrupted; no unfinished file was kept.\n")
    assert os.listdir(tmp_path) == []


def test_ctrl_c_in_a_process_of_its_own(tmp_path):
    """A true signal while a fit runs: the answers so far are written, and the exit code says why there are no more."""
    X = np.random.default_rng(0).normal(size=(2000, 4))
    np.save(tmp_path / "x.npy", X)
    words = [sys.executable, "-m", "knoll", "compare", "x.npy", "--methods", "kmeans,spectral,mean-shift", "--exact"]
    run = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in run.stderr:
        if "spectral: fitting" in line or "spectral: choosing" in line:
            break
    time.sleep(0.05)
    run.send_signal(signal.SIGINT)
    told = run.communicate(timeout=60)[1]
    assert run.returncode == 130, told
    assert told.endswith("knoll: interrupted; what had finished is in comparison.\n")
    assert (tmp_path / "comparison" / "models" / "kmeans.knoll").exists()


# ---- words ---------------------------------------------------------------------------------------------------------


def test_words_become_values():
    assert read_methods(None) is None
    assert read_methods("gmm, kmeans") == ["gaussian-mixture", "kmeans"]
    assert read_numbers("2..4") == [2, 3, 4]
    assert read_numbers("2,8, 4") == [2, 4, 8]
    assert read_numbers("3-5") == [3, 4, 5]
    given = read_settings(("dbscan.eps=0.5", "gmm.n_init=2", "dbscan.metric=cityblock", "kmeans.tol=none"))
    assert given == {
        "dbscan": {"eps": 0.5, "metric": "cityblock"}, "gaussian-mixture": {"n_init": 2}, "kmeans": {"tol": None},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--k", "many"], "--k takes a range such as 2..15, or numbers such as 2,4,8, got 'many'."),
        (["--k", "1..3"], "--k must be whole numbers from 2 on, got '1..3'. For two to fifteen: 2..15."),
        (["--k", "9..3"], "--k must be whole numbers from 2 on, got '9..3'."),
        (["--k", "2..999"], "--k asks for 998 numbers of clusters; at most 100 are tried."),
        (["--methods", "kmean"], "--methods: there is no 'kmean'. There are: gaussian-mixture, kmeans,"),
        (["--methods", ","], "--methods is empty. There are: gaussian-mixture, kmeans,"),
        (["--set", "eps=1"], "--set takes METHOD.NAME=VALUE, such as dbscan.eps=0.3, got 'eps=1'."),
        (["--set", "dbscan.epz=1"], "parameters: dbscan has no 'epz'. It has"),
        (["--set", "dbscn.eps=1"], "parameters: there is no method 'dbscn'."),
        (["--set", "dbscan.eps=-1"], "DBSCAN: eps must be > 0, got -1."),
        (["--set", "dbscan.eps=near"], "DBSCAN: eps must be a number, got 'near'."),
        (["--set", "dbscan.metric=nothing"], "DBSCAN: metric 'nothing' cannot be computed"),
        (["--set", "kmeans.n_clusters=0"], "KMeans: n_clusters must be >= 1, got 0."),
        (["--set", "kmeans.n_clusters=1000"], "n_clusters of kmeans is 1000, but there are 120 rows."),
        (["--set", "mean-shift.bandwidth=-2"], "MeanShift: bandwidth must be > 0, got -2"),
        (["--set", "gmm.covariance_type=round"], "GaussianMixture: covariance_type must be one of"),
        (["--set", "dbscan.n_jobs=1"], "n_jobs of dbscan: use n_jobs of the comparison instead."),
        (["--k", "500"], "k begins at 500, but there are 120 rows. Try fewer clusters."),
        (["--methods", "kmeans", "--set", "dbscan.eps=1"], "dbscan is not among the methods, which are kmeans."),
        (["--jobs", "0"], "n_jobs must not be 0."),
        (["--budget", "0"], "Invalid value for '--budget'"),
        (["--columns", "nothing"], "has no column 'nothing'. It has: name, height, width, kind, seen, planet."),
        (["--id", "nothing"], "has no column 'nothing'."),
        (["--columns", "kind"], "column 'kind' cannot be used: text."),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(table, tmp_path, call, words, message):
    code, text, errors = call("compare", table, "--out", tmp_path / "deep" / "out", "--quiet", *words)
    assert (code, text) == (2, "")
    assert message in errors
    assert errors.count("\n") == 1
    assert os.listdir(tmp_path) == []


# ---- the place of the results --------------------------------------------------------------------------------------


def test_older_results_are_not_replaced_unless_that_is_asked_for(table, tmp_path, call):
    out = tmp_path / "out"
    out.mkdir()
    (out / "labels.csv").write_text("mine")
    (out / "notes.txt").write_text("keep me")
    code, _, errors = call("compare", table, "--out", out, *QUICK)
    assert code == 2
    assert errors == (
        f"knoll: {out} already has results (labels.csv). "
        "Choose another place with --out, or replace them with --force.\n"
    )
    assert (out / "labels.csv").read_text() == "mine"
    for _ in range(2):  # the second time over a whole set of results
        assert call("compare", table, "--out", out, "--force", "--quiet", *QUICK) == (0, "", "")
    assert sorted(os.listdir(out)) == ["labels.parquet", "models", "notes.txt", "report.html", "summary.json"]
    assert (out / "notes.txt").read_text() == "keep me"


def test_an_exchange_that_fails_is_taken_back(tmp_path, monkeypatch):
    out = tmp_path / "out"
    (out / "models").mkdir(parents=True)
    (out / "models" / "old.knoll").write_text("old")
    (out / "summary.json").write_text("old")
    real, count = os.replace, iter(range(99))

    def replace(source, target):
        if next(count) == 3:
            raise OSError(5, "Input/output error")
        real(source, target)

    def fail():
        with _results.whole_results(out, ("models", "summary.json", "report.html")) as scratch:
            (scratch / "models").mkdir()
            (scratch / "report.html").write_text("new")
            (scratch / "summary.json").write_text("new")
            monkeypatch.setattr(_results.os, "replace", replace)

    with pytest.raises(_results.CannotWrite, match="Input/output error"):
        fail()
    assert sorted(os.listdir(out)) == ["models", "summary.json"]
    assert (out / "models" / "old.knoll").read_text() == "old"
    assert (out / "summary.json").read_text() == "old"


def test_a_file_where_the_folder_should_be(table, tmp_path, call):
    (tmp_path / "file").write_text("")
    code, _, errors = call("compare", table, "--out", tmp_path / "file", *QUICK)
    assert (code, errors) == (
        2, f"knoll: cannot write {tmp_path / 'file'}: it is a file. Choose another place with --out.\n",
    )  # fmt: skip
    code, _, errors = call("compare", table, "--out", tmp_path / "file" / "deeper", "--quiet", *QUICK)
    assert code == 2
    assert f"cannot write {tmp_path / 'file' / 'deeper'}: Not a directory. Choose another place with --out." in errors


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="this system has no /proc")
def test_a_place_that_cannot_be_written_to(table, call):
    code, _, errors = call("compare", table, "--out", "/proc/self/nowhere", "--quiet", *QUICK)
    assert code == 2
    assert errors.startswith("knoll: cannot write /proc/self/nowhere: ")
    assert errors.endswith("Choose another place with --out.\n")


def test_a_full_disk_leaves_nothing(table, tmp_path):
    """A limit on the size of files stands for a disk without room: writing fails half-way."""
    code = (
        "import resource, sys; from knoll.cli import main; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000)); sys.exit(main(sys.argv[1:]))"
    )
    out = tmp_path / "deep" / "out"
    words = ["compare", str(table), "--out", str(out), "--quiet", *QUICK]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2, done.stderr
    assert done.stderr == f"knoll: cannot write {out}: File too large. Choose another place with --out.\n"
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
        f"knoll: cannot write {tmp_path / 'out'}: No space left on device. Choose another place with --out.\n",
    )
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("knoll com", "plain,compare"),
        ("knoll compare my-da", "file,my-da"),
        ("knoll compare --scale r", "plain,robust"),
        ("knoll compare --tr", "plain,--truth"),
    ],
)
def test_the_shell_completes(knoll, words, offered):
    ask = {"_KNOLL_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    assert knoll(env={**os.environ, **ask}).stdout.splitlines() == [offered]
