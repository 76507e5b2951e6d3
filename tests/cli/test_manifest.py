"""``compare --force`` replaces what knoll wrote, and nothing else: by name, size and digest."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest

from knoll.cli import _manifest, _results

QUICK = ("--methods", "kmeans", "--k", "2..3", "--budget", "2", "--quiet")
WRITTEN = ["labels.parquet", "models", "report.html", "summary.json"]


@pytest.fixture(scope="module")
def made(table, tmp_path_factory, warm_knoll):
    """Results of a run, to be copied."""
    out = tmp_path_factory.mktemp("made") / "out"
    args = ["compare", str(table), "--out", str(out), "--methods", "kmeans,dbscan", "--k", "2..3", "--budget", "2"]
    subprocess.run([*warm_knoll, *args, "--quiet"], check=True, timeout=300)
    return out


@pytest.fixture
def out(made, tmp_path):
    shutil.copytree(made, tmp_path / "out")
    return tmp_path / "out"


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def models_in(folder):
    """The names of the models of methods; alternatives to the recommended answer depend on the table."""
    return sorted(name for name in os.listdir(folder) if not name.startswith("alternative-"))


def older(out):
    """Make the results those of a version that wrote no manifest."""
    summary = json.loads((out / "summary.json").read_text())
    del summary["manifest"], summary["sha256"]
    (out / "summary.json").write_text(json.dumps(summary))


def test_files_of_the_user_stay(table, tmp_path, call):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "production.knoll").write_text("my only copy")
    (tmp_path / "labels.csv").write_text("mine")  # a name that this run does not need
    for _ in range(2):
        assert call("compare", table, "--out", tmp_path, "--force", *QUICK) == (0, "", "")
    assert (tmp_path / "models" / "production.knoll").read_text() == "my only copy"
    assert (tmp_path / "labels.csv").read_text() == "mine"
    assert models_in(tmp_path / "models") == ["kmeans.knoll", "production.knoll"]


def test_the_manifest_describes_every_file(out):
    summary = json.loads((out / "summary.json").read_text())
    assert [name for name in sorted(summary["manifest"]) if "alternative-" not in name] == [
        "labels.parquet",
        "models/dbscan.knoll",
        "models/kmeans.knoll",
        "report.html",
    ]
    assert _manifest.owned(out) == {"summary.json", *summary["manifest"]}


def test_models_of_an_earlier_run_go_and_those_of_others_stay(out, table, call):
    (out / "models" / "mine.knoll").write_text("mine")
    assert call("compare", table, "--out", out, "--force", *QUICK) == (0, "", "")
    assert models_in(out / "models") == ["kmeans.knoll", "mine.knoll"]
    assert call("compare", table, "--out", out, "--force", "--format", "csv", *QUICK) == (0, "", "")
    assert sorted(os.listdir(out)) == ["labels.csv", "models", "report.html", "summary.json"]


@pytest.mark.parametrize("name", ["report.html", "labels.parquet", "summary.json", "models/kmeans.knoll"])
@pytest.mark.parametrize("change", ["write", "append", "link", "dangle", "folder", "pipe"])
@pytest.mark.parametrize("force", [(), ("--force",)])
def test_what_knoll_did_not_write_is_kept(out, table, tmp_path, call, name, change, force):
    path = out / name
    kept = path.read_bytes()
    if change == "append":
        with path.open("ab") as file:
            file.write(b" ")
    else:
        path.unlink()
        {
            "write": lambda: path.write_text("mine"),
            "link": lambda: ((tmp_path / "real").write_bytes(kept), path.symlink_to(tmp_path / "real")),
            "dangle": lambda: path.symlink_to(tmp_path / "nowhere"),
            "folder": lambda: path.mkdir(),
            "pipe": lambda: os.mkfifo(path),
        }[change]()
    if (name, change) == ("summary.json", "append"):
        path.write_text(path.read_text().replace('"seed": 0', '"seed": 1'))  # white space is no change of a summary
    before = contents(out) if change != "pipe" else None
    code, text, errors = call("compare", table, "--out", out, *force, *QUICK)
    assert (code, text) == (2, "")
    assert errors == (
        f"knoll: {path} exists, and knoll did not write it or it was changed since. "
        "Choose another path with --out, or move it.\n"
    )
    assert sorted(os.listdir(out)) == WRITTEN
    assert before is None or contents(out) == before


def test_a_link_instead_of_the_models(out, table, tmp_path, call):
    os.rename(out / "models", tmp_path / "elsewhere")
    (out / "models").symlink_to(tmp_path / "elsewhere")
    code, _, errors = call("compare", table, "--out", out, "--force", *QUICK)
    assert code == 2
    assert errors.startswith(f"knoll: {out / 'models'} exists, and knoll did not write it")
    assert models_in(tmp_path / "elsewhere") == ["dbscan.knoll", "kmeans.knoll"]


def test_a_link_to_the_folder_is_the_folder(out, table, tmp_path, call):
    (tmp_path / "latest").symlink_to(out)
    assert call("compare", table, "--out", tmp_path / "latest", "--force", *QUICK) == (0, "", "")
    assert models_in(out / "models") == ["kmeans.knoll"]


def test_results_without_a_manifest_are_known_by_their_summary_and_contents(out, table, call):
    older(out)
    assert len(_manifest.owned(out)) == 3 + len(os.listdir(out / "models"))
    assert "already has results of knoll" in call("compare", table, "--out", out, *QUICK)[2]
    assert call("compare", table, "--out", out, "--force", *QUICK) == (0, "", "")
    assert models_in(out / "models") == ["kmeans.knoll"]


@pytest.mark.parametrize("name", ["report.html", "labels.parquet", "models/kmeans.knoll"])
def test_results_without_a_manifest_may_hold_files_of_others(out, table, call, name):
    older(out)
    (out / name).write_text("mine")
    code, _, errors = call("compare", table, "--out", out, "--force", *QUICK)
    assert (code, (out / name).read_text()) == (2, "mine")
    assert f"{out / name} exists, and knoll did not write it" in errors


@pytest.mark.parametrize("sealed", [True, False])
def test_a_summary_leads_nowhere_else(out, tmp_path, sealed):
    """A forged summary cannot name files outside of its folder."""
    (tmp_path / "thesis.knoll").write_bytes(b"\x89knoll\r\n")
    facts = _manifest._facts(tmp_path / "thesis.knoll")
    summary = json.loads((out / "summary.json").read_text())
    del summary["sha256"]
    summary["manifest"] = {"../thesis.knoll": facts, str(tmp_path / "thesis.knoll"): facts, "report.html": None}
    summary["files"]["models"] = {"kmeans": "../thesis.knoll"}
    if not sealed:
        del summary["manifest"]
    (out / "summary.json").write_text(json.dumps(_manifest.sealed(summary) if sealed else summary))
    assert _manifest.owned(out) <= {"summary.json", "report.html", "labels.parquet"}


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", '{"knoll": 1}', "[" * 100_000, "\xff"])
def test_a_summary_that_is_none(tmp_path, text):
    (tmp_path / "summary.json").write_text(text, encoding="latin-1")
    assert _manifest.owned(tmp_path) == set()


@pytest.mark.parametrize("end", [', "seed": NaN}', ', "seed": 1e999}', ', "candidates": [[1]]}', ', "candidates": 3}'])
@pytest.mark.parametrize("sealed", [True, False])
def test_a_summary_that_no_version_wrote(out, table, call, end, sealed):
    """What is in it must not matter: the file is the user's."""
    summary = json.loads((out / "summary.json").read_text())
    if not sealed:
        del summary["manifest"], summary["sha256"]
    (out / "summary.json").write_text(json.dumps(summary)[:-1] + end)
    before = contents(out)
    code, _, errors = call("compare", table, "--out", out, "--force", *QUICK)
    assert (code, contents(out) == before) == ((2, True) if sealed or "candidates" in end else (0, False)), errors


def test_the_table_is_not_replaced_by_its_results(out, call, tmp_path):
    """`out/labels.parquet` is ours, and still what this run reads."""
    (tmp_path / "link.parquet").symlink_to(out / "labels.parquet")
    before = contents(out)
    for name in (out / "labels.parquet", tmp_path / "link.parquet"):
        code, _, errors = call("compare", name, "--out", out, "--force", *QUICK)
        assert (code, errors) == (
            2, f"knoll: {name} is an input of this command and would be replaced. Choose another path with --out.\n",
        )  # fmt: skip
    assert contents(out) == before


def test_what_a_process_of_the_same_number_left_is_left_alone(out, table, call):
    """In a container every run may have the number 1: what a killed one left behind must not stop the next."""
    left = out / f".knoll.{os.getpid()}.part"
    for name in ("old", "new"):
        (left / name).mkdir(parents=True)
        (left / name / "report.html").write_text("from before")
    assert call("compare", table, "--out", out, "--force", *QUICK) == (0, "", "")
    assert [(left / name / "report.html").read_text() for name in ("old", "new")] == ["from before"] * 2


@pytest.mark.parametrize("force", [True, False])
def test_what_appears_during_the_run_is_not_replaced(tmp_path, force):
    def work():
        with _results.whole_results(tmp_path / "out", force) as scratch:
            (scratch / "report.html").write_text("ours")
            (tmp_path / "out" / "report.html").write_text("theirs")

    with pytest.raises(_results.click.ClickException) as caught:
        work()
    (kept,) = (tmp_path / "out").glob("results.*")
    assert caught.value.message.endswith(f"The results of this run are in {kept}.")
    assert (kept / "report.html").read_text() == "ours"
    assert (tmp_path / "out" / "report.html").read_text() == "theirs"
    assert sorted(os.listdir(tmp_path / "out")) == ["report.html", kept.name]


def test_two_runs_at_once_leave_one_whole_result(table, tmp_path, warm_knoll):
    out = tmp_path / "out"
    args = [*warm_knoll, "compare", str(table), "--out", str(out), "--force", *QUICK]
    runs = [subprocess.Popen([*args, "--seed", str(seed)]) for seed in range(2)]
    assert sorted({run.wait(300) for run in runs}) == [0]
    assert sorted(os.listdir(out)) == WRITTEN
    assert len(_manifest.owned(out)) == 3 + len(os.listdir(out / "models"))
