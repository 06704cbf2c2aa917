// A section as a PNG file: its plots as they stand, a heading above, the settings below.

import { Plot, colour } from "./plot.js";

const SCALE = 2; // pixels to a CSS pixel, so that it can be printed
const MARGIN = 16;
const LINE = 22;

/** Save a section's plots; `draw` draws them anew, at whatever scale is set. */
export async function save(section, settings, draw) {
  Plot.scale = SCALE;
  draw();
  const picture = compose(section, settings);
  Plot.scale = null;
  draw();
  const blob = await new Promise((done) => picture.toBlob(done, "image/png"));
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: `mpgd-${section.id}.png` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Return one canvas with the plots of a section where they are on the page. */
function compose(section, settings) {
  const shown = [...section.querySelectorAll("canvas")].filter((canvas) => canvas.clientWidth);
  const boxes = shown.map((canvas) => canvas.getBoundingClientRect());
  const [left, top] = [Math.min(...boxes.map((b) => b.left)), Math.min(...boxes.map((b) => b.top))];
  const width = Math.max(...boxes.map((b) => b.right)) - left + 2 * MARGIN;
  const height = Math.max(...boxes.map((b) => b.bottom)) - top + 2 * MARGIN + 2 * LINE;
  const picture = Object.assign(document.createElement("canvas"), { width: width * SCALE, height: height * SCALE });
  const pen = picture.getContext("2d");
  pen.scale(SCALE, SCALE);
  pen.fillStyle = colour("card");
  pen.fillRect(0, 0, width, height);
  shown.forEach((canvas, i) => {
    const { x, y, width: w, height: h } = boxes[i];
    pen.drawImage(canvas, x - left + MARGIN, y - top + MARGIN + LINE, w, h);
  });
  pen.fillStyle = colour("ink");
  pen.font = "600 16px system-ui, sans-serif";
  pen.fillText(section.dataset.title, MARGIN, MARGIN + 8);
  pen.fillStyle = colour("soft");
  pen.font = "400 12px system-ui, sans-serif";
  pen.fillText(settings, MARGIN, height - MARGIN + 2, width - 2 * MARGIN);
  return picture;
}
