//! Numbers and flags of the protocol, by the names the kernel's `linux/fuse.h` gives them. All integers are in the
//! machine's own byte order.
#![allow(missing_docs)]

pub const KERNEL_VERSION: u32 = 7;
/// The minor version that is spoken here; the kernel speaks the lower one of its own and this.
pub const KERNEL_MINOR_VERSION: u32 = 40;
/// The oldest that has everything needed (7.33: privileges of written files are dropped here, Linux 5.11).
pub const OLDEST_MINOR_VERSION: u32 = 33;
/// The mounted directory.
pub const ROOT: u64 = 1;

pub const IN_HEADER_BYTES: usize = 40;
pub const OUT_HEADER_BYTES: usize = 16;
/// Header and fields of a write; its bytes follow.
pub const WRITE_HEAD_BYTES: usize = IN_HEADER_BYTES + 40;
pub const PAGE_BYTES: usize = 4096;

pub mod opcode {
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const READLINK: u32 = 5;
    pub const SYMLINK: u32 = 6;
    pub const MKNOD: u32 = 8;
    pub const MKDIR: u32 = 9;
    pub const UNLINK: u32 = 10;
    pub const RMDIR: u32 = 11;
    pub const RENAME: u32 = 12;
    pub const LINK: u32 = 13;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const SETXATTR: u32 = 21;
    pub const GETXATTR: u32 = 22;
    pub const LISTXATTR: u32 = 23;
    pub const REMOVEXATTR: u32 = 24;
    pub const FLUSH: u32 = 25;
    pub const INIT: u32 = 26;
    pub const OPENDIR: u32 = 27;
    pub const READDIR: u32 = 28;
    pub const RELEASEDIR: u32 = 29;
    pub const FSYNCDIR: u32 = 30;
    pub const GETLK: u32 = 31;
    pub const SETLK: u32 = 32;
    pub const SETLKW: u32 = 33;
    pub const CREATE: u32 = 35;
    pub const INTERRUPT: u32 = 36;
    pub const DESTROY: u32 = 38;
    pub const BATCH_FORGET: u32 = 42;
    pub const FALLOCATE: u32 = 43;
    pub const READDIRPLUS: u32 = 44;
    pub const RENAME2: u32 = 45;
    pub const LSEEK: u32 = 46;
    pub const SYNCFS: u32 = 50;

    /// Each with its name as it is written in documents.
    pub const NAMES: &[(u32, &str)] = &[
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
        (SYNCFS, "syncfs"),
    ];
}

/// What kernel and mount agree on when they begin.
pub mod init {
    pub const ASYNC_READ: u64 = 1 << 0;
    pub const POSIX_LOCKS: u64 = 1 << 1;
    pub const ATOMIC_O_TRUNC: u64 = 1 << 3;
    pub const BIG_WRITES: u64 = 1 << 5;
    pub const FLOCK_LOCKS: u64 = 1 << 10;
    pub const DO_READDIRPLUS: u64 = 1 << 13;
    pub const READDIRPLUS_AUTO: u64 = 1 << 14;
    pub const ASYNC_DIO: u64 = 1 << 15;
    pub const PARALLEL_DIROPS: u64 = 1 << 18;
    pub const MAX_PAGES: u64 = 1 << 22;
    pub const CACHE_SYMLINKS: u64 = 1 << 23;
    pub const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    pub const INIT_EXT: u64 = 1 << 30;
    pub const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
}

/// How an open file behaves.
pub mod fopen {
    pub const DIRECT_IO: u32 = 1 << 0;
    pub const KEEP_CACHE: u32 = 1 << 1;
    pub const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
}

/// Which fields of a setattr mean something.
pub mod setattr {
    pub const MODE: u32 = 1 << 0;
    pub const UID: u32 = 1 << 1;
    pub const GID: u32 = 1 << 2;
    pub const SIZE: u32 = 1 << 3;
    pub const ATIME: u32 = 1 << 4;
    pub const MTIME: u32 = 1 << 5;
    pub const FH: u32 = 1 << 6;
    pub const ATIME_NOW: u32 = 1 << 7;
    pub const MTIME_NOW: u32 = 1 << 8;
    pub const KILL_SUIDGID: u32 = 1 << 11;
}

pub const GETATTR_FH: u32 = 1 << 0;
pub const LK_FLOCK: u32 = 1 << 0;
pub const WRITE_CACHE: u32 = 1 << 0;
pub const WRITE_KILL_SUIDGID: u32 = 1 << 2;
/// See [`WRITE_KILL_SUIDGID`]: of an open that empties the file.
pub const OPEN_KILL_SUIDGID: u32 = 1 << 0;
pub const RELEASE_FLOCK_UNLOCK: u32 = 1 << 1;
pub const FSYNC_FDATASYNC: u32 = 1 << 0;

pub mod notify {
    pub const INVAL_INODE: i32 = 2;
    pub const INVAL_ENTRY: i32 = 3;
    pub const PRUNE: i32 = 9;
}

/// `FUSE_DEV_IOC_CLONE`: _IOR(229, 0, u32).
pub const DEVICE_CLONE: u64 = 0x8004_e500;
