// @ts-check
/** The tokens of the API, for admins: which there are, making one (shown once), revoking one. */

import { h, refill } from "../../parts/dom.js";
import { ago, moment } from "../../parts/format.js";
import { ListView } from "../../parts/list_view.js";
import { badge } from "../../parts/states.js";
import { problemText } from "../../parts/toast.js";
import { askVerb } from "../../parts/verb_dialog.js";
import { clusterTabs } from "./cluster_tabs.js";

const DAY_MS = 86_400_000;
const DAYS_MAX = 3660;
const LOOKS = /** @type {Record<string, string>} */ ({ valid: "succeeded", expired: "skipped", revoked: "cancelled" });

export class TokensView extends ListView {
  begin() {
    const add = this.app.api.may("create_token") && h("button", { class: "main", on: { click: () => this.#create() } }, "New token");
    this.open("Tokens", 0, h("h1", { class: "sr" }, "Tokens"), clusterTabs(this.app, "tokens"), h("span", { class: "grow" }), add);
  }

  async load() {
    /** @type {any[]} */
    const tokens = [];
    let now = 0;
    for (let cursor = null, page; ; cursor = page.next) {
      [page, now] = await this.timed("list_tokens", { limit: 500, cursor });
      tokens.push(...page.tokens);
      if (page.next === null) break;
    }
    this.show(["Label", "Id", "Role", "State", "Made", "Expires", "Actions"], tokens.toReversed().map((token) => this.#line(token, now)), "No tokens besides the owner’s.");
  }

  /** @param {any} token @param {number} now */
  #line(token, now) {
    const revoke = async () => {
      if ((await askVerb(this.app, "revoke_token", { id: token.id }, { title: `Revoke ${token.label}`, fields: [] })) !== null) this.read();
    };
    return h("tr", {},
      h("td", { class: "text name" }, token.label), h("td", { class: "mono" }, token.id), h("td", {}, token.role), h("td", {}, badge(LOOKS[token.state] ?? "pending", token.state)),
      h("td", { title: moment(token.created_at) }, ago(token.created_at, now)), h("td", {}, token.expires_at ? moment(token.expires_at) : "never"),
      h("td", {}, token.state === "valid" && h("button", { "aria-label": `Revoke ${token.label}`, on: { click: revoke } }, "Revoke")));
  }

  #create() {
    const label = /** @type {HTMLInputElement} */ (h("input", { type: "text", required: true, maxlength: 100, autocomplete: "off" }));
    const role = /** @type {HTMLSelectElement} */ (h("select", {}, ["viewer", "operator", "admin"].map((one) => h("option", { value: one }, one))));
    const days = /** @type {HTMLInputElement} */ (h("input", { type: "number", min: 1, max: DAYS_MAX, step: 1, value: 90 }));
    const said = h("p", { class: "state-failed name", role: "alert" });
    const body = h("div", { class: "dialog-body" }, h("label", {}, "Label", label, h("span", { class: "soft" }, "who or what uses it; it stands in the history")),
      h("label", {}, "Role", role), h("label", {}, "Days until it expires", days, h("span", { class: "soft" }, "empty: never")), said);
    const foot = h("div", { class: "dialog-foot" }, h("button", { type: "button", on: { click: () => dialog.close() } }, "Leave it"), h("button", { class: "main" }, "Make it"));
    const submit = async (/** @type {Event} */ event) => {
      event.preventDefault();
      try {
        const made = await this.app.api.call("create_token", { label: label.value, role: role.value, expires_ms: days.value ? Number(days.value) * DAY_MS : null });
        this.#showOnce(dialog, body, foot, made);
        this.read();
      } catch (error) {
        said.textContent = problemText(error);
      }
    };
    const dialog = /** @type {HTMLDialogElement} */ (h("dialog", { "aria-label": "New token" }, h("form", { on: { submit } }, h("div", { class: "dialog-head" }, h("h2", {}, "New token")), body, foot)));
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
  }

  /** @param {HTMLDialogElement} dialog @param {HTMLElement} body @param {HTMLElement} foot @param {any} made */
  #showOnce(dialog, body, foot, made) {
    const shown = /** @type {HTMLInputElement} */ (h("input", { type: "text", readonly: true, value: made.token, class: "mono", "aria-label": "The token" }));
    const copied = h("span", { class: "soft grow", role: "status" });
    const copy = async () => {
      shown.select();
      try {
        await navigator.clipboard.writeText(made.token);
        copied.textContent = "copied";
      } catch {
        copied.textContent = "selected: copy it with your keys";
      }
    };
    refill(body, h("p", {}, "This is the only time that it is shown."), shown);
    refill(foot, copied, h("button", { type: "button", on: { click: copy } }, "Copy"), h("button", { type: "button", class: "main", on: { click: () => dialog.close() } }, "I have it"));
    shown.select();
  }
}

customElements.define("weft-tokens", TokensView);
