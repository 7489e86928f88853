// Elements, and what the tab remembers. Text becomes text nodes, here and everywhere: nothing that a model or a
// server says is ever read as HTML (the page's policy forbids it to the browser, too).

const $ = (id) => document.getElementById(id);

// An element with properties ("class" and names with a dash as attributes) and children; strings become text.
function make(name, props = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(props))
    if (key === "class" || key.includes("-")) element.setAttribute(key, value);
    else element[key] = value;
  element.append(...children);
  return element;
}

// Writes only what differs, so that a screen reader and a selection are left alone.
function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// What lasts as long as the tab. A full or forbidden store costs the memory alone.
const tab = {
  get(key, otherwise) {
    try {
      return JSON.parse(sessionStorage.getItem("tandem." + key)) ?? otherwise;
    } catch {
      return otherwise;
    }
  },
  set(key, value) {
    try {
      sessionStorage.setItem("tandem." + key, JSON.stringify(value));
    } catch {
      // The conversation is longer than the browser keeps.
    }
  },
};

// For readers who do not see the page.
function say(text) {
  $("say").textContent = text;
}

// Browsers have a clipboard only where the page came by https or from this host.
async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = make("textarea", { value: text, class: "unseen" });
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
    button.focus();
  }
  const before = button.textContent;
  if (before === "Copied") return;
  button.textContent = "Copied";
  say("Copied");
  setTimeout(() => (button.textContent = before), 1400);
}

function copier(text) {
  const button = make("button", { type: "button", class: "quiet small" }, "Copy");
  button.onclick = () => copy(text(), button);
  return button;
}

const number = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });

// Three digits say enough: 0, 4.2, 87, 1,240.
function rate(value) {
  return value > 0 && value < 20 ? tenth.format(value) : number.format(value);
}

function duration(ms) {
  return ms < 1000 ? `${number.format(ms)} ms` : `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
}
