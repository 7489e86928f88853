// The live picture of the cluster, from /admin/events.

const ROLES = { prefill: "Prefill", decode: "Decode", mixed: "Prefill and decode" };
const STATES = { ready: "good", gone: "bad", refused: "bad", suspect: "bad", aside: "bad" }; // the others: busy
const GONE_MS = 8000; // so long a worker that is gone is still shown
const KILL_TELLS = "Ends its process at once, as a crash would: its answers go on on another worker, and it is started again";
const FIRST_TOKENS = 5; // a second: a prefill worker that makes more decodes, too
const CHANGES_MAX = 40;
const MINUTE = 60; // samples of the curve, one a second

const cards = new Map(); // a worker's name: its card
const curve = Array(MINUTE).fill(0);
let before = null; // the last picture,
let sampled = null; // and the last one of which figures were told

const clockTime = (ms) => new Date(ms).toLocaleTimeString([], { hour12: false });

function tell(ms, text) {
  const time = make("time", { dateTime: new Date(ms).toISOString() }, clockTime(ms));
  $("changes").prepend(make("li", {}, time, make("span", {}, text)));
  while ($("changes").children.length > CHANGES_MAX) $("changes").lastChild.remove();
}

function span(seconds) {
  for (const [unit, size] of [["day", 86400], ["h", 3600], ["min", 60]])
    if (seconds >= size) return `${number.format(Math.floor(seconds / size))} ${unit}${unit === "day" && seconds >= 2 * size ? "s" : ""}`;
  return `${seconds} s`;
}

function drawCurve() {
  const most = Math.max(...curve, 1);
  const step = 120 / (MINUTE - 1);
  const points = curve.map((value, i) => `${(i * step).toFixed(1)} ${(39 - (value / most) * 37).toFixed(1)}`).join("L");
  $("spark").querySelector(".line").setAttribute("d", "M" + points);
  $("spark").querySelector(".area").setAttribute("d", `M0 40L${points}L120 40Z`);
}

// Figures a second, over the last second at least: a picture may come soon after another.
function sample(picture) {
  const router = picture.routers[0];
  const seconds = sampled ? (picture.time_ms - sampled.time_ms) / 1000 : 0;
  if (sampled && seconds < 0.7) return;
  const old = sampled?.routers[0];
  sampled = picture;
  if (!old || old.pid !== router.pid || seconds <= 0) return;
  const tokens = Math.max(0, (router.core.tokens - old.core.tokens) / seconds);
  curve.push(tokens);
  curve.shift();
  put($("rate"), rate(tokens));
  put($("per-second"), rate(Math.max(0, (router.requests.completed - old.requests.completed) / seconds)));
  drawCurve();
}

const FIGURES = [
  ["Running", (r) => r.requests.running], ["Queued", (r) => r.requests.queued], ["Requests/s", null],
  ["Hand-offs", (r) => r.core.handoffs], ["Replays", (r) => r.core.replays], ["Completed", (r) => r.requests.completed],
];

function showFigures(router) {
  if (!$("figures").children.length)
    for (const [name, read] of FIGURES)
      $("figures").append(make("div", {}, make("dt", {}, name), make("dd", read ? {} : { id: "per-second" }, "0")));
  FIGURES.forEach(([, read], i) => read && put($("figures").children[i].lastChild, number.format(read(router))));
  put($("about"), `${router.name}, version ${router.version}, up ${span(router.uptime_s)}`);
}

// A card's parts are made once; later only what they say changes.
function makeCard(name) {
  const card = make("article", { class: "worker card", "aria-label": name });
  card.state = make("span");
  card.now = make("span");
  card.rate = make("span");
  card.used = make("span");
  card.cached = make("span", { class: "cached" });
  card.bar = make("div", { class: "bar", role: "meter", "aria-valuemin": "0", "aria-valuemax": "100" }, card.used, card.cached);
  card.lamp = make("span", { class: "state" }, make("i"), card.state);
  card.kv = make("span");
  card.place = make("span", { class: "place" });
  card.drain = make("button", { type: "button", class: "quiet small", onclick: () => order(card, card.isDraining ? "resume" : "drain", name) });
  card.kill = make("button", { type: "button", class: "quiet small", onclick: () => confirmKill(card, name) }, "Kill");
  card.problem = make("p", { class: "problem", role: "alert", hidden: true });
  card.append(make("div", { class: "top" }, make("b", {}, name), card.lamp), make("div", { class: "now" }, card.now, card.rate),
    make("div", { class: "kv" }, card.bar, card.kv), make("div", { class: "acts" }, card.place, card.drain, card.kill), card.problem);
  return card;
}

// Asks the router to drain, resume or kill a worker; a refusal is told on its card.
async function order(card, what, worker) {
  card.problem.hidden = true;
  try {
    await ask("/admin/" + what, { body: { worker } });
  } catch (failure) {
    card.problem.textContent = failure instanceof Refusal ? failure.message : "The server cannot be reached.";
    card.problem.hidden = false;
  }
}

// Said before it is done, and asked for twice: the second click within a few seconds.
function confirmKill(card, worker) {
  clearTimeout(card.asked);
  if (card.kill.textContent === "Kill") {
    put(card.kill, "Kill now");
    card.kill.title = KILL_TELLS;
    card.asked = setTimeout(() => put(card.kill, "Kill"), 4000);
    return;
  }
  put(card.kill, "Kill");
  order(card, "kill", worker);
}

function showActs(card, worker) {
  const place = worker.host ? `pid ${worker.pid} on ${worker.host}` : `pid ${worker.pid}`;
  card.isDraining = worker.state === "draining";
  put(card.place, worker.pid ? place : "");
  card.place.title = card.place.textContent;
  put(card.drain, card.isDraining ? "Resume" : "Drain");
  card.drain.title = card.isDraining ? "The worker takes work again" : "The worker ends what it runs, and takes nothing new";
  card.drain.hidden = !["ready", "draining", "aside", "trial", "suspect"].includes(worker.state);
  card.kill.hidden = !worker.child || !worker.pid;
  card.kill.title = KILL_TELLS;
}

// KV as parts of all blocks: what requests hold, and what is kept for prompts that begin alike.
function showBar(card, worker) {
  const { total, used, reserved, quarantined, cached } = worker.blocks;
  const isLoading = worker.state === "loading";
  const held = isLoading ? worker.percent / 100 : total ? (used + reserved + quarantined) / total : 0;
  const percent = held > 0 && held < 0.01 ? "< 1" : number.format(100 * held);
  card.bar.classList.toggle("loading", isLoading);
  card.used.style.setProperty("--part", held);
  card.cached.style.setProperty("--part", isLoading || !total ? 0 : cached / total);
  card.bar.setAttribute("aria-valuenow", Math.round(100 * held));
  card.bar.setAttribute("aria-label", isLoading ? "Model loaded" : "KV in use");
  const kept = total ? cached / total : 0;
  const keptText = kept >= 0.005 ? `, ${number.format(100 * kept)} % kept` : "";
  put(card.kv, isLoading ? `${percent} %` : `KV ${percent} % held${keptText}`);
  put(card.now, isLoading ? "reads its model" : `${worker.sequences.running} running, ${worker.sequences.waiting} waiting`);
  const tells = `KV blocks: ${used} in use, ${reserved} reserved, ${cached} kept for prompts that begin alike, of ${total}`;
  card.bar.title = card.kv.title = isLoading ? "" : tells;
}

function showState(card, state, reason) {
  card.lamp.dataset.state = STATES[state] ?? "busy";
  card.classList.toggle("gone", state === "gone");
  put(card.state, reason ? `${state}: ${reason.replaceAll("_", " ")}` : state);
}

function showWorker(card, worker, old, seconds) {
  showState(card, worker.state, worker.reason);
  showBar(card, worker);
  showActs(card, worker);
  if (old && old.incarnation === worker.incarnation && seconds >= 0.7) {
    const prompt = Math.max(0, (worker.prompt_tokens - old.prompt_tokens) / seconds);
    const made = Math.max(0, (worker.tokens - old.tokens) / seconds);
    const reads = worker.role === "prefill" && prompt > 0 ? `${rate(prompt)} prompt tok/s` : "";
    put(card.rate, made > (reads ? FIRST_TOKENS : 0) ? `${reads.replace(" tok/s", " + ")}${rate(made)} tok/s` : reads);
  }
}

// What happened between two pictures, in words.
function noteChanges(picture, old) {
  const ms = picture.time_ms, router = picture.routers[0], oldRouter = old.routers[0];
  if (oldRouter.pid !== router.pid) return;
  const were = new Map(old.workers.map((w) => [w.name, w]));
  for (const worker of picture.workers) {
    const was = were.get(worker.name);
    if (was && was.incarnation !== worker.incarnation) tell(ms, `${worker.name} is gone`); // and back, between two pictures
    if (was?.state !== worker.state || was.incarnation !== worker.incarnation) tell(ms, `${worker.name} is ${worker.state}`);
    were.delete(worker.name);
  }
  for (const name of were.keys()) tell(ms, `${name} is gone`);
  const replays = router.core.replays - oldRouter.core.replays;
  if (replays > 0) tell(ms, replays === 1 ? "1 request went on on another worker" : `${number.format(replays)} requests went on on other workers`);
  if (router.draining && !oldRouter.draining) tell(ms, "the router drains");
}

function roleBox(role) {
  const id = "role-" + role;
  if (!$(id)) {
    const box = make("section", { class: "role", id }, make("h2", {}, make("span", {}, ROLES[role] ?? role), make("span")));
    $("workers").append(box);
    const order = Object.keys(ROLES);
    $("workers").append(...[...$("workers").children].sort((a, b) => order.indexOf(a.id.slice(5)) - order.indexOf(b.id.slice(5))));
  }
  return $(id);
}

function showWorkers(picture, seconds) {
  const now = performance.now();
  const old = new Map((sampled?.workers ?? []).map((w) => [w.name, w]));
  const byName = [...picture.workers].sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  for (const worker of byName) {
    const card = cards.get(worker.name) ?? makeCard(worker.name);
    cards.set(worker.name, card);
    card.lastSeen = now;
    showWorker(card, worker, old.get(worker.name), seconds);
    if (card.parentNode !== roleBox(worker.role)) roleBox(worker.role).append(card);
  }
  for (const [name, card] of cards) {
    if (card.lastSeen !== now) {
      showState(card, "gone");
      for (const part of [card.now, card.rate, card.kv, card.place]) put(part, "");
      card.drain.hidden = card.kill.hidden = true;
      card.used.style.setProperty("--part", 0);
      card.cached.style.setProperty("--part", 0);
    }
    if (now - card.lastSeen > GONE_MS) {
      card.remove();
      cards.delete(name);
    }
  }
  for (const box of [...$("workers").children]) {
    const n = box.querySelectorAll(".worker:not(.gone)").length;
    put(box.querySelector("h2 :last-child"), String(n));
    if (!box.querySelector(".worker")) box.remove();
  }
}

function showHealth(state, text) {
  $("health").dataset.state = state;
  put($("health").lastChild, text);
}

function show(picture) {
  const router = picture.routers[0];
  const n = picture.workers.filter((w) => w.state === "ready").length;
  if (before) noteChanges(picture, before);
  showFigures(router);
  showWorkers(picture, sampled ? (picture.time_ms - sampled.time_ms) / 1000 : 0);
  sample(picture);
  before = picture;
  $("picture").classList.remove("old");
  if (router.draining) showHealth("busy", "draining");
  else showHealth(router.ready ? "good" : "bad", router.ready ? `${n} ${n === 1 ? "worker" : "workers"}` : "no worker");
}

// Where the picture is not for everybody, the lamp still says whether an answer would come.
async function lampAlone() {
  try {
    const answer = await fetch("/health", { cache: "no-store" });
    showHealth(answer.ok ? "good" : "bad", answer.ok ? "ready" : "not ready");
  } catch {
    showHealth("bad", "no connection");
  }
}

function lock(refusal) {
  $("locked").hidden = !refusal;
  $("picture").hidden = !!refusal;
  if (!refusal) return;
  put($("locked").firstChild, refusal.status === 401
    ? (keys.admin ? "The picture of the cluster needs an admin key; this one does not fit." : "The picture of the cluster needs an admin key.")
    : refusal.message);
  $("locked").lastChild.hidden = refusal.status !== 401;
}

// Watches for as long as the page is looked at: a hidden tab holds no place.
const watch = {
  stop: null, // of the stream that runs, or of the pause between two
  async run() {
    for (let pause = 500; ; pause = Math.min(2 * pause, 8000)) {
      const stop = (this.stop = new AbortController());
      let isLocked = false;
      try {
        if (!document.hidden) {
          const answer = await ask("/admin/events", { signal: stop.signal });
          lock(null);
          for await (const data of events(answer)) {
            show(JSON.parse(data));
            pause = 500;
          }
        }
      } catch (failure) {
        isLocked = failure instanceof Refusal && (failure.status === 401 || failure.status === 403);
        if (isLocked) lock(failure);
      }
      $("picture").classList.add("old");
      if (isLocked) await lampAlone();
      else if (!stop.signal.aborted) showHealth("bad", "no connection");
      await this.rest(document.hidden ? 1e9 : isLocked ? 15000 : pause, stop);
    }
  },
  rest(ms, { signal }) {
    return new Promise((resume) => {
      if (signal.aborted) resume();
      const timer = setTimeout(resume, ms);
      signal.addEventListener("abort", () => (clearTimeout(timer), resume()));
    });
  },
  again() {
    this.stop?.abort();
  },
};
