// @ts-check
/** Weeks of days, Monday first, each with what lies in it. Days are those of the reader's own zone. */

import { h } from "./dom.js";
import { shape } from "./states.js";

const DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const WEEKDAY = new Intl.DateTimeFormat(undefined, { weekday: "short" });
const WEEKS_MAX = 8;

/** @typedef {{at: number, state: string, what: string}} Entry `what` in one word: "started", "next" */

/** @param {number} at */
function midnight(at) {
  const day = new Date(at);
  day.setHours(0, 0, 0, 0);
  return day;
}

/** @param {Entry[]} entries @param {number} now */
export function calendar(entries, now) {
  const today = midnight(now);
  const times = [now, ...entries.map((one) => one.at)];
  const first = midnight(Math.max(Math.min(...times), now - 28 * 86_400_000));
  first.setDate(first.getDate() - ((first.getDay() + 6) % 7));
  const last = Math.min(Math.max(...times), first.getTime() + WEEKS_MAX * 7 * 86_400_000 - 1);
  /** @type {Map<number, Entry[]>} */
  const byDay = new Map();
  for (const one of entries) {
    const day = midnight(one.at).getTime();
    byDay.set(day, [...(byDay.get(day) ?? []), one]);
  }
  const weeks = [];
  for (const day = new Date(first); day.getTime() <= last; ) {
    const cells = [];
    for (let nth = 0; nth < 7; nth++, day.setDate(day.getDate() + 1)) cells.push(cell(day, byDay.get(day.getTime()) ?? [], day.getTime() === today.getTime()));
    weeks.push(h("tr", {}, cells));
  }
  const days = Array.from({ length: 7 }, (_, nth) => h("th", { scope: "col" }, WEEKDAY.format(new Date(2024, 0, 1 + nth))));
  return h("table", { class: "calendar" }, h("caption", { class: "sr" }, "Fires by day"), h("thead", {}, h("tr", {}, days)), h("tbody", {}, weeks));
}

/** @param {Date} day @param {Entry[]} entries @param {boolean} today */
function cell(day, entries, today) {
  /** @type {Map<string, {state: string, many: number}>} */
  const kinds = new Map();
  for (const { what, state } of entries) kinds.set(what, { state, many: (kinds.get(what)?.many ?? 0) + 1 });
  const lines = [...kinds].map(([what, { state, many }]) => h("span", { class: `state state-${state}` }, shape(state), `${many} `, h("span", { class: "calendar-word" }, what)));
  return h("td", { class: today ? "today" : null }, h("span", { class: "soft" }, DAY.format(day), today ? h("span", { class: "sr" }, " today") : ""), lines);
}
