// @ts-check
/** Backfills of a trigger: a range of past times, first as a preview, then one run for each; and how far they are. */

import { Part, h, refill, table, unseen } from "../../parts/dom.js";
import { count, moment } from "../../parts/format.js";
import { badge, meter } from "../../parts/states.js";
import { problemText } from "../../parts/toast.js";
import { address } from "../../shell/router.js";

const DAY_MS = 86_400_000;
const SHOWN = 50;
const AGAIN_MS = 2000;
const LOOKS = /** @type {Record<string, string>} */ ({ active: "running", complete: "succeeded", cancelled: "cancelled" });

export class Backfills extends Part {
  #form = h("div", {});
  #preview = h("div", { "aria-live": "polite" });
  #list = h("div", {});

  /** @param {import("../../shell/main.js").App} app @param {string} trigger its id */
  constructor(app, trigger) {
    super();
    this.app = app;
    this.trigger = trigger;
  }

  begin() {
    this.className = "section backfills";
    refill(this, h("h2", {}, "Backfill"), this.app.api.may("start_backfill") && this.#form, this.#preview, this.#list);
    this.#showForm();
    this.every(AGAIN_MS, () => !document.hidden && this.#readList());
    this.#readList();
  }

  #showForm() {
    const day = (/** @type {number} */ at) => new Date(at - new Date().getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
    const first = /** @type {HTMLInputElement} */ (h("input", { type: "datetime-local", required: true, value: day(Date.now() - 7 * DAY_MS) }));
    const last = /** @type {HTMLInputElement} */ (h("input", { type: "datetime-local", required: true, value: day(Date.now()) }));
    const parallel = /** @type {HTMLInputElement} */ (h("input", { type: "number", min: 1, max: 1000, step: 1, value: 1 }));
    const reverse = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox" }));
    const again = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox" }));
    const fields = () => ({ trigger: this.trigger, first: new Date(first.value).getTime(), last: new Date(last.value).getTime(), parallel: Number(parallel.value), reverse: reverse.checked, again: again.checked });
    const look = async (/** @type {Event} */ event) => {
      event.preventDefault();
      await this.#ask({ ...fields(), preview: true });
    };
    refill(this.#form, h("form", { class: "row-form", on: { submit: look, input: () => refill(this.#preview) } },
      h("label", {}, "From", first), h("label", {}, "To", last), h("label", {}, "At a time", parallel),
      h("label", { class: "flag" }, reverse, "newest first"), h("label", { class: "flag" }, again, "also times that have a run"),
      h("button", {}, "Preview")));
  }

  /** @param {Record<string, any>} fields */
  async #ask(fields) {
    try {
      const found = await this.app.api.call("start_backfill", fields, this.life);
      if (!fields.preview) {
        refill(this.#preview);
        return this.#readList();
      }
      const runs = fields.again ? found.total : found.total - found.existing;
      refill(this.#preview,
        h("p", {}, `${count(found.total)} times, ${count(found.existing)} of them have a run: ${count(runs)} run${runs === 1 ? "" : "s"} would start.`),
        h("ul", { class: "times" }, found.times.slice(0, SHOWN).map((/** @type {any} */ one) => h("li", { class: "mono" }, one.time, one.has_run ? h("span", { class: "soft" }, " has a run") : ""))),
        found.total > SHOWN && h("p", { class: "soft" }, `and ${count(found.total - SHOWN)} more`),
        runs > 0 && h("button", { class: "main", on: { click: () => this.#ask({ ...fields, preview: false }) } }, `Start ${count(runs)} run${runs === 1 ? "" : "s"}`));
    } catch (error) {
      if (!this.life.aborted) refill(this.#preview, h("p", { class: "state-failed name", role: "alert" }, problemText(error)));
    }
  }

  async #readList() {
    const { backfills } = await this.app.api.call("list_backfills", { limit: 100 }, this.life).catch(() => ({ backfills: null }));
    if (backfills === null || this.querySelector("tbody button:focus")) return;
    const own = backfills.filter((/** @type {any} */ one) => one.trigger === this.trigger);
    const heads = ["State", "From", "To", "Runs", "Left", "By", unseen("Actions")];
    refill(this.#list, own.length > 0 && h("div", { class: "panel-table inside" }, table(heads, own.map((/** @type {any} */ one) => this.#line(one)))));
  }

  /** @param {any} one */
  #line(one) {
    const cancel = async () => (await this.app.carryOut("cancel_backfill", { backfill: one.id })) && this.#readList();
    return h("tr", {},
      h("td", {}, badge(LOOKS[one.state] ?? "pending", one.state)), h("td", {}, moment(one.first_ms)), h("td", {}, moment(one.last_ms)),
      h("td", {}, h("a", { class: "counted", href: address(["runs"], { backfill: one.id }) }, meter({ ...one, dead_letter: 0, skipped: 0, active: one.running, total: one.total - one.existing }, "runs"))),
      h("td", {}, count(one.left)), h("td", { class: "name" }, one.by ?? ""),
      h("td", {}, one.state === "active" && this.app.api.may("cancel_backfill") && h("button", { on: { click: cancel } }, "Cancel")));
  }
}

customElements.define("weft-backfills", Backfills);
