// @ts-check
/**
 * Addresses: `#/runs/ID/graph?task=build`. They are in the fragment, so that they work below any prefix of a proxy and
 * in no server's log.
 */

/** @typedef {{path: string[], query: URLSearchParams}} Place */

/** @returns {Place} */
export function here() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?", 2);
  return { path: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(query ?? "") };
}

/** An address that somebody cut off within a character is taken as it is. @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** @param {string[]} path @param {URLSearchParams | Record<string, string>} [query] */
export function address(path, query = {}) {
  const text = new URLSearchParams(query).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

/** @param {string} to @param {boolean} [replace] without a step in the history */
export function go(to, replace = false) {
  if (to === location.hash) return;
  if (!replace) location.hash = to;
  else {
    history.replaceState(null, "", to);
    dispatchEvent(new HashChangeEvent("hashchange"));
  }
}

/** This place with some parameters changed; null removes one. @param {Record<string, string | null>} changes */
export function changed(changes) {
  const { path, query } = here();
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") query.delete(name);
    else query.set(name, value);
  }
  return address(path, query);
}
