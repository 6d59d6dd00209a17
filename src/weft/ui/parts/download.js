// @ts-check
/** Saves what the server has to a file of the reader's: in parts that the browser keeps outside the page's memory. */

/** @param {Blob} data @param {string} name */
export function save(data, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(data);
  link.download = name.replaceAll(/[\\/\x00-\x1f]/g, "_");
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/**
 * @param {string} name @param {(offset: number) => Promise<{data: Blob, next: number, size: number}>} read
 * @param {(done: number, size: number) => void} said
 */
export async function saveParts(name, read, said) {
  /** @type {Blob[]} */ const parts = [];
  for (let at = 0; ; ) {
    const { data, next, size } = await read(at);
    if (!data.size) break;
    parts.push(data);
    said((at = next), size);
  }
  save(new Blob(parts, { type: "application/octet-stream" }), name);
}
