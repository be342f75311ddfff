// Requests to the server: JSON in and out, the token of this tab, and errors.

const KEY = "tapgnn-token";

export class Refusal extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

export function keepToken(token) {
  sessionStorage.setItem(KEY, token);
}

export function authorization() {
  const token = sessionStorage.getItem(KEY);
  return token ? { Authorization: `Bearer ${token}` } : {};
}

export async function ask(path, body) {
  const headers = authorization();
  const options = { headers, cache: "no-store", signal: AbortSignal.timeout(8000) };
  if (body !== undefined) {
    options.method = "POST";
    options.body = JSON.stringify(body);
    headers["Content-Type"] = "application/json";
  }
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Refusal(0, "the server is not responding");
  }
  const found = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refusal(answer.status, found.detail || answer.statusText);
  return found;
}
