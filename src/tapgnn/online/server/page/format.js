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

export const isDate = (time) => time > 3e8 && time < 1e11;

// A time that looks like seconds since 1970 is shown as a date; any other unit as the number that it is.
export function moment(time) {
  if (isDate(time)) return new Date(time * 1000).toISOString().slice(0, 19).replace("T", " ");
  return String(Math.round(time * 1000) / 1000);
}

// The same without the year, for a table.
export function shortMoment(time) {
  const text = moment(time);
  return text.length === 19 ? text.slice(5) : text;
}

// Close to 0 and to 1 there are more digits, so that any two can be told apart.
export function percent(value) {
  if (value === null || value === undefined) return "–";
  const rest = 100 * Math.min(value, 1 - value);
  if (rest === 0) return value < 0.5 ? "0 %" : "100 %";
  if (rest < 1e-3) return `${value < 0.5 ? "" : "1 − "}${(rest / 100).toExponential(0)}`;
  return `${(100 * value).toFixed(Math.max(0, 1 - Math.floor(Math.log10(rest))))} %`;
}

export function signed(value) {
  return `${value >= 0 ? "+" : "−"}${Math.abs(value).toFixed(2)}`;
}

export function logOdds(probability) {
  return Math.log(probability) - Math.log1p(-probability);
}

// A number that is known of an event; a time in seconds is given in the unit that suits it.
export function quantity(name, value, inSeconds) {
  if (value === null) return "never";
  if (name === "met before") return value ? "yes" : "no";
  if (!inSeconds || !name.startsWith("time since")) return String(Number(value.toPrecision(3)));
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const [size, unit] = units.find(([seconds]) => value >= 2 * seconds) ?? [1, "s"];
  return `${Number((value / size).toPrecision(3))} ${unit}`;
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

export function meter(value, kind = "", part = value) {
  const bar = make("i", { "aria-hidden": "true" });
  bar.style.setProperty("--part", `${Math.max(0, Math.min(1, part ?? 0)) * 100}%`);
  return make("span", { class: `meter ${kind}` }, bar, percent(value));
}

// The bar of a risk is in log-odds, from 1 in 1,000 to 999 in 1,000.
export function riskMeter(value) {
  const bar = meter(value, "risk", value === null ? 0 : 0.5 + logOdds(value) / (2 * logOdds(0.999)));
  if (value !== null) bar.title = `log-odds ${signed(logOdds(value))}`;
  return bar;
}
