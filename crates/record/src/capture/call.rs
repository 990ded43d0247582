//! One call, from its last byte on.

use super::counts::Counts;
use super::emit::{About, Out};
use super::rpc::Procedure;
use thalweg_trace::{ObjectId, RequestId, SpanKind, TrackId};

/// `result` of a call that was never answered: −ETIMEDOUT.
const UNANSWERED: i64 = -110;

/// `result` of a call of which the capture lacks the head or the reply, so that its length is not known: −ENODATA.
pub(super) const NOT_CAPTURED: i64 = -61;

/// A call that is waiting for its answer.
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
    /// When the capture lacked replies of its connection, its own perhaps among them.
    pub doubted_ns: Option<i64>,
    /// Calls posted after that which were answered before it.
    pub overtaken: u32,
    /// Until when it can be waited for at the longest: of a datagram for a while after it was last sent; on a connection until that is closed, or
    /// nothing is heard of it.
    pub until_ns: i64,
}

impl Call {
    /// The span of a call whose answer was not seen before `end_ns`: because it was not captured, where that may be, else because there was none.
    pub(super) fn without_answer(&self, counts: &mut Counts, out: &mut Out, end_ns: i64) {
        let (count, result, end_ns) = match self.doubted_ns {
            Some(doubted_ns) => (&mut counts.replies_not_captured, NOT_CAPTURED, doubted_ns),
            None => (&mut counts.unanswered, UNANSWERED, self.until_ns.min(end_ns)),
        };
        *count += 1;
        counts.rpc(self.posted_ns, end_ns.max(self.posted_ns));
        self.span(out, self.posted_ns, end_ns.max(self.posted_ns), 0, Some(result));
    }

    /// Its span.
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
