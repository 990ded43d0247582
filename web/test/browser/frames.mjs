// Frame times while panning and zooming, from the browser's own trace: the time between DrawFrame events.

const percentile = (values, share) => values.sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * share))] ?? NaN;

/** Pans and zooms by wheel, one event a frame, from the whole run to a ten-thousandth and back. */
async function drive(page) {
  return page.evaluate(async () => {
    const body = document.querySelector(".lanes .body");
    body.focus();
    const box = body.getBoundingClientRect();
    const wheel = (deltaY, shiftKey) => body.dispatchEvent(new WheelEvent("wheel", { deltaY, shiftKey, ctrlKey: !shiftKey, clientX: box.left + box.width * 0.6, clientY: box.top + 50, bubbles: true, cancelable: true }));
    const frame = () => new Promise(requestAnimationFrame);
    const work = [];
    for (let round = 0; round < 2; round++) {
      for (const direction of [-1, 1]) {
        for (let i = 0; i < 60; i++) {
          wheel(direction * 26, false);
          if (i % 3 === 0) wheel(i % 2 ? 60 : -40, true);
          const before = performance.now();
          await frame();
          work.push(performance.now() - before);
        }
      }
    }
    return work;
  });
}

export async function frameTimes(browser, page) {
  await page.evaluate(() => {
    for (const button of document.querySelectorAll(".toolbar button")) if (button.textContent === "Unfold all") button.click();
  });
  await page.waitForTimeout(500);
  const lanes = await page.evaluate(() => document.querySelector(".lanes .names").childElementCount);
  await browser.startTracing(page, { categories: ["disabled-by-default-devtools.timeline.frame", "devtools.timeline.frame", "devtools.timeline"] });
  await drive(page);
  const trace = JSON.parse((await browser.stopTracing()).toString());
  const at = trace.traceEvents.filter((e) => e.name === "DrawFrame").map((e) => e.ts / 1000).sort((a, b) => a - b);
  const gaps = at.slice(1).map((t, i) => t - at[i]);
  const tasks = trace.traceEvents.filter((e) => e.name === "FireAnimationFrame" && e.tdur).map((e) => e.tdur / 1000);
  return { lanes, count: gaps.length, p50: percentile(gaps, 0.5)?.toFixed(1), p95: percentile(gaps, 0.95)?.toFixed(1), cpu: percentile(tasks, 0.95)?.toFixed(1) };
}
