//! A strip: the spans on one horizontal line of the picture, in memory independent of the number of spans.
//!
//! Spans come in order of descending end. A span that is wide enough is kept as a bar, on the first row whose leftmost bar begins after it
//! ends; in backward order that needs the fewest rows, and puts enclosing spans above enclosed ones. A narrower span only adds to the
//! coverage of its pixel columns, where the classes are stacked, each as high as its part of the column's time. So a strip never holds
//! more than (width / narrowest bar) bars per row, and one number for each column and class.

use super::canvas::{Canvas, Path};
use super::palette::{CLASSES, SpanClass, cause_style, is_hatched};
use thalweg_explain::Cause;

/// A bar, in pixels from the strip's left end.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bar {
    left: f32,
    right: f32,
    row: u8,
    class: u8,
}

/// A strip; see the module.
#[derive(Clone, Debug)]
pub(crate) struct Strip {
    width: f64,
    narrowest: f64,
    column: f64,
    classes: usize,
    max_rows: usize,
    /// One thread's part of the full height.
    share: f32,
    bars: Vec<Bar>,
    /// The leftmost edge of each row so far.
    frontier: Vec<f64>,
    /// Coverage, `classes` numbers per column; empty until there is any.
    coverage: Vec<f32>,
    seen: u64,
}

/// The parameters of a strip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StripShape {
    /// In pixels.
    pub width: f64,
    /// Minimum width of a bar; `f64::INFINITY` for coverage only.
    pub narrowest: f64,
    /// Width of a column of coverage, in pixels.
    pub column: f64,
    /// Number of classes.
    pub classes: usize,
    /// Maximum number of rows (≥ 1).
    pub max_rows: usize,
    /// Number of threads on the strip (≥ 1): full height means that all work.
    pub threads: usize,
}

impl Strip {
    /// Returns an empty strip.
    pub(crate) fn new(shape: StripShape) -> Strip {
        Strip {
            width: shape.width,
            narrowest: shape.narrowest,
            column: shape.column,
            classes: shape.classes,
            max_rows: shape.max_rows.max(1),
            share: 1.0 / shape.threads.max(1) as f32,
            bars: Vec::new(),
            frontier: Vec::new(),
            coverage: Vec::new(),
            seen: 0,
        }
    }

    /// Whether no span was added.
    pub(crate) fn is_empty(&self) -> bool {
        self.seen == 0
    }

    /// Returns the number of rows, at least 1.
    pub(crate) fn rows(&self) -> usize {
        self.frontier.len().max(1)
    }

    /// Adds a span from `left` to `right` in pixels, clipped to the strip. Returns its row if it became a bar, `None` if it was added to
    /// the coverage.
    pub(crate) fn add(&mut self, left: f64, right: f64, class: usize) -> Option<usize> {
        let (left, right) = (left.max(0.0), right.min(self.width));
        if right < left || left >= self.width || right <= 0.0 && left < 0.0 {
            return None;
        }
        self.seen += 1;
        if right - left < self.narrowest {
            self.cover(left, right, class);
            return None;
        }
        // Adjacent spans touch; rounding must not make them overlap.
        const TOUCH: f64 = 0.02;
        let row = match self.frontier.iter().position(|edge| right <= edge + TOUCH) {
            Some(row) => row,
            None if self.frontier.len() < self.max_rows => {
                self.frontier.push(f64::INFINITY);
                self.frontier.len() - 1
            }
            None => self.max_rows - 1,
        };
        self.frontier[row] = self.frontier[row].min(left);
        self.bars.push(Bar { left: left as f32, right: right as f32, row: row as u8, class: class as u8 });
        Some(row)
    }

    fn columns(&self) -> usize {
        (self.width / self.column).ceil() as usize
    }

    fn cover(&mut self, left: f64, right: f64, class: usize) {
        let columns = self.columns();
        if self.coverage.is_empty() {
            self.coverage = vec![0.0; columns * self.classes];
        }
        let first = ((left / self.column) as usize).min(columns - 1);
        let last = ((right / self.column) as usize).min(columns - 1);
        for column in first..=last {
            let begin = (column as f64 * self.column).max(left);
            let end = ((column + 1) as f64 * self.column).min(right);
            self.coverage[column * self.classes + class] += ((end - begin).max(0.0) / self.column) as f32 * self.share;
        }
    }

    /// Draws it with its upper left corner at (x, y) and rows of `row_height`.
    pub(crate) fn draw(&self, canvas: &mut Canvas, x: f64, y: f64, row_height: f64, fill: &dyn Fn(usize) -> Fill) {
        let height = row_height * self.rows() as f64;
        for class in 0..self.classes {
            let fill = fill(class);
            let mut path = if fill.thin { Path::default() } else { self.coverage_path(class, height) };
            for bar in self.bars.iter().filter(|b| usize::from(b.class) == class) {
                let top = f64::from(bar.row) * row_height;
                let gap = if row_height > 6.0 { 1.0 } else { 0.5 };
                let wide = f64::from(bar.right - bar.left);
                let wide = if wide > 4.0 && !fill.thin { wide - 0.5 } else { wide };
                let (top, high) = if fill.thin { (top + (row_height - THIN) / 2.0, THIN) } else { (top, row_height - gap) };
                path.rectangle(f64::from(bar.left), top, wide, high);
            }
            if !path.is_empty() {
                canvas.path(x, y, &path, fill.colour);
                if !fill.pattern.is_empty() {
                    canvas.path(x, y, &path, fill.pattern);
                }
            }
        }
    }

    /// Returns a class's part of the coverage: steps from column to column, above those of earlier classes.
    fn coverage_path(&self, class: usize, height: f64) -> Path {
        let mut path = Path::default();
        if self.coverage.is_empty() {
            return path;
        }
        let mut run: Vec<(f64, f64, f64, f64)> = Vec::new();
        for column in 0..self.columns() {
            let parts = &self.coverage[column * self.classes..][..self.classes];
            let whole = parts.iter().sum::<f32>().max(1.0);
            let level = |sum: f32| (f64::from(sum / whole) * height * 2.0).round() / 2.0;
            let below: f32 = parts[..class].iter().sum();
            let (bottom, top) = (height - level(below), height - level(below + parts[class]));
            let left = column as f64 * self.column;
            let right = (left + self.column).min(self.width);
            if bottom - top <= 0.0 {
                path.steps(&run);
                run.clear();
                continue;
            }
            match run.last_mut() {
                Some(last) if last.2 == top && last.3 == bottom => last.1 = right,
                _ => run.push((left, right, top, bottom)),
            }
        }
        path.steps(&run);
        path
    }

    /// Returns the bars at least `width` wide: left, right and row.
    pub(crate) fn wide_bars(&self, width: f64) -> impl Iterator<Item = (f64, f64, usize)> {
        let wide = move |b: &&Bar| f64::from(b.right - b.left) >= width;
        self.bars.iter().filter(wide).map(|b| (f64::from(b.left), f64::from(b.right), usize::from(b.class)))
    }
}

/// The fill of a class.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fill {
    /// Its colour.
    pub colour: &'static str,
    /// The pattern drawn over it, as a paint; empty for none.
    pub pattern: &'static str,
    /// Whether it is a thin line, which is not drawn as coverage.
    pub thin: bool,
}

/// Returns how a cause is drawn.
pub(super) fn cause_fill(cause: Cause) -> Fill {
    let pattern = if is_hatched(cause) { "url(#server)" } else { "" };
    Fill { colour: cause_style(cause).colour, pattern, thin: false }
}

/// Returns how a class of spans is drawn.
pub(super) fn class_fill(class: usize) -> Fill {
    let pattern = if class == SpanClass::Stopped as usize { "url(#stop)" } else { "" };
    Fill { colour: CLASSES[class].colour, pattern, thin: CLASSES[class].thin }
}

/// Height of a thin line.
const THIN: f64 = 2.5;

#[cfg(test)]
mod tests {
    use super::*;

    fn strip() -> Strip {
        Strip::new(StripShape { width: 100.0, narrowest: 2.0, column: 1.0, classes: 2, max_rows: 3, threads: 1 })
    }

    #[test]
    fn overlapping_spans_get_rows_of_their_own_and_neighbours_share_one() {
        let mut s = strip();
        assert_eq!(s.add(0.0, 90.0, 0), Some(0));
        assert_eq!(s.add(60.0, 80.0, 1), Some(1));
        assert_eq!(s.add(40.0, 60.0, 1), Some(1));
        assert_eq!(s.add(10.0, 50.0, 1), Some(2));
        assert_eq!(s.add(0.0, 45.0, 1), Some(2), "the last row takes what has no room");
        assert_eq!(s.rows(), 3);
    }

    #[test]
    fn what_is_narrow_becomes_coverage_and_memory_stays_bounded() {
        let mut s = strip();
        for i in (0..200_000).rev() {
            let left = f64::from(i) * 100.0 / 200_000.0;
            assert_eq!(s.add(left, left + 100.0 / 200_000.0 * 0.5, 1), None);
        }
        assert_eq!((s.bars.len(), s.coverage.len()), (0, 200));
        let column = &s.coverage[100..102];
        assert!(column[0] == 0.0 && (column[1] - 0.5).abs() < 0.01, "half of the time: {column:?}");
    }

    #[test]
    fn what_lies_outside_is_cut_off() {
        let mut s = strip();
        s.add(-50.0, -1.0, 0);
        s.add(101.0, 150.0, 0);
        assert!(s.is_empty());
        s.add(-50.0, 150.0, 0);
        assert_eq!(s.wide_bars(100.0).collect::<Vec<_>>(), [(0.0, 100.0, 0)]);
    }

    #[test]
    fn a_folded_lane_is_full_only_when_all_of_its_threads_are_busy() {
        let shape = StripShape { width: 10.0, narrowest: f64::INFINITY, column: 1.0, classes: 1, max_rows: 1, threads: 4 };
        let mut s = Strip::new(shape);
        s.add(0.0, 10.0, 0);
        assert!(s.coverage.iter().all(|c| (c - 0.25).abs() < 1e-6));
    }
}
