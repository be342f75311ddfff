// The documentation of the API, drawn from the OpenAPI document of this server; requests can be sent from it.

import { authorization, keepToken } from "./request.js";
import { make } from "./format.js";
import "./theme.js";

const at = (id) => document.getElementById(id);
const code = (text) => make("code", {}, text);
const grouped = (value) => value.toLocaleString("en");
const nameOf = (reference) => reference.split("/").pop();

// Text with `code` in it, and with a paragraph for each empty line.
const inline = (text) => (text ?? "").split("`").map((piece, place) => (place % 2 ? code(piece) : piece));
const prose = (text) => (text ?? "").split(/\n\s*\n/).map((paragraph) => make("p", {}, ...inline(paragraph)));

// A type in a few words; those with a name lead to their description.
function typeOf(schema) {
  if (schema === undefined) return ["any"];
  if (schema.$ref) return [make("a", { href: `#schema-${nameOf(schema.$ref)}` }, nameOf(schema.$ref))];
  const several = schema.anyOf ?? (schema.type || schema.properties ? undefined : schema.oneOf);
  if (several) return several.flatMap((each, place) => [...(place ? [" or "] : []), ...typeOf(each)]);
  if (schema.enum) return [schema.enum.map((value) => JSON.stringify(value)).join(" or ")];
  if (schema.const !== undefined) return [JSON.stringify(schema.const)];
  if (schema.type === "array") return ["list of ", ...typeOf(schema.items)];
  if (Array.isArray(schema.type)) return [schema.type.join(" or ")];
  if (schema.type === "object" && typeof schema.additionalProperties === "object") return ["object of ", ...typeOf(schema.additionalProperties)];
  return [schema.format ? `${schema.type} (${schema.format})` : (schema.type ?? "any")];
}

// Keys of the lowest and the highest value, and what they count.
const RANGES = [["minimum", "maximum", ""], ["minLength", "maxLength", " characters"], ["minItems", "maxItems", " items"]];
const SIGNS = { exclusiveMinimum: ">", exclusiveMaximum: "<" };

function rangesOf(schema) {
  return RANGES.flatMap(([from, to, unit]) => {
    const least = schema[from];
    // A number beyond those that are exact here is the bound of 64 bits.
    const most = Math.abs(schema[to]) > Number.MAX_SAFE_INTEGER ? undefined : schema[to];
    if (least === undefined && most === undefined) return [];
    if (most === undefined) return Math.abs(least) > Number.MAX_SAFE_INTEGER ? [] : [`at least ${grouped(least)}${unit}`];
    return [least === undefined ? `at most ${grouped(most)}${unit}` : `${grouped(least)} to ${grouped(most)}${unit}`];
  });
}

function boundsOf(schema) {
  const all = [schema, ...(schema.anyOf ?? [])];
  const strict = all.flatMap((each) => Object.entries(SIGNS).filter(([key]) => each[key] !== undefined).map(([key, sign]) => `${sign} ${each[key]}`));
  const otherwise = schema.default === undefined || schema.default === null ? [] : [`default ${JSON.stringify(schema.default)}`];
  return [...new Set([...all.flatMap(rangesOf), ...strict, ...otherwise])].join(", ");
}

function fieldTable(fields) {
  const rows = fields.map(([name, schema, required]) =>
    make("tr", {}, make("td", {}, code(name), required ? make("span", { class: "needed" }, " required") : ""), make("td", {}, ...typeOf(schema)),
      make("td", {}, ...inline(schema.description), make("span", { class: "hint" }, ` ${boundsOf(schema)}`)))
  );
  const head = make("tr", {}, ...["name", "type", "meaning"].map((word) => make("th", { scope: "col" }, word)));
  return make("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Fields" }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)));
}

const fieldsOf = (schema) => Object.entries(schema.properties ?? {}).map(([name, each]) => [name, each, schema.required?.includes(name)]);

function scopeOf(operation, secured) {
  if (!secured) return "";
  const scopes = (operation.security ?? []).flatMap((need) => need.token ?? []);
  return scopes.length ? `scope ${scopes.join(", ")}` : "no token needed";
}

function curl(method, path, body) {
  const lines = [`curl ${method === "GET" ? "" : `-X ${method} `}'${location.origin}${path}'`];
  if (authorization().Authorization) lines.push(`-H "Authorization: Bearer $TOKEN"`);
  if (body) lines.push(`-H 'Content-Type: application/json'`, `-d '${body.replaceAll("'", "'\\''")}'`);
  return lines.join(" \\\n  ");
}

// The form that sends a request as it stands, with its command for a shell and the answer.
function trial(method, path, operation) {
  const example = operation.requestBody?.content?.["application/json"]?.example;
  const inputs = (operation.parameters ?? []).filter((each) => each.in === "query").map((each) =>
    make("label", {}, `${each.name} `, make("input", { name: each.name, autocomplete: "off" })));
  const area = operation.requestBody ? make("textarea", { "aria-label": "Body of the request", spellcheck: "false", rows: "6" }) : null;
  if (area) area.value = JSON.stringify(example ?? {}, null, 2);
  const command = make("pre", { tabindex: "0", "aria-label": "Command" });
  const answer = make("pre", { tabindex: "0", "aria-label": "Answer", role: "status", hidden: "" });
  const form = make("form", {}, ...inputs, ...(area ? [area] : []), command, make("button", { type: "submit", class: "send" }, "Send"), answer);
  const target = () => {
    const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ""));
    return query.size ? `${path}?${query}` : path;
  };
  const refresh = () => { command.textContent = curl(method, target(), area?.value); };
  form.addEventListener("input", refresh);
  document.addEventListener("token", refresh);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const headers = { ...authorization(), ...(area ? { "Content-Type": "application/json" } : {}) };
    const start = performance.now();
    let shown;
    try {
      const found = await fetch(target(), { method, headers, body: area?.value, cache: "no-store" });
      const text = await found.text();
      const json = found.headers.get("content-type")?.includes("json");
      shown = `${found.status} ${found.statusText} · ${Math.round(performance.now() - start)} ms · X-Request-ID ${found.headers.get("x-request-id")}\n\n`;
      shown += json ? JSON.stringify(JSON.parse(text), null, 2) : text;
    } catch {
      shown = "the server is not responding";
    }
    answer.textContent = shown.length > 20000 ? `${shown.slice(0, 20000)}\n...` : shown;
    answer.hidden = false;
  });
  refresh();
  return form;
}

function operationOf(method, path, operation, spec) {
  const [first, ...rest] = prose(operation.description);
  const schema = operation.requestBody?.content?.["application/json"]?.schema;
  const forms = Object.keys(operation.requestBody?.content ?? {});
  const answers = Object.entries(operation.responses).sort().map(([status, each]) => {
    const type = Object.values(each.content ?? {})[0]?.schema;
    return make("tr", {}, make("td", {}, code(status)), make("td", {}, ...inline(each.description), ...(type?.$ref || type?.anyOf ? [" ", ...typeOf(type)] : [])));
  });
  const query = (operation.parameters ?? []).map((each) => [each.name, { ...each.schema, description: each.description ?? each.schema.description }, each.required]);
  const resolved = schema?.$ref ? spec.components.schemas[nameOf(schema.$ref)] : schema;
  const parts = [...rest];
  if (query.length) parts.push(make("h3", {}, "Query"), fieldTable(query));
  if (resolved) parts.push(make("h3", {}, "Body: ", forms.join(", ")), fieldTable(fieldsOf(resolved)));
  parts.push(make("h3", {}, "Try it"), trial(method, path, operation));
  parts.push(make("h3", {}, "Answers"), make("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Answers" }, make("table", { class: "answers" }, make("tbody", {}, ...answers))));
  const summary = make("summary", {}, make("span", { class: `method ${method.toLowerCase()}` }, method), code(path), make("span", { class: "what" }, ...(first?.childNodes ?? [])),
    make("span", { class: "hint" }, scopeOf(operation, spec.components.securitySchemes !== undefined)));
  return make("details", { id: `${method.toLowerCase()}${path.replaceAll("/", "-")}` }, summary, ...parts);
}

function show(spec) {
  at("banner").hidden = true;
  at("about").textContent = `version ${spec.info.version}`;
  at("key").hidden = spec.components.securitySchemes === undefined;
  at("introduction").replaceChildren(...prose(spec.info.description));
  const all = Object.entries(spec.paths).flatMap(([path, item]) => Object.entries(item).map(([method, operation]) => operationOf(method.toUpperCase(), path, operation, spec)));
  at("operations").replaceChildren(...all);
  const schemas = Object.entries(spec.components.schemas).sort(([one], [other]) => one.localeCompare(other)).map(([name, schema]) =>
    make("details", { id: `schema-${name}` }, make("summary", {}, code(name), make("span", { class: "what" }, ...inline(schema.description))), fieldTable(fieldsOf(schema))));
  at("schemas").append(...schemas);
  at("schemas").hidden = false;
  reveal();
}

// A link to a part opens it.
function reveal() {
  const part = location.hash && at(decodeURIComponent(location.hash.slice(1)));
  if (part?.tagName === "DETAILS") {
    part.open = true;
    part.scrollIntoView();
  }
}

async function load() {
  try {
    const found = await fetch("/openapi.json", { cache: "no-store" });
    const content = await found.json();
    if (found.ok) return show(content);
    at("banner").textContent = content.detail;
  } catch {
    at("banner").textContent = "The server is not responding.";
  }
  at("banner").hidden = false;
  setTimeout(load, 2000);
}

at("key").addEventListener("submit", (event) => {
  event.preventDefault();
  keepToken(at("token").value.trim());
  at("token").value = "";
  at("token").placeholder = "kept in this tab";
  document.dispatchEvent(new Event("token"));
});
window.addEventListener("hashchange", reveal);
load();
