"""The report of a comparison in a real browser: no network, no error, every picture drawn, and text that stays text."""

from __future__ import annotations

import numpy as np
import pytest

from knoll.comparison import compare
from knoll.registry import compared
from knoll.report.comparison import comparison_page

SCREENS = {"desktop": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 740}}
NASTY = [
    "<script>document.title='hacked'</script>", "=cmd|'/C calc'!A0", "</script><img src=x onerror=alert(1)>",
    "“ünïcødé” ☂ '\"", "javascript:alert(1)", "&lt;b&gt; &amp;", "a" * 200, "{{ 7 * 7 }}",
]  # fmt: skip


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    """A page of five methods; everything that a table can bring along is hostile."""
    rng = np.random.default_rng(3)
    rows = np.concatenate([rng.normal(centre, 1, (40, 3)) for centre in (0.0, 9.0, -9.0)])
    rows[:3] = 25.0  # a few far rows, for noise
    found = compare(rows, columns=NASTY[:3], k=range(2, 5), budget=10)
    ids = [f"{NASTY[i % len(NASTY)]} {i}" for i in range(len(rows))]
    truth = np.array(NASTY[:3])[np.repeat([0, 1, 2], 40)]
    text = comparison_page(
        found, rows, name=NASTY[2], ids=ids, truth=truth, facts=NASTY, command=f"knoll {NASTY[0]}", seconds=3
    )
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.fixture
def opened(open_file, page_file):
    def open_page(screen="desktop", **options):
        page = open_file(page_file, SCREENS[screen], **options)
        page.wait_for_function("[...document.querySelectorAll('canvas')].every((canvas) => canvas.dataset.drawn)")
        return page

    return open_page


# how many pixels of a canvas are not empty, and in how many colours
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
    assert len(drawn) == len(compared()) + 1  # every method and the truth
    assert all(ink > 300 and colours >= 2 for ink, colours in drawn)
    curves = page.evaluate("[...document.querySelectorAll('.evidence svg')].map((svg) => svg.getBBox().width)")
    assert len(curves) >= 5
    assert min(curves) > 200
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(int(channel) for channel in paper.removeprefix("rgb(").removesuffix(")").split(","))
    assert (brightness > 600) == (scheme == "light")


def test_what_the_table_brings_along_stays_text(opened):
    page = opened()
    assert page.title() == f"Clusters of {NASTY[2]}"
    assert page.locator("h1").inner_text() == f"Clusters of {NASTY[2]}"
    assert page.locator("img").count() == 0
    assert page.evaluate("document.scripts.length") == 2
    facts = page.locator("#table > ul > li").all_inner_texts()
    assert facts[: len(NASTY)] == NASTY
    assert page.locator("#reproduce pre").inner_text() == f"knoll {NASTY[0]}"
    chips = page.locator("#answer-truth .chip").all_inner_texts()
    assert all(any(name in chip for chip in chips) for name in NASTY[:3])
    page.locator("details").evaluate_all("(all) => all.forEach((one) => { one.open = true; })")
    header = page.locator("#table tbody th").all_inner_texts()
    assert header == NASTY[:3]
    assert page.evaluate("document.documentElement.scrollWidth") <= SCREENS["desktop"]["width"]
    assert page.complaints == []


def test_nothing_else_may_run(opened):
    """The policy holds: a script, a style and a picture that somebody puts into the page are refused."""
    page = opened()
    page.evaluate("""() => {
      const script = document.createElement("script");
      script.textContent = "window.hacked = true";
      document.body.append(script);
      document.body.setAttribute("style", "background: rgb(1, 2, 3)");
      const image = document.createElement("img");
      image.src = "data:image/gif;base64,R0lGODlhAQABAAAAACw=";
      document.body.append(image);
    }""")
    page.wait_for_timeout(200)
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(1, 2, 3)"
    assert len(page.complaints) == 3
    assert all("Content Security Policy" in complaint for complaint in page.complaints)


def tooltip(page):
    return page.locator("#found").inner_text()


def test_a_row_can_be_pointed_at(opened):
    page = opened()
    canvas = page.locator("canvas").first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    for x in range(10, int(box["width"]), 9):  # somewhere on the way there are rows
        page.mouse.move(box["x"] + x, box["y"] + box["height"] / 2)
        if tooltip(page):
            break
    assert " · " in tooltip(page)
    assert page.locator(".tip:visible").count() == 1
    page.mouse.move(2, 2)
    assert tooltip(page) == ""
    assert page.locator(".tip:visible").count() == 0
    assert page.complaints == []


def test_the_keyboard_moves_through_the_rows(opened):
    page = opened()
    page.locator("canvas").nth(1).focus()
    seen = []
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft", "End", "Home"):
        page.keyboard.press(key)
        seen.append(tooltip(page))
    assert seen[0] == seen[5]
    assert seen[1] == seen[3]
    assert len(set(seen)) == 4
    page.keyboard.press("Escape")
    assert tooltip(page) == ""
    reached = set()
    for _ in range(90):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.closest('figure, section')?.id ?? ''"))
    assert {"answer-kmeans", "answer-truth", "methods", "agreement"} <= reached


def test_a_row_can_be_found_by_its_name(opened):
    page = opened()
    page.locator("#row").fill(f"{NASTY[1]} 1")
    assert tooltip(page).startswith(f"{NASTY[1]} 1: ")
    page.locator("#row").fill("nobody")
    assert tooltip(page) == "not among the rows shown"
    page.locator("#row").fill("")
    assert tooltip(page) == ""


def test_a_cluster_can_be_followed(opened):
    page = opened()
    other = page.locator("canvas").nth(2)
    before = other.evaluate("(canvas) => canvas.toDataURL()")
    chip = page.locator(".chip").first
    chip.click()
    page.wait_for_timeout(100)
    assert chip.get_attribute("aria-pressed") == "true"
    assert other.evaluate("(canvas) => canvas.toDataURL()") != before
    chip.click()
    page.wait_for_timeout(100)
    assert chip.get_attribute("aria-pressed") == "false"
    assert other.evaluate("(canvas) => canvas.toDataURL()") == before


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(opened, scheme):
    page = opened(color_scheme=scheme)
    contrast = page.evaluate(CONTRAST)
    assert len(contrast) > 10
    assert min(contrast.values()) >= 4.5, contrast


# the contrast of WCAG 2 between text and what is behind it, shades laid over each other
CONTRAST = """() => {
  const channels = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (rgb) => {
    const [r, g, b] = rgb.map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = (node) => {
    const [r, g, b, alpha = 1] = channels(getComputedStyle(node).backgroundColor);
    if (alpha === 1) return [r, g, b];
    const under = paper(node.parentElement);
    return [r, g, b].map((v, i) => alpha * v + (1 - alpha) * under[i]);
  };
  const found = {};
  const names = ["h1", "h2", "p", ".lead", "a", "figcaption", "td", "td small", ".note", ".holds", ".chip",
    ".chip small", ".role.recommended", ".role.runner-up", ".a10", ".above-2", ".below-2",
    ".taken td", "summary", ".find label"];
  for (const name of names) {
    const node = document.querySelector(name);
    if (!node) continue;
    const ink = channels(getComputedStyle(node).color).slice(0, 3);
    const [a, b] = [light(ink), light(paper(node))].sort((x, y) => y - x);
    found[name] = (a + 0.05) / (b + 0.05);
  }
  return found;
}"""


def test_without_scripts_the_numbers_are_still_there(browser, page_file):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(page_file.as_uri())
    assert page.locator("noscript .banner").is_visible()
    assert page.locator("#methods table").is_visible()
    context.close()


def test_it_can_be_printed(opened):
    page = opened()
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible()
    assert not page.locator(".find").is_visible()
    assert page.locator("canvas").first.is_visible()
    assert len(page.pdf()) > 20_000
