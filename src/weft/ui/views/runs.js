// @ts-check
/** The list of runs: live, filtered by its address, a page at a time. */

import { Part, h, paced, refill, table, unseen } from "../parts/dom.js";
import { ago, count, moment, span } from "../parts/format.js";
import { keepFocus } from "../parts/keep_focus.js";
import { SPANS, runChart } from "../parts/run_chart.js";
import { RUN_STATES, badge, meter, runsShown, shape, word } from "../parts/states.js";
import { problemText } from "../parts/toast.js";
import { address, changed, go, here } from "../shell/router.js";
import { RunSelection, bodyFilters } from "./run_selection.js";

const LIMIT = 50;
const AGAIN_MS = 1000;
const FILTERS = ["name", "trigger", "label", "input", "text", "since", "until", "backfill"];
const FLAGS = [["late", "late ones only"], ["children", "also runs that tasks started"]];
const TIMES = new Set(["since", "until"]);
const CHART_MS = 5000;

export class RunsView extends Part {
  #chips = h("span", { class: "filters-states" });
  #filters = h("div", { class: "filters" });
  #body = h("div", { class: "panel-table" }, h("p", { class: "note" }, "…"));
  #pages = h("div", { class: "pages" });
  /** @type {any[]} */ #runs = [];
  #now = 0;
  #asked = ""; // the address whose runs are shown
  #chosen = -1;
  #refresh = paced(AGAIN_MS, () => this.#read());
  #chart = h("section", { "aria-label": "Runs over time" });
  #more = h("div", {});
  #span = SPANS[1];
  #draw = paced(CHART_MS, () => this.#readChart());

  /** @param {import("../shell/main.js").App} app */
  constructor(app) {
    super();
    this.app = app;
    this.selection = new RunSelection(app, () => bodyFilters(FILTERS), () => this.#refresh());
  }

  begin() {
    document.title = "Runs · Weft";
    const text = h("input", {
      type: "search", placeholder: "Filter by id, name, label, input or reason", "aria-label": "Filter", "data-filter": true, size: "42",
      value: here().query.get("text") ?? "", on: { input: paced(300, () => go(changed({ text: /** @type {any} */ (text).value, cursor: null }), true)) },
    });
    this.#chips.className = "counted";
    refill(this.#filters, this.#chips, h("span", { class: "grow" }), text);
    this.replaceChildren(h("h1", { class: "sr" }, "Runs"), this.#filters, h("div", { class: "over-time" }, this.#chart, this.#more), this.selection, this.#body, this.#pages);
    this.app.live?.subscribe(null, (message) => message.kind !== "lost" && (this.#refresh(), this.#draw()), this.life);
    this.every(2000, () => !document.hidden && this.#runs.some((run) => !run.finished_at) && this.#refresh());
    this.hear(document, "keydown", (event) => this.#key(event));
    refill(this.#more, this.#moreFilters(here().query));
    this.#draw();
    this.#read();
  }

  moved() {
    this.#chosen = -1;
    this.selection.show();
    this.#read();
    this.#readChart();
    refill(this.#more, this.#moreFilters(here().query));
  }

  async #readChart() {
    const { query } = here();
    const [, long, columns] = this.#span;
    const until = Date.now();
    const wanted = { since: until - long, until, bucket_ms: long / columns, name: query.get("name"), trigger: query.get("trigger"), children: query.get("children") };
    const counted = await this.app.api.call("count_runs", wanted, this.life).catch(() => null);
    if (counted === null || this.#chart.contains(document.activeElement)) return;
    const choose = (/** @type {any} */ one) => {
      this.#span = one;
      /** @type {HTMLElement | null} */ (document.activeElement)?.blur();
      this.#readChart();
    };
    refill(this.#chart, runChart(counted, wanted.since, until), h("div", { class: "counted" },
      SPANS.map((one) => h("button", { "aria-pressed": String(one === this.#span), on: { click: () => choose(one) } }, one[0]))));
  }

  /** @param {URLSearchParams} query */
  #moreFilters(query) {
    const names = ["name", "trigger", "label", "input"];
    const field = (/** @type {string} */ name) => h("input", { type: "text", name, value: query.get(name) ?? "", placeholder: name === "label" || name === "input" ? "name=value" : "", autocomplete: "off" });
    const local = (/** @type {string} */ name) => (Number(query.get(name)) ? new Date(Number(query.get(name)) - new Date().getTimezoneOffset() * 60_000).toISOString().slice(0, 16) : "");
    const submit = (/** @type {any} */ event) => {
      event.preventDefault();
      const given = new FormData(event.target);
      /** @type {Record<string, string | null>} */
      const found = Object.fromEntries([...given].map(([name, value]) => [name, TIMES.has(name) && value ? String(new Date(String(value)).getTime()) : String(value)]));
      for (const [name] of FLAGS) found[name] = given.has(name) ? "true" : null;
      /** @type {HTMLElement | null} */ (document.activeElement)?.blur();
      go(changed({ ...found, cursor: null }));
    };
    return h("details", { class: "more-filters" }, h("summary", {}, "More filters"), h("form", { class: "row-form", on: { submit } },
      names.map((name) => h("label", {}, name === "name" ? "workflow" : name, field(name))),
      ["since", "until"].map((name) => h("label", {}, name, h("input", { type: "datetime-local", name, value: local(name) }))),
      FLAGS.map(([name, text]) => h("label", { class: "flag" }, h("input", { type: "checkbox", name, checked: query.get(name) === "true" }), text)), h("button", {}, "Filter")));
  }

  async #read() {
    const { query } = here();
    /** @type {Record<string, any>} */
    const wanted = { limit: LIMIT, cursor: query.get("cursor"), state: query.getAll("state"), children: query.get("children"), late: query.get("late") };
    for (const name of FILTERS) if (query.get(name)) wanted[name] = name === "label" || name === "input" ? query.getAll(name) : query.get(name);
    if (!wanted.state.length) delete wanted.state;
    try {
      const [page, counts] = await Promise.all([this.app.api.call("list_runs", wanted, this.life), this.app.api.call("get_counts", {}, this.life)]);
      this.#now = counts.now;
      this.#runs = page.runs;
      this.#asked = location.hash;
      this.#showChips(counts, query);
      this.#showRuns();
      this.#showPages(page.next, query);
    } catch (error) {
      if (!this.life.aborted && this.#asked !== location.hash) refill(this.#body, h("p", { class: "note problem" }, problemText(error)));
    }
  }

  /** @param {any} counts @param {URLSearchParams} query */
  #showChips(counts, query) {
    const chosen = query.get("state");
    const many = runsShown(counts, query.get("children") === "true");
    const all = Object.values(many).reduce((sum, one) => sum + one, 0);
    const chip = (/** @type {string | null} */ state, /** @type {any} */ label, /** @type {number} */ found) =>
      h("a", { class: "chip", href: changed({ state, cursor: null }), "aria-current": String(chosen === state) }, label, h("b", {}, count(found)));
    const more = FILTERS.filter((name) => name !== "text" && query.get(name)).map((name) =>
      h("a", { class: "chip", href: changed({ [name]: null, cursor: null }), "aria-label": `remove the filter ${name}` }, h("span", { class: "name" }, `${name}: ${TIMES.has(name) && Number(query.get(name)) ? moment(Number(query.get(name))) : query.get(name)}`), "×"));
    refill(this.#chips, chip(null, "All", all), RUN_STATES.map((state) =>
      chip(state, [shape(state), word(state)], many[state] ?? 0)), FLAGS.filter(([name]) => query.get(name) === "true").map(([name, text]) =>
      h("a", { class: "chip", href: changed({ [name]: null, cursor: null }), "aria-label": `remove: ${text}` }, text, "×")), more);
  }

  #showRuns() {
    if (!this.#runs.length) {
      const empty = here().query.size ? ["No run passes these filters. ", h("a", { href: "#/runs" }, "Show all")] : ["No runs yet: ", h("code", {}, "weft run FILE"), " starts one."];
      return refill(this.#body, h("p", { class: "note" }, empty));
    }
    const heads = [unseen("Select"), "State", "Workflow", "Run", "Tasks", "Took", "Started", "From", "Why"];
    keepFocus(this.#body, () => refill(this.#body, table(heads, this.#runs.map((run, nth) => this.#line(run, nth)))));
  }

  /** @param {any} run @param {number} nth */
  #line(run, nth) {
    const to = address(["runs", run.id]);
    const began = run.started_at ?? run.created_at;
    const late = run.late && h("span", { class: "state-failed" }, "late ");
    const from = run.trigger ?? Object.entries(run.labels).map(([key, value]) => `${key}=${value}`).join(" ");
    const open = (/** @type {MouseEvent} */ event) => {
      if (!(/** @type {HTMLElement} */ (event.target).closest("a, input")) && !getSelection()?.toString()) go(to);
    };
    return h("tr", { "data-href": to, "data-key": run.id, class: nth === this.#chosen ? "chosen" : null, on: { click: open } },
      h("td", {}, this.selection.box(run)),
      h("td", {}, run.paused && !run.finished_at ? badge("paused") : badge(run.state)),
      h("td", { class: "text" }, h("a", { href: changed({ name: run.name, cursor: null }), class: "name", title: "only runs of this workflow" }, run.name)),
      h("td", {}, h("a", { href: to, class: "mono" }, run.id)),
      h("td", {}, meter(run)),
      h("td", {}, run.started_at || run.finished_at ? span((run.finished_at ?? this.#now) - began) : ""),
      h("td", { title: moment(began) }, ago(began, this.#now)),
      h("td", { class: "text soft name" }, late, from),
      h("td", { class: "text soft name", title: run.reason ?? "" }, run.reason ?? ""));
  }

  /** @param {string | null} next @param {URLSearchParams} query */
  #showPages(next, query) {
    refill(this.#pages,
      query.get("cursor") && h("a", { class: "button", href: changed({ cursor: null }) }, "Newest"),
      next && h("a", { class: "button", href: changed({ cursor: next }) }, "Older"));
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (/** @type {HTMLElement} */ (event.target).closest("input, textarea, select, dialog, button, a")) return;
    if (event.key === "j" || event.key === "k") {
      this.#chosen = Math.max(0, Math.min(this.#runs.length - 1, this.#chosen + (event.key === "j" ? 1 : -1)));
      const lines = this.#body.querySelectorAll("tbody tr");
      lines.forEach((line, nth) => line.classList.toggle("chosen", nth === this.#chosen));
      lines[this.#chosen]?.scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter" && this.#runs[this.#chosen]) go(address(["runs", this.#runs[this.#chosen].id]));
  }
}

customElements.define("weft-runs", RunsView);
