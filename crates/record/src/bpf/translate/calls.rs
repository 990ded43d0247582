//! System calls, if each is traced (tier `syscall`): a span for each, or for a run of them.

use super::Translator;
use super::facts::Facts;
use super::files::is_file;
use super::output::NewSpan;
use super::syscalls::Call;
use super::threads::Slot;
use crate::bpf::raw::{self, FdObject};
use thalweg_trace::SpanKind;

impl Translator {
    /// Translates merged system calls.
    pub(super) fn call(&mut self, call: &raw::Call, facts: &mut dyn Facts) {
        let Some((slot, track)) = self.thread(call.head.thread) else { return };
        let parent = self.threads[slot].call.take_if(|_| call.blocked != 0);
        let Some(kind) = self.kind_of_call(call.call, &call.file).or(parent.as_ref().map(|blocked| blocked.kind)) else { return };
        let (start_ns, end_ns) = self.place_of(call, slot);
        let mut span = NewSpan::new(track, kind, start_ns, end_ns);
        span.count = call.count;
        span.result = Some(call.result);
        span.object = if raw::socket_is_tcp(&call.file[0]) {
            self.connections.object(call.file[0].id, &mut self.output)
        } else {
            self.files.of(&call.file[0], facts, &mut self.output)
        };
        if matches!(kind, SpanKind::FileRead | SpanKind::FileWrite | SpanKind::NetSend | SpanKind::NetReceive) {
            span.size_bytes = Some(call.bytes);
            span.offset_bytes = (call.offset_bytes != u64::MAX).then_some(call.offset_bytes);
        }
        span.cpu_ns = (call.blocked == 0).then_some(call.busy_ns);
        match parent {
            Some(blocked) => {
                span.cpu_ns = Some(call.busy_ns.saturating_sub(blocked.off_ns));
                self.output.span_with(blocked.span, span);
            }
            None => drop(self.output.span(span)),
        }
    }

    /// Returns a call's interval; for a run of calls that alternated with others, an interval of their total length
    /// after the previous run's.
    fn place_of(&mut self, call: &raw::Call, thread: Slot) -> (u64, u64) {
        let end_ns = call.head.at_ns;
        if call.count == 1 || call.blocked != 0 {
            return (call.start_ns, end_ns);
        }
        let laid = &mut self.threads[thread].laid_until_ns;
        let latest = end_ns.saturating_sub(call.busy_ns).max(call.start_ns);
        let start_ns = call.start_ns.max(*laid).min(latest);
        *laid = (start_ns + call.busy_ns).min(end_ns);
        (start_ns, *laid)
    }

    /// Returns the kind of a traced call's span; `None` if it has none.
    pub(super) fn kind_of_call(&self, call: i32, files: &[FdObject; 2]) -> Option<SpanKind> {
        let tcp = raw::socket_is_tcp(&files[0]);
        let file = is_file(&files[0]);
        Some(match self.calls.of(call) {
            Call::Read if tcp => SpanKind::NetReceive,
            Call::Write if tcp => SpanKind::NetSend,
            Call::Read if file => SpanKind::FileRead,
            Call::Write if file => SpanKind::FileWrite,
            Call::SendFile if tcp => SpanKind::NetSend,
            Call::SendFile => SpanKind::FileWrite,
            Call::Between if raw::socket_is_tcp(&files[1]) => SpanKind::NetSend,
            Call::Between if tcp => SpanKind::NetReceive,
            Call::Between if file => SpanKind::FileWrite,
            Call::Sync | Call::MapSync => SpanKind::FileSync,
            Call::Open => SpanKind::FileOpen,
            Call::Stat => SpanKind::FileStat,
            Call::List => SpanKind::FileList,
            Call::Close if file => SpanKind::FileClose,
            Call::Truncate => SpanKind::FileTruncate,
            Call::Remove => SpanKind::FileRemove,
            Call::Rename => SpanKind::FileRename,
            Call::Create => SpanKind::FileCreate,
            Call::Execute | Call::FileOther => SpanKind::FileOther,
            Call::Receive if tcp => SpanKind::NetReceive,
            Call::Send if tcp => SpanKind::NetSend,
            Call::Connect => SpanKind::NetConnect,
            _ => return None,
        })
    }
}
