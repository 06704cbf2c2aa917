// The panels of the noise: each draws its part of the numbers up to step k.

import { WELLS } from "./landscapes.js";
import { describe, plots, written } from "./plot.js";

const WINDOW = 300; // steps shown of the orbit and of the perturbation
const COBWEB = 36; // steps of the cobweb

const windowed = (k) => [Math.max(0, k - WINDOW), Math.max(k, WINDOW)];

/** The graph of T with the last steps as a cobweb. */
export function drawMap({ y, branches, y_star: star }, k) {
  const plot = plots.map;
  plot.begin({ x: [0, 1], y: [0, 1], xName: "y now", yName: "y next", left: 40, headroom: true });
  plot.clipped(() => {
    plot.rectangle(star, 0, 1, 1, { colour: "burst" });
    plot.line([0, 1], [0, 1], { colour: "soft", width: 1, dash: [3, 4] });
    for (const [xs, ys] of branches) plot.line(xs, ys, { colour: "ink", width: 2 });
    const first = Math.max(0, k - COBWEB);
    for (let i = first; i < Math.min(k, y.length - 1); i += 1) {
      const look = { colour: y[i] > star ? "burst" : "laminar", alpha: 0.15 + (0.85 * (i - first)) / COBWEB };
      plot.line([y[i], y[i], y[i + 1]], [y[i], y[i + 1], y[i + 1]], look);
    }
  });
  const now = y[Math.min(k, y.length - 1)];
  plot.mark(now, now, now > star ? "burst" : "laminar");
  const middle = { colour: "burst", align: "center", weight: 700 };
  plot.label("Z", plot.px((1 + star) / 2), plot.box.top - 8, middle);
  describe("map", `Graph of the Thaler map with branch point ${written(star)}; the orbit is at ${written(now)}.`);
}

/** The last steps of the orbit over time. */
export function drawOrbit({ y, y_star: star }, k) {
  const plot = plots.orbit;
  const [first, last] = windowed(k);
  plot.begin({ x: [first, last], y: [0, 1], xName: "step k (last 300)", yName: "orbit y", left: 40, headroom: true });
  plot.clipped(() => {
    plot.rectangle(first, star, last, 1, { colour: "burst" });
    const faint = { colour: "soft", width: 1, alpha: 0.45, last: k - first };
    plot.line(range(first, last), y.slice(first, last), faint);
    dots(plot, y, first, Math.min(k, y.length), (i) => (y[i] > star ? "burst" : "laminar"));
  });
  plot.legend([["phase", "laminar"], ["burst, y > y* (shaded)", "burst"]]);
  describe("orbit", `Orbit over steps ${first} to ${k}.`);
}

function dots(plot, ys, first, last, name) {
  for (const wanted of ["laminar", "burst"]) {
    plot.style(wanted);
    for (let i = first; i < last; i += 1) {
      if (name(i) === wanted) plot.pen.fillRect(plot.px(i) - 1.25, plot.py(ys[i]) - 1.25, 2.5, 2.5);
    }
  }
}

const range = (first, last) => Array.from({ length: last - first }, (_, i) => first + i);

/** The last perturbations as sticks. */
export function drawValues(orbit, k) {
  const { y, y_star: star } = orbit;
  const plot = plots.values;
  const reach = sticks(plot, orbit, orbit.v, k, "MPGD", [["laminar", (i) => y[i] <= star], ["burst", (i) => y[i] > star]]);
  plot.legend([["phase", "laminar"], ["burst", "burst"]]);
  describe("values", `Perturbation up to step ${k}, between ${written(-reach)} and ${written(reach)}.`);
}

/** The same steps of the other noises, on the same axes. */
export function drawRivals(orbit, k) {
  for (const [key, values] of Object.entries(orbit.rivals)) {
    sticks(plots[`values-${key}`], orbit, values, k, WELLS[key].name, [[key, () => true]]);
    describe(`values-${key}`, `${WELLS[key].name} up to step ${k}.`);
  }
}

/** Draw values as sticks in the colours of those that a test takes, and return the reach of the axis that all noises share. */
function sticks(plot, orbit, values, k, title, colours) {
  const [first, last] = windowed(k);
  const all = () => [orbit.v, ...Object.values(orbit.rivals)].flat();
  const reach = (orbit.reach ??= 1.08 * all().reduce((most, value) => Math.max(most, Math.abs(value)), 0));
  const xName = plot === plots["values-gaussian"] ? "step k (last 300)" : "";
  plot.begin({ x: [first, last], y: [-reach, reach], xName, xTicks: Boolean(xName), yName: "v", title, left: 50 });
  plot.clipped(() => {
    const width = Math.max(1, (plot.box.right - plot.box.left) / WINDOW - 0.6);
    for (const [name, takes] of colours) {
      plot.style(name);
      for (let i = first; i < Math.min(k, values.length); i += 1) {
        const height = Math.max(1, Math.abs(plot.py(values[i]) - plot.py(0)));
        if (takes(i)) plot.pen.fillRect(plot.px(i), plot.py(Math.max(values[i], 0)), width, height);
      }
    }
    plot.line([first, last], [0, 0], { colour: "soft", width: 1 });
  });
  return reach;
}

/** Running sums of many orbits, ours in front. */
export function drawSums({ moments, running, edges }, k) {
  const plot = plots.sums;
  const steps = moments.at(-1);
  const reach = edges.at(-1);
  plot.begin({ x: [0, steps], y: [-reach, reach], xName: "step k of n", yName: "sum / nᵞ", left: 42, right: 0, headroom: true });
  const shown = moments.findLastIndex((moment) => moment <= k) + 1;
  plot.clipped(() => {
    const faint = { colour: "soft", width: 1, alpha: 0.28, last: shown };
    running.slice(1).forEach((path) => plot.line(moments, path, faint));
    plot.line([0, steps], [0, 0], { colour: "soft", width: 1 });
    plot.line(moments, running[0], { colour: "mpgd", width: 2.4, last: shown });
  });
  plot.legend([["the orbit above", "mpgd"], [`${running.length - 1} others`, "soft"]]);
  if (shown) plot.mark(moments[shown - 1], running[0][shown - 1], "mpgd", "diamond", 5);
  const now = written(running[0][Math.max(0, shown - 1)]);
  describe("sums", `Running sums of ${running.length} orbits; ours is at ${now} after ${k} steps.`);
}

/** The law of the sum at the end, sideways beside the running sums. */
export function drawLaw({ edges, density, grid, limit, count }) {
  const plot = plots.law;
  const reach = edges.at(-1);
  const most = 1.12 * Math.max(...density, ...(limit ?? [0]));
  plot.begin({ x: [0, most], y: [-reach, reach], xName: "density at k = n", left: 6, xTicks: false, yTicks: false, headroom: true });
  plot.clipped(() => {
    plot.style("mpgd", 1, 0.45);
    density.forEach((d, i) => {
      const top = plot.py(edges[i + 1]);
      plot.pen.fillRect(plot.px(0), top + 0.5, plot.px(d) - plot.px(0), Math.max(1, plot.py(edges[i]) - top - 1));
    });
    if (limit) plot.line(limit, grid, { colour: "law", width: 2.2 });
  });
  const [right, top] = [plot.box.right - 2, plot.box.top + 14]; // below a spike at the edge
  const key = { align: "right", weight: 600 };
  plot.label(`${written(count)} sums`, right, top + 12, { ...key, colour: "mpgd" });
  plot.label(limit ? "limit law" : "no limit density", right, top + 28, { ...key, colour: "law" });
  describe("law", `Histogram of ${count} normalised sums${limit ? " with the density of the limit law" : ""}.`);
}
