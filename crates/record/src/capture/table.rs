//! All connections of a capture, in bounded memory, and what they share.

use super::calls::Call;
use super::connection::{Connection, datagram};
use super::emit::Out;
use super::frame::{self, End, Segment, Transport, Unused};
use super::message::{Heading, Procedure};
use super::{Counts, Options};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use thalweg_trace::{ObjectId, ObjectKind};

/// Connections that are followed at once. Where there are more, those unheard of for longest are ended.
const MOST_CONNECTIONS: usize = 16_384;

/// Calls of ended connections that are remembered.
const MOST_ORPHANS: usize = 1 << 16;

/// Bytes beyond holes that all connections together keep.
const MOST_HELD_BYTES: usize = 128 << 20;

/// ... and one of them.
const HELD_BYTES: usize = 1 << 20;

/// What a connection is found by: its ends in order, and whether it is UDP.
type Key = (End, End, bool);

/// A hash that costs little: addresses are not chosen to make it slow more than they can be to make any trace long, and the
/// number of connections is bounded.
#[derive(Default)]
struct Fold(u64);

impl Hasher for Fold {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u64(u64::from(*b)));
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    fn write_u128(&mut self, n: u128) {
        self.write_u64(n as u64);
        self.write_u64((n >> 64) as u64);
    }
    fn write_u16(&mut self, n: u16) {
        self.write_u64(u64::from(n));
    }
    fn write_u8(&mut self, n: u8) {
        self.write_u64(u64::from(n));
    }
}

/// What connections share.
pub(super) struct Shared {
    pub out: Out,
    pub counts: Counts,
    pub held_bytes: usize,
    procedures: HashMap<(End, Procedure), ObjectId>,
    orphans: HashMap<(u128, End, u32), Call>,
}

impl Shared {
    /// How much a connection that holds `its` bytes may hold.
    pub(super) fn room(&self, its: usize) -> usize {
        if self.held_bytes >= MOST_HELD_BYTES { its.min(HELD_BYTES / 16) } else { HELD_BYTES }
    }

    /// The row of a server's procedure.
    pub(super) fn procedure(&mut self, server: End, procedure: Procedure) -> ObjectId {
        if let Some(&object) = self.procedures.get(&(server, procedure)) {
            return object;
        }
        if self.procedures.len() >= MOST_ORPHANS {
            // Nobody has so many; fuzzed input does.
            self.procedures.clear();
        }
        let attributes =
            [("program", procedure.program_name()), ("version", procedure.version.to_string()), ("procedure", procedure.name())];
        let object = self.out.object(ObjectKind::Server, server.to_string(), &attributes);
        self.procedures.insert((server, procedure), object);
        object
    }

    /// A call that another connection between the same two was not answered.
    pub(super) fn orphan(&mut self, client_ip: u128, server: End, xid: u32, procedure: Procedure) -> Option<Call> {
        let key = (client_ip, server, xid);
        self.orphans.get(&key).filter(|call| call.procedure == procedure)?;
        self.orphans.remove(&key)
    }

    /// Remembers a call whose connection has ended.
    pub(super) fn keep_orphan(&mut self, client_ip: u128, server: End, xid: u32, call: Call) {
        let dropped = match self.orphans.len() < MOST_ORPHANS {
            true => self.orphans.insert((client_ip, server, xid), call),
            false => Some(call),
        };
        if let Some(call) = dropped {
            self.counts.unanswered += 1;
            call.unanswered(&mut self.out, self.counts.last_ns);
        }
    }

    fn end_orphans(&mut self) {
        let mut calls: Vec<Call> = self.orphans.drain().map(|(_, call)| call).collect();
        calls.sort_by_key(|call| (call.posted_ns, call.request));
        self.counts.unanswered += calls.len() as u64;
        calls.iter().for_each(|call| call.unanswered(&mut self.out, self.counts.last_ns));
    }
}

/// The connections.
pub(super) struct Table {
    connections: HashMap<Key, Box<Connection>, BuildHasherDefault<Fold>>,
    ports: Vec<u16>,
    pub shared: Shared,
}

impl Table {
    pub(super) fn new(out: Out, options: &Options) -> Table {
        let shared = Shared { out, counts: Counts::default(), held_bytes: 0, procedures: HashMap::new(), orphans: HashMap::new() };
        Table { connections: HashMap::default(), ports: options.ports.clone(), shared }
    }

    /// A captured packet.
    pub(super) fn packet(&mut self, at_ns: i64, link: u32, data: &[u8], wire_bytes: u32) {
        let counts = &mut self.shared.counts;
        counts.packet(at_ns, data.len() as u64, u64::from(wire_bytes));
        let segment = match frame::parse(link, data, wire_bytes) {
            Ok(segment) => segment,
            Err(unused) => return counts.unused(unused, link),
        };
        if !self.ports.is_empty() && !self.ports.contains(&segment.from.port) && !self.ports.contains(&segment.to.port) {
            counts.other_ports += 1;
            return;
        }
        match segment.transport {
            Transport::Tcp(tcp) => {
                counts.tcp_segments += 1;
                let key = key(&segment, false);
                if self.connections.get(&key).is_some_and(|c| c.is_reused_by(&segment, &tcp))
                    && let Some(mut ended) = self.connections.remove(&key)
                {
                    ended.finish(&mut self.shared);
                }
                self.make_room(&key);
                let connection =
                    self.connections.entry(key).or_insert_with(|| Box::new(Connection::new(segment.from, segment.to, false, &self.ports)));
                connection.tcp(at_ns, &segment, &tcp, &mut self.shared);
            }
            Transport::Udp => match datagram(segment.payload) {
                Some(heading) => self.datagram(at_ns, &segment, heading),
                None => counts.unused(Unused::Other, link),
            },
        }
    }

    fn datagram(&mut self, at_ns: i64, segment: &Segment<'_>, heading: Heading) {
        self.shared.counts.udp_datagrams += 1;
        let key = key(segment, true);
        self.make_room(&key);
        let connection =
            self.connections.entry(key).or_insert_with(|| Box::new(Connection::new(segment.from, segment.to, true, &self.ports)));
        connection.udp(at_ns, segment, heading, &mut self.shared);
    }

    /// Ends the quarter of connections that was unheard of for longest, where there is no room for another.
    fn make_room(&mut self, key: &Key) {
        if self.connections.len() < MOST_CONNECTIONS || self.connections.contains_key(key) {
            return;
        }
        let mut last: Vec<i64> = self.connections.values().map(|c| c.last_ns).collect();
        let quarter = last.len() / 4;
        let (_, &mut oldest, _) = last.select_nth_unstable(quarter);
        let mut ended: Vec<Key> = self.connections.iter().filter(|(_, c)| c.last_ns <= oldest).map(|(k, _)| *k).collect();
        ended.truncate(quarter.max(1));
        self.shared.counts.forgotten_connections += ended.len() as u64;
        for key in ended {
            if let Some(mut connection) = self.connections.remove(&key) {
                connection.finish(&mut self.shared);
            }
        }
    }

    /// The end of the capture: hands on everything.
    pub(super) fn finish(&mut self) {
        let mut left: Vec<(Key, Box<Connection>)> = self.connections.drain().collect();
        left.sort_by_key(|(key, _)| *key);
        left.iter_mut().for_each(|(_, connection)| connection.finish(&mut self.shared));
        self.shared.end_orphans();
        self.shared.out.flush();
    }
}

fn key(segment: &Segment<'_>, udp: bool) -> Key {
    let (a, b) = (segment.from, segment.to);
    if a <= b { (a, b, udp) } else { (b, a, udp) }
}
