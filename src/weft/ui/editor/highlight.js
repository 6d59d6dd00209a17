// @ts-check
/** A line of YAML as parts with a class each. */

const PARTS = /(\$\{\{.*?\}\})|("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')|((?:^|\s)#.*$)|(^\s*(?:-\s+)*|[{,]\s*)([A-Za-z_][\w. -]*?)(?=:(?:\s|$))|\b(true|false|null)\b|(?<=[\s[,:])(-?\d+(?:\.\d+)?(?:ms|s|m|h|d|[KMGT]iB)?)(?=[\s,\]}]|$)/g;
const TEMPLATE = /(\$\{\{.*?\}\})/g;

/** @param {string} line @param {boolean} isText within a block of text @returns {[string, string][]} class ("" for none) and text */
export function highlighted(line, isText) {
  /** @type {[string, string][]} */
  const parts = [];
  let at = 0;
  const add = (/** @type {string} */ look, /** @type {string} */ text) => text && parts.push([look, text]);
  for (const found of line.matchAll(isText ? TEMPLATE : PARTS)) {
    add(isText ? "code-text" : "", line.slice(at, found.index));
    at = found.index + found[0].length;
    const [all, template, quoted, comment, before, key, word] = found;
    if (template) add("code-template", all);
    else if (quoted) add("code-text", all);
    else if (comment) add("code-comment", all);
    else if (key) {
      add("", before);
      add("code-key", key);
    } else add(word ? "code-word" : "code-number", all);
  }
  add(isText ? "code-text" : "", line.slice(at));
  return parts;
}
