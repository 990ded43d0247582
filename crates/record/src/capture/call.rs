//! An RPC from the last byte of its call on.

use super::counts::Counts;
use super::emit::{About, Out};
use super::rpc::Procedure;
use thalweg_trace::{ObjectId, RequestId, SpanKind, TrackId};

/// `result` of an unanswered call: −ETIMEDOUT.
const UNANSWERED: i64 = -110;

/// `result` of a call whose head or reply is missing from the capture, so that its duration is unknown: −ENODATA.
pub(super) const NOT_CAPTURED: i64 = -61;

/// A call awaiting its reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub request: RequestId,
    pub procedure: Procedure,
    pub object: ObjectId,
    pub track: TrackId,
    /// When its last byte was first sent.
    pub posted_ns: i64,
    pub sent_ns: i64,
    pub bytes: u64,
    /// When the capture missed replies of its connection, possibly its own.
    pub doubted_ns: Option<i64>,
    /// Number of later calls answered before it.
    pub overtaken: u32,
    /// Latest end of the wait: for a datagram, some time after it was last sent; on a connection, when that is closed
    /// or has been silent for long.
    pub until_ns: i64,
}

impl Call {
    /// Emits the span of a call whose reply was not seen before `end_ns`: it may have been missed, otherwise there
    /// was none.
    pub(super) fn without_answer(&self, counts: &mut Counts, out: &mut Out, end_ns: i64) {
        let (count, result, end_ns) = match self.doubted_ns {
            Some(doubted_ns) => (&mut counts.replies_not_captured, NOT_CAPTURED, doubted_ns),
            None => (&mut counts.unanswered, UNANSWERED, self.until_ns.min(end_ns)),
        };
        *count += 1;
        counts.rpc(self.posted_ns, end_ns.max(self.posted_ns));
        self.span(out, self.posted_ns, end_ns.max(self.posted_ns), 0, Some(result));
    }

    /// Emits the call's span.
    pub(super) fn span(&self, out: &mut Out, from_ns: i64, to_ns: i64, more_bytes: u64, result: Option<i64>) {
        let about = About {
            object: Some(self.object),
            size_bytes: Some(self.bytes + more_bytes),
            result,
            request: Some(self.request),
            ..About::default()
        };
        out.span(self.track, SpanKind::RpcCall, from_ns, to_ns, about);
    }
}
