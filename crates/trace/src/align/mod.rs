//! Puts two recordings on one time axis, by the bytes that both ends of their connections saw.
//!
//! **The idea.** A byte cannot be received before it was sent. Each end says of positions in a connection's stream when they
//! had certainly *not yet* been sent, or had certainly been received ([`evidence`]). A byte that goes from the reference to the
//! other host bounds the other's clock from one side, a byte that goes back bounds it from the other side; what lies between
//! is known to within the path's least round trip, however the delays were spread above it. So only the least delays count
//! (the *envelope*): queues, retransmissions and lost events loosen bounds and never falsify them.
//!
//! **The fit.** Clocks drift. Over a stretch of about a minute an offset is taken as a line, and the lines that keep all bounds
//! form a convex polygon ([`fit`]); its centre is the estimate, its extent the error bar. Stretches are joined at their ends, so
//! that the map is continuous. Bounds that contradict all others (a stamp that was taken late, a recorder's bug) are dropped
//! while they are few; where the clock itself was bent, the stretch is cut; what is left of a contradiction widens the error bar.
//!
//! **Rejected:** averages of delays (queues on one way bias them), a regression line (the same), wall clocks (milliseconds off
//! at best), and asking the other host for its time (there is nobody to ask when two recordings meet).

mod bounds;
mod evidence;
mod fit;

pub(crate) use bounds::Bounds;

use crate::{Axis, Clock, Source, Time, TraceError};
use std::ops::Range;

/// How one recording's reference clock stands to another's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Alignment {
    /// Pieces of the map; their `host` is [`crate::HostId`] 0 of the recording that was aligned.
    pub clocks: Vec<Clock>,
    /// Between which instants (of the clock that was aligned) there were bounds. Outside of it the error grows.
    pub bounded: Range<i64>,
    /// How many connections both recordings saw.
    pub connections: usize,
    /// Bounds came from one direction only: the error bar rests on an assumed delay, not on a measured one.
    pub one_way: bool,
    /// Bounds that contradicted the others, and were dropped.
    pub contradictions: usize,
    /// By how much those that are left contradict each other.
    pub contradicted_by_ns: u64,
}

/// The largest error of the pieces that begin within an interval.
pub(crate) fn largest_error_ns(clocks: &[Clock], within: &Range<i64>) -> u64 {
    let begins = |clock: &&Clock| clock.from_ns == within.start || (clock.from_ns > within.start && clock.from_ns < within.end);
    clocks.iter().filter(begins).map(|clock| clock.error_ns).max().unwrap_or(0)
}

/// What is assumed of the way for which nothing was seen, where all bounds come from the other.
const ASSUMED_DELAY_NS: i64 = 10_000_000;

/// Aligns `other` with `reference`, whose times `axis` puts where they are to be (as those of host 0).
///
/// `None`: no connection was seen by both with positions in its stream.
///
/// # Errors
/// A recording cannot be read, or the temporary directory (`TMPDIR`) takes nothing.
pub(crate) fn align(reference: &dyn Source, axis: &Axis, other: &dyn Source) -> Result<Option<Alignment>, TraceError> {
    let (bounds, connections) = evidence::gather(reference, axis, other)?;
    let meta = other.meta();
    let covers = meta.start.ns()..meta.end.map_or(i64::MIN, Time::ns);
    Ok(align_bounds(&bounds, covers).map(|alignment| Alignment { connections, ..alignment }))
}

/// What the bytes that both saw say of how `other`'s clock stands to the reference's own.
pub(crate) fn seen_by_both(reference: &dyn Source, other: &dyn Source) -> Result<Bounds, TraceError> {
    Ok(evidence::gather(reference, &Axis::default(), other)?.0)
}

/// Aligns by bounds that are known already; `None` where there are none. `covers`: what the map is to hold for, on the clock that is aligned.
pub(crate) fn align_bounds(bounds: &Bounds, covers: Range<i64>) -> Option<Alignment> {
    let one_way = bounds.is_one_way();
    let limits = bounds.limits(ASSUMED_DELAY_NS);
    let bounded = limits.first()?.at_ns..limits.last()?.at_ns;
    let (clocks, contradictions, contradicted_by_ns) = fit::fit(&limits, covers)?;
    Some(Alignment { clocks, bounded, connections: 0, one_way, contradictions, contradicted_by_ns })
}

/// The connections of a recording, by name, in order.
pub(crate) fn connections(source: &dyn Source) -> Vec<String> {
    let of_kind = source.objects().iter().filter(|o| o.kind == crate::ObjectKind::Connection);
    let names: std::collections::BTreeSet<String> = of_kind.map(|o| o.name.clone()).collect();
    names.into_iter().collect()
}

#[cfg(test)]
mod tests;
