// The lab: settings go out, numbers come back, panels draw them, time runs.

import { DEFAULTS, build, enter, read, reset, show } from "./controls.js";
import { SCHEMES, WELLS, drawLand, drawWells } from "./landscapes.js";
import * as panels from "./panels.js";
import { written } from "./plot.js";
import { save } from "./save.js";
import { numbersOf, queryOf } from "./source.js";

const SHOWN_IN = { wells: ["descent"], descent: ["descent"], orbit: ["orbit", "perturbation"], sums: ["sums"] }; // sections
const DEBOUNCE = 40; // milliseconds
const LENGTH = 14; // seconds a whole run plays at speed 1
const still = matchMedia("(prefers-reduced-motion: reduce)");
const byId = (id) => document.getElementById(id);

const settings = { ...DEFAULTS };
const data = {}; // the last answer of each source
const clock = { k: 0, playing: false, last: 0 };

// Settings -------------------------------------------------------------------------------------

function change(name, value) {
  if (name === "landscape") enter(settings, value);
  else settings[name] = value;
  settingsChanged();
}

function settingsChanged() {
  show(settings, laminar());
  history.replaceState(null, "", `#${new URLSearchParams(settings)}`);
  clearTimeout(settingsChanged.timer);
  settingsChanged.timer = setTimeout(() => wanted().forEach(ask), DEBOUNCE);
  words();
  draw(); // another landscape may be known already
  dim();
}

/** Return the value of a laminar step, if it is known for this gamma. */
const laminar = () => (data.orbit?.gamma === settings.gamma ? data.orbit.laminar_value : undefined);

/** Return the sources of what is shown. */
const wanted = () => [settings.landscape === "wells" ? "wells" : "descent", "orbit", "sums"];

// Numbers: one question at a time to each source; only the newest is asked again ------------------

const asking = {};

async function ask(source) {
  const given = { ...settings };
  const query = queryOf(source, given);
  const state = (asking[source] ??= { busy: false, answered: "", drawn: "", problem: "" });
  if (!wanted().includes(source) || state.busy || state.answered === query) return;
  state.busy = true;
  busy();
  try {
    data[source] = { ...(await numbersOf(source, given)), eta: given.eta, gamma: given.gamma };
    Object.assign(state, { drawn: query, problem: "" });
    received();
  } catch (problem) {
    state.problem = problem.message;
  }
  Object.assign(state, { busy: false, answered: query });
  complain();
  dim();
  busy();
  ask(source); // the settings may have moved on
}

function busy() {
  const any = Object.values(asking).some((state) => state.busy);
  byId("panels").setAttribute("aria-busy", String(any));
}

/** Dim the pictures that are not those of the settings: older ones, until the new ones are there. */
function dim() {
  for (const source of wanted()) {
    const old = asking[source]?.drawn !== queryOf(source, settings);
    for (const section of SHOWN_IN[source]) byId(section).toggleAttribute("data-waiting", old);
  }
}

function complain() {
  const text = wanted().map((source) => asking[source]?.problem).find(Boolean) ?? "";
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
  show(settings, laminar());
  words();
  draw();
}

// Words ------------------------------------------------------------------------------------------

function words() {
  const { orbit, sums, descent, wells } = data;
  if (orbit) byId("values").innerHTML = valueWords(orbit);
  if (sums) byId("law").innerHTML = lawWords(sums);
  if (descent) landWords(descent);
  if (wells) byId("force-words").innerHTML = forceWords(wells);
  byId("code").textContent = code();
}

function forceWords({ force, slopes: [wide, narrow], leaves, sigma, schemes, count }) {
  const can = force > narrow ? "both" : force > wide ? "the wide one only" : "neither";
  const rate = (x) => (x ? written(x, 2) : "0");
  const often = Object.entries(leaves).map(([key, [a, b]]) => `${WELLS[key].short} ${rate(a)} and ${rate(b)}`);
  const ends = Object.entries(schemes).map(([key, { wide: now }]) =>
    `${WELLS[key].short} <b>${Math.round(100 * now.at(-1))} %</b>`);
  return `Here <i>F</i> = <b>${written(force)}</b>, <i>σ</i> = ${written(sigma)}: a phase leaves <b>${can}</b> (exits by one phase, per unit
    of time, from the wide and the narrow well: ${often.join("; ")}). Of ${count} walkers each, in the wide well at the end: ${ends.join(", ")}.`;
}

function valueWords({ laminar_value: laminar, burst_value: burst, burst_probability: share }) {
  return `Here a phase has the value <b>±${written(laminar)}</b>, a burst <b>∓${written(-burst)}</b>, and
    <b>${Math.round(100 * share)} %</b> of all steps are bursts.
    A telegraph is <b>±${written(laminar)}</b> at every step, and coloured noise as large in the root mean square.`;
}

function lawWords({ limit_alpha: alpha, limit_beta: beta, distance, perfect }) {
  return `Its limit is the stable law X(<i>α</i> = <b>${written(alpha)}</b>, <i>β</i> = <b>${written(beta)}</b>);
    the sums are <b>${written(distance, 2)}</b> from it (Kolmogorov; exact draws ${written(perfect, 2)}).`;
}

const LANDS = {
  valley: {
    words: `The loss is <span class="formula"><i>ℓ</i>(<i>u</i>, <i>v</i>) = <i>v</i>²|<i>u</i>|²/2</span> with <i>u</i> in ten
      dimensions: a valley along <i>v</i> = 0, flatter towards <i>u</i> = 0. The paper says that MPGD finds the flat end.`,
    curve: 'Trace of the Hessian, <span class="formula">10 <i>v</i>² + |<i>u</i>|²</span>: lower is flatter',
    note: `Dotted: |<i>u</i>|² = 2/<i>η</i>; above it a step across the valley overshoots, and the swings throw <i>x</i> back down.`,
    watched: "trace",
  },
  rastrigin: {
    words: `Rastrigin’s function divided by 20, <span class="formula">Σ <i>x</i><sub><i>i</i></sub>²/20 + (1 − cos 2π<i>x</i><sub><i>i</i></sub>)/2</span>:
      wells one apart in a shallow bowl, the lowest at 0. The walls have slopes of π and little more. Phases of a lesser force cross none;
      those of a greater force cross many, along one axis, and stop only far out.`,
    curve: "Loss: 0 at the lowest minimum",
    note: "",
    watched: "loss",
  },
};

/** Return whether the dotted line at |u|² = 2/η is in view: from above, or over time. */
const isEdgeSeen = ({ eta, top, view }) => 2 / eta < Math.max(top, view.up[1] ** 2);

function landWords(land) {
  const { landscape, schemes, runs } = land;
  const { words: about, curve, note, watched } = LANDS[landscape];
  const parts = Object.entries(schemes);
  const said = (value) => (value === null ? "ran off" : written(value));
  const ends = parts.map(([key, { quartiles }]) => `${SCHEMES[key].short} <b>${said(quartiles[1].at(-1))}</b>`);
  const lost = parts.filter(([, { gone }]) => gone).map(([key, { gone, off }]) =>
    ` <b class="lost">${SCHEMES[key].short}: ${gone} of ${runs} runs ran off${off === null ? "" : `, the one drawn at step ${written(off)}`}.</b>`);
  byId("land-words").innerHTML = about;
  byId("curve-title").innerHTML = curve;
  byId("land-note").innerHTML = isEdgeSeen(land) ? note : "";
  byId("runs").textContent = runs;
  byId("verdict").innerHTML = `Here, the median ${watched} of ${runs} runs at the end: ${ends.join(", ")}.${lost.join("")}`;
}

function code() {
  const { gamma, beta, seed, steps, scheme, dwell, eta, force, decay } = settings;
  const signs = scheme === "product" ? ', signs="product"' : "";
  const twins = scheme === "symmetric";
  const values = twins
    ? `v, w = noise.path(${steps}, (2,), seed=${seed}).T   # panel 3 shows v - w, every digit of it
x = noise.birkhoff(${steps}, 20_000, seed=${seed})   # panel 4 shows x[0::2] - x[1::2]`
    : `v = noise.path(${steps}, seed=${seed})   # panel 3, every digit of it
x = noise.birkhoff(${steps}, 10_000, seed=${seed})   # panel 4`;
  return `import mpgd

noise = mpgd.ChaoticNoise(gamma=${gamma}, beta=${beta}${signs})
${values}

optimizer = mpgd.MPGD(model.parameters(), lr=${eta}, force=${force}, decay=${decay},
                      noise=noise${twins ? ", symmetric=True" : ""}, seed=${seed})
mpgd.levels(lr=${eta}, gamma=${gamma}, force=${force}, decay=${decay})   # as the paper's mu and sigma

telegraph = mpgd.TelegraphNoise(dwell=${dwell})   # panel 3 shows noise.laminar_value times
coloured = mpgd.noise.ColouredNoise(time=${dwell})   # their paths
optimizer = mpgd.MPGD(model.parameters(), lr=${eta}, force=${force}, decay=${decay},
                      noise=telegraph, seed=${seed})`;
}

// Time -------------------------------------------------------------------------------------------

function draw() {
  const k = Math.floor(clock.k);
  if (data.orbit) {
    panels.drawMap(data.orbit, k);
    panels.drawOrbit(data.orbit, k);
    panels.drawValues(data.orbit, k);
    panels.drawRivals(data.orbit, k);
    byId("time").value = k;
    byId("step").textContent = `step ${k.toLocaleString("en")} of ${data.orbit.v.length.toLocaleString("en")}`;
  }
  if (data.sums) {
    panels.drawSums(data.sums, k);
    panels.drawLaw(data.sums);
  }
  if (settings.landscape === "wells") {
    if (data.wells) drawWells(data.wells, k);
  } else if (data.descent?.landscape === settings.landscape) drawLand(data.descent, k);
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
  const passed = Math.max(0, now - clock.last) / 1000; // a frame may have begun before the click
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
    reset(settings);
    settingsChanged();
  });
  for (const button of document.querySelectorAll(".save")) {
    const section = button.closest("section");
    section.dataset.title = section.querySelector("h2").childNodes[1].textContent.trim();
    button.setAttribute("aria-label", `Save ${section.dataset.title} as a PNG file`);
    button.addEventListener("click", () => save(section, caption(), draw));
  }
  byId("copy").addEventListener("click", copy);
  byId("sliders").addEventListener("click", () => {
    const open = byId("controls").classList.toggle("open");
    byId("sliders").setAttribute("aria-expanded", String(open));
  });
  addEventListener("hashchange", () => {
    read(settings, location.hash.slice(1));
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

/** Return the settings as a line below a picture. */
function caption() {
  const { gamma, beta, dwell, eta, force, decay, seed, scheme, landscape } = settings;
  return `mpgd lab · ${landscape} · ${scheme} · γ ${gamma} · β ${beta} · τ ${dwell} · η ${eta} · F ${force} · M ${decay} · seed ${seed} · ${byId("step").textContent}`;
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

build(change, () => settings.landscape);
listen();
read(settings, location.hash.slice(1));
settingsChanged();
play(!still.matches);
if (still.matches) clock.k = Infinity; // the whole run at once
