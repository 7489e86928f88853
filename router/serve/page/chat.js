// The conversation: turns of {role, text, thought, ttft, tokens, tps, end, problem}, kept in the tab.

const turns = tab.get("turns", []);
const shown = []; // of each turn, how it is drawn again
let running = null; // the AbortController of the answer that streams

const box = $("scroll");
let isFollowing = true; // the end of the text is in sight

function follow() {
  if (isFollowing) box.scrollTop = box.scrollHeight;
}

box.addEventListener("scroll", () => {
  isFollowing = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
  $("latest").hidden = isFollowing;
});
new ResizeObserver(follow).observe(box);
$("latest").onclick = () => {
  isFollowing = true;
  follow();
  $("prompt").focus();
};

const ENDS = { length: "token limit reached", stopped: "stopped" };

function figures(turn) {
  const parts = [];
  const part = (name, value) => parts.push(make("span", {}, name && make("span", {}, name + " "), make("b", {}, value)));
  if (turn.ttft !== undefined) {
    part("TTFT", duration(turn.ttft));
    parts.at(-1).title = "time to first token";
  }
  if (turn.tps) part("", `${rate(turn.tps)} tok/s`);
  if (turn.tokens) part("", `${number.format(turn.tokens)} ${turn.tokens === 1 ? "token" : "tokens"}`);
  if (ENDS[turn.end]) parts.push(make("span", {}, ENDS[turn.end]));
  return parts;
}

function problemOf(turn) {
  const line = make("div", { class: "problem", role: "alert" }, make("span", {}, turn.problem));
  if (turn.status === 401) line.append(make("button", { type: "button", onclick: () => openSettings("key") }, "Enter an API key"));
  line.append(make("button", { type: "button", onclick: again }, "Try again"));
  return line;
}

// An answer's elements; returns what draws it again as it grows.
function drawAnswer(turn) {
  const text = make("div", { class: "text md" });
  const thought = make("details", { class: "thought" }, make("summary", {}, "Thoughts"), make("div"));
  const meta = make("div", { class: "meta" });
  const whole = make("article", { class: "turn assistant", "aria-label": "Answer" }, thought, text, meta);
  const markdown = new Markdown(text);
  $("log").append(whole);
  return (isStreaming = false) => {
    const isLast = turns.at(-1) === turn;
    markdown.show(turn.text);
    text.classList.toggle("waits", isStreaming && !turn.text);
    thought.hidden = !turn.thought;
    put(thought.lastChild, turn.thought ?? "");
    meta.replaceChildren(...figures(turn));
    whole.querySelector(".problem")?.remove();
    if (isStreaming) return;
    const tools = make("span", { class: "tools" });
    if (turn.text) tools.append(copier(() => turn.text));
    if (isLast && !turn.problem) tools.append(make("button", { type: "button", class: "quiet small", onclick: again }, "Regenerate"));
    if (tools.children.length) meta.append(tools);
    if (turn.problem) meta.before(problemOf(turn));
  };
}

function draw(turn) {
  $("welcome").hidden = true;
  if (turn.role === "assistant") {
    shown.push(drawAnswer(turn));
  } else {
    $("log").append(make("article", { class: "turn user", "aria-label": "You" }, make("div", { class: "text" }, turn.text)));
    shown.push(() => {});
  }
}

function settle() {
  shown.forEach((redraw) => redraw());
  tab.set("turns", turns);
}

// What the model is sent: the system prompt, and the turns that were answered; a question whose answer failed is not one.
function messages(until) {
  const list = [];
  const system = tab.get("system", "");
  if (system.trim()) list.push({ role: "system", content: system });
  for (let i = 0; i < until; i++) {
    const isLost = turns[i].role === "user" && i + 1 < until && turns[i + 1].role === "assistant" && !turns[i + 1].text;
    if (!isLost && turns[i].text) list.push({ role: turns[i].role, content: turns[i].text });
  }
  return list;
}

// Sampling at temperature 1 with nothing cut off makes small models rave: where a model brings no defaults of its own, ours hold here.
const OURS = { temperature: 0.7, top_p: 0.9 };
const SAMPLING = [["temperature", "temperature"], ["top-p", "top_p"]]; // a field of the settings, and its name in requests
const own = new Map(); // a model's id: its own defaults

function defaults() {
  const brings = own.get($("model").value);
  return brings && !Object.keys(brings).length ? OURS : {};
}

function body(until) {
  const asked = {
    model: $("model").value, messages: messages(until), stream: true,
    stream_options: { include_usage: true, continuous_usage_stats: true }, ...defaults(),
  };
  const most = tab.get("max-tokens", "");
  for (const [id, name] of SAMPLING) if (tab.get(id, "") !== "") asked[name] = Number(tab.get(id, ""));
  if (most !== "") asked.max_tokens = Number(most);
  return asked;
}

// Takes a chunk into the turn. Tokens per second are of decoding: from the first token to the last one.
function take(turn, chunk, began, first) {
  if (chunk.error) throw new Refusal(0, chunk.error.message);
  const choice = chunk.choices?.[0];
  const now = performance.now();
  turn.text += choice?.delta?.content ?? "";
  const thought = choice?.delta?.reasoning ?? choice?.delta?.reasoning_content;
  if (thought) turn.thought = (turn.thought ?? "") + thought;
  if (choice?.finish_reason) turn.end = choice.finish_reason;
  if (chunk.usage) turn.tokens = chunk.usage.completion_tokens;
  if (!choice?.delta?.content && !thought) return;
  turn.ttft ??= now - began;
  first.at ??= now;
  first.tokens ??= turn.tokens;
  if (turn.tokens > first.tokens && now > first.at) turn.tps = (1000 * (turn.tokens - first.tokens)) / (now - first.at);
}

async function stream(turn, redraw) {
  const first = {};
  let due = 0, isWhole = false;
  const began = performance.now();
  const answer = await ask("/v1/chat/completions", { body: body(turns.length - 1), signal: running.signal });
  for await (const data of events(answer)) {
    if (data === "[DONE]") {
      isWhole = true;
      break;
    }
    take(turn, JSON.parse(data), began, first);
    due ||= requestAnimationFrame(() => {
      due = 0;
      if (running) redraw(true);
      follow();
    });
  }
  if (!isWhole) throw new Refusal(0, "The connection ended before the answer did.");
}

async function answer() {
  const turn = { role: "assistant", text: "" };
  turns.push(turn);
  draw(turn);
  const redraw = shown.at(-1);
  running = new AbortController();
  setSend();
  redraw(true);
  follow();
  try {
    await stream(turn, redraw);
    say(`Answer complete, ${turn.tokens ?? 0} tokens`);
  } catch (failure) {
    if (failure.name === "AbortError") {
      turn.end = "stopped";
      say("Answer stopped");
    } else {
      turn.problem = failure instanceof Refusal ? failure.message : "The server cannot be reached.";
      turn.status = failure.status;
      if (failure.status === 401) {
        turn.problem = keys.client ? "This server does not take this API key." : "This server wants an API key.";
        wantKey("key", keys.client ? "This key does not fit." : "");
      }
    }
  }
  running = null;
  setSend();
  settle();
  follow();
}

// The last answer once more.
function again() {
  if (running || turns.at(-1)?.role !== "assistant") return;
  turns.pop();
  shown.pop();
  $("log").lastChild.remove();
  answer();
}

function send(text) {
  if (running || !text.trim()) return;
  const turn = { role: "user", text: text.trim() };
  turns.push(turn);
  draw(turn);
  isFollowing = true;
  settle();
  $("prompt").value = "";
  fit();
  answer();
}

function setSend() {
  const button = $("send");
  button.classList.toggle("stops", !!running);
  button.title = running ? "Stop" : "Send";
  button.setAttribute("aria-label", button.title);
  button.disabled = !running && !$("prompt").value.trim();
}

// The field grows with its text.
function fit() {
  const field = $("prompt");
  field.style.height = "auto";
  field.style.height = field.scrollHeight + "px";
  setSend();
}

function fresh() {
  running?.abort();
  turns.length = shown.length = 0;
  $("log").replaceChildren();
  $("welcome").hidden = false;
  tab.set("turns", turns);
  $("prompt").focus();
}
