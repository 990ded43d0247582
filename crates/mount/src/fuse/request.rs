//! Decoding of requests.

use super::abi::{self, opcode};

/// Header of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    /// Number of the request.
    pub unique: u64,
    /// Operation, one of [`opcode`].
    pub opcode: u32,
    /// File or directory it concerns.
    pub node: u64,
    /// User of the program.
    pub uid: u32,
    /// Group of the program.
    pub gid: u32,
    /// Thread that made the request; 0 if it is in an invisible namespace.
    pub pid: u32,
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeSet {
    /// The current time.
    Now,
    /// Nanoseconds since 1970.
    At(i64),
}

/// Attributes to change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub(crate) struct AttributesSet {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size_bytes: Option<u64>,
    pub accessed: Option<TimeSet>,
    pub modified: Option<TimeSet>,
    /// Open file the change was requested through.
    pub handle: Option<u64>,
    /// Whether to drop set-user and set-group bits.
    pub drop_privileges: bool,
}

/// A lock request.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub(crate) struct LockCall {
    pub handle: u64,
    pub owner: u64,
    pub start: u64,
    pub end: u64,
    /// `F_RDLCK`, `F_WRLCK` or `F_UNLCK`.
    pub kind: u32,
    pub pid: u32,
    /// Whether it is a `flock` lock rather than `fcntl`.
    pub flock: bool,
    /// Whether to wait for the lock.
    pub wait: bool,
}

/// A range to copy from one open file to another.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub(crate) struct CopyRangeCall {
    pub from: u64,
    pub from_offset: u64,
    /// Node of the file that is written.
    pub to_node: u64,
    pub to: u64,
    pub to_offset: u64,
    pub length: u64,
    pub flags: u64,
}

/// A decoded operation.
#[derive(Debug)]
#[allow(missing_docs)]
pub(crate) enum Operation<'a> {
    Lookup {
        name: &'a [u8],
    },
    /// Nodes, with the number of lookups of each to subtract.
    Forget {
        nodes: Vec<(u64, u64)>,
    },
    GetAttributes {
        handle: Option<u64>,
    },
    SetAttributes(AttributesSet),
    ReadLink,
    Symlink {
        name: &'a [u8],
        target: &'a [u8],
    },
    MakeNode {
        name: &'a [u8],
        mode: u32,
        device: u32,
    },
    MakeDirectory {
        name: &'a [u8],
        mode: u32,
    },
    Unlink {
        name: &'a [u8],
    },
    RemoveDirectory {
        name: &'a [u8],
    },
    Rename {
        name: &'a [u8],
        to: u64,
        to_name: &'a [u8],
        flags: u32,
    },
    Link {
        file: u64,
        name: &'a [u8],
    },
    Open {
        flags: u32,
        open_flags: u32,
    },
    Create {
        name: &'a [u8],
        flags: u32,
        mode: u32,
    },
    Read {
        handle: u64,
        offset: u64,
        length: u32,
    },
    Write {
        handle: u64,
        offset: u64,
        bytes: &'a [u8],
        write_flags: u32,
        flags: u32,
    },
    Flush {
        handle: u64,
        owner: u64,
    },
    Release {
        handle: u64,
    },
    Sync {
        handle: u64,
        data_only: bool,
    },
    Allocate {
        handle: u64,
        offset: u64,
        length: u64,
        mode: u32,
    },
    Seek {
        handle: u64,
        offset: u64,
        whence: u32,
    },
    CopyRange(CopyRangeCall),
    OpenDirectory,
    ReadDirectory {
        handle: u64,
        offset: u64,
        length: u32,
        plus: bool,
    },
    ReleaseDirectory {
        handle: u64,
    },
    SyncDirectory,
    SyncFileSystem,
    Statfs,
    SetExtended {
        name: &'a [u8],
        value: &'a [u8],
        flags: u32,
    },
    GetExtended {
        name: &'a [u8],
        room: u32,
    },
    ListExtended {
        room: u32,
    },
    RemoveExtended {
        name: &'a [u8],
    },
    TestLock(LockCall),
    Lock(LockCall),
    Interrupt {
        unique: u64,
    },
    Init {
        major: u32,
        minor: u32,
        flags: u64,
    },
    Destroy,
}

/// Decodes fields one after the other.
struct Fields<'a>(&'a [u8]);

/// Error: the bytes end too early.
struct Short;

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Short> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Short)?;
        self.0 = rest;
        Ok(taken)
    }
    fn u32(&mut self) -> Result<u32, Short> {
        Ok(u32::from_ne_bytes(self.take(4)?.try_into().map_err(|_| Short)?))
    }
    fn u64(&mut self) -> Result<u64, Short> {
        Ok(u64::from_ne_bytes(self.take(8)?.try_into().map_err(|_| Short)?))
    }
    /// Reads up to a zero byte.
    fn name(&mut self) -> Result<&'a [u8], Short> {
        let end = self.0.iter().position(|b| *b == 0).ok_or(Short)?;
        let name = self.take(end)?;
        self.take(1)?;
        Ok(name)
    }
}

/// Decodes a request; an unsupported operation is `None`.
///
/// # Errors
/// When the bytes are not a valid request.
pub(crate) fn decode(bytes: &[u8]) -> Result<(Header, Option<Operation<'_>>), &'static str> {
    let mut head = Fields(bytes);
    let mut header = || -> Result<Header, Short> {
        let _length = head.u32()?;
        let opcode = head.u32()?;
        let (unique, node) = (head.u64()?, head.u64()?);
        let (uid, gid, pid) = (head.u32()?, head.u32()?, head.u32()?);
        head.u32()?;
        Ok(Header { unique, opcode, node, uid, gid, pid })
    };
    let header = header().map_err(|Short| "a request without a whole header")?;
    debug_assert_eq!(bytes.len() - head.0.len(), abi::IN_HEADER_BYTES);
    match operation(&header, head) {
        Ok(operation) => Ok((header, operation)),
        Err(Short) => Err("a request that is too short for what it asks"),
    }
}

#[expect(clippy::too_many_lines, reason = "one line or two for each kind of request")]
fn operation<'a>(header: &Header, mut fields: Fields<'a>) -> Result<Option<Operation<'a>>, Short> {
    use Operation as O;
    let f = &mut fields;
    Ok(Some(match header.opcode {
        opcode::LOOKUP => O::Lookup { name: f.name()? },
        opcode::FORGET => O::Forget { nodes: vec![(header.node, f.u64()?)] },
        opcode::BATCH_FORGET => {
            let count = f.u32()?;
            f.u32()?;
            O::Forget { nodes: (0..count).map(|_| Ok((f.u64()?, f.u64()?))).collect::<Result<_, Short>>()? }
        }
        opcode::GETATTR => {
            let flags = f.u32()?;
            f.u32()?;
            let handle = f.u64()?;
            O::GetAttributes { handle: (flags & abi::GETATTR_FH != 0).then_some(handle) }
        }
        opcode::SETATTR => O::SetAttributes(attributes_set(f)?),
        opcode::READLINK => O::ReadLink,
        opcode::SYMLINK => O::Symlink { name: f.name()?, target: f.name()? },
        opcode::MKNOD => {
            let (mode, device) = (f.u32()?, f.u32()?);
            f.u64()?;
            O::MakeNode { name: f.name()?, mode, device }
        }
        opcode::MKDIR => {
            let mode = f.u32()?;
            f.u32()?;
            O::MakeDirectory { name: f.name()?, mode }
        }
        opcode::UNLINK => O::Unlink { name: f.name()? },
        opcode::RMDIR => O::RemoveDirectory { name: f.name()? },
        opcode::RENAME => {
            let to = f.u64()?;
            O::Rename { name: f.name()?, to, to_name: f.name()?, flags: 0 }
        }
        opcode::RENAME2 => {
            let (to, flags) = (f.u64()?, f.u32()?);
            f.u32()?;
            O::Rename { name: f.name()?, to, to_name: f.name()?, flags }
        }
        opcode::LINK => O::Link { file: f.u64()?, name: f.name()? },
        opcode::OPEN => O::Open { flags: f.u32()?, open_flags: f.u32()? },
        opcode::CREATE => {
            let (flags, mode) = (f.u32()?, f.u32()?);
            f.u64()?;
            O::Create { name: f.name()?, flags, mode }
        }
        opcode::READ => {
            let (handle, offset, length) = (f.u64()?, f.u64()?, f.u32()?);
            f.take(12)?;
            O::Read { handle, offset, length }
        }
        opcode::WRITE => {
            let (handle, offset, length, write_flags) = (f.u64()?, f.u64()?, f.u32()?, f.u32()?);
            f.u64()?;
            let flags = f.u32()?;
            f.u32()?;
            O::Write { handle, offset, bytes: f.take(length as usize)?, write_flags, flags }
        }
        opcode::FLUSH => {
            let handle = f.u64()?;
            f.u64()?;
            O::Flush { handle, owner: f.u64()? }
        }
        opcode::RELEASE | opcode::RELEASEDIR => {
            let handle = f.u64()?;
            match header.opcode {
                opcode::RELEASEDIR => O::ReleaseDirectory { handle },
                _ => O::Release { handle },
            }
        }
        opcode::FSYNC => O::Sync { handle: f.u64()?, data_only: f.u32()? & abi::FSYNC_FDATASYNC != 0 },
        opcode::FALLOCATE => O::Allocate { handle: f.u64()?, offset: f.u64()?, length: f.u64()?, mode: f.u32()? },
        opcode::LSEEK => O::Seek { handle: f.u64()?, offset: f.u64()?, whence: f.u32()? },
        opcode::COPY_FILE_RANGE => O::CopyRange(CopyRangeCall {
            from: f.u64()?,
            from_offset: f.u64()?,
            to_node: f.u64()?,
            to: f.u64()?,
            to_offset: f.u64()?,
            length: f.u64()?,
            flags: f.u64()?,
        }),
        opcode::OPENDIR => O::OpenDirectory,
        opcode::READDIR | opcode::READDIRPLUS => {
            let plus = header.opcode == opcode::READDIRPLUS;
            O::ReadDirectory { handle: f.u64()?, offset: f.u64()?, length: f.u32()?, plus }
        }
        opcode::FSYNCDIR => O::SyncDirectory,
        opcode::SYNCFS => O::SyncFileSystem,
        opcode::STATFS => O::Statfs,
        opcode::SETXATTR => {
            let (length, flags) = (f.u32()?, f.u32()?);
            O::SetExtended { name: f.name()?, value: f.take(length as usize)?, flags }
        }
        opcode::GETXATTR => {
            let room = f.u32()?;
            f.u32()?;
            O::GetExtended { name: f.name()?, room }
        }
        opcode::LISTXATTR => O::ListExtended { room: f.u32()? },
        opcode::REMOVEXATTR => O::RemoveExtended { name: f.name()? },
        opcode::GETLK | opcode::SETLK | opcode::SETLKW => {
            let (handle, owner, start, end) = (f.u64()?, f.u64()?, f.u64()?, f.u64()?);
            let (kind, pid, flags) = (f.u32()?, f.u32()?, f.u32()?);
            let wait = header.opcode == opcode::SETLKW;
            let asked = LockCall { handle, owner, start, end, kind, pid, flock: flags & abi::LK_FLOCK != 0, wait };
            if header.opcode == opcode::GETLK { O::TestLock(asked) } else { O::Lock(asked) }
        }
        opcode::INTERRUPT => O::Interrupt { unique: f.u64()? },
        opcode::INIT => {
            let (major, minor, _readahead_bytes, flags) = (f.u32()?, f.u32()?, f.u32()?, f.u32()?);
            let more = f.u32().unwrap_or(0);
            O::Init { major, minor, flags: u64::from(flags) | u64::from(more) << 32 }
        }
        opcode::DESTROY => O::Destroy,
        _ => return Ok(None),
    }))
}

fn attributes_set(f: &mut Fields<'_>) -> Result<AttributesSet, Short> {
    use abi::setattr as flag;
    let valid = f.u32()?;
    f.u32()?;
    let (handle, size_bytes, _lock_owner) = (f.u64()?, f.u64()?, f.u64()?);
    let (accessed_s, modified_s, _changed_s) = (f.u64()? as i64, f.u64()? as i64, f.u64()?);
    let (accessed_ns, modified_ns, _changed_ns) = (f.u32()?, f.u32()?, f.u32()?);
    let mode = f.u32()?;
    f.u32()?;
    let (uid, gid) = (f.u32()?, f.u32()?);
    let has = |bit: u32| valid & bit != 0;
    let time = |given: u32, now: u32, seconds: i64, nanoseconds: u32| match () {
        () if has(now) => Some(TimeSet::Now),
        () if has(given) => Some(TimeSet::At(seconds.saturating_mul(1_000_000_000).saturating_add(i64::from(nanoseconds)))),
        () => None,
    };
    Ok(AttributesSet {
        mode: has(flag::MODE).then_some(mode),
        uid: has(flag::UID).then_some(uid),
        gid: has(flag::GID).then_some(gid),
        size_bytes: has(flag::SIZE).then_some(size_bytes),
        accessed: time(flag::ATIME, flag::ATIME_NOW, accessed_s, accessed_ns),
        modified: time(flag::MTIME, flag::MTIME_NOW, modified_s, modified_ns),
        handle: has(flag::FH).then_some(handle),
        drop_privileges: has(flag::KILL_SUIDGID),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(opcode: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend((40 + body.len() as u32).to_ne_bytes());
        bytes.extend(opcode.to_ne_bytes());
        bytes.extend(7_u64.to_ne_bytes());
        bytes.extend(9_u64.to_ne_bytes());
        [1000_u32, 100, 55, 0].iter().for_each(|n| bytes.extend(n.to_ne_bytes()));
        bytes.extend(body);
        bytes
    }

    #[test]
    fn a_write_is_its_fields_and_its_bytes() {
        let mut body = Vec::new();
        [3_u64, 4096].iter().for_each(|n| body.extend(n.to_ne_bytes()));
        [5_u32, 0, 0, 0, 0o2001, 0].iter().for_each(|n| body.extend(n.to_ne_bytes()));
        body.extend(b"hello");
        let bytes = request(opcode::WRITE, &body);
        let (header, operation) = decode(&bytes).unwrap();
        assert_eq!((header.unique, header.node, header.uid, header.gid, header.pid), (7, 9, 1000, 100, 55));
        let Some(Operation::Write { handle: 3, offset: 4096, bytes: b"hello", flags: 0o2001, .. }) = operation else {
            panic!("{operation:?}")
        };
    }

    #[test]
    fn whatever_is_cut_off_is_refused_and_never_read_past() {
        let mut body = vec![0; 8];
        body.extend(b"name\0other\0");
        for opcode in 0..60 {
            let whole = request(opcode, &body);
            for length in 0..whole.len() {
                let _ = decode(&whole[..length]);
            }
        }
        assert!(decode(&request(opcode::LOOKUP, b"no end")).is_err());
        let mut forget = vec![];
        forget.extend(u32::MAX.to_ne_bytes());
        forget.extend([0; 20]);
        assert!(decode(&request(opcode::BATCH_FORGET, &forget)).is_err(), "more nodes than there are bytes");
    }

    #[test]
    fn an_operation_that_is_not_known_is_distinguished_from_nonsense() {
        assert!(matches!(decode(&request(999, &[])), Ok((_, None))));
    }
}
