//! A store directory as a source.
//!
//! The walk ([`crate::walk`]) prefetches attributes, layouts and sizes, so only the bytes are left to read. Files are not opened for that:
//! a file removed meanwhile has lost its datafiles, so a short read is a hole, the end of the file, or a removed file. The short files of
//! a batch are checked again in one message, and a file changed since it was found is not copied.

use super::batch::{Batch, EntryKind, Item, KeptAttributes, SMALL_BYTES, State, Stored, shown};
use super::ends::TreeSource;
use super::job::TreeStore;
use super::requests::{Loaded, Parts, Servers};
use super::whole;
use super::workers::of_entry;
use crate::copy::around;
use crate::files::{FileHandle, StoreFile};
use crate::walk::{Detail, Tree, TreeOptions, Visit, WalkOptions, Walker};
use std::ops::Range;
use thalweg_base::ranges;
use thalweg_base::sync::Mutex;
use thalweg_trace::{SpanId, Tracer};
use thalweg_wire::protocol::io::{IoReply, IoRequest};
use thalweg_wire::protocol::metadata::{Attributes, FileKind, FilePath, NewNode};
use thalweg_wire::unexpected;
use thalweg_wire::{Error, ErrorKind, Result};

/// A directory of a store with everything below it.
pub(super) struct StoreTree<'a> {
    store: &'a TreeStore,
    path: &'a [u8],
    walk: Mutex<Tree>,
    servers: Servers<'a>,
    /// Whether damaged bytes are left out.
    skip_damaged: bool,
}

impl<'a> StoreTree<'a> {
    /// Opens a directory of a store.
    pub(super) fn open(tracer: &mut Tracer, store: &'a TreeStore, path: &'a [u8], skip_damaged: bool) -> Result<StoreTree<'a>> {
        let root = store.names.stat(tracer, &FilePath::at(path)).map_err(|e| e.on_file_instead(shown(path)))?;
        if root.kind != FileKind::Directory {
            return Err(Error::new(ErrorKind::NotDirectory, "it is not a directory").on_file(shown(path)));
        }
        let options = WalkOptions { detail: Detail::Sizes, ..WalkOptions::default() };
        let walker = Walker::new(store.names.clone(), std::sync::Arc::clone(&store.data), options);
        let walk = walker.tree(&FilePath::of(root.id), TreeOptions::default());
        Ok(StoreTree { store, path, walk: Mutex::new(walk), servers: Servers::new(&store.data), skip_damaged })
    }

    /// Reads a small file again, without its damaged bytes.
    fn around_damage(&self, tracer: &mut Tracer, batch: &mut Batch, owner: usize) -> Result<()> {
        let entry = &mut batch.entries[owner];
        // (It may have failed at several servers.)
        let (State::Loaded(range), Some(Stored { handle: Some(handle), .. }), []) = (&entry.state, &entry.item.stored, &entry.damaged[..])
        else {
            return Ok(());
        };
        let file = StoreFile::new(std::sync::Arc::clone(&self.store.data), handle.clone());
        let (bytes, mut damaged) = (&mut batch.memory[range.clone()], Vec::new());
        let size_bytes = bytes.len() as u64;
        around::read(tracer, &file, 0..size_bytes, bytes, &|| false, &mut |range, is_intact| {
            if !is_intact {
                ranges::add(&mut damaged, range);
            }
        })?;
        entry.damaged = damaged;
        Ok(())
    }

    /// Copies what is intact of a file that could not be read because of damage, where that was asked for; else notes that it failed.
    fn note_failed(&self, tracer: &mut Tracer, batch: &mut Batch, (owner, error): (usize, Error)) {
        let error = match self.skip_damaged && error.kind() == ErrorKind::Damaged {
            true => match self.around_damage(tracer, batch, owner) {
                Ok(()) => return,
                Err(error) => error,
            },
            false => error,
        };
        let entry = &mut batch.entries[owner];
        if entry.is_open() {
            entry.state = State::Failed(of_entry(error, &entry.item.path));
        }
    }

    /// Checks the files that came short: if unchanged, the missing bytes are holes; otherwise the file is not copied.
    fn look_again(&self, tracer: &mut Tracer, batch: &mut Batch, short: &[usize]) -> Result<()> {
        if short.is_empty() {
            return Ok(());
        }
        let stored = |number: &usize| batch.entries[*number].item.stored.as_ref().expect("from a store");
        let places: Vec<FilePath> = short.iter().map(|number| FilePath::of(stored(number).id)).collect();
        let found = self.store.names.stat_many(tracer, &places, false)?;
        for (number, found) in short.iter().zip(found) {
            let entry = &mut batch.entries[*number];
            let before = entry.item.stored.as_ref().map_or(0, |stored| stored.change);
            let why = match found {
                Ok(now) if now.change == before && now.links > 0 => {
                    let whole = FileHandle::from_attributes(shown(&entry.item.path), &now);
                    if let Err(error) = whole.and_then(|handle| self.store.data.sizes(tracer, &handle)) {
                        entry.state = State::Failed(of_entry(error, &entry.item.path));
                    }
                    continue;
                }
                Ok(now) if now.links > 0 => "was changed while the tree was copied: copy it again",
                _ => "was removed while the tree was copied",
            };
            entry.state = State::Failed(Error::new(ErrorKind::SourceChanged, why));
        }
        Ok(())
    }
}

fn kept(attributes: &Attributes) -> KeptAttributes {
    KeptAttributes {
        mode: attributes.mode,
        uid: attributes.uid,
        gid: attributes.gid,
        accessed_ns: attributes.accessed_ns,
        modified_ns: attributes.modified_ns,
    }
}

impl TreeSource for StoreTree<'_> {
    fn next(&self, tracer: &mut Tracer, batch: &mut Batch) -> Result<bool> {
        let mut walk = self.walk.lock();
        while !batch.is_full() {
            let Some(next) = walk.next(tracer) else { return Ok(false) };
            let found = next?;
            let (path, entry) = (found.path, found.entry);
            match found.visit {
                Visit::Found => {}
                Visit::Unreadable(error) => {
                    batch.unread.push((path, error));
                    continue;
                }
                Visit::Left => continue,
            }
            let Some(attributes) = entry.attributes else {
                let item = Item { path, kind: EntryKind::File(0), kept: KeptAttributes::default(), stored: None };
                batch.push_failed(item, Error::new(ErrorKind::Protocol, "the metadata service returned no attributes for it"));
                continue;
            };
            let mut stored = Stored { id: entry.id, change: attributes.change, handle: None };
            let mut problem = None;
            let kind = match entry.kind {
                FileKind::Directory => EntryKind::Directory,
                FileKind::Symlink => EntryKind::Node(NewNode::Symlink(attributes.target.clone().unwrap_or_default())),
                FileKind::Fifo => EntryKind::Node(NewNode::Fifo),
                FileKind::Socket => EntryKind::Node(NewNode::Socket),
                FileKind::CharacterDevice => EntryKind::Node(NewNode::CharacterDevice(attributes.device)),
                FileKind::BlockDevice => EntryKind::Node(NewNode::BlockDevice(attributes.device)),
                FileKind::File => {
                    let handle = FileHandle::from_attributes(shown(&path), &attributes);
                    match handle.and_then(|handle| self.store.data.check_readable(&handle).map(|()| handle)) {
                        Ok(handle) => stored.handle = Some(handle),
                        Err(error) => problem = Some(of_entry(error, &path)),
                    }
                    match entry.size {
                        // The metadata service's size has precedence: a truncated datafile would make the file look shorter.
                        Some(Ok(size)) => {
                            EntryKind::File(attributes.settled.as_ref().map_or(size.size_bytes, |settled| settled.size_bytes))
                        }
                        Some(Err(error)) => {
                            problem = Some(error);
                            EntryKind::File(0)
                        }
                        None => {
                            problem = Some(Error::new(ErrorKind::Io, "its size is not known: a bug"));
                            EntryKind::File(0)
                        }
                    }
                }
            };
            let item = Item { path, kind, kept: kept(&attributes), stored: Some(stored) };
            match problem {
                None => batch.push(item),
                Some(error) => batch.push_failed(item, error),
            }
        }
        Ok(true)
    }

    fn load(&self, tracer: &mut Tracer, batch: &mut Batch, span: Option<SpanId>) -> Result<()> {
        batch.memory_for_small();
        let mut at = 0;
        for entry in &mut batch.entries {
            if let (EntryKind::File(size), State::Found) = (&entry.item.kind, &entry.state)
                && *size <= SMALL_BYTES
            {
                entry.state = State::Loaded(at..at + *size as usize);
                at += *size as usize;
            }
        }
        // Holes are not sent.
        batch.memory[..at].fill(0);
        let loaded = batch.entries.iter().enumerate().filter_map(|(number, entry)| match (&entry.state, &entry.item.stored) {
            (State::Loaded(range), Some(Stored { handle: Some(handle), .. })) => {
                Some(Loaded { number, handle, range: range.clone(), data: None })
            }
            _ => None,
        });
        let mut parts = Parts::of(&self.store.data, loaded);
        let requests = parts.requests();
        let asked =
            requests.iter().map(|request| (request.server, IoRequest::ReadMany { reads: request.parts.clone() }, Vec::new())).collect();
        let replies = self.servers.exchange(tracer, span, asked);
        let mut short = Vec::new();
        let mut failed: Vec<(usize, Error)> = parts.failed;
        for (request, reply) in requests.iter().zip(replies) {
            let (each, payload) = match reply {
                Ok((IoReply::ReadMany(each), payload)) if each.len() == request.parts.len() => (each, payload),
                Ok((other, _)) => return Err(unexpected(&other)),
                Err(error) => {
                    failed.extend(request.owners.iter().map(|owner| (*owner, error.clone())));
                    continue;
                }
            };
            let mut rest = &payload[..];
            for (part, have) in each.into_iter().enumerate() {
                let owner = request.owners[part];
                let have = match have {
                    Ok(have) => have,
                    Err(refusal) => {
                        let server = self.store.data.links()[request.server].name();
                        let error = Error::new(ErrorKind::from_errno(refusal.errno), refusal.message);
                        failed.push((owner, error.at_server(server)));
                        continue;
                    }
                };
                if have > request.parts[part].2 || have > rest.len() as u64 {
                    return Err(Error::new(ErrorKind::Protocol, "the reply has more bytes than were requested"));
                }
                let (bytes, others) = rest.split_at(have as usize);
                rest = others;
                request.scatter(part, bytes, &mut batch.memory);
                if have < request.parts[part].2 && short.last() != Some(&owner) {
                    short.push(owner);
                }
            }
        }
        failed.into_iter().for_each(|(owner, error)| self.note_failed(tracer, batch, (owner, error)));
        short.sort_unstable();
        short.dedup();
        self.look_again(tracer, batch, &short)
    }

    fn data_map(&self, tracer: &mut Tracer, item: &Item, size_bytes: u64) -> Result<Vec<Range<u64>>> {
        let handle = item.stored.as_ref().and_then(|stored| stored.handle.as_ref());
        let handle = handle.ok_or_else(|| Error::new(ErrorKind::Io, "a file that is not in the store: a bug"))?;
        let (mut data, mut known_to) = (Vec::new(), 0);
        while known_to < size_bytes {
            let (found, to) = self.store.data.data_map(tracer, handle, known_to..size_bytes)?;
            data.extend(found);
            known_to = to;
        }
        Ok(data)
    }

    fn large(&self, tracer: &mut Tracer, item: &Item) -> Result<whole::Source> {
        let Some(Stored { id, handle: Some(handle), .. }) = &item.stored else {
            return Err(Error::new(ErrorKind::Io, "a file that is not in the store: a bug"));
        };
        let open = self.store.names.open_by_id(tracer, *id, false)?;
        let size_bytes = self.store.data.size(tracer, handle)?;
        Ok(whole::Source::Store(self.store.store(), handle.clone(), size_bytes, Box::new(open)))
    }

    fn name(&self) -> String {
        format!("thal:{}", shown(self.path))
    }
}
