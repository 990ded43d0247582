//! Describes each system call: which arguments are descriptors, how a thread blocked in it waits, and how the
//! kernel's I/O accounting counts it. One table for x86-64 and aarch64: numbers come from `libc` by name.

use libc as c;

/// The class of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub(crate) enum Call {
    /// read and similar calls; the descriptor decides what is read.
    Read,
    /// write and similar calls.
    Write,
    Sync,
    Open,
    Stat,
    List,
    Close,
    Truncate,
    /// unlink, rmdir.
    Remove,
    Rename,
    /// mkdir, mknod, link, symlink.
    Create,
    /// execve: a program starts.
    Execute,
    /// Any other call on names and files.
    FileOther,
    Receive,
    Send,
    Connect,
    Accept,
    /// poll, select, epoll.
    Poll,
    /// Yields the CPU.
    Yield,
    Sleep,
    /// Waits for another thread or process.
    Lock,
    /// From a file to a descriptor (sendfile).
    SendFile,
    /// Between two descriptors (splice, tee, copy_file_range).
    Between,
    IoUring,
    Aio,
    /// Changes the address space.
    Memory,
    /// Writes mapped pages (msync).
    MapSync,
    Other,
}

/// The first argument is a descriptor.
pub(crate) const FD0: u16 = 1;
/// The second is one too.
pub(crate) const FD1: u16 = 2;
/// The third is one too.
pub(crate) const FD2: u16 = 4;
/// The accounting counts its bytes as read.
pub(crate) const READS: u16 = 8;
/// The accounting counts its bytes as written.
pub(crate) const WRITES: u16 = 16;
/// It sleeps for a time.
pub(crate) const SLEEPS: u16 = 32;
/// It writes to the first descriptor what it reads from the second.
pub(crate) const OUT_FIRST: u16 = 64;
/// Recorded itself, if calls are traced.
pub(crate) const RECORDED: u16 = 128;
/// The fourth argument is a file offset.
pub(crate) const POSITIONED: u16 = 256;
/// The first argument is an array of `pollfd`, the second its length.
pub(crate) const POLLS_ONE: u16 = 512;
/// It waits for any of several descriptors.
pub(crate) const POLLS: u16 = 1024;
/// futex(2): its second argument says which operation.
pub(crate) const FUTEX: u16 = 2048;

/// Its failure means that it polled for something.
pub(crate) const LOOKS: u16 = 32_768;
/// Which argument is a path, in three bits: the first; the second, relative to the first; the second; the fourth,
/// relative to the third; the third, relative to the second; or the second is an address.
const PATH: u16 = 1 << 12;
const PATH_SECOND_AT: u16 = 2 << 12;
#[cfg(target_arch = "x86_64")]
const PATH_SECOND: u16 = 3 << 12;
const PATH_FOURTH_AT: u16 = 4 << 12;
const PATH_THIRD_AT: u16 = 5 << 12;
const ADDRESS: u16 = 6 << 12;
/// The second and third are descriptor sets.
const SETS: u16 = 7 << 12;

/// Missing in `libc` on some targets.
#[cfg(target_arch = "x86_64")]
const IO_PGETEVENTS: c::c_long = 333;
#[cfg(not(target_arch = "x86_64"))]
const IO_PGETEVENTS: c::c_long = 292;

const TABLE: &[(c::c_long, Call, u16)] = &[
    (c::SYS_sched_yield, Call::Yield, 0),
    (c::SYS_read, Call::Read, FD0 | READS),
    (c::SYS_pread64, Call::Read, FD0 | READS | POSITIONED),
    (c::SYS_readv, Call::Read, FD0 | READS),
    (c::SYS_preadv, Call::Read, FD0 | READS | POSITIONED),
    (c::SYS_preadv2, Call::Read, FD0 | READS | POSITIONED),
    (c::SYS_readahead, Call::Read, FD0),
    (c::SYS_write, Call::Write, FD0 | WRITES),
    (c::SYS_pwrite64, Call::Write, FD0 | WRITES | POSITIONED),
    (c::SYS_writev, Call::Write, FD0 | WRITES),
    (c::SYS_pwritev, Call::Write, FD0 | WRITES | POSITIONED),
    (c::SYS_pwritev2, Call::Write, FD0 | WRITES | POSITIONED),
    (c::SYS_fallocate, Call::Write, FD0),
    (c::SYS_sendfile, Call::SendFile, FD0 | FD1 | READS | WRITES | OUT_FIRST),
    (c::SYS_splice, Call::Between, FD0 | FD2),
    (c::SYS_tee, Call::Between, FD0 | FD1),
    (c::SYS_vmsplice, Call::Between, FD0),
    (c::SYS_copy_file_range, Call::Between, FD0 | FD2 | READS | WRITES),
    (c::SYS_fsync, Call::Sync, FD0),
    (c::SYS_fdatasync, Call::Sync, FD0),
    (c::SYS_sync_file_range, Call::Sync, FD0),
    (c::SYS_syncfs, Call::Sync, FD0),
    (c::SYS_sync, Call::Sync, 0),
    (c::SYS_msync, Call::MapSync, 0),
    (c::SYS_openat, Call::Open, LOOKS | PATH_SECOND_AT),
    (c::SYS_openat2, Call::Open, LOOKS | PATH_SECOND_AT),
    (c::SYS_newfstatat, Call::Stat, LOOKS | PATH_SECOND_AT),
    (c::SYS_fstat, Call::Stat, FD0),
    (c::SYS_statx, Call::Stat, LOOKS | PATH_SECOND_AT),
    (c::SYS_statfs, Call::Stat, 0),
    (c::SYS_fstatfs, Call::Stat, FD0),
    (c::SYS_faccessat, Call::Stat, LOOKS | PATH_SECOND_AT),
    (c::SYS_faccessat2, Call::Stat, LOOKS | PATH_SECOND_AT),
    (c::SYS_readlinkat, Call::Stat, LOOKS | PATH_SECOND_AT),
    (c::SYS_getxattr, Call::Stat, 0),
    (c::SYS_lgetxattr, Call::Stat, 0),
    (c::SYS_fgetxattr, Call::Stat, FD0),
    (c::SYS_listxattr, Call::Stat, 0),
    (c::SYS_llistxattr, Call::Stat, 0),
    (c::SYS_flistxattr, Call::Stat, FD0),
    (c::SYS_getdents64, Call::List, FD0),
    (c::SYS_close, Call::Close, FD0),
    (c::SYS_close_range, Call::Close, 0),
    (c::SYS_unlinkat, Call::Remove, LOOKS | PATH_SECOND_AT),
    (c::SYS_renameat, Call::Rename, LOOKS | PATH_SECOND_AT),
    (c::SYS_renameat2, Call::Rename, LOOKS | PATH_SECOND_AT),
    (c::SYS_linkat, Call::Create, LOOKS | PATH_FOURTH_AT),
    (c::SYS_symlinkat, Call::Create, LOOKS | PATH_THIRD_AT),
    (c::SYS_mkdirat, Call::Create, LOOKS | PATH_SECOND_AT),
    (c::SYS_mknodat, Call::Create, LOOKS | PATH_SECOND_AT),
    (c::SYS_truncate, Call::Truncate, 0),
    (c::SYS_ftruncate, Call::Truncate, FD0),
    (c::SYS_fchmod, Call::FileOther, FD0),
    (c::SYS_fchmodat, Call::FileOther, 0),
    (c::SYS_fchown, Call::FileOther, FD0),
    (c::SYS_fchownat, Call::FileOther, 0),
    (c::SYS_utimensat, Call::FileOther, 0),
    (c::SYS_setxattr, Call::FileOther, 0),
    (c::SYS_lsetxattr, Call::FileOther, 0),
    (c::SYS_fsetxattr, Call::FileOther, FD0),
    (c::SYS_fadvise64, Call::FileOther, FD0),
    (c::SYS_chdir, Call::FileOther, LOOKS | PATH),
    (c::SYS_mount, Call::FileOther, 0),
    (c::SYS_umount2, Call::FileOther, 0),
    (c::SYS_execve, Call::Execute, 0),
    (c::SYS_execveat, Call::Execute, 0),
    (c::SYS_recvfrom, Call::Receive, FD0),
    (c::SYS_recvmsg, Call::Receive, FD0),
    (c::SYS_recvmmsg, Call::Receive, FD0),
    (c::SYS_sendto, Call::Send, FD0),
    (c::SYS_sendmsg, Call::Send, FD0),
    (c::SYS_sendmmsg, Call::Send, FD0),
    (c::SYS_connect, Call::Connect, FD0 | LOOKS | ADDRESS),
    (c::SYS_accept, Call::Accept, FD0),
    (c::SYS_accept4, Call::Accept, FD0),
    (c::SYS_shutdown, Call::Send, FD0),
    (c::SYS_ppoll, Call::Poll, POLLS | POLLS_ONE),
    (c::SYS_pselect6, Call::Poll, POLLS | SETS),
    (c::SYS_epoll_pwait, Call::Poll, POLLS),
    (c::SYS_epoll_pwait2, Call::Poll, POLLS),
    (c::SYS_nanosleep, Call::Sleep, SLEEPS),
    (c::SYS_clock_nanosleep, Call::Sleep, SLEEPS),
    (c::SYS_restart_syscall, Call::Sleep, SLEEPS),
    (c::SYS_rt_sigtimedwait, Call::Sleep, 0),
    (c::SYS_futex, Call::Lock, FUTEX),
    (c::SYS_futex_waitv, Call::Lock, 0),
    (c::SYS_wait4, Call::Lock, LOOKS),
    (c::SYS_waitid, Call::Lock, 0),
    (c::SYS_rt_sigsuspend, Call::Lock, 0),
    (c::SYS_flock, Call::Lock, FD0 | LOOKS),
    (c::SYS_fcntl, Call::Lock, FD0 | LOOKS),
    (c::SYS_semop, Call::Lock, LOOKS),
    (c::SYS_semtimedop, Call::Lock, LOOKS),
    (c::SYS_msgrcv, Call::Lock, LOOKS),
    (c::SYS_msgsnd, Call::Lock, 0),
    (c::SYS_mq_timedreceive, Call::Lock, FD0),
    (c::SYS_mq_timedsend, Call::Lock, FD0),
    (c::SYS_kill, Call::Other, LOOKS),
    (c::SYS_exit, Call::Lock, 0),
    (c::SYS_exit_group, Call::Lock, 0),
    (c::SYS_clone, Call::Lock, 0),
    (c::SYS_clone3, Call::Lock, 0),
    (c::SYS_io_uring_enter, Call::IoUring, 0),
    (c::SYS_io_getevents, Call::Aio, 0),
    (IO_PGETEVENTS, Call::Aio, 0),
    (c::SYS_io_submit, Call::Aio, 0),
    (c::SYS_io_destroy, Call::Aio, 0),
    (c::SYS_mmap, Call::Memory, 0),
    (c::SYS_munmap, Call::Memory, 0),
    (c::SYS_mremap, Call::Memory, 0),
    (c::SYS_mprotect, Call::Memory, 0),
    (c::SYS_madvise, Call::Memory, 0),
    (c::SYS_brk, Call::Memory, 0),
];

/// Calls that only x86-64 has.
#[cfg(target_arch = "x86_64")]
const OLDER: &[(c::c_long, Call, u16)] = &[
    (c::SYS_open, Call::Open, LOOKS | PATH),
    (c::SYS_creat, Call::Open, LOOKS | PATH),
    (c::SYS_stat, Call::Stat, LOOKS | PATH),
    (c::SYS_lstat, Call::Stat, LOOKS | PATH),
    (c::SYS_access, Call::Stat, LOOKS | PATH),
    (c::SYS_readlink, Call::Stat, LOOKS | PATH),
    (c::SYS_getdents, Call::List, FD0),
    (c::SYS_unlink, Call::Remove, LOOKS | PATH),
    (c::SYS_rmdir, Call::Remove, LOOKS | PATH),
    (c::SYS_rename, Call::Rename, LOOKS | PATH),
    (c::SYS_mkdir, Call::Create, LOOKS | PATH),
    (c::SYS_link, Call::Create, LOOKS | PATH_SECOND),
    (c::SYS_symlink, Call::Create, LOOKS | PATH_SECOND),
    (c::SYS_chmod, Call::FileOther, 0),
    (c::SYS_chown, Call::FileOther, 0),
    (c::SYS_utime, Call::FileOther, 0),
    (c::SYS_utimes, Call::FileOther, 0),
    (c::SYS_futimesat, Call::FileOther, 0),
    (c::SYS_poll, Call::Poll, POLLS | POLLS_ONE),
    (c::SYS_select, Call::Poll, POLLS | SETS),
    (c::SYS_epoll_wait, Call::Poll, POLLS),
    (c::SYS_pause, Call::Lock, 0),
    (c::SYS_fork, Call::Lock, 0),
    (c::SYS_vfork, Call::Lock, 0),
];

#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[(c::c_long, Call, u16)] = &[];

const NUMBERS: usize = 512;

/// The table, by call number.
pub(crate) struct Calls {
    calls: [Call; NUMBERS],
    flags: [u16; NUMBERS],
}

impl std::fmt::Debug for Calls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Calls")
    }
}

impl Default for Calls {
    fn default() -> Calls {
        let mut table = Calls { calls: [Call::Other; NUMBERS], flags: [0; NUMBERS] };
        for &(number, call, flags) in TABLE.iter().chain(OLDER) {
            if let Some(at) = usize::try_from(number).ok().filter(|n| *n < NUMBERS) {
                table.calls[at] = call;
                let silent = matches!(
                    call,
                    Call::Accept | Call::Poll | Call::Sleep | Call::Lock | Call::IoUring | Call::Aio | Call::Memory | Call::Other
                );
                table.flags[at] = flags | if silent { 0 } else { RECORDED };
            }
        }
        table
    }
}

impl Calls {
    /// Returns the class of the call with this number.
    pub(crate) fn of(&self, number: i32) -> Call {
        usize::try_from(number).ok().and_then(|n| self.calls.get(n)).copied().unwrap_or(Call::Other)
    }

    /// Returns the flags of the call with this number.
    pub(crate) fn flags(&self, number: i32) -> u16 {
        usize::try_from(number).ok().and_then(|n| self.flags.get(n)).copied().unwrap_or(0)
    }

    /// Returns the flags of all calls, in the programs' format.
    pub(crate) fn all_flags(&self) -> [u16; NUMBERS] {
        self.flags
    }
}
