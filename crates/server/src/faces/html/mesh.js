// Draws the surface of meshes (STL, VTK, VTU, Medit) that stand on the page as `figure.mesh`, once somebody looks at them: fetched
// from the result's own address, read here, drawn with WebGL 2. Drag, arrow keys, wheel, two fingers, plus and minus.
"use strict";
(() => {
  const HEXAHEDRON = [[0, 3, 2, 1], [4, 5, 6, 7], [0, 1, 5, 4], [1, 2, 6, 5], [2, 3, 7, 6], [3, 0, 4, 7]];
  const TETRAHEDRON = [[0, 2, 1], [0, 1, 3], [1, 2, 3], [0, 3, 2]];
  const WEDGE = [[0, 1, 2], [3, 5, 4], [0, 3, 4, 1], [1, 4, 5, 2], [2, 5, 3, 0]];
  const PYRAMID = [[0, 3, 2, 1], [0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4]];
  const VOXEL = [[0, 2, 3, 1], [4, 5, 7, 6], [0, 1, 5, 4], [1, 3, 7, 5], [3, 2, 6, 7], [2, 0, 4, 6]];
  // Faces of volumes by VTK's number of their type; curved ones are drawn with their corners.
  const VOLUMES = {
    10: TETRAHEDRON, 24: TETRAHEDRON, 11: VOXEL, 12: HEXAHEDRON, 25: HEXAHEDRON, 29: HEXAHEDRON,
    13: WEDGE, 26: WEDGE, 14: PYRAMID, 27: PYRAMID,
  };
  // Corners of flat cells; 0: all of their points are.
  const FLAT = { 5: 3, 7: 0, 9: 4, 22: 3, 23: 4, 28: 4, 34: 3 };

  // A mesh is `points` (x, y, z each), `triangles` (three of them each), `fields`: numbers at the points, by name, and `count`: how many
  // points the file has.

  // --- STL ---

  function readStl(bytes) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const count = bytes.length >= 84 ? view.getUint32(80, true) : 0;
    let points;
    if (bytes.length === 84 + 50 * count) {
      points = new Float32Array(count * 9);
      for (let at = 0; at < count; at++) {
        for (let place = 0; place < 9; place++) points[9 * at + place] = view.getFloat32(96 + 50 * at + 4 * place, true);
      }
    } else {
      const found = new TextDecoder().decode(bytes).matchAll(/vertex\s+(\S+)\s+(\S+)\s+(\S+)/g);
      points = Float32Array.from(Array.from(found, ([, x, y, z]) => [+x, +y, +z]).flat());
    }
    const triangles = Uint32Array.from({ length: points.length / 3 }, (_, at) => at);
    return { points, triangles, fields: new Map(), count: points.length / 3 };
  }

  // --- cells to triangles ---

  /** Triangles of flat cells, and of those faces of volumes that no other cell has; and the cell of each triangle. */
  function surface(cells) {
    const [triangles, owners] = [[], []];
    const faces = new Map();
    const flats = new Set();
    const sorted = (corners) => corners.slice().sort((one, other) => one - other);
    const flat = (corners) => sorted(corners).slice(0, 3).join();
    const add = (cell, ...corners) => { triangles.push(...corners); owners.push(cell); };
    const fan = (cell, corners) => {
      for (let at = 2; at < corners.length; at++) add(cell, corners[0], corners[at - 1], corners[at]);
    };
    for (const [cell, { type, points }] of cells.entries()) {
      if (type === 6) {
        for (let at = 2; at < points.length; at++) add(cell, points[at - 2], points[at - 1], points[at]);
      } else if (type === 8) {
        fan(cell, [points[0], points[1], points[3], points[2]]);
      } else if (type in FLAT) {
        const corners = FLAT[type] ? points.slice(0, FLAT[type]) : points;
        flats.add(flat(corners));
        fan(cell, corners);
      } else if (type in VOLUMES) {
        for (const face of VOLUMES[type]) {
          const corners = face.map((corner) => points[corner]);
          const [a, b, c] = sorted(corners);
          // Three corners tell a face from all others; two numbers below 2^26 fit into one.
          const key = a * 67108864 + b;
          const known = faces.get(key);
          if (!known) {
            faces.set(key, [{ c, corners, cell }]);
          } else {
            const twin = known.findIndex((other) => other.c === c);
            if (twin < 0) known.push({ c, corners, cell });
            else known.splice(twin, 1);
          }
        }
      }
    }
    for (const { corners, cell } of Array.from(faces.values()).flat()) {
      if (!flats.size || !flats.has(flat(corners))) fan(cell, corners);
    }
    return { triangles: Uint32Array.from(triangles), owners };
  }

  /** A mesh of cells, with numbers at its points and of its cells. */
  function meshOf(points, cells, fields, ofCells) {
    const { triangles, owners } = surface(cells);
    const count = points.length / 3;
    const known = Array.from(ofCells).filter(([, values]) => values.length === cells.length);
    if (!known.length) return { points, triangles, fields, count };
    // Each triangle has points of its own then, so that a cell has one colour.
    const own = new Float32Array(3 * triangles.length);
    triangles.forEach((from, at) => own.set(points.subarray(3 * from, 3 * from + 3), 3 * at));
    const all = new Map();
    for (const [name, values] of fields) {
      if (values.length === count) all.set(name, Float32Array.from(triangles, (from) => values[from]));
    }
    for (const [name, values] of known) {
      all.set(all.has(name) ? `${name} of cells` : name, Float32Array.from(triangles, (_, at) => values[owners[Math.floor(at / 3)]]));
    }
    return { points: own, triangles: Uint32Array.from(triangles, (_, at) => at), fields: all, count };
  }

  function cellsOf(connectivity, offsets, types) {
    let from = 0;
    return Array.from(offsets, (to, at) => {
      const cell = { type: types ? types[at] : 7, points: Array.from(connectivity.slice(from, to)) };
      from = to;
      return cell;
    });
  }

  /** Of several numbers at each point their length. */
  function magnitude(values, components) {
    if (components === 1) return Float32Array.from(values);
    const result = new Float32Array(values.length / components);
    for (let at = 0; at < result.length; at++) result[at] = Math.hypot(...values.slice(at * components, (at + 1) * components));
    return result;
  }

  // --- legacy VTK ---

  const LEGACY = {
    char: [1, "getInt8"], unsigned_char: [1, "getUint8"], short: [2, "getInt16"], unsigned_short: [2, "getUint16"],
    int: [4, "getInt32"], unsigned_int: [4, "getUint32"], vtktypeint32: [4, "getInt32"], float: [4, "getFloat32"],
    double: [8, "getFloat64"], long: [8, "getBigInt64"], vtktypeint64: [8, "getBigInt64"], vtkidtype: [8, "getBigInt64"],
  };

  class LegacyReader {
    constructor(bytes) {
      this.bytes = bytes;
      this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      this.at = 0;
      this.text = new TextDecoder("latin1");
    }

    line() {
      if (this.at >= this.bytes.length) return null;
      let end = this.bytes.indexOf(10, this.at);
      if (end < 0) end = this.bytes.length;
      const line = this.text.decode(this.bytes.subarray(this.at, end)).trim();
      this.at = end + 1;
      return line;
    }

    word() {
      while (this.at < this.bytes.length && this.bytes[this.at] <= 32) this.at++;
      const from = this.at;
      while (this.at < this.bytes.length && this.bytes[this.at] > 32) this.at++;
      return this.text.decode(this.bytes.subarray(from, this.at));
    }

    numbers(count, type) {
      const [size, get] = LEGACY[type.toLowerCase()] ?? [];
      if (!size) throw new Error(`numbers of type ${type} are not read`);
      if (!(count <= this.bytes.length)) throw new Error("the file is cut short");
      const result = new Float64Array(count);
      if (this.binary) {
        if (this.at + count * size > this.bytes.length) throw new Error("the file is cut short");
        for (let at = 0; at < count; at++) result[at] = Number(this.view[get](this.at + at * size, false));
        this.at += count * size;
      } else {
        for (let at = 0; at < count; at++) result[at] = Number(this.word());
      }
      return result;
    }

    cells(first, second) {
      const from = this.at;
      const line = this.line() ?? "";
      if (line.startsWith("OFFSETS")) {
        const offsets = this.numbers(first, line.split(/\s+/)[1]);
        let next = this.line();
        while (next === "") next = this.line();
        const connectivity = this.numbers(second, next.split(/\s+/)[1]);
        return cellsOf(connectivity, offsets.slice(1));
      }
      this.at = from;
      if (!(first <= second)) throw new Error("its cells are cut short");
      const all = this.numbers(second, "int");
      const cells = [];
      for (let at = 0; cells.length < first; at += all[at] + 1) {
        cells.push({ type: 7, points: Array.from(all.slice(at + 1, at + 1 + all[at])) });
      }
      return cells;
    }

    read() {
      this.line();
      this.line();
      this.binary = this.line().toUpperCase() === "BINARY";
      const mesh = { points: new Float32Array(0), cells: [], fields: new Map(), ofCells: new Map() };
      let tuples = 0;
      let ofPoints = false;
      try {
        for (let line = this.line(); line !== null; line = this.line()) {
          const words = line.split(/\s+/);
          const [first, second] = [Number(words[1]), Number(words[2])];
          switch (words[0].toUpperCase()) {
            case "POINTS": mesh.points = Float32Array.from(this.numbers(3 * first, words[2])); break;
            case "CELLS": mesh.cells = this.cells(first, second); break;
            case "POLYGONS": for (const cell of this.cells(first, second)) mesh.cells.push(cell); break;
            case "TRIANGLE_STRIPS":
              for (const cell of this.cells(first, second)) mesh.cells.push({ ...cell, type: 6 });
              break;
            case "LINES": case "VERTICES": this.cells(first, second); break;
            case "CELL_TYPES": this.numbers(first, "int").forEach((type, at) => mesh.cells[at] && (mesh.cells[at].type = type)); break;
            case "POINT_DATA": tuples = first; ofPoints = true; break;
            case "CELL_DATA": tuples = first; ofPoints = false; break;
            case "SCALARS": {
              const components = Number(words[3] ?? 1);
              const from = this.at;
              if (!(this.line() ?? "").toUpperCase().startsWith("LOOKUP_TABLE")) this.at = from;
              const values = this.numbers(components * tuples, words[2]);
              (ofPoints ? mesh.fields : mesh.ofCells).set(words[1], magnitude(values, components));
              break;
            }
            case "VECTORS": case "NORMALS": {
              const values = this.numbers(3 * tuples, words[2]);
              (ofPoints ? mesh.fields : mesh.ofCells).set(words[1], magnitude(values, 3));
              break;
            }
            case "FIELD":
              for (let left = second; left > 0; left--) {
                let named = this.line();
                while (named === "") named = this.line();
                const [name, components, count, type] = named.split(/\s+/);
                const values = this.numbers(components * count, type);
                if (Number(count) === tuples) (ofPoints ? mesh.fields : mesh.ofCells).set(name, magnitude(values, Number(components)));
              }
              break;
          }
        }
      } catch (error) {
        // What could be read is drawn.
        if (!mesh.cells.length) throw error;
      }
      return meshOf(mesh.points, mesh.cells, mesh.fields, mesh.ofCells);
    }
  }

  // --- Medit, as Gmsh, TetGen and others write it in text ---

  // Points of a cell by keyword, and the number that VTK has for it; the last number of each line is a reference.
  const MEDIT = { Triangles: [3, 5], Quadrilaterals: [4, 9], Tetrahedra: [4, 10], Hexahedra: [8, 12], Prisms: [6, 13], Pyramids: [5, 14] };

  function readMedit(bytes) {
    const reader = new LegacyReader(bytes);
    const next = () => {
      let word = reader.word();
      while (word.startsWith("#")) { reader.line(); word = reader.word(); }
      return word;
    };
    const cells = [];
    const references = [];
    let points = new Float32Array(0);
    let dimension = 3;
    for (let word = next(); word; word = next()) {
      if (word === "Dimension") dimension = Number(next());
      if (word !== "Vertices" && !(word in MEDIT)) continue;
      const [length, type] = MEDIT[word] ?? [dimension];
      const count = Number(next());
      if (!(count * (length + 1) <= bytes.length - reader.at)) throw new Error("the file is cut short");
      if (!type) points = new Float32Array(3 * count);
      for (let line = 0; line < count; line++) {
        const numbers = Array.from({ length }, () => Number(next()));
        const reference = Number(next());
        if (type) {
          cells.push({ type, points: numbers.map((number) => number - 1) });
          references.push(reference);
        } else {
          points.set(numbers, 3 * line);
        }
      }
    }
    return meshOf(points, cells, new Map(), new Map([["reference", references]]));
  }

  // --- VTK's XML ---

  const TYPES = {
    Int8: Int8Array, UInt8: Uint8Array, Int16: Int16Array, UInt16: Uint16Array, Int32: Int32Array, UInt32: Uint32Array,
    Float32: Float32Array, Float64: Float64Array, Int64: BigInt64Array, UInt64: BigUint64Array,
  };

  async function inflated(bytes) {
    const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(plain).arrayBuffer());
  }

  /** Bytes from a place on, of base64 or as they are: `take(count)` gives the next ones, each call a text of its own. */
  function source(text, raw) {
    let at = 0;
    const peek = (count) => {
      if (raw) return raw.subarray(at, at + count);
      const part = text.slice(at, at + 4 * Math.ceil(count / 3));
      return Uint8Array.from(atob(part), (sign) => sign.charCodeAt(0)).subarray(0, count);
    };
    const skip = (count) => { at += raw ? count : 4 * Math.ceil(count / 3); };
    return { peek, take(count) { const bytes = peek(count); skip(count); return bytes; }, isText: !raw, ended: (count) => text[at + 4 * Math.ceil(count / 3) - 1] === "=" };
  }

  const whole = (bytes, size) => {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    return Array.from({ length: bytes.length / size }, (_, at) =>
      size === 4 ? view.getUint32(4 * at, true) : Number(view.getBigUint64(8 * at, true)));
  };

  async function block(from, size, isCompressed) {
    if (!isCompressed) {
      const [length] = whole(from.peek(size), size);
      // Some write the length as a base64 text of its own.
      if (from.isText && from.ended(size)) { from.take(size); return from.take(length); }
      return from.take(size + length).subarray(size);
    }
    const [blocks] = whole(from.peek(size), size);
    const [, , , ...lengths] = whole(from.take((3 + blocks) * size), size);
    const packed = from.take(lengths.reduce((sum, length) => sum + length, 0));
    const parts = [];
    let at = 0;
    for (const length of lengths) {
      parts.push(await inflated(packed.subarray(at, at + length)));
      at += length;
    }
    return new Uint8Array(await new Blob(parts).arrayBuffer());
  }

  async function readVtu(bytes) {
    // What is appended raw is no text: it is cut off before the rest is read.
    const latin = new TextDecoder("latin1").decode(bytes);
    const appended = /<AppendedData[^>]*encoding="(raw|base64)"[^>]*>\s*_/.exec(latin);
    let text = appended ? latin.slice(0, appended.index) + "</VTKFile>" : new TextDecoder().decode(bytes);
    const file = new DOMParser().parseFromString(text, "text/xml").documentElement;
    if (file.querySelector("parsererror")) throw new Error("its XML can't be read");
    if (file.getAttribute("byte_order") === "BigEndian") throw new Error("its bytes are big-endian, which is not read");
    const compressor = file.getAttribute("compressor") ?? "";
    if (compressor && compressor !== "vtkZLibDataCompressor") throw new Error(`${compressor} is not read`);
    const size = file.getAttribute("header_type") === "UInt64" ? 8 : 4;
    const begin = appended ? appended.index + appended[0].length : 0;

    async function numbers(array) {
      if (!array) return [];
      const format = array.getAttribute("format");
      if (format === "ascii") return array.textContent.trim().split(/\s+/).filter(Boolean).map(Number);
      const offset = begin + Number(array.getAttribute("offset") ?? 0);
      const from = format === "appended"
        ? source(latin.slice(offset), appended[1] === "raw" ? bytes.subarray(offset) : null)
        : source(array.textContent.trim(), null);
      const data = Uint8Array.from(await block(from, size, compressor !== ""));
      const kind = TYPES[array.getAttribute("type")];
      if (!kind) throw new Error(`numbers of type ${array.getAttribute("type")} are not read`);
      const values = new kind(data.buffer, 0, Math.floor(data.length / kind.BYTES_PER_ELEMENT));
      return values instanceof BigInt64Array || values instanceof BigUint64Array ? Array.from(values, Number) : values;
    }

    const piece = file.querySelector("Piece");
    if (!piece) throw new Error("there is no mesh in it");
    const child = (name) => Array.from(piece.children).find((it) => it.tagName === name);
    const named = (parent, name) => Array.from(parent?.children ?? []).find((it) => it.getAttribute("Name") === name);
    const points = Float32Array.from(await numbers(child("Points")?.querySelector("DataArray")));
    const cells = child("Cells") ?? child("Polys");
    const types = named(cells, "types");
    const found = cellsOf(await numbers(named(cells, "connectivity")), await numbers(named(cells, "offsets")),
      types ? await numbers(types) : null);
    const fields = async (data) => {
      const all = new Map();
      for (const array of data?.querySelectorAll("DataArray") ?? []) {
        const components = Number(array.getAttribute("NumberOfComponents") ?? 1) || 1;
        all.set(array.getAttribute("Name") ?? "values", magnitude(await numbers(array), components));
      }
      return all;
    };
    return meshOf(points, found, await fields(child("PointData")), await fields(child("CellData")));
  }

  // --- drawing ---

  const VERTEX = `#version 300 es
    uniform mat3 turn; uniform vec3 middle; uniform vec2 scale; uniform float depth; uniform vec2 range;
    in vec3 place; in float value; out vec3 where; out float share;
    void main() {
      where = turn * (place - middle);
      share = clamp((value - range.x) / max(range.y - range.x, 1e-30), 0.0, 1.0);
      gl_Position = vec4(where.xy * scale, -where.z * depth, 1.0);
    }`;
  // The colours of heat maps (preview/picture.rs), and light from where one looks.
  const FRAGMENT = `#version 300 es
    precision highp float;
    uniform bool coloured; in vec3 where; in float share; out vec4 colour;
    vec3 viridis(float t) {
      vec3 c0 = vec3(0.2777, 0.0054, 0.3341), c1 = vec3(0.1051, 1.4046, 1.3846), c2 = vec3(-0.3309, 0.2148, 0.0951);
      vec3 c3 = vec3(-4.6342, -5.7991, -19.3324), c4 = vec3(6.2283, 14.1799, 56.6906), c5 = vec3(4.7764, -13.7451, -65.3530);
      vec3 c6 = vec3(-5.4355, 4.6459, 26.3124);
      return c0 + t * (c1 + t * (c2 + t * (c3 + t * (c4 + t * (c5 + t * c6)))));
    }
    void main() {
      vec3 normal = normalize(cross(dFdx(where), dFdy(where)));
      vec3 own = coloured ? viridis(share) : vec3(0.55, 0.65, 0.78);
      colour = vec4(own * (0.35 + 0.65 * abs(normal.z)), 1.0);
    }`;

  function program(gl) {
    const made = gl.createProgram();
    for (const [kind, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, text);
      gl.compileShader(shader);
      gl.attachShader(made, shader);
    }
    gl.linkProgram(made);
    if (!gl.getProgramParameter(made, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(made));
    gl.useProgram(made);
    return made;
  }

  /** Least and greatest finite number, each `step` numbers from `from` on. */
  function extent(values, from = 0, step = 1) {
    let [least, greatest] = [Infinity, -Infinity];
    for (let at = from; at < values.length; at += step) {
      if (values[at] < least) least = values[at];
      if (values[at] > greatest) greatest = values[at];
    }
    return [least, greatest];
  }

  class Drawing {
    constructor(canvas, mesh) {
      this.canvas = canvas;
      this.mesh = mesh;
      const gl = (this.gl = canvas.getContext("webgl2", { antialias: true }));
      if (!gl) throw new Error("this browser has no WebGL 2");
      const made = program(gl);
      this.at = (name) => gl.getUniformLocation(made, name);
      const buffer = (kind, data) => {
        gl.bindBuffer(kind, gl.createBuffer());
        gl.bufferData(kind, data, gl.STATIC_DRAW);
      };
      this.place = gl.getAttribLocation(made, "place");
      this.value = gl.getAttribLocation(made, "value");
      buffer(gl.ARRAY_BUFFER, mesh.points);
      gl.enableVertexAttribArray(this.place);
      gl.vertexAttribPointer(this.place, 3, gl.FLOAT, false, 0, 0);
      buffer(gl.ELEMENT_ARRAY_BUFFER, mesh.triangles);
      const sides = [0, 1, 2].map((axis) => extent(mesh.points, axis, 3));
      gl.uniform3f(this.at("middle"), ...sides.map(([least, greatest]) => (least + greatest) / 2));
      this.radius = Math.hypot(...sides.map(([least, greatest]) => greatest - least)) / 2 || 1;
      gl.enable(gl.DEPTH_TEST);
      [this.around, this.up, this.zoom] = [-0.6, 0.4, 1];
      this.colour(null);
      this.listen();
    }

    colour(name) {
      const { gl } = this;
      const values = this.mesh.fields.get(name);
      gl.uniform1i(this.at("coloured"), values ? 1 : 0);
      this.range = values && extent(values);
      if (values) {
        gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
        gl.bufferData(gl.ARRAY_BUFFER, values, gl.STATIC_DRAW);
        gl.enableVertexAttribArray(this.value);
        gl.vertexAttribPointer(this.value, 1, gl.FLOAT, false, 0, 0);
        gl.uniform2f(this.at("range"), ...this.range);
      } else if (this.value >= 0) {
        gl.disableVertexAttribArray(this.value);
      }
      this.later();
    }

    listen() {
      const { canvas } = this;
      const fingers = new Map();
      const near = (factor) => { this.zoom = Math.min(50, Math.max(0.2, this.zoom * factor)); this.later(); };
      const turn = (right, down) => {
        this.around += right;
        this.up = Math.min(1.57, Math.max(-1.57, this.up + down));
        this.later();
      };
      canvas.addEventListener("pointerdown", (event) => {
        fingers.set(event.pointerId, event);
        canvas.setPointerCapture(event.pointerId);
      });
      for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, (event) => fingers.delete(event.pointerId));
      canvas.addEventListener("pointermove", (event) => {
        const before = fingers.get(event.pointerId);
        if (!before) return;
        const others = Array.from(fingers.values()).filter((other) => other.pointerId !== event.pointerId);
        fingers.set(event.pointerId, event);
        if (others.length) {
          const apart = (one) => Math.hypot(one.clientX - others[0].clientX, one.clientY - others[0].clientY) || 1;
          near(apart(event) / apart(before));
        } else {
          turn((event.clientX - before.clientX) / 150, (event.clientY - before.clientY) / 150);
        }
      });
      // Who scrolls the page past the drawing means the page.
      canvas.addEventListener("wheel", (event) => {
        if (document.activeElement !== canvas) return;
        event.preventDefault();
        near(Math.exp(-event.deltaY / 500));
      }, { passive: false });
      canvas.addEventListener("keydown", (event) => {
        const keys = {
          ArrowLeft: () => turn(-0.15, 0), ArrowRight: () => turn(0.15, 0), ArrowUp: () => turn(0, -0.15),
          ArrowDown: () => turn(0, 0.15), "+": () => near(1.2), "=": () => near(1.2), "-": () => near(1 / 1.2),
        };
        if (!keys[event.key] || event.ctrlKey || event.metaKey) return;
        event.preventDefault();
        keys[event.key]();
      });
      new ResizeObserver(() => this.later()).observe(canvas);
    }

    later() {
      this.frame ??= requestAnimationFrame(() => { this.frame = null; this.draw(); });
    }

    draw() {
      const { gl, canvas } = this;
      canvas.width = Math.max(1, Math.round(canvas.clientWidth * devicePixelRatio));
      canvas.height = Math.max(1, Math.round(canvas.clientHeight * devicePixelRatio));
      gl.viewport(0, 0, canvas.width, canvas.height);
      gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
      const [s, c, u, v] = [Math.sin(this.around), Math.cos(this.around), Math.sin(this.up), Math.cos(this.up)];
      // Columns; z is up.
      gl.uniformMatrix3fv(this.at("turn"), false, [c, -s * u, s * v, s, c * u, -c * v, 0, v, u]);
      const side = this.zoom / this.radius;
      const wide = canvas.width / canvas.height;
      gl.uniform2f(this.at("scale"), wide > 1 ? side / wide : side, wide > 1 ? side : side * wide);
      gl.uniform1f(this.at("depth"), 1 / this.radius);
      gl.drawElements(gl.TRIANGLES, this.mesh.triangles.length, gl.UNSIGNED_INT, 0);
      canvas.closest("figure").dataset.drawn = this.mesh.triangles.length / 3;
    }
  }

  // --- the page ---

  const READERS = { stl: readStl, vtu: readVtu, medit: readMedit, vtk: (bytes) => new LegacyReader(bytes).read() };
  const shown = (number) => String(Number(number.toPrecision(4)));

  async function show(figure) {
    const caption = figure.querySelector("figcaption");
    try {
      caption.textContent = "The mesh is being fetched.";
      const answer = await fetch(figure.dataset.mesh);
      if (!answer.ok) throw new Error(`the server says ${answer.status}`);
      const mesh = await READERS[figure.dataset.format](new Uint8Array(await answer.arrayBuffer()));
      if (!mesh.triangles.length) throw new Error("it has no surface");
      const drawing = new Drawing(figure.querySelector("canvas"), mesh);
      const about = `${mesh.count.toLocaleString("en")} points, ${(mesh.triangles.length / 3).toLocaleString("en")} triangles of its surface.`;
      const tell = (name) => {
        drawing.colour(name);
        const range = drawing.range;
        caption.firstChild.textContent = range ? `${about} From ${shown(range[0])} (dark) to ${shown(range[1])}: ` : `${about} `;
      };
      caption.replaceChildren(document.createTextNode(about));
      const names = Array.from(mesh.fields.keys()).filter((name) => mesh.fields.get(name).length === mesh.points.length / 3);
      if (names.length) {
        const label = document.createElement("label");
        const choice = document.createElement("select");
        for (const name of names) choice.add(new Option(name, name));
        choice.add(new Option("no colours", ""));
        choice.addEventListener("change", () => tell(choice.value));
        label.append("coloured by ", choice);
        caption.append(label);
        tell(names[0]);
      }
    } catch (error) {
      caption.textContent = `It can't be drawn here: ${error.message}.`;
      figure.dataset.failed = "";
    }
  }

  const seen = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      seen.unobserve(target);
      show(target);
    }
  });
  document.querySelectorAll("figure.mesh").forEach((figure) => seen.observe(figure));
})();
