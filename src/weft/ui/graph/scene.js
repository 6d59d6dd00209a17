// @ts-check
/**
 * The places of tasks and edges of a graph, ready to be drawn and to be found. Made once for a definition, and again when
 * a mapped task opens: what lies below it moves down by the height of its elements.
 */

export const BOX = { width: 184, height: 34, columnPitch: 256, rowPitch: 46 };

export class Scene {
  /** Segments of edges by column: x1, y1, x2, y2, edge. @type {Float64Array<ArrayBuffer>[]} */ short = [];
  /** Those over more than one column at once. */
  long = new Float64Array(0);
  /** The edges of a task. @type {Map<number, number[]>} */ edgesOf = new Map();

  /** @param {any} graph as the API gives it @param {import("./element_block.js").ElementBlock[]} [blocks] of mapped tasks that are open */
  constructor(graph, blocks = []) {
    const tasks = graph.names.length;
    this.names = graph.names;
    this.columns = graph.columns;
    this.rows = graph.rows;
    this.width = (graph.columns - 1) * BOX.columnPitch + BOX.width;
    this.blocks = [...blocks].sort((a, b) => graph.row[a.pos] - graph.row[b.pos]);
    this.blockRows = this.blocks.map((block) => graph.row[block.pos]);
    this.height = (graph.rows - 1) * BOX.rowPitch + BOX.height + this.blocks.reduce((sum, block) => sum + block.height, 0);
    this.x = new Float64Array(tasks);
    this.y = new Float64Array(tasks);
    /** @type {number[][]} by column: positions from the top */
    this.byColumn = Array.from({ length: graph.columns }, () => []);
    this.column = graph.column;
    this.cell = new Uint32Array(tasks);
    for (let pos = 0; pos < tasks; pos++) {
      this.x[pos] = graph.column[pos] * BOX.columnPitch;
      this.y[pos] = this.#down(graph.row[pos]);
      this.cell[pos] = Math.floor(graph.row[pos] / 4);
      this.byColumn[graph.column[pos]].push(pos);
    }
    for (const column of this.byColumn) column.sort((a, b) => this.y[a] - this.y[b]);
    for (const block of this.blocks) block.place(this.x[block.pos], this.y[block.pos]);
    this.#route(graph);
  }

  /** @param {number} row in quarters */
  #down(row) {
    let y = (row / 4) * BOX.rowPitch;
    for (let nth = 0; nth < this.blocks.length && this.blockRows[nth] < row; nth++) y += this.blocks[nth].height;
    return y;
  }

  /** The element at a point: its block and its index. @param {number} x @param {number} y */
  elementAt(x, y) {
    for (const block of this.blocks) {
      const idx = block.at(x, y);
      if (idx >= 0) return { block, idx };
    }
    return null;
  }

  /** Edges as segments from a column to the next; those over more columns at once are kept apart. @param {any} graph */
  #route(graph) {
    /** @type {number[][]} */
    const short = Array.from({ length: this.columns }, () => []);
    /** @type {number[]} */
    const long = [];
    const middle = BOX.height / 2;
    for (let edge = 0; edge < graph.edges.length / 2; edge++) {
      const from = graph.edges[2 * edge];
      const to = graph.edges[2 * edge + 1];
      for (const end of [from, to]) {
        const known = this.edgesOf.get(end);
        if (known) known.push(edge);
        else this.edgesOf.set(end, [edge]);
      }
      let x = this.x[from] + BOX.width;
      let y = this.y[from] + middle;
      let column = graph.column[from];
      const bends = graph.bends[edge] ?? [];
      for (let nth = 0; nth < bends.length; nth += 2) {
        const at = bends[nth];
        const by = this.#down(bends[nth + 1]) + middle;
        const bx = at * BOX.columnPitch;
        (at - column === 1 ? short[column] : long).push(x, y, bx, by, edge);
        short[at].push(bx, by, bx + BOX.width, by, edge);
        x = bx + BOX.width;
        y = by;
        column = at;
      }
      (graph.column[to] - column === 1 ? short[column] : long).push(x, y, this.x[to], this.y[to] + middle, edge);
    }
    this.short = short.map((one) => Float64Array.from(one));
    this.long = Float64Array.from(long);
    this.ends = graph.edges;
  }

  /** The task at a point, or -1. @param {number} x @param {number} y */
  at(x, y) {
    const column = Math.floor(x / BOX.columnPitch);
    if (column < 0 || column >= this.columns || x - column * BOX.columnPitch > BOX.width) return -1;
    const found = this.byColumn[column][this.firstBelow(column, y - BOX.height)];
    return found !== undefined && this.y[found] <= y && y <= this.y[found] + BOX.height ? found : -1;
  }

  /** The place in a column of the first task that begins at or below this. @param {number} column @param {number} y */
  firstBelow(column, y) {
    const list = this.byColumn[column];
    let low = 0;
    let high = list.length;
    while (low < high) {
      const half = (low + high) >> 1;
      if (this.y[list[half]] < y) low = half + 1;
      else high = half;
    }
    return low;
  }
}
