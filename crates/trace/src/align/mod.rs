//! Puts two recordings on one time axis, using the bytes that both ends of their connections saw.
//!
//! **The idea.** A byte cannot be received before it was sent. For positions in a connection's stream, each end says
//! when they had certainly *not yet* been sent, or had certainly been received ([`evidence`]). A byte from the
//! reference to the other host bounds the other's clock on one side, a byte in the other direction bounds it on the
//! other side; the remaining uncertainty is the path's least round trip, however much longer the delays were above
//! it. So only the least delays count (the *envelope*): queues, retransmissions and lost events loosen bounds and
//! never falsify them.
//!
//! **The fit.** Clocks drift. Over a stretch of about a minute the offset is taken as a line, and the lines that
//! satisfy all bounds form a convex polygon ([`fit`]); its centre is the estimate, its extent the error bar.
//! Stretches are joined at their ends, so the map is continuous. Bounds that contradict all others (a late timestamp,
//! a recorder's bug) are dropped while they are few; where the clock's rate changed, the stretch is cut; any
//! remaining contradiction widens the error bar.
//!
//! **Rejected:** mean delays and a regression line (queues on one way bias both), wall clocks (milliseconds off at
//! best), and asking the other host for its time (it is not there when two recordings are merged).

mod bounds;
mod evidence;
mod fit;

pub(crate) use bounds::Bounds;

use crate::{Axis, Clock, Source, Time, TraceError};
use std::ops::Range;

/// The relation of one recording's reference clock to another's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Alignment {
    /// Pieces of the map; their `host` is [`crate::HostId`] 0 of the aligned recording.
    pub clocks: Vec<Clock>,
    /// Interval with bounds, on the aligned clock. The error grows outside it.
    pub bounded: Range<i64>,
    /// Number of connections both recordings saw.
    pub connections: usize,
    /// Whether bounds came from one direction only, so that the error bar is based on an assumed delay rather than a measured one.
    pub one_way: bool,
    /// Bounds dropped because they contradicted the others.
    pub contradictions: usize,
    /// Size of the contradiction among the remaining bounds.
    pub contradicted_by_ns: u64,
}

/// Returns the largest error of the pieces that begin within an interval.
pub(crate) fn largest_error_ns(clocks: &[Clock], within: &Range<i64>) -> u64 {
    let begins = |clock: &&Clock| clock.from_ns == within.start || (clock.from_ns > within.start && clock.from_ns < within.end);
    clocks.iter().filter(begins).map(|clock| clock.error_ns).max().unwrap_or(0)
}

/// Delay assumed for a direction without bounds.
const ASSUMED_DELAY_NS: i64 = 10_000_000;

/// Aligns `other` with `reference`, whose times `axis` maps to the target axis (as those of host 0). Returns `None`
/// if the recordings share no connection with stream positions.
///
/// # Errors
/// A recording cannot be read, or the temporary directory (`TMPDIR`) cannot be written.
pub(crate) fn align(reference: &dyn Source, axis: &Axis, other: &dyn Source) -> Result<Option<Alignment>, TraceError> {
    let (bounds, connections) = evidence::gather(reference, axis, other)?;
    let meta = other.meta();
    let covers = meta.start.ns()..meta.end.map_or(i64::MIN, Time::ns);
    Ok(align_bounds(&bounds, covers).map(|alignment| Alignment { connections, ..alignment }))
}

/// Collects bounds on `other`'s clock relative to the reference's own, from the bytes both saw.
pub(crate) fn seen_by_both(reference: &dyn Source, other: &dyn Source) -> Result<Bounds, TraceError> {
    Ok(evidence::gather(reference, &Axis::default(), other)?.0)
}

/// Aligns by known bounds; `None` if there are none. `covers` is the interval the map must hold for, on the aligned
/// clock.
pub(crate) fn align_bounds(bounds: &Bounds, covers: Range<i64>) -> Option<Alignment> {
    let one_way = bounds.is_one_way();
    let limits = bounds.limits(ASSUMED_DELAY_NS);
    let bounded = limits.first()?.at_ns..limits.last()?.at_ns;
    let (clocks, contradictions, contradicted_by_ns) = fit::fit(&limits, covers)?;
    Some(Alignment { clocks, bounded, connections: 0, one_way, contradictions, contradicted_by_ns })
}

/// Returns the names of a recording's connections, sorted.
pub(crate) fn connections(source: &dyn Source) -> Vec<String> {
    let of_kind = source.objects().iter().filter(|o| o.kind == crate::ObjectKind::Connection);
    let names: std::collections::BTreeSet<String> = of_kind.map(|o| o.name.clone()).collect();
    names.into_iter().collect()
}

#[cfg(test)]
mod tests;
