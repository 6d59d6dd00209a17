// @ts-check
/** What may stand at a place of a definition, by its JSON Schema. */

/** @typedef {{text: string, help: string, insert: string}} Choice */

const SKIPPED = "#/$defs/longTask"; // the form that machines write: its keys would stand beside those that people use
const DEPTH_MAX = 12;

/** All schemas that one stands for: references and alternatives followed. @param {any} root @param {any} schema @param {number} [depth] @returns {any[]} */
function variants(root, schema, depth = 0) {
  if (!schema || typeof schema !== "object" || depth > DEPTH_MAX) return [];
  if (schema.$ref) return schema.$ref === SKIPPED ? [] : variants(root, schema.$ref.slice(2).split("/").reduce((/** @type {any} */ at, /** @type {string} */ name) => at?.[name], root), depth + 1);
  const below = ["anyOf", "oneOf", "allOf"].flatMap((name) => (schema[name] ?? []).flatMap((/** @type {any} */ one) => variants(root, one, depth + 1)));
  return [schema, ...below];
}

/** @param {any} root @param {string[]} path */
function schemasAt(root, path) {
  let found = variants(root, root);
  for (const step of path) {
    const next = found.flatMap((one) => {
      if (step === "[]") return [one.items];
      const own = one.properties?.[step];
      return [own ?? (typeof one.additionalProperties === "object" ? one.additionalProperties : null)];
    });
    found = next.flatMap((one) => variants(root, one));
  }
  return found;
}

/**
 * @param {any} root the schema @param {string[]} path @param {"key" | "value"} kind
 * @param {() => string[]} tasks names of the definition's tasks @returns {Choice[]}
 */
export function choicesAt(root, path, kind, tasks) {
  const schemas = schemasAt(root, path);
  /** @type {Map<string, Choice>} */
  const found = new Map();
  const add = (/** @type {string} */ text, /** @type {string} */ help, /** @type {string} */ insert) => found.has(text) || found.set(text, { text, help, insert });
  for (const schema of schemas) {
    if (kind === "key") for (const [name, of] of Object.entries(schema.properties ?? {})) add(name, /** @type {any} */ (of).description ?? "", `${name}: `);
    for (const one of kind === "value" ? schema.enum ?? [] : []) add(String(one), schema.description ?? "", String(one));
    if (kind === "value" && schema.type === "boolean") for (const one of ["true", "false"]) add(one, "", one);
  }
  const last = path.findLast((step) => step !== "[]");
  if ((kind === "value" || path.at(-1) === "[]") && path[0] === "tasks" && (last === "needs" || last === "files")) for (const name of tasks()) add(name, "a task", name);
  return [...found.values()];
}

/** Those that what is typed begins, then those that contain it; none if it is one of them. @param {Choice[]} choices @param {string} word */
export function matching(choices, word) {
  const typed = word.toLowerCase();
  if (choices.some((one) => one.text === word)) return [];
  const begins = choices.filter((one) => one.text.toLowerCase().startsWith(typed));
  return [...begins, ...choices.filter((one) => !begins.includes(one) && one.text.toLowerCase().includes(typed))];
}
