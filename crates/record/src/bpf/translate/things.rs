//! Objects of waits other than files and connections: pipes, Unix and datagram sockets, terminals, locks, processes,
//! control groups. One object per kind and name.

use super::output::Output;
use crate::bpf::raw::{FdObject, MODE_FIFO, MODE_KIND, Peer};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use thalweg_trace::{ObjectId, ObjectKind};

/// Maximum objects remembered; beyond it they are forgotten, and would be recorded anew.
const MOST_THINGS: usize = 100_000;

/// Minimum bytes worth recording; less than a pipe holds is a line or two.
const WORTH_SAYING_BYTES: u64 = 64 << 10;

/// The objects met.
#[derive(Debug, Default)]
pub(crate) struct Things {
    known: HashMap<(ObjectKind, String), ObjectId>,
    /// Objects named by an inode, by that inode.
    numbered: HashMap<(ObjectKind, u64), ObjectId>,
    /// Peers of datagram sockets, by the socket's inode.
    peers: HashMap<u64, SocketAddr>,
    /// Paths that Unix sockets have connected to, by the socket's inode.
    called: HashMap<u64, String>,
    /// Bytes written to pipes, by inode.
    pipes: HashMap<u64, Written>,
}

/// Bytes written to a pipe.
#[derive(Clone, Debug, Default)]
struct Written {
    /// The path, for a FIFO.
    path: Option<String>,
    /// The writing process; 0 if unknown.
    pid: u32,
    bytes: u64,
}

impl Things {
    /// Returns the object of this kind and name.
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

    /// Returns the object named by an inode: `NAME:[INODE]`.
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

    /// Returns the object of a pipe (or of a FIFO, with its path) on which a thread waits; `writer` is the thread's
    /// process if it waits to write.
    pub(crate) fn pipe(&mut self, (inode, path): (u64, Option<&str>), writer: Option<u32>, output: &mut Output) -> ObjectId {
        let object = self.pipe_object((inode, path), output);
        let Some(written) = self.written(inode) else { return object };
        if written.path.is_none() {
            written.path = path.map(str::to_owned);
        }
        if let Some(pid) = writer.filter(|_| written.pid == 0) {
            written.pid = pid;
            let name = path.map_or_else(|| format!("pipe:[{inode}]"), str::to_owned);
            output.object(object, ObjectKind::Pipe, &name, &[("written_by", &pid.to_string())]);
        }
        object
    }

    fn pipe_object(&mut self, (inode, path): (u64, Option<&str>), output: &mut Output) -> ObjectId {
        match path {
            Some(path) => self.object(ObjectKind::Pipe, path, output),
            None => self.numbered(ObjectKind::Pipe, "pipe", inode, output),
        }
    }

    fn written(&mut self, inode: u64) -> Option<&mut Written> {
        let has_room = self.pipes.len() < MOST_THINGS || self.pipes.contains_key(&inode);
        has_room.then(|| self.pipes.entry(inode).or_default())
    }

    /// Counts bytes written to a descriptor, which may be a pipe.
    pub(crate) fn wrote(&mut self, to: &FdObject, bytes: u64) {
        let is_pipe = bytes > 0 && to.mode & MODE_KIND == MODE_FIFO;
        if let Some(written) = is_pipe.then(|| self.written(to.id)).flatten() {
            written.bytes = written.bytes.saturating_add(bytes);
        }
    }

    /// Records how much was written to each pipe, at the end of the recording.
    pub(crate) fn end(&mut self, output: &mut Output) {
        let mut all: Vec<(u64, Written)> = self.pipes.drain().filter(|(_, written)| written.bytes >= WORTH_SAYING_BYTES).collect();
        all.sort_unstable_by_key(|(inode, _)| *inode);
        for (inode, Written { path, pid, bytes }) in all {
            let object = self.pipe_object((inode, path.as_deref()), output);
            let name = path.unwrap_or_else(|| format!("pipe:[{inode}]"));
            let by = if pid == 0 { String::new() } else { pid.to_string() };
            let attributes = [("written_by", by.as_str()), ("written_bytes", &bytes.to_string())];
            output.object(object, ObjectKind::Pipe, &name, &attributes);
        }
    }

    /// Notes the path that a Unix socket has connected to.
    pub(crate) fn calls(&mut self, inode: u64, path: &[u8]) {
        if self.called.len() >= MOST_THINGS {
            self.called.clear();
        }
        self.called.insert(inode, String::from_utf8_lossy(path).into_owned());
    }

    /// Returns the object of a Unix socket: by the path it has connected to, otherwise by its own number.
    pub(crate) fn unix(&mut self, inode: u64, output: &mut Output) -> ObjectId {
        match self.called.get(&inode).map(|path| format!("unix:{path}")) {
            Some(name) => self.object(ObjectKind::Socket, &name, output),
            None => self.numbered(ObjectKind::Socket, "unix", inode, output),
        }
    }

    /// Notes the peer of a datagram socket.
    pub(crate) fn sends_to(&mut self, peer: &Peer) {
        if self.peers.len() >= MOST_THINGS {
            self.peers.clear();
        }
        let address = Ipv6Addr::from(peer.address);
        let address = address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4);
        self.peers.insert(peer.inode, SocketAddr::new(address, peer.port));
    }

    /// Returns the object of a datagram socket, if its peer is known.
    pub(crate) fn datagram(&mut self, inode: u64, output: &mut Output) -> Option<ObjectId> {
        let peer = *self.peers.get(&inode)?;
        Some(self.object(ObjectKind::Socket, &format!("udp:{peer}"), output))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_trace::{Event, HostId, IdSpace};

    #[test]
    fn a_pipe_says_at_the_end_how_much_was_written_to_it() {
        let (mut things, mut output) = (Things::default(), Output::new(HostId(0), IdSpace(1)));
        let pipe = |id, mode| FdObject { id, device: 13, mode, fd: 1, access: 2 };
        things.wrote(&pipe(7, MODE_FIFO), 40_000);
        things.wrote(&pipe(7, MODE_FIFO), 60_000);
        things.wrote(&pipe(8, MODE_FIFO), 100);
        things.wrote(&pipe(9, 0), 1 << 20);
        let object = things.pipe((7, None), Some(20), &mut output);
        output.events.clear();
        things.end(&mut output);
        let [Event::Object(said)] = &output.events[..] else { panic!("{:?}", output.events) };
        let expected = [("written_by", "20"), ("written_bytes", "100000")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!((said.object, &said.attributes[..]), (object, &expected[..]));
    }

    #[test]
    fn a_fifo_that_is_written_to_is_the_one_at_its_path() {
        let mut output = Output::new(HostId(0), IdSpace(1));
        let mut things = Things::default();
        let fifo = FdObject { id: 7, mode: MODE_FIFO, ..FdObject::default() };
        things.wrote(&fifo, 100_000);
        let object = things.pipe((7, Some("/tmp/f")), Some(20), &mut output);
        things.end(&mut output);
        let objects = output.events.iter().filter_map(|event| if let Event::Object(object) = event { Some(object) } else { None });
        let names: Vec<_> = objects.map(|o| (o.object, o.name.as_str(), o.attributes.len())).collect();
        assert_eq!(names, [(object, "/tmp/f", 0), (object, "/tmp/f", 1), (object, "/tmp/f", 2)]);
    }
}
