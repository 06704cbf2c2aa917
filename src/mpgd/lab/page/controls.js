// The sliders: what they are called, where they end, and the formula beside each.

import { written } from "./plot.js";

export const DEFAULTS = {
  gamma: 0.7, beta: 0.5, mu: 0.02, sigma: 0.05, eta: 0.01, seed: 0, steps: 2000, force: 2, scheme: "plain",
};

const level = (s, size) => written(size * s.eta ** s.gamma, 2);
const letter = (name) => `<i>${name}</i>`;
const [y, gamma, mu, sigma, eta] = ["y", "γ", "μ", "σ", "η"].map(letter);
const e = `1−${gamma}`;
const power = `${eta}<sup>${gamma}</sup>`;

// low, high: of the slider; least, most: of the number beside it, where these are wider
const SLIDERS = [
  {
    group: "noise", name: "gamma", symbol: "γ", title: "intermittency",
    low: 0.51, high: 0.95, step: 0.01, least: 0.501, most: 0.99,
    formula: (s) => `<i>T</i>(${y}) = (${y}<sup>${e}</sup> + (1+${y})<sup>${e}</sup> − 1)<sup>1/(${e})</sup> mod 1<br>
      tail index <i>α</i> = 1/${gamma} = ${written(1 / s.gamma)}`,
  },
  {
    group: "noise", name: "beta", symbol: "β", title: "skewness", low: -1, high: 1, step: 0.05,
    formula: (s) => `<i>χ</i> = +1 with probability (1+<i>β</i>)/2 = ${Math.round(50 * (1 + s.beta))} %`,
  },
  { group: "noise", name: "steps", symbol: "n", title: "steps", low: 200, high: 8000, step: 100, least: 10, slim: true },
  { group: "noise", name: "seed", symbol: "", title: "seed", low: 0, high: 99, step: 1, most: 2 ** 32 - 1, slim: true },
  {
    group: "descent", name: "eta", symbol: "η", title: "step size",
    low: -3, high: -1, step: 0.02, least: 1e-5, most: 1, logarithmic: true,
    formula: (s) => `${eta} = 1/<i>m</i>, <i>m</i> = ${written(1 / s.eta)} steps a unit of time`,
  },
  {
    group: "descent", name: "mu", symbol: "μ", title: "multiplicative size", low: 0, high: 0.2, step: 0.002, most: 1,
    formula: (s) => `− ${mu} ${power} <i>v</i><sub>1</sub> <i>x</i>, ${mu}${power} = ${level(s, s.mu)}`,
  },
  {
    group: "descent", name: "sigma", symbol: "σ", title: "additive size", low: 0, high: 0.5, step: 0.005, most: 1,
    formula: (s) => `+ ${sigma} ${power} <i>v</i><sub>2</sub>, ${sigma}${power} = ${level(s, s.sigma)}`,
  },
  {
    group: "wells", name: "force", symbol: "F", title: "force of a phase", low: 0, high: 8, step: 0.05, most: 20,
    formula: () => `<i>F</i> = ${sigma} <i>c</i><sub>0</sub> ${eta}<sup>${gamma}−1</sup>, in units of the slope`,
  },
];

const WORDS = {
  plain: "<i>v</i> = <i>χ</i> · <i>v</i>(<i>y</i>), and after each burst <i>χ</i> is drawn anew, apart from all before",
  symmetric: "the difference of two such drivers (1 shows the first orbit): a symmetric limit for any <i>β</i>",
  product: "as the paper prints it, each sign multiplies the last: <i>β</i> is forgotten, the limit symmetric",
};
export const SCHEMES = Object.keys(WORDS);

const toRange = ({ logarithmic }, value) => (logarithmic ? Math.log10(value) : value);
const fromRange = ({ logarithmic }, value) => (logarithmic ? +(10 ** value).toPrecision(2) : +value);

/** Build the sliders; `changed(name, value)` hears every move. */
export function build(changed) {
  for (const slider of SLIDERS) {
    const { group, name, symbol, title, low, high, step, least = low, most = high, slim } = slider;
    const row = document.createElement("div");
    row.className = slim ? "slider slim" : "slider";
    row.innerHTML = `<label for="${name}"><i>${symbol}</i>${title}</label>
      <input type="number" id="${name}-number" aria-label="${title}, exact" min="${least}" max="${most}" step="any">
      <input type="range" id="${name}" min="${low}" max="${high}" step="${step}" aria-describedby="${name}-formula">
      <p class="formula" id="${name}-formula"></p>`;
    document.getElementById(`${group}-sliders`).append(row);
    const [number, range] = [row.querySelector("[type=number]"), row.querySelector("[type=range]")];
    range.addEventListener("input", () => changed(name, fromRange(slider, range.value)));
    number.addEventListener("change", () => {
      if (number.value !== "" && number.checkValidity()) changed(name, +number.value);
    });
    light(row, name);
  }
  for (const radio of document.querySelectorAll("[name=scheme]")) {
    radio.addEventListener("change", () => changed("scheme", radio.value));
  }
}

/** Mark the parameter in the equation while its slider is in use. */
function light(row, name) {
  const letters = document.querySelectorAll(`.p-${name}`);
  const mark = (on) => letters.forEach((letter) => letter.classList.toggle("lit", on));
  for (const event of ["pointerenter", "focusin"]) row.addEventListener(event, () => mark(true));
  for (const event of ["pointerleave", "focusout"]) row.addEventListener(event, () => mark(false));
}

/** Show the settings on all controls. */
export function show(settings) {
  for (const slider of SLIDERS) {
    const value = settings[slider.name];
    const range = document.getElementById(slider.name);
    range.value = toRange(slider, value);
    range.setAttribute("aria-valuetext", written(value));
    document.getElementById(`${slider.name}-number`).value = value;
    document.getElementById(`${slider.name}-formula`).innerHTML = slider.formula?.(settings) ?? "";
  }
  document.querySelector(`[name=scheme][value=${settings.scheme}]`).checked = true;
  document.getElementById("scheme-words").innerHTML = WORDS[settings.scheme];
}
