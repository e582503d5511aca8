// The services of the Pipe Problem, which `make demo` serves, as somebody runs them in a browser: with real programs, files from one job's page
// into the next form.
"use strict";
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");

// A coarse pipe with a crack on the inner side of its bend (examples/pipe/problem/pipeproblem/case.py). mm.
const [INNER, BEND, ANGLE, HALF_LENGTH, DEPTH, POINTS] = [20, 80, 60, 6, 4, 25];
const MOUTH = BEND - INNER;
const SIZE = { size: "9", crack_size: "1.5" };

/** x, y of the crack's front, which begins and ends in the bore. */
const FRONT = Array.from({ length: POINTS }, (_, place) => {
  const at = -0.12 + ((Math.PI + 0.24) * place) / (POINTS - 1);
  const turn = ((ANGLE / 2) * Math.PI) / 180 + (HALF_LENGTH * Math.cos(at)) / MOUTH;
  const radius = MOUTH - DEPTH * Math.sin(at);
  return [radius * Math.cos(turn), radius * Math.sin(turn)].map((number) => number.toFixed(6));
});
const rows = (all) => all.map((row) => row.join(" ")).join("\n");

const DECK = `*INCLUDE, INPUT=mesh.inp
*TRANSFORM, NSET=NODES_3, TYPE=C
0, 0, 0, 0, 0, 1
*TRANSFORM, NSET=NODES_4, TYPE=C
0, 0, 0, 0, 0, 1
*MATERIAL, NAME=WALL
*ELASTIC
120000, 0.34
*SOLID SECTION, ELSET=SOLID, MATERIAL=WALL
*STEP
*STATIC, SOLVER=ITERATIVE CHOLESKY
*BOUNDARY
NODES_3, 2, 2
NODES_4, 2, 2
NODES_HELD, 3, 3
*INCLUDE, INPUT=pressure.inp
*NODE FILE
U, RF
*EL FILE
S
*END STEP
`;
const PRESSURE = "*DSLOAD\nSURFACE_1, P, 20\nSURFACE_5A, P, 20\nSURFACE_5B, P, 20\n";

    /** OpenFOAM: a directory from one job into the next, progress and log while it runs, VTU with colours. */

module.exports = (base, { visit, truth, same, shot, accessible, WAIT }) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "fishplate-browser-"));
  process.on("exit", () => fs.rmSync(folder, { recursive: true, force: true }));
  const kept = {}; // files that jobs gave, by name

  /** Fills in a form and runs it: files are chosen, texts written. */
  async function run(page, service, values, files = {}) {
    await page.goto(`${base}/${service}`, { waitUntil: "load" });
    for (const [name, value] of Object.entries(values)) {
      const field = page.locator(`form.run :is(input:not([type=file]), select, textarea)[name="${name}"]`);
      // A file that is written stands in a part of the form that is closed at first.
      await field.evaluate((it) => { for (let at = it; (at = at.parentElement);) if (at.tagName === "DETAILS") at.open = true; });
      if (await field.evaluate((it) => it.tagName === "SELECT")) await field.selectOption(value);
      else await field.fill(value);
    }
    for (const [name, file] of Object.entries(files)) await page.setInputFiles(`form.run input[type=file][name="${name}"]`, file);
    await page.click("form.run button.main");
    await page.waitForURL(/\/ogc\/jobs\/[0-9a-f]{32}$/);
  }

  async function isDone(page, service) {
    await page.waitForFunction(() => document.querySelector("section.result, .pill.failed, .pill.killed, .pill.unknown"), null, WAIT);
    const state = await page.innerText(".pill");
    truth(state === "done", `${service}: ${state}: ${await page.innerText("main")}`);
  }

  /** Keeps an output of the job whose page this is as a file. */
  async function keep(page, output, name) {
    const answer = await page.request.get(await page.$eval(`p.download a[href*="/results/${output}?"]`, (link) => link.href));
    same(answer.status(), 200, output);
    kept[name] = path.join(folder, name);
    fs.writeFileSync(kept[name], await answer.body());
  }

  /** A mesh is drawn, and turns. */
  async function turns(page, figure, what) {
    await figure.scrollIntoViewIfNeeded();
    await page.waitForFunction((it) => "drawn" in it.dataset || "failed" in it.dataset, figure, WAIT);
    const [drawn, caption] = await figure.evaluate((it) => [it.dataset.drawn, it.querySelector("figcaption").innerText]);
    truth(Number(drawn) > 500, `${what}: ${drawn} triangles (${caption})`);
    const canvas = await figure.$("canvas");
    const before = await canvas.screenshot();
    const { x, y, width, height } = await canvas.boundingBox();
    await page.mouse.move(x + width / 2, y + height / 2);
    await page.mouse.down();
    await page.mouse.move(x + width / 2 + 90, y + height / 2 + 20, { steps: 3 });
    await page.mouse.up();
    await page.waitForTimeout(100);
    truth(!before.equals(await canvas.screenshot()), `${what} does not turn`);
    return caption;
  }

  return {
    /** Gmsh: its log, the surface, which turns. */
    "pipe-mesher": () => visit(`${base}/`, {}, async (page) => {
      await run(page, "surface-mesher", { ...SIZE, front: rows(FRONT) });
      await isDone(page, "surface-mesher");
      truth((await page.textContent("#stdout")).includes("Meshing"), "Gmsh's log is not there");
      await turns(page, await page.waitForSelector("figure.mesh"), "the surface");
      await accessible(page, "a mesher's job");
      await shot(page, "pipe-surface");
      await keep(page, "surface", "surface.mesh");
    }),

    /** OpenFOAM: a directory from one job into the next, its log, VTU with colours. */
    "pipe-gas": () => visit(`${base}/`, {}, async (page) => {
      await run(page, "generalized-mesher", { layers: "3", size: "12" }, { surface: kept["surface.mesh"] });
      await isDone(page, "generalized-mesher");
      truth((await page.innerText("ul.members")).includes("boundary"), "the mesh's files are not listed");
      await keep(page, "mesh", "mesh.tar");
      await run(page, "fluid-thermal", { iterations: "300", tolerance: "1e-10", initial_wall_temperature: "800" }, { mesh: kept["mesh.tar"] });
      await isDone(page, "fluid-thermal");
      truth((await page.textContent("#stdout")).includes("Time = "), "OpenFOAM's log is not there");
      const figures = await page.$$("figure.mesh");
      same(figures.length, 2, "meshes of the gas and its wall:");
      for (const figure of figures) await turns(page, figure, "the gas");
      await shot(page, "pipe-gas");
    }),

    /** TetGen, CalculiX, and the picture of the crack. */
    "pipe-picture": () => visit(`${base}/`, {}, async (page) => {
      await run(page, "volume-mesher-tetgen", { volume: "200" }, { surface: kept["surface.mesh"] });
      await isDone(page, "volume-mesher-tetgen");
      await keep(page, "mesh", "volume.mesh");
      await run(page, "t4-to-t10", { held_x: "115", held_y: "0", held_z: "0" }, { volume: kept["volume.mesh"] });
      await isDone(page, "t4-to-t10");
      await keep(page, "mesh", "solid.inp");
      await run(page, "mechanical", { deck: DECK, pressure: PRESSURE }, { mesh: kept["solid.inp"] });
      await isDone(page, "mechanical");
      await keep(page, "result", "job.frd");
      const history = FRONT.map(([x, y]) => [1, x, y, 0, 300, 0, 0]);
      const drawn = { history: rows(history), front: rows(FRONT), mouth: `${MOUTH}` };
      await run(page, "crack-picture", drawn, { mesh: kept["solid.inp"], result: kept["job.frd"] });
      await isDone(page, "crack-picture");
      const picture = await page.waitForSelector("img.picture");
      await picture.scrollIntoViewIfNeeded();
      truth(await picture.evaluate(async (it) => { await it.decode(); return it.naturalWidth > 800; }), "the picture is not there");
      await shot(page, "pipe-picture");
    }),
  };
};
