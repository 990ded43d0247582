//! All connections of a capture, in bounded memory.

use super::connection::Connection;
use super::emit::Out;
use super::frame::{self, End, Segment, Transport, Unused};
use super::options::Options;
use super::rpc::{Heading, datagram};
use super::shared::Shared;
use super::silences::{SILENCE_NS, Silences};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Maximum open connections. Beyond it those silent for longest are ended.
const MOST_CONNECTIONS: usize = 16_384;

/// Key of a connection: its ends in order, and whether it is UDP.
type Key = (End, End, bool);

/// A cheap hash: addresses crafted to make it slow could make any trace long as well, and the number of connections
/// is bounded.
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

/// The connections.
pub(super) struct Table {
    connections: HashMap<Key, Box<Connection>, BuildHasherDefault<Fold>>,
    ports: Vec<u16>,
    pub shared: Shared,
    pub silences: Silences,
}

impl Table {
    pub(super) fn new(out: Out, options: &Options) -> Table {
        Table { connections: HashMap::default(), ports: options.ports.clone(), shared: Shared::new(out), silences: Silences::default() }
    }

    /// Handles a captured packet.
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
                self.silences.packet(at_ns);
                let known = self.connections.get(&key);
                let idle = known.filter(|c| at_ns.saturating_sub(c.last_ns).saturating_abs() >= SILENCE_NS);
                let goes_on = idle.is_none_or(|c| c.is_continued_by(&segment, &tcp));
                if let Some(idle) = idle.filter(|_| goes_on) {
                    self.silences.outlived(idle.last_ns, at_ns);
                }
                if (!goes_on || known.is_some_and(|c| c.is_reused_by(&segment, &tcp)))
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
                Some(heading) => {
                    self.silences.packet(at_ns);
                    self.datagram(at_ns, &segment, heading);
                }
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

    /// Ends the quarter of the connections silent for longest, if the table is full.
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

    /// Ends the capture and flushes everything.
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
