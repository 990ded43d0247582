// How series are told apart: by colour (Okabe and Ito's, readable on the page's paper), by dash and by the form of the point.

import type { Pair } from "../palette";

export const COLOURS: Pair[] = [
  ["#0072B2", "#56A8E8"], ["#B85000", "#F0803C"], ["#00795A", "#25C295"], ["#7B4FA3", "#B68BE0"], ["#7A6A00", "#D0BC3A"], ["#B3001B", "#FF7A8A"],
  ["#46566B", "#A9BBD3"], ["#A0527F", "#DD93BE"],
];
export const DASHES = ["", "7 3", "2 3", "9 3 2 3", "1 4", "12 4"];
const FORMS = ["M-4 0A4 4 0 1 0 4 0A4 4 0 1 0 -4 0Z", "M-3.6 -3.6H3.6V3.6H-3.6Z", "M0 -5L5 4H-5Z", "M0 -5.4L5.4 0L0 5.4L-5.4 0Z", "M0 5L5 -4H-5Z", "M-4.5 -1.5H-1.5V-4.5H1.5V-1.5H4.5V1.5H1.5V4.5H-1.5V1.5H-4.5Z"];

export interface Look {
  colour: string;
  dash: string;
  form: string;
}

/** The look of the n-th series; the same one has the same look in each picture. */
export function look(n: number, dark: boolean): Look {
  return { colour: COLOURS[n % COLOURS.length][dark ? 1 : 0], dash: DASHES[n % DASHES.length], form: FORMS[n % FORMS.length] };
}

/** Shades for a magnitude, from little to much. */
const LITTLE: Pair = ["#e8eef5", "#1f2a36"];
const MUCH: Pair = ["#0b4f8a", "#7cc0ff"];

export function shade(level: number, dark: boolean): string {
  const side = dark ? 1 : 0;
  const channels = (hex: string) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  const [from, to] = [channels(LITTLE[side]), channels(MUCH[side])];
  return `#${from.map((v, i) => Math.round(v + (to[i] - v) * Math.min(1, Math.max(0, level))).toString(16).padStart(2, "0")).join("")}`;
}

/** About how wide a text of 12 px is. */
export const textWidth = (text: string, size = 12): number => text.length * size * 0.56;

export function fitted(text: string, width: number, size = 12): string {
  const most = Math.floor(width / (size * 0.56));
  return text.length <= most ? text : most < 3 ? "" : `${text.slice(0, most - 1)}…`;
}
