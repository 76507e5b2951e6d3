"""``knoll relate``: certificates for a person's own data."""

from __future__ import annotations

import json

import numpy as np
import pytest

from knoll import relations

QUICK = "gaussian-is-mixture-of-one,mixture-to-kmeans,mixture-distance"


def test_the_list_names_every_relation(call):
    code, text, _ = call("relate", "--list")
    assert code == 0
    for relation in relations.all():
        assert f"{relation.name}: {relation.source} → {relation.target}" in text
        assert relation.statement in text


def test_the_table_of_certificates(call, tmp_path):
    out = tmp_path / "certificates.json"
    code, text, errors = call("relate", "iris", "--only", QUICK, "--clusters", 2, "--json", out)
    assert (code, errors) == (0, "")
    assert text.splitlines()[0] == "iris: 150 rows, 4 columns"
    assert text.count("✓") == 3
    assert "3 of 3 hold." in text
    stored = json.loads(out.read_text())
    assert [each["verdict"] for each in stored] == ["holds"] * 3
    assert stored[1]["numbers"]["n_clusters"] == 2


def test_a_file_of_ones_own(call, tmp_path):
    path = tmp_path / "mine.csv"
    rows = np.random.default_rng(0).normal(size=(60, 2)).tolist()
    path.write_text("name,a,b\n" + "".join(f"row,{a},{b}\n" for a, b in rows) + "row,,1\n")
    code, text, _ = call("relate", path, "--only", QUICK)
    assert code == 2
    code, text, _ = call("relate", path, "--only", QUICK, "--missing", "drop", "--details")
    assert code == 0
    assert "left out: name (text)" in text
    assert "1 missing value in 1 of 61 rows: these rows were left out" in text
    assert "assumes   the covariance has full rank: yes" in text
    code, text, _ = call("relate", path, "--columns", "b", "--only", QUICK, "--clusters", 2)
    assert code == 0
    assert "61 rows, 1 column" in text


def test_what_does_not_apply_reports_why(call, tmp_path):
    path = tmp_path / "one.csv"
    path.write_text("x\n1\n1\n")
    code, text, _ = call("relate", path, "--only", "mixture-to-kmeans")
    assert code == 0
    assert "– mixture-to-kmeans" in text
    assert "only 1 unique rows" in text
    assert "0 of 1 hold, 1 do not apply" in text


def test_too_many_rows_are_sampled_and_reported(call, tmp_path, monkeypatch):
    monkeypatch.setattr(relations.MixtureDistance, "most_rows", 100)
    code, text, _ = call("relate", "iris", "--only", "mixture-distance")
    assert code == 0
    assert "measured on 100 evenly spaced rows of 150" in text


def test_mistakes_are_reported_in_a_line(call):
    code, _, errors = call("relate", "iris", "--only", "x")
    assert code == 2
    assert "No relation is called 'x'" in errors
    code, _, errors = call("relate", "iris", "--columns", "x", "--only", QUICK)
    assert code == 2
    assert "iris has no column 'x'" in errors
    code, _, errors = call("relate", "nope.csv")
    assert (code, errors) == (2, "knoll: There is no file nope.csv.\n")


@pytest.mark.parametrize("option", ["--eps", "--bandwidth", "--sigma"])
@pytest.mark.parametrize("value", ["-1", "0", "nan", "inf"])
def test_a_scale_that_is_none_is_a_mistake_not_a_verdict(call, option, value):
    code, text, errors = call("relate", "iris", option, value)
    assert (code, text) == (2, "")
    assert f"Invalid value for '{option}': must be > 0 and finite, got {float(value):g}." in errors


def test_a_seed_has_64_bits(call):
    code, _, errors = call("relate", "iris", "--only", QUICK, "--seed", 2**64)
    assert code == 2
    assert "'--seed': 18446744073709551616 is not in the range" in errors


def test_the_json_is_json(call, tmp_path):
    """With as many clusters as rows there is no next eigenvalue: its gap is not a number, which JSON does not know."""
    out = tmp_path / "certificates.json"
    args = ("relate", "iris", "--only", "spectral-kernel-is-graph", "--clusters", 150, "--json", out)
    assert call(*args)[0] == 0
    stored = json.loads(out.read_text(), parse_constant=pytest.fail)
    assert stored[0]["numbers"]["eigengap"] is None


def test_a_path_that_cannot_be_written_names_its_own_option(call, tmp_path):
    code, _, errors = call("relate", "iris", "--only", QUICK, "--json", tmp_path / "no" / "x.json")
    assert code == 2
    assert errors.endswith("Choose another path with --json.\n")


def test_a_relation_named_twice_is_certified_once(call):
    _, text, _ = call("relate", "iris", "--only", "mixture-distance,mixture-distance")
    assert "1 of 1 hold." in text


def test_certificates_of_an_earlier_run_are_not_replaced_unless_that_is_requested(call, tmp_path):
    out = tmp_path / "c.json"
    out.write_text("mine")
    args = ("relate", "iris", "--only", "gaussian-is-mixture-of-one", "--json", out)
    line = f"knoll: {out} already exists. Choose another name, or replace it with --force.\n"
    assert call(*args) == (2, "", line)
    assert out.read_text() == "mine"
    assert call(*args, "--force")[0] == 0
    assert out.read_text().startswith("[")
