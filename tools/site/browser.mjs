// browser.mjs SITE: opens every page of the built site from disk in Chromium, and prints as JSON what was seen. Exit 77: no Chromium or no playwright-core here.

import { existsSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const WIDTHS = [1440, 400];
const SITE = resolve(process.argv[2]);
const at = (page) => pathToFileURL(`${SITE}/${page}`).href;

/** The package that the tests of web/ install. */
function playwright() {
  try {
    return createRequire(new URL("../../web/package.json", import.meta.url))("playwright-core").chromium;
  } catch {
    return undefined;
  }
}

/** A window that notes requests to others and errors. */
async function open(browser, width, seen) {
  const page = await browser.newPage({ viewport: { width, height: 900 } });
  page.on("request", (request) => /^(file|data|blob):/.test(request.url()) || seen.requests.push(`${page.url()}: ${request.url()}`));
  page.on("pageerror", (error) => seen.errors.push(`${page.url()}: ${error}`));
  page.on("console", (message) => message.type() === "error" && seen.errors.push(`${page.url()}: ${message.text()}`));
  return page;
}

/** What of a page is wider than the window, without being in something that scrolls by itself. */
function tooWide() {
  const scrolls = (e) => getComputedStyle(e).overflowX !== "visible";
  const inside = (e) => e !== document.body && e !== null && (e.matches("main") ? false : scrolls(e) || inside(e.parentElement));
  const wide = [...document.querySelectorAll("main *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !inside(e));
  const all = [document.documentElement, document.body, document.querySelector("#mdbook-content")];
  return [...wide, ...all.filter((e) => e.scrollWidth > e.clientWidth + 1)].map((e) => `${e.tagName} ${e.textContent.slice(0, 40)}`);
}

/** Types words into the search of a page, and opens the first result. */
async function search(page, words) {
  await page.goto(at("index.html"));
  await page.keyboard.press("/");
  await page.fill("#mdbook-searchbar", words);
  await page.locator("#mdbook-searchbar").dispatchEvent("keyup");
  const results = page.locator("#mdbook-searchresults li a");
  // The line above the results says how many there are, also when there are none.
  await page.locator("#mdbook-searchresults-header", { hasText: "result" }).waitFor({ timeout: 20_000 });
  const found = await results.evaluateAll((links) => links.map((link) => link.href));
  if (found.length === 0) return { found, marked: 0 };
  await results.first().click();
  const mark = page.locator("main mark");
  await mark.first().waitFor({ state: "attached", timeout: 20_000 }).catch(() => undefined);
  return { found: found.map((href) => href.slice(at("").length)), marked: await mark.count() };
}

/** How bright the ground of the first picture is with a theme, from 0 to 255. */
async function brightness(page, theme) {
  await page.evaluate((name) => localStorage.setItem("mdbook-theme", name), theme);
  await page.goto(at("docs/gallery/index.html"));
  const picture = page.locator("main img").first();
  await picture.scrollIntoViewIfNeeded();
  await picture.evaluate((image) => image.decode());
  const png = (await picture.screenshot()).toString("base64");
  return page.evaluate(async (data) => {
    const image = new Image();
    image.src = `data:image/png;base64,${data}`;
    await image.decode();
    const canvas = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height }).getContext("2d");
    canvas.drawImage(image, 0, 0);
    return Math.max(...canvas.getImageData(image.width - 4, 4, 1, 1).data.slice(0, 3));
  }, png);
}

const chromium = playwright();
if (!chromium || !existsSync(CHROMIUM)) process.exit(77);
const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
try {
  const seen = { pages: 0, requests: [], errors: [], wide: [], searches: {}, brightness: {} };
  const windows = await Promise.all(WIDTHS.map((width) => open(browser, width, seen)));
  for (const name of readdirSync(SITE, { recursive: true }).filter((file) => file.endsWith(".html"))) {
    seen.pages += 1;
    await Promise.all(windows.map((page) => page.goto(at(name))));
    for (const page of name === "toc.html" ? [] : windows) {
      seen.wide.push(...(await page.evaluate(tooWide)).map((what) => `${name} at ${page.viewportSize().width} pixels: ${what}`));
    }
  }
  const [page] = windows;
  for (const words of process.argv.slice(3)) seen.searches[words] = await search(page, words);
  for (const theme of ["light", "coal"]) seen.brightness[theme] = await brightness(page, theme);
  console.log(JSON.stringify(seen));
} finally {
  await browser.close();
}
