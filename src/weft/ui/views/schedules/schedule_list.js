// @ts-check
/** What starts runs by itself: all triggers, with when each fires next and what became of its last fire. */

import { Part, h, refill } from "../../parts/dom.js";
import { moment } from "../../parts/format.js";
import { keepFocus } from "../../parts/keep_focus.js";
import { badge } from "../../parts/states.js";
import { problemText } from "../../parts/toast.js";
import { address, changed, here } from "../../shell/router.js";
import { fireBadge, near, triggerActions } from "./trigger_parts.js";

const AGAIN_MS = 5000;
const LIMIT = 200;
const HEADS = ["Trigger", "When", "Next", "Last fire", "Why", "Under way", "Actions"];

export class SchedulesView extends Part {
  #chip = h("span", {});
  #body = h("div", { class: "panel-table" }, h("p", { class: "note" }, "…"));
  #pages = h("div", { class: "pages" });
  #known = false;

  /** @param {import("../../shell/main.js").App} app */
  constructor(app) {
    super();
    this.app = app;
  }

  begin() {
    document.title = "Schedules · Weft";
    this.replaceChildren(h("div", { class: "filters" }, h("h1", {}, "Schedules"), this.#chip), this.#body, this.#pages);
    this.every(AGAIN_MS, () => !document.hidden && this.#read());
    this.#read();
  }

  moved() {
    this.#read();
  }

  async #read() {
    const { query } = here();
    const workflow = query.get("workflow");
    try {
      const [page, clock] = await Promise.all([this.app.api.call("list_triggers", { workflow, limit: LIMIT, cursor: query.get("cursor") }, this.life), this.app.api.call("get_clock", {}, this.life)]);
      this.#known = true;
      refill(this.#chip, workflow && h("a", { class: "chip", href: changed({ workflow: null }), "aria-label": "remove the filter workflow" }, h("span", { class: "name" }, `workflow: ${workflow}`), "×"));
      refill(this.#pages, page.next && h("a", { class: "button", href: changed({ cursor: page.next }) }, "More"));
      if (!page.triggers.length) return refill(this.#body, h("p", { class: "note" }, "No triggers: they come with a workflow that has ", h("code", {}, "triggers"), " and is applied."));
      keepFocus(this.#body, () => refill(this.#body, h("table", {}, h("thead", {}, h("tr", {}, HEADS.map((one) => h("th", { scope: "col" }, one)))), h("tbody", {}, page.triggers.map((/** @type {any} */ one) => this.#line(one, clock.now))))));
    } catch (error) {
      if (!this.life.aborted && !this.#known) refill(this.#body, h("p", { class: "note problem" }, problemText(error)));
    }
  }

  /** @param {any} trigger @param {number} now */
  #line(trigger, now) {
    const last = trigger.last;
    const why = trigger.problem ?? last?.reason ?? "";
    const busy = [trigger.unfinished && `${trigger.unfinished} running`, trigger.queued && `${trigger.queued} queued`].filter(Boolean).join(", ");
    return h("tr", { "data-key": trigger.id },
      h("td", { class: "text" }, h("a", { class: "name", href: address(["schedules", trigger.workflow, trigger.name]) }, trigger.id)),
      h("td", { class: "text mono name", title: trigger.what }, trigger.what),
      h("td", { title: trigger.next_at ? moment(trigger.next_at) : null }, trigger.paused ? badge("paused") : trigger.next_at ? near(trigger.next_at, now) : h("span", { class: "soft" }, trigger.problem ? "cannot fire" : "when it is called")),
      h("td", {}, last ? h("span", { class: "counted" }, fireBadge(last), h("span", { class: "soft", title: moment(last.at) }, near(last.at, now))) : h("span", { class: "soft" }, "never")),
      h("td", { class: `text name ${trigger.problem ? "state-failed" : "soft"}`, title: why }, why),
      h("td", {}, busy),
      h("td", {}, h("span", { class: "counted" }, triggerActions(this.app, trigger, () => this.#read()))));
  }
}

customElements.define("weft-schedules", SchedulesView);
