// @ts-check
/** One trigger: its past and next fires, on a calendar and as a list with the reasons. */

import { calendar } from "../../parts/calendar.js";
import { Part, h, refill, table } from "../../parts/dom.js";
import { moment } from "../../parts/format.js";
import { badge, shape } from "../../parts/states.js";
import { problemText } from "../../parts/toast.js";
import { address } from "../../shell/router.js";
import { Backfills } from "./backfills.js";
import { fireBadge, fireLook, near, triggerActions } from "./trigger_parts.js";

const AGAIN_MS = 5000;
const FIRES = 500;
const LISTED = 100;
const AHEAD = 50;
const AHEAD_LISTED = 5;

export class ScheduleView extends Part {
  #head = h("header", { class: "run-head" });
  #body = h("div", {});
  /** @type {Backfills | null} */ #backfills = null;

  /** @param {import("../../shell/main.js").App} app @param {string} workflow @param {string} trigger */
  constructor(app, workflow, trigger) {
    super();
    this.app = app;
    this.known = { name: workflow, trigger };
  }

  begin() {
    document.title = `${this.known.name}/${this.known.trigger} · Weft`;
    this.replaceChildren(this.#head, this.#body);
    this.every(AGAIN_MS, () => !document.hidden && !this.querySelector("button:focus") && this.#read());
    this.#read();
  }

  async #read() {
    const { api } = this.app;
    try {
      const [trigger, past, next, clock] = await Promise.all([
        api.call("get_trigger", this.known, this.life), api.call("list_fires", { ...this.known, limit: FIRES }, this.life),
        api.call("list_next_times", { ...this.known, count: AHEAD }, this.life), api.call("get_clock", {}, this.life),
      ]);
      this.#showHead(trigger, clock.now);
      if (this.#backfills === null && (trigger.kind === "cron" || trigger.kind === "every")) {
        this.#backfills = new Backfills(this.app, trigger.id);
        this.insertBefore(this.#backfills, this.#body);
      }
      this.#show(past.fires, trigger.paused ? [] : next.times, clock.now);
    } catch (error) {
      if (!this.life.aborted && !this.#head.firstChild) refill(this.#body, h("p", { class: "note problem" }, problemText(error), " ", h("a", { href: "#/schedules" }, "All schedules")));
    }
  }

  /** @param {any} trigger @param {number} now */
  #showHead(trigger, now) {
    refill(this.#head,
      h("div", { class: "run-title" }, trigger.paused && badge("paused"), h("h1", { class: "name" }, trigger.id), h("span", { class: "mono soft name" }, trigger.what),
        h("div", { class: "actions" }, triggerActions(this.app, trigger, () => this.#read()))),
      h("div", { class: "facts last" },
        h("span", {}, "starts ", h("a", { class: "name", href: address(["workflows", trigger.workflow]) }, trigger.workflow)),
        trigger.next_at && h("span", { title: moment(trigger.next_at) }, "next ", h("b", {}, near(trigger.next_at, now))),
        h("span", {}, "while one runs: ", h("b", {}, trigger.overlap)), h("span", {}, "times that were missed: ", h("b", {}, trigger.catch_up)),
        h("a", { href: address(["runs"], { trigger: trigger.id }) }, "all its runs"),
        trigger.problem && h("span", { class: "state-failed name" }, trigger.problem)));
  }

  /** @param {any[]} fires @param {any[]} times @param {number} now */
  #show(fires, times, now) {
    const past = fires.map((one) => ({ at: one.due_at ?? one.at, state: fireLook(one.outcome), what: one.outcome }));
    const ahead = times.map((one) => ({ at: one.at, state: "scheduled", what: "to come" }));
    const lines = [
      ...times.slice(0, AHEAD_LISTED).reverse().map((one) => h("tr", {}, h("td", {}, badge("scheduled", "to come")), h("td", { title: moment(one.at) }, near(one.at, now)), h("td", { class: "mono" }, one.time), h("td", {}), h("td", {}))),
      ...fires.slice(0, LISTED).map((one) => h("tr", {},
        h("td", {}, fireBadge(one)), h("td", { title: moment(one.at) }, near(one.at, now)),
        h("td", { class: "mono" }, one.due_at ? moment(one.due_at) : one.cause.startsWith("hand-") ? "by hand" : ""),
        h("td", {}, one.run && h("a", { class: "mono", href: address(["runs", one.run]) }, one.run)),
        h("td", { class: "text soft name", title: one.reason ?? "" }, one.reason ?? ""))),
    ];
    const heads = ["What became of it", "When", "For", "Run", "Why"];
    refill(this.#body,
      h("section", { class: "section" }, h("h2", {}, "Calendar"), calendar([...past, ...ahead], now),
        h("p", { class: "soft" }, shape("scheduled"), ` the next ${times.length} fires`, fires.length === FIRES && `; of past ones the last ${FIRES}`)),
      h("section", { "aria-label": "Fires" }, h("div", { class: "panel-table" }, table(heads, lines.length ? lines : [h("tr", {}, h("td", { colspan: 5, class: "soft" }, "It has never fired."))]))));
  }
}

customElements.define("weft-schedule", ScheduleView);
