// @ts-check
/** A version of a workflow in the form in which a graph is drawn: what a RunModel is to a run, without any states. */

import { PLACE, STATES } from "../parts/states.js";

export class WorkflowModel extends EventTarget {
  /** Nothing runs here. */
  run = null;
  /** @type {Map<number, any>} */ elements = new Map();
  /** @type {Map<number, import("./run_model.js").Opened>} */ opened = new Map();
  counts = new Uint32Array(STATES.length);
  /** @type {Map<string, number>} */ #positions;

  /** @param {any} graph as the API gives it */
  constructor(graph) {
    super();
    this.graph = graph;
    this.states = new Uint8Array(graph.names.length).fill(PLACE.pending);
    this.#positions = new Map(graph.names.map((/** @type {string} */ name, /** @type {number} */ pos) => [name, pos]));
  }

  /** @param {number} _pos */
  took(_pos) {
    return NaN;
  }

  /** Nothing opens here. @param {string[]} _names */
  open(_names) {}

  /** @param {number} _pos */
  opens(_pos) {
    return false;
  }

  readOpen() {}

  /** @param {string} name of a task */
  position(name) {
    return this.#positions.get(name);
  }
}
