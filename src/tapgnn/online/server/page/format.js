// Numbers, times and small pieces of the page.

const GROUPED = new Intl.NumberFormat("en");

export function count(value) {
  if (value === null || value === undefined) return "–";
  return value >= 1e7 ? `${(value / 1e6).toFixed(1)} M` : GROUPED.format(Math.round(value));
}

export function milliseconds(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 1000) return `${(value / 1000).toFixed(1)} s`;
  return value >= 100 ? `${Math.round(value)} ms` : value >= 10 ? `${value.toFixed(1)} ms` : `${value.toFixed(2)} ms`;
}

// A time that looks like seconds since 1970 is shown as a date; any other unit as the number that it is.
export function moment(time) {
  if (time > 3e8 && time < 1e11) return new Date(time * 1000).toISOString().slice(0, 19).replace("T", " ");
  return String(Math.round(time * 1000) / 1000);
}

// The same without the year, for a table.
export function shortMoment(time) {
  const text = moment(time);
  return text.length === 19 ? text.slice(5) : text;
}

export function percent(value) {
  if (value === null || value === undefined) return "–";
  return value >= 0.995 && value < 1 ? "> 99 %" : value <= 0.005 && value > 0 ? "< 1 %" : `${Math.round(value * 100)} %`;
}

// The columns of an event, those that are there.
export function cells(columns) {
  const known = Object.entries(columns ?? {}).filter(([, value]) => value !== null);
  const shown = (value) => (typeof value === "number" ? String(Number(value.toPrecision(6))) : value);
  return known.map(([name, value]) => `${name} ${shown(value)}`).join(" · ");
}

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

export function draw(tag, attributes = {}, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// A node is opened by a press of its name, wherever it stands.
// The role, src or dst, tells two nodes with one id apart.
export function node(id, role = null) {
  const button = make("button", { type: "button", class: "node", title: String(id) }, String(id));
  button.addEventListener("click", () => document.dispatchEvent(new CustomEvent("open-node", { detail: { id, role } })));
  return button;
}

export function meter(value, kind = "") {
  const bar = make("i", { "aria-hidden": "true" });
  bar.style.setProperty("--part", `${Math.max(0, Math.min(1, value ?? 0)) * 100}%`);
  return make("span", { class: `meter ${kind}` }, bar, percent(value));
}
