//! The walker: its walks, and single files that join them.

use super::{Detail, Known, Size, SizeFrom, WalkCounters, WalkEntry, WalkMode, WalkOptions};
use crate::client::{DataClient, FileHandle};
use crate::error::{Error, Result};
use crate::metadata::client::MetadataClient;
use crate::protocol::io::{DatafileId, DatafileSize, IoReply, IoRequest};
use crate::protocol::metadata::{DirectoryEntry, FileId, FileKind, Place};
use crate::sync::locked;
use crate::wire::unexpected;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use thalweg_layout::Distribution;
use thalweg_trace::Tracer;

/// Walks directories of one store. Cheap to clone; may be used from any thread.
#[derive(Clone)]
pub struct Walker {
    shared: Arc<Shared>,
}

struct Shared {
    names: MetadataClient,
    data: Arc<DataClient>,
    options: WalkOptions,
    counters: Mutex<WalkCounters>,
}

/// Servers that do not answer, and why: they are asked no more.
type Dead = HashMap<usize, Error>;

/// A walk through one directory. What it has asked for and nobody reads is let go when it is dropped.
pub struct Walk {
    shared: Arc<Shared>,
    place: Place,
    after: Option<Vec<u8>>,
    page: VecDeque<WalkEntry>,
    more: bool,
    failed: Option<Error>,
    dead: Dead,
}

impl Walker {
    /// A walker over these names and bytes.
    pub fn new(names: MetadataClient, data: Arc<DataClient>, options: WalkOptions) -> Walker {
        Walker { shared: Arc::new(Shared { names, data, options, counters: Mutex::default() }) }
    }

    /// How it walks.
    pub fn options(&self) -> &WalkOptions {
        &self.shared.options
    }

    /// All of a directory. Nothing is asked before the first [`Walk::next`].
    pub fn directory(&self, place: &Place) -> Walk {
        self.directory_after(place, None)
    }

    /// A directory from after a name on.
    pub fn directory_after(&self, place: &Place, after: Option<&[u8]>) -> Walk {
        Walk {
            shared: Arc::clone(&self.shared),
            place: place.clone(),
            after: after.map(<[u8]>::to_vec),
            page: VecDeque::new(),
            more: true,
            failed: None,
            dead: Dead::new(),
        }
    }

    /// One file or directory; joins what is in flight for it in any walk of this walker.
    ///
    /// # Errors
    /// The service's, or that of an I/O server which was asked for its size.
    pub fn stat(&self, tracer: &mut Tracer, id: FileId) -> Result<Known> {
        let asked = Instant::now();
        let attributes = self.shared.names.stat(tracer, &Place::of(id))?;
        let mut entry = WalkEntry { name: Vec::new(), id, kind: attributes.kind, attributes: Some(attributes), size: None, asked };
        if self.shared.options.detail == Detail::Sizes {
            self.shared.fill_sizes(tracer, std::slice::from_mut(&mut entry), &mut Dead::new());
        }
        let attributes = entry.attributes.take().expect("put there above");
        Ok(Known { attributes, size: entry.size.transpose()?, asked })
    }

    /// What was done so far.
    pub fn counters(&self) -> WalkCounters {
        *locked(&self.shared.counters)
    }
}

impl Walk {
    /// The next entry, in the service's order of names; `None` at the end. An error of the directory ends the walk.
    pub fn next(&mut self, tracer: &mut Tracer) -> Option<Result<WalkEntry>> {
        if self.page.is_empty()
            && let Err(error) = self.fetch(tracer)
        {
            return Some(Err(error));
        }
        let entry = self.page.pop_front()?;
        locked(&self.shared.counters).entries += 1;
        Some(Ok(entry))
    }

    /// At least one entry unless the walk is at its end, and of the next ones those that are there already, `most` in all.
    ///
    /// # Errors
    /// As [`Walk::next`]'s.
    pub fn next_batch(&mut self, tracer: &mut Tracer, most: usize) -> Result<Vec<WalkEntry>> {
        if self.page.is_empty() {
            self.fetch(tracer)?;
        }
        let many = most.max(1).min(self.page.len());
        locked(&self.shared.counters).entries += many as u64;
        Ok(self.page.drain(..many).collect())
    }

    fn fetch(&mut self, tracer: &mut Tracer) -> Result<()> {
        if let Some(error) = self.failed.take() {
            self.more = false;
            return Err(error);
        }
        if !self.more {
            return Ok(());
        }
        let options = &self.shared.options;
        let asked = Instant::now();
        let listed = self.shared.names.list(tracer, &self.place, self.after.as_deref(), options.page_names, options.detail.min(Detail::Attributes));
        let (entries, more) = listed.inspect_err(|_| self.more = false)?;
        self.more = more && !entries.is_empty();
        if let Some(last) = entries.last() {
            self.after = Some(last.name.clone());
        }
        let mut page: Vec<WalkEntry> = entries.into_iter().map(|entry| WalkEntry::of(entry, asked)).collect();
        if options.detail == Detail::Sizes {
            let at_once = if options.mode >= WalkMode::GlimpseAhead { page.len().max(1) } else { 1 };
            for some in page.chunks_mut(at_once) {
                self.shared.fill_sizes(tracer, some, &mut self.dead);
            }
        }
        self.page.extend(page);
        Ok(())
    }
}

impl WalkEntry {
    fn of(entry: DirectoryEntry, asked: Instant) -> WalkEntry {
        WalkEntry { name: entry.name, id: entry.id, kind: entry.kind, attributes: entry.attributes, size: None, asked }
    }
}

impl Shared {
    /// Asks the I/O servers for the sizes of these files.
    fn fill_sizes(&self, tracer: &mut Tracer, entries: &mut [WalkEntry], dead: &mut Dead) {
        let mut handles: HashMap<usize, (FileHandle, Vec<DatafileSize>)> = HashMap::new();
        let mut by_server: BTreeMap<usize, Vec<(usize, DatafileId)>> = BTreeMap::new();
        for (at, entry) in entries.iter_mut().enumerate().filter(|(_, entry)| entry.kind == FileKind::File) {
            let Some(attributes) = &entry.attributes else { continue };
            match self.datafiles(attributes) {
                Ok((handle, datafiles)) => {
                    handles.insert(at, (handle, vec![DatafileSize::default(); datafiles.len()]));
                    datafiles.into_iter().for_each(|(server, id)| by_server.entry(server).or_default().push((at, id)));
                }
                Err(error) => entry.size = Some(Err(error)),
            }
        }
        for (server, wanted) in by_server {
            for batch in wanted.chunks(self.options.datafiles_per_request.max(1) as usize) {
                let answered = match dead.get(&server) {
                    Some(error) => Err(error.clone()),
                    None => self.ask(tracer, server, batch).inspect_err(|e| drop(dead.insert(server, e.clone()))),
                };
                match answered {
                    Ok(sizes) => batch.iter().zip(sizes).for_each(|((at, id), size)| {
                        if let Some((_, known)) = handles.get_mut(at) {
                            known[id.index as usize] = size;
                        }
                    }),
                    Err(error) => batch.iter().for_each(|(at, _)| {
                        handles.remove(at);
                        entries[*at].size = Some(Err(error.clone()));
                    }),
                }
            }
        }
        for (at, (handle, known)) in handles {
            let ends: Vec<u64> = known.iter().map(|s| s.size_bytes).collect();
            let size = handle.layout().logical_file_size(&ends).map(|size_bytes| Size {
                size_bytes,
                allocated_bytes: Some(known.iter().map(|s| s.allocated_bytes).sum()),
                from: SizeFrom::Glimpse,
            });
            entries[at].size = Some(size.map_err(|e| Error::new(crate::ErrorKind::Io, e.to_string())));
        }
    }

    fn datafiles(&self, attributes: &crate::protocol::metadata::Attributes) -> Result<(FileHandle, Vec<(usize, DatafileId)>)> {
        let handle = FileHandle::from_attributes(attributes.id.to_string(), attributes)?;
        let datafiles = handle.datafiles().map(|id| Ok((self.data.server_of(id.target)?, id))).collect::<Result<_>>()?;
        Ok((handle, datafiles))
    }

    fn ask(&self, tracer: &mut Tracer, server: usize, batch: &[(usize, DatafileId)]) -> Result<Vec<DatafileSize>> {
        let request = IoRequest::Glimpse { datafiles: batch.iter().map(|(_, id)| *id).collect() };
        let mut replies = self.data.call_each(tracer, &[(server, request)])?;
        {
            let mut counters = locked(&self.counters);
            counters.requests += 1;
            counters.glimpsed += batch.len() as u64;
        }
        match replies.pop() {
            Some(IoReply::Sizes(sizes)) if sizes.len() == batch.len() => Ok(sizes),
            other => Err(unexpected(&other)),
        }
    }
}
