// From base64 of deflate-raw to typed arrays. A plane is stored byte plane by byte plane: all lowest bytes first, then the next,
// because neighbours in time differ in their low bytes only and deflate finds the rest.

import type { Header, PlaneInfo } from "./header";

export type Plane = Uint8Array | Uint16Array | Uint32Array | Float64Array;
export type Planes = Record<string, Plane>;

const WIDTH = { u8: 1, u16: 2, u32: 4, f64: 8 } as const;

export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const native = (Uint8Array as unknown as { fromBase64?: (t: string) => Uint8Array<ArrayBuffer> }).fromBase64;
  if (native) return native.call(Uint8Array, text);
  const binary = atob(text.trim());
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

function narrow(bytes: Uint8Array, at: number, count: number, width: 2 | 4): Uint16Array | Uint32Array {
  const [first, second, third, fourth] = Array.from({ length: width }, (_, b) => bytes.subarray(at + b * count, at + (b + 1) * count));
  if (width === 2) {
    const out = new Uint16Array(count);
    for (let i = 0; i < count; i++) out[i] = first[i] | (second[i] << 8);
    return out;
  }
  const out = new Uint32Array(count);
  for (let i = 0; i < count; i++) out[i] = first[i] | (second[i] << 8) | (third[i] << 16) | (fourth[i] << 24);
  return out;
}

function doubles(bytes: Uint8Array, at: number, count: number): Float64Array {
  const raw = new Uint8Array(8 * count);
  for (let b = 0; b < 8; b++) {
    for (let i = 0; i < count; i++) raw[8 * i + b] = bytes[at + b * count + i];
  }
  return new Float64Array(raw.buffer);
}

export function planeBytes(plane: PlaneInfo): number {
  const width = WIDTH[plane.type];
  if (!width || !Number.isSafeInteger(plane.count) || plane.count < 0) throw new Error(`The plane ${plane.name} has no valid type or count.`);
  return width * plane.count;
}

/** Splits the inflated data into its planes, in the header's order. */
export function splitPlanes(infos: PlaneInfo[], bytes: Uint8Array): Planes {
  const planes: Planes = {};
  let at = 0;
  for (const info of infos) {
    const length = planeBytes(info);
    if (at + length > bytes.length) throw new Error(`The data ends within the plane ${info.name}: the file is cut short.`);
    if (info.type === "u8") planes[info.name] = bytes.slice(at, at + length);
    else if (info.type === "f64") planes[info.name] = doubles(bytes, at, info.count);
    else planes[info.name] = narrow(bytes, at, info.count, info.type === "u16" ? 2 : 4);
    at += length;
  }
  return planes;
}

/**
 * How many of the planes are enough for a first picture: those of the critical path and of the levels, which are first in the data. Of the
 * levels the coarse one is enough, if there is one.
 */
function forFirstPicture(infos: PlaneInfo[]): number {
  const last = infos.findIndex((info) => info.name === "first.area");
  if (last >= 0) return last + 1;
  let count = 0;
  while (count < infos.length && /^(path|level)\./.test(infos[count].name)) count++;
  return count;
}

/**
 * Inflates into one buffer of the size that the header gives. `first` gets the planes of the first picture as soon as they are there,
 * while the rest is still packed.
 */
async function inflatePlanes(infos: PlaneInfo[], packed: Uint8Array<ArrayBuffer>, first?: (planes: Planes) => void): Promise<Planes> {
  const bytes = new Uint8Array(infos.reduce((sum, info) => sum + planeBytes(info), 0));
  const count = forFirstPicture(infos);
  const enough = infos.slice(0, count).reduce((sum, info) => sum + planeBytes(info), 0);
  const reader = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw")).getReader();
  let at = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    // What is beyond the planes is not read.
    bytes.set(value.subarray(0, bytes.length - at), at);
    at = Math.min(bytes.length, at + value.length);
    if (!first || at < enough) continue;
    first(splitPlanes(infos.slice(0, count), bytes));
    first = undefined;
  }
  return splitPlanes(infos, bytes.subarray(0, at));
}

export async function decode(header: Header, base64: string, first?: (planes: Planes) => void): Promise<Planes> {
  if (!base64.trim()) return splitPlanes(header.planes, new Uint8Array(0));
  return inflatePlanes(header.planes, fromBase64(base64), first);
}
