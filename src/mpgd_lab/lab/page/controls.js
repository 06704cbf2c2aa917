// The sliders: what they are called, where they end, and the formula beside each.

import { written } from "./plot.js";
import { either, stopsOf } from "./source.js";

// Where the sliders of a descent stand at first, and where they end. The valley's are the paper's.
export const LANDSCAPES = {
  wells: { start: { eta: 0.01, force: 2, decay: 0 }, force: [8, 0.05], decay: [0, 0.01] },
  valley: { start: { eta: 0.01, force: 0.211, decay: 0.0844 }, force: [2, 0.005], decay: [1, 0.002] },
  rastrigin: { start: { eta: 0.01, force: 3.5, decay: 0 }, force: [8, 0.05], decay: [2, 0.01] },
};
const ONES = Object.keys(LANDSCAPES.wells.start); // what each landscape has of its own

export const DEFAULTS = {
  gamma: 0.7, beta: 0.5, seed: 0, steps: 2000, dwell: 20, scheme: "plain", landscape: "wells", ...LANDSCAPES.wells.start,
};

const letter = (name) => `<i>${name}</i>`;
const [gamma, mu, sigma, eta] = ["γ", "μ", "σ", "η"].map(letter);
const unit = `<i>c</i><sub>0</sub> ${eta}<sup>${gamma}−1</sup>`;
const level = (s, size, c0) => (c0 ? ` = ${written(size / (c0 * s.eta ** (s.gamma - 1)), 2)}` : "");

// low, high: of the slider; least, most: of the number beside it, where these are wider; hint: shown when it is pointed at
const SLIDERS = [
  {
    group: "phase", name: "force", symbol: "F", title: "force", low: 0, high: 8, step: 0.05, most: 20,
    hint: "of a laminar phase, in units of the slope",
    formula: (s, c0) => `${sigma} = <i>F</i> / (${unit})${level(s, s.force, c0)}`,
  },
  {
    group: "phase", name: "decay", symbol: "M", title: "decay", low: 0, high: 1, step: 0.002, most: 20,
    hint: "of a laminar phase, in units of the curvature",
    formula: (s, c0) => s.landscape === "wells"
      ? "the wells have none"
      : `${mu} = <i>M</i> / (${unit})${level(s, s.decay, c0)}`,
  },
  {
    group: "phase", name: "eta", symbol: "η", title: "step size",
    low: -3, high: -1, step: 0.02, least: 1e-5, most: 1, logarithmic: true,
    formula: (s) => `${eta} = 1/<i>m</i>, <i>m</i> = ${written(1 / s.eta)} steps a unit of time`,
  },
  {
    group: "noise", name: "gamma", symbol: "γ", title: "tail",
    low: 0.51, high: 0.95, step: 0.01, least: 0.501, most: 0.99,
    formula: (s) => `tail index <i>α</i> = 1/${gamma} = ${written(1 / s.gamma)}`,
  },
  {
    group: "noise", name: "beta", symbol: "β", title: "skewness", low: -1, high: 1, step: 0.05,
    formula: (s) => `<i>χ</i> = +1 with probability (1+<i>β</i>)/2 = ${Math.round(50 * (1 + s.beta))} %`,
  },
  {
    group: "noise", name: "dwell", symbol: "τ", title: "dwell", low: 0, high: 3, step: 0.02, least: 1, most: 1000, logarithmic: true,
    hint: "mean steps of a telegraph phase; coloured noise forgets in as many",
  },
  { group: "noise", name: "steps", symbol: "n", title: "steps", low: 200, high: 8000, step: 100, least: 10, whole: true },
  { group: "noise", name: "seed", symbol: "", title: "seed", low: 0, high: 99, step: 1, most: 2 ** 32 - 1, whole: true },
];

const WORDS = {
  plain: "<i>v</i> = <i>χ</i> · <i>v</i>(<i>y</i>), and after each burst <i>χ</i> is drawn anew, apart from all before",
  symmetric: "the difference of two such drivers (2 shows the first orbit): a symmetric limit for any <i>β</i>",
  product: "as the paper prints it, each sign multiplies the last: <i>β</i> is forgotten, the limit symmetric",
};
const CHOICES = { scheme: Object.keys(WORDS), landscape: Object.keys(LANDSCAPES) };
const kept = {}; // where the sliders of a landscape stood when it was left

const wrong = {}; // what is said of numbers that cannot be taken, by the name of their slider

const toRange = ({ logarithmic }, value) => (logarithmic ? Math.log10(value) : value);
const fromRange = ({ logarithmic }, value) => (logarithmic ? +(10 ** value).toPrecision(2) : +value);

/** Return what is wrong with a number for a slider, or nothing. */
function problem({ name, title, low, high, least = low, most = high, whole }, value, landscape) {
  const stops = stopsOf(landscape, name);
  if (stops) return stops.includes(value) ? "" : `${title} must be ${either(stops)} on this page`;
  const kind = whole ? "a whole number " : "";
  const fits = value >= least && value <= most && (!whole || Number.isInteger(value));
  return fits ? "" : `${title} must be ${kind}from ${written(least)} to ${written(most)}`;
}

/** Build the sliders; `changed(name, value)` hears every move, and `landscape()` says which is shown. */
export function build(changed, landscape) {
  for (const slider of SLIDERS) {
    const { group, name, symbol, title, hint = "", low, high, step, least = low, most = high } = slider;
    const row = document.createElement("div");
    Object.assign(row, { className: "slider", title: hint });
    row.innerHTML = `<label for="${name}">${symbol && `<i>${symbol}</i>`}${title}</label>
      <input type="range" id="${name}" min="${low}" max="${high}" step="${step}" aria-describedby="${name}-formula">
      <input type="number" id="${name}-number" aria-label="${title}, exact" min="${least}" max="${most}" step="any">
      <p class="wrong" role="alert" hidden></p><p class="formula" id="${name}-formula"></p>`;
    document.getElementById(`${group}-sliders`).append(row);
    const [number, range] = [row.querySelector("[type=number]"), row.querySelector("[type=range]")];
    range.addEventListener("input", () => {
      const stops = stopsOf(landscape(), name);
      delete wrong[name];
      changed(name, stops ? stops[range.value] : fromRange(slider, range.value));
    });
    number.addEventListener("change", () => {
      wrong[name] = problem(slider, number.valueAsNumber, landscape());
      say(name);
      if (!wrong[name]) changed(name, number.valueAsNumber);
    });
    light(row, name);
  }
  for (const choice of Object.keys(CHOICES)) {
    for (const radio of document.querySelectorAll(`[name=${choice}]`)) {
      radio.addEventListener("change", () => changed(choice, radio.value));
    }
  }
}

/** Say below a slider what is wrong with the number beside it. */
function say(name) {
  const number = document.getElementById(`${name}-number`);
  const text = number.parentElement.querySelector(".wrong");
  number.setAttribute("aria-invalid", String(Boolean(wrong[name])));
  Object.assign(text, { textContent: wrong[name] ?? "", hidden: !wrong[name] });
}

const forgive = () => Object.keys(wrong).forEach((name) => delete wrong[name]);

/** Mark the parameter in the equation while its slider is in use. */
function light(row, name) {
  const letters = document.querySelectorAll(`.p-${name}`);
  const mark = (on) => letters.forEach((letter) => letter.classList.toggle("lit", on));
  for (const event of ["pointerenter", "focusin"]) row.addEventListener(event, () => mark(true));
  for (const event of ["pointerleave", "focusout"]) row.addEventListener(event, () => mark(false));
}

/** Go to a landscape: each has a force, a decay and a step of its own, as they were left. */
export function enter(settings, landscape) {
  forgive();
  kept[settings.landscape] = Object.fromEntries(ONES.map((name) => [name, settings[name]]));
  Object.assign(settings, { landscape }, kept[landscape] ?? LANDSCAPES[landscape].start);
}

/** Put everything back: the landscape that is shown stays. */
export function reset(settings) {
  forgive();
  for (const landscape of Object.keys(kept)) delete kept[landscape];
  const { landscape } = settings;
  Object.assign(settings, DEFAULTS, { landscape }, LANDSCAPES[landscape].start);
}

/** Take settings from the address; who has the numbers judges them. */
export function read(settings, hash) {
  forgive();
  const given = new URLSearchParams(hash);
  const choice = (name) => (CHOICES[name].includes(given.get(name)) ? given.get(name) : DEFAULTS[name]);
  if (given.has("landscape")) enter(settings, choice("landscape"));
  if (given.has("scheme")) settings.scheme = choice("scheme");
  for (const [name, text] of given) {
    if (typeof DEFAULTS[name] === "number" && text !== "" && Number.isFinite(+text)) settings[name] = +text;
  }
}

/** Show the settings on all controls; c0 is the value of a laminar step, once it is known. */
export function show(settings, c0) {
  const { landscape, scheme } = settings;
  for (const slider of SLIDERS) {
    const value = settings[slider.name];
    const range = document.getElementById(slider.name);
    const stops = stopsOf(landscape, slider.name);
    const [high, step] = LANDSCAPES[landscape][slider.name] ?? [slider.high, slider.step];
    const disabled = stops ? stops.length === 1 : high === 0;
    if (stops) Object.assign(range, { min: 0, max: stops.length - 1, step: 1, value: stops.indexOf(value), disabled });
    else Object.assign(range, { max: high, step, value: toRange(slider, value), disabled });
    range.setAttribute("aria-valuetext", written(value));
    const number = document.getElementById(`${slider.name}-number`);
    Object.assign(number, wrong[slider.name] ? { disabled } : { value, disabled });
    say(slider.name);
    document.getElementById(`${slider.name}-formula`).innerHTML = slider.formula?.(settings, c0) ?? "";
  }
  for (const radio of document.querySelectorAll("[name=scheme]")) {
    radio.disabled = !(stopsOf(landscape, "scheme") ?? CHOICES.scheme).includes(radio.value);
  }
  document.getElementById("no-server").hidden = !stopsOf(landscape, "scheme");
  for (const name of Object.keys(CHOICES)) {
    document.querySelector(`[name=${name}][value=${settings[name]}]`).checked = true;
  }
  document.getElementById("scheme-words").innerHTML = WORDS[scheme];
  document.documentElement.dataset.scheme = scheme; // the symmetric scheme has a colour of its own
  document.getElementById("wells").hidden = landscape !== "wells";
  document.getElementById("land").hidden = landscape === "wells";
}
