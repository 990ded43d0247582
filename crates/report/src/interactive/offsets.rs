//! The offsets of spans in their objects: 48 bits, in two planes.

use super::planes::Planes;
use super::spans::Drawn;
use thalweg_trace::ABSENT;

/// Marks a span without an offset; offsets from here on are left out.
const NO_OFFSET: u64 = (1 << 48) - 1;

/// Adds the offsets, if any span has one.
pub(super) fn add(planes: &mut Planes, spans: &[Drawn]) {
    if spans.iter().all(|span| span.offset == ABSENT) {
        return;
    }
    let offset = |span: &Drawn| span.offset.min(NO_OFFSET);
    planes.add("span.offset_low", spans, |span| (offset(span) as u32).to_le_bytes());
    planes.add("span.offset_high", spans, |span| ((offset(span) >> 32) as u16).to_le_bytes());
}
