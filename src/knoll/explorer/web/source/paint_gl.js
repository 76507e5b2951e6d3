// The points by WebGL2: columns stay on the GPU, and a view is two vectors of uniforms.
//
// Blending has no order: each point adds τ·(r, g, b, 1) to a float texture, τ = −log(1 − α), and the second pass shows
// the mean colour Σ τ c / Σ τ with the coverage 1 − exp(−Σ τ). paint_cpu.js computes the same sums.

import { project } from "./geometry.js";

/** @typedef {import("./types.js").Scene} Scene */

const LABEL = 14, FLAG = 15;  // attribute locations; those before are four columns each
export const MAX_COLUMNS = 48;
export const NOISE = 65535;  // the label of noise

/** @param {number} groups */
const vertexShader = (groups) => `#version 300 es
precision highp float;
precision highp int;
${range(groups).map((g) => `layout(location = ${g}) in vec4 c${g};`).join("\n")}
layout(location = ${LABEL}) in uint label;
layout(location = ${FLAG}) in uint flag;
uniform vec4 ax[${groups}], ay[${groups}];
uniform vec2 scale, offset;
uniform float size, tau, faint;
uniform bool dim;
uniform vec3 grey;
uniform highp sampler2D palette;
flat out vec4 paint;
void main() {
  vec2 p = vec2(${range(groups).map((g) => `dot(c${g}, ax[${g}])`).join(" + ")},
                ${range(groups).map((g) => `dot(c${g}, ay[${g}])`).join(" + ")});
  vec4 color = texelFetch(palette, ivec2(int(label & 255u), int(label >> 8)), 0);
  bool away = dim && (flag & 1u) == 0u;
  paint = vec4(away ? grey : color.rgb, away ? faint : tau);
  gl_Position = (flag & 2u) != 0u ? vec4(2.0, 2.0, 2.0, 1.0) : vec4(p * scale + offset, 0.0, 1.0);
  gl_PointSize = size + 1.0;
}`;

const FRAGMENT = `#version 300 es
precision highp float;
uniform float size;
flat in vec4 paint;
out vec4 sums;
void main() {
  float far = length(gl_PointCoord - 0.5) * (size + 1.0);
  float t = paint.a * clamp(0.5 * size - far + 0.5, 0.0, 1.0);
  sums = vec4(paint.rgb * t, t);
}`;

const COVER = `#version 300 es
void main() { gl_Position = vec4(vec2(gl_VertexID == 1 ? 3.0 : -1.0, gl_VertexID == 2 ? 3.0 : -1.0), 0.0, 1.0); }`;

const RESOLVE = `#version 300 es
precision highp float;
uniform highp sampler2D sums;
out vec4 color;
void main() {
  vec4 s = texelFetch(sums, ivec2(gl_FragCoord.xy), 0);
  float cover = 1.0 - exp(-s.a);
  color = s.a > 0.0 ? vec4(s.rgb / s.a * cover, cover) : vec4(0.0);
}`;

/** @param {number} count */
function range(count) {
  return [...Array(count).keys()];
}

/** Draws a Scene into a canvas; `null` from `glPainter` where WebGL2 or float targets are missing. */
export class GlPainter {
  /** @param {WebGL2RenderingContext} gl @param {HTMLCanvasElement} canvas @param {number} format */
  constructor(gl, canvas, format) {
    this.gl = gl;
    this.canvas = canvas;
    this.format = format;
    this.name = "webgl2";
    this.width = this.height = 0;  // of the texture of sums
    this.bytes = 0;  // sent to the GPU since the start
    this.calls = 0;  // draw calls since the start
    /** @type {WebGLBuffer[]} */
    this.columns = [];
    this.wide = /** @type {Float32Array[] | null} */ (null);
    /** @type {ArrayLike<number> | null} */
    this.ax = null;
    /** @type {ArrayLike<number> | null} */
    this.ay = null;
    this.rows = 0;
    this.groups = 0;
    this.labels = gl.createBuffer();
    this.flags = gl.createBuffer();
    this.sample = gl.createBuffer();
    this.sampled = 0;
    this.palette = gl.createTexture();
    this.target = gl.createFramebuffer();
    this.sums = gl.createTexture();
    this.points = /** @type {WebGLProgram | null} */ (null);
    this.resolve = program(gl, COVER, RESOLVE);
    this.uniforms = /** @type {Record<string, WebGLUniformLocation | null>} */ ({});
  }

  /** @param {Float32Array[]} columns */
  setColumns(columns) {
    const { gl } = this;
    this.columns.forEach((buffer) => gl.deleteBuffer(buffer));
    this.rows = columns.length ? columns[0].length : 0;
    this.wide = columns.length > MAX_COLUMNS ? columns : null;  // too many for the GPU: it gets two coordinates per view
    this.groups = this.wide ? 1 : Math.max(1, Math.ceil(columns.length / 4));
    this.columns = range(this.groups).map((g) => this.#filled(gl.createBuffer(), this.#packed(this.wide ? [] : columns.slice(4 * g, 4 * g + 4))));
    const points = program(gl, vertexShader(this.groups), FRAGMENT);
    this.points = points;
    const names = ["ax", "ay", "scale", "offset", "size", "tau", "faint", "dim", "grey", "palette"];
    this.uniforms = Object.fromEntries(names.map((name) => [name, gl.getUniformLocation(points, name)]));
    this.setLabels(new Uint16Array(this.rows));
    this.setFlags(new Uint8Array(this.rows));
  }

  /** Four columns side by side. @param {Float32Array[]} columns */
  #packed(columns) {
    const packed = new Float32Array(4 * this.rows);
    columns.forEach((column, c) => {
      for (let i = 0, at = c; i < column.length; i++, at += 4) packed[at] = column[i];
    });
    return packed;
  }

  /** @param {ArrayLike<number>} ax @param {ArrayLike<number>} ay @returns {[ArrayLike<number>, ArrayLike<number>]} */
  #axes(ax, ay) {
    if (!this.wide) return [ax, ay];
    if (this.ax !== ax || this.ay !== ay) {
      this.#filled(this.columns[0], this.#packed([project(this.wide, ax), project(this.wide, ay)]));
      this.ax = ax;
      this.ay = ay;
    }
    return [[1, 0, 0, 0], [0, 1, 0, 0]];
  }

  /** @param {Uint16Array} labels */
  setLabels(labels) {
    this.#filled(this.labels, labels);
  }

  /** Bit 0: selected, bit 1: not shown. @param {Uint8Array} flags */
  setFlags(flags) {
    this.#filled(this.flags, flags);
  }

  /** Rows that stand for all while the picture moves. @param {Uint32Array} rows */
  setSample(rows) {
    const { gl } = this;
    this.sampled = rows.length;
    gl.bindVertexArray(null);
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, this.sample);
    gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, rows, gl.STATIC_DRAW);
    this.bytes += rows.byteLength;
  }

  /** Four bytes per label. @param {Uint8Array} texels 256 × 256 × 4 */
  setPalette(texels) {
    const { gl } = this;
    gl.bindTexture(gl.TEXTURE_2D, this.palette);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, 256, 256, 0, gl.RGBA, gl.UNSIGNED_BYTE, texels);
    nearest(gl);
    this.bytes += texels.byteLength;
  }

  /** @param {Scene} scene */
  draw(scene) {
    const { gl, canvas } = this;
    const { width, height } = canvas;
    this.#resize(width, height);
    gl.bindFramebuffer(gl.FRAMEBUFFER, this.target);
    gl.viewport(0, 0, width, height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    if (this.rows && this.points) this.#drawPoints(scene);
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
    gl.disable(gl.BLEND);
    gl.useProgram(this.resolve);
    gl.activeTexture(gl.TEXTURE0);
    gl.bindTexture(gl.TEXTURE_2D, this.sums);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
    this.calls += 1;
  }

  /** @param {Scene} scene */
  #drawPoints({ ax, ay, camera, size, tau, faint, dim, grey, moving }) {
    const { gl, uniforms, canvas } = this, [x, y] = this.#axes(ax, ay);
    gl.useProgram(this.points);
    gl.uniform4fv(uniforms.ax, padded(x, 4 * this.groups));
    gl.uniform4fv(uniforms.ay, padded(y, 4 * this.groups));
    gl.uniform2f(uniforms.scale, (2 * camera.sx) / canvas.width, (2 * camera.sy) / canvas.height);
    gl.uniform2f(uniforms.offset, (-2 * camera.x * camera.sx) / canvas.width, (-2 * camera.y * camera.sy) / canvas.height);
    gl.uniform1f(uniforms.size, size);
    gl.uniform1f(uniforms.tau, tau);
    gl.uniform1f(uniforms.faint, faint);
    gl.uniform1i(uniforms.dim, dim ? 1 : 0);
    gl.uniform3f(uniforms.grey, grey[0] / 255, grey[1] / 255, grey[2] / 255);
    gl.activeTexture(gl.TEXTURE0);
    gl.bindTexture(gl.TEXTURE_2D, this.palette);
    gl.uniform1i(uniforms.palette, 0);
    this.columns.forEach((buffer, g) => {
      gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
      gl.enableVertexAttribArray(g);
      gl.vertexAttribPointer(g, 4, gl.FLOAT, false, 0, 0);
    });
    whole(gl, this.labels, LABEL, gl.UNSIGNED_SHORT);
    whole(gl, this.flags, FLAG, gl.UNSIGNED_BYTE);
    gl.enable(gl.BLEND);
    gl.blendEquation(gl.FUNC_ADD);
    gl.blendFunc(gl.ONE, gl.ONE);
    if (moving && this.sampled && this.sampled < this.rows) {
      gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, this.sample);
      gl.drawElements(gl.POINTS, this.sampled, gl.UNSIGNED_INT, 0);
    } else {
      gl.drawArrays(gl.POINTS, 0, this.rows);
    }
    this.calls += 1;
  }

  /** @param {number} width @param {number} height */
  #resize(width, height) {
    if (this.width === width && this.height === height) return;
    const { gl } = this;
    this.width = width;
    this.height = height;
    gl.bindTexture(gl.TEXTURE_2D, this.sums);
    const half = this.format === gl.RGBA16F;
    gl.texImage2D(gl.TEXTURE_2D, 0, this.format, width, height, 0, gl.RGBA, half ? gl.HALF_FLOAT : gl.FLOAT, null);
    nearest(gl);
    gl.bindFramebuffer(gl.FRAMEBUFFER, this.target);
    gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.COLOR_ATTACHMENT0, gl.TEXTURE_2D, this.sums, 0);
  }

  /** Wait until everything is drawn. */
  finish() {
    this.gl.readPixels(0, 0, 1, 1, this.gl.RGBA, this.gl.UNSIGNED_BYTE, new Uint8Array(4));
  }

  /** @template {WebGLBuffer | null} B @param {B} buffer @param {ArrayBufferView} values @returns {B} */
  #filled(buffer, values) {
    const { gl } = this;
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    gl.bufferData(gl.ARRAY_BUFFER, values, gl.DYNAMIC_DRAW);
    this.bytes += values.byteLength;
    return buffer;
  }
}

/**
 * `software`: also where WebGL itself runs on the processor, which is slower than paint_cpu.js.
 * @param {HTMLCanvasElement} canvas @param {boolean} software @returns {GlPainter | null}
 */
export function glPainter(canvas, software) {
  const gl = canvas.getContext("webgl2", { antialias: false, depth: false, stencil: false, premultipliedAlpha: true });
  if (!gl || gl.isContextLost() || !gl.getExtension("EXT_color_buffer_float")) return null;
  const about = gl.getExtension("WEBGL_debug_renderer_info");
  const renderer = String(gl.getParameter(about ? about.UNMASKED_RENDERER_WEBGL : gl.RENDERER));
  if (!software && /swiftshader|llvmpipe|softpipe|basic render/i.test(renderer)) {
    gl.getExtension("WEBGL_lose_context")?.loseContext();
    return null;
  }
  try {
    return new GlPainter(gl, canvas, gl.getExtension("EXT_float_blend") ? gl.RGBA32F : gl.RGBA16F);
  } catch {
    return null;  // lost while it was set up, or a driver that refuses the shaders
  }
}

/** @param {WebGL2RenderingContext} gl @param {WebGLBuffer | null} buffer @param {number} at @param {number} type */
function whole(gl, buffer, at, type) {
  gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
  gl.enableVertexAttribArray(at);
  gl.vertexAttribIPointer(at, 1, type, 0, 0);
}

/** @param {WebGL2RenderingContext} gl */
function nearest(gl) {
  for (const filter of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) gl.texParameteri(gl.TEXTURE_2D, filter, gl.NEAREST);
  for (const wrap of [gl.TEXTURE_WRAP_S, gl.TEXTURE_WRAP_T]) gl.texParameteri(gl.TEXTURE_2D, wrap, gl.CLAMP_TO_EDGE);
}

/** @param {ArrayLike<number>} values @param {number} length */
function padded(values, length) {
  const out = new Float32Array(length);
  out.set(Array.prototype.slice.call(values, 0, length));
  return out;
}

/** @param {WebGL2RenderingContext} gl @param {string} vertex @param {string} fragment @returns {WebGLProgram} */
function program(gl, vertex, fragment) {
  const made = /** @type {WebGLProgram} */ (gl.createProgram());
  for (const [type, source] of /** @type {[number, string][]} */ ([[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]])) {
    const shader = /** @type {WebGLShader} */ (gl.createShader(type));
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(made, shader);
  }
  gl.linkProgram(made);
  if (!gl.getProgramParameter(made, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(made) || "context lost");
  return made;
}
