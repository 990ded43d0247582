// The views in the tabs: keys, links, what a click leads to, accessibility, a phone's width.

import { readFileSync } from "node:fs";

const VIEWS = { striped: ["time", "latency", "gaps", "layout", "profile"], small: ["time", "latency", "gaps"] };

const settled = (page, id) => page.waitForSelector(id === "time" ? ".lanes canvas.layer" : `#view > section.${id} .astable, #view > section.${id} h3`, { timeout: 60_000 });
const focusFirst = (page, selector) => page.evaluate((s) => document.querySelector(s).focus(), selector);

async function tabs(browser, { open, check }) {
  const { context, page } = await open(browser, "striped");
  await settled(page, "time");
  const ids = () => page.evaluate(() => [...document.querySelectorAll('[role="tab"]')].map((t) => t.id.replace("tab-", "")));
  check("each view with data has a tab", (await ids()).filter((id) => VIEWS.striped.includes(id)).join() === VIEWS.striped.join(), (await ids()).join());
  await focusFirst(page, "#tab-time");
  await page.keyboard.press("ArrowRight");
  await settled(page, "latency");
  check("the right arrow chooses the next tab and keeps the focus there", await page.evaluate(() => document.activeElement?.id === "tab-latency" && document.activeElement.getAttribute("aria-selected") === "true"));
  check("the address names the view", page.url().includes("view=latency"), page.url().slice(-30));
  await page.keyboard.press("End");
  await page.keyboard.press("Home");
  await settled(page, "time");
  check("Home chooses the first tab, which needs no name in the address", !page.url().includes("view="));
  await context.close();
  const small = await open(browser, "small", {}, "#view=layout");
  await settled(small.page, "time");
  check("a view without data has no tab, and its link opens the first view", (await small.page.locator("#tab-layout").count()) === 0 && (await small.page.locator("#tab-time[aria-selected=true]").count()) === 1);
  await small.context.close();
}

async function accessibility(browser, { open, check, axe }) {
  for (const name of ["striped", "hostile"]) {
    for (const colorScheme of ["light", "dark"]) {
      const { context, page, seen } = await open(browser, name, { colorScheme });
      await settled(page, "time");
      for (const id of name === "striped" ? VIEWS.striped.slice(1) : ["latency", "gaps"]) {
        await page.click(`#tab-${id}`);
        await settled(page, id);
        await page.evaluate(() => document.querySelectorAll("#view details").forEach((d) => (d.open = true)));
        await page.waitForTimeout(200);
        await axe(page, `${id} of ${name}, ${colorScheme}`);
      }
      check(`no request and no error in the views of ${name}, ${colorScheme}`, seen.requests.length + seen.errors.length === 0, [...seen.requests, ...seen.errors].join("; "));
      await context.close();
    }
  }
}

async function leads(browser, { open, check }) {
  const { context, page } = await open(browser, "striped", {}, "#view=latency");
  await settled(page, "latency");
  await focusFirst(page, ".histogram");
  const text = () => page.evaluate(() => document.activeElement.getAttribute("aria-valuetext"));
  const before = await text();
  await page.keyboard.press("Home");
  await page.keyboard.press("End");
  check("a histogram is read bin by bin", /\d+ spans?, .* together/.test(before) && /together/.test(await text()), before);
  await page.keyboard.press("Enter");
  await page.waitForSelector("#span-title");
  check("Enter on a bin shows its longest span on the time axis", await page.evaluate(() => document.querySelector("#tab-time").getAttribute("aria-selected") === "true"));
  await page.click("#tab-gaps");
  await settled(page, "gaps");
  check("gaps say their cause and their period", /the client computed.*one every 4 MiB and every 24\.8 ms/.test(await page.locator(".lead").textContent()), await page.locator(".lead").textContent());
  await focusFirst(page, ".scatter");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#selection-title");
  await page.click("#tab-gaps");
  await settled(page, "gaps");
  check("a selected interval limits every view", /1 gap\b/.test(await page.locator(".lead").textContent()), await page.locator(".stripline").textContent());
  await page.getByRole("button", { name: "Whole run" }).click();
  await page.waitForFunction(() => /15 gaps/.test(document.querySelector(".lead").textContent));
  await focusFirst(page, ".striparea");
  await page.keyboard.press("ArrowRight");
  await page.waitForFunction(() => /^Only/.test(document.querySelector(".stripline strong").textContent));
  check("keys select an interval, too", page.url().includes("s="), page.url());
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => /whole run/.test(document.querySelector(".stripline strong").textContent));
  await context.close();
}

async function plots(browser, { open, check }) {
  const { context, page } = await open(browser, "striped", {}, "#view=profile");
  await settled(page, "profile");
  await page.waitForSelector(".flame canvas");
  await focusFirst(page, ".flame");
  for (const key of ["ArrowDown", "ArrowDown"]) await page.keyboard.press(key);
  const about = () => page.locator(".flameabout").textContent();
  await page.waitForFunction(() => !/^all programs/.test(document.querySelector(".flameabout").textContent));
  const chosen = await about();
  await page.keyboard.press("Enter");
  check("keys go through the flame graph and zoom", /samples|ms|µs/.test(chosen) && (await page.getByRole("button", { name: "Whole graph (Backspace)" }).count()) === 1, chosen);
  await page.keyboard.press("Backspace");
  await page.getByRole("searchbox", { name: "Find a function" }).fill("checksum");
  await page.waitForFunction(() => /25 %/.test(document.querySelector("#view .toolbar [role=status]").textContent));
  check("search says how much matches", true);
  await page.getByRole("radio", { name: /waiting/ }).check();
  await page.waitForFunction(() => /folio|waits/.test(document.querySelector("#view").textContent));
  await focusFirst(page, ".flame");
  for (let i = 0; i < 9; i++) await page.keyboard.press("ArrowDown");
  await page.waitForFunction(() => /disk/.test(document.querySelector(".flameabout").textContent));
  await page.getByRole("button", { name: "Show its longest wait" }).click();
  await page.waitForSelector("#span-title");
  check("a wait in the flame graph leads to the time axis", /wait\.disk/.test(await page.locator(".panel dl").first().textContent()));
  await page.click("#tab-layout");
  await settled(page, "layout");
  check("datafiles of one file are shown together", (await page.locator(".band").count()) === 2, await page.locator(".lead").textContent());
  await page.getByRole("button", { name: "file /data/source" }).click();
  await page.waitForFunction(() => /each byte 1\.5 times/.test(document.querySelector(".lead").textContent));
  await page.locator(".astable summary").first().click();
  const [csv] = await Promise.all([page.waitForEvent("download"), page.locator(".astable button").first().click()]);
  check("a plot's figures are in a table and in CSV", readFileSync(await csv.path(), "utf8").startsWith("program or server,object,operation,offset_bytes") && (await page.locator(".astable table tbody tr").count()) > 20);
  await context.close();
}

async function phone(browser, { open, check }) {
  for (const name of ["striped", "hostile"]) {
    const { context, page } = await open(browser, name, { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
    await settled(page, "time");
    for (const id of name === "striped" ? VIEWS.striped.slice(1) : ["latency", "gaps"]) {
      await page.click(`#tab-${id}`);
      await settled(page, id);
      await page.waitForTimeout(150);
      check(`${id} of ${name} is not wider than a phone`, await page.evaluate(() => document.documentElement.scrollWidth <= 390), await page.evaluate(() => document.documentElement.scrollWidth));
    }
    await context.close();
  }
}

async function many(browser, { open, check }) {
  const { context, page, seen } = await open(browser, "3m");
  await settled(page, "time");
  for (const id of ["latency", "gaps", "time"]) {
    const took = await page.evaluate(async (tab) => {
      // How long the page did not draw while the view was made.
      let [longest, last, live] = [0, performance.now(), true];
      const begun = last;
      const tick = () => {
        const now = performance.now();
        [longest, last] = [Math.max(longest, now - last), now];
        if (live) requestAnimationFrame(tick);
      };
      requestAnimationFrame(tick);
      document.getElementById(`tab-${tab}`).click();
      const there = () => (tab === "time" ? document.querySelector(".lanes canvas.layer") : document.querySelector(`#view > section.${tab} .astable`));
      while (!there()) await new Promise((next) => setTimeout(next, 5));
      live = false;
      return [performance.now() - begun, longest];
    }, id);
    console.log(`     3m: ${id} is there after ${took[0].toFixed(0)} ms; the longest pause between frames ${took[1].toFixed(0)} ms`);
  }
  check("no error in the views of 3 million spans", seen.errors.length === 0, seen.errors.join("; "));
  await context.close();
}

export async function viewTests(browser, tools) {
  for (const test of [tabs, accessibility, leads, plots, phone, many]) await test(browser, tools);
}
