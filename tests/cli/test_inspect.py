"""``knoll inspect``: what a model file contains, and whether it is whole."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import knoll as package
from knoll import models

FIRST = Path(__file__).parents[1] / "fixtures" / "first.knoll"


def test_it_shows_class_parameters_columns_and_digest(call):
    code, text, errors = call("inspect", FIRST)
    assert (code, errors) == (0, "")
    lines = text.splitlines()
    assert lines[0].startswith(f"{FIRST}: GaussianMixture, 4.")
    assert lines[0].endswith("kB, format 1.0, by knoll 0.1.0")
    assert lines[1] == "parameters  covariance_type='diag', n_components=3, random_state=7; the others as by default"
    assert lines[2] == "columns     sepal length (cm), petal length (cm)"
    assert lines[3] == "scale       standard; missing values: error"
    assert lines[4] == "fitted      n_features_in_ = 2"
    assert "            means_ = float64 (3, 2)" in lines
    assert lines[-1] == f"SHA-256     {FIRST.read_bytes()[-32:].hex()} (verified)"


def test_json_has_it_all(call):
    code, text, _ = call("inspect", FIRST, "--json")
    assert code == 0
    output = json.loads(text)
    assert output["class"] == "GaussianMixture"
    assert output["sha256"] == models.inspect(FIRST).digest
    assert output["preparation"]["columns"] == ["sepal length (cm)", "petal length (cm)"]
    assert output["parameters"]["n_components"] == 3
    assert output["fitted"]["noise_log_density_"] == "-inf"
    assert output["bytes"] == FIRST.stat().st_size


def test_quiet_reports_by_the_exit_code_alone(call, tmp_path):
    assert call("inspect", FIRST, "--quiet") == (0, "", "")
    damaged = tmp_path / "damaged.knoll"
    damaged.write_bytes(FIRST.read_bytes()[:-1] + b"\x00")
    code, text, errors = call("inspect", damaged, "--quiet")
    assert (code, text) == (2, "")
    assert errors.startswith(f"knoll: {damaged} is damaged: its contents do not match their SHA-256.")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty."),
        (b"x,y\n1,2\n", "is not a knoll model file: it begins with b'x,y"),
        (FIRST.read_bytes()[:100], "is cut short: it has 100 of"),
        (FIRST.read_bytes() + b"more", "has 4 bytes after the end of the model."),
    ],
)
def test_what_is_no_model_is_reported_in_a_line(call, tmp_path, content, message):
    path = tmp_path / "m.knoll"
    path.write_bytes(content)
    code, text, errors = call("inspect", path)
    assert (code, text) == (2, "")
    assert errors.startswith(f"knoll: {path} {message}")
    assert errors.count("\n") == 1


def test_a_thousand_columns_are_shown_by_the_first(call, tmp_path):
    X = np.arange(2000.0).reshape(2, 1000)
    made = models.Preparation.fit(X, [f"x{j}" for j in range(1000)])
    models.save(package.KMeans(2, random_state=0).fit(made.apply(X)), tmp_path / "m.knoll", preparation=made)
    _, text, _ = call("inspect", tmp_path / "m.knoll")
    assert text.splitlines()[2] == f"columns     {', '.join(f'x{j}' for j in range(12))} and 988 more"


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="needs the tool sha256sum")
def test_other_tools_find_the_same_digest(tmp_path):
    (tmp_path / "contents").write_bytes(FIRST.read_bytes()[:-32])
    done = subprocess.run(["sha256sum", tmp_path / "contents"], capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == models.inspect(FIRST).digest


def test_a_missing_file(call):
    assert call("inspect", "nope.knoll") == (2, "", "knoll: There is no file nope.knoll.\n")
