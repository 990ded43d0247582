//! Draws messages between MPI ranks as arrows between lanes, if there are few enough to distinguish.

use super::canvas::{Canvas, Path};
use super::lanes::{LaneKind, Plan};
use std::collections::HashMap;
use thalweg_trace::SpanBatch;
use thalweg_trace::{RequestId, SpanKind};

/// Maximum number of arrows drawn.
const MOST_ARROWS: usize = 160;
/// Maximum number of messages kept.
const MOST_KEPT: usize = 20_000;
const COLOUR: &str = "#1B2430";

/// A message: where it was posted and where it arrived.
#[derive(Clone, Copy, Debug, Default)]
struct Message {
    /// Lane and pixels from the left.
    from: Option<(usize, f64)>,
    to: Option<(usize, f64)>,
}

/// The messages of a panel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Messages {
    known: HashMap<u64, Message>,
    too_many: bool,
}

impl Messages {
    /// Adds row `row` of a batch, from `left` to `right` pixels of the panel.
    pub(crate) fn add(&mut self, plan: &Plan, batch: &SpanBatch, row: usize, (left, right): (f64, f64)) {
        let (kind, request) = (batch.kind[row], batch.request[row]);
        if !matches!(kind, SpanKind::MpiSend | SpanKind::MpiReceive) || request < RequestId::COMMON || self.too_many {
            return;
        }
        let Some(&lane) = plan.of_track.get(&batch.track[row]).filter(|lane| plan.lanes[**lane].kind == LaneKind::Track) else { return };
        if self.known.len() >= MOST_KEPT {
            self.too_many = true;
            return;
        }
        let message = self.known.entry(request).or_default();
        match kind {
            // The first of a message's spans at its sender is its posting.
            SpanKind::MpiSend if message.from.is_none_or(|(_, x)| left < x) => message.from = Some((lane, left)),
            SpanKind::MpiReceive if message.to.is_none_or(|(_, x)| right > x) => message.to = Some((lane, right)),
            _ => {}
        }
    }

    fn arrows(&self) -> Vec<((usize, f64), (usize, f64))> {
        let whole = self.known.values().filter_map(|message| Some((message.from?, message.to?)));
        let mut arrows: Vec<_> = whole.filter(|(from, to)| from.0 != to.0).collect();
        arrows.sort_by(|a, b| a.0.1.total_cmp(&b.0.1).then(a.0.0.cmp(&b.0.0)).then(a.1.0.cmp(&b.1.0)));
        arrows
    }

    /// Draws them over the lanes, whose middles are in `height_of`; `left` is the panel's left edge. Returns the number of messages if they
    /// are too many to draw.
    pub(crate) fn draw(&self, canvas: &mut Canvas, left: f64, height_of: &HashMap<usize, f64>) -> Option<usize> {
        let arrows = self.arrows();
        if self.too_many || arrows.len() > MOST_ARROWS {
            return Some(arrows.len());
        }
        for ((from, from_x), (to, to_x)) in arrows {
            let (Some(&from_y), Some(&to_y)) = (height_of.get(&from), height_of.get(&to)) else { continue };
            let (start, end) = ((left + from_x, from_y), (left + to_x, to_y));
            canvas.line(start, end, COLOUR, "");
            let length = (end.0 - start.0).hypot(end.1 - start.1).max(1e-6);
            let (along, across) = ((end.0 - start.0) / length, (end.1 - start.1) / length);
            let corner = |back: f64, aside: f64| (-along * back - across * aside, -across * back + along * aside);
            let mut head = Path::default();
            head.polygon(&[(0.0, 0.0), corner(6.0, 2.2), corner(6.0, -2.2)]);
            canvas.path(end.0, end.1, &head, COLOUR);
        }
        None
    }
}
