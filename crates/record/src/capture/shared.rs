//! What the connections of a capture share: where rows go, what is counted, the servers' procedures, and calls that outlived their
//! connection.

use super::call::Call;
use super::counts::Counts;
use super::emit::Out;
use super::frame::End;
use super::rpc::Procedure;
use std::collections::HashMap;
use thalweg_trace::{ObjectId, ObjectKind};

/// Calls of ended connections that are remembered.
const MOST_ORPHANS: usize = 1 << 16;

/// A call that was sent longer ago is no other's: clients whose connection broke connect again every 5 min at the latest.
const ORPHAN_NS: i64 = 900_000_000_000;

/// Bytes beyond holes that all connections together keep.
const MOST_HELD_BYTES: usize = 128 << 20;

/// ... and one of them.
const HELD_BYTES: usize = 1 << 20;

/// What a call is called whose head was not captured.
const NOT_KNOWN: &str = "head not captured";

/// What connections share.
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

    /// How much a connection that holds `its` bytes may hold.
    pub(super) fn room(&self, its: usize) -> usize {
        if self.held_bytes >= MOST_HELD_BYTES { its.min(HELD_BYTES / 16) } else { HELD_BYTES }
    }

    /// The row of a server's procedure; of one that is not known, where there is none. `callback`: the server calls, its client answers.
    pub(super) fn procedure(&mut self, server: End, procedure: Option<Procedure>, callback: bool) -> ObjectId {
        let key = (server, procedure, callback);
        if let Some(&object) = self.procedures.get(&key) {
            return object;
        }
        if self.procedures.len() >= MOST_ORPHANS {
            // Nobody has so many; fuzzed input does.
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

    /// A call that another connection between the same two was not answered.
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

    /// The end of the capture: nobody answers them any more.
    pub(super) fn end_orphans(&mut self) {
        let mut calls: Vec<Call> = self.orphans.drain().map(|(_, call)| call).collect();
        calls.sort_by_key(|call| (call.posted_ns, call.request));
        let last_ns = self.counts.last_ns;
        calls.iter().for_each(|call| call.without_answer(&mut self.counts, &mut self.out, last_ns));
    }
}
