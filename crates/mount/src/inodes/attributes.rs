//! Converts the servers' attributes to the kernel's form.

use crate::fuse::reply::Attr;
use thalweg_client::walk;
use thalweg_client::wire::limits;
use thalweg_client::wire::protocol::metadata::{Attributes, FileKind};

/// Preferred I/O size for programs: the kernel's default request size.
const BLOCK_BYTES: u32 = 1 << 20;
/// Preferred I/O size of a directory: the C library reads that much at a time, and the kernel passes it on.
const DIRECTORY_BLOCK_BYTES: u32 = 256 << 10;

/// Size of a file, and its allocated space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub(crate) struct Size {
    pub bytes: u64,
    pub allocated_bytes: u64,
}

impl From<walk::Size> for Size {
    /// If the allocated space is unknown, assumes a file without holes.
    fn from(size: walk::Size) -> Size {
        Size { bytes: size.size_bytes, allocated_bytes: size.allocated_bytes.unwrap_or(size.size_bytes) }
    }
}

/// Returns the file type bits of a mode.
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

/// Converts attributes to the kernel's form.
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

/// Returns a mode without the bits that writing clears: set-user always, set-group if the group may execute.
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
