// @ts-check
/** One task: why it is where it is, its attempts, what it printed, what it runs. */

import { OutputView } from "../parts/output_view.js";
import { Part, h, paced, refill } from "../parts/dom.js";
import { clock, count, span } from "../parts/format.js";
import { badge, shape, word } from "../parts/states.js";
import { problemText } from "../parts/toast.js";
import { address, changed } from "../shell/router.js";
import { taskActions } from "./run_actions.js";

const AGAIN_MS = 1500;
const ELEMENTS = 200;

export class TaskPanel extends Part {
  #head = h("header", { class: "task-head" });
  #why = h("section", { class: "task-part" });
  #elements = h("section", { class: "task-part" });
  #attempts = h("section", { class: "task-part" });
  #output = h("section", { class: "task-part" });
  #launch = h("section", { class: "task-part" });
  #shownOutput = "";
  #shown = "";
  #refresh = paced(AGAIN_MS, () => this.#read());

  /** @param {import("../shell/main.js").App} app @param {import("../data/run_model.js").RunModel} model @param {string} task */
  constructor(app, model, task) {
    super();
    this.app = app;
    this.model = model;
    this.task = task;
  }

  begin() {
    this.setAttribute("aria-label", `Task ${this.task}`);
    this.setAttribute("role", "complementary");
    for (const part of [this.#elements, this.#attempts, this.#output, this.#launch]) part.hidden = true;
    refill(this.#head, h("h2", { class: "name" }, this.task));
    this.replaceChildren(this.#head, this.#why, this.#elements, this.#attempts, this.#output, this.#launch);
    this.hear(this.model, "change", () => this.#changed() && this.#refresh());
    this.#read();
  }

  /** Whether the task has moved since it was read last. */
  #changed() {
    const pos = this.model.position(this.task);
    if (pos === undefined) return false;
    const elements = this.model.elements.get(pos);
    const now = [this.model.states[pos], this.model.attempts[pos], elements && JSON.stringify(elements), this.model.run?.generation, this.task.includes(".") && this.model.applied].join();
    if (now === this.#shown) return false;
    this.#shown = now;
    return true;
  }

  async #read() {
    const fields = { run: this.model.id, task: this.task };
    try {
      const [{ task, attempts }, why] = await Promise.all([this.app.api.call("get_task", fields, this.life), this.app.api.call("explain_task", fields, this.life)]);
      this.#showHead(task, attempts);
      this.#showWhy(why.explanations);
      if (task.elements !== null) await this.#showElements(task);
      this.#showAttempts(task, attempts);
      this.#showOutput(task);
      await this.#showLaunch(task, fields);
    } catch (error) {
      if (!this.life.aborted && !this.#why.firstChild) refill(this.#why, h("p", { class: "state-failed" }, problemText(error)));
    }
  }

  /** @param {any} task @param {any[]} attempts */
  #showHead(task, attempts) {
    const took = attempts.at(-1);
    const signal = task.kind === "wait" ? task.name : null;
    const whole = task.idx >= 0 && task.name.slice(0, task.name.lastIndexOf("."));
    refill(this.#head,
      h("div", { class: "row" }, badge(task.state), h("h2", { class: "name grow" }, task.name, task.label && h("span", { class: "soft" }, ` ${task.label}`)),
        h("a", { href: changed({ task: null }), class: "button", "aria-label": "Close" }, "×")),
      h("div", { class: "row soft" }, task.kind, task.node && h("span", { class: "name" }, `on ${task.node}`),
        took?.started_at && h("span", {}, span((took.finished_at ?? this.model.now) - took.started_at)),
        whole && h("a", { href: changed({ task: whole }) }, `all of ${whole}`),
        task.child && h("a", { href: address(["runs", task.child]) }, "its run")),
      h("div", { class: "row" }, taskActions(this.app, task, signal, () => this.#refresh())));
  }

  /** @param {any[]} found */
  #showWhy(found) {
    const names = new Set(this.model.graph.names);
    const linked = (/** @type {string} */ text) => text.split(/([A-Za-z_][A-Za-z0-9_-]*)/).map((part) =>
      names.has(part) && part !== this.task ? h("a", { href: changed({ task: part }) }, part) : part);
    refill(this.#why, h("h3", {}, "Why"), found.slice(0, 5).map((one) => [
      h("p", { class: "name" }, linked(one.summary)), one.details.length > 0 && h("ul", { class: "why" }, one.details.map((/** @type {string} */ line) => h("li", { class: "name" }, linked(line)))),
    ]).flat());
  }

  /** @param {any} task */
  async #showElements(task) {
    const page = await this.app.api.call("list_run_tasks", { run: task.run_id, elements_of: task.name, limit: ELEMENTS }, this.life);
    const states = this.model.elements.get(task.pos)?.states ?? {};
    const elements = page.tasks;
    this.#elements.hidden = false;
    refill(this.#elements, h("h3", {}, `Elements: ${count(task.elements)}`),
      h("div", { class: "facts" }, Object.entries(states).map(([state, many]) => h("span", {}, badge(state), ` ${count(many)}`))),
      h("div", { class: "cells" }, elements.map((/** @type {any} */ one) => h("a", { href: changed({ task: one.name }), title: `${one.name} ${one.label ?? ""} ${word(one.state)}`, "aria-label": `${one.name} ${word(one.state)}` }, shape(one.state)))),
      task.elements > elements.length && h("p", { class: "soft" }, `the first ${count(elements.length)} of them`));
  }

  /** @param {any} task @param {any[]} attempts */
  #showAttempts(task, attempts) {
    this.#attempts.hidden = attempts.length === 0;
    const heads = ["No.", "Outcome", "Exit", "Node", "Began", "Took"];
    refill(this.#attempts, h("h3", {}, "Attempts"),
      h("table", {}, h("thead", {}, h("tr", {}, heads.map((one) => h("th", { scope: "col" }, one)))), h("tbody", {}, attempts.slice(-20).reverse().map((one) => h("tr", {},
        h("td", {}, one.attempt), h("td", {}, badge(one.outcome === "lost" || one.outcome === "returned" ? "cancelled" : one.outcome, one.outcome)), h("td", {}, one.exit_code ?? ""), h("td", { class: "text name" }, one.node ?? ""),
        h("td", {}, one.started_at ? clock(one.started_at) : ""), h("td", {}, one.started_at ? span((one.finished_at ?? this.model.now) - one.started_at) : ""))))),
      attempts.filter((one) => one.error).slice(-1).map((one) => h("pre", { class: "name", tabindex: "0", "aria-label": "The error of the last failed attempt" }, one.error)));
  }

  /** @param {any} task */
  #showOutput(task) {
    const key = `${task.attempt} ${task.elements}`;
    if (key === this.#shownOutput) return;
    this.#shownOutput = key;
    this.#output.hidden = task.attempt === 0 || task.elements !== null || task.kind === "wait" || task.kind === "workflow";
    if (!this.#output.hidden) refill(this.#output, h("h3", {}, "Output"), new OutputView(this.app, { run: this.model.id, task: this.task, attempt: task.attempt }));
  }

  /** @param {any} task @param {Record<string, string>} fields */
  async #showLaunch(task, fields) {
    if (task.elements !== null || task.kind === "wait" || task.kind === "workflow") return;
    const launch = await this.app.api.call("get_task_launch", fields, this.life);
    const spec = launch.spec.run ?? launch.spec.argv ?? launch.spec;
    const env = Object.entries(launch.env).map(([name, value]) => `${name}=${value}`);
    this.#launch.hidden = false;
    refill(this.#launch, h("h3", {}, "What it runs"), h("pre", { tabindex: "0", "aria-label": "Command" }, typeof spec === "string" ? spec : JSON.stringify(spec, null, 2)),
      env.length > 0 && h("pre", { tabindex: "0", "aria-label": "Variables" }, env.join("\n")),
      launch.secrets.length > 0 && h("p", { class: "soft" }, `and the secrets ${launch.secrets.join(", ")}`),
      launch.error && h("p", { class: "state-failed name" }, launch.error));
  }
}

customElements.define("weft-task", TaskPanel);
