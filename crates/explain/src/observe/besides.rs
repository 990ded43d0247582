//! Other clients of the servers that the command uses: their requests are not the command's, and may be what its servers work on.
//!
//! A client is another's if it was reached through a server and uses a server that the command uses as well. (A reached program that uses a
//! different server works for the command: a daemon that fetches for it.) A server's thread works for the client whose bytes it took last,
//! until it takes another's or waits.

use crate::cause::End;
use crate::limits::observe as limits;
use crate::observe::index::NONE;
use crate::observe::span::LiveSpan;
use crate::observe::tables::Tables;
use crate::waits::rules::is_idle_wait;
use foldhash::HashMap;
use std::collections::{BTreeMap, HashSet};
use thalweg_trace::SpanKind;

/// Servers' work for each connection, and its client.
#[derive(Debug, Default)]
pub(crate) struct Besides {
    /// By connection: a reached client's thread on it, or [`NONE`] if the command's own threads are.
    clients: HashMap<u32, u32>,
    /// By connection: the server's threads that worked for it, and for how long.
    worked: HashMap<u32, BTreeMap<u32, i64>>,
    /// By server thread: since when it did something other than the previous request's work, seen backward.
    until: HashMap<u32, i64>,
}

/// A client of another program at one of the command's servers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Beside {
    /// One of its threads.
    pub client: u32,
    /// Time the server worked for all such clients, in nanoseconds.
    pub others_ns: i64,
    /// Number of such clients.
    pub clients: u64,
    /// Time the server worked for any client, in ns.
    pub all_ns: i64,
}

impl Besides {
    /// Adds a span of a thread.
    #[inline]
    pub(crate) fn note(&mut self, tables: &Tables, span: &LiveSpan) {
        let actor = &tables.actors[span.track as usize];
        let moves = matches!(span.kind, SpanKind::NetSend | SpanKind::NetReceive) && span.bytes() > 0 && span.connection != NONE;
        if actor.end == End::Client && span.side == End::Client && moves {
            if self.clients.len() < limits::MOST_CONNECTIONS {
                let client = self.clients.entry(span.connection).or_insert(span.track);
                *client = if actor.reached { *client } else { NONE };
            }
        } else if actor.end == End::Server && moves && span.side == End::Server && span.kind == SpanKind::NetReceive {
            let until = self.until.insert(span.track, span.start);
            if self.worked.len() < limits::MOST_CONNECTIONS {
                let worked = self.worked.entry(span.connection).or_default().entry(span.track).or_default();
                *worked += until.map_or(0, |until| (until - span.end).max(0));
            }
        } else if actor.end == End::Server && is_idle_wait(span) {
            self.until.insert(span.track, span.start);
        }
    }

    /// Connections of other programs' clients to servers that the command's own threads use, too.
    pub(crate) fn connections(&self, tables: &Tables) -> HashSet<u32> {
        let server = |connection: u32| tables.ends(connection).map(|(_, server)| server);
        let own: HashSet<&str> = self.clients.iter().filter(|(_, client)| **client == NONE).filter_map(|(&c, _)| server(c)).collect();
        let others = self.clients.iter().filter(|(_, client)| **client != NONE).map(|(&connection, _)| connection);
        others.filter(|&connection| server(connection).is_some_and(|server| own.contains(server))).collect()
    }

    /// The other clients that a server's process worked for; the predicate selects its threads.
    pub(crate) fn at(&self, tables: &Tables, is_of_server: impl Fn(u32) -> bool) -> Option<Beside> {
        let others = self.connections(tables);
        let mut by_client: BTreeMap<Option<(u32, u32)>, (i64, u32)> = BTreeMap::new();
        let mut all_ns = 0;
        for (connection, worked) in &self.worked {
            let ns: i64 = worked.iter().filter(|(track, _)| is_of_server(**track)).map(|(_, ns)| ns).sum();
            all_ns += ns;
            if others.contains(connection) {
                let client = self.clients[connection];
                let sum = by_client.entry(tables.process(client)).or_insert((0, client));
                *sum = (sum.0 + ns, sum.1.min(client));
            }
        }
        let others_ns = by_client.values().map(|(ns, _)| ns).sum();
        let &(_, client) = by_client.values().max()?;
        Some(Beside { client, others_ns, clients: by_client.len() as u64, all_ns })
    }
}
