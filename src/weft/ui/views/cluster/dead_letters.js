// @ts-check
/** Tasks whose retries are used up, of all runs; one, some or all that are shown can be tried again. */

import { h, refill, unseen } from "../../parts/dom.js";
import { ago, moment } from "../../parts/format.js";
import { ListView } from "../../parts/list_view.js";
import { problemText, toast } from "../../parts/toast.js";
import { address, here } from "../../shell/router.js";

const AGAIN_MS = 5000;
const LIMIT = 100;

export class DeadLetters extends ListView {
  #tools = h("span", { class: "counted" });
  /** @type {any[]} */ #tasks = [];
  /** @type {Set<string>} RUN/TASK */ #chosen = new Set();

  begin() {
    this.open("Dead letters", AGAIN_MS, h("h1", {}, "Dead letters"), h("span", { class: "grow" }), this.#tools);
  }

  moved() {
    this.#chosen.clear();
    super.moved();
  }

  async load() {
    const [page, now] = await this.timed("list_dead", { limit: LIMIT, cursor: here().query.get("cursor") });
    const may = this.app.api.may("retry_dead");
    this.#tasks = page.tasks;
    this.#showTools();
    this.showPages(page.next);
    this.show([may && unseen("Select"), "Task", "Run", "Why", "Tries", "Node", "Ended", may && "Actions"], page.tasks.map((/** @type {any} */ task) => this.#line(task, now, may)), "No dead letters.");
  }

  /** @param {any} task @param {number} now @param {boolean} may */
  #line(task, now, may) {
    const key = keyOf(task);
    const choose = (/** @type {any} */ event) => {
      if (event.target.checked) this.#chosen.add(key);
      else this.#chosen.delete(key);
      this.#showTools();
    };
    return h("tr", { "data-key": key },
      may && h("td", {}, h("input", { type: "checkbox", checked: this.#chosen.has(key), "aria-label": `select ${task.name}`, on: { change: choose } })),
      h("td", { class: "text" }, h("a", { class: "name", href: address(["runs", task.run_id], { task: task.name }) }, task.name), task.label && h("span", { class: "soft name" }, ` ${task.label}`)),
      h("td", {}, h("a", { class: "mono", href: address(["runs", task.run_id]) }, task.run_id)),
      h("td", { class: "text name", title: task.reason ?? "" }, task.reason ?? ""),
      h("td", {}, task.attempt), h("td", { class: "text name" }, task.node ?? ""),
      h("td", { title: task.finished_at ? moment(task.finished_at) : null }, task.finished_at ? ago(task.finished_at, now) : ""),
      may && h("td", {}, h("button", { "aria-label": `Retry ${task.name}`, on: { click: () => this.#retry([task]) } }, "Retry")));
  }

  #showTools() {
    if (!this.app.api.may("retry_dead")) return;
    const chosen = this.#tasks.filter((task) => this.#chosen.has(keyOf(task)));
    refill(this.#tools, chosen.length > 0 && h("button", { class: "main", on: { click: () => this.#retry(chosen) } }, `Retry the ${chosen.length} selected`),
      this.#tasks.length > 1 && h("button", { on: { click: () => this.#retry(this.#tasks) } }, `Retry all ${this.#tasks.length} shown`));
  }

  /** @param {any[]} tasks */
  async #retry(tasks) {
    /** @type {Map<string, string[]>} */
    const byRun = new Map();
    for (const task of tasks) byRun.set(task.run_id, [...(byRun.get(task.run_id) ?? []), task.name]);
    let done = 0;
    for (const [run, names] of byRun) {
      try {
        await this.app.api.call("retry_dead", { run, tasks: names });
        done += names.length;
      } catch (error) {
        toast(`${run}: ${problemText(error)}`, true);
      }
    }
    if (done) toast(`${done} will be tried again`);
    this.#chosen.clear();
    this.read();
  }
}

/** @param {any} task */
const keyOf = (task) => `${task.run_id}/${task.name}`;

customElements.define("weft-dead", DeadLetters);
