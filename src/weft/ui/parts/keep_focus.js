// @ts-check
/** A table that is filled anew keeps the keyboard's place: the same link, box or button of the line with the same key. */

const KINDS = "a, input, button";

/** @param {HTMLElement} body whose lines have `data-key` @param {() => void} work that fills it anew */
export function keepFocus(body, work) {
  const held = /** @type {HTMLElement | null} */ (document.activeElement);
  const line = held && body.contains(held) ? /** @type {HTMLElement | null} */ (held.closest("[data-key]")) : null;
  const key = line?.dataset.key;
  const nth = line && held ? [...line.querySelectorAll(KINDS)].indexOf(held) : -1;
  work();
  if (key === undefined || nth < 0) return;
  const same = [...body.querySelectorAll("[data-key]")].find((one) => /** @type {HTMLElement} */ (one).dataset.key === key);
  /** @type {HTMLElement | undefined} */ (same?.querySelectorAll(KINDS)[nth])?.focus({ preventScroll: true });
}
