// The panels: each draws its part of the numbers up to step k.

import { Plot, written } from "./plot.js";

const WINDOW = 300; // steps shown of the orbit and of the perturbation
const COBWEB = 36; // steps of the cobweb
export const SCHEMES = {
  gd: { name: "Gradient descent", short: "GD", shape: "disc" },
  gaussian: { name: "Gaussian noise", short: "Gaussian", shape: "square" },
  mpgd: { name: "MPGD", short: "MPGD", shape: "diamond" },
};

export const WELLS = {
  mpgd: { name: "MPGD", short: "MPGD" },
  gaussian: { name: "Gaussian noise", short: "Gaussian" },
  stable: { name: "Stable noise", short: "stable" },
};

const plots = Object.fromEntries(
  [...document.querySelectorAll("canvas")].map((canvas) => [canvas.dataset.plot, new Plot(canvas)]),
);
const describe = (name, text) => plots[name].canvas.setAttribute("aria-label", text);
const windowed = (k) => [Math.max(0, k - WINDOW), Math.max(k, WINDOW)];

/** The graph of T with the last steps as a cobweb. */
export function drawMap({ y, branches, y_star: star }, k) {
  const plot = plots.map;
  plot.begin({ x: [0, 1], y: [0, 1], xName: "y now", yName: "y next", left: 40 });
  plot.clipped(() => {
    plot.rectangle(star, 0, 1, 1, { colour: "burst" });
    plot.line([0, 1], [0, 1], { colour: "soft", width: 1, dash: [3, 4] });
    for (const [xs, ys] of branches) plot.line(xs, ys, { colour: "ink", width: 2 });
    const first = Math.max(0, k - COBWEB);
    for (let i = first; i < Math.min(k, y.length - 1); i += 1) {
      const look = { colour: y[i] > star ? "burst" : "quiet", alpha: 0.15 + (0.85 * (i - first)) / COBWEB };
      plot.line([y[i], y[i], y[i + 1]], [y[i], y[i + 1], y[i + 1]], look);
    }
  });
  const now = y[Math.min(k, y.length - 1)];
  plot.mark(now, now, now > star ? "burst" : "quiet");
  const middle = { colour: "burst", align: "center", weight: 700 };
  plot.label("Z", plot.px((1 + star) / 2), plot.box.top + 16, middle);
  describe("map", `Graph of the Thaler map with branch point ${written(star)}; the orbit is at ${written(now)}.`);
}

/** The last steps of the orbit over time. */
export function drawOrbit({ y, y_star: star }, k) {
  const plot = plots.orbit;
  const [first, last] = windowed(k);
  plot.begin({ x: [first, last], y: [0, 1], xName: "step k (last 300)", yName: "orbit y", left: 40 });
  plot.clipped(() => {
    plot.rectangle(first, star, last, 1, { colour: "burst" });
    const faint = { colour: "soft", width: 1, alpha: 0.45, last: k - first };
    plot.line(range(first, last), y.slice(first, last), faint);
    dots(plot, y, first, Math.min(k, y.length), (i) => (y[i] > star ? "burst" : "quiet"));
  });
  const corner = { colour: "burst", align: "right", weight: 600 };
  plot.label("burst: y > y*", plot.box.right - 6, plot.box.top + 16, corner);
  describe("orbit", `Orbit over steps ${first} to ${k}.`);
}

function dots(plot, ys, first, last, name) {
  for (const wanted of ["quiet", "burst"]) {
    plot.style(wanted);
    for (let i = first; i < last; i += 1) {
      if (name(i) === wanted) plot.pen.fillRect(plot.px(i) - 1.25, plot.py(ys[i]) - 1.25, 2.5, 2.5);
    }
  }
}

const range = (first, last) => Array.from({ length: last - first }, (_, i) => first + i);

/** The last perturbations as sticks. */
export function drawValues({ y, v, y_star: star, laminar_value: least }, k) {
  const plot = plots.values;
  const [first, last] = windowed(k);
  const reach = 1.08 * v.reduce((most, value) => Math.max(most, Math.abs(value)), least);
  plot.begin({ x: [first, last], y: [-reach, reach], xName: "step k (last 300)", yName: "value v", left: 50 });
  plot.clipped(() => {
    const width = Math.max(1, (plot.box.right - plot.box.left) / WINDOW - 0.6);
    for (const [name, bursts] of [["quiet", false], ["burst", true]]) {
      plot.style(name);
      for (let i = first; i < Math.min(k, v.length); i += 1) {
        const height = Math.max(1, Math.abs(plot.py(v[i]) - plot.py(0)));
        if (y[i] > star === bursts) plot.pen.fillRect(plot.px(i), plot.py(Math.max(v[i], 0)), width, height);
      }
    }
    plot.line([first, last], [0, 0], { colour: "soft", width: 1 });
  });
  describe("values", `Perturbation over steps ${first} to ${k}, between ${written(-reach)} and ${written(reach)}.`);
}

/** Running sums of many orbits, ours in front. */
export function drawSums({ moments, running, edges }, k) {
  const plot = plots.sums;
  const steps = moments.at(-1);
  const reach = edges.at(-1);
  plot.begin({ x: [0, steps], y: [-reach, reach], xName: "step k of n", yName: "sum / nᵞ", left: 42, right: 0 });
  const shown = moments.findLastIndex((moment) => moment <= k) + 1;
  plot.clipped(() => {
    const faint = { colour: "soft", width: 1, alpha: 0.28, last: shown };
    running.slice(1).forEach((path) => plot.line(moments, path, faint));
    plot.line([0, steps], [0, 0], { colour: "soft", width: 1 });
    plot.line(moments, running[0], { colour: "mpgd", width: 2.4, last: shown });
  });
  if (shown) plot.mark(moments[shown - 1], running[0][shown - 1], "mpgd", "diamond", 5);
  const now = written(running[0][Math.max(0, shown - 1)]);
  describe("sums", `Running sums of ${running.length} orbits; ours is at ${now} after ${k} steps.`);
}

/** The law of the sum at the end, sideways beside the running sums. */
export function drawLaw({ edges, density, grid, limit, count }) {
  const plot = plots.law;
  const reach = edges.at(-1);
  const most = 1.12 * Math.max(...density, ...(limit ?? [0]));
  plot.begin({ x: [0, most], y: [-reach, reach], xName: "density at k = n", left: 6, xTicks: false, yTicks: false });
  plot.clipped(() => {
    plot.style("mpgd", 1, 0.45);
    density.forEach((d, i) => {
      const top = plot.py(edges[i + 1]);
      plot.pen.fillRect(plot.px(0), top + 0.5, plot.px(d) - plot.px(0), Math.max(1, plot.py(edges[i]) - top - 1));
    });
    if (limit) plot.line(limit, grid, { colour: "law", width: 2.2 });
  });
  const [right, top] = [plot.box.right - 2, plot.box.top];
  const key = { align: "right", weight: 600 };
  plot.label(`${written(count)} sums`, right, top + 12, { ...key, colour: "mpgd" });
  plot.label(limit ? "limit law" : "no limit density", right, top + 28, { ...key, colour: "law" });
  describe("law", `Histogram of ${count} normalised sums${limit ? " with the density of the limit law" : ""}.`);
}

/** Return the ranges all three landscapes share. */
function extent(schemes, eta) {
  const all = Object.values(schemes);
  const known = (x) => x !== null;
  const sorted = all.flatMap(({ v }) => v.filter(known).map(Math.abs)).sort((a, b) => a - b);
  const lengths = all.flatMap(({ length }) => length.filter(known));
  const width = Math.max(1.3 * sorted[Math.floor(0.993 * sorted.length)], 0.02);
  const height = Math.min(1.12 * Math.max(...lengths), 3 * Math.max(lengths[0], Math.sqrt(2 / eta)));
  return { v: [-width, width], u: [0, height] };
}

/** The valley from above with the way of one scheme. */
export function drawValley(data, key, k, eta) {
  const plot = plots[key];
  const { name, shape } = SCHEMES[key];
  const way = data.schemes[key];
  const { v, u } = extent(data.schemes, eta);
  const narrow = plot.canvas.clientWidth < 170;
  const axis = key === "gd" ? { yName: "|u|", left: narrow ? 34 : 40 } : { left: 12, yTicks: false };
  plot.begin({ x: v, y: u, xName: "v", title: narrow ? SCHEMES[key].short : name, ...axis });
  const now = data.moments.findLastIndex((moment) => moment <= k);
  plot.clipped(() => {
    contours(plot, v[1], u[1]);
    const edge = Math.sqrt(2 / eta);
    plot.line(v, [edge, edge], { colour: "soft", width: 1, dash: [2, 4] });
    plot.line(way.v, way.length, { colour: key, width: 1, alpha: 0.3, last: now + 1 });
    plot.line(way.v, way.length, { colour: key, width: 2, first: now - 60, last: now + 1 });
  });
  const alive = way.v.slice(0, now + 1).findLastIndex((x) => x !== null);
  plot.mark(way.v[alive], way.length[alive], key, shape, 7);
  if (alive < now) {
    const middle = { colour: "alarm", align: "center", weight: 700 };
    plot.label("ran off", (plot.box.left + plot.box.right) / 2, plot.box.top + 18, middle);
  }
  const place = `|u| is ${written(way.length[alive])}, v is ${written(way.v[alive])}`;
  describe(key, `${name}: ${place} at step ${data.moments[alive]}.`);
}

/** Fill |v| < sqrt(2 c) / |u| for a ladder of losses c, the lowest last. */
function contours(plot, width, height) {
  plot.rectangle(-width, 0, width, height, { colour: "hill", alpha: 0.5 });
  const top = (width * height) ** 2 / 2;
  const us = Array.from({ length: 61 }, (_, i) => Math.max(1e-6, (height * i) / 60));
  for (const part of [0.36, 0.16, 0.06, 0.02, 0.005, 0.0008]) {
    const sides = us.map((u) => Math.min(Math.sqrt(2 * part * top) / u, 2 * width));
    const outline = [[...sides, ...sides.map((x) => -x).reverse()], [...us, ...us.toReversed()]];
    plot.area(...outline, { colour: "floor", alpha: 0.34 });
  }
}

/** The trace of the Hessian over time: one run, and the quartiles of many. */
export function drawTrace({ moments, schemes }, k, eta) {
  const plot = plots.trace;
  const curves = Object.values(schemes).flatMap(({ trace, quartiles }) => [...trace, ...quartiles[2]]);
  const most = Math.min(1.1 * Math.max(...curves.filter((x) => x !== null)), 8 / eta);
  plot.begin({ x: [0, moments.at(-1)], y: [0, most], xName: "step k", yName: "trace", left: 50, right: 70 });
  const now = moments.findLastIndex((moment) => moment <= k);
  plot.clipped(() => {
    for (const [key, { trace, quartiles }] of Object.entries(schemes)) {
      const [low, middle, high] = quartiles;
      const end = low.findIndex((x, i) => x === null || high[i] === null);
      const cut = end < 0 ? moments.length : end;
      const xs = moments.slice(0, cut);
      const ys = [...low.slice(0, cut), ...high.slice(0, cut).reverse()];
      plot.area([...xs, ...xs.toReversed()], ys, { colour: key, alpha: 0.13 });
      plot.line(moments, middle, { colour: key, width: 1.5, dash: [6, 4], alpha: 0.8 });
      plot.line(moments, trace, { colour: key, width: 1, alpha: 0.35 });
      plot.line(moments, trace, { colour: key, width: 2.4, last: now + 1 });
    }
    plot.line([0, moments.at(-1)], [2 / eta, 2 / eta], { colour: "soft", width: 1, dash: [2, 4] });
    plot.line([k, k], [0, most], { colour: "soft", width: 1 });
  });
  names(plot, schemes, most, eta);
  for (const [key, { trace }] of Object.entries(schemes)) {
    if (trace[now] !== null) plot.mark(moments[now], trace[now], key, SCHEMES[key].shape, 5);
  }
  const said = Object.entries(schemes).map(([key, { trace }]) => `${SCHEMES[key].name} ${written(trace[now])}`);
  describe("trace", `Trace of the Hessian at step ${k}: ${said.join(", ")}.`);
}

/** Write the names at the right end of the curves, none over another. */
function names(plot, schemes, most, eta) {
  const ends = Object.entries(schemes).map(([key, { trace }]) => [SCHEMES[key].short, key, trace.at(-1) ?? most]);
  const edge = 2 / eta < most ? [["2/η", "soft", 2 / eta]] : [];
  let lowest = -Infinity;
  for (const [text, colour, end] of [...ends, ...edge].sort((a, b) => b[2] - a[2])) {
    lowest = Math.max(plot.py(Math.min(end, most)) + 4, lowest + 15);
    plot.label(text, plot.box.right + 6, lowest, { colour, weight: 650 });
  }
}

const latest = (moments, k) => moments.findLastIndex((moment) => moment <= k);

/** The two wells with walkers of one noise on them; with MPGD also the loss in a phase. */
export function drawWell({ moments, grid, loss, force, schemes }, key, k) {
  const plot = plots[`wells-${key}`];
  const { name, short } = WELLS[key];
  const now = latest(moments, k);
  const [first, last] = [grid[0], grid.at(-1)];
  const narrow = plot.canvas.clientWidth < 170;
  const axis = key === "mpgd" ? { yName: "loss R", left: narrow ? 34 : 40 } : { left: 12, yTicks: false };
  plot.begin({ x: [first, last], y: [-1.6, 3], xName: "x", title: narrow ? short : name, ...axis });
  const height = (x) => {
    const place = ((x - first) / (last - first)) * (grid.length - 1);
    const i = Math.min(Math.max(Math.floor(place), 0), grid.length - 2);
    return loss[i] + (place - i) * (loss[i + 1] - loss[i]);
  };
  plot.clipped(() => {
    plot.line([0, 0], [-1.6, 3], { colour: "grid", width: 1 });
    if (key === "mpgd") {
      for (const chi of [-1, 1]) {
        const tilted = loss.map((r, i) => r - chi * force * grid[i]);
        plot.line(grid, tilted, { colour: "quiet", width: 1.2, dash: [5, 4], alpha: 0.7 });
      }
    }
    plot.line(grid, loss, { colour: "ink", width: 2 });
    plot.style(key, 1, 0.6);
    schemes[key].x[now].forEach((x, i) => {
      if (x === null) return;
      const inside = Math.min(Math.max(x, first), last);
      plot.pen.beginPath();
      plot.pen.arc(plot.px(inside), plot.py(height(inside)) - 4 - 4 * (i % 4), 3, 0, 2 * Math.PI);
      plot.pen.fill();
    });
    plot.pen.globalAlpha = 1;
  });
  const share = `${Math.round(100 * schemes[key].wide[now])} %`;
  const look = { colour: key, align: "center", weight: 700, size: narrow ? 11 : 14 };
  plot.label(share, plot.px(1.7), plot.box.bottom - 10, look);
  plot.label(`${100 - Math.round(100 * schemes[key].wide[now])} %`, plot.px(-0.5), plot.box.bottom - 10, look);
  describe(`wells-${key}`, `${name}: ${share} of the walkers are in the wide well at step ${moments[now]}.`);
}

/** The slope with the band of the force: what lies beyond stops every phase. */
export function drawSlope({ grid, slope, force, slopes: [wide, narrow] }) {
  const plot = plots.slope;
  const [first, last] = [grid[0], grid.at(-1)];
  const reach = 1.15 * Math.max(narrow, Math.min(force, 8));
  plot.begin({ x: [first, last], y: [-reach, reach], xName: "x", yName: "slope of R", left: 40 });
  plot.clipped(() => {
    plot.rectangle(first, -force, last, force, { colour: "quiet", alpha: 0.14 });
    plot.line([first, last], [0, 0], { colour: "soft", width: 1 });
    for (const side of [-1, 1]) plot.line([first, last], [side * force, side * force], { colour: "quiet" });
    plot.line(grid, slope, { colour: "ink", width: 2 });
    for (const [inside, top] of [[(x) => x > -0.5 && x < 0, narrow], [(x) => x > 0 && x < 1.5, wide]]) {
      if (top <= force) continue;
      const stops = grid.map((x, i) => (inside(x) && Math.abs(slope[i]) > force ? slope[i] : null));
      plot.line(grid, stops, { colour: "burst", width: 4 });
    }
  });
  plot.label("+F", plot.box.right - 24, plot.py(force) + (force > 0.9 * reach ? 14 : -5), { colour: "quiet", weight: 700 });
  const held = force > narrow ? "no well" : force > wide ? "the narrow well" : "both wells";
  const corner = { colour: "burst", align: "right", weight: 700 };
  plot.label(`holds: ${held}`, plot.box.right - 8, plot.box.bottom - 10, corner);
  describe("slope", `Slopes up to ${written(narrow)} and ${written(wide)}; a force of ${written(force)} is held by ${held}.`);
}

/** The share of walkers in the wide well over time. */
export function drawShare({ moments, schemes }, k) {
  const plot = plots.share;
  const end = moments.at(-1);
  plot.begin({ x: [0, end], y: [0, 1], xName: "step k", yName: "share in the wide well", left: 58, right: 76 });
  const now = latest(moments, k);
  plot.clipped(() => {
    plot.line([0, end], [0.5, 0.5], { colour: "soft", width: 1, dash: [2, 4] });
    for (const [key, { wide }] of Object.entries(schemes)) {
      plot.line(moments, wide, { colour: key, width: 1, alpha: 0.35 });
      plot.line(moments, wide, { colour: key, width: 2.4, last: now + 1 });
    }
    plot.line([k, k], [0, 1], { colour: "soft", width: 1 });
  });
  let lowest = -Infinity;
  for (const [key, { wide }] of Object.entries(schemes).sort((a, b) => b[1].wide.at(-1) - a[1].wide.at(-1))) {
    lowest = Math.max(plot.py(wide.at(-1)) + 4, lowest + 15);
    plot.label(WELLS[key].short, plot.box.right + 6, lowest, { colour: key, weight: 650 });
  }
  const said = Object.entries(schemes).map(([key, { wide }]) => `${WELLS[key].name} ${Math.round(100 * wide[now])} %`);
  describe("share", `Share of walkers in the wide well at step ${k}: ${said.join(", ")}.`);
}
