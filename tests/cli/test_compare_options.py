"""The args after ``knoll compare``: what they become, and what a wrong one gets."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from knoll.cli._compare_options import parse_methods, parse_numbers, parse_settings

QUICK = ("--methods", "kmeans,gmm,dbscan", "--k", "2..4", "--budget", "5")


def test_settings_become_values():
    assert parse_methods(None) is None
    assert parse_methods("gmm, kmeans") == ["gaussian-mixture", "kmeans"]
    assert parse_numbers("2..4") == [2, 3, 4]
    assert parse_numbers("2,8, 4") == [2, 4, 8]
    assert parse_numbers("3-5") == [3, 4, 5]
    settings = parse_settings(("dbscan.eps=0.5", "gmm.n_init=2", "dbscan.metric=cityblock", "kmeans.tol=none"))
    assert settings == {
        "dbscan": {"eps": 0.5, "metric": "cityblock"}, "gaussian-mixture": {"n_init": 2}, "kmeans": {"tol": None},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--k", "many"], "--k takes a range such as 2..15, or numbers such as 2,4,8, got 'many'."),
        (
            ["--k", "0..3"],
            "--k must be >= 1 and include a number >= 2, got '0..3'. For example 2..15.",
        ),
        (["--k", "1"], "--k must be >= 1 and include a number >= 2, got '1'. For example 2..15."),
        (["--k", "9..3"], "--k: the range '9..3' ends before it begins. Write 3..9."),
        (["--k", "2..999"], "--k asks for 998 numbers of clusters; at most 100 are tried."),
        (
            ["--methods", "kmean"],
            "--methods: unknown method 'kmean'. Choose from: mixed-mixture, k-prototypes,",
        ),
        (["--methods", ","], "--methods is empty. Choose from: mixed-mixture, k-prototypes, gaussian-mixture, kmeans,"),
        (["--set", "eps=1"], "--set takes METHOD.NAME=VALUE, such as dbscan.eps=0.3, got 'eps=1'."),
        (["--set", "dbscan.epz=1"], "parameters: dbscan has no 'epz'. It has"),
        (["--set", "dbscn.eps=1"], "parameters: unknown method 'dbscn'. Choose from: mixed-mixture,"),
        (["--set", "dbscan.eps=-1"], "DBSCAN: eps must be > 0, got -1."),
        (
            ["--set", "dbscan.eps=near"],
            "DBSCAN: eps must be a number > 0 or a length in m, km, ft, mi, nmi, such as '50m'",
        ),
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
        (["--columns", ""], "--columns is empty. Name some, such as --columns height,width"),
        (["--id", "nothing"], "has no column 'nothing'."),
        (["--columns", "name"], "column 'name' cannot be used: an identifier, a different text in every row."),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(table, tmp_path, call, args, message):
    code, text, errors = call("compare", table, "--out", tmp_path / "deep" / "out", "--quiet", *args)
    assert (code, text) == (2, "")
    assert message in errors
    assert errors.count("\n") == 1
    assert os.listdir(tmp_path) == []


def test_a_column_with_a_comma_in_its_name_is_quoted(tmp_path, call):
    lines = ['"a, b",c,d', *(f"{i % 7},{i % 5},{i}" for i in range(30))]
    (tmp_path / "x.csv").write_text("\n".join(lines) + "\n")
    args = ["--columns", '"a, b", d', "--out", tmp_path / "out", "--methods", "kmeans", "--k", "2", "--quiet"]
    assert call("compare", tmp_path / "x.csv", *args) == (0, "", "")
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["data"]["columns"] == ["a, b", "d"]


def test_a_parameter_by_hand(table, tmp_path, call):
    code, _, _ = call("compare", table, "--out", tmp_path / "out", "--set", "dbscan.eps=0.4", "--set",
                      "gmm.covariance_type=diag", *QUICK)  # fmt: skip
    assert code == 0
    found = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert found["candidates"]["dbscan"]["parameters"]["eps"] == 0.4
    assert found["candidates"]["gaussian-mixture"]["parameters"]["covariance_type"] == "diag"
    assert "--set dbscan.eps=0.4 --set gmm.covariance_type=diag" in found["command"]


def test_a_method_that_fails_is_reported_and_the_others_stay(table, tmp_path, call):
    """Rows that are no distances: DBSCAN cannot work on them, the others can."""
    code, text, _ = call("compare", table, "--out", tmp_path / "out", "--set", "dbscan.metric=precomputed", *QUICK)
    assert code == 0
    assert f"{'DBSCAN':<25} no answer: " in text
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert list(summary["candidates"]) == ["gaussian-mixture", "kmeans"]
    assert [failure["method"] for failure in summary["failures"]] == ["dbscan"]
    assert "failed</span>: " in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize(
    ("args", "offered"),
    [
        ("knoll com", "plain,compare"),
        ("knoll compare my-da", "file,my-da"),
        ("knoll compare --scale r", "plain,robust"),
        ("knoll compare --tr", "plain,--truth"),
    ],
)
def test_the_shell_completes(knoll, args, offered):
    environment = {"_KNOLL_COMPLETE": "bash_complete", "COMP_WORDS": args, "COMP_CWORD": str(len(args.split()) - 1)}
    assert knoll(env={**os.environ, **environment}).stdout.splitlines() == [offered]


def test_the_plan_is_printed_before_the_work(tmp_path, call):
    rows = np.random.default_rng(0).normal(size=(2500, 2))
    np.save(tmp_path / "x.npy", rows)
    code, text, _ = call(
        "compare", tmp_path / "x.npy", "--out", tmp_path / "out", "--methods", "kmeans,spectral", "--k", "2"
    )
    assert code == 0
    assert (
        "  plan: parameters are chosen on 2000 rows\n    kmeans: all rows\n"
        "    spectral: sample of 2000, the others by predict\n"
    ) in text
