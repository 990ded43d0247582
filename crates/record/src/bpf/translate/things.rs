//! What a thread can wait on that is neither a file nor a connection: pipes, unix and datagram sockets, terminals, locks, processes,
//! control groups. Each is one object, by kind and name.

use super::output::Output;
use crate::bpf::raw::Peer;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use thalweg_trace::{ObjectId, ObjectKind};

/// Things that are remembered; past it they are forgotten, and would be recorded anew.
const MOST_THINGS: usize = 100_000;

/// The things that were met.
#[derive(Debug, Default)]
pub(crate) struct Things {
    known: HashMap<(ObjectKind, String), ObjectId>,
    /// Those that an inode names, by that.
    numbered: HashMap<(ObjectKind, u64), ObjectId>,
    /// To whom datagram sockets send, by the socket's inode.
    peers: HashMap<u64, SocketAddr>,
    /// Pipes of which it is recorded who writes to them.
    written: HashSet<ObjectId>,
}

impl Things {
    /// The object of a thing.
    pub(crate) fn object(&mut self, kind: ObjectKind, name: &str, output: &mut Output) -> ObjectId {
        let key = (kind, name.to_owned());
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        if self.known.len() >= MOST_THINGS {
            self.known.clear();
        }
        let object = output.object_id();
        output.object(object, kind, name, &[]);
        self.known.insert(key, object);
        object
    }

    /// The object of a thing that its inode names, `NAME:[INODE]`.
    pub(crate) fn numbered(&mut self, kind: ObjectKind, name: &str, inode: u64, output: &mut Output) -> ObjectId {
        if let Some(known) = self.numbered.get(&(kind, inode)) {
            return *known;
        }
        if self.numbered.len() >= MOST_THINGS {
            self.numbered.clear();
        }
        let object = self.object(kind, &format!("{name}:[{inode}]"), output);
        self.numbered.insert((kind, inode), object);
        object
    }

    /// The object of a pipe at which a thread waits, a thread of `writer`'s where it waits to write.
    pub(crate) fn pipe(&mut self, inode: u64, writer: Option<u32>, output: &mut Output) -> ObjectId {
        let object = self.numbered(ObjectKind::Pipe, "pipe", inode, output);
        if let Some(pid) = writer
            && self.written.len() < MOST_THINGS
            && self.written.insert(object)
        {
            output.object(object, ObjectKind::Pipe, &format!("pipe:[{inode}]"), &[("written_by", &pid.to_string())]);
        }
        object
    }

    /// A datagram was sent from a socket to somebody.
    pub(crate) fn sends_to(&mut self, peer: &Peer) {
        if self.peers.len() >= MOST_THINGS {
            self.peers.clear();
        }
        let address = Ipv6Addr::from(peer.address);
        let address = address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4);
        self.peers.insert(peer.inode, SocketAddr::new(address, peer.port));
    }

    /// The object of a datagram socket, if it is known whom it talks to.
    pub(crate) fn datagram(&mut self, inode: u64, output: &mut Output) -> Option<ObjectId> {
        let peer = *self.peers.get(&inode)?;
        Some(self.object(ObjectKind::Socket, &format!("udp:{peer}"), output))
    }
}
