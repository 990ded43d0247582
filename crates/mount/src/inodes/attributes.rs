//! Attributes as the kernel wants them, of those that the servers keep.

use crate::fuse::reply::Attr;
use thalweg_client::walk;
use thalweg_client::wire::limits;
use thalweg_client::wire::protocol::metadata::{Attributes, FileKind};

/// What programs are advised to read and write at a time: as much as one request of the kernel's holds by default.
const BLOCK_BYTES: u32 = 1 << 20;
/// The same of a directory: the C library asks for as much of it at a time, and the kernel passes that on.
const DIRECTORY_BLOCK_BYTES: u32 = 256 << 10;

/// A file's size, and what it takes on disks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub(crate) struct Size {
    pub bytes: u64,
    pub allocated_bytes: u64,
}

impl From<walk::Size> for Size {
    /// Space that nobody was asked for is that of a file without holes.
    fn from(size: walk::Size) -> Size {
        Size { bytes: size.size_bytes, allocated_bytes: size.allocated_bytes.unwrap_or(size.size_bytes) }
    }
}

/// The bits of a mode that say what kind of file it is.
pub(crate) fn kind_bits(kind: FileKind) -> u32 {
    match kind {
        FileKind::File => libc::S_IFREG,
        FileKind::Directory => libc::S_IFDIR,
        FileKind::Symlink => libc::S_IFLNK,
        FileKind::Fifo => libc::S_IFIFO,
        FileKind::Socket => libc::S_IFSOCK,
        FileKind::CharacterDevice => libc::S_IFCHR,
        FileKind::BlockDevice => libc::S_IFBLK,
    }
}

/// Attributes as the kernel wants them.
pub(crate) fn attr(attributes: &Attributes, size: Size) -> Attr {
    let (size_bytes, allocated) = match attributes.kind {
        FileKind::File => (size.bytes, size.allocated_bytes),
        FileKind::Symlink => (attributes.target_bytes, 0),
        FileKind::Directory => (u64::from(limits::PATH_BYTES as u32), 0),
        _ => (0, 0),
    };
    Attr {
        number: attributes.id.0,
        size_bytes,
        blocks: allocated.div_ceil(512),
        accessed_ns: attributes.accessed_ns,
        modified_ns: attributes.modified_ns,
        changed_ns: attributes.changed_ns,
        mode: kind_bits(attributes.kind) | attributes.mode & 0o7777,
        links: attributes.links,
        uid: attributes.uid,
        gid: attributes.gid,
        device: attributes.device,
        block_bytes: if attributes.kind == FileKind::Directory { DIRECTORY_BLOCK_BYTES } else { BLOCK_BYTES },
    }
}

/// A mode without the bits that writing takes away: set-user always, set-group where the group may execute.
pub(crate) fn without_privileges(mode: u32) -> u32 {
    let group = if mode & libc::S_IXGRP != 0 { libc::S_ISGID } else { 0 };
    mode & !(libc::S_ISUID | group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_takes_privileges_away_and_leaves_mandatory_locking_bits() {
        assert_eq!(without_privileges(0o6755), 0o755);
        assert_eq!(without_privileges(0o2644), 0o2644);
        assert_eq!(without_privileges(0o4644), 0o644);
        assert_eq!(without_privileges(0o1777), 0o1777);
    }
}
