//! Which writes to an open file the metadata service was not notified of.
//!
//! The service counts a change of a file when it is notified of a write. Another client that sees the new count takes what it reads from then on
//! for the file of that count, until the count changes again. So bytes are at the servers before they are counted: were they counted first, a
//! client could read the file without them, take what it has read for current, and never see them.
//!
//! A write-back therefore settles which writes it reports before it flushes. A write that comes later may not be part of the flush, and is left
//! to the next write-back.

use thalweg_base::sync::Mutex;
use thalweg_trace::Tracer;

/// See the module's page.
#[derive(Debug, Default)]
pub(crate) struct UnreportedWrites {
    ends: Mutex<Ends>,
    /// Held from before the flush until the service has answered: a thread that finds nothing to report must not go on while another reports.
    reporting: Mutex<()>,
}

/// Where the last byte ends of writes. `None`: there are no such writes.
#[derive(Debug, Default)]
struct Ends {
    /// Of those that no write-back has begun to report.
    noted: Option<u64>,
    /// Of those that a write-back is reporting.
    being_reported: Option<u64>,
}

impl UnreportedWrites {
    /// A write that ends there is in the buffer, or at the servers.
    pub(crate) fn note(&self, end: u64) {
        let mut ends = self.ends.lock();
        ends.noted = ends.noted.max(Some(end));
    }

    /// Whether there are any; those that are being reported count until the service has answered.
    pub(crate) fn any(&self) -> bool {
        let ends = self.ends.lock();
        ends.noted.is_some() || ends.being_reported.is_some()
    }

    /// Flushes, and then notifies the service of the writes that were noted before the flush, if there are any. `notify` is given where the last
    /// of them ends, and answers whether the service knows; if not, the next write-back reports them.
    pub(crate) fn report(&self, tracer: &mut Tracer, flush: impl FnOnce(&mut Tracer), notify: impl FnOnce(&mut Tracer, u64) -> bool) {
        let _alone = self.reporting.lock();
        let reported = {
            let mut ends = self.ends.lock();
            ends.being_reported = ends.noted.take();
            ends.being_reported
        };
        flush(tracer);
        let is_known = reported.is_none_or(|end| notify(tracer, end));
        let mut ends = self.ends.lock();
        ends.being_reported = None;
        if !is_known {
            ends.noted = ends.noted.max(reported);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes back without a failure: what was reported.
    fn reported(writes: &UnreportedWrites, flush: impl FnOnce()) -> Option<u64> {
        let mut reported = None;
        let notify = |_: &mut Tracer, end| {
            reported = Some(end);
            true
        };
        writes.report(&mut Tracer::off(), |_| flush(), notify);
        reported
    }

    #[test]
    fn a_write_during_a_flush_is_reported_after_the_next_flush() {
        let writes = UnreportedWrites::default();
        assert_eq!(reported(&writes, || writes.note(8)), None);
        writes.note(4);
        assert_eq!(reported(&writes, || writes.note(16)), Some(8));
        assert_eq!(reported(&writes, || {}), Some(16));
        assert_eq!(reported(&writes, || {}), None);
    }

    #[test]
    fn a_write_is_unreported_until_the_service_has_answered() {
        let writes = UnreportedWrites::default();
        writes.note(8);
        writes.report(&mut Tracer::off(), |_| assert!(writes.any()), |_, _| writes.any());
        assert!(!writes.any());
        assert_eq!(reported(&writes, || {}), None);
    }

    #[test]
    fn writes_that_the_service_could_not_be_notified_of_are_reported_with_the_next() {
        let writes = UnreportedWrites::default();
        writes.note(8);
        writes.report(&mut Tracer::off(), |_| writes.note(4), |_, _| false);
        assert_eq!(reported(&writes, || {}), Some(8));
    }
}
