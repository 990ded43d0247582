// node perfetto_reader.mjs PLAYWRIGHT UI TRACE...: asks Perfetto's own reader about traces.
//
// PLAYWRIGHT is the directory of playwright-core, UI that of Perfetto's UI (index.html and its wasm), CHROMIUM in the environment the
// browser. Standard input has the questions, a JSON object {NAME: SQL}; standard output gets one line of JSON for each trace, {NAME: [ROW...]}.
// Everything is served on the loopback interface, and the browser may ask for nothing else.

import fs from "node:fs";
import http from "node:http";
import { createRequire } from "node:module";
import path from "node:path";

const LOADED_MS = 120_000;
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".wasm": "application/wasm", ".json": "application/json" };
const [playwright, ui, ...traces] = process.argv.slice(2);

/** Serves the UI, and the traces as /trace/NUMBER. */
function serve(request, response) {
  const name = decodeURIComponent(new URL(request.url, "http://localhost").pathname);
  const number = /^\/trace\/(\d+)$/.exec(name);
  const file = number ? traces[Number(number[1])] : path.join(ui, path.normalize(name === "/" ? "/index.html" : name));
  fs.readFile(file ?? "", (error, bytes) => {
    const type = TYPES[path.extname(file ?? "")] ?? "application/octet-stream";
    response.writeHead(error ? 404 : 200, { "content-type": type });
    response.end(error ? undefined : bytes);
  });
}

/** In the page: the rows that answer each question. */
async function answers(questions) {
  const found = {};
  for (const [name, sql] of Object.entries(questions)) {
    const result = await self.app.trace.engine.query(sql);
    found[name] = [];
    for (const row = result.iter({}); row.valid(); row.next()) {
      const value = (column) => (typeof row.get(column) === "bigint" ? Number(row.get(column)) : row.get(column));
      found[name].push(Object.fromEntries(result.columns().map((column) => [column, value(column)])));
    }
  }
  return found;
}

const { chromium } = createRequire(import.meta.url)(playwright);
const questions = JSON.parse(fs.readFileSync(0, "utf8"));
const server = http.createServer(serve);
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const address = `127.0.0.1:${server.address().port}`;
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
try {
  for (const number of traces.keys()) {
    const page = await browser.newPage();
    await page.route((url) => url.host !== address, (route) => route.abort());
    await page.goto(`http://${address}/#!/?url=http://${address}/trace/${number}`);
    await page.waitForFunction(() => self.app?.trace?.engine, null, { timeout: LOADED_MS });
    console.log(JSON.stringify(await page.evaluate(answers, questions)));
    await page.close();
  }
} finally {
  await browser.close();
  server.close();
}
