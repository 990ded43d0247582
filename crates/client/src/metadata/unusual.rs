//! Calls on links, special files, extended attributes, and on files that are about to get, or have got, bytes.

use super::MetadataClient;
use std::time::Duration;
use thalweg_trace::Tracer;
use thalweg_wire::Result;
use thalweg_wire::limits;
use thalweg_wire::protocol::metadata::{
    Attributes, DraftEntry, FileId, FileKind, LayoutChoice, Lost, MetadataReply, NewNode, Operation, Owner, Place, SetExtended,
};
use thalweg_wire::{Error, ErrorKind};

impl MetadataClient {
    /// Makes a symbolic link. The target is any bytes but zero ones, at most [`thalweg_wire::limits::SYMLINK_BYTES`].
    ///
    /// # Errors
    /// [`ErrorKind::Exists`], [`ErrorKind::NotFound`], [`ErrorKind::NameTooLong`], ...
    pub fn make_symlink(&self, tracer: &mut Tracer, place: &Place, target: &[u8], owner: Owner) -> Result<Attributes> {
        self.attributes(tracer, Operation::MakeNode { place: place.clone(), node: NewNode::Symlink(target.to_vec()), owner })
    }

    /// Files that copies have made and not finished, in order of number.
    ///
    /// # Errors
    /// The connection's.
    pub fn drafts(&self, tracer: &mut Tracer) -> Result<Vec<DraftEntry>> {
        let mut all: Vec<DraftEntry> = Vec::new();
        loop {
            let after = all.last().map(|draft| draft.file);
            let (page, more) = match self.ask(tracer, Operation::Drafts { after })? {
                MetadataReply::Drafts { drafts, more } => (drafts, more),
                other => return Err(self.strange(&other)),
            };
            // So that there is an end to it.
            let numbers = after.into_iter().chain(page.iter().map(|draft| draft.file));
            if !numbers.is_sorted_by(|one, next| one < next) || page.is_empty() && more {
                return Err(Error::new(ErrorKind::Protocol, "partial copies that are not in order").at_server(self.address()));
            }
            all.extend(page);
            if !more {
                return Ok(all);
            }
        }
    }

    /// Removes a file that a copy has made and not finished, if nobody has written it for so long.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] when somebody has; [`ErrorKind::NotFound`] when it is none any more.
    pub fn remove_draft(&self, tracer: &mut Tracer, file: FileId, abandoned_for: Duration) -> Result<()> {
        let abandoned_for_ns = u64::try_from(abandoned_for.as_nanos()).unwrap_or(u64::MAX);
        self.done(tracer, Operation::RemoveDraft { file, abandoned_for_ns })
    }

    /// A symbolic link's target.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for what is no symbolic link, [`ErrorKind::NotFound`], ...
    pub fn read_symlink(&self, tracer: &mut Tracer, place: &Place) -> Result<Vec<u8>> {
        match self.ask(tracer, Operation::ReadSymlink { place: place.clone() })? {
            MetadataReply::Bytes(target) if target.len() <= limits::SYMLINK_BYTES => Ok(target),
            MetadataReply::Bytes(target) => {
                let problem = format!("a symbolic link's target of {} bytes: at most {} are possible", target.len(), limits::SYMLINK_BYTES);
                Err(Error::new(ErrorKind::Protocol, problem).at_server(self.address()))
            }
            other => Err(self.strange(&other)),
        }
    }

    /// Makes a named pipe, a socket or a device; `device` is a device's number and means nothing otherwise.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`], [`ErrorKind::NotFound`], ...; [`ErrorKind::Invalid`] for a kind that is none of these.
    pub fn make_special(&self, tracer: &mut Tracer, place: &Place, kind: FileKind, device: u32, owner: Owner) -> Result<Attributes> {
        let node = match kind {
            FileKind::Fifo => NewNode::Fifo,
            FileKind::Socket => NewNode::Socket,
            FileKind::CharacterDevice => NewNode::CharacterDevice(device),
            FileKind::BlockDevice => NewNode::BlockDevice(device),
            FileKind::File | FileKind::Directory | FileKind::Symlink => {
                return Err(Error::new(ErrorKind::Invalid, format!("{kind:?} is no special file")));
            }
        };
        self.attributes(tracer, Operation::MakeNode { place: place.clone(), node, owner })
    }

    /// Gives a file one more name: its attributes, now changed.
    ///
    /// # Errors
    /// [`ErrorKind::NotPermitted`] for a directory, [`ErrorKind::Exists`], [`ErrorKind::NotFound`],
    /// [`ErrorKind::TooManyLinks`], ...
    pub fn link(&self, tracer: &mut Tracer, file: &Place, to: &Place) -> Result<Attributes> {
        self.attributes(tracer, Operation::Link { file: file.clone(), to: to.clone() })
    }

    /// Two names exchange what they stand for, in one step.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; [`ErrorKind::Invalid`] for a directory and what is in it, ...
    pub fn exchange(&self, tracer: &mut Tracer, one: &Place, other: &Place) -> Result<()> {
        self.done(tracer, Operation::Exchange { one: one.clone(), other: other.clone() })
    }

    /// An extended attribute's value, if there is one.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], ...
    pub fn get_extended(&self, tracer: &mut Tracer, place: &Place, name: &[u8]) -> Result<Option<Vec<u8>>> {
        match self.ask(tracer, Operation::GetExtended { place: place.clone(), name: name.to_vec() })? {
            MetadataReply::Value(value) => Ok(value),
            other => Err(self.strange(&other)),
        }
    }

    /// The names of all extended attributes, in order.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], ...
    pub fn list_extended(&self, tracer: &mut Tracer, place: &Place) -> Result<Vec<Vec<u8>>> {
        match self.ask(tracer, Operation::ListExtended { place: place.clone() })? {
            MetadataReply::ExtendedNames(names) => Ok(names),
            other => Err(self.strange(&other)),
        }
    }

    /// Sets an extended attribute; the bounds are in [`thalweg_wire::limits`].
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] and [`ErrorKind::NoAttribute`] as `how` says, [`ErrorKind::TooLong`] for a value and
    /// [`ErrorKind::NoSpace`] for all of a file's past their bounds, ...
    pub fn set_extended(&self, tracer: &mut Tracer, place: &Place, name: &[u8], value: &[u8], how: SetExtended) -> Result<()> {
        self.done(tracer, Operation::SetExtended { place: place.clone(), name: name.to_vec(), value: value.to_vec(), how })
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// [`ErrorKind::NoAttribute`] when there is none, [`ErrorKind::NotFound`], ...
    pub fn remove_extended(&self, tracer: &mut Tracer, place: &Place, name: &[u8]) -> Result<()> {
        self.done(tracer, Operation::RemoveExtended { place: place.clone(), name: name.to_vec() })
    }

    /// Gives a file another layout, which must have no bytes and be open nowhere. What is not chosen comes from the store.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] with the reason; [`ErrorKind::Invalid`] for a layout that cannot be.
    pub fn relayout(&self, tracer: &mut Tracer, place: &Place, layout: &LayoutChoice) -> Result<Attributes> {
        let node = self.inner.node.clone();
        self.attributes(tracer, Operation::Relayout { place: place.clone(), layout: layout.clone(), node })
    }

    /// Says which acknowledged bytes of a file are lost, and which of those that were are written again: its attributes. Durable when
    /// it returns.
    ///
    /// # Errors
    /// [`ErrorKind::Stale`] when it is gone, ...
    pub fn lost(&self, tracer: &mut Tracer, file: FileId, lost: &Lost, mended: &Lost) -> Result<Attributes> {
        self.attributes(tracer, Operation::Lost { file, lost: lost.clone(), mended: mended.clone() })
    }

    /// Says that writes to a file, up to `size_bytes`, are at the I/O servers: its attributes, with new times.
    ///
    /// # Errors
    /// [`ErrorKind::Stale`] when it is gone, ...
    pub fn written(&self, tracer: &mut Tracer, file: FileId, size_bytes: u64) -> Result<Attributes> {
        self.attributes(tracer, Operation::Written { file, size_bytes })
    }
}
