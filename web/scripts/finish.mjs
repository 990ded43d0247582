// Makes the built file the page that Rust fills in: one script and one style with their hashes in a content security policy, and the three
// placeholders. Refuses a build in which one of these would not hold.

import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const target = resolve(here, "../../crates/report/page/page.html");
/** Rust replaces this by the hash of the still page's style element. */
const STATIC_STYLE = "'sha256-THALWEG_STATIC_STYLE'";
const PLACEHOLDERS = ["<!--thalweg:title-->", "<!--thalweg:static-->", "<!--thalweg:data-->"];

const hash = (text) => `'sha256-${createHash("sha256").update(text, "utf8").digest("base64")}'`;

function only(html, pattern, what) {
  const found = [...html.matchAll(pattern)];
  if (found.length !== 1) throw new Error(`expected one ${what} in the build, found ${found.length}`);
  return found[0];
}

const built = readFileSync(resolve(here, "../dist/index.html"), "utf8").replaceAll("\r\n", "\n");
const script = only(built, /<script[^>]*>([\s\S]*?)<\/script>/g, "script");
const style = only(built, /<style[^>]*>([\s\S]*?)<\/style>/g, "style");
const code = script[1].replaceAll("<!--", "\\x3C!--");
const rest = built.replace(script[0], () => "").replace(style[0], () => "");
const policy = [
  "default-src 'none'", `script-src ${hash(code)}`, `style-src ${hash(style[1])} ${STATIC_STYLE}`, "img-src data: blob:", "worker-src blob:",
  "base-uri 'none'", "form-action 'none'",
].join("; ");
const page = rest
  .replace('<meta charset="utf-8">', () => `<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="${policy}">`)
  .replace("</head>", () => `<style>${style[1]}</style>\n</head>`)
  .replace("</body>", () => `<script type="module">${code}</script>\n</body>`)
  .replace(/\n{2,}/g, "\n");

for (const placeholder of [...PLACEHOLDERS, STATIC_STYLE]) {
  if (page.split(placeholder).length !== 2) throw new Error(`${placeholder} must be in the page once`);
}
if (/ style="|\son[a-z]+="/.test(rest)) throw new Error("the policy refuses style attributes and inline handlers");
if (/(?:src|href)="(?!data:)/.test(rest)) throw new Error("the page must not load anything");
mkdirSync(dirname(target), { recursive: true });
writeFileSync(target, page);
console.log(`page.html: ${(Buffer.byteLength(page) / 1024).toFixed(0)} KiB, sha256 ${createHash("sha256").update(page).digest("hex").slice(0, 16)}`);
