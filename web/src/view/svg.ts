// A pen that writes SVG: what is drawn on a canvas becomes elements, and text stays text.

import type { Pen } from "./pen";

const REPLACED: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

/** Text for XML: without the characters that XML 1.0 does not permit. */
export function xml(text: string): string {
  return text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd").replace(/[&<>"]/g, (c) => REPLACED[c]);
}

/** A coordinate with as many digits as a picture can show. */
export const digits = (n: number): string => (Number.isFinite(n) ? String(Math.round(n * 100) / 100) : "0");

const BASELINE: Record<string, string> = { middle: "central", top: "hanging", alphabetic: "alphabetic" };

export class SvgPen implements Pen {
  fillStyle: Pen["fillStyle"] = "#000000";
  strokeStyle: Pen["strokeStyle"] = "#000000";
  lineWidth = 1;
  globalAlpha = 1;
  font = "11px system-ui, sans-serif";
  textBaseline: CanvasTextBaseline = "alphabetic";
  private parts: string[] = [];
  private path = "";
  private dashes: number[] = [];
  private scale: CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D | null = null;

  /** Where what follows is drawn, relative to the picture, and what of it is visible. */
  part(x: number, y: number, clip: string, draw: () => void): void {
    this.parts.push(`<g transform="translate(${digits(x)} ${digits(y)})"${clip ? ` clip-path="url(#${clip})"` : ""}>`);
    draw();
    this.parts.push("</g>");
  }

  raw(markup: string): void {
    this.parts.push(markup);
  }

  measureText(text: string): TextMetrics {
    this.scale ??= new OffscreenCanvas(1, 1).getContext("2d");
    this.scale!.font = this.font;
    return this.scale!.measureText(text);
  }

  private get alpha(): string {
    return this.globalAlpha < 1 ? ` opacity="${digits(this.globalAlpha)}"` : "";
  }

  private get line(): string {
    const dash = this.dashes.length ? ` stroke-dasharray="${this.dashes.join(" ")}"` : "";
    return `fill="none" stroke="${xml(String(this.strokeStyle))}" stroke-width="${digits(this.lineWidth)}"${dash}${this.alpha}`;
  }

  setLineDash(dashes: number[]): void {
    this.dashes = [...dashes];
  }
  fillRect(x: number, y: number, w: number, h: number): void {
    if (w > 0 && h > 0) this.parts.push(`<rect x="${digits(x)}" y="${digits(y)}" width="${digits(w)}" height="${digits(h)}" fill="${xml(String(this.fillStyle))}"${this.alpha}/>`);
  }
  strokeRect(x: number, y: number, w: number, h: number): void {
    this.parts.push(`<rect x="${digits(x)}" y="${digits(y)}" width="${digits(w)}" height="${digits(h)}" ${this.line}/>`);
  }

  fillText(text: string, x: number, y: number, most?: number): void {
    this.letters(text, x, y, `fill="${xml(String(this.fillStyle))}"`, most);
  }

  strokeText(text: string, x: number, y: number, most?: number): void {
    this.letters(text, x, y, `fill="none" ${this.line}`, most);
  }

  private letters(text: string, x: number, y: number, ink: string, most?: number): void {
    const [, weight = "", size = "11"] = /^(\d{3} )?(\d+)px/.exec(this.font) ?? [];
    const wide = most !== undefined && this.measureText(text).width > most ? ` textLength="${digits(Math.max(1, most))}" lengthAdjust="spacingAndGlyphs"` : "";
    const bold = weight.trim() ? ` font-weight="${weight.trim()}"` : "";
    this.parts.push(`<text x="${digits(x)}" y="${digits(y)}" font-size="${size}"${bold} ${ink} dominant-baseline="${BASELINE[this.textBaseline] ?? "central"}"${wide}${this.alpha}>${xml(text)}</text>`);
  }

  beginPath(): void {
    this.path = "";
  }
  moveTo(x: number, y: number): void {
    this.path += `M${digits(x)} ${digits(y)}`;
  }
  lineTo(x: number, y: number): void {
    this.path += `L${digits(x)} ${digits(y)}`;
  }
  closePath(): void {
    this.path += "Z";
  }
  rect(x: number, y: number, w: number, h: number): void {
    this.path += `M${digits(x)} ${digits(y)}h${digits(w)}v${digits(h)}h${digits(-w)}z`;
  }
  /** Only whole circles are drawn. */
  arc(x: number, y: number, r: number): void {
    this.path += `M${digits(x - r)} ${digits(y)}a${digits(r)} ${digits(r)} 0 1 0 ${digits(2 * r)} 0a${digits(r)} ${digits(r)} 0 1 0 ${digits(-2 * r)} 0z`;
  }
  fill(): void {
    if (this.path) this.parts.push(`<path d="${this.path}" fill="${xml(String(this.fillStyle))}"${this.alpha}/>`);
  }
  stroke(): void {
    if (this.path) this.parts.push(`<path d="${this.path}" ${this.line}/>`);
  }

  /** The picture. `clips`: what is visible of parts, by name. */
  document(width: number, height: number, title: string, about: string, paper: string, clips: Record<string, [x: number, y: number, w: number, h: number]>): string {
    const defined = Object.entries(clips).map(([id, [x, y, w, h]]) => `<clipPath id="${id}"><rect x="${digits(x)}" y="${digits(y)}" width="${digits(w)}" height="${digits(h)}"/></clipPath>`).join("");
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${digits(width)}" height="${digits(height)}" viewBox="0 0 ${digits(width)} ${digits(height)}" font-family="system-ui, sans-serif" role="img">`
      + `<title>${xml(title)}</title><desc>${xml(about)}</desc><rect width="${digits(width)}" height="${digits(height)}" fill="${paper}"/><defs>${defined}</defs>${this.parts.join("\n")}</svg>\n`;
  }
}

/** The runs of equal colour of painted pixels, as one path for each colour; equal lines are one run. `sx`: width of a pixel. */
export function pixelPaths(pixels: Uint32Array, width: number, height: number, sx: number, paper: number): string {
  const paths = new Map<number, string[]>();
  for (let y = 0; y < height;) {
    const row = pixels.subarray(y * width, (y + 1) * width);
    let end = y + 1;
    while (end < height && same(pixels, y * width, end * width, width)) end++;
    for (let x = 0; x < width;) {
      const colour = row[x];
      const from = x++;
      while (x < width && row[x] === colour) x++;
      if (colour === paper) continue;
      let path = paths.get(colour);
      if (!path) paths.set(colour, (path = []));
      path.push(`M${digits(from * sx)} ${y}h${digits((x - from) * sx)}v${end - y}h${digits((from - x) * sx)}z`);
    }
    y = end;
  }
  const hex = (c: number) => `#${[c & 255, (c >> 8) & 255, (c >> 16) & 255].map((v) => v.toString(16).padStart(2, "0")).join("")}`;
  return [...paths].map(([colour, path]) => `<path fill="${hex(colour)}" d="${path.join("")}" shape-rendering="crispEdges"/>`).join("\n");
}

function same(pixels: Uint32Array, a: number, b: number, n: number): boolean {
  for (let i = 0; i < n; i++) if (pixels[a + i] !== pixels[b + i]) return false;
  return true;
}
