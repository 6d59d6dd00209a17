// @ts-check
/** Every view by the first word of its address. A view with the same key stays, and hears that the address moved. */

import { Later } from "../parts/later.js";
import { AuditView } from "../views/cluster/audit.js";
import { DeadLetters } from "../views/cluster/dead_letters.js";
import { PoolsView } from "../views/cluster/pools.js";
import { TokensView } from "../views/cluster/tokens.js";
import { CompareView } from "../views/compare.js";
import { EventsView } from "../views/events.js";
import { HomeView } from "../views/home.js";
import { NodesView } from "../views/nodes.js";
import { RunView } from "../views/run.js";
import { RunsView } from "../views/runs.js";
import { ScheduleView } from "../views/schedules/schedule.js";
import { SchedulesView } from "../views/schedules/schedule_list.js";
import { WorkflowView } from "../views/workflows/workflow.js";
import { WorkflowList } from "../views/workflows/workflow_list.js";

/** @typedef {import("./main.js").App} App */
/** `title`: it stands in the bar; `under`: the one that does so in its place. */
/** @type {{name: string, title: string, under?: string, key: (path: string[]) => string, make: (app: App, path: string[]) => HTMLElement}[]} */
export const VIEWS = [
  { name: "home", title: "Home", key: () => "home", make: (app) => new HomeView(app) },
  {
    name: "runs", title: "Runs", key: (path) => `runs/${path[1] ?? ""}`,
    make: (app, path) => (path[1] ? new RunView(app, path[1]) : new RunsView(app)),
  },
  {
    name: "workflows", title: "Workflows", key: (path) => `workflows/${path[1] ?? ""}`,
    make: (app, path) => (path[1] ? new WorkflowView(app, path[1]) : new WorkflowList(app)),
  },
  {
    name: "schedules", title: "Schedules", key: (path) => path.slice(0, 3).join("/"),
    make: (app, path) => (path[2] ? new ScheduleView(app, path[1], path[2]) : new SchedulesView(app)),
  },
  { name: "dead", title: "Dead letters", key: () => "dead", make: (app) => new DeadLetters(app) },
  { name: "nodes", title: "Nodes", key: () => "nodes", make: (app) => new NodesView(app) },
  { name: "pools", title: "", under: "nodes", key: () => "pools", make: (app) => new PoolsView(app) },
  { name: "tokens", title: "", under: "nodes", key: () => "tokens", make: (app) => new TokensView(app) },
  { name: "audit", title: "", under: "nodes", key: () => "audit", make: (app) => new AuditView(app) },
  { name: "new", title: "", under: "workflows", key: () => "new", make: (app) => new Later(async () => new (await import("../editor/edit.js")).EditView(app, null, {})) },
  { name: "correct", title: "", under: "runs", key: (path) => path.join("/"), make: (app, path) => new Later(async () => new (await import("../editor/correct.js")).CorrectView(app, path[1])) },
  { name: "compare", title: "", under: "runs", key: (path) => path.join("/"), make: (app, path) => new CompareView(app, path[1], path[2]) },
  { name: "events", title: "Events", key: () => "events", make: (app) => new EventsView(app, null) },
];
