//! Waits for resolver programs on this machine, at their sockets: recordings do not contain what is asked there.

use crate::cause::End;
use crate::limits::observe as limits;
use crate::observe::span::LiveSpan;
use crate::observe::tables::Tables;
use thalweg_trace::{ObjectKind, SpanKind};

/// Suffixes of such sockets' paths: nscd's (and unscd's and nsncd's), systemd-resolved's, Avahi's, and that of SSSD's lookups.
const PATHS: [&str; 5] = ["/nscd/socket", "/io.systemd.Resolve", "/io.systemd.Resolve.Monitor", "/avahi-daemon/socket", "/sss/pipes/nss"];

/// The waits: thread, object, start and end.
#[derive(Debug, Default)]
pub(crate) struct Resolvers {
    /// Latest first.
    pub waits: Vec<(u32, u32, i64, i64)>,
}

impl Resolvers {
    /// Adds a wait.
    pub(crate) fn note(&mut self, tables: &Tables, span: &LiveSpan) {
        let at = |object: &crate::observe::tables::Object| {
            object.kind == ObjectKind::Socket && PATHS.iter().any(|path| object.name.ends_with(path))
        };
        let is_wait = matches!(span.kind, SpanKind::WaitLock | SpanKind::WaitNetwork);
        let is_own = tables.actors[span.track as usize].end == End::Client;
        if is_wait && is_own && self.waits.len() < limits::MOST_QUESTIONS && tables.objects.get(span.object as usize).is_some_and(at) {
            self.waits.push((span.track, span.object, span.start, span.end));
        }
    }
}
