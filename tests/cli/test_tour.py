"""``knoll tour``: every figure, table, path and certificate is there, and files appear whole or not at all."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
from html.parser import HTMLParser

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest

from knoll import relations
from knoll.cli import main
from knoll.cli import tour as tour_command
from knoll.report import fits, page
from knoll.report.certificates import DATA, certified
from knoll.report.comparison_view import same_colours
from knoll.report.figures import ARROWS, ARROWS_14, ARROWS_16, FIGURES
from knoll.report.paths import PATHS
from knoll.report.picture import DARK, LIGHT, png
from knoll.report.tables import TABLES


class Reader(HTMLParser):
    """Collects what the tests check: ids, links, images, headings and tags left open."""

    def __init__(self):
        super().__init__()
        self.ids, self.links, self.images, self.headings, self.addresses, self.open = [], [], [], [], [], []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids += [attrs["id"]] if "id" in attrs else []
        self.addresses += [attrs[key] for key in ("src", "srcset", "href") if key in attrs]
        if tag == "a" and "href" in attrs:
            self.links.append(attrs["href"])
        if tag == "img":
            self.images.append(attrs)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag not in {"img", "source", "meta", "link", "input", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass


@pytest.fixture(scope="module")
def html(tour_page):
    return tour_page.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def read(html):
    reader = Reader()
    reader.feed(html)
    return reader


def test_everything_is_on_the_page(read):
    assert [f"section-{n}" for n in range(1, 8)] == [i for i in read.ids if re.fullmatch(r"section-\d", i)]
    assert {f"figure-{n}" for n in range(1, len(FIGURES) + 1)} <= set(read.ids)
    assert {f"table-{n}" for n in range(1, 7)} <= set(read.ids)
    assert {f"certificate-{relation.name}" for relation in relations.all()} <= set(read.ids)
    paths = {
        "path-mixture-to-kmeans",
        "path-gaussian-to-heaviside",
        "path-climb-to-mean-shift",
        "path-every-eps-dbscan",
    }
    assert paths <= set(read.ids)


def test_ids_are_unique_and_links_lead_somewhere(read):
    ids = read.ids
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in read.links if link.startswith("#")} <= set(ids)
    on_the_map = [link for link in read.links if link.startswith("#certificate-")]
    assert {f"#certificate-{arrow.relation}" for arrow in ARROWS} <= set(on_the_map)


def test_every_relation_between_two_methods_is_on_one_map():
    drawn = [arrow.relation for arrow in (*ARROWS_14, *ARROWS_16)]
    assert len(set(drawn)) == len(drawn)
    assert {relation.name for relation in relations.all()} - set(drawn) == {"complexity-table"}
    assert [arrow.number for arrow in ARROWS] == list(range(1, len(drawn) + 1))


def test_no_two_numbers_of_a_map_touch():
    for arrows in (ARROWS_14, ARROWS_16):
        at = np.array([arrow.at for arrow in arrows])
        apart = np.hypot(*(at[:, None] - at).T) + 9 * np.eye(len(at))
        assert apart.min() > 0.65  # a disc is 0.6 wide


def test_what_has_no_arrow_is_named(html):
    future = html[html.index("7.3 What has no arrow") : html.index('<section id="certificates">')]
    for method in (
        "Average and complete linkage", "Chinese restaurant process", "latent Dirichlet allocation",
        "Deep Embedded Clustering", "Invariant Information Clustering", "Deep InfoMax", "stacked capsules",
    ):  # fmt: skip
        assert method in future


def test_the_page_needs_no_network(html, read):
    assert [a for a in read.addresses if not a.startswith(("#", "data:"))] == []
    assert re.findall(r"url\((?!#)|@import|fetch\(|XMLHttpRequest|import\(", html) == []


def test_every_picture_reports_its_finding(read):
    assert len(read.images) == sum(len(make().panels) for make in FIGURES) - len(page._LINKED)  # maps are inline
    for image in read.images:
        assert len(image["alt"]) > 20
        assert int(image["width"]) > 100


def test_headings_go_down_one_step_at_a_time(read):
    assert read.headings[0] == 1
    assert read.headings.count(1) == 1
    assert all(b - a <= 1 for a, b in zip(read.headings, read.headings[1:]))


def test_the_paths_are_plain_data(html):
    blocks = re.findall(r'<script type="application/json">(.*?)</script>', html, flags=re.DOTALL)
    assert len(blocks) == len(PATHS) == 4
    for block in blocks:
        data = json.loads(block)
        n = len(data["points"]) // 2
        for frame in data["frames"]:
            assert frame["title"]
            if data["type"] == "mixing":
                shares = np.reshape(frame["shares"], (n, -1)).sum(axis=1)
                assert (np.abs(shares - 100) <= 1).all()
            elif data["type"] == "graph":
                assert len(frame["strength"]) == len(data["pairs"]) // 2
                assert len(frame["labels"]) == n
            else:
                assert len(frame["positions"]) == 2 * n
    first, last = json.loads(blocks[2])["frames"][0], json.loads(blocks[2])["frames"][-1]
    assert first["positions"] == json.loads(blocks[2])["points"]  # nobody climbs at level one
    assert last["title"].endswith("Mean Shift")
    cuts = json.loads(blocks[3])["frames"]
    noise = [frame["labels"].count(-1) for frame in cuts]
    assert noise == sorted(noise, reverse=True)  # a larger ε leaves less noise
    assert len(set(cuts[-1]["labels"])) == 1


def test_the_papers_numbers_stand_beside_ours(html):
    assert "AMI 0.992 and ARI 0.996; the paper states 0.992 and 0.996" in html
    assert html.count('<th scope="col">in the paper</th>') == 5
    for relation in relations.all():
        assert html.count(f"{relation.name}: holds") == 1, relation.name


def test_certificates_on_all_the_data_report_how_many_rows():
    found = certified(relations.get("gaussian-to-heaviside"))
    assert list(found.certificates) == list(DATA)
    assert all(certificate.holds for certificate in found.certificates.values())
    assert found.rows["x1500"] == (500, 1500)
    assert "measured on 500 evenly spaced rows of 1500" in found.certificates["x1500"].notes
    assert found.rows["iris"] == (150, 150)


def test_what_a_relation_refuses_is_a_verdict(monkeypatch):
    monkeypatch.setattr(relations.MixtureDistance, "least_rows", 1000)
    found = certified(relations.get("mixture-distance"), ("iris",))
    assert found.certificates["iris"].verdict == "does not apply"
    assert "needs at least 1000 rows, got 150" in str(found.certificates["iris"])


# ---- the figures ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", FIGURES, ids=lambda make: make.__name__)
def test_a_figure(make):
    picture = make()
    assert picture.number == int(make.__name__.removeprefix("figure_"))
    assert picture.finding in picture.alt
    figure = picture.figure()
    flat = [ax for ax in figure.axes if ax.name != "3d"]
    if picture.number not in (1, 10, 14, 15, 16):  # maps, a curve and bars have no units in common
        assert len({(ax.get_xlim(), ax.get_ylim()) for ax in flat}) == 1
        assert all(ax.get_aspect() == 1.0 for ax in flat)
    texts = [text for ax in figure.axes for text in ax.texts if text.get_text()]
    assert all(float(text.get_fontsize()) >= 9 for text in texts)


def test_the_findings_of_the_figures():
    findings = {make().number: make().finding for make in FIGURES}
    assert "2 of 1500 points (ringed) differ. AMI 0.992 and ARI 0.996" in findings[6]
    assert "exactly 3 connected components" in findings[11]
    assert "for illustration only" in findings[7]
    assert "the graph is complete" in findings[9]
    near, far = (float(re.search(r"([\d.]+) % of the samples", findings[n])[1]) for n in (5, 4))
    assert far > 20 > 5 > near


def test_the_climb_of_12_is_the_beginning_of_that_of_13():
    path = fits.ascent()
    assert 0 < path.stop < len(path.positions) - 1
    assert (path.counts[: path.stop] < fits.ASCENT_LEVEL).all()
    assert path.counts[path.stop] >= fits.ASCENT_LEVEL


def test_far_from_any_data():
    data = np.arange(200.0).reshape(-1, 1)
    far, share = fits.far_share(np.array([[0.5], [198.9], [205.0], [-7.0]]), data)
    assert far.tolist() == [False, False, True, True]
    assert share == 0.5


def test_colours_are_matched():
    classes = np.array([0, 0, 1, 1, 2, 2])
    assert same_colours(classes, np.array([2, 2, 0, 0, 1, 0])).tolist() == [0, 0, 1, 1, 2, 1]


def test_dark_pictures_have_dark_paper():
    from io import BytesIO

    from PIL import Image

    panel = FIGURES[1]().panels[0]
    corners = []
    for theme in (LIGHT, DARK):
        with Image.open(BytesIO(png(panel.figure(theme), 40))) as image:
            corners.append(sum(image.convert("RGB").getpixel((0, 0))))
    assert corners[0] > 700
    assert corners[1] < 120


@pytest.mark.parametrize("make", TABLES, ids=lambda make: make.__name__)
def test_a_table(make):
    table = make()
    assert table.number == int(make.__name__.removeprefix("table_"))
    assert {len(row) for row in table.rows} == {len(table.header)}
    assert all(all(cell for cell in row) for row in table.rows)


# ---- the command ---------------------------------------------------------------------------------------------------


def test_figures_as_files(tmp_path, capsys):
    assert main(["tour", "--figures", "--out", str(tmp_path / "deep" / "out")]) == 0
    names = sorted(path.name for path in (tmp_path / "deep" / "out").iterdir())
    assert names == sorted(f"figure-{n:02}.{suffix}" for n in range(1, len(FIGURES) + 1) for suffix in ("png", "svg"))
    out, errors = capsys.readouterr()
    assert out.startswith("16 figures, PNG and SVG, in ")
    assert errors.splitlines()[0].startswith("1/16 figure 1: ")
    assert len(errors.splitlines()) == 16
    svg = (tmp_path / "deep" / "out" / "figure-06.svg").read_text()
    assert "AMI 0.992" in svg  # the alternative text is sent with the file


def broken(*args, **kwargs):
    raise KeyboardInterrupt


def test_what_is_interrupted_leaves_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(page, "page", broken)
    assert main(["tour", "--out", str(tmp_path / "new")]) == 130
    assert not (tmp_path / "new").exists()
    old = tmp_path / "old"
    old.mkdir()
    (old / "tour.html").write_text("as it was")
    assert main(["tour", "--out", str(old)]) == 2
    assert "tour.html already exists. Choose another name, or replace it with --force." in capsys.readouterr().err
    assert main(["tour", "--out", str(old), "--force"]) == 130
    assert [path.name for path in old.iterdir()] == ["tour.html"]
    assert (old / "tour.html").read_text() == "as it was"
    assert "interrupted" in capsys.readouterr().err


def test_what_is_reported_to_end_leaves_nothing_either(tmp_path, monkeypatch, capsys):
    """SIGTERM, as `timeout` and batch systems send it; afterwards the signal does what it did before."""
    monkeypatch.setattr(page, "page", lambda done: os.kill(os.getpid(), signal.SIGTERM))
    assert main(["tour", "--out", str(tmp_path / "new")]) == 143
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr().err == "knoll: terminated; unfinished files were removed.\n"
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_path_that_cannot_be_written_to_is_refused_at_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(page, "page", broken)  # would be an interruption
    (tmp_path / "file").write_text("")
    assert main(["tour", "--out", str(tmp_path / "file")]) == 2
    assert "Choose another path with --out." in capsys.readouterr().err


def test_a_read_only_working_directory_and_no_display(tmp_path):
    home, out = tmp_path / "home", tmp_path / "out"
    home.mkdir()
    home.chmod(stat.S_IRUSR | stat.S_IXUSR)
    environment = {key: value for key, value in os.environ.items() if key not in ("DISPLAY", "MPLBACKEND")}
    code = (
        "from knoll.report import page; page.page = lambda done: 'a page'; "
        f"from knoll.cli import main; raise SystemExit(main(['tour', '--out', {str(out)!r}]))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (out / "tour.html").read_text() == "a page"
    assert list(home.iterdir()) == []


def test_the_help_reports_what_is_made(capsys):
    assert main(["tour", "--help"]) == 0
    text = capsys.readouterr().out
    assert tour_command.command.name == "tour"
    assert "fourteen figures, six tables" in " ".join(text.split())
