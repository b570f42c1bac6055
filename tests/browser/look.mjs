// Look at pages as a browser does: node look.mjs OUT PAGE.html... writes OUT/NAME-WIDTH-SCHEME.png, OUT/NAME.pdf
// and prints one JSON document: for each page its title, requests, dialogs, errors, axe violations and overflow.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const require = createRequire(import.meta.url);
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const [out, ...pages] = process.argv.slice(2);
const widths = (process.env.WIDTHS ?? "375,1280,2560").split(",").filter(Boolean).map(Number);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu"],
});

// One tab visits page after page with their policy in force: a new one for each would cost a process every time.
async function visitor() {
  const page = await (await browser.newContext()).newPage();
  const tab = { page, address: "", found: {} };
  page.on("request", (r) => r.url() !== tab.address && !r.url().startsWith("data:") && tab.found.requests.push(r.url()));
  page.on("dialog", (dialog) => (tab.found.dialogs.push(dialog.message()), dialog.dismiss()));
  page.on("pageerror", (error) => tab.found.errors.push(String(error)));
  page.on("console", (message) => message.type() === "error" && tab.found.errors.push(message.text()));
  return tab;
}

async function look(path, tab) {
  const address = pathToFileURL(resolve(path)).href;
  const name = basename(path, ".html");
  const found = { page: basename(path), requests: [], dialogs: [], errors: [], violations: [], overflow: [] };
  for (const scheme of widths.length ? ["light", "dark"] : []) {
    // bypassCSP lets axe in, nothing else: the page itself is read once more below with its policy in force.
    const context = await browser.newContext({ colorScheme: scheme, bypassCSP: true });
    const page = await context.newPage();
    await page.goto(address);
    for (const width of widths) {
      await page.setViewportSize({ width, height: 900 });
      const over = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      if (over > 0) found.overflow.push({ scheme, width, over });
      await page.screenshot({ path: join(out, `${name}-${width}-${scheme}.png`), fullPage: true });
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
      for (const v of violations)
        found.violations.push({ scheme, width, rule: v.id, nodes: v.nodes.map((n) => n.html.slice(0, 160)).slice(0, 3) });
    }
    await context.close();
  }
  const { page } = Object.assign(tab, { address, found });
  await page.goto(address);
  await page.evaluate(() => document.querySelectorAll("details").forEach((d) => (d.open = true)));
  await page.waitForTimeout(50);
  found.title = await page.title();
  found.scripts = await page.evaluate(() => document.scripts.length);
  found.ids = await page.evaluate(() => {
    const all = [...document.querySelectorAll("[id]")].map((e) => e.id);
    return all.filter((id, i) => all.indexOf(id) !== i).slice(0, 5);
  });
  if (widths.length) await page.pdf({ path: join(out, `${name}.pdf`), format: "A4", preferCSSPageSize: true });
  return found;
}

const all = [];
const left = [...pages];
const next = async () => {
  const tab = await visitor();
  for (let path = left.shift(); path; path = left.shift()) all.push(await look(path, tab));
};
await Promise.all([next(), next()]); // two at a time
await browser.close();
console.log(JSON.stringify(all, null, 1));
