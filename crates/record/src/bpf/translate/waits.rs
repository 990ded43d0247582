//! Classifies a wait by where the thread was when it was switched out and by who ended it: SCHEMA.md's table, as a
//! function of one record.

use super::syscalls::{Call, Calls};
use crate::bpf::raw::{self, Off};
use thalweg_trace::{ObjectKind, SpanKind};

/// The object of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    /// Nothing that has a name.
    Nothing,
    /// The file of this descriptor of the record.
    File(usize),
    /// The connection of this descriptor of the record.
    Socket(usize),
    /// The connection that ended it.
    Ender,
    /// The connection of the last fruitless receive, or one that was requested and not answered.
    Polled,
    /// The pipe, unix socket, terminal, eventfd or inotify queue of this descriptor of the record.
    Other(usize),
    /// The datagram socket of this descriptor of the record.
    Datagram(usize),
    /// The lock on the file of this descriptor.
    FileLock(usize),
    /// The file whose path the call was given.
    Path,
    /// The FIFO whose path the call was given.
    Fifo,
    /// The semaphore set, message queue or lock that the call identifies by number.
    Numbered,
    /// The object in shared memory at the call's first argument; this name if no file is mapped there.
    Shared(&'static str),
    /// An object of this kind and name.
    Named(ObjectKind, &'static str),
    /// The process that ended it, or the one in the call's first argument.
    Child,
}

/// The kind of a wait, and its object.
pub(crate) type Wait = (SpanKind, On);

fn by_descriptor(off: &Off, at: usize, file: SpanKind, socket: SpanKind) -> Wait {
    let fd = &off.file[at];
    match fd.mode & raw::MODE_KIND {
        raw::MODE_FILE | raw::MODE_BLOCK | raw::MODE_DIRECTORY => (file, On::File(at)),
        raw::MODE_SOCKET if raw::socket_is_tcp(fd) => (socket, On::Socket(at)),
        // Unconnected Internet sockets: a local thread that answers has ended the wait itself.
        raw::MODE_SOCKET if is_datagram(fd) => (datagram(off), On::Datagram(at)),
        // A timer's descriptor.
        0 if fd.mode != 0 && off.context == raw::CONTEXT_TIMER => (SpanKind::WaitTimer, On::Nothing),
        // Closed by another thread meanwhile, or not resolved.
        0 if fd.mode == 0 => (file, On::Nothing),
        // Pipes, Unix sockets, terminals, eventfd, inotify, ...: another thread must act.
        _ => (SpanKind::WaitLock, On::Other(at)),
    }
}

fn is_datagram(fd: &raw::FdObject) -> bool {
    fd.mode & raw::MODE_KIND == raw::MODE_SOCKET && matches!(fd.device & 0xff, 2 | 10) && !raw::socket_is_tcp(fd)
}

fn datagram(off: &Off) -> SpanKind {
    if off.context == raw::CONTEXT_TASK { SpanKind::WaitLock } else { SpanKind::WaitNetwork }
}

/// Classifies a wait that can be for anything by what ended it.
fn by_ender(off: &Off, otherwise: SpanKind) -> Wait {
    if off.wake_device != 0 {
        return (SpanKind::WaitDisk, On::Nothing);
    }
    if off.wake_connection != 0 {
        return (SpanKind::WaitNetwork, On::Ender);
    }
    match off.context {
        raw::CONTEXT_TASK => (SpanKind::WaitLock, On::Nothing),
        raw::CONTEXT_TIMER => (SpanKind::WaitTimer, On::Nothing),
        _ => (otherwise, On::Nothing),
    }
}

fn poll(off: &Off) -> Wait {
    if off.flags & raw::OFF_POLLS_NOTHING != 0 {
        (SpanKind::WaitTimer, On::Nothing)
    } else if off.wake_connection != 0 {
        (SpanKind::WaitNetwork, On::Ender)
    } else if is_datagram(&off.file[0]) {
        // (If its timeout ended it, its last peer has not answered.)
        (datagram(off), On::Datagram(0))
    } else if off.context == raw::CONTEXT_TASK {
        (SpanKind::WaitLock, On::Other(0))
    } else if raw::socket_is_tcp(&off.file[0]) {
        (SpanKind::WaitNetwork, On::Socket(0))
    } else if off.polled_connection != 0 {
        // (Requested by this process and not answered: whatever else it polls, that has not happened.)
        (SpanKind::WaitNetwork, On::Polled)
    } else if off.file[0].mode & raw::MODE_KIND != 0 {
        // A pipe or a terminal from which nothing came in time.
        (SpanKind::WaitNetwork, On::Other(0))
    } else {
        (SpanKind::WaitNetwork, On::Nothing)
    }
}

/// Returns the object of a wait for another thread or process: the call identifies the lock or process.
fn lock(off: &Off) -> On {
    let call = i64::from(off.call);
    match call {
        libc::SYS_futex if off.flags & raw::OFF_SHARED != 0 && off.flags & raw::OFF_CONDITION != 0 => On::Shared("condition or semaphore"),
        libc::SYS_futex if off.flags & raw::OFF_SHARED != 0 => On::Shared("futex"),
        libc::SYS_futex if off.flags & raw::OFF_CONDITION != 0 => On::Named(ObjectKind::Lock, "condition or semaphore"),
        libc::SYS_futex if off.flags & raw::OFF_MUTEX != 0 => On::Named(ObjectKind::Lock, "mutex"),
        libc::SYS_futex | libc::SYS_futex_waitv => On::Named(ObjectKind::Lock, "futex"),
        libc::SYS_flock | libc::SYS_fcntl => On::FileLock(0),
        libc::SYS_semop | libc::SYS_semtimedop | libc::SYS_msgrcv | libc::SYS_msgsnd => On::Numbered,
        libc::SYS_mq_timedreceive | libc::SYS_mq_timedsend => On::Numbered,
        libc::SYS_wait4 | libc::SYS_waitid | libc::SYS_clone | libc::SYS_clone3 => On::Child,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_vfork => On::Child,
        _ => On::Nothing,
    }
}

fn fault(off: &Off) -> Wait {
    if off.flags & raw::OFF_FAULT_FILE != 0 {
        (SpanKind::FileRead, On::File(0))
    } else if off.context == raw::CONTEXT_TASK {
        (SpanKind::WaitLock, On::Nothing)
    } else {
        (SpanKind::WaitMemory, On::Nothing)
    }
}

/// Classifies this wait. The thread was not runnable: `off.state` is not 0.
pub(crate) fn classify(off: &Off, calls: &Calls) -> Wait {
    let uninterruptible = off.state & raw::STATE_UNINTERRUPTIBLE != 0;
    if off.state & raw::STATE_STOPPED != 0 {
        return (SpanKind::WaitOther, On::Nothing);
    }
    let throttled = off.flags & raw::OFF_THROTTLED != 0;
    if throttled {
        let known = off.file.iter().rposition(|f| f.mode & raw::MODE_KIND == raw::MODE_FILE);
        return (SpanKind::WaitMemory, known.map_or(On::Nothing, On::File));
    }
    if off.flags & raw::OFF_KERNEL_THREAD != 0 || off.call == -2 {
        // An idle kernel thread waits to be given work.
        let idle = !uninterruptible || off.state & raw::STATE_IDLE != 0;
        let otherwise = match (off.flags & raw::OFF_IOWAIT != 0, idle) {
            (true, _) => SpanKind::WaitDisk,
            (false, true) => SpanKind::WaitLock,
            (false, false) => SpanKind::WaitOther,
        };
        return by_ender(off, otherwise);
    }
    if off.call < 0 {
        return fault(off);
    }
    let synced = off.file[0].access & raw::ACCESS_SYNCED != 0;
    match calls.of(off.call) {
        Call::Read => by_descriptor(off, 0, SpanKind::FileRead, SpanKind::NetReceive),
        Call::Write if synced => by_descriptor(off, 0, SpanKind::FileSync, SpanKind::NetSend),
        Call::Write => by_descriptor(off, 0, SpanKind::FileWrite, SpanKind::NetSend),
        Call::Sync => by_descriptor(off, 0, SpanKind::FileSync, SpanKind::FileSync),
        Call::MapSync => (SpanKind::FileSync, On::Nothing),
        Call::Open if off.file[0].access & raw::ACCESS_TRUNCATES != 0 => (SpanKind::FileTruncate, On::Path),
        Call::Open => (SpanKind::FileOpen, On::Path),
        Call::Stat => by_descriptor(off, 0, SpanKind::FileStat, SpanKind::WaitOther),
        Call::List => by_descriptor(off, 0, SpanKind::FileList, SpanKind::WaitOther),
        Call::Close if off.file[0].mode == 0 => (SpanKind::FileClose, On::File(0)),
        Call::Close => by_descriptor(off, 0, SpanKind::FileClose, SpanKind::NetSend),
        Call::Truncate => by_descriptor(off, 0, SpanKind::FileTruncate, SpanKind::WaitOther),
        Call::Remove => (SpanKind::FileRemove, On::Nothing),
        Call::Rename => (SpanKind::FileRename, On::Nothing),
        Call::Create => (SpanKind::FileCreate, On::Nothing),
        Call::Execute | Call::FileOther => by_descriptor(off, 0, SpanKind::FileOther, SpanKind::WaitOther),
        Call::Receive => by_descriptor(off, 0, SpanKind::NetReceive, SpanKind::NetReceive),
        Call::Send => by_descriptor(off, 0, SpanKind::NetSend, SpanKind::NetSend),
        Call::Connect => by_descriptor(off, 0, SpanKind::NetConnect, SpanKind::NetConnect),
        Call::Accept if off.context == raw::CONTEXT_TASK => (SpanKind::WaitLock, On::Nothing),
        Call::Accept => (SpanKind::WaitNetwork, On::Ender),
        Call::Poll => poll(off),
        Call::Sleep if off.polled_connection != 0 => (SpanKind::WaitNetwork, On::Polled),
        Call::Sleep => (SpanKind::WaitTimer, On::Nothing),
        Call::Lock => (SpanKind::WaitLock, lock(off)),
        // From a file (the second descriptor) to a descriptor: an uninterruptible wait is for the file.
        Call::SendFile if uninterruptible => by_descriptor(off, 1, SpanKind::FileRead, SpanKind::NetReceive),
        Call::SendFile => by_descriptor(off, 0, SpanKind::FileWrite, SpanKind::NetSend),
        Call::Between => between(off, uninterruptible),
        Call::IoUring | Call::Aio => by_ender(off, SpanKind::WaitOther),
        Call::Memory if off.context == raw::CONTEXT_TASK => (SpanKind::WaitLock, On::Nothing),
        Call::Memory => (SpanKind::WaitMemory, On::Nothing),
        Call::Yield | Call::Other if off.context == raw::CONTEXT_TASK && !uninterruptible => (SpanKind::WaitLock, On::Nothing),
        Call::Yield | Call::Other => by_ender(off, SpanKind::WaitOther),
    }
}

/// Classifies waits in splice and copy_file_range, from the first descriptor to the second: the file, if only a file
/// can cause such a wait; otherwise the socket.
fn between(off: &Off, uninterruptible: bool) -> Wait {
    let kind = |at: usize| off.file[at].mode & raw::MODE_KIND;
    let (from_file, to_file) = (kind(0) == raw::MODE_FILE, kind(1) == raw::MODE_FILE);
    match (from_file, to_file) {
        (true, true) if off.flags & raw::OFF_WRITEBACK != 0 => (SpanKind::FileWrite, On::File(1)),
        (true, true) => (SpanKind::FileRead, On::File(0)),
        (true, false) if uninterruptible => (SpanKind::FileRead, On::File(0)),
        (false, true) if uninterruptible => (SpanKind::FileWrite, On::File(1)),
        _ if raw::socket_is_tcp(&off.file[0]) => (SpanKind::NetReceive, On::Socket(0)),
        _ if raw::socket_is_tcp(&off.file[1]) => (SpanKind::NetSend, On::Socket(1)),
        _ => (SpanKind::WaitLock, On::Nothing),
    }
}
