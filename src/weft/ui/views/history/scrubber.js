// @ts-check
/** Goes through a run's history: graph, table, timeline and `why` show it as it was after the event that the address names. */

import { Part, h, icon, paced, refill } from "../../parts/dom.js";
import { clock, count, span } from "../../parts/format.js";
import { SHAPES } from "../../parts/states.js";
import { problemText, toast } from "../../parts/toast.js";
import { changed, go } from "../../shell/router.js";

const TICK_MS = 100;
const TICKS = 150; // a whole run is played in fifteen seconds
const AGAIN_MS = 1000;
const MARKS = /** @type {Record<string, string>} */ ({ resumed: "resumed", run_finished: "over", paused: "over", stopped: "over" });

export class Scrubber extends Part {
  /** @type {any} numbers of events, as the API gives them */ #history = null;
  #range = /** @type {HTMLInputElement} */ (h("input", { type: "range", min: "1", max: "1", step: "1", "aria-label": "Event of the run's history" }));
  #marks = h("div", { class: "marks", "aria-hidden": "true" });
  #said = h("span", { class: "said", role: "status" });
  #play = h("button", { "aria-label": "Play", title: "Play (p)", on: { click: () => this.#toggle() } }, icon(SHAPES.running));
  #back = h("a", { class: "button main", href: "#" }, "Back to now");
  #timer = 0;
  #again = paced(AGAIN_MS, () => this.#read());

  /** @param {import("../../shell/main.js").App} app @param {import("../../data/run_model.js").RunModel} model */
  constructor(app, model) {
    super();
    this.app = app;
    this.model = model;
  }

  begin() {
    this.className = "scrubber";
    const tool = (/** @type {string} */ text, /** @type {string} */ label, /** @type {() => void} */ act) => h("button", { "aria-label": label, title: label, on: { click: act } }, text);
    const rewind = h("button", { class: "rewind", title: "Show the run as it was ([)", on: { click: () => this.#step(-1) } }, "↶ History");
    refill(this, rewind, h("div", { class: "scrubbing" },
      tool("«", "First event", () => this.#to(1)), tool("‹", "One event back ([)", () => this.#step(-1)), this.#play, tool("›", "One event on (])", () => this.#step(1)),
      h("div", { class: "track" }, this.#marks, this.#range), this.#back, this.#said));
    this.hear(this.#range, "input", () => this.#to(Number(this.#range.value)));
    this.hear(this.model, "change", () => this.#show());
    this.hear(document, "keydown", (event) => this.#key(event));
    this.life.addEventListener("abort", () => this.#stop());
    this.#show();
  }

  #show() {
    const { past, missed } = this.model;
    this.toggleAttribute("data-past", past !== null);
    if (past === null) return;
    if (this.#history === null || this.#history.total < past.total) this.#again();
    const { event } = past;
    this.#range.max = String(past.total);
    this.#range.value = String(event.number);
    this.#back.setAttribute("href", changed({ at: null }));
    const since = missed ? `, ${count(missed)} since you went back` : "";
    this.#range.setAttribute("aria-valuetext", `event ${event.number} of ${past.total}: ${event.kind} ${event.task ?? ""}`);
    refill(this.#said, h("b", { class: "name" }, `${event.kind} ${event.task ?? ""}`), ` ${clock(event.at)}, ${span(event.at - this.model.run.created_at)} in · event ${count(event.number)} of ${count(past.total)}${since}`);
  }

  async #read() {
    try {
      const found = (this.#history = await this.app.api.call("get_history", { run: this.model.id }, this.life));
      refill(this.#marks, found.notable.map((/** @type {any} */ one) => h("i", { class: MARKS[one.kind] ?? "bad", title: `${one.kind} ${one.task ?? ""}`, style: { left: `${(100 * (one.number - 1)) / Math.max(1, found.total - 1)}%` } })));
    } catch (error) {
      if (!this.life.aborted) toast(problemText(error), true);
    }
  }

  /** @param {number} number of an event, from 1 */
  async #to(number) {
    if (this.#history === null) await this.#read();
    if (this.#history === null) return;
    const { events, every, total } = this.#history;
    const nth = Math.min(Math.max(1, number), total) - 1;
    const seq = events[Math.min(events.length - 1, Math.floor(nth / every))];
    go(changed({ at: String(seq) }), true);
  }

  /** @param {number} by so many events */
  async #step(by) {
    const { past } = this.model;
    if (past === null && by > 0) return;
    if (past === null) {
      await this.#read();
      return this.#to((this.#history?.total ?? 1) + by);
    }
    const near = by === 1 ? past.next : by === -1 ? past.previous : undefined;
    if (near === null) return by > 0 ? go(changed({ at: null }), true) : undefined;
    return near === undefined ? this.#to(past.event.number + by) : go(changed({ at: String(near) }), true);
  }

  #toggle() {
    if (this.#timer) return this.#stop();
    refill(this.#play, icon(SHAPES.paused));
    this.#play.setAttribute("aria-label", "Stop");
    this.#timer = window.setInterval(() => this.#tick(), TICK_MS);
    if (this.model.past === null || this.model.past.next === null) this.#to(1);
  }

  #tick() {
    const { past } = this.model;
    if (past === null) return;
    if (past.next === null) this.#stop();
    else this.#step(Math.max(1, Math.ceil(past.total / TICKS)));
  }

  #stop() {
    clearInterval(this.#timer);
    this.#timer = 0;
    refill(this.#play, icon(SHAPES.running));
    this.#play.setAttribute("aria-label", "Play");
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (/** @type {HTMLElement} */ (event.target).closest("input:not([type=range]), textarea, select, dialog") || event.ctrlKey || event.metaKey) return;
    const far = Math.max(20, Math.ceil((this.model.past?.total ?? 0) / 20));
    const steps = /** @type {Record<string, number>} */ ({ "[": -1, "]": 1, "{": -far, "}": far });
    if (steps[event.key]) this.#step(steps[event.key]);
    else if (event.key === "p") this.#toggle();
  }
}

customElements.define("weft-scrubber", Scrubber);
