// @ts-check
/** What the list of triggers and the view of one share. */

import { h } from "../../parts/dom.js";
import { ago, span } from "../../parts/format.js";
import { badge } from "../../parts/states.js";
import { askVerb } from "../../parts/verb_dialog.js";

const LOOKS = /** @type {Record<string, string>} */ ({ started: "succeeded", queued: "queued", skipped: "skipped", missed: "cancelled", failed: "failed" });

/** The state whose colour and shape stands for what became of a fire. @param {string} outcome */
export const fireLook = (outcome) => LOOKS[outcome] ?? "pending";

/** @param {any} fire */
export const fireBadge = (fire) => badge(fireLook(fire.outcome), fire.outcome);

/** @param {number} at @param {number} now */
export function near(at, now) {
  return at > now ? `in ${span(at - now)}` : ago(at, now);
}

/** @param {import("../../shell/main.js").App} app @param {any} trigger @param {(reply: any) => void} then */
export function triggerActions(app, trigger, then) {
  const known = { name: trigger.workflow, trigger: trigger.name };
  const button = (/** @type {string} */ label, /** @type {string} */ verb, /** @type {() => Promise<any>} */ act) => app.api.may(verb) && h("button", {
    "aria-label": `${label} ${trigger.id}`, on: { click: async () => { const reply = await act(); if (reply !== null) then(reply); } },
  }, label);
  const asks = trigger.kind === "webhook" || trigger.kind === "after";
  return [
    button("Fire now", "fire_trigger", () => (asks ? askVerb(app, "fire_trigger", known, { title: `Fire ${trigger.id}`, fields: ["body"] }) : app.carryOut("fire_trigger", known))),
    trigger.paused ? button("Resume", "resume_trigger", () => app.carryOut("resume_trigger", known)) : button("Pause", "pause_trigger", () => app.carryOut("pause_trigger", known)),
  ];
}
