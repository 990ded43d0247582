//! What a blocked system call waits for, from its number and what its descriptor is.

use super::files::Target;
use thalweg_trace::SpanKind;

/// What a call works on, before its descriptor is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// Takes bytes from the descriptor that is its first argument.
    Read,
    /// Gives bytes to it.
    Write,
    /// One of a fixed kind; with a descriptor as its first argument or not.
    On(SpanKind),
    /// Needs none.
    Plain(SpanKind),
}

/// What a call's number says.
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
        libc::SYS_ppoll | libc::SYS_pselect6 | libc::SYS_epoll_pwait => Call::Plain(WaitNetwork),
        libc::SYS_nanosleep | libc::SYS_clock_nanosleep => Call::Plain(WaitTimer),
        libc::SYS_futex | libc::SYS_wait4 | libc::SYS_waitid | libc::SYS_semop | libc::SYS_semtimedop | libc::SYS_flock => {
            Call::Plain(WaitLock)
        }
        libc::SYS_msgrcv | libc::SYS_msgsnd | libc::SYS_rt_sigtimedwait | libc::SYS_rt_sigsuspend | libc::SYS_fcntl => {
            Call::Plain(WaitLock)
        }
        libc::SYS_io_getevents | libc::SYS_io_uring_enter => Call::Plain(WaitDisk),
        other => old_call(other),
    }
}

/// Calls that newer processors' kernels have no number for.
#[cfg(target_arch = "x86_64")]
fn old_call(number: i64) -> Call {
    use SpanKind::{FileOpen, FileOther, FileStat, WaitLock, WaitNetwork, WaitOther};
    match number {
        libc::SYS_poll | libc::SYS_select | libc::SYS_epoll_wait => Call::Plain(WaitNetwork),
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

/// The kind of a wait in a call on `target`.
pub(super) fn kind(call: Call, target: Option<&Target>) -> SpanKind {
    match (call, target) {
        (Call::On(SpanKind::FileClose), Some(Target::Socket(_))) => SpanKind::WaitNetwork,
        (Call::On(kind) | Call::Plain(kind), _) => kind,
        (Call::Read, Some(Target::File(_))) => SpanKind::FileRead,
        (Call::Write, Some(Target::File(_))) => SpanKind::FileWrite,
        (Call::Read, Some(Target::Connection(_))) => SpanKind::NetReceive,
        (Call::Write, Some(Target::Connection(_))) => SpanKind::NetSend,
        (_, Some(Target::Timer)) => SpanKind::WaitTimer,
        (_, Some(Target::Socket(_) | Target::Pipe | Target::Other)) => SpanKind::WaitLock,
        (_, Some(Target::Terminal) | None) => SpanKind::WaitOther,
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
        assert_eq!(kind(read, Some(&Target::Pipe)), SpanKind::WaitLock);
        assert_eq!(kind(read, None), SpanKind::WaitOther);
        assert_eq!(kind(call(libc::SYS_fsync), Some(&Target::File(object))), SpanKind::FileSync);
        assert_eq!(kind(call(libc::SYS_futex), None), SpanKind::WaitLock);
        assert_eq!(kind(call(99_999), None), SpanKind::WaitOther);
    }
}
