// @ts-check
/** What happened: to a run, or in the whole cluster; the newest page, and more as it comes. */

import { Part, h, refill, table } from "../parts/dom.js";
import { clock, moment } from "../parts/format.js";
import { address, changed } from "../shell/router.js";

const LIMIT = 200;
const SHOWN_MAX = 1000;
const AGAIN_MS = 1000;
const TEXT_MAX = 400;

export class EventsView extends Part {
  #lines = h("tbody", {});
  #after = -1;
  #reading = false;

  /** @param {import("../shell/main.js").App} app @param {string | null} run */
  constructor(app, run) {
    super();
    this.app = app;
    this.run = run;
  }

  begin() {
    const heads = ["No.", "At", this.run ? null : "Run", "Event", "Task", "Node", "Data"];
    this.replaceChildren(h("div", { class: "filters" }, h("h1", { class: this.run ? "sr" : "" }, this.run ? "Events" : "What happens"), h("span", { class: "soft" }, `the newest first, ${SHOWN_MAX.toLocaleString("en")} at most`)),
      h("div", { class: "panel-table" }, table(heads, this.#lines)));
    this.every(AGAIN_MS, () => !document.hidden && this.#read());
    this.#read();
  }

  async #read() {
    if (this.#reading) return;
    this.#reading = true;
    try {
      if (this.#after < 0) {
        const last = this.run ? (await this.app.api.call("get_run", { run: this.run, tasks: 0 }, this.life)).last_event : (await this.app.api.call("get_counts", {}, this.life)).last_event;
        this.#after = this.run ? 0 : Math.max(0, last - LIMIT);
      }
      const fields = { after: this.#after, limit: LIMIT, ...(this.run ? { run: this.run } : {}) };
      const page = await this.app.api.call(this.run ? "list_run_events" : "list_events", fields, this.life);
      for (const event of page.events) this.#lines.prepend(this.#line(event));
      while (this.#lines.childElementCount > SHOWN_MAX) this.#lines.lastElementChild?.remove();
      this.#after = page.last;
      if (!this.#lines.childElementCount) refill(this.#lines, h("tr", {}, h("td", { colspan: 7, class: "soft" }, "Nothing yet.")));
    } catch {
      // the bar says that the server is not heard; the next look goes on from here
    } finally {
      this.#reading = false;
    }
  }

  /** @param {any} event */
  #line(event) {
    const text = JSON.stringify(event.data);
    return h("tr", {},
      h("td", { class: "number soft" }, this.run ? h("a", { href: changed({ at: String(event.seq) }), title: "The run as it was after this event" }, event.seq) : event.seq),
      h("td", { title: moment(event.at) }, clock(event.at)),
      !this.run && h("td", {}, event.run_id && h("a", { class: "mono", href: address(["runs", event.run_id]) }, event.run_id)),
      h("td", {}, event.kind),
      h("td", { class: "text name" }, event.task && event.run_id ? h("a", { href: address(["runs", event.run_id], { task: event.task }) }, event.task) : ""),
      h("td", { class: "text name" }, event.node ?? ""),
      h("td", { class: "text soft mono name", title: text.slice(0, TEXT_MAX) }, text === "{}" ? "" : text.slice(0, TEXT_MAX)));
  }
}

customElements.define("weft-events", EventsView);
