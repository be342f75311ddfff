// A node's card: embedding drift, suggested links, similar nodes, recent events, and why a link has its score.

import { ask } from "./request.js";
import { cells, count, isDate, make, meter, moment, node, percent, quantity, shortMoment, signed } from "./format.js";
import { line } from "./charts.js";

const at = (id) => document.getElementById(id);
let shown = null;
let before = null;

export async function openCard(id, role = null) {
  const card = await ask("/v1/node", role === null ? { node: id } : { node: id, role });
  id = card.node;
  const about = `${count(card.as_source)} ${card.as_source === 1 ? "event" : "events"} as source, ${count(card.as_destination)} as destination`;
  show(id, [String(id)], about, false);
  showDrift(card.events);
  at("card-suggested").replaceChildren(...card.suggested.map((link) => suggestion(id, link)));
  if (!card.suggested.length) at("card-suggested").append(make("li", { class: "hint" }, "none"));
  at("card-nearest").replaceChildren(
    ...card.nearest.map((other) => make("li", {}, node(other.node, other.role), meter(other.similarity), make("span"))),
  );
  if (!card.nearest.length) at("card-nearest").append(make("li", { class: "hint" }, "none among recently active nodes"));
  at("card-history").replaceChildren(...card.events.slice().reverse().map((event) => past(card, event)));
  if (!card.events.length) at("card-history").append(make("li", { class: "hint" }, "no events in the window"));
}

// The card of an event: its columns, and why it is risky.
export async function openEvent(event, pressed) {
  const ends = [node(event.src, "src"), " → ", node(event.dst, "dst")];
  show(event, ends, [moment(event.time), cells(event.columns)].filter(Boolean).join(" · "), true);
  press(pressed);
  await showWhy({ position: event.position, index: event.index, limit: 8 });
}

function show(what, title, about, event) {
  before = before ?? document.activeElement;
  shown = what;
  at("card-title").replaceChildren(...title);
  at("card-counts").textContent = about;
  at("card-node").hidden = at("card-past").hidden = event;
  at("why").hidden = true;
  at("card").hidden = false;
  at("card").scrollTop = 0;
  document.body.classList.add("with-card");
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
  const about = make("span", { class: "hint cells" }, cells(event.columns));
  return make("li", {}, when, make("span", { class: "hint" }, out ? "→ to" : "← from"), other, about);
}

async function explain(src, dst, pressed) {
  press(pressed);
  await showWhy({ src, dst, limit: 8 });
}

function press(pressed) {
  document.querySelectorAll(".ask").forEach((button) => button.setAttribute("aria-pressed", "false"));
  pressed?.setAttribute("aria-pressed", "true");
}

// Ask why, and show the answer: of a risk its parts and past events, of a link past events alone.
async function showWhy(question) {
  const asked = shown;
  let found;
  try {
    found = await ask("/v1/explain", question);
  } catch (refusal) {
    found = null;
    at("why-summary").textContent = refusal.message;
  }
  if (shown === null || shown !== asked) return;
  const risk = found !== null && "risk" in found;
  at("why-title").textContent = found === null ? "Why?" : risk ? riskTitle(found) : linkTitle(found);
  if (found !== null) at("why-summary").textContent = risk ? riskSummary(found) : linkSummary(found);
  const largest = risk ? Math.max(...found.parts.map((each) => Math.abs(each.share))) : 1;
  at("why-parts").replaceChildren(...(risk ? found.parts.map((each) => part(each, largest, found)) : []));
  at("why-past").hidden = !risk || !found.causes.length;
  at("why-causes").replaceChildren(...(found?.causes ?? []).map(cause));
  at("why").classList.toggle("of-risk", risk);
  at("why").hidden = false;
}

const linkTitle = (found) => `Why a score of ${percent(found.score)} for ${found.src} → ${found.dst}?`;
const riskTitle = (found) => `Why a risk of ${percent(found.risk)}?`;

function linkSummary(found) {
  if (!found.causes.length) return "No past event of these two nodes is in the window.";
  const known = `${count(found.events_in_window)} of ${count(found.events_in_total)} events are in the window`;
  return `Effect of each past event on the score, and the score without it; ${known}.`;
}

function riskSummary(found) {
  const sum = `log-odds ${signed(found.logit)} = ${signed(found.base)} (average event)`;
  return `${sum} and what each part below adds. The risk is that of its arrival, before the model learnt from the event.`;
}

function bar(value, size) {
  const inside = make("b");
  inside.style.setProperty("--part", `${Math.min(1, Math.abs(size)) * 100}%`);
  return make("div", { class: `shares ${value >= 0 ? "up" : "down"}`, "aria-hidden": "true" }, inside);
}

function part(each, largest, found) {
  const end = { "history of the source": found.src, "history of the destination": found.dst }[each.name];
  const column = end === undefined && each.name !== "the pair";
  const value = each.value === null ? "missing" : cells({ "": each.value }).trim();
  const name = make("span", {}, end === undefined ? each.name : `${each.name}, ${end}`, ...(column ? [make("em", {}, value)] : []));
  const facts = each.facts.map((fact) => `${fact.name}: ${quantity(fact.name, fact.value, isDate(found.time))}`);
  const amount = make("span", { class: "amount" }, signed(each.share));
  return make(
    "li",
    { class: each.share >= 0 ? "up" : "down" },
    make("div", { class: "what" }, name, amount),
    bar(each.share, each.share / (largest || 1)),
    ...(facts.length ? [make("span", { class: "hint" }, facts.join(" · "))] : []),
  );
}

function cause(found) {
  const rough = found.exact ? "" : "≈ ";
  const amount = `${rough}${signed(found.effect)} (${percent(found.without)} without)`;
  const about = [moment(found.time), cells(found.columns)].filter(Boolean).join(" · ");
  return make(
    "li",
    { class: found.effect >= 0 ? "up" : "down" },
    make(
      "div",
      { class: "what" },
      make("span", {}, node(found.src, "src"), " → ", node(found.dst, "dst")),
      make("span", { class: "amount" }, amount),
    ),
    bar(found.effect, found.share),
    make("span", { class: "hint" }, about),
  );
}
