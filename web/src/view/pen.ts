// What is drawn over the lanes, on the axis and in the legend is drawn with the part of a canvas's methods that both a canvas and an SVG
// picture have.

export type Pen = Pick<CanvasRenderingContext2D,
  "fillStyle" | "strokeStyle" | "lineWidth" | "globalAlpha" | "font" | "textBaseline" | "fillRect" | "strokeRect" | "fillText" | "strokeText" | "measureText" |
  "beginPath" | "moveTo" | "lineTo" | "closePath" | "arc" | "rect" | "fill" | "stroke" | "setLineDash">;

/** A part of the lanes that is drawn: its size, and how far down it begins. */
export interface Frame {
  ctx: Pen;
  width: number;
  height: number;
  top: number;
}
