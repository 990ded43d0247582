//! The object of a wait: what the thread waited on, named according to the rule for its call.

use super::Translator;
use super::facts::Facts;
use super::threads::Slot;
use super::waits::On;
use crate::bpf::raw::{self, FdObject, Off};
use thalweg_trace::{ObjectId, ObjectKind};

/// Minimum wait for which mappings are looked up.
const WORTH_LOOKING_UP_NS: u64 = 1_000_000;

impl Translator {
    pub(super) fn object_of(&mut self, off: &Off, thread: Slot, on: On, facts: &mut dyn Facts) -> Option<ObjectId> {
        match on {
            On::Nothing => None,
            On::File(at) if off.file[at].mode == 0 => self.closed(off, thread, facts),
            On::File(at) => self.files.of(&off.file[at], facts, &mut self.output),
            On::Socket(at) => self.connections.object(off.file[at].id, &mut self.output),
            On::Ender => self.connections.object(off.wake_connection, &mut self.output),
            On::Polled => self.connections.object(off.polled_connection, &mut self.output),
            On::Other(at) => self.other(&off.file[at], thread),
            On::Datagram(at) => self.things.datagram(off.file[at].id, &mut self.output),
            On::FileLock(at) => {
                let path = self.files.path_of(&off.file[at])?;
                Some(self.things.object(ObjectKind::Lock, &format!("flock {path}"), &mut self.output))
            }
            On::Path => self.opened(off, thread, ObjectKind::File),
            On::Fifo => self.opened(off, thread, ObjectKind::Pipe),
            On::Numbered => self.lock_of_call(off.call, off.argument, &off.file[0], facts),
            On::Shared(otherwise) => self.shared(off, thread, otherwise, facts),
            On::Named(kind, name) => Some(self.things.object(kind, name, &mut self.output)),
            On::Child => {
                let ender = if off.context == raw::CONTEXT_TASK { self.threads.process_of(off.waker) } else { None };
                let pid = ender.or_else(|| u32::try_from(off.argument.cast_signed()).ok().filter(|pid| *pid != 0))?;
                Some(self.things.object(ObjectKind::Process, &format!("child {pid}"), &mut self.output))
            }
        }
    }

    /// Returns the object for a file whose descriptor is already closed: the one the thread was last seen to write.
    fn closed(&mut self, off: &Off, thread: Slot, facts: &mut dyn Facts) -> Option<ObjectId> {
        let file = self.threads[thread].writes.filter(|file| i32::try_from(off.argument) == Ok(file.fd))?;
        self.files.of(&file, facts, &mut self.output)
    }

    /// Returns the object that a thread is about to open, by the path it was given.
    fn opened(&mut self, off: &Off, thread: Slot, kind: ObjectKind) -> Option<ObjectId> {
        let (at_ns, path) = self.threads[thread].waits_at.take()?;
        (at_ns == off.out_ns).then(|| self.things.object(kind, &path, &mut self.output))
    }

    /// Returns the lock or semaphore in memory shared by processes: named after the file mapped there.
    fn shared(&mut self, off: &Off, thread: Slot, otherwise: &str, facts: &mut dyn Facts) -> Option<ObjectId> {
        let is_long = off.head.at_ns.saturating_sub(off.out_ns) >= WORTH_LOOKING_UP_NS;
        let pid = self.threads[thread].pid().filter(|_| is_long);
        let path = pid.and_then(|pid| facts.mapped_file(pid, off.argument));
        let name = match path.as_deref().map(|path| (path, path.strip_prefix("/dev/shm/sem."))) {
            Some((_, Some(name))) => format!("semaphore /{name}"),
            Some((path, None)) => format!("{otherwise} in {path}"),
            None => otherwise.to_owned(),
        };
        Some(self.things.object(ObjectKind::Lock, &name, &mut self.output))
    }

    /// Returns the lock, semaphore or process that a call works on, by its descriptor or first argument.
    pub(super) fn lock_of_call(&mut self, call: i32, argument: u64, file: &FdObject, facts: &mut dyn Facts) -> Option<ObjectId> {
        let number = u32::try_from(argument.cast_signed()).ok();
        let (kind, name) = match i64::from(call) {
            libc::SYS_flock | libc::SYS_fcntl => (ObjectKind::Lock, format!("flock {}", self.files.path_of(file)?)),
            libc::SYS_wait4 => {
                (ObjectKind::Process, number.filter(|pid| *pid != 0).map_or("child".to_owned(), |pid| format!("child {pid}")))
            }
            libc::SYS_kill => (ObjectKind::Process, format!("process {}", number?)),
            libc::SYS_semop | libc::SYS_semtimedop => (ObjectKind::Lock, facts.system_v("semaphore set", "sem", number?)),
            libc::SYS_mq_timedreceive | libc::SYS_mq_timedsend => {
                let path = self.files.path_of(file)?;
                (ObjectKind::Lock, format!("message queue /{}", path.rsplit('/').next().unwrap_or(path)))
            }
            libc::SYS_msgrcv | libc::SYS_msgsnd => (ObjectKind::Lock, facts.system_v("message queue", "msg", number?)),
            _ => return None,
        };
        Some(self.things.object(kind, &name, &mut self.output))
    }

    /// Returns the object of a pipe, Unix socket, terminal, eventfd or inotify queue.
    fn other(&mut self, fd: &FdObject, thread: Slot) -> Option<ObjectId> {
        let (kind, name) = match fd.mode & raw::MODE_KIND {
            raw::MODE_FIFO => {
                let writer = self.threads[thread].pid().filter(|_| fd.access & 3 == raw::ACCESS_WRITE);
                return Some(self.things.pipe((fd.id, self.files.path_of(fd)), writer, &mut self.output));
            }
            raw::MODE_SOCKET if fd.device & 0xff == raw::FAMILY_UNIX => {
                return Some(self.things.unix(fd.id, &mut self.output));
            }
            raw::MODE_CHARACTER => {
                let path = self.files.path_of(fd)?;
                let is_terminal = ["/dev/pts/", "/dev/tty", "/dev/console", "/dev/ptmx"].iter().any(|start| path.starts_with(start));
                (ObjectKind::Terminal, is_terminal.then(|| path.to_owned())?)
            }
            _ if fd.access & raw::ACCESS_EVENTFD != 0 => (ObjectKind::Lock, "eventfd".to_owned()),
            _ if fd.access & raw::ACCESS_INOTIFY != 0 => (ObjectKind::Lock, "inotify".to_owned()),
            _ => return None,
        };
        Some(self.things.object(kind, &name, &mut self.output))
    }
}
