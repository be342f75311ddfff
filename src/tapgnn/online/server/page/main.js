// The page: polls the server every second, shows recent activity, and says so when the server is not responding.

import { ask, keepToken } from "./request.js";
import { cells, count, make, meter, milliseconds, moment, node, riskMeter, shortMoment } from "./format.js";
import { bars } from "./charts.js";
import { Map2D } from "./map.js";
import { closeCard, openCard, openEvent } from "./card.js";
import "./theme.js";

const at = (id) => document.getElementById(id);
const map = new Map2D(at("map"), at("map-here"));
let lost = null;
let known = new Set();
let rounds = 0;

function setState(kind, text) {
  if (at("state").textContent === text) return;
  at("state").className = `pill ${kind}`;
  at("state").textContent = text;
}

function warn(title, text, gone) {
  const banner = at("banner");
  banner.classList.toggle("gone", gone);
  banner.querySelector("strong").textContent = title;
  banner.querySelector("span").textContent = text;
  banner.hidden = false;
}

function failed(refusal) {
  const asking = refusal.status === 401 || refusal.status === 403;
  at("key").hidden = !asking;
  document.body.classList.toggle("stale", !asking);
  if (asking) {
    setState("waiting", "token needed");
    at("banner").hidden = true;
  } else if (refusal.status === 503) {
    setState("waiting", "starting");
    warn("Not ready.", refusal.message, false);
  } else {
    lost = lost ?? new Date();
    setState("gone", "offline");
    const since = lost.toTimeString().slice(0, 8);
    warn("The server is not responding.", `Data from before ${since}; retrying every second.`, true);
  }
}

function recovered() {
  lost = null;
  at("banner").hidden = at("key").hidden = true;
  document.body.classList.remove("stale");
  setState("live", "live");
}

function row(event, value, fresh, why = []) {
  const [clock, day] = shortMoment(event.time).split(" ").reverse();
  const when = make("td", { title: moment(event.time) }, ...(day ? [make("span", { class: "day" }, `${day} `)] : []), clock);
  const ends = [node(event.src, "src"), node(event.dst, "dst")].map((end) => make("td", {}, end));
  const about = cells(event.columns);
  if (about) when.title = `${when.title} · ${about}`;
  return make("tr", fresh ? { class: "fresh" } : {}, when, ...ends, make("td", { class: "number" }, value, ...why));
}

function whyButton(event) {
  const label = `why is ${event.src} to ${event.dst} risky?`;
  const button = make("button", { type: "button", class: "ask", "aria-label": label }, "why?");
  button.addEventListener("click", () => openEvent(event, button));
  return button;
}

function fill(place, rows, empty) {
  // A table with the focus in it is not redrawn, so that the focus is not lost.
  if (place.contains(document.activeElement)) return;
  if (rows.length) place.replaceChildren(...rows);
  else place.replaceChildren(make("tr", {}, make("td", { class: "empty", colspan: "4" }, empty)));
}

function showTables(live) {
  const key = (event) => JSON.stringify([event.src, event.dst, event.time]);
  const first = known.size === 0;
  const newest = live.newest.map((event) => row(event, meter(event.score), !first && !known.has(key(event))));
  fill(at("newest"), newest, "No events since the server started. Send some to /v1/events, or run tapgnn replay.");
  known = new Set(live.newest.map(key));
  const riskiest = live.riskiest.map((event) =>
    row(event, riskMeter(event.risk), false, event.explained ? [whyButton(event)] : []),
  );
  fill(at("riskiest"), riskiest, "No scored events yet.");
  const name = live.classifier ? "risk" : "surprise";
  at("risk-name").textContent = name;
  at("riskiest-title").textContent = live.classifier ? "Highest-risk events" : "Most surprising events";
  at("risk-hint").textContent = live.classifier
    ? "Predicted fraud probability before the model learnt from the event; latest 5,000 events."
    : "Surprise is 1 − score of the link; latest 5,000 events.";
  const part = live.total ? Math.floor((100 * live.scored) / live.total) : 100;
  at("scored").textContent = part < 100 ? `${part} % of events were scored; under load, writing takes priority.` : "";
}

function show(live) {
  const recent = live.pace.slice(-10);
  at("pace").textContent = count(recent.reduce((sum, second) => sum + second.events, 0) / recent.length);
  at("observe").textContent = milliseconds(live.latency.observe.p50);
  at("observe-aside").textContent = `p95 ${milliseconds(live.latency.observe.p95)} · p99 ${milliseconds(live.latency.observe.p99)}`;
  at("score").textContent = milliseconds(live.latency.score.p50);
  at("score-aside").textContent = `p95 ${milliseconds(live.latency.score.p95)} · p99 ${milliseconds(live.latency.score.p99)}`;
  const status = live.status;
  at("accepted").textContent = count(status.accepted);
  at("accepted-aside").textContent = `${count(live.total)} since start · checkpoint lag ${count(status.checkpoint_age)}`;
  at("nodes").textContent = count(status.nodes);
  at("nodes-aside").textContent = status.clock === null ? "" : `latest event ${moment(status.newest ?? status.clock)}`;
  at("queue").textContent = count(live.queue);
  at("queue-aside").textContent = `${count(status.held)} held · ${count(status.late)} late · ${count(status.duplicates)} duplicates`;
  at("about").textContent = `model ${status.model.slice(0, 12)} · journal position ${count(status.position)}`;
  const most = Math.max(...live.pace.map((second) => second.events));
  bars(at("pace-chart"), live.pace.map((second) => second.events), "bar", `events per second over the last 120 seconds, at most ${most}`, 190);
  bars(at("slow-chart"), live.pace.map((second) => second.slowest * 1000), "slow", "slowest write of each second in milliseconds", 140);
  showTables(live);
}

async function round() {
  try {
    show(await ask("/v1/live"));
    if (rounds % 2 === 0) map.show((await ask("/v1/map")).nodes);
    rounds += 1;
    recovered();
  } catch (refusal) {
    if (refusal.status === undefined) throw refusal;
    failed(refusal);
  } finally {
    setTimeout(round, 1000);
  }
}

async function open(id, role = null) {
  try {
    await openCard(id, role);
  } catch (refusal) {
    at("map-here").textContent = refusal.message;
    at("wanted").setCustomValidity(refusal.message);
    at("wanted").reportValidity();
  }
}

document.addEventListener("open-node", (event) => open(event.detail.id, event.detail.role));
at("card-close").addEventListener("click", closeCard);
at("wanted").addEventListener("input", () => at("wanted").setCustomValidity(""));
at("find").addEventListener("submit", async (event) => {
  event.preventDefault();
  const text = at("wanted").value.trim();
  if (!text) return;
  // A node written as an integer is one, unless the model knows the text.
  const whole = /^-?\d{1,15}$/.test(text) ? Number(text) : null;
  try {
    await openCard(text);
  } catch (refusal) {
    if (whole === null) open(text);
    else open(whole);
  }
});
at("key").addEventListener("submit", (event) => {
  event.preventDefault();
  keepToken(at("token").value.trim());
  at("token").value = "";
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") closeCard();
  const typing = /^(INPUT|TEXTAREA)$/.test(document.activeElement?.tagName ?? "");
  if (event.key === "/" && !typing) {
    event.preventDefault();
    at("wanted").focus();
  }
});

round();
