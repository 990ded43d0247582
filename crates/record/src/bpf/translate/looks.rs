//! Polling calls of threads: calls that found nothing, each a zero-length span at its return, with its object and the
//! reason. For calls that wait, the path they were given.

use super::Translator;
use super::facts::Facts;
use super::output::NewSpan;
use super::syscalls::Call;
use crate::bpf::raw::{self, LookHead};
use crate::starting::is_of_starting;
use thalweg_trace::{ObjectId, ObjectKind, SpanKind};

/// The result of something that has not happened yet, where the kernel reports that without an error: it may have
/// when polled again.
const NOT_YET: i64 = -(libc::EAGAIN as i64);

impl Translator {
    /// Returns the full path of a lookup.
    fn path_of_look(&self, look: &LookHead, path: &[u8]) -> Option<String> {
        let path = String::from_utf8_lossy(path).into_owned();
        if path.starts_with('/') {
            return Some(path);
        }
        let directory = self.files.path_at(look.directory_device, look.directory)?;
        Some(format!("{}/{}", directory.trim_end_matches('/'), path.trim_start_matches("./")))
    }

    /// Handles a call that found nothing, or found what it had not found before; or a call that waits on a path.
    pub(super) fn look(&mut self, look: &LookHead, path: &[u8], facts: &mut dyn Facts) {
        let serial = look.head.thread;
        let whole =
            if path.is_empty() { None } else { self.path_of_look(look, path).or_else(|| Some(String::from_utf8_lossy(path).into())) };
        if look.flags & raw::LOOK_FAILED != 0 {
            let on_file = || self.files.path_at(look.file.device, look.file.id).map(str::to_owned);
            if let Some(pid) = self.threads.process_of(serial) {
                self.words.failed(look, self.calls.of(look.call), whole.or_else(on_file), pid);
            }
            return;
        }
        if look.flags & raw::LOOK_WAITS != 0 {
            self.threads.get(serial, &mut self.output).waits_at = whole.map(|path| (look.head.at_ns, path));
            return;
        }
        if whole.as_deref().is_some_and(is_of_starting) {
            return;
        }
        let Some(track) = self.threads.track(serial, &mut self.output) else { return };
        let Some((kind, object)) = self.looked_for(look, whole.as_deref(), facts) else { return };
        let mut span = NewSpan::new(track, kind, look.head.at_ns, look.head.at_ns);
        span.object = object;
        span.size_bytes = (kind == SpanKind::FileRead).then_some(0);
        span.result = Some(match kind {
            SpanKind::WaitLock if look.result == 0 && matches!(i64::from(look.call), libc::SYS_wait4 | libc::SYS_kill) => NOT_YET,
            _ => i64::from(look.result.min(0)),
        });
        self.output.span(span);
        self.looks += 1;
    }

    /// Returns the kind of a polling call's span, and its object.
    fn looked_for(&mut self, look: &LookHead, path: Option<&str>, facts: &mut dyn Facts) -> Option<(SpanKind, Option<ObjectId>)> {
        let call = self.calls.of(look.call);
        let kind = match call {
            Call::Open => SpanKind::FileOpen,
            Call::Stat => SpanKind::FileStat,
            Call::Read => SpanKind::FileRead,
            Call::Connect => SpanKind::NetConnect,
            Call::FileOther | Call::Truncate | Call::Remove | Call::Rename | Call::Create | Call::Execute => SpanKind::FileOther,
            _ => SpanKind::WaitLock,
        };
        let object = match (call, path) {
            (Call::Connect, Some(path)) => self.things.object(ObjectKind::Socket, &format!("unix:{path}"), &mut self.output),
            (_, Some(path)) => self.things.object(ObjectKind::File, path, &mut self.output),
            (Call::Read, None) => self.files.of(&look.file, facts, &mut self.output)?,
            _ => return Some((kind, self.lock_of_call(look.call, look.argument, &look.file, facts))),
        };
        Some((kind, Some(object)))
    }
}
