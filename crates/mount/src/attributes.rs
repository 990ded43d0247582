//! Attributes and sizes: the first are the metadata service's, the second the I/O servers'. For a page of a directory each I/O
//! server is asked once about all datafiles of all files in it.

use crate::errors::{Answered, Refusal};
use crate::filesystem::{Answer, FileSystem, Worker};
use crate::fuse::reply::{self, Attr};
use crate::fuse::request::{AttributesSet, Header, TimeSet};
use crate::open::Shared;
use crate::table::Node;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use thalweg_layout::Distribution;
use thalweg_store::client::FileHandle;
use thalweg_store::protocol::io::{DatafileId, IoReply, IoRequest};
use thalweg_store::protocol::metadata::{Attributes, FileKind, Place, SetAttributes, SetTime};
use thalweg_store::{Error, ErrorKind, limits};
use thalweg_trace::Tracer;

/// What programs are told to read at a time: as much as one strip by default.
const BLOCK_BYTES: u32 = 64 << 10;

/// A file's size, and what it takes on disks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Size {
    pub bytes: u64,
    pub allocated_bytes: u64,
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
        block_bytes: BLOCK_BYTES,
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
    /// Sizes of many files; an error in place of those whose servers do not answer.
    pub fn sizes(&self, tracer: &mut Tracer, files: &[&FileHandle]) -> Vec<Result<Size, Error>> {
        let mut by_server: BTreeMap<usize, Vec<(usize, DatafileId)>> = BTreeMap::new();
        let mut failed: Vec<Option<Error>> = files.iter().map(|_| None).collect();
        for (i, file) in files.iter().enumerate() {
            for datafile in file.datafiles() {
                match self.data.server_of(datafile.target) {
                    Ok(server) => by_server.entry(server).or_default().push((i, datafile)),
                    Err(error) => failed[i] = Some(error),
                }
            }
        }
        let batches: Vec<(usize, &[(usize, DatafileId)])> =
            by_server.iter().flat_map(|(server, all)| all.chunks(limits::BATCH).map(|some| (*server, some))).collect();
        let ask = |(server, some): &(usize, &[(usize, DatafileId)])| {
            (*server, IoRequest::Glimpse { datafiles: some.iter().map(|(_, datafile)| *datafile).collect() })
        };
        let requests: Vec<(usize, IoRequest)> = batches.iter().map(ask).collect();
        let replies: Vec<Result<IoReply, Error>> = match self.data.call_each(tracer, &requests) {
            Ok(replies) => replies.into_iter().map(Ok).collect(),
            // Which server it was decides which files' sizes are not known.
            Err(_) => requests.iter().map(|(server, request)| self.data.links()[*server].call(tracer, request, &[]).map(|r| r.0)).collect(),
        };
        let mut found: Vec<Vec<u64>> = files.iter().map(|file| vec![0; file.targets().len()]).collect();
        let mut allocated = vec![0_u64; files.len()];
        for ((_, asked), reply) in batches.iter().zip(replies) {
            let sizes = match reply {
                Ok(IoReply::Sizes(sizes)) if sizes.len() == asked.len() => sizes,
                Ok(_) => {
                    let strange = Error::new(ErrorKind::Protocol, "an answer that does not belong to the question");
                    asked.iter().for_each(|(i, _)| failed[*i] = Some(strange.clone()));
                    continue;
                }
                Err(error) => {
                    asked.iter().for_each(|(i, _)| failed[*i] = Some(error.clone()));
                    continue;
                }
            };
            for ((i, datafile), size) in asked.iter().zip(sizes) {
                found[*i][datafile.index as usize] = size.size_bytes;
                allocated[*i] += size.allocated_bytes;
            }
        }
        let size = |i: usize| match failed[i].take() {
            Some(error) => Err(error.on_file(files[i].path())),
            None => {
                let bytes = files[i].layout().logical_file_size(&found[i]);
                let bytes = bytes.map_err(|e| Error::new(ErrorKind::Io, e.to_string()).on_file(files[i].path()))?;
                Ok(Size { bytes, allocated_bytes: allocated[i] })
            }
        };
        (0..files.len()).map(size).collect()
    }

    /// A file's size as programs here see it: what has been written and is not at the servers yet counts.
    pub fn size_of(&self, tracer: &mut Tracer, attributes: &Attributes, shared: Option<&Shared>) -> Answered<Size> {
        if attributes.kind != FileKind::File {
            return Ok(Size::default());
        }
        // What is on its way now may arrive before the servers are asked, or after: either way it is in one of the two.
        let own_end = shared.and_then(Shared::unflushed_end);
        let handle = FileHandle::from_attributes(attributes.id.to_string(), attributes)?;
        let size = self.sizes(tracer, &[&handle]).remove(0)?;
        Ok(Size { bytes: size.bytes.max(own_end.unwrap_or(0)), ..size })
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
        match self.names.stat(&mut w.tracer, &Place::of(known.id)).map_err(|e| Refusal::from(e).of_known_file()) {
            Ok(attributes) => self.answer_attributes(w, &known, &attributes),
            Err(refusal) => {
                let state = known.state();
                let is_open = refusal.errno == libc::ESTALE && state.open_directories > 0;
                let Some(attributes) = state.directory.clone().filter(|_| is_open) else { return Err(refusal) };
                reply::attributes(&mut w.out, &attr(&Attributes { links: 0, ..attributes }, Size::default()), Duration::ZERO);
                Ok(Answer::Out)
            }
        }
    }

    fn answer_attributes(&self, w: &mut Worker, node: &Arc<Node>, attributes: &Attributes) -> Answered<Answer> {
        let shared = node.shared();
        let attr = self.full_attr(&mut w.tracer, attributes, shared.as_deref())?;
        node.tell(attributes);
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
        let done = self.names.truncate(tracer, &Place::of(node.id), size_bytes);
        if let Some(shared) = shared {
            shared.forget_all();
        }
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
