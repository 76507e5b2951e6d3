// Each player draws the states of one path: slider, play and pause, step and step back, arrow keys and space.
"use strict";
(() => {
  const PALETTE = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#5D3A9B"];
  const RGB = PALETTE.map((hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));
  const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const color = (label) => (label < 0 ? css("--noise") : PALETTE[label % PALETTE.length]);

  // data coordinates → the canvas, equal units, the same window for every frame
  function view(data, width, height) {
    let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let i = 0; i < data.points.length; i += 2) {
      x0 = Math.min(x0, data.points[i]); x1 = Math.max(x1, data.points[i]);
      y0 = Math.min(y0, data.points[i + 1]); y1 = Math.max(y1, data.points[i + 1]);
    }
    const unit = Math.min(width / (x1 - x0), height / (y1 - y0)) * 0.9;
    return {
      unit,
      x: (x) => width / 2 + unit * (x - (x0 + x1) / 2),
      y: (y) => height / 2 - unit * (y - (y0 + y1) / 2),
    };
  }

  function dot(pen, x, y, radius) {
    pen.beginPath();
    pen.arc(x, y, radius * pen.small, 0, 2 * Math.PI);
    pen.fill();
  }

  const DRAW = {
    mixing(pen, data, frame, to) {
      const k = frame.means.length / 2;
      for (let i = 0; i < data.points.length / 2; i++) {
        const mix = [0, 1, 2].map((channel) => {
          let sum = 0;
          for (let c = 0; c < k; c++) sum += (frame.shares[i * k + c] / 100) * RGB[c][channel];
          return Math.round(Math.min(255, sum));
        });
        pen.fillStyle = `rgb(${mix})`;
        dot(pen, to.x(data.points[2 * i]), to.y(data.points[2 * i + 1]), 2.6);
      }
      pen.strokeStyle = pen.fillStyle = css("--red");
      pen.lineWidth = 2;
      for (let c = 0; c < k; c++) {
        const [x, y] = [to.x(frame.means[2 * c]), to.y(frame.means[2 * c + 1])];
        dot(pen, x, y, 5);
        pen.beginPath();
        pen.arc(x, y, Math.max(5, frame.radius * to.unit), 0, 2 * Math.PI);
        pen.stroke();
      }
    },
    graph(pen, data, frame, to, width) {
      pen.strokeStyle = css("--red");
      pen.lineWidth = 1;
      for (let e = 0; e < frame.strength.length; e++) {
        if (frame.strength[e] < 1) continue;
        const [i, j] = [data.pairs[2 * e], data.pairs[2 * e + 1]];
        pen.globalAlpha = frame.strength[e] / 130;
        pen.beginPath();
        pen.moveTo(to.x(data.points[2 * i]), to.y(data.points[2 * i + 1]));
        pen.lineTo(to.x(data.points[2 * j]), to.y(data.points[2 * j + 1]));
        pen.stroke();
      }
      pen.globalAlpha = 1;
      frame.labels.forEach((label, i) => {
        pen.fillStyle = color(label);
        dot(pen, to.x(data.points[2 * i]), to.y(data.points[2 * i + 1]), 4);
      });
      const [w, h, left] = [width * 0.22, width * 0.13, width * 0.76];  // the kernel against the distance
      pen.strokeStyle = css("--soft");
      pen.strokeRect(left, 8, w, h);
      pen.strokeStyle = css("--red");
      pen.lineWidth = 2;
      pen.beginPath();
      frame.curve.forEach((value, i) => pen.lineTo(left + (w * i) / (frame.curve.length - 1), 8 + h - value * h * 0.92));
      pen.stroke();
    },
    climb(pen, data, frame, to) {
      pen.fillStyle = pen.strokeStyle = css("--noise");
      pen.lineWidth = 0.6;
      for (let i = 0; i < data.points.length; i += 2) {
        const [x, y] = [to.x(data.points[i]), to.y(data.points[i + 1])];
        pen.globalAlpha = 0.45;
        dot(pen, x, y, 1.8);
        pen.beginPath();
        pen.moveTo(x, y);
        pen.lineTo(to.x(frame.positions[i]), to.y(frame.positions[i + 1]));
        pen.stroke();
      }
      pen.globalAlpha = 0.9;
      frame.labels.forEach((label, i) => {
        pen.fillStyle = color(label);
        dot(pen, to.x(frame.positions[2 * i]), to.y(frame.positions[2 * i + 1]), 3);
      });
      pen.globalAlpha = 1;
    },
  };

  function player(root) {
    const data = JSON.parse(root.querySelector("script").textContent);
    const [canvas, slider, output] = ["canvas", "input", "output"].map((name) => root.querySelector(name));
    const [back, play, on] = root.querySelectorAll("button");
    const last = data.frames.length - 1;
    let at = 0, timer = 0;

    function draw() {
      const width = canvas.clientWidth, height = canvas.clientHeight, dense = window.devicePixelRatio || 1;
      canvas.width = Math.round(width * dense);
      canvas.height = Math.round(height * dense);
      const pen = canvas.getContext("2d");
      pen.scale(dense, dense);
      pen.small = Math.max(0.6, Math.min(1, width / 640));  // smaller dots on a small screen
      DRAW[data.type](pen, data, data.frames[at], view(data, width, height), width);
    }
    function show(i) {
      at = Math.max(0, Math.min(last, i));
      slider.value = at;
      output.textContent = `${at + 1} of ${last + 1}: ${data.frames[at].title}. ${data.frames[at].note}.`;
      slider.setAttribute("aria-valuetext", data.frames[at].title);
      draw();
    }
    function stop() {
      clearInterval(timer);
      timer = 0;
      play.textContent = "Play";
    }
    function toggle() {
      if (timer) return stop();
      if (at === last) show(0);
      play.textContent = "Pause";
      timer = setInterval(() => (at === last ? stop() : show(at + 1)), reducedMotion.matches ? 1500 : 250);
    }
    function go(i) {
      stop();
      show(i);
    }
    slider.max = last;
    slider.addEventListener("input", () => go(Number(slider.value)));
    back.addEventListener("click", () => go(at - 1));
    on.addEventListener("click", () => go(at + 1));
    play.addEventListener("click", toggle);
    root.addEventListener("keydown", (event) => {
      const keys = { ArrowLeft: () => go(at - 1), ArrowRight: () => go(at + 1), Home: () => go(0), End: () => go(last) };
      if (event.key === " " && event.target.tagName !== "BUTTON") keys[" "] = toggle;
      if (!(event.key in keys)) return;
      event.preventDefault();
      keys[event.key]();
    });
    new ResizeObserver(draw).observe(canvas);
    dark.addEventListener("change", draw);
    show(0);
  }
  document.querySelectorAll(".player").forEach(player);
})();
