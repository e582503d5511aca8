// Debian's Chromium on a service's page, with nothing in its cache and then with what the first visit left there: paint.cjs PAGE BLANK ROUNDS
// Prints a line of JSON a round, in milliseconds: until something is painted, and from pressing Run until the page with the result is.
"use strict";
const { chromium } = require("playwright-core");
const [service, blank, rounds] = process.argv.slice(2);

/** When something was painted: by the clock, and since the page was asked for. */
async function painted(page) {
  return page.evaluate(
    () =>
      new Promise((resolve) => {
        new PerformanceObserver((list, observer) => {
          const [first] = list.getEntriesByName("first-contentful-paint");
          if (!first) return;
          observer.disconnect();
          resolve({ at: performance.timeOrigin + first.startTime, after: first.startTime });
        }).observe({ type: "paint", buffered: true });
      }),
  );
}

async function visit(page, url) {
  await page.goto(url, { waitUntil: "load" });
  return (await painted(page)).after;
}

async function run(page) {
  await page.fill('form.run [name="x"]', "1");
  await page.fill('form.run [name="y"]', "2");
  const pressed = await page.evaluate(() => {
    const now = performance.timeOrigin + performance.now();
    document.querySelector("form.run button.main").click();
    return now;
  });
  await page.waitForURL(/\/ogc\/jobs\/[0-9a-f]{32}$/);
  await page.waitForSelector("#results");
  return (await painted(page)).at - pressed;
}

async function main() {
  const browser = await chromium.launch({ executablePath: process.env.BROWSER ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
  // The first page of a browser pays for its start.
  for (let round = -1; round < Number(rounds); round++) {
    const context = await browser.newContext({ viewport: { width: 1100, height: 900 } });
    const page = await context.newPage();
    const found = { blank: await visit(page, blank), first: await visit(page, service), again: await visit(page, service), run: await run(page) };
    await context.close();
    if (round >= 0) console.log(JSON.stringify(found));
  }
  await browser.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
