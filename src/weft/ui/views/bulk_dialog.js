// @ts-check
/** The same change to many runs: first a preview of what will be changed and what refuses, then the change. */

import { h, refill } from "../parts/dom.js";
import { count } from "../parts/format.js";
import { badge } from "../parts/states.js";
import { problemText, toast } from "../parts/toast.js";

const SHOWN = 50;
const WITHOUT_REASON = ["rerun", "resume", "retry_dead", "remove"];
const ROUNDS_MAX = 100; // of 200 runs each

/**
 * Resolves to whether anything was changed.
 * @param {import("../shell/main.js").App} app @param {string} action @param {string} label
 * @param {Record<string, any>} wanted `runs`, or filters
 * @returns {Promise<boolean>}
 */
export function askBulk(app, action, label, wanted) {
  return new Promise((resolve) => {
    let changed = false;
    let stopped = false;
    const body = h("div", { class: "dialog-body" }, h("p", { class: "soft" }, "…"));
    const reason = /** @type {HTMLInputElement} */ (h("input", { type: "text", autocomplete: "off" }));
    const doIt = /** @type {HTMLButtonElement} */ (h("button", { class: "main", type: "button", disabled: true }, "Do it"));
    const dialog = /** @type {HTMLDialogElement} */ (h("dialog", { "aria-label": label }, h("div", { class: "dialog-head" }, h("h2", {}, `${label}: many runs`)), body,
      h("div", { class: "dialog-foot" }, h("button", { type: "button", on: { click: () => dialog.close() } }, "Leave it"), doIt)));
    const operation = action === "remove" ? "remove_runs" : "change_runs";
    const fields = () => ({ ...wanted, ...(action === "remove" ? {} : { action }), ...(reason.value.trim() ? { reason: reason.value.trim() } : {}) });
    const refused = (/** @type {unknown} */ error) => refill(body, h("p", { class: "state-failed name", role: "alert" }, problemText(error)));

    const look = async () => {
      const found = await app.api.call(operation, { ...fields(), preview: true });
      const many = `${count(found.changed.length)}${found.next ? " or more" : ""} run${found.changed.length === 1 && !found.next ? "" : "s"}`;
      refill(body, h("p", {}, found.changed.length || found.next ? `${label} ${many}:` : "Nothing would change."), lines(found.changed),
        found.refused.length > 0 && [h("p", {}, `Left as ${found.refused.length === 1 ? "it is" : "they are"}:`), lines(found.refused)],
        !WITHOUT_REASON.includes(action) && h("label", {}, "Reason (optional)", reason));
      doIt.disabled = !found.changed.length && !found.next;
    };
    const act = async () => {
      doIt.disabled = true;
      let done = 0;
      const left = [];
      let cursor = null;
      for (let round = 0; round < ROUNDS_MAX && !stopped; round++) {
        const found = await app.api.call(operation, { ...fields(), ...(cursor ? { cursor } : {}) });
        const now = found.changed.filter((/** @type {any} */ one) => one.refused === null);
        done += now.length;
        changed ||= now.length > 0;
        left.push(...found.refused, ...found.changed.filter((/** @type {any} */ one) => one.refused !== null));
        refill(body, h("p", { role: "status" }, `${count(done)} changed…`));
        cursor = found.next;
        if (cursor === null) break;
      }
      toast(`${label}: ${count(done)} changed${left.length ? `, ${count(left.length)} left as they were` : ""}${cursor === null ? "" : ", and there are more"}`);
      dialog.close();
    };
    doIt.addEventListener("click", () => act().catch(refused));
    dialog.addEventListener("close", () => {
      stopped = true;
      dialog.remove();
      resolve(changed);
    });
    document.body.append(dialog);
    dialog.showModal();
    look().catch(refused);
  });
}

/** @param {any[]} runs */
function lines(runs) {
  return h("ul", { class: "lines" }, runs.slice(0, SHOWN).map((one) => h("li", {}, badge(one.state), h("span", { class: "grow name" }, `${one.name} `, h("span", { class: "mono soft" }, one.run)), h("span", { class: "soft name" }, one.refused ?? ""))),
    runs.length > SHOWN && h("li", { class: "soft" }, `and ${count(runs.length - SHOWN)} more`));
}
