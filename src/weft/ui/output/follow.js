// @ts-check
/** What an attempt prints, as it comes: the server's stream, opened again where it stopped while the page is looked at. */

const AGAIN_MS = 1000;

/**
 * Ends when the attempt is over, or with `life`.
 * @param {import("../data/api.js").Api} api @param {{run: string, task: string, attempt: number, stream: string}} of
 * @param {() => number} from the next byte @param {(printed: any) => void} take @param {() => void} over @param {AbortSignal} life
 */
export async function follow(api, of, from, take, over, life) {
  while (!life.aborted) {
    if (document.hidden) await seen(life);
    const pause = new AbortController();
    const stop = () => document.hidden && pause.abort();
    document.addEventListener("visibilitychange", stop); // browsers allow six connections to a server
    try {
      const signal = AbortSignal.any([life, pause.signal]);
      const reply = await api.ask("stream_task_output", { ...of, last_id: `${of.attempt}.${from()}` }, signal);
      if (reply.status === 204 || (await read(/** @type {ReadableStream<Uint8Array>} */ (reply.body), take))) return life.aborted || over();
    } catch {
      // the bar says if the server is not heard
    } finally {
      document.removeEventListener("visibilitychange", stop);
    }
    if (!life.aborted) await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
}

/** Until the page is looked at again. @param {AbortSignal} life */
function seen(life) {
  return new Promise((resolve) => {
    const look = () => (!document.hidden || life.aborted) && resolve(null);
    document.addEventListener("visibilitychange", look, { signal: life });
    life.addEventListener("abort", look);
  });
}

/** Whether the attempt is over. @param {ReadableStream<Uint8Array>} body @param {(printed: any) => void} take */
async function read(body, take) {
  const reader = body.pipeThrough(/** @type {any} */ (new TextDecoderStream())).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return false;
    const messages = (rest + value).split("\n\n");
    rest = /** @type {string} */ (messages.pop());
    for (const message of messages) {
      const data = message.split("\n").find((line) => line.startsWith("data: "))?.slice(6);
      if (message.startsWith("event: end")) return (data ?? "").includes("finished");
      if (data) take(JSON.parse(data));
    }
  }
}

/** The bytes of a message. @param {any} printed */
export function bytesOf(printed) {
  return Uint8Array.from(atob(printed.base64), (one) => one.charCodeAt(0));
}
