//! Calls on links, special files, extended attributes, drafts, layouts and losses.

use super::MetadataClient;
use std::time::Duration;
use thalweg_trace::Tracer;
use thalweg_wire::Result;
use thalweg_wire::limits;
use thalweg_wire::protocol::metadata::{
    Attributes, DraftEntry, FileId, FileKind, FilePath, LayoutChoice, Lost, MetadataReply, NewNode, Operation, Owner, SetExtended,
};
use thalweg_wire::{Error, ErrorKind};

impl MetadataClient {
    /// Makes a symbolic link. The target may hold any bytes but 0, at most [`thalweg_wire::limits::SYMLINK_BYTES`].
    ///
    /// # Errors
    /// [`ErrorKind::Exists`], [`ErrorKind::NotFound`], [`ErrorKind::NameTooLong`], ...
    pub fn make_symlink(&self, tracer: &mut Tracer, place: &FilePath, target: &[u8], owner: Owner) -> Result<Attributes> {
        self.attributes(tracer, Operation::MakeNode { place: place.clone(), node: NewNode::Symlink(target.to_vec()), owner })
    }

    /// Returns the drafts: files of unfinished copies, in order of number.
    ///
    /// # Errors
    /// The connection's.
    pub fn drafts(&self, tracer: &mut Tracer) -> Result<Vec<DraftEntry>> {
        let mut all: Vec<DraftEntry> = Vec::new();
        loop {
            let after = all.last().map(|draft| draft.file);
            let (page, more) = match self.ask(tracer, Operation::Drafts { after })? {
                MetadataReply::Drafts { drafts, more } => (drafts, more),
                other => return Err(self.unexpected(&other)),
            };
            // Ensures that paging terminates.
            let numbers = after.into_iter().chain(page.iter().map(|draft| draft.file));
            if !numbers.is_sorted_by(|one, next| one < next) || page.is_empty() && more {
                return Err(Error::new(ErrorKind::Protocol, "the reply's partial copies are not in order").at_server(self.address()));
            }
            all.extend(page);
            if !more {
                return Ok(all);
            }
        }
    }

    /// Removes a draft whose writer has been gone for `abandoned_for`.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] when it is more recent; [`ErrorKind::NotFound`] when it is no longer a draft.
    pub fn remove_draft(&self, tracer: &mut Tracer, file: FileId, abandoned_for: Duration) -> Result<()> {
        let abandoned_for_ns = u64::try_from(abandoned_for.as_nanos()).unwrap_or(u64::MAX);
        self.done(tracer, Operation::RemoveDraft { file, abandoned_for_ns })
    }

    /// Returns a symbolic link's target.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if it is not a symbolic link, [`ErrorKind::NotFound`], ...
    pub fn read_symlink(&self, tracer: &mut Tracer, place: &FilePath) -> Result<Vec<u8>> {
        match self.ask(tracer, Operation::ReadSymlink { place: place.clone() })? {
            MetadataReply::Bytes(target) if target.len() <= limits::SYMLINK_BYTES => Ok(target),
            MetadataReply::Bytes(target) => {
                let problem = format!("a symbolic link's target of {} bytes: the maximum is {}", target.len(), limits::SYMLINK_BYTES);
                Err(Error::new(ErrorKind::Protocol, problem).at_server(self.address()))
            }
            other => Err(self.unexpected(&other)),
        }
    }

    /// Makes a named pipe, a socket or a device; `device` is the device number, ignored for other kinds.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`], [`ErrorKind::NotFound`], ...; [`ErrorKind::Invalid`] for another kind.
    pub fn make_special(&self, tracer: &mut Tracer, place: &FilePath, kind: FileKind, device: u32, owner: Owner) -> Result<Attributes> {
        let node = match kind {
            FileKind::Fifo => NewNode::Fifo,
            FileKind::Socket => NewNode::Socket,
            FileKind::CharacterDevice => NewNode::CharacterDevice(device),
            FileKind::BlockDevice => NewNode::BlockDevice(device),
            FileKind::File | FileKind::Directory | FileKind::Symlink => {
                return Err(Error::new(ErrorKind::Invalid, format!("{kind:?} is not a special file")));
            }
        };
        self.attributes(tracer, Operation::MakeNode { place: place.clone(), node, owner })
    }

    /// Adds a name to a file; returns its new attributes.
    ///
    /// # Errors
    /// [`ErrorKind::NotPermitted`] for a directory, [`ErrorKind::Exists`], [`ErrorKind::NotFound`],
    /// [`ErrorKind::TooManyLinks`], ...
    pub fn link(&self, tracer: &mut Tracer, file: &FilePath, to: &FilePath) -> Result<Attributes> {
        self.attributes(tracer, Operation::Link { file: file.clone(), to: to.clone() })
    }

    /// Exchanges two names, atomically.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; [`ErrorKind::Invalid`] for a directory and an entry inside it, ...
    pub fn exchange(&self, tracer: &mut Tracer, one: &FilePath, other: &FilePath) -> Result<()> {
        self.done(tracer, Operation::Exchange { one: one.clone(), other: other.clone() })
    }

    /// Returns an extended attribute's value, if set.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], ...
    pub fn get_extended(&self, tracer: &mut Tracer, place: &FilePath, name: &[u8]) -> Result<Option<Vec<u8>>> {
        match self.ask(tracer, Operation::GetExtended { place: place.clone(), name: name.to_vec() })? {
            MetadataReply::Value(value) => Ok(value),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Returns the names of all extended attributes, in order.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], ...
    pub fn list_extended(&self, tracer: &mut Tracer, place: &FilePath) -> Result<Vec<Vec<u8>>> {
        match self.ask(tracer, Operation::ListExtended { place: place.clone() })? {
            MetadataReply::ExtendedNames(names) => Ok(names),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Sets an extended attribute; limits are in [`thalweg_wire::limits`].
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] and [`ErrorKind::NoAttribute`] according to `how`, [`ErrorKind::TooLong`] for a value over the limit,
    /// [`ErrorKind::NoSpace`] for a file's total over the limit, ...
    pub fn set_extended(&self, tracer: &mut Tracer, place: &FilePath, name: &[u8], value: &[u8], how: SetExtended) -> Result<()> {
        self.done(tracer, Operation::SetExtended { place: place.clone(), name: name.to_vec(), value: value.to_vec(), how })
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// [`ErrorKind::NoAttribute`] when it is not set, [`ErrorKind::NotFound`], ...
    pub fn remove_extended(&self, tracer: &mut Tracer, place: &FilePath, name: &[u8]) -> Result<()> {
        self.done(tracer, Operation::RemoveExtended { place: place.clone(), name: name.to_vec() })
    }

    /// Changes the layout of a file, which must be empty and not open. Unspecified properties come from the store.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] with the reason; [`ErrorKind::Invalid`] for an impossible layout.
    pub fn relayout(&self, tracer: &mut Tracer, place: &FilePath, layout: &LayoutChoice) -> Result<Attributes> {
        let node = self.inner.node.clone();
        self.attributes(tracer, Operation::Relayout { place: place.clone(), layout: layout.clone(), node })
    }

    /// Reports acknowledged bytes of a file that are lost, and lost bytes that were rewritten; returns its attributes. Durable on return.
    ///
    /// # Errors
    /// [`ErrorKind::Stale`] when it was removed, ...
    pub fn lost(&self, tracer: &mut Tracer, file: FileId, lost: &Lost, mended: &Lost) -> Result<Attributes> {
        self.attributes(tracer, Operation::Lost { file, lost: lost.clone(), mended: mended.clone() })
    }

    /// Reports that writes to a file, up to `size_bytes`, are at the I/O servers; returns its attributes, with new times.
    ///
    /// # Errors
    /// [`ErrorKind::Stale`] when it was removed, ...
    pub fn written(&self, tracer: &mut Tracer, file: FileId, size_bytes: u64) -> Result<Attributes> {
        self.attributes(tracer, Operation::Written { file, size_bytes })
    }
}
