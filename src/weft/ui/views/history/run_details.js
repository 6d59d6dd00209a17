// @ts-check
/** What went into a run and what came out: inputs, output, context, the runs that its tasks started, and its definition beside the current one. */

import { diffLines } from "../../parts/diff_lines.js";
import { Part, h, paced, refill, table } from "../../parts/dom.js";
import { count, span } from "../../parts/format.js";
import { badge, meter } from "../../parts/states.js";
import { problemText } from "../../parts/toast.js";
import { address } from "../../shell/router.js";

const AGAIN_MS = 2000;
const CHILDREN_SHOWN = 20;

export class RunDetails extends Part {
  #values = h("section", { class: "section" });
  #children = h("section", { class: "section" });
  #definition = h("section", { class: "section" });
  #again = paced(AGAIN_MS, () => this.#read());
  #shown = "";
  #shownHash = "";

  /** @param {import("../../shell/main.js").App} app @param {import("../../data/run_model.js").RunModel} model */
  constructor(app, model) {
    super();
    this.app = app;
    this.model = model;
  }

  begin() {
    this.replaceChildren(this.#values, this.#children, this.#definition);
    this.hear(this.model, "change", () => this.#changed() && this.#again());
    this.#again();
  }

  #changed() {
    const { run } = this.model;
    if (run === null) return false;
    const now = [run.state, run.generation, run.succeeded, run.workflow].join();
    const other = now !== this.#shown;
    this.#shown = now;
    return other;
  }

  async #read() {
    const { run } = this.model;
    if (run === null) return; // a change follows
    const fields = { run: run.id };
    const asked = (/** @type {string} */ verb) => this.app.api.call(verb, fields, this.life).catch((error) => ({ problem: problemText(error) }));
    const [output, context, family] = await Promise.all([run.finished_at ? asked("get_run_output") : { problem: "It has not ended." }, asked("get_run_context"), asked("list_family")]);
    if (this.life.aborted) return;
    const past = this.model.past && h("p", { class: "soft" }, "Values are shown as they are now: a run's history does not have them.");
    refill(this.#values, past, value("Inputs", run.inputs), value("Output", output.output, output.problem ?? output.error), value("Context", context.context, context.problem));
    try {
      await this.#showChildren((family.runs ?? []).slice(1));
      if (run.workflow !== this.#shownHash) await this.#showDefinition(run);
    } catch (error) {
      if (!this.life.aborted) refill(this.#definition, h("h2", {}, "Definition"), h("p", { class: "soft name" }, problemText(error)));
    }
  }

  /** @param {any[]} children */
  async #showChildren(children) {
    this.#children.hidden = children.length === 0;
    if (!children.length) return;
    const found = await Promise.all(children.slice(0, CHILDREN_SHOWN).map((one) => this.app.api.call("get_run", { run: one.id, tasks: 0 }, this.life).then((detail) => detail.run, () => null)));
    const heads = ["Run", "State", "Workflow", "Tasks", "Took"];
    refill(this.#children, h("h2", {}, `Runs that its tasks started: ${count(children.length)}`),
      h("div", { class: "panel-table" }, table(heads, found.filter(Boolean).map((run) => h("tr", {},
        h("td", {}, h("a", { class: "mono", href: address(["runs", run.id]) }, run.id)), h("td", {}, badge(run.state)), h("td", { class: "name" }, run.name), h("td", {}, meter(run)),
        h("td", {}, run.started_at ? span((run.finished_at ?? this.model.now) - run.started_at) : ""))))),
      children.length > CHILDREN_SHOWN && h("p", { class: "soft" }, `the first ${CHILDREN_SHOWN} of them`));
  }

  /** @param {any} run */
  async #showDefinition(run) {
    const { document: text } = await this.app.api.call("get_document", { hash: run.workflow }, this.life);
    const current = await this.app.api.call("get_workflow", { name: run.name }, this.life).catch(() => null);
    const same = current === null || current.hash === run.workflow;
    const diff = same ? null : await this.app.api.call("diff_versions", { name: run.name, old: run.workflow, new: current.hash }, this.life).catch(() => null);
    this.#shownHash = run.workflow;
    refill(this.#definition, h("h2", {}, "Definition"),
      h("p", { class: "soft" }, "It ran version ", h("a", { class: "mono", href: address(["workflows", run.name], { version: run.workflow.slice(0, 12) }) }, run.workflow.slice(0, 12)),
        same ? ", the current one." : ". What the current version has changed since:"),
      diff && diffLines(diff.lines, "Nothing."),
      h("details", {}, h("summary", {}, "All of it"), h("pre", { class: "definition", tabindex: "0", role: "region", "aria-label": "Definition" }, JSON.stringify(text, null, 2))));
  }
}

/** @param {string} title @param {any} found @param {string | null} [problem] */
function value(title, found, problem) {
  const empty = found === null || found === undefined || (typeof found === "object" && Object.keys(found).length === 0);
  const text = typeof found === "string" ? found : JSON.stringify(found, null, 2);
  return h("div", {}, h("h2", {}, title), problem ? h("p", { class: "soft name" }, problem) : empty ? h("p", { class: "soft" }, "none") : h("pre", { class: "definition", tabindex: "0", role: "region", "aria-label": title }, text));
}

customElements.define("weft-run-details", RunDetails);
