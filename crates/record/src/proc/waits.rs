//! Determines what a blocked system call waits for, from its number and its descriptor, and who can end the wait.

use super::files::Target;
use thalweg_trace::{ObjectId, SpanKind, WakerContext};

/// The reason of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reason {
    pub kind: SpanKind,
    pub object: Option<ObjectId>,
    pub context: Option<WakerContext>,
    /// −(signal) for a stopped thread.
    pub result: Option<i64>,
    pub ender: Ender,
}

impl Reason {
    /// Creates a reason of this kind without details.
    pub(super) fn of(kind: SpanKind) -> Reason {
        Reason { kind, object: None, context: None, result: None, ender: Ender::Unknown }
    }
}

/// Maximum pipes and sockets of one wait whose other ends are searched for.
pub(super) const MOST_SIDES: usize = 4;

/// Who can end a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ender {
    /// A device, a timer, another machine, or an unknown party.
    Unknown,
    /// A child, by exiting; 0: any child.
    Child(u32),
    /// This thread, by exiting.
    Thread(u32),
    /// Another thread of the same process.
    Sibling,
    /// This thread of the same process, if it has the lock when the wait ends; otherwise another of its threads.
    Holder(u32),
    /// The processes at a pipe's other end.
    Pipe { inode: u64, writes: bool },
    /// The processes with this socket.
    Socket(u64),
    /// The processes that write to one of these pipes, or have one of these sockets; 0: unused entry.
    Any([u64; MOST_SIDES]),
    /// One of the process's connections, by what came on it.
    Connection,
    /// This process, the lock's holder.
    Process(u32),
}

/// A call's class, before its descriptor is examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// Reads from the descriptor in its first argument.
    Read,
    /// Writes to it.
    Write,
    /// Waits for readiness of several descriptors.
    Ready,
    /// Waits for a futex.
    Futex,
    /// Waits for a child.
    Child,
    /// Waits for a lock on the file in its first argument.
    FileLock,
    /// Has a fixed kind, and a descriptor as its first argument.
    On(SpanKind),
    /// Has a fixed kind, and no descriptor.
    Plain(SpanKind),
}

/// Classifies a call by number.
pub(super) fn call(number: i64) -> Call {
    use SpanKind::{FileClose, FileList, FileOpen, FileOther, FileStat, FileSync, NetConnect, WaitDisk, WaitLock, WaitNetwork, WaitTimer};
    match number {
        libc::SYS_read | libc::SYS_pread64 | libc::SYS_readv | libc::SYS_preadv | libc::SYS_preadv2 => Call::Read,
        libc::SYS_recvfrom | libc::SYS_recvmsg | libc::SYS_recvmmsg | libc::SYS_readahead => Call::Read,
        libc::SYS_write | libc::SYS_pwrite64 | libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2 => Call::Write,
        libc::SYS_sendto | libc::SYS_sendmsg | libc::SYS_sendmmsg | libc::SYS_sendfile => Call::Write,
        libc::SYS_splice | libc::SYS_tee | libc::SYS_copy_file_range => Call::Read,
        libc::SYS_fsync | libc::SYS_fdatasync | libc::SYS_sync_file_range | libc::SYS_syncfs => Call::On(FileSync),
        libc::SYS_sync | libc::SYS_msync => Call::Plain(FileSync),
        libc::SYS_close => Call::On(FileClose),
        libc::SYS_fstat => Call::On(FileStat),
        libc::SYS_newfstatat | libc::SYS_statx | libc::SYS_faccessat | libc::SYS_readlinkat => Call::Plain(FileStat),
        libc::SYS_openat => Call::Plain(FileOpen),
        libc::SYS_getdents64 => Call::On(FileList),
        libc::SYS_ftruncate | libc::SYS_fallocate | libc::SYS_fchmod | libc::SYS_fchown => Call::On(FileOther),
        libc::SYS_unlinkat | libc::SYS_renameat | libc::SYS_renameat2 | libc::SYS_mkdirat | libc::SYS_utimensat => Call::Plain(FileOther),
        libc::SYS_connect => Call::On(NetConnect),
        libc::SYS_accept | libc::SYS_accept4 => Call::Plain(WaitNetwork),
        libc::SYS_ppoll | libc::SYS_pselect6 | libc::SYS_epoll_pwait => Call::Ready,
        libc::SYS_futex => Call::Futex,
        libc::SYS_wait4 | libc::SYS_waitid => Call::Child,
        libc::SYS_flock | libc::SYS_fcntl => Call::FileLock,
        libc::SYS_nanosleep | libc::SYS_clock_nanosleep => Call::Plain(WaitTimer),
        libc::SYS_semop | libc::SYS_semtimedop | libc::SYS_msgrcv | libc::SYS_msgsnd => Call::Plain(WaitLock),
        // Shells wait for their children this way.
        libc::SYS_rt_sigsuspend => Call::Child,
        libc::SYS_rt_sigtimedwait => Call::Plain(WaitLock),
        libc::SYS_io_getevents | libc::SYS_io_uring_enter => Call::Plain(WaitDisk),
        other => old_call(other),
    }
}

/// Classifies calls that exist only on older architectures.
#[cfg(target_arch = "x86_64")]
fn old_call(number: i64) -> Call {
    use SpanKind::{FileOpen, FileOther, FileStat, WaitLock, WaitOther};
    match number {
        libc::SYS_poll | libc::SYS_select | libc::SYS_epoll_wait => Call::Ready,
        libc::SYS_open | libc::SYS_creat => Call::Plain(FileOpen),
        libc::SYS_stat | libc::SYS_lstat | libc::SYS_access | libc::SYS_readlink => Call::Plain(FileStat),
        libc::SYS_unlink | libc::SYS_rename | libc::SYS_mkdir | libc::SYS_rmdir => Call::Plain(FileOther),
        libc::SYS_pause | libc::SYS_vfork => Call::Plain(WaitLock),
        _ => Call::Plain(WaitOther),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn old_call(_number: i64) -> Call {
    Call::Plain(SpanKind::WaitOther)
}

/// Returns the kind of a wait in a call on `target`.
pub(super) fn kind(call: Call, target: Option<&Target>) -> SpanKind {
    match (call, target) {
        (Call::On(SpanKind::FileClose), Some(Target::Socket(_))) => SpanKind::WaitNetwork,
        (Call::On(kind) | Call::Plain(kind), _) => kind,
        (Call::Futex | Call::Child | Call::FileLock, _) => SpanKind::WaitLock,
        (Call::Ready, Some(Target::Connection(_)) | None) => SpanKind::WaitNetwork,
        (Call::Read, Some(Target::File(_))) => SpanKind::FileRead,
        (Call::Write, Some(Target::File(_))) => SpanKind::FileWrite,
        (Call::Read, Some(Target::Connection(_))) => SpanKind::NetReceive,
        (Call::Write, Some(Target::Connection(_))) => SpanKind::NetSend,
        (_, Some(Target::Timer)) => SpanKind::WaitTimer,
        (_, Some(Target::Datagrams(..))) => SpanKind::WaitNetwork,
        (_, Some(Target::Socket(_) | Target::Pipe(_) | Target::Terminal(_) | Target::Other | Target::File(_))) => SpanKind::WaitLock,
        (_, None) => SpanKind::WaitOther,
        (Call::Read | Call::Write, Some(Target::Directory)) => SpanKind::FileRead,
        (Call::Ready, Some(Target::Directory)) => SpanKind::WaitLock,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_trace::ObjectId;

    #[test]
    fn a_read_is_what_its_descriptor_is() {
        let object = ObjectId::new(1).expect("not zero");
        let read = call(libc::SYS_read);
        assert_eq!(kind(read, Some(&Target::File(object))), SpanKind::FileRead);
        assert_eq!(kind(read, Some(&Target::Connection(object))), SpanKind::NetReceive);
        assert_eq!(kind(read, Some(&Target::Pipe(1))), SpanKind::WaitLock);
        assert_eq!(kind(read, Some(&Target::Terminal(object))), SpanKind::WaitLock, "it is somebody's");
        assert_eq!(kind(read, None), SpanKind::WaitOther);
        assert_eq!(kind(call(libc::SYS_fsync), Some(&Target::File(object))), SpanKind::FileSync);
        assert_eq!(kind(call(libc::SYS_futex), None), SpanKind::WaitLock);
        assert_eq!(kind(call(99_999), None), SpanKind::WaitOther);
    }
}
