// @ts-check
/** Making elements. Text is always a text node: nothing here, and nothing in the page, parses HTML. */

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * @param {string} tag
 * @param {Record<string, any>} [props] `on` are listeners, `class` a class, `style` an object; others are attributes
 * @param {...(Child | Child[])} children
 * @returns {HTMLElement}
 */
export function h(tag, props = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, listener] of Object.entries(value)) made.addEventListener(event, listener);
    else if (name === "style") Object.assign(made.style, value);
    else if (name === "value" || name === "checked") /** @type {any} */ (made)[name] = value;
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  fill(made, ...children);
  return made;
}

/**
 * @param {Element} parent
 * @param {...(Child | Child[])} children
 */
export function fill(parent, ...children) {
  const nodes = children.flat().filter((one) => one !== null && one !== undefined && one !== false);
  parent.append(.../** @type {(Node | string)[]} */ (nodes.map((one) => (one instanceof Node ? one : String(one)))));
}

/**
 * @param {Element} parent
 * @param {...(Child | Child[])} children
 */
export function refill(parent, ...children) {
  parent.replaceChildren();
  fill(parent, ...children);
}

/** @param {Child[]} heads of its columns; one that is not there is left out @param {Element[] | Element} lines, or the body @param {Record<string, any>} [props] */
export function table(heads, lines, props = {}) {
  const head = heads.filter((one) => one || one === "").map((one) => (one instanceof HTMLTableCellElement ? one : h("th", { scope: "col" }, one)));
  return h("table", props, h("thead", {}, h("tr", {}, head)), Array.isArray(lines) ? h("tbody", {}, lines) : lines);
}

/** For those who do not see the page. @param {string} text */
export const unseen = (text) => h("span", { class: "sr" }, text);

/** @param {string} path @param {Record<string, string>} [more] */
export function icon(path, more = {}) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("aria-hidden", "true");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
  const look = { d: path, fill: "none", stroke: "currentColor", "stroke-width": "1.8", "stroke-linecap": "round", "stroke-linejoin": "round", ...more };
  for (const [name, value] of Object.entries(look)) line.setAttribute(name, value);
  svg.append(line);
  return svg;
}

/** Calls at once, then at most every `ms` while it is asked for again; the last request is never lost.
 * @param {number} ms @param {() => void} work */
export function paced(ms, work) {
  let timer = 0;
  let again = false;
  return () => {
    if (timer) {
      again = true;
      return;
    }
    const ended = () => {
      timer = 0;
      if (again) {
        again = false;
        begin();
      }
    };
    const begin = () => {
      timer = window.setTimeout(ended, ms);
      work();
    };
    begin();
  };
}

/** An element that ends what it began when it leaves the page. */
export class Part extends HTMLElement {
  #life = new AbortController();

  /** Aborted when the element leaves. */
  get life() {
    return this.#life.signal;
  }

  connectedCallback() {
    if (this.#life.signal.aborted) this.#life = new AbortController();
    this.begin();
  }

  disconnectedCallback() {
    this.#life.abort();
  }

  begin() {}

  /** @param {EventTarget} target @param {string} event @param {(event: any) => void} listener */
  hear(target, event, listener) {
    target.addEventListener(event, listener, { signal: this.life });
  }

  /** @param {number} ms @param {() => void} work */
  every(ms, work) {
    const timer = setInterval(work, ms);
    this.life.addEventListener("abort", () => clearInterval(timer));
  }
}
