//! Attributes and sizes: the first are the metadata service's, the second the I/O servers', also where the service could prove a
//! size: only they know how much space a file takes, and `du` and `cp` ask for that.

use crate::errors::{Answered, Refusal};
use crate::filesystem::{Answer, FileSystem, Worker};
use crate::fuse::reply::{self, Attr};
use crate::fuse::request::{AttributesSet, Header, TimeSet};
use crate::inodes::shared_file::Shared;
use crate::inodes::table::Node;
use std::sync::Arc;
use std::time::Duration;
use thalweg_layout::Distribution;
use thalweg_store::client::{FileHandle, walk};
use thalweg_store::protocol::metadata::{Attributes, FileKind, Place, SetAttributes, SetTime, TargetId};
use thalweg_store::{Error, ErrorKind, limits};
use thalweg_trace::Tracer;

/// What programs are told to read at a time: as much as one strip by default.
const BLOCK_BYTES: u32 = 64 << 10;
/// The same of a directory: the C library asks for as much of it at a time, and the kernel passes that on.
const DIRECTORY_BLOCK_BYTES: u32 = 256 << 10;

/// A file's size, and what it takes on disks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Size {
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
pub fn kind_bits(kind: FileKind) -> u32 {
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
pub fn attr(attributes: &Attributes, size: Size) -> Attr {
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
pub fn without_privileges(mode: u32) -> u32 {
    let group = if mode & libc::S_IXGRP != 0 { libc::S_ISGID } else { 0 };
    mode & !(libc::S_ISUID | group)
}

fn time(set: TimeSet) -> SetTime {
    match set {
        TimeSet::Now => SetTime::Now,
        TimeSet::At(ns) => SetTime::At(ns),
    }
}

impl FileSystem {
    /// A file's size as programs here see it: what has been written and is not at the servers yet counts.
    pub fn size_of(&self, tracer: &mut Tracer, attributes: &Attributes, shared: Option<&Shared>) -> Answered<Size> {
        if attributes.kind != FileKind::File {
            return Ok(Size::default());
        }
        // What is on its way now may arrive before the servers are asked, or after: either way it is in one of the two.
        let own_end = shared.and_then(|shared| shared.file.dirty_end());
        let handle = FileHandle::from_attributes(attributes.id.to_string(), attributes)?;
        self.check_silence(handle.targets())?;
        let sizes = match (self.data.sizes(tracer, &handle), &attributes.settled) {
            // A datafile that has lost its end must not make the file look shorter: then reading it would be no error.
            (Err(error), Some(settled)) if error.kind() == ErrorKind::Lost => {
                return Ok(Size { bytes: settled.size_bytes, allocated_bytes: settled.size_bytes });
            }
            (sizes, _) => sizes.inspect_err(|error| self.silence.heard(error))?,
        };
        let ends: Vec<u64> = sizes.iter().map(|size| size.size_bytes).collect();
        let bytes = handle.layout().logical_file_size(&ends);
        let bytes = bytes.map_err(|e| Error::new(ErrorKind::Io, e.to_string()).on_file(handle.path()))?;
        Ok(Size { bytes: bytes.max(own_end.unwrap_or(0)), allocated_bytes: sizes.iter().map(|size| size.allocated_bytes).sum() })
    }

    fn check_silence(&self, targets: &[TargetId]) -> Result<(), Error> {
        let map = self.names.map();
        let servers = targets.iter().filter_map(|target| map.target(*target).map(|(_, server)| server.name.as_str()));
        self.silence.check(servers)
    }

    /// Attributes with size.
    pub fn full_attr(&self, tracer: &mut Tracer, attributes: &Attributes, shared: Option<&Shared>) -> Answered<Attr> {
        Ok(attr(attributes, self.size_of(tracer, attributes, shared)?))
    }

    /// Asks for a file's or directory's attributes and tells the kernel.
    pub fn get_attributes(&self, w: &mut Worker, node: u64, _handle: Option<u64>) -> Answered<Answer> {
        let known = self.node(node)?;
        if let Some(shared) = known.shared().filter(|shared| shared.is_untold()) {
            // A time that a program is told must not be another one after its close: `git` and `make` compare them.
            self.settle(&mut w.tracer, &known, &shared);
        }
        if let Some(answer) = self.known_attributes(w, &known).or_else(|| self.joined_attributes(w, &known)) {
            return answer;
        }
        match self.names.stat(&mut w.tracer, &Place::of(known.id)).map_err(|e| Refusal::from(e).of_known_file()) {
            Ok(attributes) => self.answer_attributes(w, &known, &attributes),
            Err(refusal) => {
                let state = known.state();
                let is_open = refusal.errno == libc::ESTALE && state.open_directories > 0;
                let Some(attributes) = state.directory.clone().filter(|_| is_open) else { return Err(refusal) };
                reply::attributes(&mut w.out, &attr(&Attributes { links: 0, ..*attributes }, Size::default()), Duration::ZERO);
                Ok(Answer::Out)
            }
        }
    }

    /// What the kernel was told not long ago, and has forgotten because the file was read: times of reading are not kept.
    fn known_attributes(&self, w: &mut Worker, node: &Node) -> Option<Answered<Answer>> {
        let lifetime = self.options.lifetime();
        let (attr, asked) = {
            let state = node.state();
            let known =
                state.known.as_ref().filter(|known| state.cached_change == Some(known.change) && known.asked.elapsed() < lifetime)?;
            (known.attr, known.asked)
        };
        let is_written = node.shared().is_some_and(|shared| shared.written_bytes() > 0);
        if is_written || !self.recent.is_current_file(asked, (node.id, attr.links)) {
            return None;
        }
        reply::attributes(&mut w.out, &attr, lifetime.checked_sub(asked.elapsed())?);
        Some(Ok(Answer::Out))
    }

    /// By what a walk has asked of this file and is not answered yet, or by a question of its own; `None` where neither will do: it is
    /// open here, or it was changed here since it was asked for, or there is an error, of which more is known to who asks once more.
    fn joined_attributes(&self, w: &mut Worker, node: &Arc<Node>) -> Option<Answered<Answer>> {
        if self.options.strict || node.kind != FileKind::File || node.shared().is_some() || self.silence.is_any() {
            return None;
        }
        let known = self.walkers.whole.stat(&mut w.tracer, node.id).inspect_err(|error| self.silence.heard(error)).ok()?;
        let left = self.options.lifetime().checked_sub(known.asked.elapsed())?;
        let is_current = self.recent.is_current_file(known.asked, (node.id, known.attributes.links)) && node.shared().is_none();
        let attr = attr(&known.attributes, known.size.filter(|_| is_current)?.into());
        node.tell(&known.attributes, known.asked);
        node.know(&attr, known.attributes.change, known.asked);
        reply::attributes(&mut w.out, &attr, left);
        Some(Ok(Answer::Out))
    }

    fn answer_attributes(&self, w: &mut Worker, node: &Arc<Node>, attributes: &Attributes) -> Answered<Answer> {
        let shared = node.shared();
        let attr = self.full_attr(&mut w.tracer, attributes, shared.as_deref())?;
        node.tell(attributes, w.began);
        node.know(&attr, attributes.change, w.began);
        reply::attributes(&mut w.out, &attr, self.options.lifetime());
        Ok(Answer::Out)
    }

    /// Changes attributes, the size among them.
    pub fn set_attributes(&self, w: &mut Worker, header: &Header, set: &AttributesSet) -> Answered<Answer> {
        let node = self.node(header.node)?;
        let place = Place::of(node.id);
        let shared = node.shared();
        if let Some(shared) = &shared {
            // A time that is set is the time after all writes before it; a size, too, is one after them.
            if set.size_bytes.is_some() || set.modified.is_some() || set.accessed.is_some() {
                self.settle(&mut w.tracer, &node, shared);
            }
        }
        if let Some(size_bytes) = set.size_bytes {
            if set.handle.is_none() {
                self.check_found(w, &node)?;
            }
            self.truncate(&mut w.tracer, &node, shared.as_deref(), size_bytes)?;
        }
        let mut change = SetAttributes {
            mode: set.mode,
            uid: set.uid,
            gid: set.gid,
            accessed: set.accessed.map(time),
            modified: set.modified.map(time),
            ..SetAttributes::default()
        };
        let owner_changes = (set.uid.is_some() || set.gid.is_some()) && node.kind != FileKind::Directory;
        if (owner_changes || set.drop_privileges) && change.mode.is_none() {
            let before = self.names.stat(&mut w.tracer, &place).map_err(|e| Refusal::from(e).of_known_file())?.mode;
            let after = without_privileges(before);
            change.mode = (after != before).then_some(after);
        }
        let attributes = if change == SetAttributes::default() {
            self.names.stat(&mut w.tracer, &place)
        } else {
            self.names.set_attributes(&mut w.tracer, &place, &change)
        };
        let attributes = attributes.map_err(|e| Refusal::from(e).of_known_file())?;
        if change != SetAttributes::default() {
            node.changed_here(&attributes);
        }
        self.answer_attributes(w, &node, &attributes)
    }

    /// Sets a file's size.
    pub fn truncate(&self, tracer: &mut Tracer, node: &Node, shared: Option<&Shared>, size_bytes: u64) -> Answered<()> {
        if size_bytes > limits::FILE_BYTES {
            return Err(Refusal::plain(libc::EFBIG));
        }
        let ask = |tracer: &mut Tracer| self.names.truncate(tracer, &Place::of(node.id), size_bytes);
        let done = match shared {
            Some(shared) => shared.file.truncate(tracer, ask),
            None => ask(tracer),
        };
        done.map_err(|e| Refusal::from(e).of_known_file())
    }
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
