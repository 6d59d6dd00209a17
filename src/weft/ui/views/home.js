// @ts-check
/** What needs a look now: what waits for a person, what failed since the reader last looked, what runs, what is late. */

import { Part, h, paced, refill } from "../parts/dom.js";
import { ago, clock, count, moment, span } from "../parts/format.js";
import { badge, meter, runsShown, shape, word } from "../parts/states.js";
import { problemText } from "../parts/toast.js";
import { address } from "../shell/router.js";
import { hourChart, latencies } from "../parts/hour_chart.js";
import { answerAction } from "./run_actions.js";
import { fireBadge } from "./schedules/trigger_parts.js";

const LOOKED = "weft-looked";
const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const SHOWN = 10;
const FAILED_READ = 100;
const HOUR_READ = 1000;
const AGAIN_MS = 2000;
const HOUR_AGAIN_MS = 30_000;

export class HomeView extends Part {
  #facts = h("div", { class: "facts" });
  #waits = section("Waits for a person");
  #failed = section("Failed");
  #runs = section("Running");
  #late = section("Late");
  #missed = section("Triggers that did not start a run");
  #hour = section("The last hour");
  #problem = h("p", { class: "note problem", hidden: true, role: "alert" });
  #refresh = paced(AGAIN_MS, () => this.#read());

  /** @param {import("../shell/main.js").App} app */
  constructor(app) {
    super();
    this.app = app;
  }

  begin() {
    document.title = "Weft";
    this.className = "home";
    this.replaceChildren(h("div", { class: "filters" }, h("h1", {}, "Home"), this.#facts), this.#problem,
      h("div", { class: "home-grid" }, this.#waits, this.#failed, this.#runs, this.#late, this.#missed, this.#hour));
    this.app.live?.subscribe(null, (message) => message.kind !== "lost" && this.#refresh(), this.life);
    this.every(5000, () => !document.hidden && this.#refresh());
    this.every(HOUR_AGAIN_MS, () => !document.hidden && this.#readHour());
    this.#refresh();
    this.#readHour();
  }

  async #read() {
    const { api } = this.app;
    try {
      const [counts, running, failed, waiting, triggers] = await Promise.all([
        api.call("get_counts", {}, this.life), api.call("list_runs", { state: ["running"], limit: SHOWN }, this.life),
        api.call("list_runs", { state: ["failed"], limit: FAILED_READ }, this.life),
        api.call("list_tasks", { state: ["waiting"], type: ["wait"], limit: SHOWN }, this.life), api.call("list_triggers", { limit: 200 }, this.life),
      ]);
      this.#problem.hidden = true;
      this.#showFacts(counts);
      this.#showFailed(failed, counts.now);
      this.#showRunning(running.runs, counts);
      this.#showMissed(triggers.triggers, counts.now);
      if (!this.#waits.querySelector("button:focus")) await this.#showWaiting(waiting.tasks, running.runs, counts.now);
    } catch (error) {
      if (this.life.aborted || this.#facts.firstChild) return;
      this.#problem.hidden = false;
      this.#problem.textContent = problemText(error);
    }
  }

  /** @param {any} counts */
  #showFacts(counts) {
    refill(this.#facts,
      ["running", "pending"].map((state) => h("a", { href: `#/runs?state=${state}` }, badge(state, `${count(runsShown(counts, false)[state] ?? 0)} ${state}`))),
      h("a", { href: "#/dead" }, badge("dead_letter", `${count(counts.dead_letters)} dead letter${counts.dead_letters === 1 ? "" : "s"}`)));
  }

  /** @param {any} page @param {number} now */
  #showFailed(page, now) {
    const looked = Number(localStorage.getItem(LOOKED)) || now - DAY_MS;
    const found = page.runs.filter((/** @type {any} */ run) => run.finished_at > looked);
    const mark = () => {
      localStorage.setItem(LOOKED, String(now));
      this.#refresh();
    };
    const since = now - looked < DAY_MS ? clock(looked) : moment(looked);
    fillSection(this.#failed, `${found.length}${found.length === FAILED_READ ? " or more" : ""} since ${since}`,
      found.length > 0 && h("button", { on: { click: mark } }, "I have seen them"),
      found.length ? runLines(found.slice(0, SHOWN), now, true) : h("p", { class: "soft" }, "Nothing failed."),
      found.length > SHOWN && h("a", { href: "#/runs?state=failed" }, "All that failed"));
  }

  /** @param {any[]} runs @param {any} counts */
  #showRunning(runs, counts) {
    const all = runsShown(counts, false).running ?? 0;
    fillSection(this.#runs, count(all), null, runs.length ? runLines(runs, counts.now, false) : h("p", { class: "soft" }, "Nothing runs."),
      all > runs.length && h("a", { href: "#/runs?state=running" }, "All that run"));
  }

  /** @param {any[]} tasks @param {any[]} runs @param {number} now */
  async #showWaiting(tasks, runs, now) {
    const asks = await Promise.all(tasks.map(async (task) => {
      const found = await this.app.api.call("explain_task", { run: task.run_id, task: task.name }, this.life).catch(() => null);
      return { task, why: found?.explanations[0]?.summary ?? "" };
    }));
    const held = runs.filter((run) => run.paused || run.advance_state === "rest");
    const lines = [
      ...asks.map(({ task, why }) => h("li", {}, mark("waiting"), h("span", { class: "grow" },
        h("a", { class: "name", href: address(["runs", task.run_id], { task: task.name }) }, task.name), h("span", { class: "soft name" }, ` ${why}`)),
        answerAction(this.app, task, () => this.#refresh()))),
      ...held.map((run) => h("li", {}, mark(run.paused ? "paused" : "waiting"), h("span", { class: "grow" }, h("a", { class: "name", href: address(["runs", run.id]) }, run.name),
        h("span", { class: "soft" }, run.paused ? " is paused" : " waits to be advanced", `, submitted ${ago(run.created_at, now)}`)))),
    ];
    fillSection(this.#waits, lines.length ? `${lines.length}${tasks.length === SHOWN ? " or more" : ""}` : "", null, lines.length ? h("ul", { class: "lines" }, lines) : h("p", { class: "soft" }, "Nothing waits for a person."));
  }

  /** @param {any[]} triggers @param {number} now */
  #showMissed(triggers, now) {
    const found = triggers.filter((one) => one.problem || one.last?.outcome === "missed" || one.last?.outcome === "failed");
    this.#missed.hidden = !found.length;
    fillSection(this.#missed, String(found.length), null, h("ul", { class: "lines" }, found.slice(0, SHOWN).map((one) => h("li", {},
      one.last ? fireBadge(one.last) : badge("failed", "cannot fire"), h("span", { class: "grow" },
        h("a", { class: "name", href: address(["schedules", one.workflow, one.name]) }, one.id), h("span", { class: "soft name" }, ` ${one.problem ?? one.last.reason ?? ""}${one.last ? `, ${ago(one.last.at, now)}` : ""}`))))));
  }

  async #readHour() {
    try {
      const { now } = await this.app.api.call("get_clock", {}, this.life);
      const [page, late] = await Promise.all([this.app.api.call("list_runs", { since: now - HOUR_MS, limit: HOUR_READ, children: true }, this.life),
        this.app.api.call("list_runs", { since: now - DAY_MS, late: true, limit: SHOWN }, this.life)]);
      this.#late.hidden = !late.runs.length;
      fillSection(this.#late, "have not met a deadline in the last day", h("a", { href: "#/runs?late=true" }, "All"), runLines(late.runs, now, false));
      fillSection(this.#hour, `${count(page.runs.length)}${page.next ? " or more" : ""} runs submitted`, null, hourChart(page.runs, now), latencies(page.runs, now), page.next && h("p", { class: "soft" }, `the newest ${count(HOUR_READ)}`));
    } catch {
      // the bar says that the server is not heard
    }
  }
}

/** @param {string} title */
function section(title) {
  return h("section", { class: "card", "data-title": title, "aria-label": title });
}

/** @param {HTMLElement} place @param {string} more @param {import("../parts/dom.js").Child} action @param {...import("../parts/dom.js").Child} children */
function fillSection(place, more, action, ...children) {
  refill(place, h("div", { class: "card-head" }, h("h2", {}, place.dataset.title), h("span", { class: "soft grow" }, more), action), ...children);
}

/** A state without its word, which is there for those who do not see it. @param {string} state */
function mark(state) {
  return h("span", { class: `state state-${state}` }, shape(state), h("span", { class: "sr" }, word(state)));
}

/** @param {any[]} runs @param {number} now @param {boolean} ended */
function runLines(runs, now, ended) {
  return h("ul", { class: "lines" }, runs.map((run) => h("li", {}, mark(run.paused && !run.finished_at ? "paused" : run.state),
    h("span", { class: "grow" }, h("a", { class: "name", href: address(["runs", run.id]) }, run.name), h("span", { class: "soft name" }, ` ${run.reason ?? ""}`)),
    !ended && meter(run), h("span", { class: "soft", title: moment(run.finished_at ?? run.created_at) }, ended ? ago(run.finished_at, now) : span(now - (run.started_at ?? run.created_at))))));
}

customElements.define("weft-home", HomeView);
