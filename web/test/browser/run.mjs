// Opens pages of the fixtures from disk in Chromium and checks what they promise. Exit 0: all held; 77: no Chromium here.
//   node test/browser/run.mjs [--short|--frames|--views|--documents|--time]     the short form; only the frame times; the views in the tabs; pages of measurements,
//   RPCs and two runs; the rest

import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";
import { writePage } from "../fixtures/write.mjs";
import { documents } from "./documents.mjs";
import { frameTimes } from "./frames.mjs";
import { viewTests } from "./views.mjs";

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const failures = [];

function check(what, holds, detail = "") {
  console.log(`${holds ? "ok  " : "FAIL"} ${what}${detail !== "" ? `: ${detail}` : ""}`);
  if (!holds) failures.push(what);
}

/** Opens a fixture's page; collects requests and errors. */
async function open(browser, name, options = {}, fragment = "") {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  // A busy machine may take long: what never comes still fails.
  context.setDefaultTimeout(90_000);
  const page = await context.newPage();
  const seen = { requests: [], errors: [] };
  page.on("request", (r) => /^(file:|blob:|data:)/.test(r.url()) || seen.requests.push(r.url()));
  page.on("pageerror", (e) => seen.errors.push(String(e)));
  page.on("console", (m) => m.type() === "error" && seen.errors.push(m.text()));
  const path = writePage(name);
  await page.goto(`file://${path}${fragment}`);
  return { context, page, seen, path };
}

const ready = (page) => page.waitForSelector(".lanes canvas.layer", { timeout: 60_000 });
const shownText = (page) => page.locator(".lanes .status [role=status]").textContent();

/** Waits until the status line says something else than `before`. */
async function changes(page, before) {
  await page.waitForFunction((old) => {
    const text = document.querySelector(".lanes .status [role=status]")?.textContent;
    return text && text !== old;
  }, before, { timeout: 20_000 }).catch(() => undefined);
  return shownText(page);
}

async function axe(page, what) {
  await page.evaluate(AXE);
  const found = await page.evaluate(() => globalThis.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
  check(`axe: 0 violations, ${what}`, found.violations.length === 0, found.violations.map((v) => `${v.id} ${v.nodes.slice(0, 3).map((n) => n.target.join(" ")).join(" | ")}`).join("; "));
}

async function accessibility(browser) {
  for (const name of ["small", "hostile", "empty", "one-lane", "both-ends", "ranks", "extremes", "left-out"]) {
    for (const colorScheme of ["light", "dark"]) {
      const { context, page, seen } = await open(browser, name, { colorScheme }, "#s=0,50000000&i=0");
      await page.waitForSelector(name === "empty" ? ".time p" : ".lanes canvas.layer");
      await page.waitForTimeout(300);
      await axe(page, `${name}, ${colorScheme}`);
      check(`no request and no error, ${name}, ${colorScheme}`, seen.requests.length + seen.errors.length === 0, [...seen.requests, ...seen.errors].join("; "));
      await context.close();
    }
  }
}

async function hostileNames(browser) {
  const { context, page } = await open(browser, "hostile");
  await ready(page);
  check("hostile names run nothing", !(await page.evaluate(() => globalThis.hacked)));
  check("hostile names make no elements", (await page.locator("#app img, #app script, #app svg[onload]").count()) === 0);
  check("markup is shown as text", (await page.locator("#app").textContent()).includes("<script>window.hacked=1</script>"));
  check("a name of 10,000 characters stays in its place", await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  const refused = await page.evaluate(() => {
    // In a task of the page's own: the evaluation itself may use eval.
    return new Promise((done) => setTimeout(() => {
      try {
        done(`ran: ${(0, eval)("1+1")}`);
      } catch {
        done("");
      }
    }));
  });
  check("eval is refused", refused === "", refused);
  await context.close();
}

async function keyboard(browser) {
  const { context, page } = await open(browser, "small");
  await ready(page);
  const whole = await changes(page, "");
  for (let i = 0; i < 80 && !(await page.evaluate(() => document.activeElement?.classList.contains("body"))); i++) await page.keyboard.press("Tab");
  check("the lanes can be reached with Tab", await page.evaluate(() => document.activeElement?.classList.contains("body")));
  await page.keyboard.press("w");
  await page.keyboard.press("w");
  const zoomed = await changes(page, whole);
  check("W zooms", zoomed !== whole && zoomed.includes("of 2.37 s"), zoomed);
  await page.keyboard.press("ArrowRight");
  check("the right arrow pans", (await changes(page, zoomed)) !== zoomed);
  await page.keyboard.press("j");
  await page.keyboard.press(".");
  check("J and . choose a span", (await page.locator("#span-title").count()) === 1);
  await page.keyboard.press("m");
  await page.waitForSelector("#selection-title");
  check("M breaks it down", (await page.locator(".panel table").count()) > 0);
  await page.keyboard.press("Escape");
  await page.keyboard.press("0");
  await page.waitForFunction((text) => document.querySelector(".lanes .status [role=status]")?.textContent === text, whole);
  check("0 shows the whole run", (await shownText(page)) === whole);
  await context.close();
}

async function mouse(browser) {
  const { context, page } = await open(browser, "small");
  await ready(page);
  const whole = await changes(page, "");
  await page.locator(".piece").first().click();
  const jumped = await changes(page, whole);
  check("a click on a cause jumps to its longest instance", jumped !== whole && (await page.locator("#selection-title").count()) === 1, jumped);
  const link = page.url();
  check("the address has the view", /#t=\d+%2C\d+&s=/.test(link), link.slice(link.indexOf("#")));
  const again = await open(browser, "small", {}, link.slice(link.indexOf("#")));
  await ready(again.page);
  check("the fragment reopens the view", (await changes(again.page, "")) === jumped);
  await again.context.close();
  const box = await page.locator(".lanes .body").boundingBox();
  await page.keyboard.down("Shift");
  await page.mouse.move(box.x + 500, box.y + 40);
  await page.mouse.down();
  await page.mouse.move(box.x + 700, box.y + 40, { steps: 4 });
  await page.mouse.up();
  await page.keyboard.up("Shift");
  check("Shift and drag measures, and the view stays", (await shownText(page)) === jumped);
  await page.mouse.move(box.x + 500, box.y + 40);
  await page.mouse.down();
  await page.mouse.move(box.x + 600, box.y + 40, { steps: 4 });
  await page.mouse.up();
  check("dragging pans", (await changes(page, jumped)) !== jumped);
  await page.keyboard.press("/");
  check("/ opens the search", await page.evaluate(() => document.activeElement?.type === "search"));
  await page.getByRole("searchbox", { name: "Find" }).fill("net.send");
  await page.waitForFunction(() => /spans match/.test(document.querySelector(".search [role=status]").textContent));
  await page.getByRole("button", { name: "Next" }).click();
  await page.waitForSelector("#span-title");
  check("search finds and goes to a span", /net\.send/.test(await page.locator(".panel dl").textContent()));
  const [csv] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "CSV", exact: true }).click()]);
  check("CSV has the spans", /net\.send/.test(readFileSync(await csv.path(), "utf8")));
  const [png] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "PNG", exact: true }).click()]);
  check("PNG is a picture", readFileSync(await png.path()).subarray(1, 4).toString() === "PNG");
  await context.close();
}

async function arrows(browser) {
  const { context, page, seen } = await open(browser, "both-ends", {}, "#i=30");
  await ready(page);
  await page.waitForSelector("#span-title");
  const buttons = page.locator(".panel .buttons button");
  const texts = (await buttons.allTextContents()).join("; ");
  check("a call has its request and its reply", /request from nfs-cp to nfsd-/.test(texts) && /reply from nfsd-/.test(texts), texts);
  check("an arrow between hosts says how exact the clocks are", texts.includes("clock aligned within 41.0 µs"));
  check("no arrow leads to a clock that could not be aligned", !texts.includes("ost-"));
  const before = await page.locator(".panel dl").textContent();
  await page.keyboard.press("g");
  await page.waitForFunction((old) => document.querySelector(".panel dl")?.textContent !== old, before);
  const there = await page.locator(".panel dl").textContent();
  check("G follows the arrow to the server", there.includes("nfsd-") && there.includes("rpc.serve"), there.slice(0, 120));
  await page.keyboard.press("g");
  await page.waitForFunction((old) => document.querySelector(".panel dl")?.textContent === old, before);
  check("G again leads back", (await page.locator(".panel dl").textContent()) === before);
  check("an unaligned clock is said and has an axis of its own", (await page.locator(".remark", { hasText: "could not be aligned" }).count()) === 1 && (await page.locator(".row.clock").count()) === 1);
  const found = await clickArrow(page);
  check("an arrow can be clicked", found.includes("rpc.serve"), found.slice(0, 80));
  check("lost events are counted", (await page.locator(".legend").textContent()).includes("1,235 before 2 instants"));
  check("no error with arrows", seen.errors.length === 0, seen.errors.join("; "));
  await context.close();
}

/** Clicks where an arrow is under the pointer, away from the lanes' spans; returns the particulars of what is selected then. */
async function clickArrow(page) {
  const box = await page.locator(".lanes .body").boundingBox();
  const names = await page.locator(".lanes .names").boundingBox();
  const gap = await page.locator("button.row.section", { hasText: "server-1" }).boundingBox();
  for (let x = names.x + names.width + 2; x < box.x + box.width; x += 3) {
    await page.mouse.move(x, gap.y + gap.height / 2);
    await page.waitForTimeout(5);
    if (!(await page.locator(".body.over-arrow").count())) continue;
    await page.mouse.click(x, gap.y + gap.height / 2);
    await page.waitForTimeout(300);
    return page.locator(".panel dl").textContent();
  }
  return "no arrow was found";
}

async function why(browser) {
  const { context, page } = await open(browser, "both-ends");
  await ready(page);
  await page.locator(".piece").first().hover();
  await page.waitForSelector(".tip");
  const text = await page.locator(".tip").textContent();
  check("a cause under the pointer shows evidence and rule", /waits for bytes in transit/.test(text) && text.includes("90 % of it by lock.held: a thread slept or computed for itself") && text.includes("(based on: the waker"), text);
  await axe(page, "both-ends with the box of a cause");
  await page.keyboard.press("Escape");
  await page.waitForSelector(".tip", { state: "detached" });
  await page.mouse.move(5, 5);
  for (let i = 0; i < 6 && !(await page.evaluate(() => document.activeElement?.classList.contains("piece"))); i++) await page.keyboard.press("Tab");
  await page.waitForSelector(".tip");
  check("a cause with the focus is explained too", (await page.locator(".piece").first().getAttribute("aria-describedby")) === "why-tip");
  await page.locator(".why > summary").click();
  check("the list has the rules of all causes", (await page.locator(".why section").count()) >= 3);
  await page.locator(".why .stretches button").first().click();
  await page.waitForSelector("#selection-title");
  check("a rule's stretch is shown on the time axis", (await page.locator("#selection-title").textContent()).includes("19.0 ms"), await page.locator("#selection-title").textContent());
  await context.close();
}

async function pictures(browser) {
  for (const name of ["both-ends", "hostile", "ranks"]) {
    const { context, page, seen } = await open(browser, name, {}, "#i=30");
    await ready(page);
    await page.waitForTimeout(300);
    const svg = page.getByRole("button", { name: "SVG", exact: true });
    for (const [i, what] of ["the time view", "the curves"].entries()) {
      const [download] = await Promise.all([page.waitForEvent("download"), svg.nth(i).click()]);
      const text = readFileSync(await download.path(), "utf8");
      const parsed = await page.evaluate((xml) => {
        const document = new DOMParser().parseFromString(xml, "image/svg+xml");
        return { error: document.querySelector("parsererror")?.textContent ?? "", texts: [...document.querySelectorAll("text")].map((t) => t.textContent), scripts: document.querySelectorAll("script, image, foreignObject, [onload]").length };
      }, text);
      check(`SVG of ${what} is a picture whose text is text, ${name}`, parsed.error === "" && parsed.scripts === 0 && parsed.texts.length > 5, parsed.error);
      if (name === "both-ends" && i === 0) check("SVG has names, axis, legend and arrows", ["nfsd-1", "1.0 s", "Critical path", "request", "stopped 278 ms"].every((t) => parsed.texts.includes(t)), parsed.texts.join(" | ").slice(0, 400));
    }
    check(`no error with pictures, ${name}`, seen.errors.length === 0, seen.errors.join("; "));
    await context.close();
  }
}

async function leftOut(browser) {
  const { context, page, seen } = await open(browser, "left-out", {}, "#s=0,1000000000");
  await ready(page);
  const whole = await changes(page, "");
  check("the heading says how many spans the page has", /450 spans of 3,?250/.test(await page.locator("#time-title").textContent()), await page.locator("#time-title").textContent());
  check("a selection's shares count what is left out", /reading1\.60 s39 %/.test(await page.locator(".panel .tables").textContent()), await page.locator(".panel .tables").textContent());
  check("a selection says what is left out", (await page.locator("#partial").count()) === 1);
  check("the whole run hides nothing", !/left out/.test(whole), whole);
  const drawn = () => page.evaluate(() => {
    const canvas = document.querySelector(".lanes canvas.layer");
    const pixels = canvas.getContext("2d").getImageData(300, 12, 200, 1).data;
    return new Set(new Uint32Array(pixels.buffer)).size;
  });
  check("lanes are drawn where no span is there", (await drawn()) > 0);
  await page.locator(".lanes .body").focus();
  for (let i = 0; i < 14; i++) await page.keyboard.press("w");
  await page.waitForFunction(() => /left out/.test(document.querySelector(".lanes .status [role=status]")?.textContent ?? ""), null, { timeout: 5000 }).catch(() => undefined);
  check("below the finest bucket the page says that spans are left out", /2,800 shorter spans are left out/.test(await shownText(page)), await shownText(page));
  check("no error, left-out", seen.errors.length === 0, seen.errors.join("; "));
  await context.close();
}

async function without(browser) {
  const off = await open(browser, "small", { javaScriptEnabled: false });
  check("without scripts the static part is there", await off.page.locator("#static h1").isVisible());
  await off.context.close();
  const context = await browser.newContext();
  // A busy machine may take long: what never comes still fails.
  context.setDefaultTimeout(90_000);
  const page = await context.newPage();
  await page.addInitScript(() => (HTMLCanvasElement.prototype.getContext = () => null));
  await page.goto(`file://${writePage("small")}`);
  check("without a canvas the static part is there", await page.locator("#static h1").isVisible());
  await context.close();
}

async function sizes(browser) {
  for (const name of ["100k", "2000-lanes", "3m"]) {
    const { context, page, seen, path } = await open(browser, name);
    await ready(page);
    await page.waitForFunction(() => document.documentElement.dataset.drawn);
    const first = await page.evaluate(() => performance.now());
    console.log(`     ${name}: ${(readFileSync(path).length / 1e6).toFixed(1)} MB, first picture within ${(first / 1000).toFixed(2)} s`);
    check(`no error, ${name}`, seen.errors.length === 0, seen.errors.join("; "));
    await context.close();
  }
}

async function print(browser) {
  const { context, page } = await open(browser, "small", { colorScheme: "dark" });
  await ready(page);
  await changes(page, "");
  await page.emulateMedia({ media: "print" });
  await page.waitForTimeout(300);
  const pixel = await page.evaluate(() => [...document.querySelector("canvas.axis").getContext("2d").getImageData(60, 44, 1, 1).data]);
  check("a page in dark prints on white", pixel[0] + pixel[1] + pixel[2] > 600, pixel.join());
  await context.close();
}

async function phone(browser) {
  const { context, page } = await open(browser, "small", { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  await ready(page);
  check("nothing is wider than a phone", await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  check("a phone's first screen says what to change", (await page.locator(".change.first").boundingBox()).y < 700);
  await context.close();
}

if (!existsSync(CHROMIUM)) {
  console.log(`SKIPPED: no Chromium at ${CHROMIUM} (set CHROMIUM)`);
  process.exit(77);
}
// Other suites keep their files in /dev/shm.
const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
// The short form leaves out frame times, which judge nothing, and axe on pages that are made like others.
const isShort = process.argv[2] === "--short";
const only = isShort ? undefined : process.argv[2];
if (!only || only === "--documents") await documents({ open, axe, check, isShort }, browser, process.argv.slice(3));
if (!only || only === "--views") await viewTests(browser, { open, check, axe });
if (!only || only === "--time") for (const test of [accessibility, hostileNames, keyboard, mouse, leftOut, arrows, why, pictures, without, print, phone, sizes]) await test(browser);
if ((!only && !isShort) || only === "--frames") for (const [name, rows] of [["100k", "all"], ["3m", "low"], ["3m", "all"]]) {
  const { context, page } = await open(browser, name, { viewport: { width: 1600, height: 1300 } }, rows === "tall" ? "" : `#r=${rows}`);
  await ready(page);
  const found = await frameTimes(browser, page);
  console.log(`     frames, ${name}, rows ${rows}, ${found.lanes} rows in view: p50 ${found.p50} ms, p95 ${found.p95} ms of ${found.count} (trace); CPU of the script p95 ${found.cpu} ms`);
  await context.close();
}
await browser.close();
console.log(failures.length ? `${failures.length} failed` : "all held");
process.exit(failures.length ? 1 : 0);
