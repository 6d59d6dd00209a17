// @ts-check
/** The server's operations by name. Where each field travels, and which role it needs, says the table of operations. */

/** @typedef {{name: string, in: "path" | "query" | "header" | "body", wire: string, required: boolean, kind: string, many: boolean, help: string, default: any, choices?: string[]}} Field */
/** @typedef {{name: string, tag: string, method: string, path: string, role: string, summary: string, fields: Field[]}} Verb */

const RANK = /** @type {Record<string, number>} */ ({ anyone: 0, viewer: 1, operator: 2, admin: 3 });

/** What the server refused, in its own words. */
export class Problem extends Error {
  /** @param {number} status @param {any} body */
  constructor(status, body) {
    super(body?.detail ?? `the server answered ${status}`);
    this.status = status;
    this.code = body?.code ?? "";
    this.fix = body?.fix ?? "";
  }
}

/** The server did not answer. */
export class Unreachable extends Error {}

export class Api extends EventTarget {
  /** @type {Map<string, Verb>} */
  verbs = new Map();
  token = "";
  role = "";
  caller = "";
  version = "";

  /** @param {URL} base of the server @param {URL} files of the page */
  constructor(base, files) {
    super();
    this.base = base;
    this.files = files;
  }

  async load() {
    const reply = await fetch(new URL("verbs.json", this.files));
    if (!reply.ok) throw new Problem(reply.status, null);
    for (const verb of await reply.json()) this.verbs.set(verb.name, verb);
  }

  /** Whether the caller's role allows it. @param {string} name */
  may(name) {
    const verb = this.verbs.get(name);
    return verb !== undefined && (RANK[this.role] ?? 0) >= RANK[verb.role];
  }

  /**
   * @param {string} name of an operation
   * @param {Record<string, any>} [fields]
   * @param {AbortSignal} [signal]
   * @returns {Promise<any>}
   */
  async call(name, fields = {}, signal) {
    const reply = await this.ask(name, fields, signal);
    return (reply.headers.get("content-type") ?? "").startsWith("application/json") ? reply.json() : reply;
  }

  /** @param {string} name @param {Record<string, any>} fields @param {AbortSignal} [signal] */
  async ask(name, fields, signal) {
    const verb = this.verbs.get(name);
    if (verb === undefined) throw new Error(`there is no operation ${name}`);
    const { url, headers, body } = this.#split(verb, fields);
    if (verb.method !== "GET") headers["Weft-Command"] = commandId();
    let reply;
    try {
      reply = await fetch(url, { method: verb.method, headers, body, signal });
    } catch (error) {
      if (signal?.aborted) throw error;
      throw new Unreachable("the server does not answer");
    }
    if (reply.ok) return reply;
    const problem = new Problem(reply.status, await reply.json().catch(() => null));
    if (reply.status === 401) this.dispatchEvent(new CustomEvent("unauthorized", { detail: problem.message }));
    throw problem;
  }

  /** @param {Verb} verb @param {Record<string, any>} fields */
  #split(verb, fields) {
    let path = verb.path.slice(1);
    const query = new URLSearchParams();
    /** @type {Record<string, string>} */
    const headers = this.token ? { Authorization: `Bearer ${this.token}` } : {};
    /** @type {Record<string, any>} */
    const body = {};
    for (const field of verb.fields) {
      const value = fields[field.name];
      if (value === undefined || (value === null && !(field.in === "body" && field.required))) continue;
      if (field.in === "path") path = path.replace(`{${field.name}}`, encodeURIComponent(value));
      else if (field.in === "header") headers[field.wire] = String(value);
      else if (field.in === "body") body[field.name] = value;
      else for (const one of field.many ? value : [value]) query.append(field.name, String(one));
    }
    const url = new URL(path + (query.size ? `?${query}` : ""), this.base);
    const sends = verb.fields.some((field) => field.in === "body");
    if (sends) headers["Content-Type"] = "application/json";
    return { url, headers, body: sends ? JSON.stringify(body) : undefined };
  }
}

function commandId() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((one) => one.toString(16).padStart(2, "0")).join("");
}
