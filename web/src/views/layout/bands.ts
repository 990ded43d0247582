// What is drawn of a file: a band for each program or server that moved its bytes, with time across and the offset up.

import { offsetOf, type Recording } from "../../data/recording";
import { placesOf } from "../../view/names";
import { SLICE, type Work } from "../shared/work";
import { direction, isWithin, type Moved, type Wanted } from "./objects";

export interface Band {
  /** Which program or server. */
  place: string;
  object: number;
  name: string;
  /** Spans in order of lane and start. */
  spans: Uint32Array;
  read: number;
  written: number;
  /** The first byte, and one past the last, of all bands: their scale is the same. */
  begin: number;
  end: number;
}

/** Bands drawn; the ones with the most bytes. */
const MOST = 16;

export function* bandsOf(r: Recording, chosen: Moved[], w: Wanted): Work<Band[]> {
  const places = placesOf(r.header);
  const objects = new Map(chosen.map((m) => [m.object, m]));
  const found = new Map<string, Band & { list: number[] }>();
  const { size, object, lane } = r.span;
  for (let i = 0; i < size.length; i++) {
    if (i % SLICE === 0) yield;
    const moved = isWithin(r, i, w) ? objects.get(object[i]) : undefined;
    if (!moved || offsetOf(r, i) < 0) continue;
    const way = direction(r, i);
    if (!way) continue;
    const key = `${object[i]} ${places[lane[i]]}`;
    let band = found.get(key);
    if (!band) found.set(key, (band = { place: places[lane[i]], object: object[i], name: moved.name, spans: new Uint32Array(0), read: 0, written: 0, begin: 0, end: 0, list: [] }));
    band.list.push(i);
    if (way === 1) band.read += size[i];
    else band.written += size[i];
  }
  const end = chosen.reduce((n, m) => Math.max(n, m.end), 1);
  const least = chosen.reduce((n, m) => Math.min(n, m.begin), Infinity);
  // From the object's beginning, unless what was moved is a small part far into it.
  const begin = least > (end - least) ? least : 0;
  const bands = [...found.values()].sort((x, y) => y.read + y.written - (x.read + x.written)).slice(0, MOST);
  return bands.map(({ list, ...band }) => ({ ...band, begin, end, spans: Uint32Array.from(list) })).sort((x, y) => x.name.localeCompare(y.name) || x.place.localeCompare(y.place));
}

/** Which parts of the object a band's reads (writes) touched, as shares of each of `count` parts. */
export function touched(r: Recording, band: Band, count: number): [reads: Float32Array, writes: Float32Array] {
  const out: [Float32Array, Float32Array] = [new Float32Array(count), new Float32Array(count)];
  const width = (band.end - band.begin) / count;
  for (const i of band.spans) {
    const offset = offsetOf(r, i);
    const into = out[direction(r, i) - 1];
    const [from, to] = [(offset - band.begin) / width, (offset - band.begin + r.span.size[i]) / width];
    for (let k = Math.floor(from); k < Math.min(count, to); k++) into[k] += Math.min(to, k + 1) - Math.max(from, k);
  }
  return out;
}
