// The density tree: the clusters of every ε, in the picture of the rows, in the tree and in the plot.
(() => {
  const { data, pictures, css, night, cleared, palette, recolour } = window.report;
  const tree = JSON.parse(document.getElementById("tree").textContent);
  const [slider, readout, back, chips, cut] = ["eps", "readout", "back", "chips", "cut"].map((id) => document.getElementById(id));
  const [picture] = pictures, taken = { colours: picture.colours, labels: picture.labels, chips: [...chips.childNodes] };
  const canvases = [...document.querySelectorAll("canvas[data-view]")];
  const lines = [...document.querySelectorAll(".evidence line.chosen")];
  const BOX = { left: 44, right: 8, top: 8, bottom: 8 };
  let live = false;  // whether the pictures show the ε of the slider, or the clusters that were taken

  const eps = () => tree.eps[slider.valueAsNumber];
  // the cluster around each cluster that the pictures show, −1: none; parents come first
  function shownClusters() {
    const around = [];
    tree.parent.forEach((up, c) => {
      const above = up < 0 ? -1 : around[up];
      if (live || tree.cut) around.push(tree.birth[c] !== null && tree.birth[c] <= eps() ? above : c);
      else around.push(above >= 0 ? above : tree.taken[c] ? c : -1);
    });
    return around;
  }
  const height = () => (live || tree.cut ? eps() : Infinity);
  const colourOf = (around, cluster, joined) => (joined !== null && joined <= height() && around[cluster] >= 0 ? tree.colour[around[cluster]] : -1);

  // ---- the tree and the plot ----

  function frame(canvas) {
    const { pen, width, height } = cleared(canvas);
    const wide = width - BOX.left - BOX.right, high = height - BOX.top - BOX.bottom;
    const x = (step) => BOX.left + (step / tree.fine) * wide, y = (step) => BOX.top + (1 - step / tree.fine) * high;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    tree.ticks.forEach(([step, text]) => {
      pen.beginPath();
      pen.moveTo(BOX.left, y(step));
      pen.lineTo(width - BOX.right, y(step));
      pen.stroke();
      pen.fillText(text, BOX.left - 5, y(step));
    });
    return { pen, x, y, width, height };
  }
  function markEps({ pen, y, width }) {
    if (!live && !tree.cut) return;
    pen.strokeStyle = css("--red");
    pen.lineWidth = 1.5;
    pen.setLineDash([5, 4]);
    pen.beginPath();
    pen.moveTo(BOX.left, y(stepOf(eps())));
    pen.lineTo(width - BOX.right, y(stepOf(eps())));
    pen.stroke();
    pen.setLineDash([]);
  }
  const [low, high] = [Math.log(tree.eps[0]), Math.log(tree.eps[tree.eps.length - 1])];
  const stepOf = (value) => (tree.fine * (Math.log(value) - low)) / (high - low);

  function fillBand(view, [heights, left, right], color) {
    const { pen, x, y } = view;
    pen.fillStyle = pen.strokeStyle = color;
    pen.lineWidth = 0.6;  // closes the seams between shapes
    pen.beginPath();
    heights.forEach((step, i) => (i ? pen.lineTo(x(left[i]), y(step)) : pen.moveTo(x(left[i]), y(step))));
    for (let i = heights.length - 1; i >= 0; i--) pen.lineTo(x(right[i]), y(heights[i]));
    pen.closePath();
    pen.fill();
    pen.stroke();
  }
  function drawTree(canvas) {
    const view = frame(canvas), around = shownClusters(), grey = css("--above"), paints = palette();
    tree.bands.forEach((band) => fillBand(view, band, grey));
    view.pen.save();
    if (live || tree.cut) {  // coloured below ε only
      view.pen.beginPath();
      view.pen.rect(0, view.y(stepOf(eps())), view.width, view.height);
      view.pen.clip();
    }
    tree.bands.forEach((band, c) => {
      if (around[c] >= 0) fillBand(view, band, paints[tree.colour[around[c]] % paints.length]);
    });
    view.pen.restore();
    markEps(view);
    canvas.dataset.drawn = String(tree.bands.length);
  }
  function drawPlot(canvas) {
    const view = frame(canvas), around = shownClusters(), paints = palette(), { median, largest, cluster, height } = tree.plot;
    const { pen, x, y } = view, count = median.length, grey = css("--noise"), dots = window.devicePixelRatio || 1;
    for (let i = 0; i < count; i++) {
      const color = colourOf(around, cluster[i], height[i]);
      const [left, right] = [x((tree.fine * i) / count), x((tree.fine * (i + 1)) / count)];
      pen.fillStyle = color < 0 ? grey : paints[color % paints.length];
      pen.globalAlpha = 0.35;
      pen.fillRect(left, y(largest[i]), right - left + 0.3, y(median[i]) - y(largest[i]));
      pen.globalAlpha = 1;
      const whole = Math.floor(left * dots) / dots;  // whole dots: no seams between columns
      pen.fillRect(whole, y(median[i]), Math.ceil(right * dots) / dots - whole, y(0) - y(median[i]));
    }
    markEps(view);
    canvas.dataset.drawn = String(count);
  }
  const DRAW = { tree: drawTree, reachability: drawPlot };
  let waiting = 0;
  function redraw() {
    if (!waiting) waiting = requestAnimationFrame(() => { waiting = 0; canvases.forEach((canvas) => DRAW[canvas.dataset.view](canvas)); });
  }

  // ---- the slider ----

  const percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
  function widthAt(c, step) {  // the share of the rows that a cluster has at a height
    const [heights, left, right] = tree.bands[c], i = Math.max(0, heights.findLastIndex((at) => at <= step));
    return (right[i] - left[i]) / tree.fine;
  }
  function chip(number, text, small) {
    const button = document.createElement("button"), swatch = document.createElement("span"), size = document.createElement("small");
    Object.assign(button, { type: "button", className: "chip" });
    Object.assign(button.dataset, { method: picture.method, number });
    button.setAttribute("aria-pressed", "false");
    swatch.className = `swatch ${number < 0 ? "noise" : `c${number % data.palette.length}`}`;
    size.textContent = small;
    button.append(swatch, ` ${text} `, size);
    return button;
  }
  function chipsAtEps(around) {
    const found = [...new Set(around)].filter((c) => c >= 0 && tree.bands[c][0][0] <= stepOf(eps()) + 1);
    const sized = found.map((c) => [widthAt(c, stepOf(eps())), c]).sort((a, b) => b[0] - a[0]);
    const made = sized.slice(0, 8).map(([share, c]) => chip(tree.colour[c], String(tree.colour[c]), percent(share)));
    if (sized.length > 8) made.push(Object.assign(document.createElement("small"), { textContent: `and ${sized.length - 8} more` }));
    return [...made, chip(-1, "noise", percent(tree.noise[slider.valueAsNumber]))];
  }
  function show() {
    const at = slider.valueAsNumber, count = tree.clusters[at], around = shownClusters();
    if (live) {
      const colours = tree.row_cluster.map((c, i) => colourOf(around, c, tree.row_height[i]));
      recolour(picture, colours, colours);
      chips.replaceChildren(...chipsAtEps(around));
    } else {
      recolour(picture, taken.colours, taken.labels);
      chips.replaceChildren(...taken.chips);
    }
    back.disabled = !live;
    const value = Number(tree.eps[at].toPrecision(4)), biggest = tree.largest[at];
    const text = `ε = ${value}: ${count} cluster${count === 1 ? "" : "s"}, ${percent(tree.noise[at])} noise` +
      (count ? `, ${biggest} row${biggest === 1 ? "" : "s"} in the largest.` : ".");
    readout.textContent = live || tree.cut ? text : `${picture.title}: ${tree.counts}. The slider shows DBSCAN at one ε.`;
    slider.setAttribute("aria-valuetext", text);
    lines.forEach((line) => ["x1", "x2"].forEach((end) => line.setAttribute(end, tree.x[at])));
    if (cut) cut.textContent = `${tree.command} --eps ${value}`;
    redraw();
  }
  slider.addEventListener("input", () => { live = true; show(); });
  back.addEventListener("click", () => { live = false; slider.value = String(tree.start); show(); });
  function setFrom(canvas, event) {
    const box = canvas.getBoundingClientRect(), high_ = box.height - BOX.top - BOX.bottom;
    const step = tree.fine * (1 - (event.clientY - box.top - BOX.top) / high_);
    const best = tree.eps.reduce((kept, value, i) => (Math.abs(stepOf(value) - step) < Math.abs(stepOf(tree.eps[kept]) - step) ? i : kept), 0);
    slider.value = String(best);
    live = true;
    show();
  }
  canvases.forEach((canvas) => {
    canvas.addEventListener("pointerdown", (event) => setFrom(canvas, event));
    canvas.addEventListener("pointermove", (event) => { if (event.buttons & 1) setFrom(canvas, event); });
    new ResizeObserver(redraw).observe(canvas);
  });
  night.addEventListener("change", redraw);
  show();
})();
