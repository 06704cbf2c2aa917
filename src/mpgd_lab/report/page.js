"use strict";
// Theme, sorting, printing, the section in view, and the valley in three dimensions. The page reads without it.

const root = document.documentElement;

// Theme: as the system says, light or dark; the choice is kept where the browser allows it. ---------

const THEMES = ["system", "light", "dark"];
const toggle = document.getElementById("theme");
const memory = {
  get() { try { return localStorage.getItem("mpgd-theme"); } catch { return null; } },
  set(value) { try { localStorage.setItem("mpgd-theme", value); } catch { /* a private window */ } },
};

function setTheme(name) {
  if (name === "system") delete root.dataset.theme;
  else root.dataset.theme = name;
  toggle.textContent = `Theme: ${name}`;
  toggle.dataset.now = name;
  window.dispatchEvent(new Event("recolour"));
}

toggle.hidden = false;
setTheme(THEMES.includes(memory.get()) ? memory.get() : "system");
toggle.addEventListener("click", () => {
  const next = THEMES[(THEMES.indexOf(toggle.dataset.now) + 1) % THEMES.length];
  memory.set(next);
  setTheme(next);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => window.dispatchEvent(new Event("recolour")));

// Tables: a heading sorts by the numbers of its cells, else by their text; empty cells come last. ----

function valueOf(row, place) {
  const cell = row.cells[place];
  if (cell.dataset.order !== undefined) return Number(cell.dataset.order);
  return cell.textContent.trim();
}

function compare(a, b, sign) {
  const empty = (x) => x === "" || Number.isNaN(x);
  if (empty(a) || empty(b)) return empty(a) - empty(b);
  if (typeof a === "number" && typeof b === "number") return sign * (a - b);
  return sign * String(a).localeCompare(String(b), "en", { numeric: true });
}

function sortBy(heading) {
  const table = heading.closest("table");
  const place = [...heading.parentNode.cells].indexOf(heading);
  const down = heading.getAttribute("aria-sort") === "ascending";
  for (const other of heading.parentNode.cells) other.setAttribute("aria-sort", "none");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  const body = table.tBodies[0];
  const rows = [...body.rows].sort((a, b) => compare(valueOf(a, place), valueOf(b, place), down ? -1 : 1));
  body.append(...rows);
}

for (const button of document.querySelectorAll("thead button")) {
  button.addEventListener("click", () => sortBy(button.closest("th")));
}

// On paper every table is open. -----------------------------------------------------------------------

let folded = [];
window.addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open])")];
  for (const each of folded) each.open = true;
});
window.addEventListener("afterprint", () => { for (const each of folded) each.open = false; });

// The list of sections shows where the reader is. -----------------------------------------------------

const links = new Map([...document.querySelectorAll("nav a")].map((a) => [a.hash.slice(1), a]));
const watcher = new IntersectionObserver((seen) => {
  for (const { target, isIntersecting } of seen) {
    if (!isIntersecting) continue;
    for (const link of links.values()) link.removeAttribute("aria-current");
    links.get(target.id)?.setAttribute("aria-current", "true");
  }
}, { rootMargin: "-15% 0px -75% 0px" });
for (const section of document.querySelectorAll("main > section")) watcher.observe(section);

// The valley: l(u, v) = v^2 u^2 / 2 as a surface, routes upon it. --------------------------------------

const ROWS = 36, COLUMNS = 28, HEIGHT = 0.95;

class Valley {
  constructor(figure) {
    this.canvas = figure.querySelector("canvas");
    this.routes = JSON.parse(figure.querySelector("script").textContent, (_, x) => x ?? NaN); // null: out of the valley
    this.boxes = [...figure.querySelectorAll("[data-route]")];
    this.slider = figure.querySelector("[type=range]");
    this.yaw = -0.62;
    this.pitch = 0.55;
    this.listen();
    this.draw();
  }

  get shown() { return this.routes.filter((_, n) => this.boxes[n].checked); }

  measure() {
    const all = this.shown.flatMap((r) => r.u.map((u, k) => [Math.abs(u), Math.abs(r.v[k])])).filter(([u, v]) => Number.isFinite(u + v));
    const top = (values) => values.reduce((a, b) => Math.max(a, b), 1e-3);
    this.u = 1.05 * top(all.map(([u]) => u));
    this.v = 1.05 * top(all.map(([, v]) => v));
    this.loss = 1.1 * top(all.map(([u, v]) => u * u * v * v / 2));
  }

  listen() {
    const { canvas } = this;
    let last = null;
    canvas.addEventListener("pointerdown", (e) => { last = [e.clientX, e.clientY]; canvas.setPointerCapture(e.pointerId); });
    canvas.addEventListener("pointermove", (e) => {
      if (!last) return;
      this.turn((e.clientX - last[0]) / 160, (e.clientY - last[1]) / 160);
      last = [e.clientX, e.clientY];
    });
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { last = null; });
    canvas.addEventListener("keydown", (e) => {
      const by = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, -0.06], ArrowDown: [0, 0.06] }[e.key];
      if (!by) return;
      e.preventDefault();
      this.turn(...by);
    });
    for (const control of [...this.boxes, this.slider]) control.addEventListener("input", () => this.draw());
    window.addEventListener("recolour", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  turn(yaw, pitch) {
    this.yaw += yaw;
    this.pitch = Math.min(1.45, Math.max(0.08, this.pitch + pitch));
    this.draw();
  }

  // A point of the valley on the canvas: x, y and its depth.
  project(u, v) {
    const x = v / this.v, y = 2 * Math.abs(u) / this.u - 1;
    const z = HEIGHT * (Math.min(1, u * u * v * v / 2 / this.loss) - 0.5);
    return this.place(x, y, z);
  }

  place(x, y, z) {
    const [cos, sin] = [Math.cos(this.yaw), Math.sin(this.yaw)];
    const across = x * cos - y * sin, along = x * sin + y * cos;
    const depth = along * Math.cos(this.pitch) - z * Math.sin(this.pitch);
    const up = along * Math.sin(this.pitch) + z * Math.cos(this.pitch);
    return [this.width / 2 + this.scale * across, this.height / 2 - this.scale * up, depth];
  }

  draw() {
    const { canvas } = this;
    const ratio = window.devicePixelRatio || 1;
    [this.width, this.height] = [canvas.clientWidth, canvas.clientHeight];
    if (!this.width) return;
    [canvas.width, canvas.height] = [this.width * ratio, this.height * ratio];
    this.scale = Math.min(this.width / 3.2, this.height / 2.7);
    const style = getComputedStyle(root);
    this.color = (name) => style.getPropertyValue(`--${name}`).trim();
    this.pen = canvas.getContext("2d");
    this.pen.scale(ratio, ratio);
    this.measure();
    this.surface();
    this.axes();
    this.shown.forEach((route, n, all) => this.route(route, 4 + 2.5 * (all.length - 1 - n)));
    this.names();
    canvas.dataset.drawn = `${this.yaw.toFixed(3)} ${this.pitch.toFixed(3)} ${this.shown.length} ${this.slider.value}`;
  }

  // Rows follow u; a row is as wide as the loss allows, so that the rim is a level line.
  surface() {
    const at = (i, j) => {
      const u = this.u * (i / ROWS);
      const reach = Math.min(this.v, Math.sqrt(2 * this.loss) / Math.max(u, 1e-9));
      return [u, reach * (2 * j / COLUMNS - 1)];
    };
    const tiles = [];
    for (let i = 0; i < ROWS; i++) {
      for (let j = 0; j < COLUMNS; j++) {
        const ring = [at(i, j), at(i + 1, j), at(i + 1, j + 1), at(i, j + 1)];
        const corners = ring.map(([u, v]) => this.project(u, v));
        const height = ring.reduce((sum, [u, v]) => sum + u * u * v * v / 2, 0) / 4 / this.loss;
        tiles.push({ corners, height, depth: corners.reduce((sum, c) => sum + c[2], 0) });
      }
    }
    const { pen } = this;
    [pen.fillStyle, pen.strokeStyle, pen.lineWidth] = [this.color("sky"), this.color("blue"), 0.5];
    for (const { corners, height } of tiles.sort((a, b) => b.depth - a.depth)) {
      pen.beginPath();
      for (const [x, y] of corners) pen.lineTo(x, y);
      pen.closePath();
      pen.globalAlpha = 0.07 + 0.4 * Math.min(1, height);
      pen.fill();
      pen.globalAlpha = 0.16;
      pen.stroke();
    }
    pen.globalAlpha = 1;
  }

  // Each axis: its name, where it begins and ends, and its value there.
  get ends() {
    return [
      ["v", [-1, -1, -HEIGHT / 2], [1, -1, -HEIGHT / 2], this.v],
      ["|u|", [-1, -1, -HEIGHT / 2], [-1, 1, -HEIGHT / 2], this.u],
      ["loss", [-1, 1, -HEIGHT / 2], [-1, 1, HEIGHT / 2], this.loss],
    ];
  }

  axes() {
    const { pen } = this;
    [pen.strokeStyle, pen.lineWidth] = [this.color("muted"), 1];
    for (const [, from, to] of this.ends) {
      const [a, b] = [this.place(...from), this.place(...to)];
      pen.beginPath();
      pen.moveTo(a[0], a[1]);
      pen.lineTo(b[0], b[1]);
      pen.stroke();
    }
  }

  // Names come last, on paper of their own: paths cross their places.
  names() {
    const { pen } = this;
    [pen.font, pen.textAlign, pen.lineWidth, pen.lineJoin] = ["13px system-ui, sans-serif", "center", 5, "round"];
    [pen.strokeStyle, pen.fillStyle] = [this.color("paper"), this.color("muted")];
    for (const [name, , to, most] of this.ends) {
      const b = this.place(...to);
      const [dx, dy] = [b[0] - this.width / 2, b[1] - this.height / 2];
      const far = Math.hypot(dx, dy) || 1;
      const text = `${name} = ${Number(most.toPrecision(2))}`;
      const [x, y] = [b[0] + 18 * dx / far, Math.min(this.height - 6, Math.max(12, b[1] + 16 * dy / far + 4))];
      pen.strokeText(text, x, y);
      pen.fillText(text, x, y);
    }
  }

  // Marks shrink from route to route, so that none is hidden where several end in one place.
  route({ u, v, color }, size) {
    const { pen } = this;
    const count = Math.max(2, Math.round(u.length * this.slider.value / 100));
    const all = u.slice(0, count).map((x, k) => this.project(x, v[k]));
    const gone = all.findIndex(([x, y]) => !Number.isFinite(x + y));
    const points = gone < 0 ? all : all.slice(0, gone);
    if (!points.length) return;
    [pen.strokeStyle, pen.fillStyle] = [this.color(color), this.color(color)];
    [pen.lineWidth, pen.lineJoin, pen.globalAlpha] = [1.3, "round", 0.8];
    pen.beginPath();
    for (const [x, y] of points) pen.lineTo(x, y);
    pen.stroke();
    const [first, last] = [points[0], points[points.length - 1]];
    [pen.lineWidth, pen.globalAlpha] = [2, 1];
    pen.beginPath();
    pen.arc(first[0], first[1], size + 1.5, 0, 7);
    pen.stroke();
    pen.beginPath();
    pen.arc(last[0], last[1], size, 0, 7);
    pen.fill();
  }
}

for (const figure of document.querySelectorAll(".landscape")) new Valley(figure);
