// Pages of measurements, of RPCs and of two recordings: what they promise in a browser.

import { readFileSync } from "node:fs";

const DOCUMENTS = ["sweep", "layout", "ls", "commands", "profile", "rpcstat", "rpcstat-pair"];
const READY = ".document svg.picture";

async function opened(t, browser, name, options, fragment) {
  const found = await t.open(browser, name, options, fragment);
  await found.page.waitForSelector(name.startsWith("pair") ? ".pair canvas.layer" : name === "with-rpcs" ? ".rpcs svg.picture" : READY, { timeout: 60_000 });
  return found;
}

async function accessibility(t, browser) {
  const all = [...DOCUMENTS, "with-rpcs", "pair", "pair-hostile", ...DOCUMENTS.map((d) => `${d}-hostile`)];
  for (const name of t.isShort ? ["sweep", "with-rpcs", "pair", "pair-hostile", "sweep-hostile"] : all) {
    // Markup has the same colours as other text.
    for (const colorScheme of name.endsWith("hostile") ? ["light"] : ["light", "dark"]) {
      const { context, page, seen } = await opened(t, browser, name, { colorScheme }, name === "with-rpcs" ? "#view=rpcs" : "");
      for (const summary of await page.locator("details.astable > summary").all()) await summary.click();
      if (name === "sweep") await page.locator(".sortable tbody button").first().click();
      await page.waitForTimeout(300);
      await t.axe(page, `${name}, ${colorScheme}`);
      t.check(`no request and no error, ${name}, ${colorScheme}`, seen.requests.length + seen.errors.length === 0, [...seen.requests, ...seen.errors].join("; "));
      if (name.endsWith("hostile")) {
        t.check(`hostile names run nothing and make no elements, ${name}`, !(await page.evaluate(() => globalThis.hacked)) && (await page.locator("#app img, #app script, #app svg[onload]").count()) === 0);
        t.check(`hostile names stay in their place, ${name}`, await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), await page.evaluate(() => document.documentElement.scrollWidth));
      }
      await context.close();
    }
  }
}

async function phone(t, browser) {
  for (const name of [...DOCUMENTS, "with-rpcs", "pair"]) {
    const { context, page } = await opened(t, browser, name, { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true }, name === "with-rpcs" ? "#view=rpcs" : "");
    t.check(`nothing is wider than a phone, ${name}`, await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), await page.evaluate(() => document.documentElement.scrollWidth));
    await context.close();
  }
}

const download = async (page, press) => {
  const [file] = await Promise.all([page.waitForEvent("download"), press()]);
  return { name: file.suggestedFilename(), bytes: readFileSync(await file.path()) };
};

async function sweep(t, browser) {
  const { context, page } = await opened(t, browser, "sweep");
  await page.locator(".keyed circle.hit").nth(2).click({ force: true });
  const title = await page.locator("#point-title").textContent();
  t.check("a click on a point shows the point and its row", /block=/.test(title) && (await page.locator("tr.chosen").count()) === 1, title);
  await page.locator(".keyed").focus();
  await page.keyboard.press("ArrowRight");
  const next = await page.locator("#point-title").textContent();
  t.check("the arrow keys go to the next point", next !== title, next);
  await page.getByLabel("Up").selectOption("d1");
  await page.waitForSelector(".keyed svg g.hit rect");
  t.check("two parameters give a heat map", (await page.locator(".keyed svg pattern").count()) === 1);
  await page.locator("th button", { hasText: "Time" }).first().click();
  t.check("the table sorts by a column", (await page.locator('th[aria-sort="ascending"]').count()) === 1);
  const times = await page.locator(".sortable tbody tr").allTextContents();
  t.check("points without a figure are last", /failed|timed out/.test(times.at(-1)) && !/failed|timed out/.test(times[0]));
  await page.getByRole("searchbox", { name: "Filter" }).fill("direct");
  t.check("the table filters by words", (await page.locator(".sortable tbody tr").count()) === 6);
  const csv = await download(page, () => page.getByRole("button", { name: "CSV of the table" }).click());
  t.check("the table saves as CSV", csv.bytes.toString().split("\r\n").length === 8 && csv.bytes.toString().startsWith("block,flag,state,"), csv.bytes.toString().slice(0, 60));
  const svg = await download(page, () => page.locator(".keyed .tools button").first().click());
  t.check("a picture saves as SVG", /^<svg[^>]*xmlns="http:\/\/www\.w3\.org\/2000\/svg"/.test(svg.bytes.toString()) && svg.name.endsWith(".svg"), svg.name);
  const png = await download(page, () => page.locator(".keyed .tools button").nth(1).click());
  t.check("a picture saves as PNG", png.bytes.subarray(1, 4).toString() === "PNG");
  await context.close();
}

async function rpcs(t, browser) {
  const { context, page } = await opened(t, browser, "with-rpcs", {}, "#view=rpcs");
  const { context: own, page: alone } = await opened(t, browser, "rpcstat");
  const axis = () => page.locator(".rpcs svg.picture text").first().textContent();
  const before = await axis();
  await page.getByRole("button", { name: "Longest stall", exact: true }).click();
  await page.waitForSelector("#rpc-selection-title");
  t.check("the longest stall is selected and its calls are counted", /stalls/.test(await page.locator(".rpcs .panel").textContent()));
  const zoomed = page.url();
  t.check("the address has the view and the selection", /view=rpcs/.test(zoomed) && /#t=/.test(zoomed), zoomed.slice(zoomed.indexOf("#")));
  await page.getByRole("tab", { name: "Time" }).click();
  await page.waitForSelector("#selection-title");
  t.check("the selection is that of the time view", /Selected/.test(await page.locator("#selection-title").textContent()));
  await page.getByRole("tab", { name: "RPCs" }).click();
  await page.locator(".panels-box").focus();
  await page.keyboard.press("0");
  await page.waitForTimeout(400);
  t.check("0 shows the whole run", (await axis()) === before, await axis());
  const box = await page.locator(".panels-box svg").boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + 160);
  await page.waitForTimeout(200);
  t.check("the values under the pointer are in words", /pending/.test(await page.locator(".panels-box .status").textContent()));
  await context.close();
  await alone.locator(".panels-box").focus();
  const whole = await alone.locator(".rpcs svg.picture text").nth(1).textContent();
  await alone.keyboard.press("w");
  await alone.waitForTimeout(400);
  t.check("W zooms on a page without a recording", (await alone.locator(".rpcs svg.picture text").nth(1).textContent()) !== whole);
  await own.close();
}

async function pair(t, browser) {
  const { context, page } = await opened(t, browser, "pair");
  const status = (run) => page.locator(`[data-run=${run}] .lanes .status [role=status]`).first().textContent();
  const settle = () => page.waitForTimeout(450);
  await settle();
  t.check("both runs have one scale by time", (await status("a")).includes("2.37 s") && (await status("b")).includes("the run took 1.40 s"), await status("b"));
  for (const alignment of ["phase", "byte"]) {
    await page.locator(`input[value=${alignment}]`).check();
    await settle();
    t.check(`aligned by ${alignment}, both whole runs are in view`, /of 1\.40 s|1\.40 s/.test(await status("b")), await status("b"));
  }
  const whole = [await status("a"), await status("b")];
  await page.locator("[data-run=a] .body").focus();
  await page.keyboard.press("w");
  await settle();
  const first = [await status("a"), await status("b")];
  t.check("the second run follows the first", first[0] !== whole[0] && first[1] !== whole[1], first.join(" | "));
  await page.locator("[data-run=b] .body").focus();
  await page.keyboard.press("w");
  await settle();
  const second = [await status("a"), await status("b")];
  t.check("the first run follows the second", second[0] !== first[0] && second[1] !== first[1], second.join(" | "));
  await page.locator("[data-run=b] .body").scrollIntoViewIfNeeded();
  const box = await page.locator("[data-run=b] .body").boundingBox();
  await page.mouse.move(box.x + 600, box.y + 50);
  await page.waitForTimeout(250);
  const readout = await page.locator(".pair p.readout").textContent();
  t.check("an instant of one run is shown in the other", /^A .*%.*↔.*B .*%/.test(readout), readout);
  t.check("one of the two views explains what is under the pointer", (await page.locator(".pair .hover:visible").count()) === 1);
  await page.locator(".pair .find summary").click();
  await page.getByRole("searchbox", { name: "Find", exact: true }).fill("net.send");
  await page.waitForFunction(() => /spans match/.test(document.querySelector(".search [role=status]").textContent));
  await page.getByRole("button", { name: "Next" }).click();
  await page.waitForSelector("#span-title");
  t.check("what is found in one run is shown", /net\.send/.test(await page.locator(".pair .panel dl").first().textContent()));
  await context.close();
}

async function without(t, browser) {
  for (const name of ["sweep", "rpcstat", "pair"]) {
    const { context, page } = await t.open(browser, name, { javaScriptEnabled: false });
    t.check(`without scripts the static part is there, ${name}`, await page.locator("#static h1").isVisible());
    await context.close();
  }
}

async function print(t, browser) {
  for (const name of ["sweep", "rpcstat", "pair"]) {
    const { context, page } = await opened(t, browser, name, { colorScheme: "dark" });
    await page.emulateMedia({ media: "print" });
    await page.waitForTimeout(400);
    const fills = await page.evaluate(() => [...document.querySelectorAll("svg.picture text")].map((text) => text.getAttribute("fill")));
    t.check(`pictures of a page in dark print for white paper, ${name}`, fills.length > 0 && fills.every((fill) => !/^#(e4e8ec|a3adb8)$/i.test(fill ?? "")));
    await context.close();
  }
}

const TESTS = { sweep, rpcs, pair, without, print, phone, accessibility };

/** Runs all, or those that are named, with what the runner shares: `open`, `axe`, `check`. */
export async function documents(t, browser, names = []) {
  for (const [name, test] of Object.entries(TESTS)) if (!names.length || names.includes(name)) await test(t, browser);
}
