// Axes, ticks and marks on a canvas. Data coordinates go in, crisp pixels come out.

const DIAMOND = [[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0], [0, -1.3]];

/** Return the value of a CSS variable of the page's theme. */
export const colour = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** Write a number as people do: 0.0123, 1.43, 2,000, 3·10⁻⁵. */
export function written(x, digits = 3) {
  if (x === null || !Number.isFinite(x)) return "∞";
  if (x !== 0 && Math.abs(x) < 1e-3) {
    const [mantissa, exponent] = x.toExponential(1).split("e");
    const raised = [...String(+exponent)].map((c) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[c] ?? "⁻").join("");
    return `${mantissa.replace("-", "−").replace(".0", "")}·10${raised}`;
  }
  const text = Math.abs(x) >= 1000 ? Math.round(x).toLocaleString("en") : String(+x.toPrecision(digits));
  return text.replace("-", "−");
}

/** Return round numbers between low and high, about `count` of them. */
export function ticks(low, high, count) {
  const raw = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw);
  const found = [];
  for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9; i += 1) found.push(i * step);
  return found;
}

export class Plot {
  static scale = null; // pixels to a CSS pixel, where it is not the screen's

  constructor(canvas) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d");
  }

  /** Clear, set the ranges and draw frame, grid, ticks and names of the axes; headroom is for words above the frame. */
  begin({ x, y, xName = "", yName = "", title = "", headroom = title, left = 46, right = 8, xTicks = true, yTicks = true }) {
    const { canvas, pen } = this;
    const scale = Plot.scale ?? (window.devicePixelRatio || 1);
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
    }
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    this.box = { left, top: headroom ? 24 : 8, right: width - right, bottom: height - (xName ? 38 : xTicks ? 22 : 6) };
    Object.assign(this, { x, y });
    if (title) this.label(title, left, 13, { colour: "ink", weight: 600 });
    this.axis(xTicks, yTicks);
    if (xName) this.label(xName, (this.box.left + this.box.right) / 2, height - 8, { align: "center" });
    if (yName) this.sideways(yName);
  }

  axis(xTicks, yTicks) {
    const { pen, box } = this;
    pen.lineWidth = 1;
    pen.strokeStyle = colour("grid");
    const xs = xTicks ? ticks(...this.x, Math.max(3.8, (box.right - box.left) / 70)) : [];
    const ys = yTicks ? ticks(...this.y, Math.max(4, (box.bottom - box.top) / 45)) : [];
    pen.beginPath();
    for (const t of xs) this.segment(this.px(t), box.top, this.px(t), box.bottom);
    for (const t of ys) this.segment(box.left, this.py(t), box.right, this.py(t));
    pen.stroke();
    for (const t of xs) this.below(written(t), this.px(t));
    for (const t of ys) this.label(written(t), box.left - 6, this.py(t) + 4, { align: "right" });
  }

  /** Write a tick's label below the frame, inside the canvas. */
  below(text, x) {
    this.pen.font = "400 12px system-ui, sans-serif";
    const half = this.pen.measureText(text).width / 2 + 3; // so that neighbours stay apart
    const place = Math.min(Math.max(x, half), this.canvas.clientWidth - half);
    this.label(text, place, this.box.bottom + 14, { align: "center" });
  }

  segment(x0, y0, x1, y1) {
    this.pen.moveTo(Math.round(x0) + 0.5, Math.round(y0) + 0.5);
    this.pen.lineTo(Math.round(x1) + 0.5, Math.round(y1) + 0.5);
  }

  px(x) {
    const { left, right } = this.box;
    return left + ((x - this.x[0]) / (this.x[1] - this.x[0])) * (right - left);
  }

  py(y) {
    const { top, bottom } = this.box;
    return bottom - ((y - this.y[0]) / (this.y[1] - this.y[0])) * (bottom - top);
  }

  /** Write text at pixels. */
  label(text, x, y, { colour: name = "soft", align = "left", weight = 400, size = 12 } = {}) {
    const { pen } = this;
    pen.font = `${weight} ${size}px system-ui, sans-serif`;
    pen.textAlign = align;
    pen.fillStyle = colour(name);
    pen.fillText(text, x, y);
  }

  /** Name colours above the frame, from the right: [text, colour] each. */
  legend(entries) {
    let x = this.box.right;
    for (const [text, colour] of entries.toReversed()) {
      this.label(text, x, this.box.top - 8, { colour, align: "right", weight: 600 });
      x -= this.pen.measureText(text).width + 12;
    }
  }

  sideways(text) {
    const { pen, box } = this;
    pen.save();
    pen.translate(11, (box.top + box.bottom) / 2);
    pen.rotate(-Math.PI / 2);
    this.label(text, 0, 0, { align: "center" });
    pen.restore();
  }

  /** Draw what `marks` draws, nothing of it outside the frame. */
  clipped(marks) {
    const { pen, box } = this;
    pen.save();
    pen.beginPath();
    pen.rect(box.left, box.top, box.right - box.left, box.bottom - box.top);
    pen.clip();
    marks();
    pen.restore();
  }

  /** Draw a line through points first ... last - 1; null breaks it. */
  line(xs, ys, { colour: name, width = 1.5, alpha = 1, dash = [], first = 0, last = xs.length } = {}) {
    const { pen } = this;
    this.style(name, width, alpha, dash);
    pen.beginPath();
    let down = false;
    for (let i = Math.max(0, first); i < last; i += 1) {
      if (ys[i] === null || xs[i] === null) {
        down = false;
      } else {
        pen[down ? "lineTo" : "moveTo"](this.px(xs[i]), this.py(ys[i]));
        down = true;
      }
    }
    pen.stroke();
    pen.globalAlpha = 1;
    pen.setLineDash([]);
  }

  style(name, width = 1.5, alpha = 1, dash = []) {
    Object.assign(this.pen, { lineWidth: width, lineJoin: "round", globalAlpha: alpha });
    this.pen.strokeStyle = this.pen.fillStyle = colour(name);
    this.pen.setLineDash(dash);
  }

  /** Fill the polygon through these points. */
  area(xs, ys, { colour: name, alpha = 0.15 }) {
    const { pen } = this;
    this.style(name, 1, alpha);
    pen.beginPath();
    xs.forEach((x, i) => pen[i ? "lineTo" : "moveTo"](this.px(x), this.py(ys[i])));
    pen.closePath();
    pen.fill();
    pen.globalAlpha = 1;
  }

  /** Fill a rectangle given in data coordinates. */
  rectangle(x0, y0, x1, y1, { colour: name, alpha = 0.1 }) {
    this.area([x0, x1, x1, x0], [y0, y0, y1, y1], { colour: name, alpha });
  }

  /** Draw a disc, a square or a diamond with a rim, kept inside the frame. */
  mark(x, y, name, shape = "disc", size = 6) {
    const { pen, box } = this;
    const a = Math.min(Math.max(this.px(x), box.left), box.right);
    const b = Math.min(Math.max(this.py(y), box.top), box.bottom);
    this.style(name);
    pen.strokeStyle = colour("card");
    pen.lineWidth = 2;
    pen.beginPath();
    if (shape === "disc") pen.arc(a, b, size, 0, 2 * Math.PI);
    if (shape === "square") pen.rect(a - size + 1, b - size + 1, 2 * size - 2, 2 * size - 2);
    if (shape === "diamond") for (const [i, j] of DIAMOND) pen.lineTo(a + i * size, b + j * size);
    pen.stroke();
    pen.fill();
  }

  /** Fill the frame with a picture. */
  image(picture) {
    const { left, top, right, bottom } = this.box;
    this.pen.drawImage(picture, left, top, right - left, bottom - top);
  }

  /** Draw a triangle at the left (-1) or right (1) edge: something is beyond. */
  pointer(side, below) {
    const { pen, box } = this;
    const [edge, y] = [side < 0 ? box.left + 1 : box.right - 1, box.top + 6 + below];
    pen.beginPath();
    for (const [i, j] of [[0, 0], [-6, -4], [-6, 4]]) pen.lineTo(edge + side * i, y + j);
    pen.fill();
  }
}

export const plots = Object.fromEntries(
  [...document.querySelectorAll("canvas")].map((canvas) => [canvas.dataset.plot, new Plot(canvas)]),
);

/** Tell in words what a plot shows, for who cannot see it. */
export const describe = (name, text) => plots[name].canvas.setAttribute("aria-label", text);
