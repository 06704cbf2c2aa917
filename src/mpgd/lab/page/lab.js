// The lab: settings go to the server, numbers come back, panels draw them, time runs.

import { DEFAULTS, SCHEMES, build, show } from "./controls.js";
import * as panels from "./panels.js";
import { written } from "./plot.js";

const NOISE = ["gamma", "beta", "seed", "steps", "scheme"];
const SOURCES = { orbit: NOISE, sums: NOISE, descent: [...NOISE, "mu", "sigma", "eta"], wells: [...NOISE, "eta", "force"] }; // what each depends on
const DEBOUNCE = 40; // milliseconds
const LENGTH = 14; // seconds a whole run plays at speed 1
const still = matchMedia("(prefers-reduced-motion: reduce)");
const byId = (id) => document.getElementById(id);

const settings = { ...DEFAULTS };
const data = {}; // the last answer of each source
const clock = { k: 0, playing: false, last: 0 };

// Settings -------------------------------------------------------------------------------------

function change(name, value) {
  settings[name] = value;
  settingsChanged();
}

function settingsChanged() {
  show(settings);
  history.replaceState(null, "", `#${new URLSearchParams(settings)}`);
  clearTimeout(settingsChanged.timer);
  settingsChanged.timer = setTimeout(() => Object.keys(SOURCES).forEach(ask), DEBOUNCE);
}

/** Take settings from the address; the server judges the numbers. */
function readAddress() {
  for (const [name, text] of new URLSearchParams(location.hash.slice(1))) {
    if (!(name in DEFAULTS)) continue;
    if (name === "scheme") settings.scheme = SCHEMES.includes(text) ? text : DEFAULTS.scheme;
    else if (text !== "" && Number.isFinite(+text)) settings[name] = +text;
  }
}

// Numbers: one question at a time to each source; only the newest is asked again ------------------

const asking = {};

async function ask(source) {
  const query = String(new URLSearchParams(SOURCES[source].map((name) => [name, settings[name]])));
  const state = (asking[source] ??= { busy: false, answered: "" });
  if (state.busy || state.answered === query) return;
  state.busy = true;
  busy();
  const patience = setTimeout(() => byId("panels").toggleAttribute("data-waiting", true), 600);
  try {
    const answer = await fetch(`api/${source}?${query}`);
    const numbers = await answer.json();
    if (!answer.ok) throw new Error(numbers.error);
    data[source] = { ...numbers, eta: +new URLSearchParams(query).get("eta") };
    complain("");
    received();
  } catch (problem) {
    const silent = problem instanceof TypeError; // what fetch throws when nobody listens
    complain(silent ? "The server does not answer. Is `mpgd lab` still running?" : problem.message);
  }
  clearTimeout(patience);
  byId("panels").toggleAttribute("data-waiting", false);
  Object.assign(state, { busy: false, answered: query });
  busy();
  ask(source); // the settings may have moved on
}

function busy() {
  const any = Object.values(asking).some((state) => state.busy);
  byId("panels").setAttribute("aria-busy", String(any));
}

function complain(text) {
  byId("problem").textContent = text;
  byId("problem").hidden = !text;
}

/** Keep the place in time when the number of steps changes; at the end stay at the end. */
function received() {
  const steps = data.orbit?.v.length;
  if (!steps) return;
  const atEnd = +byId("time").value >= +byId("time").max;
  byId("time").max = steps;
  clock.k = atEnd && !clock.playing && received.before ? steps : Math.min(clock.k, steps);
  received.before = true;
  words();
  draw();
}

// Words ------------------------------------------------------------------------------------------

function words() {
  const { orbit, sums, descent, wells } = data;
  if (orbit) byId("values").innerHTML = valueWords(orbit);
  if (sums) byId("law").innerHTML = lawWords(sums);
  if (descent) byId("verdict").innerHTML = verdict(descent);
  if (wells) byId("force-words").innerHTML = forceWords(wells);
  byId("code").textContent = code();
}

function forceWords({ force, slopes: [wide, narrow], leaves, sigma, schemes, count }) {
  const can = force > narrow ? "both" : force > wide ? "the wide one only" : "neither";
  const rate = (x) => (x ? written(x, 2) : "0");
  const often = leaves ? ` (per unit of time, by one phase: wide ${rate(leaves[0])}, narrow ${rate(leaves[1])})` : "";
  const ends = Object.entries(schemes).map(([key, { wide: now }]) =>
    `${panels.WELLS[key].short} <b>${Math.round(100 * now.at(-1))} %</b>`);
  return `Here <i>F</i> = <b>${written(force)}</b>, <i>σ</i> = ${written(sigma)}: a phase leaves <b>${can}</b>${often}.
    Of ${count} walkers each, in the wide well at the end: ${ends.join(", ")}.`;
}

function valueWords({ laminar_value: quiet, burst_value: burst, burst_probability: share }) {
  return `Here quiet is <b>±${written(quiet)}</b>, burst <b>∓${written(-burst)}</b>, and
    <b>${Math.round(100 * share)} %</b> of all steps are in bursts.`;
}

function lawWords({ limit, limit_alpha: alpha, limit_beta: beta, distance, perfect }) {
  if (!limit) return "For <i>γ</i> above 0.952 its density is not computed.";
  return `Its limit is the stable law X(<i>α</i> = <b>${written(alpha)}</b>, <i>β</i> = <b>${written(beta)}</b>);
    the sums are <b>${written(distance, 2)}</b> from it (Kolmogorov; exact draws ${written(perfect, 2)}).`;
}

function verdict({ schemes, runs }) {
  const medians = Object.entries(schemes).map(([key, { quartiles }]) => [key, quartiles[1].at(-1)]);
  const said = (value) => (value === null ? "ran off" : written(value));
  const text = medians.map(([key, value]) => `${panels.SCHEMES[key].short} <b>${said(value)}</b>`).join(", ");
  byId("runs").textContent = runs;
  return `Here, the median trace of ${runs} runs at the end: ${text}.`;
}

function code() {
  const { gamma, beta, seed, steps, scheme, eta, mu, sigma, force } = settings;
  const signs = scheme === "product" ? ', signs="product"' : "";
  const twins = scheme === "symmetric";
  const values = twins
    ? `v, w = noise.path(${steps}, (2,), seed=${seed}).T   # panel 2 shows v - w, every digit of it
x = noise.birkhoff(${steps}, 20_000, seed=${seed})   # panel 3 shows x[0::2] - x[1::2]`
    : `v = noise.path(${steps}, seed=${seed})   # panel 2, every digit of it
x = noise.birkhoff(${steps}, 10_000, seed=${seed})   # panel 3`;
  return `import mpgd

noise = mpgd.ChaoticNoise(gamma=${gamma}, beta=${beta}${signs})
${values}

optimizer = mpgd.MPGD(model.parameters(), lr=${eta}, mu=${mu}, sigma=${sigma},
                      gamma=${gamma}, beta=${beta}${signs}${twins ? ", symmetric=True" : ""}, seed=${seed})
mpgd.levels(lr=${eta}, gamma=${gamma}, force=${force}).sigma   # of panel 5`;
}

// Time -------------------------------------------------------------------------------------------

function draw() {
  const k = Math.floor(clock.k);
  if (data.orbit) {
    panels.drawMap(data.orbit, k);
    panels.drawOrbit(data.orbit, k);
    panels.drawValues(data.orbit, k);
    byId("time").value = k;
    byId("step").textContent = `step ${k.toLocaleString("en")} of ${data.orbit.v.length.toLocaleString("en")}`;
  }
  if (data.sums) {
    panels.drawSums(data.sums, k);
    panels.drawLaw(data.sums);
  }
  if (data.descent) {
    for (const key of Object.keys(panels.SCHEMES)) panels.drawValley(data.descent, key, k, data.descent.eta);
    panels.drawTrace(data.descent, k, data.descent.eta);
  }
  if (data.wells) {
    for (const key of Object.keys(panels.WELLS)) panels.drawWell(data.wells, key, k);
    panels.drawSlope(data.wells);
    panels.drawShare(data.wells, k);
  }
}

function play(on) {
  const end = +byId("time").max;
  if (on && clock.k >= end) clock.k = 0;
  Object.assign(clock, { playing: on, last: performance.now() });
  byId("play").setAttribute("aria-label", on ? "Pause" : "Play");
  byId("play").querySelector("path").setAttribute("d", on ? "M5 4h5v16H5zM14 4h5v16h-5z" : "M7 3.5v17l14-8.5z");
  if (on) requestAnimationFrame(tick);
}

function tick(now) {
  if (!clock.playing) return;
  const passed = (now - clock.last) / 1000;
  if (!still.matches || passed > 0.5) { // who asks for no motion gets two pictures a second
    const end = +byId("time").max;
    clock.k = Math.min(end, clock.k + (Math.min(passed, 1) * end * +byId("speed").value) / LENGTH);
    clock.last = now;
    draw();
    if (clock.k >= end) return void play(false);
  }
  requestAnimationFrame(tick);
}

// The page ---------------------------------------------------------------------------------------

function listen() {
  byId("play").addEventListener("click", () => play(!clock.playing));
  byId("time").addEventListener("input", () => {
    play(false);
    clock.k = +byId("time").value;
    draw();
  });
  byId("reset").addEventListener("click", () => {
    Object.assign(settings, DEFAULTS);
    settingsChanged();
  });
  byId("copy").addEventListener("click", copy);
  byId("sliders").addEventListener("click", () => {
    const open = byId("controls").classList.toggle("open");
    byId("sliders").setAttribute("aria-expanded", String(open));
  });
  addEventListener("hashchange", () => {
    readAddress();
    settingsChanged();
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches?.("input, select, button, pre");
    if (event.key !== " " || typing) return;
    event.preventDefault();
    play(!clock.playing);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  new ResizeObserver(draw).observe(byId("panels"));
}

async function copy() {
  try {
    await navigator.clipboard.writeText(location.href);
    byId("copy").textContent = "Copied";
  } catch {
    byId("copy").textContent = "Copy it from the address bar";
  }
  setTimeout(() => { byId("copy").textContent = "Copy link"; }, 2000);
}

build(change);
listen();
readAddress();
settingsChanged();
play(!still.matches);
if (still.matches) clock.k = Infinity; // the whole run at once
