// @ts-check
/** Every view by the first word of its address. A view with the same key stays, and hears that the address moved. */

import { EventsView } from "../views/events.js";
import { NodesView } from "../views/nodes.js";
import { RunView } from "../views/run.js";
import { RunsView } from "../views/runs.js";

/** @typedef {import("./main.js").App} App */
/** @type {{name: string, title: string, key: (path: string[]) => string, make: (app: App, path: string[]) => HTMLElement}[]} */
export const VIEWS = [
  {
    name: "runs", title: "Runs", key: (path) => `runs/${path[1] ?? ""}`,
    make: (app, path) => (path[1] ? new RunView(app, path[1]) : new RunsView(app)),
  },
  { name: "nodes", title: "Nodes", key: () => "nodes", make: (app) => new NodesView(app) },
  { name: "events", title: "Events", key: () => "events", make: (app) => new EventsView(app, null) },
];
