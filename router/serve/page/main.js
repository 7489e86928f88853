// What the page's controls do, and how it begins.

const IDEAS = ["What is a dog?", "Explain what a KV cache is, in three sentences.", "Write a haiku about two wheels.", "Show quicksort in C."];
const NARROW = matchMedia("(max-width: 940px)");

// What the settings come to where they are left empty: the model's own defaults, or ours (chat.js).
function showOwn() {
  put($("served"), $("model").value || "the model");
  for (const [id, name] of SAMPLING) $(id).placeholder = String(defaults()[name] ?? own.get($("model").value)?.[name] ?? "the model's own");
}

async function loadModels() {
  const field = $("model"), chosen = tab.get("model", "");
  try {
    const list = (await (await ask("/v1/models")).json()).data;
    field.replaceChildren(...list.map((m) => make("option", { value: m.id, title: `context of ${number.format(m.max_model_len ?? 0)} tokens` }, m.id)));
    if (list.some((m) => m.id === chosen)) field.value = chosen;
    for (const { id, sampling } of list) own.set(id, sampling ?? {});
    showOwn();
    wantKey("key", "", false);
    return true;
  } catch (failure) {
    field.replaceChildren(make("option", { value: "" }, "model"));
    if (failure.status === 401) wantKey("key", keys.client ? "This key does not fit." : "");
    return failure.status === 401;
  }
}

// The server wants a key, or no more: its field shows, with what is wrong with the one that it has.
function wantKey(id, problem, isWanted = true) {
  const note = $(id + "-row").lastChild;
  if (isWanted) $(id + "-row").hidden = false;
  note.textContent = problem;
  note.hidden = !problem;
  if (id === "key") $("needs-key").hidden = !isWanted;
}

function openSettings(id) {
  if (id) $(id + "-row").hidden = false;
  if (!$("settings").open) $("settings").showModal();
  if (id) $(id).focus();
}

// A key that is refused is asked for again.
async function tryKey() {
  await loadModels();
  if (!$("key-row").lastChild.hidden) openSettings("key");
}

function keepSettings() {
  const client = keys.client, admin = keys.admin;
  for (const id of ["system", "temperature", "top-p", "max-tokens"]) tab.set(id, $(id).value);
  keys.client = $("key").value.trim();
  keys.admin = $("admin-key").value.trim();
  tab.set("key", keys.client);
  tab.set("admin-key", keys.admin);
  if (keys.client !== client) tryKey();
  if (keys.admin !== admin) watch.again();
}

// The dialog's close event comes with a later task, and a question may be sent before it.
function closeSettings() {
  $("settings").close();
  keepSettings();
}

function view(name) {
  document.body.dataset.view = name;
  for (const button of document.querySelectorAll("[data-show]")) button.setAttribute("aria-pressed", button.dataset.show === name);
}

function listen() {
  $("composer").onsubmit = (event) => {
    event.preventDefault();
    if (running) running.abort();
    else send($("prompt").value);
  };
  $("prompt").oninput = fit;
  $("prompt").onkeydown = (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send(event.target.value);
  };
  document.onkeydown = (event) => {
    if (event.key === "Escape" && running && !$("settings").open) running.abort();
  };
  $("fresh").onclick = fresh;
  $("open-settings").onclick = () => openSettings();
  $("needs-key").lastChild.onclick = () => openSettings("key");
  $("locked").lastChild.onclick = () => openSettings("admin-key");
  $("settings").firstElementChild.onsubmit = (event) => {
    event.preventDefault();
    closeSettings();
  };
  $("settings").onclose = keepSettings; // by Escape
  $("settings").onclick = (event) => {
    if (event.target === $("settings")) closeSettings(); // beside the form
  };
  $("model").onchange = () => {
    tab.set("model", $("model").value);
    showOwn();
  };
  $("copy-base").onclick = (event) => copy($("base").textContent, event.target);
  document.onvisibilitychange = () => watch.again();
  for (const button of document.querySelectorAll("[data-show]")) button.onclick = () => view(button.dataset.show);
}

async function begin() {
  for (const id of ["system", "temperature", "top-p", "max-tokens"]) $(id).value = tab.get(id, "");
  $("key").value = keys.client;
  $("admin-key").value = keys.admin;
  $("key-row").hidden = !keys.client;
  $("admin-key-row").hidden = !keys.admin;
  $("base").textContent = location.origin + "/v1";
  $("ideas").append(...IDEAS.map((text) => make("button", { type: "button", onclick: () => send(text) }, text)));
  turns.forEach(draw);
  settle();
  follow();
  listen();
  fit();
  drawCurve();
  if (!NARROW.matches) $("prompt").focus();
  watch.run();
  while (!(await loadModels())) await new Promise((resume) => setTimeout(resume, 2000));
}

begin();
