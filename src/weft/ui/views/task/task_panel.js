// @ts-check
/** One task: why it is where it is, its attempts, what it printed, what it runs. */

import { TaskFiles } from "../../output/files.js";
import { OutputView } from "../../output/output_view.js";
import { Part, h, paced, refill, table } from "../../parts/dom.js";
import { clock, span } from "../../parts/format.js";
import { badge } from "../../parts/states.js";
import { problemText } from "../../parts/toast.js";
import { address, changed } from "../../shell/router.js";
import { ChildRun } from "./child_run.js";
import { ElementCells } from "./element_cells.js";
import { taskActions } from "../run_actions.js";

const AGAIN_MS = 1500;

export class TaskPanel extends Part {
  #head = h("header", { class: "task-head" });
  #why = h("section", { class: "task-part" });
  #elements = h("section", { class: "task-part" });
  #child = h("section", { class: "task-part" });
  #attempts = h("section", { class: "task-part" });
  #output = h("section", { class: "task-part" });
  #files = h("section", { class: "task-part" });
  #launch = h("section", { class: "task-part" });
  #shownChild = "";
  #shownOutput = "";
  #shownFiles = "";
  #shown = "";
  #turn = 0;
  #refresh = paced(AGAIN_MS, () => this.#read());

  /** @param {import("../../shell/main.js").App} app @param {import("../../data/run_model.js").RunModel} model @param {string} task */
  constructor(app, model, task) {
    super();
    this.app = app;
    this.model = model;
    this.task = task;
  }

  begin() {
    this.setAttribute("aria-label", `Task ${this.task}`);
    this.setAttribute("role", "complementary");
    for (const part of [this.#elements, this.#child, this.#attempts, this.#output, this.#files, this.#launch]) part.hidden = true;
    refill(this.#head, h("h2", { class: "name" }, this.task));
    this.replaceChildren(this.#head, this.#why, this.#elements, this.#child, this.#attempts, this.#output, this.#files, this.#launch);
    this.hear(this.model, "change", () => this.#changed() && this.#refresh());
    this.#read();
  }

  /** Whether the task has moved since it was read last. */
  #changed() {
    const pos = this.model.position(this.task);
    if (pos === undefined) return false;
    const elements = this.model.elements.get(pos);
    const now = [this.model.past?.event.seq, this.model.states[pos], this.model.attempts[pos], elements && JSON.stringify(elements), this.model.run?.generation, this.task.includes(".") && this.model.applied].join();
    if (now === this.#shown) return false;
    this.#shown = now;
    return true;
  }

  async #read() {
    const fields = { run: this.model.id, task: this.task };
    const then = this.model.past?.event;
    const turn = ++this.#turn;
    try {
      if (then) return await this.#readPast(fields, then, turn);
      const [{ task, attempts }, why] = await Promise.all([this.app.api.call("get_task", fields, this.life), this.app.api.call("explain_task", fields, this.life)]);
      if (turn !== this.#turn) return;
      this.#showHead(task, attempts);
      this.#showWhy(why.explanations);
      this.#showChild(task);
      await this.#showElements(task);
      if (turn !== this.#turn) return; // the past, or now, is shown meanwhile
      this.#showAttempts(task, attempts);
      this.#showOutput(task);
      this.#showFiles(task, attempts.at(-1));
      await this.#showLaunch(task, fields, turn);
    } catch (error) {
      if (!this.life.aborted && !this.#why.firstChild) refill(this.#why, h("p", { class: "state-failed" }, problemText(error)));
    }
  }

  /** As it was: what its run's history says. @param {Record<string, string>} fields @param {any} then the event @param {number} turn */
  async #readPast(fields, then, turn) {
    const asked = { ...fields, event: then.seq };
    const [{ tasks }, why, { task: now, attempts }] = await Promise.all([
      this.app.api.call("get_run_at", asked, this.life), this.app.api.call("explain_task", asked, this.life), this.app.api.call("get_task", fields, this.life)]);
    if (turn !== this.#turn) return;
    this.#showChild({ ...now, elements: tasks[0].elements });
    const known = attempts.filter((/** @type {any} */ one) => (one.started_at ?? one.claimed_at) <= then.at)
      .map((/** @type {any} */ one) => (one.finished_at && one.finished_at <= then.at ? one : { ...one, finished_at: null, outcome: "running", exit_code: null, error: null }));
    this.#showHead(tasks[0], known);
    this.#showWhy(why.explanations);
    this.#showAttempts(tasks[0], known);
    this.#shownOutput = "";
    this.#launch.hidden = true;
    await this.#showElements(tasks[0]);
    this.#output.hidden = false;
    refill(this.#output, h("p", { class: "soft" }, "Output and what it ran are shown as they are now: ", h("a", { href: changed({ at: null }) }, "back to now"), "."));
  }

  /** @param {any} task @param {any[]} attempts */
  #showHead(task, attempts) {
    const took = attempts.at(-1);
    const whole = task.idx >= 0 && task.name.slice(0, task.name.lastIndexOf("."));
    refill(this.#head,
      h("div", { class: "row" }, badge(task.state), h("h2", { class: "name grow" }, task.name, task.label && h("span", { class: "soft" }, ` ${task.label}`)),
        h("a", { href: changed({ task: null }), class: "button", "aria-label": "Close" }, "×")),
      h("div", { class: "row soft" }, task.kind, task.node && h("span", { class: "name" }, `on ${task.node}`),
        took?.started_at && h("span", {}, span((took.finished_at ?? this.model.now) - took.started_at)),
        whole && h("a", { href: changed({ task: whole }) }, `all of ${whole}`),
        task.child && h("a", { href: address(["runs", task.child]) }, "its run")),
      !this.model.past && h("div", { class: "row" }, taskActions(this.app, task, this.model.run, () => this.#refresh())));
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

  /** The tasks of the run that it started. @param {any} task */
  #showChild(task) {
    const key = task.elements === null ? (task.child ?? "") : "";
    if (key === this.#shownChild) return;
    this.#shownChild = key;
    this.#child.hidden = key === "";
    refill(this.#child, key && [h("h3", {}, "The run that it started"), new ChildRun(this.app, this.model, key)]);
  }

  /** @param {any} task */
  async #showElements(task) {
    this.#elements.hidden = task.elements === null;
    if (task.elements === null) return;
    const known = /** @type {ElementCells | null} */ (this.#elements.querySelector("weft-elements"));
    const cells = known ?? new ElementCells(this.model, this.task);
    if (!known) refill(this.#elements, cells);
    await cells.read();
  }

  /** @param {any} task @param {any[]} attempts */
  #showAttempts(task, attempts) {
    this.#attempts.hidden = attempts.length === 0;
    const heads = ["No.", "Outcome", "Exit", "Node", "Began", "Took"];
    refill(this.#attempts, h("h3", {}, "Attempts"),
      table(heads, attempts.slice(-20).reverse().map((one) => h("tr", {},
        h("td", {}, one.attempt), h("td", {}, badge(one.outcome === "lost" || one.outcome === "returned" ? "cancelled" : one.outcome, one.outcome)), h("td", {}, one.exit_code ?? ""), h("td", { class: "text name" }, one.node ?? (one.outcome === "succeeded" && !one.session ? "by hand" : "")),
        h("td", {}, one.started_at ? clock(one.started_at) : ""), h("td", {}, one.started_at ? span((one.finished_at ?? this.model.now) - one.started_at) : "")))),
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

  /** @param {any} task @param {any} last its last attempt */
  #showFiles(task, last) {
    const key = `${task.state} ${task.attempt} ${last?.outcome}`;
    if (key === this.#shownFiles || !last?.finished_at) return;
    this.#shownFiles = key;
    const files = new TaskFiles(this.app, { run: this.model.id, task: this.task }, last);
    files.addEventListener("known", (event) => (this.#files.hidden = !(/** @type {any} */ (event).detail)));
    refill(this.#files, h("h3", {}, "Result and files"), files);
  }

  /** @param {any} task @param {Record<string, string>} fields @param {number} turn */
  async #showLaunch(task, fields, turn) {
    if (task.elements !== null || task.kind === "wait" || task.kind === "workflow") return;
    const launch = await this.app.api.call("get_task_launch", fields, this.life);
    if (turn !== this.#turn) return;
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
