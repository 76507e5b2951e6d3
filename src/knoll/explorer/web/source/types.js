// Types of the plot; no code.

/**
 * What part of the plane is shown: the centre, and pixels of the canvas per unit.
 * @typedef {{ x: number, y: number, sx: number, sy: number }} Camera
 */

/**
 * One picture. `ax` and `ay` have an entry per column; `tau` and `faint` are −log(1 − opacity) of a point and of a row
 * that is not selected; `moving`: the sample is enough.
 * @typedef {{
 *   ax: ArrayLike<number>, ay: ArrayLike<number>, camera: Camera, size: number, tau: number, faint: number,
 *   dim: boolean, grey: number[], moving: boolean,
 * }} Scene
 */

/** @typedef {import("./paint_gl.js").GlPainter | import("./paint_cpu.js").CpuPainter} Painter */

export {};
