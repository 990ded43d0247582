//! Identifies descriptors: files, connections, pipes. Each object is recorded once, however many processes have it
//! open.

use super::diagnostics::Socket;
use super::disks::whole_disk;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use thalweg_base::proc::mounts;
use thalweg_trace::{Event, HostId, Object, ObjectId, ObjectKind, Time, TraceHandle};

/// Where the kernel asks the programs that serve FUSE mounts.
pub(super) const FUSE_DEVICE: &str = "/dev/fuse";

/// Mounts are read again if that was as long ago.
const MOUNTS_NS: u64 = 1_000_000_000;

/// The object that a descriptor refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A file, or a block or character device read and written like one.
    File(ObjectId),
    /// A TCP connection.
    Connection(ObjectId),
    /// A directory: its position is a number of the file system's, not a byte count.
    Directory,
    /// A datagram socket, and the inode of the one at the other end, if that is on this machine.
    Datagrams(ObjectId, Option<u64>),
    /// Any other socket, with its inode.
    Socket(u64),
    /// A pipe or a FIFO, with its inode.
    Pipe(u64),
    /// A terminal.
    Terminal(ObjectId),
    /// A timer descriptor.
    Timer,
    /// An eventfd, an epoll set, etc.
    Other,
}

/// The access mode a file was opened with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Opened {
    /// Not known.
    #[default]
    Unknown,
    /// For reading.
    Read,
    /// For writing.
    Write,
    /// For both.
    Both,
}

impl Opened {
    /// Converts the flags of `open`.
    fn from_flags(flags: i32) -> Opened {
        match flags & libc::O_ACCMODE {
            libc::O_RDONLY => Opened::Read,
            libc::O_WRONLY => Opened::Write,
            _ => Opened::Both,
        }
    }

    /// Converts the preloaded library's number.
    pub(crate) fn from_way(way: u8) -> Opened {
        match way {
            1 => Opened::Read,
            2 => Opened::Write,
            3 => Opened::Both,
            _ => Opened::Unknown,
        }
    }

    fn name(self) -> Option<String> {
        let name = match self {
            Opened::Unknown => return None,
            Opened::Read => "read",
            Opened::Write => "write",
            Opened::Both => "both",
        };
        Some(name.to_owned())
    }
}

/// The flags a descriptor's file was opened with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(i32);

impl Flags {
    /// Returns the access mode.
    pub(crate) fn opened(self) -> Opened {
        Opened::from_flags(self.0)
    }

    /// Whether writes are on stable storage when the call returns.
    pub(crate) fn sync(self) -> bool {
        // (O_SYNC includes O_DSYNC's bit.)
        self.0 & libc::O_DSYNC != 0
    }

    /// Whether reads and writes bypass the page cache.
    pub(crate) fn direct(self) -> bool {
        self.0 & libc::O_DIRECT != 0
    }
}

/// Mounts: the device's name and the file system type, by device number.
#[derive(Debug, Default)]
pub(crate) struct Mounts {
    by_device: HashMap<u64, (String, String)>,
    /// Device numbers without a mount.
    unknown: BTreeSet<u64>,
}

impl Mounts {
    /// Reads the mounts of this process's namespace.
    pub(crate) fn read() -> Mounts {
        let named = mounts::here().unwrap_or_default().into_iter().map(|mount| {
            let device = whole_disk(mount.device).map(|disk| disk.name);
            let device = device.unwrap_or_else(|| mount.source.rsplit('/').next().unwrap_or(&mount.source).to_owned());
            (libc::makedev(mount.device.0, mount.device.1), (device, mount.kind))
        });
        Mounts { by_device: named.collect(), unknown: BTreeSet::new() }
    }

    /// Returns the device (as in /sys/block, if it is one) and file system type. An unknown one may have been mounted
    /// since.
    pub(crate) fn of(&mut self, device: u64) -> Option<&(String, String)> {
        if !self.by_device.contains_key(&device) && self.unknown.insert(device) {
            self.by_device = Mounts::read().by_device;
        }
        self.by_device.get(&device)
    }
}

/// Recorded objects, each once.
#[derive(Debug)]
pub(crate) struct Objects {
    trace: TraceHandle,
    host: HostId,
    mounts: Mounts,
    files: HashMap<String, (ObjectId, Opened, bool)>,
    connections: HashMap<(SocketAddr, SocketAddr), (ObjectId, bool)>,
    others: HashMap<String, ObjectId>,
    /// All mounts, and when they were read.
    mounted: Option<(Time, Vec<mounts::Mount>)>,
    /// The lock object of each object asked for; `None` if it is not a file.
    locks: HashMap<ObjectId, Option<ObjectId>>,
    /// Files on FUSE mounts, and the minor number of their device.
    served: HashMap<ObjectId, u32>,
    /// Where unconnected datagram sockets sent to, by inode.
    pub datagrams_to: HashMap<u64, SocketAddr>,
    /// Local ports seen listening.
    pub listening: BTreeSet<u16>,
    /// Addresses that were connected to, since somebody last took them.
    pub called: BTreeSet<SocketAddr>,
    /// The address that each connection was made to; `None` if this is the server's end.
    callees: HashMap<ObjectId, Option<SocketAddr>>,
}

impl Objects {
    /// Creates an empty set.
    pub(crate) fn new(trace: TraceHandle, host: HostId) -> Objects {
        let (listening, called, callees) = Default::default();
        Objects {
            trace,
            host,
            mounts: Mounts::read(),
            files: HashMap::new(),
            connections: HashMap::new(),
            others: HashMap::new(),
            mounted: None,
            locks: HashMap::new(),
            served: HashMap::new(),
            datagrams_to: HashMap::new(),
            listening,
            called,
            callees,
        }
    }

    /// Returns the object of a file. If it is opened in another mode than before, it is recorded again with both
    /// modes. `direct`: bypassing the page cache, recorded only if every open does.
    pub(crate) fn file(&mut self, path: &str, device: Option<u64>, opened: Opened, direct: bool) -> Option<ObjectId> {
        if let Some((object, known, was_direct)) = self.files.get(path)
            && (*known == opened || *known == Opened::Both || opened == Opened::Unknown)
            && (!was_direct || direct || opened == Opened::Unknown)
        {
            return Some(*object);
        }
        let (opened, direct) = match self.files.get(path) {
            Some((_, Opened::Unknown, _)) | None => (opened, direct),
            Some((_, known, was_direct)) => (if *known == opened { opened } else { Opened::Both }, direct && *was_direct),
        };
        let (mut attributes, mut served) = (Vec::new(), None);
        let device = device.or_else(|| fs::metadata(path).ok().map(|m| m.dev()));
        if let Some(((device, kind), number)) = device.and_then(|number| Some((self.mounts.of(number)?, number))) {
            served = kind.starts_with("fuse").then(|| libc::minor(number));
            attributes.push(("device", device.clone()));
            attributes.push(("filesystem", kind.clone()));
        }
        attributes.extend(opened.name().map(|name| ("opened", name)));
        attributes.extend(direct.then(|| ("direct", "yes".to_owned())));
        let object = match self.files.get(path) {
            // Emits the same row again: the last one counts.
            Some((object, ..)) => *object,
            None => ObjectId::new(self.trace.fresh())?,
        };
        self.describe(object, ObjectKind::File, path, &attributes);
        self.files.insert(path.to_owned(), (object, opened, direct));
        if let Some(minor) = served {
            self.served.insert(object, minor);
        }
        Some(object)
    }

    /// Returns the object of one end of a connection. `accepted`: whether this end is the server's; if unknown, it is
    /// the end with a listening port or, of two ends on this machine, the one with the smaller port. (An accepting
    /// process has listened here.)
    pub(crate) fn connection(&mut self, local: SocketAddr, peer: SocketAddr, accepted: Option<bool>) -> Option<ObjectId> {
        if let Some((object, known)) = self.connections.get(&(local, peer))
            && accepted.is_none_or(|accepted| accepted == *known)
        {
            return Some(*object);
        }
        let guessed = || match (self.listening.contains(&local.port()), self.listening.contains(&peer.port())) {
            (true, false) => true,
            (false, true) => false,
            _ => local.ip() == peer.ip() && local.port() < peer.port(),
        };
        let accepted = accepted.unwrap_or_else(guessed);
        let (name, end) = match accepted {
            true => (format!("{peer} > {local}"), "server"),
            false => (format!("{local} > {peer}"), "client"),
        };
        let object = ObjectId::new(self.trace.fresh())?;
        if !accepted {
            self.called.insert(peer);
        }
        self.callees.insert(object, (!accepted).then_some(peer));
        self.describe(object, ObjectKind::Connection, &name, &[("end", end.to_owned())]);
        self.connections.insert((local, peer), (object, accepted));
        Some(object)
    }

    /// Returns the object of a connection that the kernel reported, under its first name.
    pub(crate) fn socket(&mut self, socket: &Socket) -> Option<ObjectId> {
        let (local, peer) = (socket.local, socket.peer);
        let accepted = if self.connections.contains_key(&(local, peer)) { None } else { socket.accepted() };
        self.connection(local, peer, accepted)
    }

    /// Returns the object of the other end of a connection that the kernel reported.
    pub(crate) fn other_end(&mut self, socket: &Socket) -> Option<ObjectId> {
        let (local, peer) = (socket.local, socket.peer);
        self.socket(socket)?;
        let (_, accepted) = *self.connections.get(&(local, peer))?;
        self.connection(peer, local, Some(!accepted))
    }

    /// Returns the object of this kind and name, other than files and connections.
    pub(crate) fn other(&mut self, kind: ObjectKind, name: &str) -> Option<ObjectId> {
        if let Some(object) = self.others.get(name) {
            return Some(*object);
        }
        let object = ObjectId::new(self.trace.fresh())?;
        self.describe(object, kind, name, &[]);
        self.others.insert(name.to_owned(), object);
        Some(object)
    }

    /// Returns the object of the file system that a path is on, named by where it is mounted; nothing is looked up on it. Its device is
    /// recorded if it is a disk.
    pub(super) fn file_system(&mut self, path: &Path) -> Option<ObjectId> {
        if self.mounted.as_ref().is_none_or(|(read, _)| Time::now().since(*read) > MOUNTS_NS) {
            self.mounted = Some((Time::now(), mounts::here().unwrap_or_default()));
        }
        let mount = mounts::holding(&self.mounted.as_ref()?.1, path)?;
        let name = mount.point.to_string_lossy().into_owned();
        if let Some(object) = self.others.get(&name) {
            return Some(*object);
        }
        let mut attributes: Vec<_> = whole_disk(mount.device).map(|disk| ("device", disk.name)).into_iter().collect();
        attributes.push(("filesystem", mount.kind.clone()));
        let (served, minor) = (mount.kind.starts_with("fuse"), mount.device.1);
        let object = ObjectId::new(self.trace.fresh())?;
        self.describe(object, ObjectKind::File, &name, &attributes);
        self.others.insert(name, object);
        if served {
            self.served.insert(object, minor);
        }
        Some(object)
    }

    /// Returns the lock on a file as an object of its own; `None` if the object is not a file.
    pub(crate) fn lock_on(&mut self, file: ObjectId) -> Option<ObjectId> {
        // (Waits on pipes and sockets come here too: the files are searched once for each.)
        if let Some(known) = self.locks.get(&file) {
            return *known;
        }
        let path = self.files.iter().find(|(_, (object, ..))| *object == file).map(|(path, _)| format!("flock {path}"));
        let lock = path.and_then(|path| self.other(ObjectKind::Lock, &path));
        self.locks.insert(file, lock);
        lock
    }

    /// Returns the address that a connection was made to, if this is the client's end.
    pub(super) fn callee(&self, connection: ObjectId) -> Option<SocketAddr> {
        self.callees.get(&connection).copied().flatten()
    }

    /// Whether an object is a TCP connection.
    pub(super) fn is_connection(&self, object: ObjectId) -> bool {
        self.callees.contains_key(&object)
    }

    /// Whether an object is the device at which the kernel asks file systems in user space.
    pub(super) fn is_fuse_device(&self, object: ObjectId) -> bool {
        self.files.get(FUSE_DEVICE).is_some_and(|(device, ..)| *device == object)
    }

    /// Returns the minor number of the device of a file on a FUSE mount.
    pub(super) fn served(&self, file: ObjectId) -> Option<u32> {
        self.served.get(&file).copied()
    }

    /// Returns the minor numbers of the devices of all FUSE mounts with a recorded file.
    pub(super) fn fuse_mounts(&self) -> BTreeSet<u32> {
        self.served.values().copied().collect()
    }

    fn describe(&self, object: ObjectId, kind: ObjectKind, name: &str, attributes: &[(&str, String)]) {
        let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        self.trace.event(Event::Object(Object { object, host: self.host, kind, name: name.to_owned(), attributes }));
    }

    /// Returns what descriptor `fd` of a process refers to; `None` if it may not be read.
    pub(crate) fn target(&mut self, pid: u32, fd: u32, sockets: &BTreeMap<u64, Socket>) -> Option<Target> {
        let link = fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok()?;
        let text = link.to_str()?;
        if let Some(inode) = super::listeners::socket_inode(text) {
            let connection = sockets.get(&inode).and_then(|socket| self.socket(socket));
            return Some(connection.map_or(Target::Socket(inode), Target::Connection));
        }
        if let Some(inode) = pipe_inode(text) {
            return Some(Target::Pipe(inode));
        }
        if text.starts_with("anon_inode:") {
            return Some(if text.contains("timerfd") { Target::Timer } else { Target::Other });
        }
        if !text.starts_with('/') {
            return Some(Target::Other);
        }
        if text.starts_with("/dev/pts/") || text.starts_with("/dev/tty") || text == "/dev/console" {
            return self.other(ObjectKind::Terminal, text).map(Target::Terminal);
        }
        let metadata = fs::metadata(format!("/proc/{pid}/fd/{fd}")).ok();
        match metadata.as_ref().map(|m| (m.mode() & libc::S_IFMT, m.ino())) {
            Some((libc::S_IFIFO, inode)) => return Some(Target::Pipe(inode)),
            Some((libc::S_IFDIR, _)) => return Some(Target::Directory),
            _ => {}
        }
        let flags = FdInfo::open(pid, fd).and_then(|info| info.read()).map(|(_, flags)| flags);
        let opened = flags.map_or(Opened::Unknown, Flags::opened);
        self.file(text, metadata.map(|m| m.dev()), opened, flags.is_some_and(Flags::direct)).map(Target::File)
    }
}

/// Parses the inode number in `pipe:[12345]`.
pub(crate) fn pipe_inode(target: &str) -> Option<u64> {
    target.strip_prefix("pipe:[")?.strip_suffix(']')?.parse().ok()
}

/// Returns the inode of the pipe or socket behind a process's descriptor, shared by all processes that have it open.
pub(crate) fn shared_inode(pid: u32, fd: u32) -> Option<u64> {
    let path = format!("/proc/{pid}/fd/{fd}");
    let link = fs::read_link(&path).ok()?;
    let target = link.to_str()?;
    let named = || fs::metadata(&path).ok().filter(|m| m.mode() & libc::S_IFMT == libc::S_IFIFO).map(|m| m.ino());
    pipe_inode(target).or_else(|| super::listeners::socket_inode(target)).or_else(|| target.starts_with('/').then(named).flatten())
}

/// The /proc information on one descriptor, kept open so that a reading is a single system call.
#[derive(Debug)]
pub(crate) struct FdInfo {
    file: fs::File,
}

impl FdInfo {
    /// Opens it; `None` if the descriptor is closed or may not be read.
    pub(crate) fn open(pid: u32, fd: u32) -> Option<FdInfo> {
        Some(FdInfo { file: fs::File::open(format!("/proc/{pid}/fdinfo/{fd}")).ok()? })
    }

    /// Returns its position and open flags; `None` once it is closed.
    pub(crate) fn read(&self) -> Option<(u64, Flags)> {
        let mut buffer = [0; 256];
        let n = self.file.read_at(&mut buffer, 0).ok()?;
        let text = std::str::from_utf8(&buffer[..n]).ok()?;
        let field = |name: &str| text.lines().find_map(|line| Some(line.strip_prefix(name)?.trim()));
        let flags = i32::from_str_radix(field("flags:")?, 8).ok()?;
        Some((field("pos:")?.parse().ok()?, Flags(flags)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use thalweg_trace::{IdSpace, Memory, Role, Sink};

    fn objects() -> (Objects, Arc<Memory>) {
        let sink = Arc::new(Memory::new(100));
        let trace = TraceHandle::on(Arc::clone(&sink) as Arc<dyn Sink>, HostId(0), Role::Client, IdSpace(1));
        (Objects::new(trace, HostId(0)), sink)
    }

    fn names(sink: &Memory) -> Vec<(String, Vec<(String, String)>)> {
        let (events, _) = sink.drain();
        events.into_iter().filter_map(|e| if let Event::Object(o) = e { Some((o.name, o.attributes)) } else { None }).collect()
    }

    #[test]
    fn a_connection_is_named_client_first_at_both_ends() {
        let (mut objects, sink) = objects();
        objects.listening.insert(2049);
        let client: SocketAddr = "[::1]:40000".parse().expect("an address");
        let server: SocketAddr = "[::1]:2049".parse().expect("an address");
        let one = objects.connection(client, server, None);
        let other = objects.connection(server, client, None);
        assert_ne!(one, other);
        assert_eq!(one, objects.connection(client, server, Some(false)));
        let end = |end: &str| ("[::1]:40000 > [::1]:2049".to_owned(), vec![("end".to_owned(), end.to_owned())]);
        assert_eq!(names(&sink), vec![end("client"), end("server")]);
    }

    #[test]
    fn whoever_calls_from_a_smaller_port_than_it_calls_is_the_client() {
        let (mut objects, sink) = objects();
        let (here, there): (SocketAddr, SocketAddr) = ("10.0.0.1:626".parse().expect("one"), "10.0.0.2:2049".parse().expect("one"));
        objects.connection(here, there, None);
        assert_eq!(names(&sink), [("10.0.0.1:626 > 10.0.0.2:2049".to_owned(), vec![("end".to_owned(), "client".to_owned())])]);
    }

    #[test]
    fn a_lock_is_one_object_for_its_file_and_what_is_no_file_has_none() {
        let (mut objects, sink) = objects();
        let file = objects.file("/tmp/file", None, Opened::Read, false).expect("on");
        let pipe = objects.other(ObjectKind::Pipe, "pipe:[1]").expect("on");
        for _ in 0..2 {
            assert_eq!(objects.lock_on(pipe), None);
            assert_eq!(objects.lock_on(file), objects.other(ObjectKind::Lock, "flock /tmp/file"));
        }
        assert_eq!(objects.locks.len(), 2);
        assert_eq!(names(&sink).into_iter().filter(|(name, _)| name == "flock /tmp/file").count(), 1);
    }

    #[test]
    fn a_file_system_is_one_object_whatever_the_path_on_it() {
        let (mut objects, sink) = objects();
        let one = objects.file_system(Path::new("/proc/self/no/such/name")).expect("mounted");
        assert_eq!(objects.file_system(Path::new("/proc/1/other")), Some(one));
        assert_eq!(names(&sink), [("/proc".to_owned(), vec![("filesystem".to_owned(), "proc".to_owned())])]);
    }

    #[test]
    fn how_a_file_is_written_is_known_from_its_flags() {
        use std::os::fd::AsRawFd;
        use std::os::unix::fs::OpenOptionsExt;
        let directory = tempfile::tempdir().expect("a directory");
        let flags = |more: i32| {
            let file =
                fs::OpenOptions::new().write(true).create(true).truncate(false).custom_flags(more).open(directory.path().join("file"));
            let file = file.expect("opened");
            FdInfo::open(std::process::id(), file.as_raw_fd() as u32).and_then(|info| info.read()).expect("open").1
        };
        assert_eq!((flags(0).opened(), flags(0).sync()), (Opened::Write, false));
        assert!(flags(libc::O_DSYNC).sync() && flags(libc::O_SYNC).sync());
        let (mut objects, sink) = objects();
        for direct in [true, true, false] {
            objects.file("/tmp/file", None, Opened::Write, direct);
        }
        let recorded: Vec<bool> = names(&sink).iter().map(|(_, of)| of.iter().any(|(name, _)| name == "direct")).collect();
        assert_eq!(recorded, [true, false], "one that is also written through the cache is not direct");
    }

    #[test]
    fn descriptors_are_distinguished() {
        let (mut objects, sink) = objects();
        let file = tempfile::NamedTempFile::new().expect("a file");
        let fd = |fd: &dyn std::os::fd::AsRawFd| fd.as_raw_fd() as u32;
        let none = BTreeMap::new();
        let pid = std::process::id();
        assert!(matches!(objects.target(pid, fd(file.as_file()), &none), Some(Target::File(_))));
        let (read, _write) = rustix::pipe::pipe().expect("a pipe");
        assert!(matches!(objects.target(pid, fd(&read), &none), Some(Target::Pipe(_))));
        let directory = std::fs::File::open("/tmp").expect("a directory");
        assert_eq!(objects.target(pid, fd(&directory), &none), Some(Target::Directory));
        let (socket, _other) = std::os::unix::net::UnixStream::pair().expect("sockets");
        assert!(matches!(objects.target(pid, fd(&socket), &none), Some(Target::Socket(_))));
        assert_eq!(objects.target(pid, 1 << 20, &none), None);
        let named = names(&sink);
        let (name, attributes) = named.first().expect("the file");
        assert_eq!(Path::new(name), file.path().canonicalize().expect("a path"));
        assert!(attributes.contains(&("opened".to_owned(), "both".to_owned())), "{attributes:?}");
    }
}
