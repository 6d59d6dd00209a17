// @ts-check
/** The newest runs of many workflows: one reading of the newest of all, and one for each workflow that has none there. */

const EACH = 24;
const FIRST = 500;
const AGAIN = 100;
const AT_ONCE = 4;

export class RecentRuns {
  /** @type {Map<string, Map<string, any>>} by workflow, by id */
  #known = new Map();
  /** Workflows that were asked for by name. @type {Set<string>} */
  #asked = new Set();

  /** @param {import("./api.js").Api} api @param {AbortSignal} life */
  constructor(api, life) {
    this.api = api;
    this.life = life;
  }

  /** @param {string} name newest first */
  of(name) {
    const runs = [...(this.#known.get(name)?.values() ?? [])];
    return runs.sort((a, b) => b.no - a.no).slice(0, EACH);
  }

  /** @param {string[]} names of the workflows that are shown */
  async read(names) {
    const page = await this.api.call("list_runs", { limit: this.#known.size ? AGAIN : FIRST, children: true }, this.life);
    this.#merge(page.runs);
    if (page.next === null) return;
    const left = names.filter((name) => !this.#asked.has(name) && this.of(name).length < EACH);
    const work = async () => {
      for (let name = left.shift(); name !== undefined; name = left.shift()) {
        this.#asked.add(name);
        this.#merge((await this.api.call("list_runs", { name, limit: EACH, children: true }, this.life)).runs);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
  }

  /** @param {any[]} runs */
  #merge(runs) {
    for (const run of runs) {
      const known = this.#known.get(run.name) ?? new Map();
      known.set(run.id, run);
      this.#known.set(run.name, known);
    }
    for (const [name, known] of this.#known) {
      if (known.size > 2 * EACH) this.#known.set(name, new Map(this.of(name).map((run) => [run.id, run])));
    }
  }
}
