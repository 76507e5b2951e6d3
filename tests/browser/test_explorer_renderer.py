"""The map of the explorer: where points are and in which colours, by WebGL2 and by Canvas 2D; a lost context."""

from __future__ import annotations

import pathlib

import pytest

import knoll

SOURCE = pathlib.Path(knoll.__file__).parent / "explorer" / "web" / "source"
ORIGIN = "http://knoll.test"
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'"
PAGE = """<!doctype html><title>map</title><link rel="stylesheet" href="/map.css"><div id="map"></div>"""
STYLE = """
    body { margin: 0 }
    #map { position: relative; width: 600px; height: 400px }
    canvas { display: block; width: 100%; height: 100% }
"""

# Five clusters at known positions, drawn by a small generator; `map` is a Plot of them.
BUILD = """async ({ webgl, rows, deviation, columns }) => {
  const [{ Plot }, { NOISE }] = [await import("/plot.js"), await import("/paint_gl.js")];
  const host = document.getElementById("map");
  const positions = [[-4, -2], [-2, 2], [0, -2], [2, 2], [4, -2]];
  let state = 7;
  const next = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 4294967296;
  const made = Array.from({ length: columns }, () => new Float32Array(rows)), labels = new Uint16Array(rows);
  for (let i = 0; i < rows; i++) {
    const c = i % 5;
    labels[i] = c === 4 ? NOISE : c;
    for (let j = 0; j < columns; j++) made[j][i] = (j < 2 ? positions[c][j] : 0) + deviation * (next() - 0.5);
  }
  window.map = new Plot(host, { webgl });
  window.positions = positions;
  map.setColumns(made);
  map.setLabels(labels);
  const axis = (at) => Array.from({ length: columns }, (_, j) => (j === at ? 1 : 0));
  map.setView(axis(0), axis(1));
  await new Promise((done) => map.onDraw(done));
  return map.painter.name;
}"""

# Counts and mean positions of the pixels of each colour, as drawn on white.
SEEN = """() => {
  map.draw();
  const { width, height } = map.canvas, flat = new OffscreenCanvas(width, height), pen = flat.getContext("2d");
  pen.fillStyle = "#fff"; pen.fillRect(0, 0, width, height); pen.drawImage(map.canvas, 0, 0);
  const { data } = pen.getImageData(0, 0, width, height), found = {};
  for (let at = 0; at < data.length; at += 4) {
    const [r, g, b] = data.slice(at, at + 3);
    if (r > 250 && g > 250 && b > 250) continue;
    const near = [[0, 0, 114, 178], [1, 230, 159, 0], [2, 0, 158, 115], [3, 204, 121, 167], [4, 154, 154, 154]]
      .map(([k, ...c]) => [Math.hypot(c[0] - r, c[1] - g, c[2] - b), k]).sort((p, q) => p[0] - q[0])[0];
    const key = near[0] < 40 ? near[1] : "other", x = (at / 4) % width, y = Math.floor(at / 4 / width);
    const entry = (found[key] ??= { count: 0, x: 0, y: 0 });
    entry.count++; entry.x += x; entry.y += y;
  }
  for (const entry of Object.values(found)) { entry.x /= entry.count; entry.y /= entry.count; }
  return found;
}"""

POSITIONS = """() => positions.map(([x, y]) => map.toHost(x, y))"""


@pytest.fixture
def opened(browser):
    contexts = []

    def open_map(webgl=True, rows=5000, deviation=0.8, columns=2, **options):
        context = browser.new_context(viewport={"width": 700, "height": 500}, **options)
        contexts.append(context)
        page = context.new_page()
        page.complaints = []
        page.on("console", lambda message: page.complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: page.complaints.append(str(error)))

        def serve(route):
            name = route.request.url.removeprefix(ORIGIN + "/")
            if name in ("", "map.css"):
                body, media = (STYLE, "text/css") if name else (PAGE, "text/html")
            else:
                body, media = (SOURCE / name).read_text(encoding="utf-8"), "text/javascript"
            route.fulfill(body=body, content_type=media, headers={"Content-Security-Policy": POLICY})

        page.route("**/*", serve)
        page.goto(ORIGIN + "/")
        page.painter = page.evaluate(BUILD, {"webgl": webgl, "rows": rows, "deviation": deviation, "columns": columns})
        return page

    yield open_map
    for context in contexts:
        context.close()


def check_clusters(page, seen, tolerance=2.0):
    for key, (x, y) in enumerate(page.evaluate(POSITIONS)):
        entry = seen[str(key)]
        assert entry["x"] == pytest.approx(x, abs=tolerance)
        assert entry["y"] == pytest.approx(y, abs=tolerance)


@pytest.mark.parametrize("webgl", [True, False])
def test_each_cluster_is_drawn_at_its_position_in_its_colour(opened, webgl):
    page = opened(webgl)
    assert page.painter == ("webgl2" if webgl else "canvas2d")
    seen = page.evaluate(SEEN)
    check_clusters(page, seen)
    counts = [seen[str(key)]["count"] for key in range(5)]
    assert min(counts) > 500
    assert max(counts) < 1.15 * min(counts)
    assert page.complaints == []


@pytest.mark.parametrize("dense", [1, 2])
def test_both_painters_draw_the_same_picture(opened, dense):
    seen = [opened(webgl, device_scale_factor=dense).evaluate(SEEN) for webgl in (True, False)]
    for key in map(str, range(5)):
        assert seen[0][key]["count"] == pytest.approx(seen[1][key]["count"], rel=0.02)
        assert seen[0][key]["x"] == pytest.approx(seen[1][key]["x"], abs=0.5)
        assert seen[0][key]["y"] == pytest.approx(seen[1][key]["y"], abs=0.5)


PIXELS = """() => {
  map.draw();
  const { width, height } = map.canvas, pen = new OffscreenCanvas(width, height).getContext("2d");
  pen.fillStyle = "#fff";
  pen.fillRect(0, 0, width, height);
  pen.drawImage(map.canvas, 0, 0);
  return pen.getImageData(0, 0, width, height).data;
}"""


@pytest.mark.parametrize("webgl", [True, False])
def test_the_picture_does_not_depend_on_the_order_of_the_rows(opened, webgl):
    page = opened(webgl, deviation=6.0)
    worst, inked = page.evaluate(f"""() => {{
      const pixels = {PIXELS}, before = pixels();
      const labels = map.labels.slice().reverse();
      map.setColumns(map.columns.map((column) => column.slice().reverse()));
      map.setLabels(labels);
      const after = pixels();
      const worst = before.reduce((found, value, at) => Math.max(found, Math.abs(value - after[at])), 0);
      return [worst, before.filter((value) => value < 255).length];
    }}""")
    assert inked > 10000
    assert worst <= 2  # float32 sums, then bytes


@pytest.mark.parametrize("webgl", [True, False])
def test_new_axes_and_new_labels_send_no_points(opened, webgl):
    page = opened(webgl, rows=20000, columns=16)
    sent = page.evaluate("""() => {
      map.draw();
      const steps = [];
      const measure = (change) => {
        const { bytes, calls } = map.painter;
        change();
        map.draw();
        steps.push([map.painter.bytes - bytes, map.painter.calls - calls]);
      };
      const axis = (at) => Array.from({ length: 16 }, (_, j) => (j === at ? 1 : 0));
      measure(() => map.setView(axis(2), axis(7)));
      measure(() => map.setLabels(map.labels.slice()));
      measure(() => map.pan(20, 10));
      return steps;
    }""")
    calls = 2 if webgl else 1  # WebGL: points, then the picture of their sums
    assert sent == [[0, calls], [2 * 20000 if webgl else 0, calls], [0, calls]]


def test_more_columns_than_attributes_are_drawn_alike(opened):
    seen = [opened(webgl, rows=4000, columns=60).evaluate(SEEN) for webgl in (True, False)]
    for key in map(str, range(5)):
        assert seen[0][key]["count"] == pytest.approx(seen[1][key]["count"], rel=0.02)


@pytest.mark.parametrize("webgl", [True, False])
def test_selected_rows_keep_their_colour_and_others_are_grey(opened, webgl):
    page = opened(webgl)
    seen = page.evaluate(f"""() => {{
      const flags = Uint8Array.from(map.labels, (label) => (label === 1 ? 1 : label === 2 ? 2 : 0));
      map.setFlags(flags, true);
      return ({SEEN})();
    }}""")
    assert seen["1"]["count"] > 500
    assert "0" not in seen
    assert "2" not in seen  # not shown at all
    assert "3" not in seen


def test_the_row_at_a_point_is_the_nearest(opened):
    page = opened(rows=3000, deviation=3.0)
    assert (
        page.evaluate("""() => {
      for (let t = 0; t < 400; t++) {
        const x = (t * 97) % 600, y = (t * 61) % 400, found = map.pick(x, y, 9);
        let best = -1, least = 81;
        for (let i = 0; i < map.rows; i++) {
          const [u, v] = map.toHost(map.grid.x[i], map.grid.y[i]), far = (u - x) ** 2 + (v - y) ** 2;
          if (far < least - 1e-6) [best, least] = [i, far];
        }
        if (found === best) continue;
        if (found < 0 || best < 0) { if (Math.abs(least - 81) > 1e-6) return [t, found, best]; continue; }
        const [u, v] = map.toHost(map.grid.x[found], map.grid.y[found]);
        if (Math.abs((u - x) ** 2 + (v - y) ** 2 - least) > 1e-6) return [t, found, best];
      }
      return "equal";
    }""")
        == "equal"
    )


def test_the_lasso_is_the_even_odd_rule(opened):
    page = opened(rows=20000, deviation=6.0)
    assert (
        page.evaluate("""async () => {
      const { evenOdd } = await import("/geometry.js");
      let state = 3;
      const next = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 4294967296, sizes = [];
      for (let t = 0; t < 30; t++) {
        const corners = 3 + Math.floor(12 * next());
        const polygon = Array.from({ length: corners }, () => [800 * next() - 100, 600 * next() - 100]);
        const flags = map.inside(polygon), inPlane = polygon.map(([x, y]) => map.toPlane(x, y));
        for (let i = 0; i < map.rows; i++) {
          const inside = evenOdd(inPlane, map.grid.x[i], map.grid.y[i]) ? 1 : 0;
          if (flags[i] !== inside) return [t, i];
        }
        sizes.push(flags.reduce((a, b) => a + b, 0));
      }
      return Math.max(...sizes) > 2000 && Math.min(...sizes) < 15000 ? "equal" : sizes;
    }""")
        == "equal"
    )


def test_a_lost_context_in_mid_drag_costs_no_picture(opened):
    page = opened(rows=5000)
    before = page.evaluate(SEEN)
    page.evaluate("""async () => {
      map.pan(30, 0);
      map.painter.gl.getExtension("WEBGL_lose_context").loseContext();
      await new Promise((done) => setTimeout(done, 50));
      map.pan(-30, 0);
      await new Promise((done) => setTimeout(done, 300));
    }""")
    after = page.evaluate(SEEN)
    check_clusters(page, after)
    for key in map(str, range(5)):
        assert after[key]["count"] == pytest.approx(before[key]["count"], rel=0.02)
    for _ in range(4):  # a driver that fails each time: then without it
        page.evaluate("""async () => {
          map.painter.gl?.getExtension("WEBGL_lose_context").loseContext();
          await new Promise((done) => setTimeout(done, 50));
        }""")
    assert page.evaluate("map.painter.name") == "canvas2d"
    check_clusters(page, page.evaluate(SEEN))
    assert page.complaints == []


def test_without_webgl_the_page_draws_by_itself(opened):
    page = opened(webgl="auto")  # this browser has WebGL on the processor alone, which is slower than our own loop
    assert page.painter == "canvas2d"
    check_clusters(page, page.evaluate(SEEN))


@pytest.mark.parametrize("webgl", [True, False])
def test_a_million_rows_are_drawn_and_moved_by_a_sample(opened, webgl):
    page = opened(webgl, rows=1_000_000)
    check_clusters(page, page.evaluate(SEEN))
    sampled = page.evaluate("""() => {
      map.milliseconds = 100;
      map.moving = true;
      map.draw();
      return map.sample.length;
    }""")
    assert 20000 <= sampled <= 150000
    check_clusters(page, page.evaluate(SEEN))  # `moving` is still set: the sample has every cluster at its position
