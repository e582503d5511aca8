// A directory that somebody chose, or dropped on its field, as the tar archive that its field takes (POSIX pax). The archive is made of
// references to the files: their bytes are read while they are sent. What may be in it and where that goes, the server decides, as of
// every archive.
"use strict";
const directories = (() => {
  const BLOCK = 512;
  const LONGEST_NAME = 100; // bytes of a path that a header holds
  const LARGEST = 8 ** 11; // a header tells sizes below it
  const utf8 = new TextEncoder();

  const padding = (size) => new Uint8Array((BLOCK - (size % BLOCK)) % BLOCK);

  function header(path, kind, size, modified) {
    const block = new Uint8Array(BLOCK);
    const put = (at, bytes) => block.set(typeof bytes === "string" ? utf8.encode(bytes) : bytes, at);
    const octal = (number, digits) => Math.max(0, Math.floor(number)).toString(8).padStart(digits, "0");
    put(0, path.subarray(0, LONGEST_NAME));
    put(100, kind === "5" ? "0000755\0" : "0000644\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, octal(size < LARGEST ? size : 0, 11));
    put(136, octal(modified / 1000, 11));
    put(148, " ".repeat(8));
    put(156, kind);
    put(257, "ustar\x0000");
    put(148, `${octal(block.reduce((sum, byte) => sum + byte, 0), 6)}\0 `);
    return block;
  }

  /** A record of an extended header: its length counts its own digits. */
  function extension(name, value) {
    const rest = utf8.encode(` ${name}=${value}\n`).length;
    let length = rest + 1;
    while (String(length).length + rest !== length) length = String(length).length + rest;
    return `${length} ${name}=${value}\n`;
  }

  /** The parts of an archive for one member; one without a file is a directory. */
  function parts({ path, file }) {
    const name = utf8.encode(file ? path : `${path}/`);
    const size = file?.size ?? 0;
    const records =
      (name.length > LONGEST_NAME ? extension("path", file ? path : `${path}/`) : "") + (size < LARGEST ? "" : extension("size", size));
    const told = utf8.encode(records);
    const before = told.length ? [header(utf8.encode("pax"), "x", told.length, 0), told, padding(told.length)] : [];
    return [...before, header(name, file ? "0" : "5", size, file?.lastModified ?? Date.now()), ...(file ? [file, padding(size)] : [])];
  }

  function archive(name, members) {
    const all = members.flatMap(parts);
    all.push(new Uint8Array(2 * BLOCK));
    return new File(all, `${name}.tar`, { type: "application/x-tar" });
  }

  /** All that is in a directory that was dropped. */
  async function walk(entry, path, members) {
    const reader = entry.createReader();
    for (;;) {
      const some = await new Promise((done, failed) => reader.readEntries(done, failed));
      if (!some.length) return members;
      for (const inner of some) {
        const at = path ? `${path}/${inner.name}` : inner.name;
        if (inner.isDirectory) {
          members.push({ path: at });
          await walk(inner, at, members);
        } else {
          members.push({ path: at, file: await new Promise((done, failed) => inner.file(done, failed)) });
        }
      }
    }
  }

  return {
    /** Of the files that `<input webkitdirectory>` holds. */
    chosen(files) {
      const members = Array.from(files, (file) => ({ path: file.webkitRelativePath.split("/").slice(1).join("/"), file }));
      return archive(files[0].webkitRelativePath.split("/")[0], members);
    },
    /** Of a directory that was dropped. */
    async dropped(entry) {
      return archive(entry.name, await walk(entry, "", []));
    },
  };
})();
