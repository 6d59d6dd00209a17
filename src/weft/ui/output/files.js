// @ts-check
/** What a task left: its output value, where a cached one came from, and the files that it has kept. */

import { Part, h, refill } from "../parts/dom.js";
import { save } from "../parts/download.js";
import { bytes, count } from "../parts/format.js";
import { problemText, toast } from "../parts/toast.js";
import { address } from "../shell/router.js";

const SHOWN_MAX = 20_000; // characters of a value
const TEXT_MAX = 256 * 1024; // bytes of a file that are shown
const IMAGE_MAX = 32 * 1024 * 1024;
const LISTED = 200;
/** What a browser draws and does not run: neither HTML nor SVG is among them. */
const IMAGES = /** @type {Record<string, string>} */ ({ png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp", avif: "image/avif", bmp: "image/bmp" });

/** Dispatches `known` with whether there is anything. */
export class TaskFiles extends Part {
  /** @param {import("../shell/main.js").App} app @param {{run: string, task: string}} of @param {any} last attempt */
  constructor(app, of, last) {
    super();
    this.app = app;
    this.of = of;
    this.last = last;
  }

  async begin() {
    this.className = "files";
    const { artifacts, more } = await this.app.api.call("list_artifacts", { ...this.of, limit: LISTED }, this.life).catch(() => ({ artifacts: [], more: false }));
    const result = this.last.result ?? {};
    const value = result.output === undefined || result.output === null ? "" : JSON.stringify(result.output, null, 2);
    const large = result.artifact;
    const { cached } = this.last;
    refill(this,
      cached && h("p", { class: "soft" }, cached.taken_over ? "Taken over from " : "Kept from ", h("a", { class: "mono", href: address(["runs", cached.run], { task: cached.task }) }, `${cached.run}/${cached.task}`)),
      value && h("pre", { tabindex: "0", role: "region", "aria-label": "Output value" }, value.length > SHOWN_MAX ? `${value.slice(0, SHOWN_MAX)}…` : value),
      (large || artifacts.length > 0) && h("ul", { class: "lines" },
        large && this.#line("output.json", large.bytes, (wanted) => this.app.api.ask("get_task_artifact", { ...this.of, range: wanted }, this.life)),
        artifacts.map((/** @type {any} */ one) => this.#line(one.path, one.bytes, (wanted) => this.app.api.ask("get_task_file", { run: this.of.run, task: one.task, path: one.path, range: wanted }, this.life)))),
      more && h("p", { class: "soft" }, `the first ${count(LISTED)}`));
    this.dispatchEvent(new CustomEvent("known", { detail: Boolean(cached || value || large || artifacts.length) }));
  }

  /** @param {string} path @param {number} size @param {(range?: string) => Promise<Response>} read */
  #line(path, size, read) {
    const kind = path.split(".").pop()?.toLowerCase() ?? "";
    const attempt = (/** @type {() => Promise<void>} */ act) => () => act().catch((error) => this.life.aborted || toast(problemText(error), true));
    const view = async () => {
      if (IMAGES[kind] && size <= IMAGE_MAX) return showImage(path, new Blob([await (await read()).blob()], { type: IMAGES[kind] }));
      const reply = await read(size > TEXT_MAX ? `bytes=0-${TEXT_MAX - 1}` : undefined);
      showText(path, new Uint8Array(await reply.arrayBuffer()), size, kind === "json");
    };
    const download = async () => save(await (await read()).blob(), path.split("/").pop() ?? "file");
    return h("li", {}, h("span", { class: "grow name" }, path), h("span", { class: "soft" }, bytes(size)),
      h("button", { "aria-label": `View ${path}`, on: { click: attempt(view) } }, "View"), h("button", { "aria-label": `Download ${path}`, on: { click: attempt(download) } }, "Download"));
  }
}

/** @param {string} path @param {Node} body */
function show(path, body) {
  const dialog = /** @type {HTMLDialogElement} */ (h("dialog", { class: "file", "aria-label": path },
    h("div", { class: "dialog-head" }, h("h2", { class: "name" }, path)), h("div", { class: "file-body", tabindex: "0" }, body),
    h("div", { class: "dialog-foot" }, h("button", { class: "main", on: { click: () => dialog.close() } }, "Close"))));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** @param {string} path @param {Blob} data */
function showImage(path, data) {
  const url = URL.createObjectURL(data);
  const image = h("img", { alt: path, src: url });
  show(path, image).addEventListener("close", () => URL.revokeObjectURL(url));
}

/** @param {string} path @param {Uint8Array} data @param {number} size @param {boolean} isJson */
function showText(path, data, size, isJson) {
  const binary = data.subarray(0, 4096).includes(0);
  let text = binary ? "" : new TextDecoder().decode(data);
  if (isJson && data.length === size) {
    try {
      text = JSON.stringify(JSON.parse(text), null, 2);
    } catch {
      // it is shown as it is
    }
  }
  const note = binary ? "These bytes are no text: download the file." : data.length < size ? `the first ${bytes(data.length)} of ${bytes(size)}` : "";
  show(path, h("div", {}, note && h("p", { class: "soft" }, note), !binary && h("pre", { class: "definition" }, text)));
}

customElements.define("weft-files", TaskFiles);
