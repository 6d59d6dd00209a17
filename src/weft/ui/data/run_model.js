// @ts-check
/**
 * One run as the page shows it: its graph, and the states of its tasks in typed arrays by position.
 *
 * Events patch the states at once. What they do not say (a task that became ready is queued without an event), and how
 * the elements of mapped tasks stand, comes with the next reading of all states, at most every two seconds.
 */

import { paced } from "../parts/dom.js";
import { ENDED, PLACE, STATES } from "../parts/states.js";

const READ_MS = 2000;
const RUN_KINDS = new Set(["run_finished", "resumed", "paused", "unpaused", "halted", "stopped", "advanced", "budget"]);
const MOVES = new Set(["finished", "lost", "returned", "decided", "refused", "answered", "closed", "budget"]);

/** Dispatches `change` (states, at most once a frame), `graph` (another definition) and `problem`. */
export class RunModel extends EventTarget {
  /** @type {any} */ run = null;
  /** @type {any} */ graph = null;
  states = new Uint8Array(0);
  attempts = new Uint32Array(0);
  /** ms since the run was submitted; NaN: not yet */
  began = new Float64Array(0);
  ended = new Float64Array(0);
  /** @type {Map<number, {elements: number, states: Record<string, number>}>} */
  elements = new Map();
  counts = new Uint32Array(STATES.length);
  /** The server's clock minus ours. */
  clockOffset = 0;
  waitsForAdvance = false;
  /** Events that were applied; for measurements. */
  applied = 0;
  #lastEvent = -1;
  /** Events that came while the states were being read. @type {any[] | null} */
  #meanwhile = null;
  #frame = 0;
  /** @type {Map<string, number>} */
  #positions = new Map();
  #reread;
  #refresh;

  /** @param {import("./api.js").Api} api @param {string} id @param {AbortSignal} life */
  constructor(api, id, life) {
    super();
    this.api = api;
    this.id = id;
    this.life = life;
    this.#reread = paced(READ_MS, () => this.#guarded(() => Promise.all([this.#readStates(false), this.#readRun()])));
    this.#refresh = paced(READ_MS / 2, () => this.#guarded(() => this.#readRun()));
  }

  /** @param {import("./live.js").Live} live */
  follow(live) {
    live.subscribe(this.id, (message) => this.#receive(message), this.life);
  }

  /** @param {any} message */
  #receive(message) {
    if (message.kind === "open") this.#guarded(() => this.#readAll());
    else if (message.kind === "events") this.apply(message.events);
  }

  /** @param {() => Promise<any>} work */
  async #guarded(work) {
    try {
      await work();
    } catch (error) {
      if (!this.life.aborted) this.dispatchEvent(new CustomEvent("problem", { detail: error }));
    }
  }

  async #readAll() {
    await Promise.all([this.#readRun(), this.graph === null ? this.#readGraph() : null]);
    await this.#readStates(true);
  }

  async #readRun() {
    const found = await this.api.call("get_run", { run: this.id, tasks: 0 }, this.life);
    this.run = found.run;
    this.waitsForAdvance = found.awaiting_advance;
    this.#changed();
  }

  async #readGraph() {
    const graph = await this.api.call("get_graph", { run: this.id }, this.life);
    const tasks = graph.names.length;
    this.graph = graph;
    this.#positions = new Map(graph.names.map((/** @type {string} */ name, /** @type {number} */ pos) => [name, pos]));
    this.states = new Uint8Array(tasks).fill(PLACE.pending);
    this.attempts = new Uint32Array(tasks);
    this.began = new Float64Array(tasks).fill(NaN);
    this.ended = new Float64Array(tasks).fill(NaN);
    this.dispatchEvent(new Event("graph"));
  }

  /** @param {boolean} times */
  async #readStates(times) {
    this.#meanwhile = [];
    const found = await this.api.call("get_states", { run: this.id, times: times || this.run?.state !== "running" }, this.life);
    if (found.workflow !== this.graph?.workflow) await this.#readGraph();
    this.clockOffset = found.now - Date.now();
    for (let pos = 0; pos < this.states.length; pos++) this.states[pos] = PLACE[found.letters[found.states[pos]]];
    this.attempts.set(found.attempts);
    for (const [pos, at] of found.began.entries()) this.began[pos] = at ?? NaN;
    for (const [pos, at] of found.ended.entries()) this.ended[pos] = at ?? NaN;
    this.elements = new Map(Object.entries(found.elements).map(([pos, one]) => [Number(pos), /** @type {any} */ (one)]));
    this.#lastEvent = Math.max(this.#lastEvent, found.last_event);
    this.#recount();
    for (const event of this.#meanwhile ?? []) if (event.seq > found.last_event) this.#patch(event);
    this.#meanwhile = null;
    this.#changed();
  }

  #recount() {
    this.counts.fill(0);
    for (const state of this.states) this.counts[state]++;
  }

  /** @param {any[]} events in the order of their numbers */
  apply(events) {
    if (this.graph === null) return;
    for (const event of events) {
      if (event.seq <= this.#lastEvent) continue;
      this.#lastEvent = event.seq;
      this.applied++;
      this.#meanwhile?.push(event);
      this.#patch(event);
      if (RUN_KINDS.has(event.kind)) this.#refresh();
    }
    this.#reread();
    this.#changed();
  }

  /** @param {any} event */
  #patch(event) {
    const { kind, data, task } = event;
    const at = event.at - (this.run?.created_at ?? event.at);
    if (kind === "cancelled" || kind === "admitted" || kind === "paused") {
      const state = kind === "cancelled" ? "cancelled" : kind === "admitted" ? "queued" : "pending";
      for (const [pos, idx] of data.tasks) if (idx < 0) this.#set(pos, state, at);
      return;
    }
    const pos = task === null ? undefined : this.#positions.get(task);
    if (pos === undefined) return;
    if (kind === "assigned" || kind === "begun") {
      this.attempts[pos] = data.attempt;
      this.began[pos] = at;
      this.ended[pos] = NaN;
      this.#set(pos, "running", at);
    } else if (kind === "expanded") {
      this.began[pos] = at;
      this.#set(pos, "running", at);
    } else if (kind === "skipped" || kind === "waiting") {
      if (kind === "waiting") this.began[pos] = at;
      this.#set(pos, kind, at);
    } else if (MOVES.has(kind) && data.state in PLACE) this.#set(pos, data.state, at);
    if (data.started_at && this.run) this.began[pos] = data.started_at - this.run.created_at;
  }

  /** @param {number} pos @param {string} state @param {number} at */
  #set(pos, state, at) {
    this.counts[this.states[pos]]--;
    this.states[pos] = PLACE[state];
    this.counts[this.states[pos]]++;
    if (ENDED.has(state)) this.ended[pos] = at;
  }

  /** How long a task has taken by now; NaN: it has not begun. @param {number} pos */
  took(pos) {
    if (Number.isNaN(this.began[pos])) return NaN;
    const under = ["running", "waiting"].includes(STATES[this.states[pos]]);
    const end = under ? this.now - this.run.created_at : this.ended[pos];
    return end - this.began[pos];
  }

  /** By the server's clock. */
  get now() {
    return Date.now() + this.clockOffset;
  }

  /** @param {string} name of a task, or of an element */
  position(name) {
    return this.#positions.get(name) ?? this.#positions.get(name.replace(/\.\d+$/, ""));
  }

  #changed() {
    if (this.#frame) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      if (!this.life.aborted) this.dispatchEvent(new Event("change"));
    });
  }
}
