// @ts-check
/** The heading that nodes, pools and tokens share: each a tab of it. */

import { h } from "../../parts/dom.js";

const TABS = [["nodes", "Nodes", "list_nodes"], ["pools", "Pools", "list_pools"], ["tokens", "Tokens", "list_tokens"], ["audit", "Audit", "list_audit"]];

/** @param {import("../../shell/main.js").App} app @param {string} current */
export function clusterTabs(app, current) {
  return h("nav", { class: "tabs", "aria-label": "Views of the cluster" }, TABS.filter(([, , verb]) => app.api.may(verb)).map(([name, title]) =>
    h("a", { href: `#/${name}`, "aria-current": name === current ? "page" : null }, title)));
}
