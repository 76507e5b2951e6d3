"""``knoll demo``: the table has the paper's figures, the picture is whole, Ctrl-C leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from knoll import datasets
from knoll.cli import demo

NUMBER = re.compile(r"-?\d\.\d{3}")


@pytest.fixture(scope="module")
def shown(knoll, tmp_path_factory):
    out = tmp_path_factory.mktemp("demo") / "new" / "folder"
    done = knoll("demo", "--out", out)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout, out


def scores(text: str) -> dict[str, dict[str, tuple[float, float]]]:
    """Return {algorithm: {data set: (AMI, ARI)}} from the plain table."""
    table = {}
    for line in text.splitlines():
        numbers = [float(x) for x in NUMBER.findall(line)]
        if len(numbers) == 2 * len(demo.SETTINGS):
            name = line[: NUMBER.search(line).start()].strip()
            table[name] = dict(zip(demo.SETTINGS, zip(numbers[::2], numbers[1::2])))
    return table


def test_nine_boxes_have_scores_and_the_first_its_likelihood(shown):
    text, _ = shown
    assert len(scores(text)) == 9
    assert re.search(r"One Gaussian on one_gaussian: mean \(.*\), log-likelihood -\d+\.\d\d", text)


def test_the_mixture_has_the_papers_figures_on_x1500_and_kmeans_fails(shown):
    table = scores(shown[0])
    assert table["EM-GMM"]["x1500"] == (0.992, 0.996)
    assert table["k-means"]["x1500"][1] < 0.6


def test_the_story_of_the_paper_can_be_read_from_the_table(shown):
    table = scores(shown[0])
    for spectral in ("NJW spectral", "NJW, graph"):
        assert table[spectral]["circles"] == (1.0, 1.0)
        assert table[spectral]["banana"][0] > 0.9
    assert table["k-means"]["circles"][0] < 0.05
    assert table["NJW spectral"] == table["NJW, graph"]  # two derivations, one algorithm
    assert table["DBSCAN, spectral"] == table["DBSCAN, graph"]


def test_every_parameter_is_shown(shown):
    text, _ = shown
    for name, output in demo.SETTINGS.items():
        assert f"{name}: k={output.k}, sigma={output.sigma:g}, " in text


def test_the_picture_is_a_whole_png_alone_in_its_folder(shown):
    text, out = shown
    assert os.listdir(out) == ["demo.png"]
    assert text.rstrip().endswith(f"The picture: {out / 'demo.png'}")
    content = (out / "demo.png").read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert content.endswith(b"IEND\xaeB`\x82")

    from matplotlib.image import imread

    pixels = imread(out / "demo.png")[..., :3]
    assert pixels.shape[0] > 600
    assert pixels.shape[1] > 1500
    blue, orange = (
        np.array([0.0, 0x72, 0xB2]) / 255,
        np.array([0xE6, 0x9F, 0.0]) / 255,
    )  # the first two clusters
    for color in (blue, orange):
        assert (np.abs(pixels - color).max(axis=2) < 0.15).sum() > 1000


def test_a_path_that_cannot_be_written_to_is_refused_before_the_work(knoll, tmp_path):
    (tmp_path / "file").touch()
    before = time.perf_counter()
    done = knoll("demo", "--out", tmp_path / "file" / "demo")
    assert done.returncode == 2
    assert done.stdout == ""
    expected = f"knoll: cannot write {tmp_path}/file/demo: Not a directory. Choose another path with --out.\n"
    assert done.stderr == expected
    assert time.perf_counter() - before < 30


def test_a_picture_is_not_replaced_unless_that_is_requested(knoll, tmp_path):
    (tmp_path / "demo.png").write_text("mine")
    done = knoll("demo", "--out", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    line = f"knoll: {tmp_path}/demo.png already exists. Choose another name, or replace it with --force.\n"
    assert done.stderr == line
    assert (tmp_path / "demo.png").read_text() == "mine"


def test_ctrl_c_exits_130_and_keeps_no_unfinished_file(tmp_path):
    # A process started in the background may have Ctrl-C switched off: switch it on.
    code = f"""
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from knoll.cli import main
sys.exit(main(["demo", "--out", {str(tmp_path / "out")!r}]))
"""
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob("out/.demo.png.*.part")):  # then it is at work
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert errors == "knoll: interrupted; unfinished files were removed.\n"
    assert os.listdir(tmp_path / "out") == []


def test_seeds_are_rows_far_apart_and_the_same_every_time():
    X = datasets.load("x1500").X
    seeds = demo.distant_seeds(X, 3)
    assert all((row == X).all(axis=1).any() for row in seeds)
    assert np.array_equal(seeds, demo.distant_seeds(X.copy(), 3))
    assert demo.distant_seeds(np.array([[0.0], [4.0], [10.0], [6.0]]), 3).ravel().tolist() == [4.0, 10.0, 0.0]


def test_colors_follow_the_classes_and_noise_stays_noise():
    classes = np.array([0, 0, 0, 1, 1, 2, 2, 2])
    assert demo.same_colors(classes, np.array([5, 5, -1, 0, 0, 3, 3, 3])).tolist() == [
        0,
        0,
        -1,
        1,
        1,
        2,
        2,
        2,
    ]
    more = demo.same_colors(classes, np.array([0, 0, 1, 2, 2, 3, 3, 3]))
    assert more.tolist() == [0, 0, 3, 1, 1, 2, 2, 2]  # a cluster too many has a colour of its own
    assert demo.same_colors(classes, np.full(8, -1)).tolist() == [-1] * 8


def test_a_table_in_columns(capsys):
    demo._print_table(["", "x1500"], [["EM-GMM", "0.992 0.996"]])
    assert capsys.readouterr().out == "              x1500\nEM-GMM  0.992 0.996\n"
