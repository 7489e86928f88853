// Requests to the server that sent this page, and to no other: its policy allows none.

// An answer that says no: `status` as in HTTP, the message in the server's words.
class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// Which key opens what: clients' keys do not open /admin/.
const keys = { client: tab.get("key", ""), admin: tab.get("admin-key", "") };

async function ask(path, { body, signal } = {}) {
  const headers = {};
  const key = path.startsWith("/admin/") ? keys.admin : keys.client;
  if (key) headers.Authorization = "Bearer " + key;
  if (body) headers["Content-Type"] = "application/json";
  const answer = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), signal, cache: "no-store" });
  if (answer.ok) return answer;
  const text = await answer.text();
  let message = text.slice(0, 300);
  try {
    message = JSON.parse(text).error.message;
  } catch {
    // Somebody between us and the router answered.
  }
  throw new Refusal(answer.status, message || `HTTP ${answer.status}`);
}

// The data of server-sent events, one after the other.
async function* events(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) if (line.startsWith("data: ")) yield line.slice(6);
  }
}
