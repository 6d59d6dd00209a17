// @ts-check
/** A dry run: what would start, level by level, and on which nodes it could run. */

import { h } from "../parts/dom.js";
import { count } from "../parts/format.js";

/** @param {any} plan */
export function planView(plan) {
  const levels = Map.groupBy(plan.tasks, (/** @type {any} */ task) => task.level);
  const left = plan.total - plan.tasks.length;
  return h("div", { class: "plan" },
    h("p", {}, `${count(plan.total)} tasks in ${plan.levels} levels, at most ${count(plan.widest)} at once; ${plan.nodes} node${plan.nodes === 1 ? "" : "s"} alive`),
    plan.problems.length > 0 && h("ul", { class: "why problems" }, plan.problems.map((/** @type {string} */ one) => h("li", { class: "name" }, one))),
    [...levels].map(([level, tasks]) => h("section", {}, h("h3", {}, level === 0 ? "Would start at once" : `Level ${level}`), h("ul", { class: "lines" }, tasks.map(line)))),
    left > 0 && h("p", { class: "soft" }, `and ${count(left)} more tasks`));
}

/** @param {any} task */
function line(task) {
  const facts = [task.type, task.mapped && "mapped", task.replicas && `× ${task.replicas}`, task.condition && `if ${task.condition}`, task.needs?.length && `after ${task.needs.slice(0, 5).join(", ")}`].filter(Boolean);
  const nodes = task.nodes === undefined ? null : task.nodes.length ? h("span", { class: "name" }, task.nodes.join(", ")) : h("span", { class: "state-failed" }, "no live node");
  return h("li", { class: "planned" }, h("span", { class: "grow" }, h("b", { class: "name" }, task.name), h("span", { class: "soft name" }, ` ${facts.join(" · ")}`),
    (task.why ?? []).map((/** @type {string} */ one) => h("div", { class: "soft name" }, one))), nodes);
}
