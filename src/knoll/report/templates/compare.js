// The pictures: the same points, coloured by each method; a row or a cluster can be highlighted in all of them.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("points").textContent);
  const night = matchMedia("(prefers-color-scheme: dark)");
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const found = document.getElementById("found"), find = document.getElementById("row");
  const pictures = [...document.querySelectorAll("canvas[data-method]")].map((canvas) => ({
    canvas, tip: canvas.nextElementSibling, method: canvas.dataset.method, ...data.methods[canvas.dataset.method],
  }));
  const n = data.x.length;
  const order = [...data.x.keys()].sort((i, j) => data.x[i] - data.x[j] || data.y[i] - data.y[j]);  // left to right
  const rank = new Map(order.map((i, at) => [i, at]));
  let marked = -1;  // the highlighted row
  let kept = null;  // the rows that are not faded, while a cluster is highlighted

  // shapes: the next one each time the palette has been used up
  const SHAPES = [
    (pen, x, y, r) => pen.arc(x, y, r, 0, 2 * Math.PI),
    (pen, x, y, r) => pen.rect(x - r, y - r, 2 * r, 2 * r),
    (pen, x, y, r) => path(pen, [[x, y - 1.3 * r], [x + 1.2 * r, y + r], [x - 1.2 * r, y + r]]),
    (pen, x, y, r) => path(pen, [[x, y - 1.4 * r], [x + 1.4 * r, y], [x, y + 1.4 * r], [x - 1.4 * r, y]]),
    (pen, x, y, r) => path(pen, [[x, y + 1.3 * r], [x + 1.2 * r, y - r], [x - 1.2 * r, y - r]]),
  ];
  function path(pen, corners) {
    corners.forEach(([x, y], at) => (at ? pen.lineTo(x, y) : pen.moveTo(x, y)));
    pen.closePath();
  }

  // whole numbers of the data → the canvas; equal units where the data has a ratio
  function position(canvas) {
    const [left, right, top, bottom] = [38, 10, 10, 24];
    let wide = canvas.clientWidth - left - right, high = canvas.clientHeight - top - bottom;
    let x0 = left, y0 = top;
    if (data.ratio) {
      const unit = Math.min(wide / data.ratio, high);
      x0 += (wide - unit * data.ratio) / 2;
      y0 += (high - unit) / 2;
      wide = unit * data.ratio;
      high = unit;
    }
    return {
      x: (i) => x0 + (data.x[i] / data.fine) * wide, y: (i) => y0 + (1 - data.y[i] / data.fine) * high,
      share: (axis, value) => (axis ? y0 + (1 - value) * high : x0 + value * wide),
    };
  }

  // an empty canvas of as many pixels as it covers, with the pen for its axes
  function cleared(canvas) {
    const dense = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
    canvas.width = Math.round(width * dense);
    canvas.height = Math.round(height * dense);
    const pen = canvas.getContext("2d");
    pen.scale(dense, dense);
    pen.font = '10.5px system-ui, "DejaVu Sans", Arial, sans-serif';
    pen.fillStyle = css("--soft");
    pen.strokeStyle = css("--line");
    pen.lineWidth = 1;
    return { pen, width, height };
  }
  const palette = () => (night.matches ? data.dark : data.palette);

  function draw(picture) {
    const { canvas } = picture, { pen, width, height } = cleared(canvas);
    const to = position(canvas), paints = palette();
    data.ticks.forEach((ticks, axis) => ticks.forEach(([share, text]) => {
      const at = to.share(axis, share);
      pen.textAlign = axis ? "right" : "center";
      pen.textBaseline = axis ? "middle" : "top";
      pen.beginPath();
      if (axis) { pen.moveTo(38, at); pen.lineTo(width - 4, at); } else { pen.moveTo(at, 4); pen.lineTo(at, height - 22); }
      pen.stroke();
      if (axis) pen.fillText(text, 34, at); else pen.fillText(text, at, height - 17);
    }));
    const size = Math.max(1.3, Math.min(3.2, 90 / Math.sqrt(n)));
    const cross = Math.max(2.2, size), noise = css("--noise");
    for (const round of [0, 1, 2]) {  // faded rows, then noise, then clusters
      for (let i = 0; i < n; i++) {
        const color = picture.colours[i], faded = kept && !kept[i];
        if ((faded ? 0 : color < 0 ? 1 : 2) !== round) continue;
        pen.globalAlpha = faded ? 0.12 : color < 0 ? 1 : 0.85;
        const x = to.x(i), y = to.y(i);
        pen.beginPath();
        if (color < 0) {
          pen.strokeStyle = noise;
          pen.moveTo(x - cross, y - cross); pen.lineTo(x + cross, y + cross);
          pen.moveTo(x - cross, y + cross); pen.lineTo(x + cross, y - cross);
          pen.stroke();
        } else {
          pen.fillStyle = paints[color % paints.length];
          SHAPES[Math.floor(color / paints.length) % SHAPES.length](pen, x, y, size);
          pen.fill();
        }
      }
    }
    pen.globalAlpha = 1;
    if (marked >= 0) {
      pen.strokeStyle = css("--ink");
      pen.lineWidth = 2;
      pen.beginPath();
      pen.arc(to.x(marked), to.y(marked), 7, 0, 2 * Math.PI);
      pen.stroke();
    }
    canvas.dataset.drawn = String(n);
  }

  const label = (picture, i) => (picture.labels[i] === -1 ? "noise" : picture.labels[i]);
  let waiting = 0;
  function redraw() {
    if (!waiting) waiting = requestAnimationFrame(() => { waiting = 0; pictures.forEach(draw); });
  }
  function mark(i, on) {
    if (i === marked && (i < 0 || on === undefined)) return;
    marked = i;
    pictures.forEach((picture) => {
      picture.tip.hidden = i < 0 || picture !== on;
      if (picture.tip.hidden) return;
      picture.tip.textContent = `${data.ids[i]}: ${label(picture, i)}`;
      const to = position(picture.canvas), most = picture.canvas.clientWidth - picture.tip.offsetWidth;
      picture.tip.style.left = `${Math.max(0, Math.min(most, to.x(i) + 10))}px`;
      picture.tip.style.top = `${Math.max(0, to.y(i) - 30)}px`;
    });
    found.textContent = i < 0 ? "" : `${data.ids[i]}: ${pictures.map((p) => `${p.title} ${label(p, i)}`).join(" · ")}`;
    redraw();
  }
  function nearest(picture, event) {
    const box = picture.canvas.getBoundingClientRect(), to = position(picture.canvas);
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let best = -1, least = 14 * 14;  // pixels
    for (let i = 0; i < n; i++) {
      const far = (to.x(i) - x) ** 2 + (to.y(i) - y) ** 2;
      if (far < least) [best, least] = [i, far];
    }
    return best;
  }
  pictures.forEach((picture) => {
    picture.canvas.addEventListener("pointermove", (event) => mark(nearest(picture, event), picture));
    picture.canvas.addEventListener("pointerdown", (event) => mark(nearest(picture, event), picture));
    picture.canvas.addEventListener("pointerleave", () => mark(-1));
    picture.canvas.addEventListener("keydown", (event) => {
      const at = marked < 0 ? -1 : rank.get(marked);
      const steps = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: n - 1 };
      if (event.key === "Escape") mark(-1);
      if (!(event.key in steps)) return;
      event.preventDefault();
      mark(order[Math.max(0, Math.min(n - 1, steps[event.key]))], picture);
    });
    new ResizeObserver(() => draw(picture)).observe(picture.canvas);
  });
  const byId = new Map(data.ids.map((id, i) => [String(id), i]));
  find.addEventListener("input", () => {
    const wanted = find.value.trim();
    mark(byId.get(wanted) ?? -1, pictures[0]);
    if (marked < 0) found.textContent = wanted ? "not among the rows shown" : "";
  });
  const press = (chip) => document.querySelectorAll(".chip").forEach(
    (other) => other.setAttribute("aria-pressed", String(other === chip)));
  document.addEventListener("click", (event) => {
    const chip = event.target.closest(".chip");
    if (!chip) return;
    const on = chip.getAttribute("aria-pressed") !== "true", number = Number(chip.dataset.number);
    press(on ? chip : null);
    const { colours } = pictures.find((picture) => picture.method === chip.dataset.method);
    kept = on ? colours.map((color) => color === number) : null;
    redraw();
  });
  // for pages with other pictures of the same rows
  function recolour(picture, colours, labels) {
    Object.assign(picture, { colours, labels });
    kept = null;
    press(null);
    redraw();
  }
  window.report = { data, pictures, css, night, cleared, palette, recolour };
  night.addEventListener("change", redraw);
  redraw();
})();
