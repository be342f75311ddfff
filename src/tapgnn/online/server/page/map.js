// The embedding map: a circle for each recently active node, which glides to its new place.

import { draw, count } from "./format.js";

const WIDTH = 560;
const HEIGHT = 330;

export class Map2D {
  constructor(place, here) {
    this.place = place;
    this.here = here;
    this.spots = new Map();
    this.chosen = null;
    this.svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-hidden": "true" });
    this.empty = draw("text", { x: WIDTH / 2, y: HEIGHT / 2 }, "The map appears once events arrive.");
    this.svg.append(this.empty);
    place.replaceChildren(this.svg);
    place.addEventListener("keydown", (event) => this.walk(event));
    place.addEventListener("blur", () => this.choose(null));
  }

  show(nodes) {
    const seen = new Set();
    this.empty.toggleAttribute("hidden", nodes.length > 0);
    this.empty.textContent = nodes.length ? "" : "The map appears once events arrive.";
    nodes.forEach((node, rank) => {
      const key = JSON.stringify([node.node, node.role]);
      seen.add(key);
      let spot = this.spots.get(key);
      if (!spot) spot = this.add(key, node.node);
      spot.node = node;
      spot.x = WIDTH / 2 + node.x * (WIDTH / 2 - 18) * 0.76;
      spot.y = HEIGHT / 2 + node.y * (HEIGHT / 2 - 14) * 0.76;
      const circle = spot.circle;
      circle.setAttribute("r", Math.min(9, 2.6 + Math.log2(1 + node.sent + node.received) * 0.55).toFixed(2));
      circle.classList.toggle("received", node.received > node.sent);
      circle.classList.toggle("fresh", rank < 12);
      circle.style.transform = `translate(${spot.x.toFixed(1)}px, ${spot.y.toFixed(1)}px)`;
    });
    for (const [key, spot] of this.spots) {
      if (!seen.has(key)) {
        spot.circle.remove();
        this.spots.delete(key);
        if (this.chosen === key) this.choose(null);
      }
    }
  }

  add(key, id) {
    const circle = draw("circle", { r: 3 });
    const title = draw("title", {}, String(id));
    circle.append(title);
    circle.addEventListener("click", () => this.open(key));
    circle.addEventListener("mouseenter", () => this.say(key));
    this.svg.append(circle);
    const spot = { circle, node: null, x: 0, y: 0 };
    this.spots.set(key, spot);
    return spot;
  }

  open(key) {
    document.dispatchEvent(new CustomEvent("open-node", { detail: { id: this.spots.get(key).node.node, role: this.spots.get(key).node.role } }));
  }

  say(key) {
    const { node } = this.spots.get(key);
    this.here.textContent = `${node.node}: ${count(node.sent)} sent, ${count(node.received)} received`;
  }

  choose(key) {
    if (this.chosen !== null) this.spots.get(this.chosen)?.circle.classList.remove("here");
    this.chosen = key;
    if (key === null) return;
    const { circle } = this.spots.get(key);
    circle.classList.add("here");
    this.svg.append(circle);
    this.say(key);
  }

  walk(event) {
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (event.key === "Enter" && this.chosen !== null) this.open(this.chosen);
    if (!way || !this.spots.size) return;
    event.preventDefault();
    const from = this.chosen === null ? { x: WIDTH / 2, y: HEIGHT / 2 } : this.spots.get(this.chosen);
    let best = null;
    let least = Infinity;
    for (const [key, spot] of this.spots) {
      if (key === this.chosen) continue;
      const [dx, dy] = [spot.x - from.x, spot.y - from.y];
      const ahead = dx * way[0] + dy * way[1];
      const cost = ahead > 0.5 ? Math.hypot(dx, dy) + 2 * Math.abs(dx * way[1] + dy * way[0]) : Infinity;
      if (cost < least) [best, least] = [key, cost];
    }
    if (best !== null) this.choose(best);
  }
}
