// Numbers for people, as the command prints them: three significant digits and the unit.

export function three(value: number): string {
  if (value >= 99.95) return value.toFixed(0);
  if (value >= 9.995) return value.toFixed(1);
  return value.toFixed(2);
}

export function duration(seconds: number): string {
  const s = Math.abs(seconds);
  if (s === 0) return "0 s";
  if (s < 999.5e-9) return `${(seconds * 1e9).toFixed(0)} ns`;
  if (s < 999.5e-6) return `${three(seconds * 1e6)} µs`;
  if (s < 0.9995) return `${three(seconds * 1e3)} ms`;
  if (s < 120) return `${three(seconds)} s`;
  const whole = (unit: number) => Math.round(s / unit);
  if (s < 7200) return `${Math.floor(whole(1) / 60)} min ${whole(1) % 60} s`;
  return `${Math.floor(whole(60) / 60)} h ${whole(60) % 60} min`;
}

/** An instant on the axis, with the digits that `step` needs. */
export function instant(seconds: number, step: number): string {
  if (step >= 60) return seconds === 0 ? "0 s" : duration(Math.round(seconds)).replace(" 0 s", "").replace(" 0 min", "");
  const [scale, unit] = step >= 0.1 || Math.abs(seconds) >= 1 ? [1, "s"] : step >= 1e-4 ? [1e3, "ms"] : [1e6, "µs"];
  const digits = Math.min(9, Math.max(0, -Math.floor(Math.log10(step * scale) + 1e-9)));
  return `${(seconds * scale).toFixed(digits)} ${unit}`;
}

export function bytes(n: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let u = 0;
  while (n >= 1023.5 && u < units.length - 1) [n, u] = [n / 1024, u + 1];
  return u === 0 ? `${Math.round(n)} B` : `${n >= 100 || Number.isInteger(n) ? n.toFixed(0) : n.toFixed(1)} ${units[u]}`;
}

export const rate = (bytesPerSecond: number): string => `${bytes(bytesPerSecond)}/s`;

export function percent(share: number): string {
  const p = share * 100;
  if (p > 0 && p < 1) return "under 1 %";
  return `${Math.round(p)} %`;
}

export function count(n: number): string {
  return n.toLocaleString("en-US");
}

export function quantity(value: number, unit: string): string {
  if (unit === "bytes") return bytes(value);
  if (unit === "bytes/s") return rate(value);
  if (unit === "share") return `${Math.round(value * 100)} % of the time`;
  if (unit === "us" || unit === "µs") return duration(value / 1e6);
  if (unit === "ns") return duration(value / 1e9);
  return `${Number.isInteger(value) ? count(value) : three(value)}${unit && unit !== "count" ? ` ${unit}` : ""}`;
}

const BIDI = /[\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]/g;
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g;

/**
 * A name from a recording as one line of visible text: control characters as pictures, direction marks as escapes, the middle of a long
 * name left out. Nothing here makes markup: names reach the page as text nodes only.
 */
export function shown(name: string, most = 160): string {
  let text = name.length > most ? `${name.slice(0, Math.ceil(most * 0.6))}…${name.slice(name.length - Math.floor(most * 0.4))}` : name;
  text = text.replace(CONTROL, (c) => {
    const code = c.charCodeAt(0);
    return code < 32 ? String.fromCharCode(0x2400 + code) : code === 127 ? "␡" : `\\u${code.toString(16).padStart(4, "0")}`;
  });
  return text.replace(BIDI, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
