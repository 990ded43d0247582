//! The look of a span: its kind and the state of its thread for most of it, in one byte.

use crate::picture::palette::Mostly;
use crate::picture::panel::mostly;
use thalweg_trace::{SpanBatch, SpanKind};

/// The state of a thread that a signal stopped, beside those of [`Mostly`].
const STOPPED: u8 = 3;

/// Packs a kind and a thread's state for most of the span.
pub(super) fn look(kind: SpanKind, mostly: Mostly) -> u8 {
    kind as u8 * 4 + mostly as u8
}

/// Returns the look of a recorded span.
pub(super) fn look_of(batch: &SpanBatch, row: usize) -> u8 {
    let kind = batch.kind[row];
    if batch.stopped_by(row).is_some() { kind as u8 * 4 + STOPPED } else { look(kind, mostly(batch, row)) }
}

/// Unpacks a kind and a state; `None`: stopped.
pub(super) fn looks_like(look: u8) -> (SpanKind, Option<Mostly>) {
    let mostly = [Some(Mostly::Ran), Some(Mostly::Blocked), Some(Mostly::Runnable), None][usize::from(look % 4)];
    (SpanKind::ALL[usize::from(look / 4)], mostly)
}
