// @ts-check
/** What happens, as it happens: subscriptions of this tab, and since when nothing was heard. */

import { StreamHub } from "./stream_hub.js";

const ALIVE_MS = 30_000;

/** Dispatches `heard` when it changes whether the server is heard. */
export class Live extends EventTarget {
  /** Since when nothing has been heard; 0: it is heard. */
  lostSince = 0;
  #last = Date.now();
  #next = 1;
  /** @type {Map<number, (message: any) => void>} */
  #listeners = new Map();
  /** @type {MessagePort | null} */
  #port = null;
  /** @type {StreamHub | null} */
  #hub = null;

  /** @param {import("./api.js").Api} api */
  constructor(api) {
    super();
    this.api = api;
    try {
      const worker = new SharedWorker(workerAddress(api.files), { type: "module", name: "weft" });
      this.#port = worker.port;
      worker.addEventListener("error", () => this.#withoutWorker());
      this.#port.onmessage = ({ data }) => this.#receive(data.id, data.message);
      setInterval(() => this.#port?.postMessage({ kind: "alive" }), ALIVE_MS);
      addEventListener("pagehide", () => this.#port?.postMessage({ kind: "close" }));
    } catch {
      this.#hub = new StreamHub(api.base.href);
    }
  }

  /** @type {Map<number, string | null>} */
  #wanted = new Map();
  /** @type {Map<number, () => void>} */
  #ends = new Map();

  /**
   * Messages: `open` (read what is so far), `events`, `lost`.
   * @param {string | null} run null: what changes the list of runs
   * @param {(message: any) => void} listener @param {AbortSignal} life
   */
  subscribe(run, listener, life) {
    const id = this.#next++;
    this.#listeners.set(id, listener);
    this.#wanted.set(id, run);
    this.#begin(id, run);
    life.addEventListener("abort", () => {
      this.#listeners.delete(id);
      this.#wanted.delete(id);
      this.#port?.postMessage({ kind: "end", id });
      this.#ends.get(id)?.();
      this.#ends.delete(id);
    });
  }

  /** @param {number} id @param {string | null} run */
  #begin(id, run) {
    if (this.#port) this.#port.postMessage({ kind: "subscribe", id, run, token: this.api.token });
    else if (this.#hub) this.#ends.set(id, this.#hub.subscribe(this.api.token, run, (message) => this.#receive(id, message)));
  }

  #withoutWorker() {
    if (this.#hub) return;
    this.#port = null;
    this.#hub = new StreamHub(this.api.base.href);
    for (const [id, run] of this.#wanted) this.#begin(id, run);
  }

  /** @param {number} id @param {any} message */
  #receive(id, message) {
    if (message.kind === "unauthorized") {
      this.api.dispatchEvent(new CustomEvent("unauthorized", { detail: "this token is not known here any more" }));
      return;
    }
    if (message.kind === "lost") this.#set(this.lostSince || this.#last);
    else {
      this.#last = Date.now();
      this.#set(0);
    }
    if (message.kind !== "heard") this.#listeners.get(id)?.(message);
  }

  /** @param {number} since */
  #set(since) {
    if (since === this.lostSince) return;
    this.lostSince = since;
    this.dispatchEvent(new Event("heard"));
  }
}

/** The one address from which a script may be started. @param {URL} files */
function workerAddress(files) {
  const address = new URL("data/stream_worker.js", files).href;
  const policies = /** @type {any} */ (globalThis).trustedTypes;
  return policies ? policies.createPolicy("weft", { createScriptURL: () => address }).createScriptURL("") : address;
}
