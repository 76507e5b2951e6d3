"""The help of every command has an example, and the example runs; the shells get completions."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import shutil
import subprocess

import pytest

from knoll import datasets
from knoll.cli import main
from knoll.cli._app import COMMANDS

LONG = {"tour"}  # test_tour.py runs it; here its args are only read
SERVES = {"explore"}  # until it is stopped, or nobody has a page of it


def examples(name: str) -> list[str]:
    output = importlib.import_module(f"knoll.cli.{name}").command.help
    return re.findall(r"^ +knoll (.*)$", output[output.index("Example") :], re.M)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """The files that the examples speak of."""
    monkeypatch.chdir(tmp_path)
    iris = datasets.load("iris")
    rows = [f"{','.join(map(str, row))},{iris.target_names[c]},c{i}" for i, (row, c) in enumerate(zip(iris.X, iris.y))]
    table = "a,b,c,d,species,customer\n" + "\n".join(rows) + "\n"
    for name in ("flowers.csv", "tomorrow.csv", "customers.csv"):
        (tmp_path / name).write_text(table)
    assert main(["fit", "kmeans", "flowers.csv", "--param", "n_clusters=3", "--out", "flowers.knoll", "--quiet"]) == 0


def test_there_is_one_for_each():
    assert {name for name in COMMANDS if not examples(name)} == set()


@pytest.mark.parametrize("example", [line for name in COMMANDS for line in examples(name)])
def test_an_example_runs(files, knoll, capsys, example):
    args = shlex.split(example)
    if args[0] in LONG:
        command = importlib.import_module(f"knoll.cli.{args[0]}").command
        with command.make_context(args[0], args[1:]) as context:
            assert str(context.params["out"]) == args[-1]
        return
    if args[0] in SERVES:
        done = knoll(*args, "--no-open", "--idle", "0.005", cwd=os.getcwd())
        assert done.returncode == 0, done.stderr
        assert re.match(r"http://127\.0\.0\.1:\d+/#\S+\n", done.stdout)
        return
    # what the examples write is new to a newcomer; here some of it is there already
    known = importlib.import_module(f"knoll.cli.{args[0]}").command.params
    force = ["--force"] if any("--force" in option.opts for option in known) else []
    assert main([*args, *force]) == 0, capsys.readouterr().err


# ---- completion ------------------------------------------------------------------------------------------------------

SHELLS = {"bash": "complete -o nosort -F", "zsh": "#compdef knoll", "fish": "complete --no-files --command knoll"}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_gets_its_completions(knoll, shell):
    done = knoll(env={"_KNOLL_COMPLETE": f"{shell}_source"} | path())
    assert done.returncode == 0
    assert SHELLS[shell] in done.stdout
    assert f"_KNOLL_COMPLETE={shell}_complete" in done.stdout
    if (program := shutil.which(shell)) is not None:
        subprocess.run([program, "-n"], input=done.stdout, text=True, check=True)  # it is a script of that shell


@pytest.mark.parametrize("shell", SHELLS)
def test_arguments_are_completed(knoll, shell):
    def completed(*args: str) -> set[str]:
        at = args[-1] if shell == "fish" else str(len(args) - 1)
        environment = {"_KNOLL_COMPLETE": f"{shell}_complete", "COMP_WORDS": " ".join(args), "COMP_CWORD": at}
        done = knoll(env=environment | path())
        assert done.returncode == 0, done.stderr
        return set(re.split(r"[\s,]+", done.stdout))

    assert set(COMMANDS) <= completed("knoll", "")
    assert {"predict"} == completed("knoll", "pre") & set(COMMANDS)
    assert "--missing" in completed("knoll", "fit", "--mis")
    assert {"kmeans", "kernel-kmeans"} <= completed("knoll", "fit", "k")
    for command in ("compare", "fit kmeans", "predict m.knoll", "relate"):
        assert "file" in completed("knoll", *command.split(), "")  # the shell is to complete names of files


def path() -> dict[str, str]:
    return {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "LC_ALL") if name in os.environ}
