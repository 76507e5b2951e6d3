"""Names of clusters at the command line, and the explanation in summary, report and terminal."""

from __future__ import annotations

import json

import pyarrow.parquet
import pytest

QUICK = ("--methods", "kmeans,gmm", "--k", "3", "--budget", "5")


def test_names_are_in_every_output(table, tmp_path, call):
    out = tmp_path / "out"
    code, text, _ = call("compare", table, "--id", "name", "--out", out, "--names", '0=Small,"2=Large, old"', *QUICK)
    assert code == 0
    summary = json.loads((out / "summary.json").read_text())
    clusters = summary["explanation"]["clusters"]
    assert [clusters[0]["name"], clusters[2]["name"]] == ["Small", "Large, old"]
    assert "0 Small: " in text
    page = (out / "report.html").read_text()
    assert "Large, old" in page
    assert "--names" in summary["command"]
    labels = pyarrow.parquet.read_table(out / "labels.parquet")
    ids = labels["name"].to_pylist()
    best = labels[summary["recommendation"]["method"]].to_pylist()
    for cluster in clusters:
        for row in cluster["typical"]:
            assert ids[row["row"]] == row["id"]
            assert best[row["row"]] == cluster["label"]
    assert summary["explanation"]["fidelity"] > 0.9


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("Small", "--names takes NUMBER=NAME, such as 0=Regulars,1=Rare, got 'Small'."),
        ("0=", "--names takes NUMBER=NAME, such as 0=Regulars,1=Rare, got '0='."),
        ("0=a,0=b", "--names: cluster 0 has two names."),
        ("9=a", "--names: there is no cluster 9. There are: 0, 1, 2."),
        ("0=a,1=a", "--names: 'a' is the name of two clusters. Give each its own."),
    ],
)
def test_wrong_names(table, tmp_path, call, names, message):
    code, _, errors = call("compare", table, "--out", tmp_path / "out", "--names", names, "--quiet", *QUICK)
    assert code == 2
    assert message in errors
    assert not (tmp_path / "out").exists()
