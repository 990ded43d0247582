//! Writes to an open file that were not reported to the metadata service.
//!
//! The service increments a file's change counter when a write is reported. Another client that sees the new counter takes the data it
//! reads for current until the counter changes again. So bytes must be at the servers before they are counted: otherwise a client could
//! read the file without them, consider its data current, and never see them.
//!
//! A write-back therefore decides which writes it reports before it flushes. A later write may not be part of the flush, and is left to
//! the next write-back.

use thalweg_base::sync::Mutex;
use thalweg_trace::Tracer;

/// Unreported writes of a file; see the module documentation.
#[derive(Debug, Default)]
pub(crate) struct UnreportedWrites {
    ends: Mutex<Ends>,
    /// Held from before the flush until the service has answered: a thread with nothing to report must wait while another reports.
    reporting: Mutex<()>,
}

/// End of the last byte written. `None`: no writes.
#[derive(Debug, Default)]
struct Ends {
    /// Writes that no write-back has begun to report.
    noted: Option<u64>,
    /// Writes that a write-back is reporting.
    being_reported: Option<u64>,
}

impl UnreportedWrites {
    /// Records a write ending at `end` that is buffered or at the servers.
    pub(crate) fn note(&self, end: u64) {
        let mut ends = self.ends.lock();
        ends.noted = ends.noted.max(Some(end));
    }

    /// Whether there are unreported writes, including those being reported.
    pub(crate) fn any(&self) -> bool {
        let ends = self.ends.lock();
        ends.noted.is_some() || ends.being_reported.is_some()
    }

    /// Flushes, then reports the writes noted before the flush, if any. `notify` gets the end of the last one, and returns whether the
    /// service was notified; if not, the next write-back reports them.
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

    /// Writes back successfully; returns what was reported.
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
