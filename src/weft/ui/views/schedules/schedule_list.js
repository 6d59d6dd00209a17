// @ts-check
/** What starts runs by itself: all triggers, with when each fires next and what became of its last fire. */

import { h, refill } from "../../parts/dom.js";
import { moment } from "../../parts/format.js";
import { ListView } from "../../parts/list_view.js";
import { badge } from "../../parts/states.js";
import { address, changed, here } from "../../shell/router.js";
import { fireBadge, near, triggerActions } from "./trigger_parts.js";

const AGAIN_MS = 5000;
const LIMIT = 200;

export class SchedulesView extends ListView {
  #chip = h("span", {});

  begin() {
    this.open("Schedules", AGAIN_MS, h("h1", {}, "Schedules"), this.#chip);
  }

  async load() {
    const { query } = here();
    const workflow = query.get("workflow");
    const [page, now] = await this.timed("list_triggers", { workflow, limit: LIMIT, cursor: query.get("cursor") });
    refill(this.#chip, workflow && h("a", { class: "chip", href: changed({ workflow: null }), "aria-label": "remove the filter workflow" }, h("span", { class: "name" }, `workflow: ${workflow}`), "×"));
    this.showPages(page.next);
    this.show(["Trigger", "When", "Next", "Last fire", "Why", "Under way", "Actions"], page.triggers.map((/** @type {any} */ one) => this.#line(one, now)),
      "No triggers: they come with a workflow that has ", h("code", {}, "triggers"), " and is applied.");
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
      h("td", {}, h("span", { class: "counted" }, triggerActions(this.app, trigger, () => this.read()))));
  }
}

customElements.define("weft-schedules", SchedulesView);
