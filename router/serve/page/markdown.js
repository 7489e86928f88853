// The Markdown that models write, as elements: headings, lists, quotes, tables, code, emphasis, links.
//
// A text is cut into blocks; while it streams, only blocks that differ are made again: mostly the last one. All
// repetition within a pattern is bounded, so that no text makes a tab slow.

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)(?:\s+#+)?\s*$/;
const RULE = /^ {0,3}(?:(?:- *){3,}|(?:\* *){3,}|(?:_ *){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,9})([-*+]|\d{1,9}[.)])(?: +|$)/;
const TABLE = /^ {0,3}\|?(?: *:?-+:? *\|)+(?: *:?-+:? *)?$/;
const DEEP = 6; // quotes and lists within one another

const startsBlock = (line) => FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || ITEM.test(line);
const indent = (line) => line.length - line.trimStart().length;

// Where the code ends that line `at` opens: the index behind it.
function endOfFence(lines, at) {
  const mark = lines[at].match(FENCE)[1];
  for (let i = at + 1; i < lines.length; i++) {
    const line = lines[i].trim();
    if (line.length >= mark.length && line === mark[0].repeat(line.length)) return i + 1;
  }
  return lines.length; // it still streams
}

function endOfList(lines, at) {
  const isOrdered = /\d/.test(lines[at].match(ITEM)[2]);
  let i = at + 1;
  for (; i < lines.length; i++) {
    const item = lines[i].match(ITEM);
    if (lines[i].trim() === "") {
      const next = lines[i + 1];
      if (next === undefined || !(indent(next) >= 2 && next.trim()) && !ITEM.test(next)) return i;
    } else if (indent(lines[i]) < 2 && (item ? /\d/.test(item[2]) !== isOrdered : startsBlock(lines[i]) || lines[i - 1].trim() === "")) {
      return i;
    }
  }
  return i;
}

function endOfBlock(kind, lines, at) {
  if (kind === "code") return endOfFence(lines, at);
  if (kind === "list") return endOfList(lines, at);
  if (kind === "heading" || kind === "rule") return at + 1;
  let i = at + 1;
  if (kind === "quote") while (i < lines.length && lines[i].trim() && (QUOTE.test(lines[i]) || !startsBlock(lines[i]))) i++;
  if (kind === "table") while (i < lines.length && lines[i].includes("|")) i++;
  if (kind === "text") while (i < lines.length && lines[i].trim() && !startsBlock(lines[i])) i++;
  return i;
}

function kindOf(lines, at) {
  const line = lines[at];
  if (FENCE.test(line)) return "code";
  if (HEADING.test(line)) return "heading";
  if (RULE.test(line)) return "rule";
  if (QUOTE.test(line)) return "quote";
  if (ITEM.test(line)) return "list";
  return line.includes("|") && TABLE.test(lines[at + 1] ?? "") ? "table" : "text";
}

// [{kind, lines}]
function blocksOf(lines) {
  const blocks = [];
  for (let at = 0; at < lines.length; ) {
    if (lines[at].trim() === "") {
      at++;
      continue;
    }
    const kind = kindOf(lines, at);
    const end = endOfBlock(kind, lines, at);
    blocks.push({ kind, lines: lines.slice(at, end) });
    at = end;
  }
  return blocks;
}

const SPAN = new RegExp(
  [
    /\\([\\`*_{}[\]()#+\-.!~|>])/, // 1: an escaped mark
    /(`{1,3})(?!`)([^]{1,2000}?[^`]|[^`])\2(?!`)/, // 2, 3: code
    /\*\*(?=\S)([^]{0,1000}?[^\s])\*\*(?!\*)/, // 4: strong
    /(?<!\w)__(?=\S)([^]{0,1000}?\S)__(?!\w)/, // 5: strong
    /\*(?=[^\s*])([^]{0,1000}?[^\s*])\*(?!\*)/, // 6: emphasis
    /(?<!\w)_(?=[^\s_])([^]{0,1000}?[^\s_])_(?!\w)/, // 7: emphasis
    /~~(?=\S)([^]{0,1000}?\S)~~/, // 8: struck out
    /\[([^\]\n]{1,500})\]\(([^()\s]{1,2000})(?: "[^"\n]{0,300}")?\)/, // 9, 10: a link
    /(https?:\/\/[^\s<>"'`\])]{1,2000}[^\s<>"'`\]).,;:!?*_])/, // 11: an address
  ].map((part) => part.source).join("|"), "g");

// Other schemes (javascript:) are no links.
function linkTo(address, ...content) {
  if (!/^(https?:\/\/|mailto:)/i.test(address)) return [...content, ` (${address})`];
  return [make("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, ...content)];
}

// One line of text or several, as nodes.
function spans(text, depth = 0) {
  const nodes = [];
  let at = 0;
  const plain = (piece) => piece.split("\n").forEach((line, i) => nodes.push(...(i ? [make("br")] : []), line.replace(/ +$/, (blanks) => blanks && " ")));
  for (const found of depth > DEEP ? [] : text.matchAll(SPAN)) {
    const [all, mark, , code, strong, strong2, slanted, slanted2, struck, words, address, bare] = found;
    const inside = (name, source) => nodes.push(make(name, {}, ...spans(source, depth + 1)));
    plain(text.slice(at, found.index));
    at = found.index + all.length;
    if (mark) nodes.push(mark);
    else if (code) nodes.push(make("code", {}, code.replace(/^ (.*\S.*) $/, "$1")));
    else if (strong ?? strong2) inside("strong", strong ?? strong2);
    else if (slanted ?? slanted2) inside("em", slanted ?? slanted2);
    else if (struck) inside("s", struck);
    else if (address) nodes.push(...linkTo(address, ...spans(words, depth + 1)));
    else nodes.push(...linkTo(bare, bare));
  }
  plain(text.slice(at));
  return nodes;
}

function codeBlock(lines) {
  const [, mark, info] = lines[0].match(FENCE);
  const last = lines.length > 1 ? lines.at(-1).trim() : "";
  const isClosed = last.length >= mark.length && last === mark[0].repeat(last.length);
  const text = lines.slice(1, isClosed ? -1 : undefined).join("\n");
  const words = make("div", {}, make("span", {}, info.trim().split(/\s/)[0] || "text"), copier(() => text));
  return make("div", { class: "block" }, words, make("pre", { tabIndex: 0 }, make("code", {}, text)));
}

function list(lines, depth) {
  const first = lines[0].match(ITEM);
  const items = [];
  for (const line of lines) {
    const item = line.match(ITEM);
    if (item && item[1].length < Math.max(2, first[1].length + 2)) items.push({ n: item[0].length, lines: [line.slice(item[0].length)] });
    else items.at(-1).lines.push(line.slice(Math.min(indent(line), items.at(-1).n)));
  }
  const isOrdered = /\d/.test(first[2]);
  const whole = make(isOrdered ? "ol" : "ul");
  if (isOrdered) whole.start = parseInt(first[2], 10);
  for (const item of items) {
    const blocks = blocksOf(item.lines);
    const isTight = blocks[0]?.kind === "text" && !item.lines.includes("");
    whole.append(make("li", {}, ...blocks.flatMap((b, i) => (isTight && i === 0 ? spans(b.lines.join("\n")) : [element(b, depth + 1)]))));
  }
  return whole;
}

function table(lines) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
  const row = (line, name) => make("tr", {}, ...cells(line).map((cell) => make(name, {}, ...spans(cell))));
  const body = lines.slice(2).map((line) => row(line, "td"));
  return make("div", { class: "wide", tabIndex: 0 }, make("table", {}, make("thead", {}, row(lines[0], "th")), make("tbody", {}, ...body)));
}

function element({ kind, lines }, depth = 0) {
  if (depth > DEEP) return make("p", {}, lines.join("\n"));
  if (kind === "code") return codeBlock(lines);
  if (kind === "list") return list(lines, depth);
  if (kind === "table") return table(lines);
  if (kind === "rule") return make("hr");
  if (kind === "heading") {
    const [, marks, words] = lines[0].match(HEADING);
    return make("h3", { class: marks.length < 3 ? "big" : "" }, ...spans(words));
  }
  if (kind === "quote") {
    const inner = blocksOf(lines.map((line) => line.replace(QUOTE, "")));
    return make("blockquote", {}, ...inner.map((block) => element(block, depth + 1)));
  }
  return make("p", {}, ...spans(lines.map((line) => line.trimStart()).join("\n")));
}

// Shows a text that grows in `root`.
class Markdown {
  constructor(root) {
    this.root = root;
    this.shown = []; // the sources of root's children
  }

  show(text) {
    const blocks = blocksOf(text.split("\n"));
    const sources = blocks.map((block) => block.kind + block.lines.join("\n"));
    const same = this.shown.findIndex((source, i) => source !== sources[i]);
    const from = same < 0 ? this.shown.length : same;
    while (this.root.children.length > from) this.root.lastChild.remove();
    this.root.append(...blocks.slice(from).map((block) => element(block)));
    this.shown = sources;
  }
}
