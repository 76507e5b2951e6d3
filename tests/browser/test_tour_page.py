"""The tour's page in a real browser: no errors, no sideways scrolling, and players that obey mouse and keyboard."""

from __future__ import annotations

import pytest

from knoll.report.figures import ARROWS_14, ARROWS_16

SCREENS = {"desktop": {"width": 1280, "height": 900}, "phone": {"width": 360, "height": 740}}


@pytest.fixture
def opened(open_file, tour_page):
    def open_page(screen="desktop", **options):
        return open_file(tour_page, SCREENS[screen], offline=True, **options)

    return open_page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("screen", list(SCREENS))
def test_the_page_fits_and_is_quiet(opened, screen, scheme):
    page = opened(screen, color_scheme=scheme)
    page.evaluate("Promise.all([...document.images].map((image) => image.decode()))")
    assert page.evaluate("document.documentElement.scrollWidth") <= SCREENS[screen]["width"]
    widths = page.evaluate("[...document.images].map((image) => [image.naturalWidth, image.clientWidth])")
    assert all(natural > 0 and 200 < shown <= SCREENS[screen]["width"] for natural, shown in widths)
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(int(channel) for channel in paper.removeprefix("rgb(").removesuffix(")").split(","))
    assert (brightness > 600) == (scheme == "light")
    source = page.evaluate("document.images[1].currentSrc === document.images[1].src")
    assert source == (scheme == "light")  # dark pictures are shown in the dark
    assert page.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(opened, scheme):
    page = opened(color_scheme=scheme)
    contrast = page.evaluate(CONTRAST)
    assert min(contrast.values()) >= 4.5, contrast


# the contrast of WCAG 2, between text and what is behind it
CONTRAST = """() => {
  const light = (text) => {
    const [r, g, b] = text.match(/[\\d.]+/g).map((v) => v / 255).map(
      (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = (node) => {
    const color = getComputedStyle(node).backgroundColor;
    return color === "rgba(0, 0, 0, 0)" ? paper(node.parentElement) : color;
  };
  const found = {};
  for (const name of ["h2", "p", ".lead", "a", "figcaption", "td", ".panel p", ".note", ".holds", "output", "button"]) {
    const node = document.querySelector(name);
    const [a, b] = [light(getComputedStyle(node).color), light(paper(node))].sort((x, y) => y - x);
    found[name] = (a + 0.05) / (b + 0.05);
  }
  return found;
}"""


def frames_shown(page, player):
    """Which frame is shown, by the slider and by the text."""
    text = page.locator(f"{player} output").inner_text()
    return int(page.locator(f"{player} input").input_value()), int(text.split(" of ")[0]) - 1


def ink(page, player):
    """What the canvas shows, as text: equal for equal pictures."""
    return page.evaluate(f"document.querySelector('{player} canvas').toDataURL()")


@pytest.mark.parametrize(
    "player",
    ["#path-mixture-to-kmeans", "#path-gaussian-to-heaviside", "#path-climb-to-mean-shift", "#path-every-eps-dbscan"],
)
def test_a_player_obeys(opened, player):
    page = opened()
    page.locator(player).scroll_into_view_if_needed()
    back, play, on = (page.locator(f"{player} button").nth(i) for i in range(3))
    last = int(page.locator(f"{player} input").get_attribute("max"))
    assert frames_shown(page, player) == (0, 0)
    first = ink(page, player)
    back.click()  # nowhere to go back to
    assert frames_shown(page, player) == (0, 0)
    page.locator(player).focus()
    page.keyboard.press("End")
    assert frames_shown(page, player) == (last, last)
    assert ink(page, player) != first
    page.keyboard.press("ArrowLeft")
    assert frames_shown(page, player) == (last - 1, last - 1)
    page.keyboard.press("Home")
    assert ink(page, player) == first  # stepping back leads to the same picture
    on.click()
    on.click()
    back.click()
    assert frames_shown(page, player) == (1, 1)
    page.locator(f"{player} input").fill(str(last // 2))
    assert frames_shown(page, player) == (last // 2, last // 2)
    page.locator(player).focus()
    page.keyboard.press("Space")
    assert play.inner_text() == "Pause"
    page.wait_for_function(f"document.querySelector('{player} input').value > {last // 2}")
    page.keyboard.press("Space")
    assert play.inner_text() == "Play"
    stopped = frames_shown(page, player)
    page.wait_for_timeout(400)
    assert frames_shown(page, player) == stopped
    assert page.complaints == []


def test_playing_ends_at_the_end_and_begins_anew(opened):
    page = opened()
    player = "#path-climb-to-mean-shift"
    last = int(page.locator(f"{player} input").get_attribute("max"))
    page.locator(f"{player} input").fill(str(last - 1))
    play = page.locator(f"{player} button").nth(1)
    play.click()
    page.wait_for_function(f"document.querySelectorAll('{player} button')[1].textContent === 'Play'")
    assert frames_shown(page, player) == (last, last)
    play.click()
    assert frames_shown(page, player)[0] < last
    play.click()


def test_reduced_motion_is_respected(opened):
    page = opened(reduced_motion="reduce")
    player = "#path-climb-to-mean-shift"
    assert page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"
    page.locator(f"{player} button").nth(1).click()
    page.wait_for_timeout(900)  # three frames at the usual pace
    assert frames_shown(page, player) == (0, 0)


def test_nothing_moves_by_itself(opened):
    page = opened()
    page.wait_for_timeout(700)
    assert page.evaluate("[...document.querySelectorAll('.player input')].map((slider) => slider.value)") == ["0"] * 4


@pytest.mark.parametrize(("figure", "arrows"), [(14, ARROWS_14), (16, ARROWS_16)])
def test_the_map_links_to_the_certificates(opened, figure, arrows):
    page = opened()
    links = page.locator(f"#figure-{figure} svg a:has(text)")
    assert links.count() == len(arrows)
    links.nth(6).click()
    page.wait_for_function("location.hash.startsWith('#certificate-')")
    assert page.evaluate("location.hash") == "#" + links.nth(6).get_attribute("href")[1:]
    assert page.evaluate("document.querySelector(':target').className") == "certificate"


def test_the_keyboard_reaches_the_players(opened):
    page = opened()
    reached = set()
    for _ in range(80):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.closest('.player')?.id ?? ''"))
    assert {"path-mixture-to-kmeans", "path-gaussian-to-heaviside", "path-climb-to-mean-shift"} <= reached
