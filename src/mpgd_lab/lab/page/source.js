// Where numbers come from: the server, or on a page that has none the files written with it.

export const SOURCES = { // what the numbers of each depend on, in the order of a file's name
  orbit: ["gamma", "beta", "seed", "steps", "scheme", "dwell"],
  sums: ["gamma", "beta", "seed", "steps", "scheme"],
  wells: ["gamma", "beta", "seed", "steps", "scheme", "dwell", "eta", "force"],
  descent: ["gamma", "beta", "seed", "steps", "scheme", "dwell", "eta", "force", "decay", "landscape"],
};

const written = document.getElementById("stops"); // `mpgd lab --export` puts it into the page
const STOPS = written && JSON.parse(written.textContent);

/** Return the values that a setting can take, or null where any can be computed. */
export const stopsOf = (landscape, name) => STOPS && STOPS[landscape][name];

/** Return what the numbers of a source are asked for by. */
export const queryOf = (source, settings) => String(new URLSearchParams(SOURCES[source].map((name) => [name, settings[name]])));

/** Return the numbers of a source; an error says what is wrong with the settings. */
export async function numbersOf(source, settings) {
  return STOPS ? stored(source, settings) : served(source, settings);
}

async function served(source, settings) {
  const answer = await reach(`api/${source}?${queryOf(source, settings)}`, "The server does not answer. Is `mpgd lab` still running?");
  const numbers = await answer.json();
  if (!answer.ok) throw new Error(numbers.error);
  return numbers;
}

async function stored(source, settings) {
  for (const name of SOURCES[source]) {
    const stops = stopsOf(settings.landscape, name);
    if (!stops.includes(settings[name])) throw new Error(`${name} must be ${either(stops)} on this page, got ${settings[name]}; mpgd lab takes any value`);
  }
  const name = [source, ...SOURCES[source].map((each) => settings[each])].join("_");
  const answer = await reach(`numbers/${name}.bin`, "The numbers could not be loaded.");
  if (!answer.ok) throw new Error(`The numbers could not be loaded: ${answer.status}.`);
  return new Response(answer.body.pipeThrough(new DecompressionStream("gzip"))).json();
}

/** Fetch, or say what it means that nobody listens. */
async function reach(address, problem) {
  try {
    return await fetch(address);
  } catch {
    throw new Error(problem);
  }
}

/** Write a choice as people do: 1, 2 or 3. */
export const either = (values) => values.join(", ").replace(/, ([^,]*)$/, " or $1");
