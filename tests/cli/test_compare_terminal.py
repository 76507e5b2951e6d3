"""What ``knoll compare`` prints: its table, its recommendation, its progress, and its prompts."""

from __future__ import annotations

import json
import os
import re
import subprocess

import numpy as np
import pytest

from knoll.cli import _progress
from knoll.cli._progress import event_line
from knoll.comparison import Event

QUICK = ("--methods", "kmeans,gmm,dbscan", "--k", "2..4", "--budget", "5")


def test_what_a_newcomer_reads(table, tmp_path, call):
    code, text, errors = call("compare", table, "--out", tmp_path / "out", "--truth", "kind", *QUICK)
    assert code == 0
    lines = text.splitlines()
    assert lines[0] == f"{table}: 120 rows, used 3 of 5 columns; scaled (auto)"
    assert "  left out: name (an identifier, a different text in every row)" in lines
    assert "  dates, as numbers of days: seen" in lines
    assert "  planet has a single value and was ignored." in lines
    head = next(line for line in lines if line.startswith("  method"))
    assert head.split() == ["method", "clusters", "noise", "stability", "truth", "seconds"]
    begin = lines.index(head) + 1
    assert [line[2:20].strip() for line in lines[begin : begin + 3]] == ["Gaussian mixture", "k-means", "DBSCAN"]
    assert not any(name in " ".join(lines[begin:]) for name in ("gaussian-mixture", "kmeans", "dbscan"))
    assert any(line.startswith("Recommended: ") for line in lines)
    assert "The number of clusters was given" in " ".join(lines)
    assert f"{tmp_path / 'out' / 'report.html'}     HTML report" in text
    assert max(len(line.replace(str(tmp_path), "")) for line in lines) <= 110
    progress = errors.splitlines()
    assert len(progress) == len(set(progress))
    for method in ("Gaussian mixture", "k-means", "DBSCAN"):
        assert any(f" {method}: " in line for line in progress)


def test_quiet_and_json(table, tmp_path, call):
    assert call("compare", table, "--out", tmp_path / "a", "--quiet", *QUICK) == (0, "", "")
    code, text, errors = call("compare", table, "--out", tmp_path / "b", "--json", *QUICK)
    assert (code, errors) == (0, "")
    assert json.loads(text) == json.loads((tmp_path / "b" / "summary.json").read_text())


def test_without_a_file_a_real_table_is_taken(tmp_path, call):
    code, text, _ = call("compare", "--out", tmp_path / "out", "--methods", "kmeans", "--k", "3", "--budget", "5")
    assert code == 0
    assert text.startswith("iris: 150 rows, 4 columns; scaled (auto)\n")
    assert "No file was given, so this is a table that comes with scikit-learn." in text
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["truth_scores"]["kmeans"]["ari"] > 0.5


def test_a_bar_on_a_terminal(table, tmp_path, warm_knoll):
    """On a terminal the progress is one live line, which is gone at the end."""
    reader, writer = os.openpty()
    args = [*warm_knoll, "compare", str(table), "--out", str(tmp_path / "out"), *QUICK]
    done = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=writer, env={**os.environ, "TERM": "xterm"})
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
    assert b"k-means: " in shown
    assert b" MB" in shown
    assert b"\x1b[2K" in shown  # the line is cleared


def test_a_line_of_progress():
    assert (
        event_line(Event("kmeans", "fitting", 0.25, 12.4, 312_000_000))
        == " 25 % k-means: fitting, about 12 s left, 312 MB"
    )
    assert event_line(Event("data", "reading", 0.0, None, 2_140_000_000)) == "  0 % data: reading, 2.14 GB"
    assert (
        event_line(Event("kmeans", "fitting", 0.5, 400.0, 1_000)) == " 50 % k-means: fitting, about 6.7 min left, 1 kB"
    )


def test_stages_that_pass_quickly_take_no_line(monkeypatch, capsys):
    clock = iter([0.0, 0.2, 0.3, 5.0, 5.0])
    monkeypatch.setattr(_progress.time, "monotonic", lambda: next(clock))
    with _progress.showing() as show:
        for event in ("kmeans choosing", "kmeans fitting", "dbscan choosing", "dbscan fitting", "dbscan fitting"):
            show(Event(*event.split(), 0.5, None, 10**6))
    output = [line.split(" % ")[1].split(",")[0] for line in capsys.readouterr().err.splitlines()]
    assert output == ["k-means: choosing", "DBSCAN: choosing", "DBSCAN: fitting"]


def test_a_sample_is_reported_with_its_certificate(tmp_path, call):
    """The column of rows that were fitted stands there only if some were not."""
    rows = np.random.default_rng(0).normal(size=(1500, 2)) + np.repeat([[0.0], [9.0]], 750, axis=0)
    np.save(tmp_path / "x.npy", rows)
    args = ["--methods", "kmeans,spectral", "--k", "2", "--budget", "0.5", "--out", tmp_path / "out"]
    code, text, _ = call("compare", tmp_path / "x.npy", *args)
    assert code == 0
    assert "  fitted on" in text
    assert " sample of 436, the others by predict" in text
    output = " ".join(text.split())
    assert (
        "spectral clustering: fitted on 29 % of the rows, the others labelled by predict; adjusted Rand index "
        in output
    )


# ---- --exact --------------------------------------------------------------------------------------------------------


def answering(command, args, answer, folder):
    """Run on a terminal, and answer the prompts; return what was shown and the exit code."""
    main_end, ours = os.openpty()
    done = subprocess.Popen([*command, *args], stdin=ours, stdout=ours, stderr=ours, cwd=folder,
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
def test_exact_prompts_on_a_terminal_when_it_is_much(table, tmp_path, answer, written, warm_knoll):
    args = ["compare", str(table), "--methods", "kmeans,spectral", "--k", "3", "--out", "out", "--exact"]
    shown, code = answering(warm_knoll, [*args, "--budget", "0.001"], answer, tmp_path)
    assert code == 0
    assert "This exceeds the budget or the free memory. Continue? [y/N]" in shown
    assert ("Nothing was done." in shown) == (not written)
    assert (tmp_path / "out" / "summary.json").exists() == written
    assert os.listdir(tmp_path) == (["out"] if written else [])


def test_exact_does_not_prompt_when_it_is_little(table, tmp_path, warm_knoll):
    args = ["compare", str(table), "--methods", "kmeans", "--k", "3", "--out", "out", "--exact", "--budget", "99"]
    shown, code = answering(warm_knoll, args, b"", tmp_path)
    assert code == 0
    assert "--exact: every method on all 120 rows" in shown
    assert "[y/N]" not in shown


def test_older_results_stay_when_the_answer_is_no(table, tmp_path, call, warm_knoll):
    out = tmp_path / "out"
    assert call("compare", table, "--out", out, "--methods", "kmeans", "--k", "3", "--quiet") == (0, "", "")
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    args = ["compare", str(table), "--methods", "spectral", "--k", "3", "--out", "out", "--exact", "--force"]
    shown, code = answering(warm_knoll, [*args, "--budget", "0.001"], b"n\n", tmp_path)
    assert code == 0
    assert "Nothing was done." in shown
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_exact_shows_the_cost_first(table, tmp_path, call):
    code, text, _ = call("compare", table, "--out", tmp_path / "out", "--exact", *QUICK)
    assert code == 0
    lines = text.splitlines()
    cost = next(at for at, line in enumerate(lines) if "--exact: every method on all 120 rows, about" in line)
    for at, method in enumerate(["Gaussian mixture", "k-means", "DBSCAN"], start=1):
        assert re.fullmatch(rf"    {method}: about \S+ (s|min|h), \S+ (kB|MB|GB) beyond the data", lines[cost + at])
    assert cost < next(at for at, line in enumerate(lines) if line.startswith("  method"))
