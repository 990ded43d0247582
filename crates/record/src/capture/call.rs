//! One call, from its last byte on.

use super::emit::{About, Out};
use super::rpc::Procedure;
use thalweg_trace::{ObjectId, RequestId, SpanKind, TrackId};

/// `result` of a call that was never answered: −ETIMEDOUT.
const UNANSWERED: i64 = -110;

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
}

impl Call {
    /// The span of a call that was never answered.
    pub(super) fn unanswered(&self, out: &mut Out, end_ns: i64) {
        let about = About {
            object: Some(self.object),
            size_bytes: Some(self.bytes),
            result: Some(UNANSWERED),
            request: Some(self.request),
            ..About::default()
        };
        out.span(self.track, SpanKind::RpcCall, self.posted_ns, end_ns.max(self.posted_ns), about);
    }
}
