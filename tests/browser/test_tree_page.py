"""The page of a density tree in a real browser: no network, no error, and a slider that colours rows, tree and plot."""

from __future__ import annotations

import numpy as np
import pytest

from knoll import DBSCAN, HDBSCAN
from knoll.models import Preparation
from knoll.report.tree import tree_page

SCREENS = {"desktop": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 740}}
RNG = np.random.default_rng(3)
ROWS = np.concatenate([RNG.normal(centre, 1, (80, 3)) for centre in (0.0, 9.0, -9.0)])
ROWS[:3] = 25.0
MADE = Preparation.fit(ROWS, ["a", "<b>", "c"])
MODEL = HDBSCAN(10, 5).fit(MADE.apply(ROWS))


def written(path, eps=None):
    labels = MODEL.labels_ if eps is None else DBSCAN(eps, min_samples=5).fit(MADE.apply(ROWS)).labels_
    text = tree_page(
        MODEL, ROWS, labels, name="<i>rows</i>", title="HDBSCAN" if eps is None else "DBSCAN", scaling=MADE,
        min_cluster_size=10, eps=eps, parameters={"min_samples": 5}, facts=["a & b"], command="knoll tree rows.csv",
        cut_command="knoll tree rows.csv",
    )  # fmt: skip
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    return written(tmp_path_factory.mktemp("tree") / "report.html")


@pytest.fixture
def opened(open_file, page_file):
    def open_page(screen="desktop", path=page_file, **options):
        page = open_file(path, SCREENS[screen], **options)
        page.wait_for_function("[...document.querySelectorAll('canvas')].every((canvas) => canvas.dataset.drawn)")
        return page

    return open_page


INK = """(canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const colours = new Set();
  let ink = 0;
  for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 200) { ink++; colours.add(data.slice(i, i + 3).join()); }
  return [ink, colours.size];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("screen", list(SCREENS))
def test_the_page_fits_makes_no_request_and_draws_everything(opened, page_file, screen, scheme):
    page = opened(screen, color_scheme=scheme)
    assert page.requested == [page_file.as_uri()]
    assert page.complaints == []
    assert page.evaluate("document.documentElement.scrollWidth") <= SCREENS[screen]["width"]
    drawn = page.evaluate(f"[...document.querySelectorAll('canvas')].map({INK})")
    assert len(drawn) == 3
    assert all(ink > 300 and colours >= 2 for ink, colours in drawn)
    assert page.title() == "Density tree of <i>rows</i>"
    assert page.locator("#table li").all_inner_texts() == ["a & b"]


def move(page, position):
    page.locator("#eps").evaluate(
        "(slider, at) => { slider.value = at; slider.dispatchEvent(new Event('input')); }", position
    )
    page.wait_for_timeout(60)


def shown(page):
    return page.evaluate("window.report.pictures[0].colours")


def test_the_slider_shows_dbscan_at_every_eps(opened):
    page = opened()
    assert page.locator("#readout").inner_text().startswith("HDBSCAN: 3 clusters")
    before = shown(page)
    assert before == MODEL.labels_.tolist()
    levels = page.evaluate("JSON.parse(document.getElementById('tree').textContent).eps")
    for at in (10, 60, 120, 200, len(levels) - 1):
        move(page, str(at))
        labels = MODEL.dbscan_clustering(levels[at], 10)
        pairs = set(zip(shown(page), labels.tolist(), strict=True))
        assert len(pairs) == len(set(labels.tolist()))
        count = labels.max() + 1
        assert f": {count} cluster{'' if count == 1 else 's'}, " in page.locator("#readout").inner_text()
        assert page.locator("#cut").inner_text().startswith("knoll tree rows.csv --eps ")
        chips = page.locator("#chips .chip").all_inner_texts()
        assert len(chips) == count + 1
        assert chips[-1].startswith(" noise") or chips[-1].startswith("noise")
    page.locator("#back").click()
    assert shown(page) == before
    assert page.locator("#readout").inner_text().startswith("HDBSCAN: 3 clusters")
    assert page.complaints == []


def test_a_press_on_the_tree_or_the_plot_sets_eps(opened):
    page = opened()
    values = []
    for view in ("tree", "reachability"):
        for share in (0.3, 0.8):
            canvas = page.locator(f"canvas[data-view={view}]")
            box = canvas.bounding_box()
            canvas.click(position={"x": box["width"] / 2, "y": share * box["height"]})
            values.append(int(page.locator("#eps").input_value()))
    assert values[0] > values[1]
    assert values[2] > values[3]
    assert abs(values[0] - values[2]) <= 2  # one axis for both


def test_a_cluster_can_be_followed_and_a_row_found(opened):
    page = opened()
    move(page, "150")
    page.locator("#chips .chip").first.click()
    assert page.locator("#chips .chip[aria-pressed=true]").count() == 1
    page.locator("#row").fill("7")
    assert page.locator("#found").inner_text().startswith("7: HDBSCAN ")
    assert page.complaints == []


def test_a_cut_shows_its_eps_from_the_start(opened, tmp_path):
    page = opened(path=written(tmp_path / "cut.html", eps=0.5))
    assert page.locator("#readout").inner_text().startswith("ε = 0.5: 3 clusters")
    assert len(set(shown(page)) - {-1}) == 3
