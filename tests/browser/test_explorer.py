"""The explorer in a real browser: what people do, by mouse, finger and key, against the plain estimators."""

from __future__ import annotations

import io
import threading
import time

import numpy as np
import pytest
from matplotlib import image

import knoll
from knoll import DBSCAN, KMeans
from knoll.base import collect_warnings
from knoll.explorer import Session

pytest.importorskip("uvicorn", reason="the extra explore is not installed")
from knoll.explorer.server import Page

DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}
STORE = "document.querySelector('#knoll').knoll.store"


class Tab:
    """A page of the explorer. The policy of the page forbids eval, so waiting is done from here."""

    def __init__(self, page):
        self.page = page
        self.wait(lambda: page.query_selector(".kx[data-state=open]"))
        self.settle()

    def wait(self, found, seconds=20.0):
        end = time.monotonic() + seconds
        while not (value := found()):
            assert time.monotonic() < end, self.page.inner_text("body")[:600]
            time.sleep(0.02)
        return value

    def js(self, text):
        return self.page.evaluate(text)

    def settle(self):
        """Wait until no request is open and everything is drawn."""
        self.wait(lambda: self.js(f"new Promise((r) => setTimeout(() => r({STORE}.get('busy') === 0), 15))"))
        self.js("new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))")

    def click(self, key, **options):
        self.page.click(f"[data-key='{key}']", **options)
        self.settle()

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)
        self.settle()

    def choose(self, key, value):
        self.page.select_option(f"[data-key='{key}']", value)
        self.settle()

    def text(self, selector):
        return self.page.inner_text(selector)

    @property
    def labels(self):
        found = np.array(self.js(f"Array.from({STORE}.get('labels'))"))
        return np.where(found == 65535, -1, found)

    @property
    def selected(self):
        found = self.js(f"Array.from({STORE}.get('selected') ?? [])")
        return np.flatnonzero(found)

    @property
    def map(self):
        return self.page.query_selector("[data-key=map]").bounding_box()

    def position(self, row):
        """Return where a row is in the window."""
        x, y = self.js(f"document.querySelector('#knoll').knoll.stage.overlay.place({row})")
        return self.map["x"] + x, self.map["y"] + y

    def pixel(self, x, y):
        """Return the colour of the window at a position."""
        file = self.page.screenshot(clip={"x": int(x), "y": int(y), "width": 1, "height": 1})
        return (255 * image.imread(io.BytesIO(file))[0, 0, :3]).astype(int).tolist()

    def follow(self, session):
        """Wait until the page has the state of the session."""
        self.wait(lambda: self.js(f"{STORE}.get('state')?.version") == session.version)
        self.settle()

    def drag(self, points):
        mouse = self.page.mouse
        mouse.move(*points[0])
        mouse.down()
        for point in points[1:]:
            mouse.move(*point, steps=4)
        mouse.up()
        self.settle()


@pytest.fixture(scope="module")
def explore(browser):
    """Serve sessions and open them; one server for each session."""
    pages, contexts = [], []

    def opened(session, screen=DESKTOP, **options):
        page = next((one for one in pages if one.session is session), None)
        if page is None:
            page = Page(session)
            page.start()
            pages.append(page)
        context = browser.new_context(viewport=screen, **options)
        contexts.append(context)
        tab = context.new_page()
        tab.complaints, tab.requested = [], []
        tab.on("console", lambda one: tab.complaints.append(one.text) if one.type in ("error", "warning") else None)
        tab.on("pageerror", lambda error: tab.complaints.append(str(error)))
        tab.on("dialog", lambda dialog: tab.complaints.append(dialog.message))
        tab.on("request", lambda request: tab.requested.append(request.url))
        tab.goto(page.address)
        made = Tab(tab)
        made.server = page
        return made

    yield opened
    for context in contexts:
        context.close()
    for page in pages:
        page.stop()


@pytest.fixture(scope="module")
def iris_tab(explore):
    return explore(Session.open("iris"))


@pytest.fixture
def iris(iris_tab):
    """The page of iris with three clusters by k-means, nothing selected and no panel open."""
    session = iris_tab.server.session
    if session.history.position:
        session.go(0)
    session.fit("kmeans", n_clusters=3)
    iris_tab.follow(session)
    iris_tab.js(f"{STORE}.set({{ drawer: '', panel: 'clusters', tool: 'move', row: null, groups: null }})")
    iris_tab.settle()
    iris_tab.page.focus("[data-key=map]")
    yield iris_tab
    assert iris_tab.page.complaints == []


def plain(session, method, **parameters):
    with collect_warnings():
        return method(**parameters).fit(session.source.points).labels_


# ---- the page ------------------------------------------------------------------------------------------------------


def test_it_opens_from_its_own_origin_alone(iris):
    base = iris.server.address.partition("#")[0]
    assert all(url.startswith(base) for url in iris.page.requested)
    assert iris.server.token not in "".join(iris.page.requested)
    assert iris.server.token not in iris.page.url
    np.testing.assert_array_equal(
        iris.labels, plain(iris.server.session, KMeans, n_clusters=3, n_init=2, random_state=0)
    )
    iris.page.reload()
    again = Tab(iris.page)
    np.testing.assert_array_equal(again.labels, iris.server.session.labels)


def test_every_frame_of_an_odd_length_is_read(explore):
    """Labels of 3 rows have 6 bytes and the selection 1: frames end in padding."""
    X = np.array([[0.0, 1.0], [0.1, 1.1], [5.0, 4.0]])
    tab = explore(knoll.explore(X, labels={"given": [0, 0, 1]}, show=False))
    assert tab.labels.tolist() == [0, 0, 1]
    assert tab.page.complaints == []


def test_the_recommendation_is_shown_when_nothing_else_is(explore):
    session = Session.open("iris")
    tab = explore(session)
    assert "Nothing is clustered yet" in tab.text("[data-panel=fit]")
    tab.click("recommend")
    tab.wait(lambda: session.comparison is not None and "Recommended" in tab.text(".kx-card"), 60)
    tab.settle()
    np.testing.assert_array_equal(tab.labels, session.comparison.labels)
    assert tab.text(".kx-clusters h2") == f"{len(set(session.comparison.labels.tolist()))} clusters"
    exec(session.script(), {})
    tab.click("stability")
    tab.wait(lambda: tab.text(".kx-clusters").count("stability") == len(set(tab.labels.tolist())), 60)


# ---- 1: a parameter on its evidence --------------------------------------------------------------------------------


def test_labels_follow_a_slider_and_are_those_of_the_estimator(iris):
    session = iris.server.session
    iris.choose("method", "dbscan")
    curve = iris.page.query_selector("[data-key=curve-eps]").bounding_box()
    mouse, y = iris.page.mouse, curve["y"] + curve["height"] / 2
    before, seen = session.history.position, set()
    mouse.move(curve["x"] + 0.8 * curve["width"], y)
    mouse.down()
    for share in (0.7, 0.6, 0.5, 0.45, 0.42):
        mouse.move(curve["x"] + share * curve["width"], y)
        iris.page.wait_for_timeout(60)
        seen.add(tuple(iris.labels))
    assert len(seen) > 2  # while the button is down
    assert session.history.position == before
    mouse.up()
    iris.settle()
    eps = session.answer.parameters["eps"]
    np.testing.assert_array_equal(iris.labels, plain(session, DBSCAN, eps=eps, min_samples=10))
    assert session.history.position == before + 1
    iris.page.focus("[data-key=curve-eps]")
    iris.press("ArrowRight", "ArrowRight")
    iris.wait(lambda: session.history.position == before + 2)
    iris.settle()
    eps = session.answer.parameters["eps"]
    np.testing.assert_array_equal(iris.labels, plain(session, DBSCAN, eps=eps, min_samples=10))
    iris.click("undo")
    iris.click("undo")
    assert session.history.position == before


def test_answers_out_of_order_do_not_show(iris, monkeypatch):
    """The answer to an early position is slow; the last position is what stays."""
    session = iris.server.session
    iris.choose("method", "kmeans")
    real = session.fitting

    def slow(method, parameters, **how):
        if parameters.get("n_clusters") == 7:
            time.sleep(0.5)
        return real(method, parameters, **how)

    monkeypatch.setattr(session, "fitting", slow)
    fit = "document.querySelector('#knoll').knoll.fit"
    iris.js(f"{fit}.live.drag({{ do: 'fit', method: 'kmeans', parameters: {{ n_clusters: 7 }} }})")
    iris.page.wait_for_timeout(300)
    iris.js(f"{fit}.live.drag({{ do: 'fit', method: 'kmeans', parameters: {{ n_clusters: 4 }} }})")
    expected = plain(session, KMeans, n_clusters=4, n_init=2, random_state=0)
    iris.wait(lambda: np.array_equal(iris.labels, expected))
    iris.page.wait_for_timeout(500)
    np.testing.assert_array_equal(iris.labels, expected)
    iris.js(f"{STORE}.act({{ do: 'state' }})")
    iris.settle()


# ---- 2: selections -------------------------------------------------------------------------------------------------


def test_a_lasso_selects_what_is_inside_and_the_others_stay_visible(iris):
    positions = np.array([iris.position(row) for row in range(150)])
    inside = np.flatnonzero(iris.server.session.labels == iris.server.session.labels[0])
    (x0, y0), (x1, y1) = positions[inside].min(axis=0) - 6, positions[inside].max(axis=0) + 6
    expected = np.flatnonzero(((positions > (x0, y0)) & (positions < (x1, y1))).all(axis=1))
    iris.page.keyboard.press("l")
    iris.drag([(x0, y0), (x1, y0), (x1, y1), (x0, y1), (x0, y0)])
    np.testing.assert_array_equal(iris.selected, expected)
    assert "lasso in" in iris.text(".kx-selection")
    np.testing.assert_array_equal(np.flatnonzero(iris.server.session.state.selection.mask), expected)
    other = next(row for row in range(150) if row not in expected)
    grey = iris.pixel(*positions[other])
    assert max(grey) - min(grey) < 12  # no colour, but no paper either
    assert max(grey) < 246
    iris.press("Escape")
    assert iris.selected.size == 0


@pytest.mark.parametrize("device", ["mouse", "key"])
def test_a_box_by_mouse_and_by_keys(iris, device):
    box = iris.map
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    iris.press("b")
    if device == "mouse":
        iris.drag([(x, y), (x + 240, y + 120)])
    else:
        iris.press("Space", *["ArrowRight"] * 10, *["ArrowDown"] * 5, "Space")
    positions = np.array([iris.position(row) for row in range(150)])
    inside = ((positions > (x, y)) & (positions < (x + 240, y + 120))).all(axis=1)
    assert 3 < inside.sum() < 100
    np.testing.assert_array_equal(iris.selected, np.flatnonzero(inside))


@pytest.mark.parametrize("device", ["mouse", "key"])
def test_a_cluster_of_the_list_selects_its_rows(iris, device):
    first = iris.server.session.answer.plain()["clusters"][1]["label"]
    if device == "mouse":
        iris.click(f"cluster-{first}")
    else:
        iris.press("2")
    np.testing.assert_array_equal(iris.selected, np.flatnonzero(iris.labels == first))


# ---- 3 and 4: cluster again, edit ----------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["mouse", "key"])
def test_the_selection_is_clustered_again_by_the_same_judgement(iris, device):
    session = iris.server.session
    rows = [row for row in range(150) if session.labels[row] != session.labels[0] or row < 3]
    session.select(rows=rows)
    iris.follow(session)
    if device == "mouse":
        iris.page.click("[data-key=again]")
    else:
        iris.page.keyboard.press("c")
    iris.wait(lambda: iris.page.query_selector(".kx-selection .kx-card h3"), 60)
    iris.settle()
    twin = Session.open("iris")
    twin.fit("kmeans", n_clusters=3)
    twin.select(rows=rows)
    verdict = twin.refit()
    np.testing.assert_array_equal(iris.labels, twin.labels)
    title = iris.text(".kx-selection .kx-card h3")
    assert title == (
        "No clusters in here"
        if verdict["verdict"] == "none"
        else f"{verdict['n_clusters']} clusters in {len(rows)} rows"
    )


@pytest.mark.parametrize("device", ["mouse", "key"])
def test_merge_rename_undo_redo(iris, device):
    session, before = iris.server.session, iris.labels
    if device == "mouse":
        iris.click("cluster-0")
        iris.click("cluster-1", modifiers=["Control"])
        iris.click("merge")
    else:
        iris.press("1", "Alt+2")
        iris.press("g")
    merged = np.where(before == 1, 0, before)
    np.testing.assert_array_equal(iris.labels, merged)
    steps = session.history.position
    if device == "mouse":
        iris.click("pen-0")
    else:
        iris.press("n")
    iris.page.keyboard.type("<b>u & 1</b>")  # letters that are keys elsewhere
    iris.press("Enter")
    assert session.history.position == steps + 1
    assert iris.text("[data-key=cluster-0] .kx-name-text") == "<b>u & 1</b>"
    assert "by hand: merged from 0 and 1" in iris.text(".kx-clusters")
    iris.click("undo") if device == "mouse" else iris.press("u")
    assert iris.text("[data-key=cluster-0] .kx-name-text") == "cluster 0"
    iris.click("undo") if device == "mouse" else iris.press("Control+z")
    np.testing.assert_array_equal(iris.labels, before)
    iris.click("redo") if device == "mouse" else iris.press("U")
    np.testing.assert_array_equal(iris.labels, merged)
    assert iris.text(".kx-clusters h2") == "2 clusters"


def test_split_move_and_a_cluster_by_hand(iris):
    session = iris.server.session
    iris.click("cluster-1")
    iris.click("split")
    rows = np.flatnonzero(plain(session, KMeans, n_clusters=3, n_init=2, random_state=0) == 1)
    halves = KMeans(2, n_init=2, random_state=0).fit(session.source.points[rows]).labels_
    assert len({*zip(iris.labels[rows].tolist(), halves.tolist(), strict=True)}) == 2
    iris.press("Escape")
    session.select(rows=[1, 2, 3, 60])
    iris.follow(session)
    iris.press("k")
    assert len({iris.labels[row] for row in (1, 2, 3, 60)}) == 1
    assert (iris.labels == iris.labels[60]).sum() == 4
    iris.choose("move", "-1")
    np.testing.assert_array_equal(np.flatnonzero(iris.labels == -1), [1, 2, 3, 60])
    exec(session.script(), {})


# ---- 5 to 8: groups, rows, views, two answers ----------------------------------------------------------------------


@pytest.mark.parametrize("device", ["mouse", "key"])
def test_a_cluster_is_compared_with_its_complement(iris, device):
    if device == "mouse":
        iris.click("cluster-0")
        iris.click("portrait")
    else:
        iris.press("1")
        iris.press("d")
    iris.wait(lambda: iris.page.query_selector("#kx-panel-groups .kx-column"))
    titles = [one.inner_text() for one in iris.page.query_selector_all("#kx-panel-groups .kx-column h3")]
    session = iris.server.session
    found = knoll.explain(session.labels == 0, session.source.table, resamples=0)[1]
    best = sorted(found.columns, key=lambda one: (-one.effect, not one.used))
    assert [title.split("\n")[0] for title in titles][:3] == [one.column for one in best][:3]
    assert "no p-values" in iris.text("#kx-panel-groups").lower()


@pytest.mark.parametrize("device", ["mouse", "key"])
def test_a_row_reports_why_it_is_here(iris, device):
    if device == "mouse":
        iris.page.mouse.click(*iris.position(41))
    else:
        iris.press("f")
        iris.page.keyboard.type("41")
        iris.press("Enter")
    iris.settle()
    text = iris.text("#kx-panel-row")
    assert "Row 41" in text
    points = iris.server.session.source.points
    near = np.argsort(np.linalg.norm(points - points[41], axis=1), kind="stable")
    buttons = [one.inner_text().strip() for one in iris.page.query_selector_all("#kx-panel-row [data-key^=near-]")]
    assert set(map(int, buttons[:5])) <= set(near[1:9].tolist())


def test_views_keep_the_rows_and_report_what_they_hide(iris):
    for kind in iris.js("document.querySelector('#knoll').knoll.stage.viewBar.kinds"):
        iris.choose("view", kind)
        assert iris.js(f"{STORE}.get('view').kind") == kind
        iris.wait(lambda kind=kind: ("10 nearest rows" if kind != "tour" else "A tour") in iris.text(".kx-status"))
    iris.choose("view", "columns")
    iris.choose("Column upwards", "3")
    points = iris.server.session.source.points
    x, y = np.array([iris.position(row) for row in range(150)]).T
    assert np.corrcoef(x, points[:, 0])[0, 1] == pytest.approx(1, abs=1e-6)
    assert np.corrcoef(y, points[:, 3])[0, 1] == pytest.approx(-1, abs=1e-6)
    iris.choose("view", "principal")
    iris.press("v")
    assert iris.js(f"{STORE}.get('view').kind") != "principal"
    iris.choose("view", "principal")


def test_two_answers_side_by_side(iris):
    session = iris.server.session
    session.fit("dbscan", eps=0.6, min_samples=5)
    dbscan = session.answer
    session.fit("kmeans", n_clusters=3)
    iris.follow(session)
    iris.click("tab-answers")
    iris.choose("answer-1", dbscan.id)
    steps = session.history.position
    iris.page.check("[data-key=side]")
    iris.settle()
    assert session.history.position == steps  # looking is no step
    shown = np.array(iris.js("Array.from(document.querySelector('#knoll').knoll.stage.other.labels)"))
    np.testing.assert_array_equal(np.where(shown == 65535, -1, shown), dbscan.labels)
    np.testing.assert_array_equal(iris.labels, session.labels)
    assert iris.page.query_selector(".kx-second").bounding_box()["width"] > 150
    facts = iris.text("#kx-panel-answers")
    ari = knoll.metrics.adjusted_rand_score(session.labels, dbscan.labels)
    assert f"ARI {ari:.3f}" in facts
    iris.click("differ")
    assert f"{iris.selected.size} rows that differ" in facts
    iris.click("shut")
    assert not iris.page.query_selector(".kx-second").is_visible()


def test_morph_leads_from_one_method_to_the_other_and_leaves_no_trace(iris):
    session, before = iris.server.session, iris.labels
    steps = session.history.position
    iris.click("tab-morph")
    iris.choose("relation", "mixture-to-kmeans")
    slider = iris.page.query_selector("[data-key=morph-at]")
    slider.evaluate("(one) => { one.value = 1; one.dispatchEvent(new Event('input')); }")
    iris.wait(lambda: "step 24 of 24" in iris.text("#kx-panel-morph"))
    assert "The relation holds on these rows" in iris.text("#kx-panel-morph")
    assert len(set(iris.labels.tolist())) == 3
    listed = [int(one.inner_text().split()[0]) for one in iris.page.query_selector_all(".kx-clusters .kx-size")]
    assert listed == np.bincount(iris.labels[iris.labels >= 0]).tolist()
    iris.click("shut")
    iris.wait(lambda: np.array_equal(iris.labels, before))
    assert session.history.position == steps


# ---- 9 and 10: filter, take away -----------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["mouse", "key"])
def test_hiding_a_cluster_keeps_the_fit(iris, device):
    before = iris.labels
    if device == "mouse":
        iris.click("eye-1")
    else:
        iris.press("2")
        iris.press("h")
    shown = np.array(iris.js(f"Array.from({STORE}.get('shown'))"))
    np.testing.assert_array_equal(shown == 1, before != 1)
    np.testing.assert_array_equal(iris.labels, before)
    assert f"{(before == 1).sum()} rows filtered out" in iris.text(".kx-status")


def test_a_filter_by_value(iris):
    iris.click("tab-table")
    iris.page.fill("[data-key='low-sepal length (cm)']", "6")
    iris.press("Tab")
    X = iris.server.session.source.X.X
    iris.wait(lambda: iris.js(f"{STORE}.get('state').shown") == int((X[:, 0] >= 6).sum()))
    iris.click("unfilter")
    assert iris.js(f"{STORE}.get('state').shown") == 150


def test_labels_and_script_are_downloaded(iris, tmp_path):
    session = iris.server.session
    for key, name in (("labels.csv", "labels.csv"), ("script", "exploration.py")):
        iris.press("e")
        with iris.page.expect_download() as download:
            iris.page.click(f"[data-key='export-{key}']")
        assert download.value.suggested_filename == name
        download.value.save_as(tmp_path / name)
    lines = (tmp_path / "labels.csv").read_text(encoding="utf-8").splitlines()
    at = lines[0].split(",").index("cluster")
    assert [int(line.split(",")[at]) for line in lines[1:]] == session.labels.tolist()
    replayed: dict = {}
    exec((tmp_path / "exploration.py").read_text(encoding="utf-8"), replayed)
    np.testing.assert_array_equal(replayed["labels"], session.labels)


def test_a_frozen_page_shows_without_a_server_and_makes_no_request(iris, browser, tmp_path):
    iris.press("e")
    with iris.page.expect_download() as download:
        iris.page.click("[data-key=export-page]")
    download.value.save_as(tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size < 5_000_000
    context = browser.new_context(viewport=DESKTOP)
    page, requested, complaints = context.new_page(), [], []
    page.on("request", lambda request: requested.append(request.url))
    page.on("console", lambda one: complaints.append(one.text) if one.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto((tmp_path / "page.html").as_uri())
    tab = Tab(page)
    np.testing.assert_array_equal(tab.labels, iris.labels)
    tab.click("tab-groups")
    tab.wait(lambda: page.query_selector("#kx-panel-groups .kx-column"))
    assert page.query_selector("[data-key=method]").is_disabled()
    tab.click("cluster-1")
    np.testing.assert_array_equal(tab.selected, np.flatnonzero(iris.labels == 1))
    for kind in ("columns", "separating", "principal"):
        tab.choose("view", kind)
        assert not page.query_selector(".kx-message").is_visible()
    assert [url for url in requested if not url.startswith(("file:", "blob:", "data:"))] == []
    assert complaints == []
    context.close()


# ---- screens, hands, faults ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"screen": PHONE, "has_touch": True},
        {"screen": DESKTOP, "color_scheme": "dark"},
        {"screen": {"width": 640, "height": 400}, "device_scale_factor": 2},
    ],
    ids=["phone", "dark", "zoomed"],
)
def test_nothing_sticks_out(iris, explore, options):
    tab = explore(iris.server.session, **options)
    assert tab.js("document.documentElement.scrollWidth <= innerWidth")
    for name in ("groups", "row", "answers", "morph", "table", "log"):
        tab.click(f"tab-{name}")
        panel = tab.page.query_selector(f"#kx-panel-{name}").bounding_box()
        assert panel["x"] >= 0
        assert panel["x"] + panel["width"] <= options["screen"]["width"] + 1
    top = tab.page.query_selector(".kx-top").bounding_box()
    for button in tab.page.query_selector_all(".kx-top button"):
        box = button.bounding_box()
        assert box["x"] + box["width"] <= top["x"] + top["width"] + 1
    assert tab.page.complaints == []
    tab.page.context.close()


def test_fingers_draw_and_press(iris, explore):
    tab = explore(iris.server.session, PHONE, has_touch=True)
    tab.page.tap("[data-key=tool-box]")
    box = tab.map
    touch = """([type, x, y]) => document.querySelector('[data-key=map]').dispatchEvent(new PointerEvent(type, {
      pointerId: 7, pointerType: 'touch', isPrimary: true, button: 0, buttons: 1, clientX: x, clientY: y, bubbles: true,
    }))"""
    for event, x, y in (
        ("down", 5, 5),
        ("move", 100, 60),
        ("move", box["width"] - 5, box["height"] - 5),
        ("up", box["width"] - 5, box["height"] - 5),
    ):
        tab.page.evaluate(touch, [f"pointer{event}", box["x"] + x, box["y"] + y])
    tab.settle()
    assert tab.selected.size == 150
    tab.page.tap("[data-key=tab-clusters]")
    tab.page.tap("[data-key=clear]")
    tab.settle()
    assert tab.selected.size == 0
    tab.page.tap("[data-key=tool-move]")
    tab.page.touchscreen.tap(*tab.position(20))
    tab.settle()
    assert "Row " in tab.text("#kx-panel-row h2")
    tab.page.context.close()


def test_a_tour_waits_where_motion_is_reduced(iris, explore):
    tab = explore(iris.server.session, reduced_motion="reduce")
    tab.choose("view", "tour")
    at = tab.position(0)
    tab.page.wait_for_timeout(200)
    assert tab.position(0) == at
    tab.page.focus("[data-key=map]")
    tab.press("t")
    tab.page.wait_for_timeout(200)
    assert tab.position(0) != at
    tab.page.context.close()


def test_two_tabs_show_one_state(iris, explore):
    other = explore(iris.server.session)
    other.click("cluster-0")
    other.click("cluster-2", modifiers=["Control"])
    other.click("merge")
    iris.wait(lambda: np.array_equal(iris.labels, iris.server.session.labels))
    np.testing.assert_array_equal(other.labels, iris.labels)
    assert len(set(iris.labels.tolist())) == 2
    other.page.context.close()


def test_a_server_that_stops_in_a_fit_is_reported(explore, monkeypatch):
    session = Session.open("iris")
    session.fit("kmeans", n_clusters=3)
    tab = explore(session)
    begun = threading.Event()

    def hanging(*_, **__):
        begun.set()
        time.sleep(1.5)
        raise knoll.exceptions.Cancelled("the server ends")

    monkeypatch.setattr(session, "fitting", hanging)
    tab.page.select_option("[data-key=method]", "mean-shift")
    assert begun.wait(20)
    tab.server.stop()
    tab.wait(lambda: "The server has stopped" in tab.text(".kx-top"))
    np.testing.assert_array_equal(tab.labels, session.labels)  # what was there stays


TABLES = {
    "a row": (np.ones((1, 2)), None),
    "all equal": (np.ones((40, 3)), None),
    "a column": (np.random.default_rng(0).normal(size=(50, 1)), None),
    "200 columns": (np.random.default_rng(0).normal(size=(60, 200)), None),
    "all noise": (np.random.default_rng(0).normal(size=(60, 2)), -np.ones(60, dtype=int)),
}


@pytest.mark.parametrize("name", TABLES)
def test_odd_tables(explore, name):
    X, labels = TABLES[name]
    tab = explore(
        knoll.explore(X, labels={"given": np.zeros(len(X), dtype=int) if labels is None else labels}, show=False)
    )
    assert tab.page.query_selector("[data-key=map]").get_attribute("data-drawn")
    for panel in ("groups", "row", "table", "log"):
        tab.click(f"tab-{panel}")
    assert tab.text(".kx-clusters h2") == ("0 clusters" if name == "all noise" else "1 cluster")
    assert tab.page.complaints == []
    tab.page.context.close()


def test_hostile_names_are_text(explore, tmp_path):
    bad = "<img src=x onerror=alert(1)>"
    rows = "\n".join(f"{row % 7},{row % 3},{bad if row % 2 else 'b'}" for row in range(40))
    path = tmp_path / "t.csv"
    path.write_text(f"a{bad},</script>b,c\n{rows}\n", encoding="utf-8")
    session = Session.open(str(path))
    session.fit("kmeans", n_clusters=2)
    session.rename(0, bad)
    tab = explore(session)
    for panel in ("groups", "row", "table", "log", "answers"):
        tab.click(f"tab-{panel}")
    assert bad in tab.text(".kx-clusters")
    assert tab.page.query_selector("img") is None
    assert tab.page.complaints == []


def test_a_session_by_keys_is_undone_to_the_start_and_replayed(iris):
    session, rng = iris.server.session, np.random.default_rng(5)
    first = session.digest
    begin = session.history.position
    keys = ["1", "2", "3", "Alt+2", "g", "k", "h", "Escape", "u", "U", "]", "["]
    for _ in range(60):
        iris.page.keyboard.press(keys[rng.integers(len(keys))])
    iris.page.wait_for_timeout(600)
    iris.settle()
    np.testing.assert_array_equal(iris.labels, session.labels)
    exec(session.script(), {})
    for _ in range(session.history.position - begin + 20):  # some presses may be lost while the page is busy
        if session.history.position > begin:
            iris.press("u")
    assert session.digest == first
    np.testing.assert_array_equal(iris.labels, session.labels)


def test_every_key_is_listed(iris):
    iris.press("?")
    text = iris.text("[data-dialog=keys]")
    for word in ("Lasso", "Undo", "Cluster the selected rows again", "Find a row", "The next view", "Take it away"):
        assert word in text
    iris.press("Escape")
    assert not iris.page.query_selector("[data-dialog=keys]").is_visible()
