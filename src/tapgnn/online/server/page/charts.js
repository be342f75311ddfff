// Two small charts: bars for each of the last seconds, and a line through points in time.

import { draw } from "./format.js";

const LEFT = 44;

// As wide as its place, so that letters keep their size.
const widthOf = (place) => Math.max(place.clientWidth, 240);

export function niceTop(value) {
  if (!(value > 0)) return 1;
  const unit = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((step) => step * unit).find((top) => top >= value);
}

function frame(width, height, top, label) {
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  for (const part of [0, 0.5, 1]) {
    const y = 8 + (height - 26) * (1 - part);
    svg.append(draw("line", { class: "grid", x1: LEFT, x2: width, y1: y, y2: y }));
    const shown = top * part;
    const text = shown >= 10000 ? `${shown / 1000}k` : String(Math.round(shown * 1000) / 1000);
    svg.append(draw("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, text));
  }
  return svg;
}

export function bars(place, values, kind, label, height) {
  const top = niceTop(Math.max(...values, 0));
  const width = widthOf(place);
  const svg = frame(width, height, top, label);
  const step = (width - LEFT) / values.length;
  values.forEach((value, second) => {
    const tall = ((height - 26) * value) / top;
    if (tall <= 0) return;
    const x = LEFT + second * step;
    svg.append(draw("rect", { class: kind, x, y: 8 + height - 26 - tall, width: Math.max(step - 1, 1), height: tall }));
  });
  const axis = [[LEFT, "start", "2 min ago"], [(LEFT + width) / 2, "middle", "1 min ago"], [width, "end", "now"]];
  for (const [x, anchor, text] of axis) svg.append(draw("text", { x, y: height - 2, "text-anchor": anchor }, text));
  place.replaceChildren(svg);
}

export function line(place, points, from, to, label, height = 120) {
  const top = niceTop(Math.max(...points.map((point) => point.y), 0.01));
  const width = widthOf(place);
  const svg = frame(width, height, top, label);
  const first = points[0].x;
  const span = points[points.length - 1].x - first || 1;
  const x = (point) => LEFT + 4 + ((width - LEFT - 8) * (point.x - first)) / span;
  const y = (point) => 8 + (height - 26) * (1 - point.y / top);
  const path = points.map((point, place) => `${place ? "L" : "M"}${x(point).toFixed(1)} ${y(point).toFixed(1)}`).join("");
  svg.append(draw("path", { class: "line", d: path }));
  for (const point of points) svg.append(draw("circle", { class: "dot", cx: x(point), cy: y(point), r: 2.6 }));
  svg.append(draw("text", { x: LEFT, y: height - 2, "text-anchor": "start" }, from));
  svg.append(draw("text", { x: width, y: height - 2, "text-anchor": "end" }, to));
  place.replaceChildren(svg);
}
