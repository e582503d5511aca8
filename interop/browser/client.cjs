// The pages in a browser, Debian's Chromium driven by playwright-core: client.cjs GALLERY_WSDL COUNTDOWN_WSDL FOLDERS_WSDL ECHO_WSDL PAYLOADS
"use strict";
const { spawn } = require("node:child_process");
const fs = require("node:fs");
const net = require("node:net");
const os = require("node:os");
const path = require("node:path");
const { chromium } = require("playwright-core");
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const [gallery, countdown, folders, echo] = process.argv.slice(2).map((url) => url.split("?")[0]);
const payloads = process.argv.at(-1);
const { INTEROP_ORIGIN: origin, BROWSER_FISHPLATE: fishplate, BROWSER_SERVICE: alone } = process.env;
const base = gallery.slice(0, gallery.lastIndexOf("/"));
const shots = process.env.BROWSER_SCREENSHOTS; // a directory for pictures of the pages
const PHONE = { width: 390, height: 844 };
const WAIT = { timeout: 30_000 };

const CHECKS = {};
let browser;
let job; // the address of a gallery job that is done

function same(found, wanted, what = "") {
  const [a, b] = [JSON.stringify(found), JSON.stringify(wanted)];
  if (a !== b) throw new Error(`${what} ${a} is not ${b}`);
}

function truth(found, what) {
  if (!found) throw new Error(what);
}

/** A page of its own; whatever the browser complains of makes the check fail. */
async function visit(url, options, body) {
  const context = await browser.newContext({ viewport: { width: 1100, height: 900 }, ...options });
  context.setDefaultTimeout(WAIT.timeout);
  const page = await context.newPage();
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(`${error}`));
  page.on("console", (message) => {
    // What a check asks for wrongly is answered with 4xx, which the browser tells too.
    if (message.type() === "error" && !message.text().includes("Failed to load resource")) complaints.push(message.text());
  });
  try {
    await page.goto(url, { waitUntil: "load" });
    const result = await body(page);
    same(complaints, []);
    return result;
  } finally {
    await context.close();
  }
}

async function shot(page, name) {
  if (shots) await page.screenshot({ path: path.join(shots, `${name}.png`), fullPage: true });
}

/** axe-core finds nothing serious. It is evaluated beside the page, whose policy lets no other script in. */
async function accessible(page, what) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const grave = violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
  same(grave.map(({ id, nodes }) => [id, nodes[0].html, nodes[0].failureSummary]), [], `axe at ${what}:`);
}

async function fits(page, what) {
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  truth(width <= PHONE.width, `${what} is ${width} wide on a phone of ${PHONE.width}`);
}

/** Every page that there is, once a job is there. */
const pages = () => ({
  services: `${base}/`, service: gallery, countdown, job, results: `${job}/results`, jobs: `${base}/ogc/jobs`, account: `${base}/ogc`,
});

/** Fills in the gallery's form and runs it; the address of its job. */
async function runGallery(page, values) {
  for (const [name, value] of Object.entries(values)) await page.fill(`form.run [name="${name}"]`, value);
  await page.click("form.run button.main");
  await page.waitForURL(/\/ogc\/jobs\/[0-9a-f]{32}$/);
  return page.url();
}

async function isDone(page) {
  await page.waitForFunction(() => document.querySelector("section.result"), null, WAIT);
}

CHECKS.run = () => visit(gallery, {}, async (page) => {
  job = await runGallery(page, { n: "30", word: "it's <b>\"&amp; ä" });
  await isDone(page);
  const text = await page.innerText("main");
  truth(text.includes("900"), `no count of 900: ${text}`);
  await shot(page, "job");
});

CHECKS.results = () => visit(`${job}/results`, {}, async (page) => {
  truth((await page.innerText("table.values")).includes("900"), "the count is not shown");
  const pictures = await page.$$eval("img.picture", async (images) => {
    for (const image of images) { image.scrollIntoView(); await image.decode(); }
    return images.map((image) => image.naturalWidth > 0);
  });
  same(pictures, [true, true], "pictures");
  truth(await page.$eval(".array img.pixels", (image) => image.naturalWidth === 30), "no heat map of 30 by 30");
  truth(await page.$(".curve svg path"), "no curve");
  truth((await page.innerText("table.data tr:first-child")).includes("height"), "the table has no names");
  truth((await page.innerText("ul.members")).includes("inner/words.txt"), "the directory's files are not listed");
  truth((await page.innerText("pre.text >> nth=-1")).includes("<script>"), "the page of the program is not shown as text");
  truth((await page.title()) !== "ran", "the script of a program ran");
  await shot(page, "results");
});

CHECKS.meshes = () => visit(`${job}/results`, {}, async (page) => {
  // 29 by 29 cells: the upper side alone in STL; both sides and the rim of the others.
  const wanted = [2 * 29 * 29, 4 * 29 * 29 + 8 * 29, 4 * 29 * 29 + 8 * 29];
  const figures = await page.$$("figure.mesh");
  same(figures.length, 3, "meshes:");
  for (const [at, figure] of figures.entries()) {
    await figure.scrollIntoViewIfNeeded();
    await page.waitForFunction((it) => "drawn" in it.dataset || "failed" in it.dataset, figure, WAIT);
    const [drawn, caption] = await figure.evaluate((it) => [it.dataset.drawn, it.querySelector("figcaption").innerText]);
    same(Number(drawn), wanted[at], `mesh ${at} (${caption}):`);
    const canvas = await figure.$("canvas");
    const before = await canvas.screenshot();
    await canvas.press("ArrowLeft");
    await canvas.press("ArrowLeft");
    await page.waitForTimeout(100);
    truth(!before.equals(await canvas.screenshot()), `mesh ${at} does not turn`);
  }
  truth((await figures[2].innerText()).includes("height"), "the mesh is not coloured");
  await shot(page, "meshes");
});

CHECKS.download = () => visit(`${job}/results`, {}, async (page) => {
  const links = await page.$$eval("p.download a", (all) => all.map((link) => link.href));
  truth(links.length >= 9, `${links.length} downloads`);
  for (const link of links) {
    const answer = await page.request.get(link);
    same(answer.status(), 200, link);
    const { "content-disposition": disposition, "content-security-policy": policy, "x-content-type-options": sniff } = answer.headers();
    truth(disposition?.startsWith("attachment") && policy?.includes("sandbox") && sniff === "nosniff", `${link}: ${disposition} ${policy} ${sniff}`);
  }
  const [download] = await Promise.all([page.waitForEvent("download"), page.click('a[href*="table"]')]);
  same(download.suggestedFilename(), "table.csv");
});

CHECKS.mistakes = () => visit(gallery, {}, async (page) => {
  await page.fill('form.run [name="n"]', "1");
  await page.fill('form.run [name="word"]', "kept");
  await page.click("form.run button.main");
  same(page.url(), gallery, "the browser sent what it knew to be wrong:");
  await page.$eval("form.run", (form) => { form.noValidate = true; });
  await page.click("form.run button.main");
  await page.waitForSelector('[name="n"][aria-invalid="true"]');
  same(await page.inputValue('form.run [name="word"]'), "kept");
  truth((await page.innerText("[role=alert]")).includes("Nothing was run"), "it is not said that nothing was run");
  await accessible(page, "a form that was refused");
  await shot(page, "mistake");
});

CHECKS.again = () => visit(job, {}, async (page) => {
  await page.click('a[href*="from="]');
  await page.waitForSelector("form.run");
  same(await page.inputValue('form.run [name="n"]'), "30");
  same(await page.inputValue('form.run [name="word"]'), "it's <b>\"&amp; ä");
  const next = await runGallery(page, { n: "31" });
  truth(next !== job, "it is the same job");
  await isDone(page);
  truth((await page.innerText("table.values")).includes("961"), "it ran with what was there before");
});

CHECKS.live = () => visit(countdown, {}, async (page) => {
  await page.fill('form.run [name="steps"]', "200");
  await page.fill('form.run [name="pause"]', "0.2");
  await page.click("form.run button.main");
  await page.waitForURL(/\/ogc\/jobs\//);
  await page.waitForFunction(() => document.body.innerText.includes("step 3 of 200"), null, WAIT);
  const progress = await page.$eval("progress", (it) => it.value / it.max);
  truth(progress > 0 && progress < 1, `progress is ${progress}`);
  await says(page, / % done, [\d.]+ (s|min) left at this pace/);
  await shot(page, "running");
  await page.reload();
  await page.waitForFunction(() => document.body.innerText.includes("step 3 of 200"), null, WAIT);
  page.on("dialog", (dialog) => dialog.accept());
  await page.click('form[action$="/kill"] button');
  await page.waitForFunction(() => /killed/i.test(document.querySelector("main").innerText), null, WAIT);
});

/** Until the page says it. */
function says(page, what) {
  const told = ([source, flags]) => new RegExp(source, flags).test(document.querySelector("main").innerText);
  return page.waitForFunction(told, [what.source, what.flags], WAIT);
}

async function count(page, url, values) {
  await page.goto(url, { waitUntil: "load" });
  for (const [name, value] of Object.entries(values)) await page.fill(`form.run [name="${name}"]`, value);
  await page.click("form.run button.main");
  await page.waitForURL(/\/ogc\/jobs\//);
}

/** Whether this is still the page that was marked, and not loaded again. */
const mark = (page) => page.evaluate(() => { window.marked = true; });
const marked = (page) => page.evaluate(() => window.marked === true);

async function kills(page) {
  page.on("dialog", (dialog) => dialog.accept());
  await page.click('form[action$="/kill"] button');
  await says(page, /killed/i);
}

/** A page that nobody looks at asks for nothing; looked at again, it goes on where the job is by then. */
CHECKS.paused = () => visit(countdown, {}, async (page) => {
  await count(page, countdown, { steps: "600", pause: "0.1" });
  await says(page, /step 2 of 600/);
  await mark(page);
  const hide = (hidden) => page.evaluate((it) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => it });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);
  await hide(true);
  const seen = Number((await page.textContent("#stdout")).match(/step (\d+) of 600\s*$/)[1]);
  const now = async () => (await (await page.request.get(`${page.url()}/log`)).json()).text;
  while (!(await now()).includes(`step ${seen + 30} of`)) await page.waitForTimeout(100);
  truth(!(await page.textContent("#stdout")).includes(`step ${seen + 20} of`), "a hidden page is told of it");
  await hide(false);
  await says(page, new RegExp(`step ${seen + 30} of`));
  truth(await marked(page), "the page was loaded again");
  await kills(page);
});

/** A server of its own, which is started anew while the page is open: the page goes on by itself. */
CHECKS.restart = async () => {
  const data = fs.mkdtempSync(path.join(os.tmpdir(), "fishplate-browser-"));
  const port = await new Promise((done) => {
    const listener = net.createServer().listen(0, "127.0.0.1", () => {
      const free = listener.address().port;
      listener.close(() => done(free));
    });
  });
  const serve = () => new Promise((done, failed) => {
    const server = spawn(fishplate, ["serve", "--listen", `127.0.0.1:${port}`, "--data", data, alone], { stdio: ["ignore", "pipe", "ignore"] });
    server.ended = new Promise((gone) => server.once("exit", gone));
    server.ended.then(() => failed(new Error("the server did not start")));
    server.stdout.once("data", () => done(server));
  });
  let server = await serve();
  const stop = () => { server.kill("SIGTERM"); return server.ended; };
  try {
    await visit(`http://127.0.0.1:${port}/`, {}, async (page) => {
      await count(page, `http://127.0.0.1:${port}/countdown`, { steps: "600", pause: "0.1" });
      await says(page, /step 2 of 600/);
      await mark(page);
      await stop();
      await says(page, /The server does not answer, or not now/);
      const seen = Number((await page.textContent("#stdout")).match(/step (\d+) of 600\s*$/)[1]);
      server = await serve();
      await says(page, new RegExp(`step ${seen + 5} of`));
      await says(page, /This page follows the job/);
      truth(await marked(page), "the page was loaded again");
      await kills(page);
    });
  } finally {
    await stop();
    fs.rmSync(data, { recursive: true, force: true });
  }
};

CHECKS.remove = () => visit(countdown, {}, async (page) => {
  await count(page, countdown, { steps: "1", pause: "0" });
  await isDone(page);
  const address = page.url();
  await page.click("details.ask summary");
  await page.click('form[action$="/remove"] button');
  await page.waitForURL((url) => url.href !== address);
  same((await page.request.get(address)).status(), 404, "a job that was removed:");
});

CHECKS.jobs = () => visit(`${base}/ogc/jobs`, {}, async (page) => {
  await page.selectOption('[name="processID"]', "gallery");
  await page.selectOption('[name="status"]', "successful");
  await page.click("form.filter button");
  await page.waitForURL(/processID=gallery/);
  const rows = await page.$$eval("table.jobs tbody tr", (all) => all.map((row) => row.innerText));
  truth(rows.length >= 1 && rows.every((row) => row.includes("gallery") && row.includes("done")), rows.join("\n"));
  same(await page.inputValue('[name="status"]'), "successful");
  await page.fill('[name="to"]', "2001-01-01");
  await page.click("form.filter button");
  await page.waitForURL(/to=2001/);
  truth((await page.innerText("main")).includes("There are none like this."), "jobs of 2001");
});

CHECKS.account = () => visit(`${base}/ogc`, {}, async (page) => {
  truth(/processor time/.test(await page.innerText("table.quotas")), "no quotas");
  same(await page.$$eval("table.quotas tbody tr", (rows) => rows.length), 4);
});

CHECKS.login = async () => {
  const url = process.env.INTEROP_LOGIN_URL.split("?")[0];
  const above = url.slice(0, url.lastIndexOf("/"));
  const httpCredentials = { username: "alice", password: process.env.INTEROP_LOGIN_PASSWORD };
  await visit(`${above}/ogc`, { httpCredentials }, async (page) => {
    truth((await page.innerText("h1")).includes("alice"), "it is not alice's account");
    truth((await page.innerText("main")).includes("Sessions"), "no sessions");
    await accessible(page, "an account");
  });
};

CHECKS.examples = () => visit(gallery, {}, async (page) => {
  await page.fill('form.run [name="n"]', "77");
  await page.waitForFunction(() => document.querySelector('[data-example="cli"]').textContent.includes("n=77"), null, WAIT);
  for (const name of ["python", "curl", "soap", "zeep", "java"]) {
    truth((await page.textContent(`[data-example="${name}"]`)).includes("77"), `${name} has not the form's value`);
  }
});

/** Runs the form of a page that has all it needs; the address of its job. */
async function runs(page) {
  await page.click("form.run button.main");
  await page.waitForURL(/\/ogc\/jobs\/[0-9a-f]{32}$/);
  await isDone(page);
}

/** A directory with files of several kinds. */
function directory() {
  const root = fs.mkdtempSync(path.join(os.tmpdir(), "fishplate-browser-"));
  process.on("exit", () => fs.rmSync(root, { recursive: true, force: true }));
  const folder = path.join(root, "case");
  const long = path.join("sub", "x".repeat(90), `${"ä".repeat(60)} it's.txt`);
  const files = { "a.txt": "abc\n", "sub/empty": "", "sub/b.bin": Buffer.alloc(700_000, 7), [long]: "long\n" };
  for (const [name, content] of Object.entries(files)) {
    fs.mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
    fs.writeFileSync(path.join(folder, name), content);
  }
  return { folder, files };
}

/** What the job of a page that is done says of its directory: each file with its bytes. */
async function listed(page) {
  const answer = await page.request.get(await page.$eval('a[href*="listing"]', (link) => link.href));
  return Object.fromEntries((await answer.text()).trimEnd().split("\n").filter((line) => !line.startsWith("./")).map((line) => {
    const [, bytes, name] = /^\d+ (\d+) \.\/(.*)$/.exec(line) ?? [];
    return [name, Number(bytes)];
  }));
}

CHECKS.directory = () => visit(folders, {}, async (page) => {
  const { folder, files } = directory();
  await page.setInputFiles("input[webkitdirectory]", folder);
  await page.waitForFunction(() => document.querySelector('input[name="folder"]').files.length === 1);
  truth((await page.innerText(".file")).includes("case.tar is made of it"), "it is not said what was made");
  await accessible(page, "a form with a directory");
  await shot(page, "directory");
  await runs(page);
  const sorted = (all) => all.sort(([one], [other]) => (one < other ? -1 : 1));
  const wanted = Object.entries(files).map(([name, content]) => [name, content.length]);
  same(sorted(Object.entries(await listed(page))), sorted(wanted));
});

/** A directory that is dropped on the field, as the browser hands it to the page; an empty one in it is there too. */
CHECKS.dropped = () => visit(folders, {}, async (page) => {
  await page.evaluate(() => {
    const file = (name, text) => ({ name, isDirectory: false, file: (done) => done(new File([text], name)) });
    const folder = (name, inner) => ({
      name, isDirectory: true,
      createReader: () => ({ readEntries: (done) => done(inner.splice(0, 1)) }),
    });
    const entry = folder("case", [file("a.txt", "abc"), folder("sub", [file("b.txt", "de"), folder("empty", [])])]);
    const event = new DragEvent("drop", { bubbles: true, cancelable: true });
    Object.defineProperty(event, "dataTransfer", {
      value: { files: [new File([], "case")], types: ["Files"], items: [{ webkitGetAsEntry: () => entry }] },
    });
    document.querySelector("[data-drop]").dispatchEvent(event);
  });
  await page.waitForFunction(() => document.querySelector('input[name="folder"]').files.length === 1);
  await runs(page);
  same(await listed(page), { "a.txt": 3, "sub/b.txt": 2 });
  truth((await page.innerText("pre.text")).includes("./sub/empty"), "the empty directory is not there");
});

/** The only output of the job of a page that is done. */
async function bytes(page, output) {
  const answer = await page.request.get(await page.$eval(`a[href*="/results/${output}?"]`, (link) => link.href));
  return answer.body();
}

CHECKS.address = () => visit(echo, {}, async (page) => {
  await page.fill('input[name="data:url"]', `${origin}/8193.bin`);
  await runs(page);
  truth((await bytes(page, "copy")).equals(fs.readFileSync(path.join(payloads, "8193.bin"))), "it is another file");
});

/** A file that is dropped on its field; one that is pasted as text. */
CHECKS.files = async () => {
  await visit(echo, {}, async (page) => {
    await page.evaluate(() => {
      const dataTransfer = new DataTransfer();
      dataTransfer.items.add(new File(["dropped\n"], "a.txt"));
      document.querySelector("[data-drop]").dispatchEvent(new DragEvent("drop", { bubbles: true, cancelable: true, dataTransfer }));
    });
    await page.waitForFunction(() => document.querySelector('input[name="data"]').files[0]?.name === "a.txt");
    await runs(page);
    same(`${await bytes(page, "copy")}`, "dropped\n");
  });
  await visit(echo, {}, async (page) => {
    await page.click(".file summary");
    await page.evaluate(() => {
      const field = document.querySelector('textarea[name="data"]');
      field.focus();
      document.execCommand("insertText", false, "pasted: ä\n");
    });
    await runs(page);
    same(`${await bytes(page, "copy")}`.trimEnd(), "pasted: ä");
  });
};

/** An array as a file of two kinds, and written. */
CHECKS.arrays = async () => {
  const header = "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }".padEnd(117) + "\n";
  const numbers = Buffer.alloc(32);
  [1, 2, 3, 4.5].forEach((number, at) => numbers.writeDoubleLE(number, 8 * at));
  const npy = Buffer.concat([Buffer.from("\x93NUMPY\x01\x00\x76\x00", "latin1"), Buffer.from(header), numbers]);
  const chosen = { "grid.csv": Buffer.from("1,2\n3,4.5\n"), "grid.npy": npy };
  for (const given of [...Object.entries(chosen), "1 2\n3 4.5"]) {
    await visit(`${base}/smooth`, {}, async (page) => {
      if (Array.isArray(given)) {
        const [name, buffer] = given;
        await page.setInputFiles('input[type=file][name="grid"]', { name, mimeType: "application/octet-stream", buffer });
      } else {
        await page.fill('textarea[name="grid"]', given);
      }
      await runs(page);
      const answer = await page.request.get(`${page.url()}/results/smooth`, { headers: { Accept: "application/json" } });
      same(await answer.json(), [[1, 2], [3, 4.5]], JSON.stringify(given));
    });
  }
};

CHECKS.several = () => visit(`${base}/word-list`, {}, async (page) => {
  await page.fill('textarea[name="word"]', "one\ntwo of them\n");
  await runs(page);
  same(`${await bytes(page, "listed")}`, "one\ntwo of them\n");
});

/** An upload shows how far it is, can be stopped, and keeps its files if something is wrong. */
CHECKS.upload = () => visit(echo, {}, async (page) => {
  const file = path.join(payloads, "100000000.bin");
  const slow = await page.context().newCDPSession(page);
  await slow.send("Network.enable");
  const limit = (uploadThroughput) => slow.send("Network.emulateNetworkConditions", { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput });
  await limit(4_000_000);
  const input = page.locator("form.run input[type=file][name]").first();
  await input.setInputFiles(file);
  await page.click("form.run button.main");
  await page.waitForFunction(() => {
    const [text, share] = [document.querySelector(".upload span").textContent, document.querySelector(".upload progress").value];
    return /^\d+ % of 95\.4 MiB, [\d.]+ [KM]iB\/s/.test(text) && share > 0 && share < 1;
  }, null, WAIT);
  await accessible(page, "an upload");
  await shot(page, "upload");
  await page.click(".upload button");
  await page.waitForFunction(() => document.querySelector(".sending").textContent.startsWith("Cancelled"), null, WAIT);
  same(await input.evaluate((it) => it.files.length), 1, "files that are kept:");
  truth(await page.isEnabled("form.run button.main"), "it can't be run again");
  same(page.url(), echo);
  await limit(-1);
  // What is wrong is told in the form, which keeps the file.
  await page.evaluate(() => {
    const unknown = document.createElement("input");
    Object.assign(unknown, { type: "hidden", name: "nothing", value: "1" });
    document.querySelector("form.run").append(unknown);
  });
  await page.click("form.run button.main");
  await page.waitForSelector("form.run > [role=alert]");
  same(await input.evaluate((it) => it.files.length), 1, "files that are kept:");
  await page.evaluate(() => document.querySelector('[name="nothing"]').remove());
  await runs(page);
});

CHECKS.axe = async () => {
  for (const colorScheme of ["light", "dark"]) {
    for (const [name, url] of Object.entries(pages())) {
      await visit(url, { colorScheme }, async (page) => {
        await page.$$eval("details", (all) => all.forEach((it) => { it.removeAttribute("name"); it.open = true; }));
        await accessible(page, `${name} (${colorScheme})`);
        await shot(page, `${name}-${colorScheme}`);
      });
    }
  }
};

CHECKS.phone = async () => {
  for (const [name, url] of Object.entries(pages())) {
    await visit(url, { viewport: PHONE, isMobile: true, hasTouch: true }, async (page) => {
      await page.$$eval("details", (all) => all.forEach((it) => { it.removeAttribute("name"); it.open = true; }));
      await fits(page, name);
      await shot(page, `${name}-phone`);
    });
  }
};

CHECKS.keyboard = () => visit(gallery, {}, async (page) => {
  const names = [];
  for (let at = 0; at < 60; at++) {
    await page.keyboard.press("Tab");
    const [name, seen] = await page.evaluate(() => {
      const it = document.activeElement;
      const style = getComputedStyle(it);
      return [it.getAttribute("name") ?? it.innerText, it.matches(":focus-visible") && (style.outlineStyle !== "none" || style.boxShadow !== "none")];
    });
    truth(seen, `${name} has the focus, and nobody sees it`);
    names.push(name);
    if (name === "n") await page.keyboard.type("5");
    if (name === "Run") break;
  }
  truth(names.includes("n") && names.at(-1) === "Run", `Tab leads to ${names}`);
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/ogc\/jobs\//);
  await isDone(page);
});

CHECKS.scriptless = () => visit(gallery, { javaScriptEnabled: false }, async (page) => {
  await runGallery(page, { n: "4" });
  for (let left = 60; left > 0 && !(await page.$("section.result")); left--) {
    await page.waitForTimeout(500);
    await page.reload();
  }
  const answer = await page.request.get(await page.$eval('a[href*="table"]', (link) => link.href));
  truth((await answer.text()).startsWith("place,height"), "the table can't be fetched");
});

/** The checks of the Pipe Problem, or why they can't be made. */
function pipe() {
  const { INTEROP_PIPE_URL: url, INTEROP_PIPE_MISSING: missing } = process.env;
  if (url) return require("./pipe.cjs")(url, { visit, truth, same, shot, accessible, WAIT });
  for (const name of ["pipe-mesher", "pipe-gas", "pipe-picture"]) console.log(`skipped ${name}: ${missing}`);
  return {};
}

async function main() {
  browser = await chromium.launch({
    executablePath: process.env.BROWSER ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"],
  });
  const only = process.env.BROWSER_CHECKS?.split(",");
  let failed = 0;
  for (const [name, check] of Object.entries({ ...CHECKS, ...pipe() })) {
    if (only && name !== "run" && !only.includes(name)) continue;
    const begun = Date.now();
    try {
      await check();
      console.log(`ok ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`not ok ${name}: ${String(error.message ?? error).split("\n")[0]}`);
      console.error(error);
    }
    console.error(`${name}: ${((Date.now() - begun) / 1000).toFixed(1)} s`);
  }
  await browser.close();
  return failed ? 1 : 0;
}

main().then((code) => process.exit(code));
