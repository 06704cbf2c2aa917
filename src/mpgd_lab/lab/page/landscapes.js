// The panels of the descent: two wells from the side, valley and Rastrigin from above.

import { colour, describe, plots, written } from "./plot.js";

const NOISES = {
  mpgd: { name: "MPGD", short: "MPGD", shape: "diamond" },
  telegraph: { name: "Telegraph noise", short: "telegraph", shape: "disc" },
  coloured: { name: "Coloured noise", short: "coloured", shape: "square" },
  gaussian: { name: "Gaussian noise", short: "Gaussian", shape: "square" },
};
const { mpgd, telegraph, coloured, gaussian } = NOISES;
export const SCHEMES = { gd: { name: "Gradient descent", short: "GD", shape: "disc" }, gaussian, coloured, telegraph, mpgd };
export const WELLS = { ...NOISES, stable: { name: "Stable noise", short: "stable" } };
const PHASED = ["mpgd", "telegraph"]; // noises with a constant push while a phase lasts

const AXES = { valley: ["v", "|u|"], rastrigin: ["x₁", "x₂"] };
const CURVES = { valley: "trace", rastrigin: "loss" };
const latest = (moments, k) => moments.findLastIndex((moment) => moment <= k);

/** Return whether a canvas is the first of its row, which has the axis. */
const leads = ({ offsetLeft, parentElement }) => offsetLeft === parentElement.firstElementChild.offsetLeft;

/** Draw the walkers of all noises, their shares, and the slopes. */
export function drawWells(wells, k) {
  for (const key of Object.keys(WELLS)) drawWell(wells, key, k);
  drawSlope(wells);
  drawShare(wells, k);
}

/** Draw the way of each scheme from above, and the curve of what is watched. */
export function drawLand(land, k) {
  for (const key of Object.keys(SCHEMES)) drawWay(land, key, k);
  drawCurve(land, k);
}

/** Say in a panel that something went wrong there. */
function alarm(plot, ...lines) {
  const middle = { colour: "alarm", align: "center", weight: 700 };
  lines.forEach((text, i) => plot.label(text, (plot.box.left + plot.box.right) / 2, plot.box.top + 18 + 16 * i, middle));
}

/** A landscape from above with the way of one scheme. */
function drawWay(land, key, k) {
  const { landscape, moments, view, schemes, eta } = land;
  const plot = plots[key];
  const { name, short, shape } = SCHEMES[key];
  const { across, up, off } = schemes[key];
  const narrow = plot.canvas.clientWidth < 170;
  const [xName, yName] = AXES[landscape];
  const axis = leads(plot.canvas) ? { yName, left: narrow ? 34 : 40 } : { left: 12, yTicks: false };
  plot.begin({ x: view.across, y: view.up, xName, title: narrow ? short : name, ...axis });
  const now = latest(moments, k);
  plot.clipped(() => {
    if (land.profile) plot.image(relief(land, plot));
    else valley(plot, view, eta);
    plot.line(across, up, { colour: key, width: 1.4, alpha: 0.65, last: now + 1 });
    plot.line(across, up, { colour: key, width: 2.4, first: now - 60, last: now + 1 });
  });
  const alive = across.slice(0, now + 1).findLastIndex((x) => x !== null);
  if (off !== null && moments[now] >= off) alarm(plot, narrow ? "ran off," : `ran off at step ${written(off)}`, narrow ? `step ${written(off)}` : "");
  else plot.mark(across[alive], up[alive], key, shape, 7);
  const place = `${yName} is ${written(up[alive])}, ${xName} is ${written(across[alive])}`;
  const end = off === null ? "" : ` It runs off at step ${off}.`;
  describe(key, `${name}: ${place} at step ${moments[alive]}.${end}`);
}

/** Fill |v| < sqrt(2 c) / |u| for a ladder of losses c, the lowest last. */
function valley(plot, { across: [, width], up: [, height] }, eta) {
  plot.rectangle(-width, 0, width, height, { colour: "hill", alpha: 0.5 });
  const top = (width * height) ** 2 / 2;
  const us = Array.from({ length: 61 }, (_, i) => Math.max(1e-6, (height * i) / 60));
  for (const part of [0.36, 0.16, 0.06, 0.02, 0.005, 0.0008]) {
    const sides = us.map((u) => Math.min(Math.sqrt(2 * part * top) / u, 2 * width));
    const outline = [[...sides, ...sides.map((x) => -x).reverse()], [...us, ...us.toReversed()]];
    plot.area(...outline, { colour: "floor", alpha: 0.34 });
  }
  const edge = Math.sqrt(2 / eta);
  plot.line([-width, width], [edge, edge], { colour: "soft", width: 1, dash: [2, 4] });
}

/** Return a picture of a loss whose coordinates add up: the bluer the higher. */
function relief({ profile: { loss } }, plot) {
  const shade = colour("hill");
  if (relief.of === loss && relief.shade === shade) return relief.image;
  const size = loss.length;
  const canvas = Object.assign(document.createElement("canvas"), { width: size, height: size });
  const pen = canvas.getContext("2d");
  pen.fillStyle = shade;
  const most = 1 + Math.max(...loss);
  for (let i = 0; i < size; i += 1) {
    for (let j = 0; j < size; j += 1) {
      pen.globalAlpha = 0.5 * Math.min(1, (loss[i] + loss[j]) / most) ** 0.8;
      pen.fillRect(i, size - 1 - j, 1, 1);
    }
  }
  Object.assign(relief, { of: loss, shade, image: canvas });
  return canvas;
}

/** What is watched over time: one run, and the quartiles of many. */
function drawCurve({ landscape, moments, schemes, top, eta }, k) {
  const plot = plots.curve;
  const end = moments.at(-1);
  plot.begin({ x: [0, end], y: [0, top], xName: "step k", yName: CURVES[landscape], left: 50, right: 80 });
  const now = latest(moments, k);
  plot.clipped(() => {
    for (const [key, { watched, quartiles }] of Object.entries(schemes)) {
      const [low, middle, high] = quartiles;
      const lost = low.findIndex((x, i) => x === null || high[i] === null);
      const cut = lost < 0 ? moments.length : lost;
      const xs = moments.slice(0, cut);
      const ys = [...low.slice(0, cut), ...high.slice(0, cut).reverse()];
      plot.area([...xs, ...xs.toReversed()], ys, { colour: key, alpha: 0.13 });
      plot.line(moments, middle, { colour: key, width: 1.5, dash: [6, 4], alpha: 0.8 });
      plot.line(moments, watched, { colour: key, width: 1, alpha: 0.35 });
      plot.line(moments, watched, { colour: key, width: 2.4, last: now + 1 });
    }
    if (landscape === "valley") plot.line([0, end], [2 / eta, 2 / eta], { colour: "soft", width: 1, dash: [2, 4] });
    plot.line([k, k], [0, top], { colour: "soft", width: 1 });
  });
  const edge = landscape === "valley" && 2 / eta < top ? [["2/η", "soft", 2 / eta]] : [];
  const ends = Object.entries(schemes).map(([key, { watched }]) => [SCHEMES[key].short, key, watched.at(-1) ?? top]);
  names(plot, [...ends, ...edge], top);
  for (const [key, { watched }] of Object.entries(schemes)) {
    if (watched[now] !== null && watched[now] <= top) plot.mark(moments[now], watched[now], key, SCHEMES[key].shape, 5);
  }
  const said = Object.entries(schemes).map(([key, { watched }]) => `${SCHEMES[key].name} ${written(watched[now])}`);
  describe("curve", `${CURVES[landscape]} at step ${k}: ${said.join(", ")}.`);
}

/** Write names at the right end of curves, none over another. */
function names(plot, ends, most) {
  const sorted = ends.sort((a, b) => b[2] - a[2]);
  const places = [];
  for (const [, , end] of sorted) places.push(Math.max(plot.py(Math.min(end, most)) + 4, (places.at(-1) ?? -Infinity) + 15));
  sorted.forEach(([text, colour], i) => { // what would stand below the frame moves up, and all above it
    const highest = plot.box.bottom + 4 - 15 * (sorted.length - 1 - i);
    plot.label(text, plot.box.right + 6, Math.min(places[i], highest), { colour, weight: 650 });
  });
}

/** The two wells with walkers of one noise on them; with phases also the loss in one. */
function drawWell({ moments, grid, loss, force, schemes, count }, key, k) {
  const plot = plots[`wells-${key}`];
  const { name, short } = WELLS[key];
  const now = latest(moments, k);
  const [first, last] = [grid[0], grid.at(-1)];
  const narrow = plot.canvas.clientWidth < 170;
  const axis = leads(plot.canvas) ? { yName: "loss R", left: narrow ? 34 : 40 } : { left: 12, yTicks: false };
  plot.begin({ x: [first, last], y: [-1.6, 3], xName: "x", title: narrow ? short : name, ...axis });
  const height = (x) => {
    const place = ((x - first) / (last - first)) * (grid.length - 1);
    const i = Math.min(Math.max(Math.floor(place), 0), grid.length - 2);
    return loss[i] + (place - i) * (loss[i + 1] - loss[i]);
  };
  plot.clipped(() => {
    plot.line([0, 0], [-1.6, 3], { colour: "grid", width: 1 });
    if (PHASED.includes(key)) {
      for (const chi of [-1, 1]) {
        const tilted = loss.map((r, i) => r - chi * force * grid[i]);
        plot.line(grid, tilted, { colour: "laminar", width: 1.2, dash: [5, 4], alpha: 0.7 });
      }
    }
    plot.line(grid, loss, { colour: "ink", width: 2 });
    plot.style(key, 1, 0.6);
    schemes[key].x[now].forEach((x, i) => {
      if (x === null) return;
      if (x < first || x > last) return plot.pointer(x < first ? -1 : 1, 4 + 7 * (i % 8));
      plot.pen.beginPath();
      plot.pen.arc(plot.px(x), plot.py(Math.min(height(x), 2.8)) - 4 - 4 * (i % 4), 3, 0, 2 * Math.PI);
      plot.pen.fill();
    });
    plot.pen.globalAlpha = 1;
  });
  const [gone, earliest] = schemes[key].off;
  if (gone && moments[now] >= earliest) alarm(plot, `${gone} of ${count} ran off,`, `from step ${written(earliest)} on`);
  const share = `${Math.round(100 * schemes[key].wide[now])} %`;
  const look = { colour: key, align: "center", weight: 700, size: narrow ? 11 : 14 };
  plot.label(share, plot.px(1.7), plot.box.bottom - 10, look);
  plot.label(`${100 - Math.round(100 * schemes[key].wide[now])} %`, plot.px(-0.5), plot.box.bottom - 10, look);
  describe(`wells-${key}`, `${name}: ${share} of the walkers are in the wide well at step ${moments[now]}.`);
}

/** The slope with the band of the force: what lies beyond stops every phase. */
function drawSlope({ grid, slope, force, slopes: [wide, narrow] }) {
  const plot = plots.slope;
  const [first, last] = [grid[0], grid.at(-1)];
  const reach = 1.15 * Math.max(narrow, Math.min(force, 8));
  plot.begin({ x: [first, last], y: [-reach, reach], xName: "x", yName: "slope of R", left: 40 });
  plot.clipped(() => {
    plot.rectangle(first, -force, last, force, { colour: "laminar", alpha: 0.14 });
    plot.line([first, last], [0, 0], { colour: "soft", width: 1 });
    for (const side of [-1, 1]) plot.line([first, last], [side * force, side * force], { colour: "laminar" });
    plot.line(grid, slope, { colour: "ink", width: 2 });
    for (const [inside, top] of [[(x) => x > -0.5 && x < 0, narrow], [(x) => x > 0 && x < 1.5, wide]]) {
      if (top <= force) continue;
      const stops = grid.map((x, i) => (inside(x) && Math.abs(slope[i]) > force ? slope[i] : null));
      plot.line(grid, stops, { colour: "burst", width: 4 });
    }
  });
  plot.label("+F", plot.box.right - 24, plot.py(force) + (force > 0.9 * reach ? 14 : -5), { colour: "laminar", weight: 700 });
  const held = force > narrow ? "no well" : force > wide ? "the narrow well" : "both wells";
  const corner = { colour: "burst", align: "right", weight: 700 };
  plot.label(`holds: ${held}`, plot.box.right - 8, plot.box.bottom - 10, corner);
  describe("slope", `Slopes up to ${written(narrow)} and ${written(wide)}; a force of ${written(force)} is held by ${held}.`);
}

/** The share of walkers in the wide well over time. */
function drawShare({ moments, schemes }, k) {
  const plot = plots.share;
  const end = moments.at(-1);
  plot.begin({ x: [0, end], y: [0, 1], xName: "step k", yName: "share in the wide well", left: 58, right: 80 });
  const now = latest(moments, k);
  plot.clipped(() => {
    plot.line([0, end], [0.5, 0.5], { colour: "soft", width: 1, dash: [2, 4] });
    for (const [key, { wide }] of Object.entries(schemes)) {
      plot.line(moments, wide, { colour: key, width: 1, alpha: 0.35 });
      plot.line(moments, wide, { colour: key, width: 2.4, last: now + 1 });
    }
    plot.line([k, k], [0, 1], { colour: "soft", width: 1 });
  });
  names(plot, Object.entries(schemes).map(([key, { wide }]) => [WELLS[key].short, key, wide.at(-1)]), 1);
  const said = Object.entries(schemes).map(([key, { wide }]) => `${WELLS[key].name} ${Math.round(100 * wide[now])} %`);
  describe("share", `Share of walkers in the wide well at step ${k}: ${said.join(", ")}.`);
}
