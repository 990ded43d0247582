//! A span with dense numbers, and what it shows of its thread.

use crate::cause::End;
use crate::observe::index::NONE;
use crate::observe::tables::Tables;
use thalweg_trace::{ABSENT, ABSENT_CONTEXT};
use thalweg_trace::{SpanKind, WakerContext};

/// `EAGAIN`: nothing there yet.
pub(crate) const EAGAIN: i32 = 11;

/// A span with dense identifiers. Absent identifiers are [`NONE`] or 0; absent numbers [`ABSENT`].
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub(crate) struct LiveSpan {
    pub start: i64,
    pub end: i64,
    pub id: u64,
    pub parent: u64,
    pub request: u64,
    pub cpu_ns: u64,
    pub runqueue_ns: u64,
    pub offset_bytes: u64,
    pub size_bytes: u64,
    pub track: u32,
    pub object: u32,
    pub connection: u32,
    /// The side of the connection its thread is on: the caller or the called, whatever the thread's role. A proxy is server on one
    /// connection and client on the next.
    pub side: End,
    /// The thread that ended it, or, for `wait.runqueue`, that held the processor meanwhile.
    pub waker: u32,
    /// The device whose request's completion ended it.
    pub device: u32,
    /// Its return value, if it fits: bytes, 0, or −errno; 0 if absent.
    pub result: i32,
    pub count: u32,
    pub kind: SpanKind,
    /// The context in which it ended; [`ABSENT_CONTEXT`] if not recorded.
    pub context: u8,
}

impl LiveSpan {
    /// Whether the span was inferred, not recorded.
    pub(crate) fn is_made_up(&self) -> bool {
        self.id == 0
    }

    /// Its length, ≥ 0.
    pub(crate) fn duration_ns(&self) -> u64 {
        u64::try_from(self.end.saturating_sub(self.start)).unwrap_or(0)
    }

    /// Whether the thread itself was in it. Spans that were only observed (an RPC in progress beside other work, a queued request) say
    /// nothing of the thread's activity.
    pub(crate) fn is_activity(&self) -> bool {
        match self.kind {
            SpanKind::RpcCall => self.cpu_ns != ABSENT,
            SpanKind::RpcQueue => false,
            _ => true,
        }
    }

    /// Whether the span consists of other spans: its own time is the remainder.
    pub(crate) fn is_container(&self) -> bool {
        matches!(self.kind, SpanKind::AppRequest | SpanKind::RpcServe | SpanKind::RpcCall) || is_mpi(self.kind)
    }

    /// Times it was running, runnable, and blocked; `None` if unknown.
    pub(crate) fn division(&self) -> Option<(u64, u64, u64)> {
        if self.is_fruitless() {
            return Some((0, 0, self.duration_ns()));
        }
        if self.cpu_ns == ABSENT {
            return None;
        }
        let all = self.duration_ns();
        let cpu = self.cpu_ns.min(all);
        let runqueue = if self.runqueue_ns == ABSENT { 0 } else { self.runqueue_ns.min(all - cpu) };
        Some((cpu, runqueue, all - cpu - runqueue))
    }

    /// Whether the recorder saw how the wait ended. Then stops, timers and queueing have spans of their own, and need not be inferred.
    pub(crate) fn ending_seen(&self) -> bool {
        self.context != ABSENT_CONTEXT
    }

    /// Whether a packet ended it.
    pub(crate) fn is_by_packet(&self) -> bool {
        self.context == WakerContext::Softirq as u8
    }

    /// Whether a thread ended it.
    pub(crate) fn is_by_task(&self) -> bool {
        self.context == WakerContext::Task as u8
    }

    /// Whether a timer ended it.
    pub(crate) fn timed_out(&self) -> bool {
        self.context == WakerContext::Timer as u8
    }

    /// Whether the span is a timed wait for any event that ended at its timeout: a fruitless poll, or a pause.
    pub(crate) fn may_be_in_vain(&self) -> bool {
        let for_anything = matches!(self.kind, SpanKind::WaitNetwork | SpanKind::WaitLock);
        self.timed_out() && for_anything && self.connection == NONE && self.waker == NONE
    }

    /// Whether the span polled repeatedly for missing bytes: a wait, at full speed.
    pub(crate) fn is_fruitless(&self) -> bool {
        self.kind == SpanKind::NetReceive && self.result == -EAGAIN
    }

    /// Whether the thread acts for its program here: it moves bytes, or makes a call on a file or a connection. (A fault on a page of a
    /// file does not count, and has no bytes.)
    pub(crate) fn is_deed(&self) -> bool {
        use SpanKind as K;
        match self.kind {
            K::NetSend | K::NetReceive | K::FileRead | K::FileWrite => self.bytes() > 0 && !self.is_fruitless(),
            K::WaitLock => self.start == self.end && self.object != NONE,
            K::NetConnect | K::FileOpen | K::FileSync | K::FileStat | K::FileList | K::FileClose | K::FileOther => true,
            K::FileTruncate | K::FileRemove | K::FileRename | K::FileCreate => true,
            _ => false,
        }
    }

    /// Its payload bytes.
    pub(crate) fn bytes(&self) -> u64 {
        if self.size_bytes == ABSENT { 0 } else { self.size_bytes }
    }
}

/// Whether a span is of MPI.
pub(crate) fn is_mpi(kind: SpanKind) -> bool {
    use SpanKind as K;
    matches!(
        kind,
        K::MpiIo | K::MpiMessage | K::MpiCollective | K::MpiWait | K::MpiOther | K::MpiSend | K::MpiReceive | K::MpiRead | K::MpiWrite
    )
}

/// Receives every span once, as it is read.
pub(crate) trait Observer {
    /// Announces more spans: afterwards, every span that ends after this has come; all of them, if it is `i64::MIN`.
    fn begins(&mut self, _until: i64) {}
    /// A span, in order of descending end.
    fn span(&mut self, tables: &Tables, span: &LiveSpan);
    /// Called when the announced spans have come.
    fn ends(&mut self, _tables: &Tables) {}
}
