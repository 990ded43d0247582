//! Numbers and flags of the protocol, named as in the kernel's `linux/fuse.h`. All integers are in the machine's byte order.
#![allow(missing_docs)]

pub(crate) const KERNEL_VERSION: u32 = 7;
/// Minor version implemented here; both sides use the lower of the kernel's and this.
pub(crate) const KERNEL_MINOR_VERSION: u32 = 40;
/// Oldest minor version with everything needed (7.33: the mount drops privileges of written files, Linux 5.11).
pub(crate) const OLDEST_MINOR_VERSION: u32 = 33;
/// The mounted directory.
pub(crate) const ROOT: u64 = 1;

pub(crate) const IN_HEADER_BYTES: usize = 40;
/// Bytes before the data of a write request.
pub(crate) const WRITE_HEADER_BYTES: usize = IN_HEADER_BYTES + 40;
pub(crate) const OUT_HEADER_BYTES: usize = 16;
pub(crate) const PAGE_BYTES: usize = 4096;

pub(crate) mod opcode {
    pub(crate) const LOOKUP: u32 = 1;
    pub(crate) const FORGET: u32 = 2;
    pub(crate) const GETATTR: u32 = 3;
    pub(crate) const SETATTR: u32 = 4;
    pub(crate) const READLINK: u32 = 5;
    pub(crate) const SYMLINK: u32 = 6;
    pub(crate) const MKNOD: u32 = 8;
    pub(crate) const MKDIR: u32 = 9;
    pub(crate) const UNLINK: u32 = 10;
    pub(crate) const RMDIR: u32 = 11;
    pub(crate) const RENAME: u32 = 12;
    pub(crate) const LINK: u32 = 13;
    pub(crate) const OPEN: u32 = 14;
    pub(crate) const READ: u32 = 15;
    pub(crate) const WRITE: u32 = 16;
    pub(crate) const STATFS: u32 = 17;
    pub(crate) const RELEASE: u32 = 18;
    pub(crate) const FSYNC: u32 = 20;
    pub(crate) const SETXATTR: u32 = 21;
    pub(crate) const GETXATTR: u32 = 22;
    pub(crate) const LISTXATTR: u32 = 23;
    pub(crate) const REMOVEXATTR: u32 = 24;
    pub(crate) const FLUSH: u32 = 25;
    pub(crate) const INIT: u32 = 26;
    pub(crate) const OPENDIR: u32 = 27;
    pub(crate) const READDIR: u32 = 28;
    pub(crate) const RELEASEDIR: u32 = 29;
    pub(crate) const FSYNCDIR: u32 = 30;
    pub(crate) const GETLK: u32 = 31;
    pub(crate) const SETLK: u32 = 32;
    pub(crate) const SETLKW: u32 = 33;
    pub(crate) const CREATE: u32 = 35;
    pub(crate) const INTERRUPT: u32 = 36;
    pub(crate) const DESTROY: u32 = 38;
    pub(crate) const BATCH_FORGET: u32 = 42;
    pub(crate) const FALLOCATE: u32 = 43;
    pub(crate) const READDIRPLUS: u32 = 44;
    pub(crate) const RENAME2: u32 = 45;
    pub(crate) const LSEEK: u32 = 46;
    pub(crate) const COPY_FILE_RANGE: u32 = 47;
    pub(crate) const SYNCFS: u32 = 50;

    /// Numbers with their names for documents.
    pub(crate) const NAMES: &[(u32, &str)] = &[
        (LOOKUP, "lookup"),
        (FORGET, "forget"),
        (GETATTR, "getattr"),
        (SETATTR, "setattr"),
        (READLINK, "readlink"),
        (SYMLINK, "symlink"),
        (MKNOD, "mknod"),
        (MKDIR, "mkdir"),
        (UNLINK, "unlink"),
        (RMDIR, "rmdir"),
        (RENAME, "rename"),
        (LINK, "link"),
        (OPEN, "open"),
        (READ, "read"),
        (WRITE, "write"),
        (STATFS, "statfs"),
        (RELEASE, "release"),
        (FSYNC, "fsync"),
        (SETXATTR, "setxattr"),
        (GETXATTR, "getxattr"),
        (LISTXATTR, "listxattr"),
        (REMOVEXATTR, "removexattr"),
        (FLUSH, "flush"),
        (OPENDIR, "opendir"),
        (READDIR, "readdir"),
        (RELEASEDIR, "releasedir"),
        (FSYNCDIR, "fsyncdir"),
        (GETLK, "getlk"),
        (SETLK, "setlk"),
        (SETLKW, "setlkw"),
        (CREATE, "create"),
        (INTERRUPT, "interrupt"),
        (BATCH_FORGET, "batch_forget"),
        (FALLOCATE, "fallocate"),
        (READDIRPLUS, "readdirplus"),
        (RENAME2, "rename2"),
        (LSEEK, "lseek"),
        (COPY_FILE_RANGE, "copy_file_range"),
        (SYNCFS, "syncfs"),
    ];
}

/// Flags negotiated at the beginning.
pub(crate) mod init {
    pub(crate) const ASYNC_READ: u64 = 1 << 0;
    pub(crate) const POSIX_LOCKS: u64 = 1 << 1;
    pub(crate) const ATOMIC_O_TRUNC: u64 = 1 << 3;
    pub(crate) const BIG_WRITES: u64 = 1 << 5;
    pub(crate) const FLOCK_LOCKS: u64 = 1 << 10;
    pub(crate) const DO_READDIRPLUS: u64 = 1 << 13;
    pub(crate) const READDIRPLUS_AUTO: u64 = 1 << 14;
    pub(crate) const ASYNC_DIO: u64 = 1 << 15;
    pub(crate) const PARALLEL_DIROPS: u64 = 1 << 18;
    pub(crate) const MAX_PAGES: u64 = 1 << 22;
    pub(crate) const CACHE_SYMLINKS: u64 = 1 << 23;
    pub(crate) const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    pub(crate) const INIT_EXT: u64 = 1 << 30;
    pub(crate) const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
}

/// Flags of an open file.
pub(crate) mod fopen {
    pub(crate) const DIRECT_IO: u32 = 1 << 0;
    pub(crate) const KEEP_CACHE: u32 = 1 << 1;
    pub(crate) const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
}

/// Valid fields of a setattr.
pub(crate) mod setattr {
    pub(crate) const MODE: u32 = 1 << 0;
    pub(crate) const UID: u32 = 1 << 1;
    pub(crate) const GID: u32 = 1 << 2;
    pub(crate) const SIZE: u32 = 1 << 3;
    pub(crate) const ATIME: u32 = 1 << 4;
    pub(crate) const MTIME: u32 = 1 << 5;
    pub(crate) const FH: u32 = 1 << 6;
    pub(crate) const ATIME_NOW: u32 = 1 << 7;
    pub(crate) const MTIME_NOW: u32 = 1 << 8;
    pub(crate) const KILL_SUIDGID: u32 = 1 << 11;
}

pub(crate) const GETATTR_FH: u32 = 1 << 0;
pub(crate) const LK_FLOCK: u32 = 1 << 0;
pub(crate) const WRITE_CACHE: u32 = 1 << 0;
pub(crate) const WRITE_KILL_SUIDGID: u32 = 1 << 2;
/// Like [`WRITE_KILL_SUIDGID`], for an open that truncates the file.
pub(crate) const OPEN_KILL_SUIDGID: u32 = 1 << 0;
pub(crate) const FSYNC_FDATASYNC: u32 = 1 << 0;

pub(crate) mod notify {
    pub(crate) const INVAL_INODE: i32 = 2;
    pub(crate) const STORE: i32 = 4;
    pub(crate) const PRUNE: i32 = 9;
}

/// `FUSE_DEV_IOC_CLONE`: _IOR(229, 0, u32).
pub(crate) const DEVICE_CLONE: u64 = 0x8004_e500;
