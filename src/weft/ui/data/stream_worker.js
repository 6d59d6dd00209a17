// @ts-check
/** The SharedWorker that holds the connections of all tabs. */

import { StreamHub } from "./stream_hub.js";

const ALIVE_MS = 60_000; // a tab that has closed says nothing more
const hub = new StreamHub(new URL("../../../", import.meta.url).href);

/** @type {any} */ (self).onconnect = (/** @type {MessageEvent} */ event) => {
  const port = event.ports[0];
  /** @type {Map<number, () => void>} */
  const ends = new Map();
  const close = () => {
    for (const end of ends.values()) end();
    ends.clear();
    clearInterval(timer);
  };
  let alive = Date.now();
  const timer = setInterval(() => Date.now() - alive > ALIVE_MS * 2 && close(), ALIVE_MS);
  port.onmessage = ({ data }) => {
    alive = Date.now();
    if (data.kind === "subscribe") {
      ends.set(data.id, hub.subscribe(data.token, data.run, (message) => port.postMessage({ id: data.id, message })));
    } else if (data.kind === "end") {
      ends.get(data.id)?.();
      ends.delete(data.id);
    } else if (data.kind === "close") close();
  };
};
