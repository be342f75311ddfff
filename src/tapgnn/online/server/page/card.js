// A node's card: embedding drift, suggested links, similar nodes, recent events, and why a link has its score.

import { ask } from "./request.js";
import { cells, count, make, meter, moment, node, percent, shortMoment } from "./format.js";
import { line } from "./charts.js";

const at = (id) => document.getElementById(id);
let shown = null;
let before = null;

export async function openCard(id, role = null) {
  const card = await ask("/v1/node", role === null ? { node: id } : { node: id, role });
  before = before ?? document.activeElement;
  shown = id = card.node;
  at("card-title").textContent = String(id);
  at("card-counts").textContent = `${count(card.as_source)} events as source, ${count(card.as_destination)} as destination`;
  at("card").hidden = false;
  document.body.classList.add("with-card");
  showDrift(card.events);
  at("card-suggested").replaceChildren(...card.suggested.map((link) => suggestion(id, link)));
  if (!card.suggested.length) at("card-suggested").append(make("li", { class: "hint" }, "none"));
  at("card-nearest").replaceChildren(
    ...card.nearest.map((other) => make("li", {}, node(other.node, other.role), meter(other.similarity), make("span"))),
  );
  if (!card.nearest.length) at("card-nearest").append(make("li", { class: "hint" }, "none among recently active nodes"));
  at("card-history").replaceChildren(...card.events.slice().reverse().map((event) => past(card, event)));
  if (!card.events.length) at("card-history").append(make("li", { class: "hint" }, "no events in the window"));
  at("why").hidden = true;
  at("card-title").focus();
}

export function closeCard() {
  if (at("card").hidden) return;
  at("card").hidden = true;
  document.body.classList.remove("with-card");
  shown = null;
  before?.focus?.();
  before = null;
}

function showDrift(events) {
  const hint = at("card-drift-hint");
  if (events.length < 2) {
    at("card-drift").replaceChildren();
    hint.textContent = "Fewer than two events of this node are in the window.";
    return;
  }
  const points = events.map((event) => ({ x: event.time, y: event.drift }));
  const label = `cosine distance of the embedding after each of ${events.length} events from the current one`;
  line(at("card-drift"), points, shortMoment(events[0].time), shortMoment(events[events.length - 1].time), label);
  hint.textContent = "Cosine distance between the embedding after each event and the current one.";
}

function suggestion(id, link) {
  const why = make("button", { type: "button", class: "ask", "aria-pressed": "false" }, "why?");
  why.addEventListener("click", () => explain(id, link.dst, why));
  return make("li", {}, node(link.dst, "dst"), meter(link.score), why);
}

function past(card, event) {
  const out = card.role === null ? event.src === card.node : card.role === "src";
  const other = out ? node(event.dst, "dst") : node(event.src, "src");
  const when = make("span", {}, moment(event.time));
  const about = make("span", { class: "hint columns" }, cells(event.columns));
  return make("li", {}, when, make("span", { class: "hint" }, out ? "→ to" : "← from"), other, about);
}

export async function explain(src, dst, pressed) {
  document.querySelectorAll(".ask").forEach((button) => button.setAttribute("aria-pressed", "false"));
  pressed?.setAttribute("aria-pressed", "true");
  let found;
  try {
    found = await ask("/v1/explain", { src, dst, limit: 8 });
  } catch (refusal) {
    at("why-summary").textContent = refusal.message;
    at("why-causes").replaceChildren();
    at("why").hidden = false;
    return;
  }
  if (shown === null) return;
  at("why-title").textContent = `Why a score of ${percent(found.probability)} for ${src} → ${dst}?`;
  at("why-summary").textContent = found.causes.length
    ? `Effect of each past event on the score, and the score without it; ${count(found.events_in_window)} of ${count(found.events_in_total)} events are in the window.`
    : "No past event of these two nodes is in the window.";
  at("why-causes").replaceChildren(...found.causes.map(cause));
  at("why").hidden = false;
}

function cause(found) {
  const bar = make("b");
  bar.style.setProperty("--part", `${Math.min(1, Math.abs(found.share)) * 100}%`);
  const sign = found.effect >= 0 ? "+" : "−";
  const amount = `${sign}${Math.abs(found.effect).toFixed(2)} (${percent(found.without)} without)`;
  const rough = found.exact ? "" : "≈ ";
  return make(
    "li",
    { class: found.effect >= 0 ? "up" : "down" },
    make(
      "div",
      { class: "what" },
      make("span", {}, node(found.src, "src"), " → ", node(found.dst, "dst")),
      make("span", { class: "amount" }, rough + amount),
    ),
    make("div", { class: "shares", "aria-hidden": "true" }, bar),
    make("span", { class: "hint" }, moment(found.time)),
  );
}
