// @ts-check
/** Asks for a token. It stays in this tab (sessionStorage), and travels in a header only. */

import { Part, h } from "../parts/dom.js";

export class SignIn extends Part {
  /** @param {string} problem @param {(token: string) => void} use */
  constructor(problem, use) {
    super();
    this.problem = problem;
    this.use = use;
  }

  begin() {
    const input = /** @type {HTMLInputElement} */ (h("input", { type: "password", autocomplete: "off", required: true, id: "token" }));
    const said = h("p", { class: "state-failed", role: "alert", id: "said" }, this.problem);
    const submit = (/** @type {Event} */ event) => {
      event.preventDefault();
      const token = input.value.trim();
      input.value = "";
      if (/^[\x21-\x7e]+$/.test(token)) this.use(token);
      else said.textContent = "this is not a token";
    };
    this.className = "sign-in";
    this.replaceChildren(
      h("form", { on: { submit } },
        h("h1", {}, "Weft"),
        h("label", {}, "Token", input),
        said,
        h("button", { class: "main" }, "Sign in"),
        h("p", { class: "soft" }, "This server’s owner finds one in ", h("code", {}, ".weft/token"), "; ", h("code", {}, "weft token create"),
          " makes others. This tab forgets it when it closes."),
      ),
    );
    input.focus();
  }
}

customElements.define("weft-sign-in", SignIn);
