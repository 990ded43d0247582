//! Calls by path from the store's root, for the data path and the command line. Symbolic links are followed here.

use super::connections::OpenEntry;
use super::{MetadataClient, OpenFile};
use crate::files::Names;
use std::collections::VecDeque;
use thalweg_trace::Tracer;
use thalweg_wire::Connection;
use thalweg_wire::limits;
use thalweg_wire::protocol::common::ServiceStart;
use thalweg_wire::protocol::metadata::{
    Attributes, End, Existing, FileId, FileKind, FilePath, LayoutChoice, Operation, Owner, SetAttributes,
};
use thalweg_wire::protocol::names::shown;
use thalweg_wire::{Error, ErrorKind, Result};

/// Bound: files kept open after being opened by path.
const KEPT_OPEN: usize = 1024;
/// Bound: symbolic links followed for one path.
const LINKS_FOLLOWED: usize = 40;

/// Names by path, for the data path. A file opened or created this way stays open until it is closed, [`KEPT_OPEN`] others have been
/// opened, or this client removes it or ends.
impl Names for MetadataClient {
    fn create(&self, tracer: &mut Tracer, path: &str, mode: u32, existing: Existing, layout: &LayoutChoice) -> Result<Attributes> {
        let owner = Owner { mode, uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() };
        let made = MetadataClient::create(self, tracer, &FilePath::at(path), owner, existing, layout)?;
        Ok(self.keep(made))
    }

    fn stat(&self, tracer: &mut Tracer, path: &str) -> Result<Attributes> {
        match MetadataClient::stat(self, tracer, &FilePath::at(path)) {
            Ok(found) if found.kind == FileKind::Symlink => self.follow(tracer, path.as_bytes()).map(|(_, attributes)| attributes),
            Err(error) if error.kind() == ErrorKind::NotDirectory => self.follow(tracer, path.as_bytes()).map(|(_, attributes)| attributes),
            other => other,
        }
    }

    fn open(&self, tracer: &mut Tracer, path: &str, write: bool) -> Result<Attributes> {
        self.open_following(tracer, path.as_bytes(), write).map(|opened| self.keep(opened))
    }

    fn rename(&self, tracer: &mut Tracer, file: FileId, from: &str, to: &str, replace: bool, end: Option<End>) -> Result<()> {
        let (from, to, set) = (FilePath::at(from), FilePath::at(to), SetAttributes::default());
        let rename = Operation::Rename { from, only: Some(file), to, replace, set };
        let Some((kept, end)) = end.and_then(|end| Some((self.take_kept(file)?, end))) else {
            return self.attributes(tracer, rename).map(drop);
        };
        // On the connection where it is open, so that the same message reports its end.
        let mut slot = self.inner.slots[kept.slot].lock();
        slot.close(kept, end);
        self.inner.changing(&mut slot, tracer, rename, None).map(drop)
    }

    fn unlink(&self, tracer: &mut Tracer, file: FileId, path: &str) -> Result<()> {
        // A file opened under this name and removed by this client is no longer needed.
        self.let_go(file);
        self.done(tracer, Operation::Unlink { place: FilePath::at(path), only: Some(file) })
    }

    fn sync(&self, tracer: &mut Tracer) -> Result<()> {
        MetadataClient::sync(self, tracer).map(drop)
    }

    fn close(&self, file: FileId, end: End) {
        if let Some(kept) = self.take_kept(file) {
            self.inner.close(kept, end);
        }
    }

    fn attributes(&self, tracer: &mut Tracer, file: FileId) -> Result<Option<Attributes>> {
        MetadataClient::stat(self, tracer, &FilePath::of(file)).map(Some)
    }

    fn service(&self, seen: ServiceStart) -> Option<ServiceStart> {
        if self.inner.service().is_behind(seen) {
            // A client that has just reconnected knows the start. While the service is away, there is no newer one.
            self.refresh_map(&mut Tracer::off()).ok()?;
        }
        Some(self.inner.service())
    }

    fn removals(&self, tracer: &mut Tracer) -> u64 {
        self.status(tracer).map_or(0, |status| status.pending_intents)
    }

    fn with_connection(&self, work: &mut dyn FnMut(&mut Connection) -> Result<()>) -> Result<()> {
        MetadataClient::with_connection(self, work)
    }
}

impl MetadataClient {
    /// Resolves a path, following symbolic links in it and at its end; returns its place and attributes. A relative target starts at the
    /// link's directory. An absolute target, or one that leaves the root through `..`, leads out of the store and cannot be resolved.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::NotDirectory`]; [`ErrorKind::LinkLoop`] after 40 links; [`ErrorKind::Unsupported`] for a
    /// target outside the store.
    pub fn follow(&self, tracer: &mut Tracer, path: &[u8]) -> Result<(FilePath, Attributes)> {
        let follow = |tracer: &mut Tracer| -> Result<(FilePath, Attributes)> {
            let mut rest: VecDeque<Vec<u8>> = names_of(path);
            let mut at: Vec<Vec<u8>> = Vec::new();
            let mut followed = 0;
            let mut found = None;
            while let Some(name) = rest.pop_front() {
                if rest.len() + at.len() > limits::PATH_BYTES {
                    return Err(Error::new(ErrorKind::NameTooLong, "symbolic links expand this path beyond the maximum length"));
                }
                if name == b".." {
                    at.pop().ok_or_else(|| outside(path))?;
                    found = None;
                    continue;
                }
                at.push(name);
                let attributes = MetadataClient::stat(self, tracer, &FilePath::at(at.join(&b'/')))?;
                if attributes.kind == FileKind::Symlink {
                    followed += 1;
                    if followed > LINKS_FOLLOWED {
                        return Err(Error::new(
                            ErrorKind::LinkLoop,
                            format!("more than {LINKS_FOLLOWED} symbolic links: do they form a loop?"),
                        ));
                    }
                    let target = self.read_symlink(tracer, &FilePath::of(attributes.id))?;
                    if target.first() == Some(&b'/') {
                        return Err(outside(&target));
                    }
                    at.pop();
                    names_of(&target).into_iter().rev().for_each(|name| rest.push_front(name));
                    found = None;
                    continue;
                }
                found = Some(attributes);
            }
            let place = FilePath::at(at.join(&b'/'));
            let attributes = match found {
                Some(attributes) => attributes,
                None => MetadataClient::stat(self, tracer, &place)?,
            };
            Ok((place, attributes))
        };
        follow(tracer).map_err(|e| e.on_file_instead(shown(path)))
    }

    /// Opens the file that a path leads to, following symbolic links.
    ///
    /// # Errors
    /// As [`MetadataClient::open`] and [`MetadataClient::follow`].
    pub fn open_following(&self, tracer: &mut Tracer, path: &[u8], write: bool) -> Result<OpenFile> {
        match self.open(tracer, &FilePath::at(path), write) {
            Err(error) if matches!(error.kind(), ErrorKind::NotDirectory | ErrorKind::Unsupported) => {
                let (place, _) = self.follow(tracer, path)?;
                self.open(tracer, &place, write).map_err(|e| e.on_file_instead(shown(path)))
            }
            opened => opened,
        }
    }

    fn keep(&self, mut file: OpenFile) -> Attributes {
        file.end = None;
        let mut kept = self.inner.kept.lock();
        kept.push_back(file.kept());
        let oldest = if kept.len() > KEPT_OPEN { kept.pop_front() } else { None };
        // Closing may call the service, so not under the lock.
        drop(kept);
        if let Some(oldest) = oldest {
            self.inner.close(oldest, oldest.end());
        }
        file.attributes.clone()
    }

    fn take_kept(&self, file: FileId) -> Option<OpenEntry> {
        let mut kept = self.inner.kept.lock();
        let place = kept.iter().position(|one| one.id == file)?;
        kept.remove(place)
    }

    fn let_go(&self, id: FileId) {
        let mut kept = self.inner.kept.lock();
        let (gone, stay): (VecDeque<_>, VecDeque<_>) = kept.iter().copied().partition(|one| one.id == id);
        *kept = stay;
        drop(kept);
        gone.into_iter().for_each(|one| self.inner.close(one, one.end()));
    }
}

/// Splits a path into names, without empty ones and `.`.
fn names_of(path: &[u8]) -> VecDeque<Vec<u8>> {
    path.split(|b| *b == b'/').filter(|name| !name.is_empty() && *name != b".").map(<[u8]>::to_vec).collect()
}

fn outside(target: &[u8]) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("a symbolic link to `{}`, which is outside the store: only a mount of the store can follow it", shown(target)),
    )
}
