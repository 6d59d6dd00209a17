// @ts-check
/**
 * One connection for the events of all runs that tabs look at, and one for the list of runs: a browser allows six
 * connections to a server. It runs in a SharedWorker for all tabs, or in the page itself where there is none.
 *
 * A feed begins at now. When it is open its subscribers are notified and read what is so far; of what they have read
 * they ignore the events. So nothing is lost or doubled, after a lost connection as in the beginning.
 */

/** @typedef {{run: string | null, send: (message: any) => void}} Subscriber */

const RUN_KINDS = ["submitted", "run_finished", "resumed", "paused", "unpaused", "stopped", "halted"];
const SILENT_MS = 40_000; // the server sends a comment every 15 s
const FIRST_MS = 300;
const MOST_MS = 8_000;

export class StreamHub {
  /** @type {Map<string, Feed>} */
  #feeds = new Map();

  /** @param {string} base */
  constructor(base) {
    this.base = base;
  }

  /** Ends when the returned function is called. @param {string} token @param {string | null} run @param {(message: any) => void} send */
  subscribe(token, run, send) {
    const key = `${token} ${run === null ? "list" : "runs"}`;
    const feed = this.#feeds.get(key) ?? new Feed(this.base, token);
    this.#feeds.set(key, feed);
    const subscriber = { run, send };
    feed.add(subscriber);
    return () => {
      feed.remove(subscriber);
      if (feed.idle) this.#feeds.delete(key);
    };
  }
}

class Feed {
  /** @type {Set<Subscriber>} */
  #subscribers = new Set();
  #connection = new AbortController();
  #timer = /** @type {any} */ (0);
  #delay = FIRST_MS;
  #opened = "";

  /** @param {string} base @param {string} token */
  constructor(base, token) {
    this.base = base;
    this.token = token;
  }

  get idle() {
    return this.#subscribers.size === 0;
  }

  /** @param {Subscriber} one */
  add(one) {
    this.#subscribers.add(one);
    this.#restart(0, true);
  }

  /** @param {Subscriber} one */
  remove(one) {
    this.#subscribers.delete(one);
    if (this.idle) {
      clearTimeout(this.#timer);
      this.#connection.abort();
    }
  }

  #address() {
    const query = new URLSearchParams();
    const runs = [...new Set([...this.#subscribers].map((one) => one.run))].sort();
    for (const run of runs) if (run !== null) query.append("run", run);
    if (runs.includes(null)) for (const kind of RUN_KINDS) query.append("kind", kind);
    return `${this.base}v1/events/stream?${query}`;
  }

  /** @param {number} ms @param {boolean} anew */
  #restart(ms, anew) {
    clearTimeout(this.#timer);
    if (anew) this.#connection.abort();
    this.#timer = setTimeout(() => this.#connect(), ms);
  }

  async #connect() {
    const connection = (this.#connection = new AbortController());
    this.#opened = this.#address();
    let silence = /** @type {any} */ (0);
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(() => connection.abort(), SILENT_MS);
    };
    try {
      heard();
      const headers = { Authorization: `Bearer ${this.token}`, Accept: "text/event-stream" };
      const reply = await fetch(this.#opened, { headers, signal: connection.signal, cache: "no-store" });
      if (reply.status === 401) return this.#tell({ kind: "unauthorized" });
      if (!reply.ok || reply.body === null) throw new Error(`the server answered ${reply.status}`);
      await this.#read(reply.body, heard);
    } catch {
      // whatever it was: the connection is gone
    } finally {
      clearTimeout(silence);
    }
    if (this.#connection !== connection || this.idle) return;
    this.#tell({ kind: "lost" });
    this.#restart(this.#delay * (0.75 + Math.random() / 2), false);
    this.#delay = Math.min(MOST_MS, this.#delay * 2);
  }

  /** @param {ReadableStream<Uint8Array>} body @param {() => void} heard */
  async #read(body, heard) {
    const reader = body.pipeThrough(/** @type {any} */ (new TextDecoderStream())).getReader();
    let rest = "";
    let open = false;
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      heard();
      if (!open) {
        open = true;
        this.#delay = FIRST_MS;
        this.#tell({ kind: "open" });
      }
      const parts = (rest + value).split("\n\n");
      rest = /** @type {string} */ (parts.pop());
      const events = parts.map(eventIn).filter((one) => one !== null);
      this.#tell({ kind: "heard" });
      if (events.length) this.#hand(events);
    }
  }

  /** @param {any[]} events */
  #hand(events) {
    for (const one of this.#subscribers) {
      const own = one.run === null ? events : events.filter((event) => event.run_id === one.run);
      if (own.length) one.send({ kind: "events", events: own });
    }
  }

  /** @param {any} message */
  #tell(message) {
    for (const one of this.#subscribers) one.send(message);
  }
}

/** @param {string} text */
function eventIn(text) {
  let data = "";
  for (const line of text.split("\n")) {
    if (line.startsWith("event: end")) return null; // the connection ends, and is opened again
    if (line.startsWith("data: ")) data += line.slice(6);
  }
  return data ? JSON.parse(data) : null;
}
