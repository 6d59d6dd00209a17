// @ts-check
/**
 * One run as the page shows it: its graph, and the states of its tasks in typed arrays by position.
 *
 * Events patch the states at once. What they do not say (a task that became ready is queued without an event), and how
 * the elements of mapped tasks stand, comes with the next reading of all states, at most every two seconds.
 *
 * `travel` shows the run as it was after one of its events. Events that come meanwhile are only counted: the way back to
 * now reads everything again, as after a lost connection.
 */

import { paced } from "../parts/dom.js";
import { ENDED, PLACE, STATES } from "../parts/states.js";

const READ_MS = 2000;
const RUN_KINDS = new Set(["run_finished", "resumed", "paused", "unpaused", "halted", "stopped", "advanced", "budget"]);
const MOVES = new Set(["finished", "lost", "returned", "decided", "refused", "answered", "closed", "budget"]);

/** @typedef {{states: Uint8Array, run?: string, names?: string[]}} Opened `run` and `names` are those of a child run */

/** Dispatches `change` (states, at most once a frame), `graph` (another definition), `elements` (of open tasks) and `problem`. */
export class RunModel extends EventTarget {
  /** @type {any} as it is shown */ run = null;
  /** @type {any} as it is now */ #live = null;
  /** @type {any} the event after which it is shown, and its neighbours; null: as it is now */ past = null;
  /** @type {number | null} the event that is asked for */ #target = null;
  #seeking = false;
  /** Events that came while the past was shown. */
  missed = 0;
  /** @type {any} */ graph = null;
  states = new Uint8Array(0);
  attempts = new Uint32Array(0);
  /** ms since the run was submitted; NaN: not yet */
  began = new Float64Array(0);
  ended = new Float64Array(0);
  /** @type {Map<number, {elements: number, states: Record<string, number>}>} */
  elements = new Map();
  /** What is inside of tasks that are open, by position: elements of a mapped one, tasks of the run that one started. @type {Map<number, Opened>} */
  opened = new Map();
  /** Names of tasks by workflow, of runs that tasks started. @type {Map<string, string[]>} */
  #names = new Map();
  /** @type {string[]} names of tasks that are to be open */ #open = [];
  #asked = 0; // how often what is inside of them was asked for
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
  /** Reads what is inside of open tasks; a child run's events do not come here. */ readOpen;

  /** @param {import("./api.js").Api} api @param {string} id @param {AbortSignal} life */
  constructor(api, id, life) {
    super();
    this.api = api;
    this.id = id;
    this.life = life;
    this.#reread = paced(READ_MS, () => this.#guarded(() => Promise.all([this.#readStates(false), this.#readRun()])));
    this.readOpen = paced(READ_MS / 2, () => this.#guarded(() => this.#readElements()));
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
    if (this.#target === null) await this.#readStates(true);
    else await this.#seek();
  }

  /** Show it as it was after this event; null: as it is. The last wish counts. @param {number | null} event */
  travel(event) {
    if (this.#target === event) return;
    this.#target = event;
    if (this.graph !== null) this.#guarded(() => this.#seek());
  }

  async #seek() {
    if (this.#seeking) return;
    this.#seeking = true;
    try {
      for (let shown; shown !== this.#target; ) {
        shown = this.#target;
        try {
          if (shown === null) await Promise.all([this.#readStates(true), this.#readRun()]);
          else this.#use(await this.api.call("get_states", { run: this.id, event: shown, times: true }, this.life));
        } catch (error) {
          if (shown === this.#target) throw error; // else another moment is asked for by now
        }
      }
    } finally {
      this.#seeking = false;
    }
  }

  async #readRun() {
    const found = await this.api.call("get_run", { run: this.id, tasks: 0 }, this.life);
    this.#live = found.run;
    this.run = this.past ? this.#then() : found.run;
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
    if (this.#target !== null) return void (this.#meanwhile = null);
    if (found.workflow !== this.graph?.workflow) await this.#readGraph();
    this.clockOffset = found.now - Date.now();
    this.#use(found);
    this.#lastEvent = Math.max(this.#lastEvent, found.last_event);
    for (const event of this.#meanwhile ?? []) if (event.seq > found.last_event) this.#patch(event);
    this.#meanwhile = null;
  }

  /** @param {any} found all states, of now or of then */
  #use(found) {
    this.past = found.past;
    for (let pos = 0; pos < this.states.length; pos++) this.states[pos] = PLACE[found.letters[found.states[pos]]];
    this.attempts.set(found.attempts);
    for (const [pos, at] of found.began.entries()) this.began[pos] = at ?? NaN;
    for (const [pos, at] of found.ended.entries()) this.ended[pos] = at ?? NaN;
    this.elements = new Map(Object.entries(found.elements).map(([pos, one]) => [Number(pos), /** @type {any} */ (one)]));
    this.#recount();
    if (this.#open.length) this.readOpen();
    if (this.past) this.run = this.#then(found);
    else {
      this.missed = 0;
      this.run = this.#live;
    }
    this.#changed();
  }

  #shown = { state: "pending", generation: 1 };

  /** The run's line as it was. */
  #then(found = this.#shown) {
    this.#shown = found;
    const over = ["succeeded", "failed", "cancelled"].includes(found.state);
    const counts = Object.fromEntries(STATES.map((state, place) => [state, this.counts[place]]));
    for (const [pos, one] of this.elements) {
      counts[STATES[this.states[pos]]]--; // its elements are counted, not itself
      for (const [state, many] of Object.entries(one.states)) counts[state] += many;
    }
    const total = Object.values(counts).reduce((sum, many) => sum + many, 0);
    return { ...this.#live, ...counts, total, active: counts.queued + counts.running, state: found.state, generation: found.generation, finished_at: over ? this.past.event.at : null, reason: over ? this.#live.reason : null, paused: false };
  }

  /** Whether a task has something inside. @param {number} pos */
  opens(pos) {
    return this.elements.has(pos) || this.graph.kinds[this.graph.kind[pos]] === "workflow";
  }

  /** Tasks whose inside is shown. @param {string[]} names */
  open(names) {
    if (names.join() === this.#open.join() || this.graph === null) return;
    this.#open = names;
    this.#guarded(() => this.#readElements());
  }

  async #readElements() {
    const asked = ++this.#asked;
    const places = this.#open.map((name) => this.#positions.get(name)).filter((pos) => pos !== undefined && this.opens(pos));
    const found = await Promise.all(places.map(async (pos) => /** @type {[number, Opened | null]} */ ([pos, await this.#inside(/** @type {number} */ (pos))])));
    if (asked !== this.#asked) return; // others are open by now
    this.opened = new Map(/** @type {[number, Opened][]} */ (found.filter(([, one]) => one !== null)));
    this.dispatchEvent(new Event("elements"));
  }

  /** @param {number} pos @returns {Promise<Opened | null>} */
  async #inside(pos) {
    const event = this.past?.event.seq;
    const fields = { run: this.id, task: this.graph.names[pos] };
    const codes = (/** @type {any} */ found) => Uint8Array.from(found.states, (/** @type {string} */ letter) => PLACE[found.letters[letter]]);
    if (this.elements.has(pos)) return { states: codes(await this.api.call("get_element_states", { ...fields, event }, this.life)) };
    const run = (await this.api.call("get_task", fields, this.life)).task.child;
    const found = run && (await this.api.call("get_states", { run, event }, this.life).catch((error) => (error.status === 404 ? null : Promise.reject(error))));
    if (!found) return null; // it has not begun, or had not then
    if (!this.#names.has(found.workflow)) this.#names.set(found.workflow, (await this.api.call("get_graph", { run }, this.life)).names);
    return { run, names: this.#names.get(found.workflow), states: codes(found) };
  }

  #recount() {
    this.counts.fill(0);
    for (const state of this.states) this.counts[state]++;
  }

  /** @param {any[]} events in the order of their numbers */
  apply(events) {
    if (this.graph === null) return;
    if (this.#target !== null) {
      this.missed += events.length;
      return this.#changed();
    }
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

  /** By the server's clock; in the past, when its event happened. */
  get now() {
    return this.past ? this.past.event.at : Date.now() + this.clockOffset;
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
