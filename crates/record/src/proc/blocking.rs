//! Determines what threads are blocked in: their calls' descriptors, and what these refer to.

use super::diagnostics::{Diagnostics, LISTEN, Socket};
use super::files::{FdInfo, Objects, Target};
use super::listeners::{datagrams_at, datagrams_to};
use super::namespaces::Namespaces;
use super::tasks::{Doing, TaskFiles};
use super::waits::{self, Call, Ender, Reason};
use super::wakers::Ends;
use super::{locks, memory, named, processes};
use crate::preload::directory::is_ring;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use thalweg_trace::{ObjectId, ObjectKind, SpanKind, WakerContext};

/// Maximum descriptors of one call that are examined.
const MOST_WAITED_FOR: usize = 64;

/// Mask for futex operation flags other than the command.
const FUTEX_PRIVATE: u64 = 128;
const FUTEX_COMMAND: u64 = !(128 | 256);

/// The process whose thread waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter<'a> {
    pub pid: u32,
    pub ends: &'a Ends,
    /// It has no other thread or child that could end its waits: only time can.
    pub alone: bool,
    /// Since the last sample, the thread had to read pages of a mapped file or its program from a disk.
    pub faulted: bool,
    /// Since the last sample, it went to sleep more than once.
    pub often: bool,
}

/// Objects that threads wait for: sockets, files, pipes.
#[derive(Debug)]
pub(super) struct WaitTargets {
    pub objects: Objects,
    /// TCP sockets, by inode.
    pub sockets: BTreeMap<u64, Socket>,
    /// Inodes of listening TCP sockets.
    listening: BTreeSet<u64>,
    diagnostics: Option<Diagnostics>,
    /// TCP of the machine's other network namespaces.
    pub namespaces: Namespaces,
    /// The other end of connected Unix sockets, by inode.
    unix: BTreeMap<u64, u64>,
    /// The peers of datagram sockets, by inode, and the inodes of the sockets there.
    datagrams: BTreeMap<u64, (SocketAddr, Option<u64>)>,
    /// Inodes of sockets of unknown kinds.
    strange: BTreeSet<u64>,
    /// Whether a page can be read from anything but a file.
    swaps: bool,
    mapped: memory::MappedFiles,
    /// Minimum duration of the last sampled sleep.
    pub slept_ns: Option<u64>,
}

impl WaitTargets {
    /// Creates an empty state.
    pub(super) fn new(objects: Objects) -> WaitTargets {
        let diagnostics = Diagnostics::open().ok();
        let (sockets, unix, datagrams, strange) = Default::default();
        let (listening, namespaces, mapped) = Default::default();
        let swaps = memory::has_swap();
        WaitTargets { objects, sockets, listening, diagnostics, namespaces, unix, datagrams, strange, swaps, mapped, slept_ns: None }
    }

    /// Reads the state of TCP connections from the kernel.
    pub(super) fn read_connections(&mut self) {
        let Some(Ok(sockets)) = self.diagnostics.as_mut().map(Diagnostics::sockets) else { return };
        self.objects.listening.extend(sockets.iter().filter(|s| s.state == LISTEN).map(|s| s.local.port()));
        self.listening = sockets.iter().filter(|s| s.state == LISTEN).map(|s| s.inode).collect();
        self.sockets = sockets.into_iter().filter(|s| s.inode != 0 && s.state != LISTEN).map(|s| (s.inode, s)).collect();
    }

    /// Returns the inode of the other end of a Unix socket, or of a TCP connection within the machine.
    pub(super) fn other_side(&mut self, inode: u64) -> Option<u64> {
        if let Some(socket) = self.sockets.get(&inode) {
            let (local, peer) = (socket.local, socket.peer);
            return self.sockets.values().find(|s| s.local == peer && s.peer == local && s.inode != inode).map(|s| s.inode);
        }
        if !self.unix.contains_key(&inode) && !self.strange.contains(&inode) {
            // (If the kernel does not report them, it is not asked again for each socket.)
            if let Some(Ok(peers)) = self.diagnostics.as_mut().map(Diagnostics::unix_peers) {
                self.unix = peers;
            }
            if !self.unix.contains_key(&inode) {
                self.strange.insert(inode);
            }
        }
        self.unix.get(&inode).copied()
    }

    /// Returns a datagram socket's peer, and the socket there if it is on this machine; `None` if the socket is of another kind.
    fn datagrams_to(&mut self, pid: u32, inode: u64) -> Option<(SocketAddr, Option<u64>)> {
        if let Some(known) = self.datagrams.get(&inode) {
            return Some(*known);
        }
        let peer = self.objects.datagrams_to.get(&inode).copied().or_else(|| datagrams_to(pid, inode))?;
        let there = datagrams_at(pid, peer).filter(|there| *there != inode);
        self.datagrams.insert(inode, (peer, there));
        Some((peer, there))
    }

    /// Forgets cached lookups: a reused inode number may be another socket's.
    pub(super) fn forget_sockets(&mut self) {
        self.unix.clear();
        self.datagrams.clear();
        self.strange.clear();
    }

    /// Returns what descriptor `fd` of a process refers to.
    pub(super) fn target(&mut self, pid: u32, fd: u32) -> Option<Target> {
        let mut target = self.objects.target(pid, fd, &self.sockets)?;
        if let Target::Socket(inode) = target
            && !self.strange.contains(&inode)
            && self.other_side(inode).is_none()
        {
            // It may have been created since the kernel was queried.
            self.read_connections();
            target = self.objects.target(pid, fd, &self.sockets)?;
        }
        match target {
            Target::Socket(inode) if self.other_side(inode).is_none() => {
                let Some((peer, there)) = self.datagrams_to(pid, inode) else { return Some(Target::Socket(inode)) };
                self.objects.other(ObjectKind::Socket, &format!("udp:{peer}")).map(|object| Target::Datagrams(object, there))
            }
            target => Some(target),
        }
    }

    /// Returns what a thread is blocked in; `None` if it runs.
    pub(super) fn reason(&mut self, waiter: &Waiter<'_>, files: &TaskFiles) -> Option<Reason> {
        let doing = match files.doing() {
            Some(Doing::Running) => return None,
            other => other,
        };
        let state = files.state()?.letter;
        match (doing, state) {
            (_, 'R') => None,
            (_, 'T' | 't') => Some(Reason { result: Some(-i64::from(libc::SIGSTOP)), ..Reason::of(SpanKind::WaitOther) }),
            // One call both reads the file and sends. The wait is uninterruptible for the file, interruptible for
            // room in a socket or pipe.
            (Some(Doing::Call(libc::SYS_sendfile, arguments)), 'D') => {
                let source = u32::try_from(arguments[1]).ok().and_then(|fd| self.target(waiter.pid, fd));
                Some(self.on(Call::Read, source))
            }
            (Some(Doing::Call(number, arguments)), 'S' | 'D') => Some(self.in_call(waiter, files, number, &arguments)),
            // Outside any call and uninterruptible: a fault on a page that must be read.
            (Some(Doing::Other), 'D') => match self.mapped_file(waiter.pid) {
                Some(object) => Some(Reason { object: Some(object), ..Reason::of(SpanKind::FileRead) }),
                None if waiter.faulted || files.sleeps_in().is_some_and(|function| memory::is_page_wait(&function)) => {
                    Some(self.fault(waiter.pid))
                }
                None => Some(Reason::of(SpanKind::WaitOther)),
            },
            _ => Some(Reason::of(SpanKind::WaitOther)),
        }
    }

    /// Returns the reason of a page fault that reads from a disk.
    pub(super) fn fault(&mut self, pid: u32) -> Reason {
        match self.swaps {
            true => Reason::of(SpanKind::WaitOther),
            false => Reason { object: self.mapped_file(pid), ..Reason::of(SpanKind::FileRead) },
        }
    }

    fn mapped_file(&mut self, pid: u32) -> Option<ObjectId> {
        self.mapped.read_by(pid, &mut self.objects)
    }

    /// Returns the file that a process has opened, if it has only one: its asynchronous requests are for it. (Its input and output
    /// were opened for it.)
    fn only_file(&mut self, pid: u32) -> Option<ObjectId> {
        let mut only = None;
        for fd in processes::numbers_in(&format!("/proc/{pid}/fd")).into_iter().filter(|fd| *fd > libc::STDERR_FILENO.unsigned_abs()) {
            let Ok(link) = fs::read_link(format!("/proc/{pid}/fd/{fd}")) else { continue };
            let is_ours = link.file_name().and_then(|name| name.to_str()).is_some_and(is_ring);
            if !link.has_root() || link.starts_with("/dev/pts") || link.as_os_str() == "/dev/null" || is_ours {
                continue;
            }
            let Some(Target::File(object)) = self.target(pid, fd) else { continue };
            if only.replace(object).is_some_and(|other| other != object) {
                return None;
            }
        }
        only
    }

    /// Returns the processes' sockets that the user's datagrams go to.
    pub(super) fn datagrams_there(&self) -> BTreeSet<u64> {
        self.datagrams.values().filter_map(|(_, there)| *there).collect()
    }

    fn in_call(&mut self, waiter: &Waiter<'_>, files: &TaskFiles, number: i64, arguments: &[u64; 6]) -> Reason {
        let pid = waiter.pid;
        let call = waits::call(number);
        let first = u32::try_from(arguments[0]).unwrap_or(u32::MAX);
        match call {
            Call::Futex if waiter.alone && is_timed_futex(arguments) => asleep(),
            Call::Futex => self.futex(pid, arguments),
            Call::Child => self.child(number, arguments),
            Call::FileLock => self.file_lock(pid, first),
            Call::Ready => self.ready(waiter, number, arguments),
            Call::Plain(kind) if kind.name().starts_with("file.") => self.on_name(pid, files, (number, arguments), kind),
            // A System V semaphore or queue.
            Call::Plain(SpanKind::WaitLock) if matches!(number, libc::SYS_semop | libc::SYS_semtimedop) => {
                let object = self.objects.other(ObjectKind::Lock, &format!("semaphore {}", arguments[0]));
                Reason { object, ..Reason::of(SpanKind::WaitLock) }
            }
            Call::Plain(SpanKind::WaitDisk) => Reason { object: self.only_file(pid), ..Reason::of(SpanKind::WaitDisk) },
            Call::Plain(kind) => {
                let context = (kind == SpanKind::WaitTimer).then_some(WakerContext::Timer);
                self.slept_ns = if waiter.often { memory::sleeps_for(pid, number, arguments) } else { None };
                Reason { context, ..Reason::of(kind) }
            }
            Call::Read | Call::Write | Call::On(_) => {
                let target = self.target(pid, first);
                match target {
                    Some(Target::Directory) => {
                        let path = fs::read_link(format!("/proc/{pid}/fd/{first}")).ok();
                        let object = path.and_then(|path| self.objects.file_system(&path));
                        Reason { object, ..self.on(call, target) }
                    }
                    Some(Target::File(object)) if call == Call::Write => self.writing(waiter, files, first, object),
                    _ => self.on(call, target),
                }
            }
        }
    }

    /// Returns the reason of a wait in a call on a name: the object is the file system that the name is on.
    fn on_name(&mut self, pid: u32, files: &TaskFiles, (number, arguments): (i64, &[u64; 6]), kind: SpanKind) -> Reason {
        let Some(path) = named::path(pid, number, arguments) else { return Reason::of(kind) };
        if kind == SpanKind::FileOpen && files.sleeps_in().is_some_and(|function| named::is_fifo_open(&function)) {
            let object = self.objects.other(ObjectKind::Pipe, &path.to_string_lossy());
            return Reason { object, ..Reason::of(SpanKind::WaitLock) };
        }
        Reason { object: self.objects.file_system(&path), ..Reason::of(kind) }
    }

    /// Returns the reason of a wait on one descriptor.
    fn on(&mut self, call: Call, target: Option<Target>) -> Reason {
        if matches!(target, Some(Target::Socket(inode)) if self.listening.contains(&inode)) {
            return by_connection();
        }
        let writes = call == Call::Write;
        let (object, ender) = match target {
            Some(Target::File(object) | Target::Connection(object) | Target::Terminal(object)) => (Some(object), Ender::Unknown),
            Some(Target::Datagrams(object, there)) => (Some(object), there.map_or(Ender::Unknown, Ender::Socket)),
            Some(Target::Pipe(inode)) => (self.objects.other(ObjectKind::Pipe, &format!("pipe:[{inode}]")), Ender::Pipe { inode, writes }),
            Some(Target::Socket(inode)) => {
                let ender = self.other_side(inode).map_or(Ender::Unknown, Ender::Socket);
                (self.objects.other(ObjectKind::Socket, &format!("unix:[{inode}]")), ender)
            }
            Some(Target::Other) => (self.objects.other(ObjectKind::Lock, "eventfd"), Ender::Sibling),
            Some(Target::Timer | Target::Directory) | None => (None, Ender::Unknown),
        };
        let kind = waits::kind(call, target.as_ref());
        let context = (kind == SpanKind::WaitTimer).then_some(WakerContext::Timer);
        Reason { object, context, ender, ..Reason::of(kind) }
    }

    /// Returns the reason of a wait in a file write: for its disk if the write is synchronous, otherwise for pages of
    /// a mapped source file, or because too many pages are dirty.
    fn writing(&mut self, waiter: &Waiter<'_>, files: &TaskFiles, fd: u32, object: ObjectId) -> Reason {
        let flags = FdInfo::open(waiter.pid, fd).and_then(|info| info.read()).map(|(_, flags)| flags).unwrap_or_default();
        let on_file = |kind: SpanKind| Reason { object: Some(object), ..Reason::of(kind) };
        if files.sleeps_in().is_some_and(|function| function.starts_with("balance_dirty_pages")) {
            return on_file(SpanKind::WaitMemory);
        }
        match flags {
            _ if waiter.faulted => Reason { object: self.mapped_file(waiter.pid), ..Reason::of(SpanKind::FileRead) },
            flags if flags.sync() => on_file(SpanKind::FileSync),
            _ => on_file(SpanKind::FileWrite),
        }
    }

    /// Returns the reason of a futex wait. A private futex is woken by a thread of the process. A joined thread's
    /// futex holds its number until it ends; a known owner's holds the owner's.
    fn futex(&mut self, pid: u32, arguments: &[u64; 6]) -> Reason {
        const WAIT: u64 = 0;
        const LOCK_PI: u64 = 6;
        const WAIT_BITSET: u64 = 9;
        let [address, operation, value, until, ..] = *arguments;
        let waits = matches!(operation & FUTEX_COMMAND, WAIT | LOCK_PI | WAIT_BITSET);
        let is_thread = |tid: u32| tid != 0 && fs::exists(format!("/proc/{pid}/task/{tid}")).unwrap_or(false);
        let ender = match u32::try_from(value).ok().filter(|tid| is_thread(*tid)) {
            _ if !waits => Ender::Unknown,
            Some(joined) if joined > 2 => Ender::Thread(joined),
            _ => match memory::mutex_owner(pid, address).filter(|owner| is_thread(*owner)) {
                Some(owner) => Ender::Holder(owner),
                // With a timeout it may have ended without a waker.
                None if operation & FUTEX_PRIVATE != 0 && until == 0 => Ender::Sibling,
                None => Ender::Unknown,
            },
        };
        let name = if matches!(ender, Ender::Holder(_)) { "mutex" } else { "futex" };
        Reason { object: self.objects.other(ObjectKind::Lock, name), ender, ..Reason::of(SpanKind::WaitLock) }
    }

    fn child(&mut self, number: i64, arguments: &[u64; 6]) -> Reason {
        let one = match number {
            libc::SYS_wait4 => i32::try_from(arguments[0] as i64).ok().filter(|pid| *pid > 0),
            libc::SYS_waitid if arguments[0] == u64::from(libc::P_PID) => i32::try_from(arguments[1]).ok(),
            _ => None,
        };
        let child = one.and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0);
        let name = if child == 0 { "any child".to_owned() } else { format!("child {child}") };
        Reason { object: self.objects.other(ObjectKind::Process, &name), ender: Ender::Child(child), ..Reason::of(SpanKind::WaitLock) }
    }

    fn file_lock(&mut self, pid: u32, fd: u32) -> Reason {
        let path = fs::read_link(format!("/proc/{pid}/fd/{fd}")).map(|path| path.display().to_string()).unwrap_or_default();
        let object = self.objects.other(ObjectKind::Lock, &format!("flock {path}"));
        let ender = locks::holder(pid, fd).map_or(Ender::Unknown, Ender::Process);
        Reason { object, ender, ..Reason::of(SpanKind::WaitLock) }
    }

    /// Returns the reason of a wait for several descriptors: known if only one can be meant.
    fn ready(&mut self, waiter: &Waiter<'_>, number: i64, arguments: &[u64; 6]) -> Reason {
        let pid = waiter.pid;
        let Some(fds) = memory::waited_for(pid, number, arguments) else { return Reason::of(SpanKind::WaitNetwork) };
        if fds.is_empty() {
            return asleep();
        }
        if fds.iter().take(MOST_WAITED_FOR).any(|fd| named::is_signals(pid, *fd))
            && let Some(program) = named::waits_by_its_title(pid)
        {
            let object = self.objects.other(ObjectKind::Lock, &format!("lock of {program}"));
            return Reason { object, ..Reason::of(SpanKind::WaitLock) };
        }
        let targets: Vec<Target> = fds.into_iter().take(MOST_WAITED_FOR).filter_map(|fd| self.target(pid, fd)).collect();
        let foreign: Vec<Target> = targets.iter().copied().filter(|target| !self.is_own(waiter, *target)).collect();
        match foreign.as_slice() {
            [target] => self.on(Call::Ready, Some(*target)),
            [] if waiter.alone && !targets.is_empty() && has_limit(number, arguments) => asleep(),
            [] if !targets.is_empty() => self.on(Call::Ready, Some(Target::Other)),
            several => self.any_of(several),
        }
    }

    /// Whether only the process itself can make a descriptor ready.
    fn is_own(&mut self, waiter: &Waiter<'_>, target: Target) -> bool {
        match target {
            Target::Other | Target::Timer => true,
            Target::Pipe(inode) => {
                waiter.alone && waiter.ends.pipes.contains(&(inode, true)) && waiter.ends.pipes.contains(&(inode, false))
            }
            Target::Socket(inode) => self.other_side(inode).is_some_and(|other| waiter.ends.sockets.contains(&other)),
            _ => false,
        }
    }

    /// Returns the reason of a wait for one of several pipes and local sockets; unknown if there are others.
    fn any_of(&mut self, targets: &[Target]) -> Reason {
        let mut sides = [0; waits::MOST_SIDES];
        if targets.len() > sides.len() {
            return by_connection();
        }
        for (side, target) in sides.iter_mut().zip(targets) {
            *side = match target {
                Target::Pipe(inode) => *inode,
                Target::Socket(inode) if self.listening.contains(inode) => return by_connection(),
                Target::Socket(inode) => self.other_side(*inode).unwrap_or(0),
                _ => return by_connection(),
            };
        }
        Reason { ender: Ender::Any(sides), ..Reason::of(SpanKind::WaitLock) }
    }
}

/// Returns the reason of a wait for one of several connections, or for a new one.
fn by_connection() -> Reason {
    Reason { ender: Ender::Connection, ..Reason::of(SpanKind::WaitNetwork) }
}

/// Returns the reason of a timed sleep.
fn asleep() -> Reason {
    Reason { context: Some(WakerContext::Timer), ..Reason::of(SpanKind::WaitTimer) }
}

/// Whether this is a private futex wait with a timeout.
fn is_timed_futex(arguments: &[u64; 6]) -> bool {
    const WAIT: u64 = 0;
    const WAIT_BITSET: u64 = 9;
    let [_, operation, _, until, ..] = *arguments;
    matches!(operation & FUTEX_COMMAND, WAIT | WAIT_BITSET) && operation & FUTEX_PRIVATE != 0 && until != 0
}

/// Whether a poll call has a timeout.
fn has_limit(number: i64, arguments: &[u64; 6]) -> bool {
    let in_ms = |at: usize| arguments[at] as i32 >= 0;
    match number {
        libc::SYS_epoll_pwait => in_ms(3),
        libc::SYS_ppoll => arguments[2] != 0,
        libc::SYS_pselect6 => arguments[4] != 0,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_epoll_wait => in_ms(3),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll => in_ms(2),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_select => arguments[4] != 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use thalweg_trace::{HostId, IdSpace, Memory, Role, TraceHandle};

    #[test]
    fn a_kernel_that_does_not_report_unix_sockets_is_not_asked_for_one_again() {
        let sink = Arc::new(Memory::new(10));
        let trace = TraceHandle::on(sink, HostId(0), Role::Client, IdSpace(1));
        let mut targets = WaitTargets::new(Objects::new(trace, HostId(0)));
        targets.diagnostics = None;
        assert_eq!(targets.other_side(4711), None);
        assert!(targets.strange.contains(&4711));
        targets.forget_sockets();
        assert!(targets.strange.is_empty());
    }

    #[test]
    fn a_time_limit_is_known_from_the_arguments() {
        assert!(is_timed_futex(&[1, 128 | 9 | 256, 0, 0x7f00, 0, 0]) && !is_timed_futex(&[1, 128 | 9, 0, 0, 0, 0]));
        assert!(!is_timed_futex(&[1, 9, 0, 0x7f00, 0, 0]), "another process may end it");
        assert!(
            has_limit(libc::SYS_epoll_pwait, &[3, 0x7f, 1, 50, 0, 0])
                && !has_limit(libc::SYS_epoll_pwait, &[3, 0x7f, 1, 0xffff_ffff, 0, 0])
        );
        assert!(has_limit(libc::SYS_ppoll, &[1, 1, 0x7f, 0, 0, 0]) && !has_limit(libc::SYS_ppoll, &[1, 1, 0, 0, 0, 0]));
    }
}
