//! What is gathered of questions as the recording goes by.

use super::overlap::Overlap;
use crate::cast::Cast;
use crate::cause::End;
use crate::feed::LiveSpan;
use crate::index::NONE;
use std::collections::HashMap;
use thalweg_trace::SpanKind;

/// Questions to more servers than this are only counted all together.
const MOST_SERVERS: usize = 256;

/// The questions of a recording.
#[derive(Debug, Default)]
pub struct Asking {
    /// Calls that the client says it made, all servers together.
    pub calls: Overlap,
    /// The same by server: what stands behind `>` in a connection's name, as its first connection's dense number.
    pub by_server: HashMap<u32, Overlap>,
    /// Times at which the client handed bytes to a connection.
    pub sends: u64,
    /// When it first did, and when it last took any.
    pub exchanging: Option<(i64, i64)>,
    /// Requests of all disks.
    pub disk: Overlap,
    /// Entries that the application's requests delivered.
    pub delivered: u64,
    /// Calls of programs for attributes; where each is recorded.
    pub attributes: u64,
    /// Waits of programs for a mount in user space.
    pub of_mount: Overlap,
    servers: HashMap<u32, u32>,
}

impl Asking {
    /// Tells of a span; of those of one thread or device, none before may end earlier.
    #[inline]
    pub fn note(&mut self, cast: &Cast, span: &LiveSpan) {
        match span.kind {
            SpanKind::RpcCall => self.call(cast, span),
            SpanKind::NetSend | SpanKind::NetReceive if span.bytes() > 0 => self.exchange(cast, span),
            SpanKind::AppRequest if is_directory(cast, span.object) => self.delivered += u64::from(span.count),
            SpanKind::FileStat | SpanKind::FileOpen | SpanKind::FileList => self.names(cast, span),
            SpanKind::DiskRead => self.disk.add(span.start, span.end),
            _ => {}
        }
    }

    fn call(&mut self, cast: &Cast, span: &LiveSpan) {
        if cast.actors[span.track as usize].end != End::Client {
            return;
        }
        self.calls.add(span.start, span.end);
        let server = self.server(cast, span.object);
        if self.by_server.len() < MOST_SERVERS || self.by_server.contains_key(&server) {
            self.by_server.entry(server).or_default().add(span.start, span.end);
        }
    }

    /// The first connection to the same server.
    fn server(&mut self, cast: &Cast, object: u32) -> u32 {
        let connection = cast.connection_of(object);
        if connection == NONE {
            return object;
        }
        let address = |c: u32| cast.connections[c as usize].split_once(" > ").map_or("", |n| n.1);
        *self.servers.entry(connection).or_insert_with(|| {
            let same = (0..=connection).find(|&c| address(c) == address(connection));
            same.unwrap_or(connection)
        })
    }

    fn exchange(&mut self, cast: &Cast, span: &LiveSpan) {
        let actor = &cast.actors[span.track as usize];
        if actor.end != End::Client || cast.connection_of(span.object) == NONE {
            return;
        }
        let (first, last) = self.exchanging.unwrap_or((i64::MAX, i64::MIN));
        let sends = span.kind == SpanKind::NetSend;
        self.sends += if sends { u64::from(span.count) } else { 0 };
        self.exchanging = Some(if sends { (first.min(span.start), last) } else { (first, last.max(span.end)) });
    }

    fn names(&mut self, cast: &Cast, span: &LiveSpan) {
        let actor = &cast.actors[span.track as usize];
        if actor.end != End::Client {
            return;
        }
        if span.kind == SpanKind::FileStat {
            self.attributes += u64::from(span.count);
        }
        let answered_by_mount = cast.actors.get(span.waker as usize).is_some_and(|waker| waker.mount);
        if !actor.mount && answered_by_mount {
            self.of_mount.add(span.start, span.end);
        }
    }
}

fn is_directory(cast: &Cast, object: u32) -> bool {
    cast.things.get(object as usize).is_some_and(|thing| thing.attribute("kind") == Some("directory"))
}
