// @ts-check
/** The page: asks for a token once per tab, then shows the view that the address names. */

import { Api } from "../data/api.js";
import { Live } from "../data/live.js";
import { Part, h, icon, refill } from "../parts/dom.js";
import { clock } from "../parts/format.js";
import { problemText, toast } from "../parts/toast.js";
import { showKeys, watchKeys } from "./keys.js";
import { showPalette } from "./palette.js";
import { address, go, here } from "./router.js";
import { SignIn } from "./sign_in.js";
import { VIEWS } from "./views.js";

const TOKEN = "weft-token";
const THEME = "weft-theme";
const BRAND = "M2 3.5l3 9 3-7 3 7 3-9";

export class App extends Part {
  api = new Api(new URL("./", document.baseURI), new URL("../", import.meta.url));
  /** @type {Live | null} */ live = null;
  #main = h("main", { tabindex: "-1" });
  #heard = h("span", { class: "heard", role: "status" });
  #nav = h("nav", { "aria-label": "Views" });
  #who = h("span", { class: "who soft" });
  #shown = "";

  async begin() {
    const theme = localStorage.getItem(THEME);
    if (theme) document.documentElement.dataset.theme = theme;
    this.hear(this.api, "unauthorized", (event) => this.#askForToken(event.detail));
    this.hear(window, "hashchange", () => this.#show());
    watchKeys(this);
    this.hear(window, "unhandledrejection", ({ reason }) => reason?.name !== "AbortError" && toast(problemText(reason), true)); // a part that was left aborts
    try {
      await this.api.load();
    } catch {
      return refill(this, h("p", { class: "note problem", role: "alert" }, "The server did not send all of the page. ", h("button", { on: { click: () => location.reload() } }, "Load it again")));
    }
    const place = here();
    if (place.path[0] === "sign-in") await this.#useLink(place.query.get("code") ?? "", place.query.get("run"));
    else await this.signIn(sessionStorage.getItem(TOKEN) ?? "");
  }

  /** @param {string} code of a one-time link @param {string | null} run to look at */
  async #useLink(code, run) {
    go(run ? address(["runs", run]) : "#/runs", true);
    try {
      await this.signIn((await this.api.call("use_sign_in", { code })).token);
    } catch (error) {
      this.#askForToken(problemText(error));
    }
  }

  /** @param {string} token */
  async signIn(token) {
    if (!token) return this.#askForToken("");
    this.api.token = token;
    try {
      const { name, role, version } = await this.api.call("get_caller");
      Object.assign(this.api, { caller: name, role, version });
    } catch (error) {
      const known = /** @type {any} */ (error).status;
      if (known !== 401) this.#askForToken(problemText(error));
      return;
    }
    sessionStorage.setItem(TOKEN, token);
    this.live ??= new Live(this.api);
    this.hear(this.live, "heard", () => this.#showHeard());
    this.#frame();
    this.#shown = "";
    this.#show();
  }

  signOut() {
    sessionStorage.clear(); // drafts, too
    this.#askForToken("");
  }

  /** @param {string} problem */
  #askForToken(problem) {
    sessionStorage.removeItem(TOKEN);
    this.api.token = "";
    refill(this, new SignIn(problem, (token) => this.signIn(token)));
  }

  #frame() {
    const readOnly = this.api.may("cancel_run") ? "" : "read only";
    refill(this.#who, h("span", { class: "name" }, this.api.caller), readOnly && ` · ${readOnly}`);
    const bar = h(
      "header", { class: "bar" },
      h("a", { class: "brand", href: "#/home" }, icon(BRAND), "Weft"), this.#nav, h("span", { class: "grow" }), this.#heard,
      h("button", { class: "bare", on: { click: () => showPalette(this) } }, "Go to or do…", h("kbd", { class: "wide-only" }, "Ctrl K")),
      this.#who,
      h("button", { class: "bare", "aria-label": "Light or dark", on: { click: () => this.#turnTheme() } }, icon("M8 2.5a5.5 5.5 0 1 0 .01 0zM8 2.5v11", {})),
      h("button", { class: "bare wide-only", "aria-label": "Keys", on: { click: showKeys } }, "?"),
      h("button", { class: "bare", on: { click: () => this.signOut() } }, "Sign out"),
    );
    refill(this, bar, this.#main);
    this.#showHeard();
  }

  #turnTheme() {
    const dark = getComputedStyle(document.documentElement).colorScheme === "dark";
    const theme = dark ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    localStorage.setItem(THEME, theme);
    dispatchEvent(new Event("theme"));
  }

  #showHeard() {
    const since = this.live?.lostSince ?? 0;
    this.#heard.toggleAttribute("data-lost", since > 0);
    refill(this.#heard, since ? `not heard from the server since ${clock(since)}` : "live");
  }

  #show() {
    if (!this.api.token || !this.#main.isConnected) return;
    const { path } = here();
    if (path.length === 0) return go("#/runs", true);
    const view = VIEWS.find((one) => one.name === path[0]) ?? null;
    refill(this.#nav, VIEWS.filter((one) => one.title).map((one) =>
      h("a", { href: address([one.name]), "aria-current": one.name === (view?.under ?? path[0]) ? "page" : null }, one.title)));
    if (view === null) {
      this.#shown = "";
      return refill(this.#main, h("h1", { class: "sr" }, "No such view"), h("p", { class: "note" }, "There is no such view. ", h("a", { href: "#/runs" }, "All runs")));
    }
    const key = view.key(path);
    if (key === this.#shown) {
      /** @type {any} */ (this.#main.firstElementChild).moved?.();
      return;
    }
    this.#shown = key;
    document.title = "Weft";
    refill(this.#main, view.make(this, path));
  }

  /** Carries out a verb, and says how it went. @param {string} name @param {Record<string, any>} fields */
  async carryOut(name, fields) {
    try {
      const reply = await this.api.call(name, fields);
      toast(this.api.verbs.get(name)?.summary ?? name);
      return reply;
    } catch (error) {
      toast(problemText(error), true);
      return null;
    }
  }
}

customElements.define("weft-app", App);
