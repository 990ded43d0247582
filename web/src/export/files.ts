// Pictures and tables as files. Every view saves through these, so that a file has its colours and its background whatever shows it.

export function save(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** A title as a file's name, without its extension. */
export function stem(title: string): string {
  const words = title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "");
  return words.slice(0, 60).replace(/-+$/, "") || "picture";
}

const SVG = "http://www.w3.org/2000/svg";

/** An SVG element as a document of its own, on a background. Its colours must be attributes: the page's style is not part of the file. */
export function svgText(element: SVGSVGElement, paper: string): string {
  const copy = element.cloneNode(true) as SVGSVGElement;
  const { width, height } = element.viewBox.baseVal;
  copy.setAttribute("xmlns", SVG);
  copy.setAttribute("width", String(width));
  copy.setAttribute("height", String(height));
  copy.removeAttribute("class");
  copy.removeAttribute("style");
  const ground = document.createElementNS(SVG, "rect");
  for (const [name, value] of Object.entries({ width, height, fill: paper })) ground.setAttribute(name, String(value));
  copy.insertBefore(ground, copy.firstChild);
  return new XMLSerializer().serializeToString(copy);
}

export const saveSvg = (text: string, name: string): void => save(new Blob([text], { type: "image/svg+xml" }), name);

/** Draws an SVG document at twice its size. */
export async function savePngOf(text: string, width: number, height: number, name: string): Promise<void> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [Math.round(width * 2), Math.round(height * 2)];
  canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
  canvas.toBlob((blob) => blob && save(blob, name), "image/png");
}

/** A cell that a spreadsheet takes as text: quoted, and never a formula. */
export function cell(value: string | number): string {
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export interface Table {
  columns: string[];
  rows: (string | number)[][];
}

export const csvText = (table: Table): string => `${[table.columns, ...table.rows].map((row) => row.map(cell).join(",")).join("\r\n")}\r\n`;

/** Saves a table as NAME.csv. */
export const saveTable = (name: string, table: Table): void => save(new Blob([csvText(table)], { type: "text/csv" }), `${name}.csv`);
