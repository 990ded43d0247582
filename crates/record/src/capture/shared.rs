//! State shared by the connections of a capture: output, counts, the servers' procedures, and calls that outlived
//! their connection.

use super::call::Call;
use super::counts::Counts;
use super::emit::Out;
use super::frame::End;
use super::rpc::Procedure;
use std::collections::HashMap;
use thalweg_trace::{ObjectId, ObjectKind};

/// Maximum calls kept of ended connections.
const MOST_ORPHANS: usize = 1 << 16;

/// Maximum age of a call matched on another connection: clients reconnect at least every 5 min.
const ORPHAN_NS: i64 = 900_000_000_000;

/// Maximum bytes held beyond gaps, over all connections, ...
const MOST_HELD_BYTES: usize = 128 << 20;

/// ... and by one of them.
const HELD_BYTES: usize = 1 << 20;

/// Name of a call whose head was not captured.
const NOT_KNOWN: &str = "head not captured";

/// State shared by connections.
pub(super) struct Shared {
    pub out: Out,
    pub counts: Counts,
    pub held_bytes: usize,
    procedures: HashMap<(End, Option<Procedure>, bool), ObjectId>,
    orphans: HashMap<(u128, End, u32), Call>,
}

impl Shared {
    pub(super) fn new(out: Out) -> Shared {
        Shared { out, counts: Counts::default(), held_bytes: 0, procedures: HashMap::new(), orphans: HashMap::new() }
    }

    /// Returns how much a connection that holds `its` bytes may hold.
    pub(super) fn room(&self, its: usize) -> usize {
        if self.held_bytes >= MOST_HELD_BYTES { its.min(HELD_BYTES / 16) } else { HELD_BYTES }
    }

    /// Returns the object of a server's procedure, or of an unknown one for `None`. `callback`: the server calls, its
    /// client answers.
    pub(super) fn procedure(&mut self, server: End, procedure: Option<Procedure>, callback: bool) -> ObjectId {
        let key = (server, procedure, callback);
        if let Some(&object) = self.procedures.get(&key) {
            return object;
        }
        if self.procedures.len() >= MOST_ORPHANS {
            // Only fuzzed input reaches this many.
            self.procedures.clear();
        }
        let mut attributes = match procedure {
            Some(p) => vec![("program", p.program_name()), ("version", p.version.to_string()), ("procedure", p.name())],
            None => vec![("procedure", NOT_KNOWN.to_owned())],
        };
        if callback {
            attributes.push(("callback", "true".to_owned()));
        }
        let object = self.out.object(ObjectKind::Server, server.to_string(), &attributes);
        self.procedures.insert(key, object);
        object
    }

    /// Takes a call that was not answered on another connection between the same hosts.
    pub(super) fn orphan(&mut self, client_ip: u128, server: End, (xid, procedure): (u32, Procedure), at_ns: i64) -> Option<Call> {
        let key = (client_ip, server, xid);
        self.orphans.get(&key).filter(|call| call.procedure == procedure && at_ns.saturating_sub(call.sent_ns) <= ORPHAN_NS)?;
        self.orphans.remove(&key)
    }

    /// Remembers a call whose connection has ended.
    pub(super) fn keep_orphan(&mut self, client_ip: u128, server: End, xid: u32, call: Call) {
        let dropped = match self.orphans.len() < MOST_ORPHANS {
            true => self.orphans.insert((client_ip, server, xid), call),
            false => Some(call),
        };
        if let Some(call) = dropped {
            let last_ns = self.counts.last_ns;
            call.without_answer(&mut self.counts, &mut self.out, last_ns);
        }
    }

    /// Ends all orphans as unanswered at the end of the capture.
    pub(super) fn end_orphans(&mut self) {
        let mut calls: Vec<Call> = self.orphans.drain().map(|(_, call)| call).collect();
        calls.sort_by_key(|call| (call.posted_ns, call.request));
        let last_ns = self.counts.last_ns;
        calls.iter().for_each(|call| call.without_answer(&mut self.counts, &mut self.out, last_ns));
    }
}
