// @ts-check
/** What can be done to a run or a task right now, by the caller's role. Each is a verb of the table. */

import { h } from "../parts/dom.js";
import { askRerun, askSignal } from "./repair/dialogs.js";
import { askVerb } from "../parts/verb_dialog.js";
import { problemText, toast } from "../parts/toast.js";
import { address } from "../shell/router.js";

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
    over && app.api.may("correct_run") && h("a", { class: "button", href: address(["correct", run.id]) }, "Resume with changes"),
    over && run.dead_letter > 0 && action(app, "Retry dead letters", "retry_dead", known),
    h("a", { class: "button", href: address(["compare", run.id]) }, "Compare"),
    over && form(app, "Run again", "rerun_run", () => askRerun(app, run, null)),
  ];
}

/** A button for a form of its own. @param {App} app @param {string} label @param {string} verb @param {() => Promise<void>} act */
function form(app, label, verb, act) {
  return app.api.may(verb) && h("button", { on: { click: () => act().catch((error) => toast(problemText(error), true)) } }, label);
}

/** @param {App} app @param {any} task that waits for a signal @param {() => void} then */
export const answerAction = (app, task, then) => form(app, "Answer", "signal_run", () => askSignal(app, task).then(then));

/** @param {App} app @param {any} task as the API shows it @param {any} run @param {() => void} then */
export function taskActions(app, task, run, then) {
  const known = { run: task.run_id, task: task.name, tasks: [task.name] };
  const ended = ["succeeded", "failed", "cancelled", "skipped", "dead_letter"].includes(task.state);
  return [
    task.state === "running" && action(app, "Cancel", "cancel_task", known, ["reason"], then),
    task.state === "waiting" && task.kind === "wait" && answerAction(app, task, then),
    run.finished_at !== null && task.idx < 0 && form(app, "Run again from here", "rerun_run", () => askRerun(app, run, task.name)),
    task.state === "dead_letter" && action(app, "Retry", "retry_dead", known, null, then),
    !ended && task.state !== "running" && action(app, "Skip", "skip_tasks", known, ["reason"], then),
    task.state !== "succeeded" && task.state !== "running" && action(app, "Mark as succeeded", "mark_tasks", known, ["output", "reason"], then),
  ];
}
