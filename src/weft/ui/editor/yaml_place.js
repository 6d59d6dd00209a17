// @ts-check
/** Where in a YAML document the cursor stands: by indentation and open braces, so that it works while the text is no YAML yet. */

/** `path`: keys from the top, "[]" for an item of a list; `word`: what is typed so far, from column `from` on; `column`: where keys beside it begin, null within braces. */
/** @typedef {{path: string[], kind: "key" | "value", word: string, from: number, column: number | null}} Place */

const KEY = /^("[^"]*"|'[^']*'|[^\s"'#{}[\],&*!|>%@`-][^:#]*?|-[^\s:][^:#]*?):(?:\s+|$)/;

/** The items ("- ") and the key that a line begins with, each with its column, and what follows. @param {string} line */
function prefix(line) {
  let at = line.length - line.trimStart().length;
  const items = [];
  while (/^-(\s|$)/.test(line.slice(at))) {
    items.push(at);
    at += 1;
    at += line.slice(at).length - line.slice(at).trimStart().length;
  }
  const found = KEY.exec(line.slice(at));
  return { items, key: found ? { name: unquoted(found[1]), at } : null, first: items[0] ?? at, content: at, rest: at + (found ? found[0].length : 0) };
}

/** @param {string} text */
const unquoted = (text) => (/^["']/.test(text) ? text.slice(1, -1) : text.trim());

/** @param {string} line */
const isEmpty = (line) => /^\s*(#|$)/.test(line);

/** The keys above that enclose a place; null: it is within a text. @param {string[]} lines @param {number} row @param {number} column @param {boolean} isItem */
function enclosing(lines, row, column, isItem) {
  const path = [];
  let keysBelow = isItem ? column + 1 : column;
  let itemsBelow = column;
  for (let nth = row - 1; nth >= 0 && (keysBelow > 0 || itemsBelow > 0); nth--) {
    if (isEmpty(lines[nth])) continue;
    const above = prefix(lines[nth]);
    if (above.key && above.key.at < keysBelow) {
      if (/^[|>]/.test(lines[nth].slice(above.rest))) return null;
      path.unshift(above.key.name);
      keysBelow = itemsBelow = above.key.at;
    }
    for (const at of above.items.toReversed()) {
      if (at >= itemsBelow) continue;
      path.unshift("[]");
      itemsBelow = at;
      keysBelow = at + 1;
    }
  }
  return path;
}

/** @param {string[]} lines @param {number} row @param {number} column of the cursor @returns {Place | null} */
export function placeAt(lines, row, column) {
  const head = lines[row].slice(0, column);
  if (/(^|\s)#/.test(head.replace(/"[^"]*"|'[^']*'/g, ""))) return null;
  const here = prefix(head);
  const empty = head.trim() === "";
  const path = enclosing(lines, row, empty ? column : here.first, here.items.length > 0);
  if (path === null) return null;
  path.push(...here.items.map(() => "[]"));
  const rest = head.slice(here.rest);
  if (here.key) path.push(here.key.name);
  if (/^[{[]/.test(rest)) return withinBraces(rest, path, column);
  const kind = here.key ? "value" : "key";
  return { path, kind, word: rest.trimStart(), from: column - rest.trimStart().length, column: here.key ? null : empty ? column : here.content };
}

/** @param {string} text from the first brace on @param {string[]} path @param {number} column @returns {Place} */
function withinBraces(text, path, column) {
  /** @type {string[]} */ const open = [];
  /** @type {string[]} */ const added = [];
  let word = "";
  let key = false;
  for (const one of text.replace(/"[^"]*"|'[^']*'/g, (quoted) => "_".repeat(quoted.length))) {
    if (one === "{" || one === "[") {
      open.push(one);
      added.push(one === "[" ? "[]" : "");
      [word, key] = ["", false];
    } else if (one === "}" || one === "]") {
      open.pop();
      added.pop();
      [word, key] = ["", true];
    } else if (one === ",") {
      if (open.at(-1) === "{") added[added.length - 1] = "";
      [word, key] = ["", false];
    } else if (one === ":" && open.at(-1) === "{" && !key) {
      added[added.length - 1] = word.trim();
      [word, key] = ["", true];
    } else word += one;
  }
  const typed = word.trimStart();
  const inMapping = open.at(-1) === "{";
  return { path: [...path, ...added.filter(Boolean)], kind: inMapping && !key ? "key" : "value", word: typed, from: column - typed.length, column: null };
}

/** The keys that stand beside a key in this column already. @param {string[]} lines @param {number} row @param {number} column */
export function keysBeside(lines, row, column) {
  const found = new Set();
  for (const step of [-1, 1]) {
    for (let nth = row + step; nth >= 0 && nth < lines.length; nth += step) {
      if (isEmpty(lines[nth])) continue;
      const other = prefix(lines[nth]);
      if (other.key?.at === column) found.add(other.key.name);
      if (other.first < column) break;
    }
  }
  return found;
}

/** The names of the tasks that the text has. @param {string[]} lines */
export function taskNames(lines) {
  const from = lines.findIndex((line) => /^tasks:/.test(line));
  const names = [];
  let column = -1;
  for (let nth = from + 1; from >= 0 && nth < lines.length; nth++) {
    if (isEmpty(lines[nth])) continue;
    const { key, first } = prefix(lines[nth]);
    if (first === 0) break;
    if (column < 0) column = first;
    if (key?.at === column) names.push(key.name);
  }
  return names;
}

/** For each line whether it is part of a text in block form ("|", ">"). @param {string[]} lines */
export function blockLines(lines) {
  const inside = new Array(lines.length).fill(false);
  let column = -1;
  lines.forEach((line, nth) => {
    const indent = line.length - line.trimStart().length;
    if (column >= 0 && (line.trim() === "" || indent > column)) inside[nth] = true;
    else column = /(:|-)\s+[|>][+-]?\d?\s*(#.*)?$/.test(line) ? indent : -1;
  });
  return inside;
}
