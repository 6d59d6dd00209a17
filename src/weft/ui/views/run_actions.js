// @ts-check
/** What can be done to a run or a task right now, by the caller's role. Each is a verb of the table. */

import { h } from "../parts/dom.js";
import { askVerb } from "../parts/verb_dialog.js";
import { address, go } from "../shell/router.js";

/** @typedef {import("../shell/main.js").App} App */

/**
 * @param {App} app @param {string} label @param {string} verb @param {Record<string, any>} known
 * @param {string[] | null} [asks] fields that are asked for; null: none, it is done at once
 * @param {(reply: any) => void} [then]
 */
function action(app, label, verb, known, asks = null, then) {
  const act = async () => {
    const reply = asks === null ? await app.carryOut(verb, known) : await askVerb(app, verb, known, { title: label, fields: asks });
    if (reply !== null) then?.(reply);
  };
  return app.api.may(verb) && h("button", { on: { click: act } }, label);
}

/** @param {App} app @param {import("../data/run_model.js").RunModel} model */
export function runActions(app, model) {
  const run = model.run;
  const known = { run: run.id };
  const over = run.finished_at !== null;
  return [
    !over && (run.paused ? action(app, "Unpause", "unpause_run", known) : action(app, "Pause", "pause_run", known, ["reason"])),
    !over && model.waitsForAdvance && action(app, "Advance", "advance_run", known, ["by_task"]),
    !over && action(app, "Cancel", "cancel_run", known, ["reason", "now"]),
    over && run.state !== "succeeded" && action(app, "Resume", "resume_run", known),
    over && run.dead_letter > 0 && action(app, "Retry dead letters", "retry_dead", known),
    h("a", { class: "button", href: address(["compare", run.id]) }, "Compare"),
    over && action(app, "Run again", "rerun_run", { ...known, inputs: run.inputs }, ["inputs", "fresh"], (reply) => reply.run && go(address(["runs", reply.run]))),
  ];
}

/** @param {App} app @param {any} task as the API shows it @param {string | null} signal that it waits for @param {() => void} then */
export function taskActions(app, task, signal, then) {
  const known = { run: task.run_id, task: task.name, tasks: [task.name] };
  const ended = ["succeeded", "failed", "cancelled", "skipped", "dead_letter"].includes(task.state);
  return [
    task.state === "running" && action(app, "Cancel", "cancel_task", known, ["reason"], then),
    task.state === "waiting" && signal && action(app, "Answer", "signal_run", { ...known, name: signal }, ["data", "reject"], then),
    task.state === "dead_letter" && action(app, "Retry", "retry_dead", known, null, then),
    !ended && task.state !== "running" && action(app, "Skip", "skip_tasks", known, ["reason"], then),
    task.state !== "succeeded" && task.state !== "running" && action(app, "Mark as succeeded", "mark_tasks", known, ["output", "reason"], then),
  ];
}
