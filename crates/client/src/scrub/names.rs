//! The names of a store: what the metadata service expects of each file's datafiles, held against their sizes.
//!
//! A directory is read page by page, and the datafiles of a page's files are glimpsed in few messages, so a million names cost hundreds of
//! requests.

use super::findings::{FindingKind, Place};
use super::scrubbing::Scrub;
use crate::files::{FileHandle, Outgoing, is_as_expected};
use crate::partials::Partial;
use std::collections::BTreeMap;
use std::time::Duration;
use thalweg_trace::Tracer;
use thalweg_wire::protocol::io::{DatafileId, DatafileSize, IoReply, IoRequest};
use thalweg_wire::protocol::metadata::{Attributes, Detail, FileKind, FilePath};
use thalweg_wire::{Result, limits};

/// Names requested at a time.
const PAGE: u32 = 2048;
/// A partial copy whose client has been gone for this long is a finding: it does not come back.
const OLD: Duration = Duration::from_secs(24 * 3600);

/// What is done with each file, besides.
pub(super) type Each<'a> = &'a dyn Fn(&Scrub<'_>, &[u8], &Attributes) -> Result<()>;

/// Walks everything at or below a path.
pub(super) fn walk(scrub: &Scrub<'_>, path: &[u8], each: Option<Each<'_>>) -> Result<()> {
    let tracer = &mut Tracer::off();
    let path = path.strip_suffix(b"/").unwrap_or(path);
    let (_, top) = scrub.names.follow(tracer, path)?;
    let mut walking = Walking { scrub, each, files: Vec::new(), datafiles: 0 };
    if top.kind != FileKind::Directory {
        walking.file(path.to_vec(), top)?;
        return walking.glimpse();
    }
    let mut left = vec![(top.id, path.to_vec())];
    while let Some((directory, path)) = left.pop() {
        let mut after: Option<Vec<u8>> = None;
        loop {
            if scrub.is_over() {
                return Ok(());
            }
            let (entries, more) = match scrub.names.list(tracer, &FilePath::of(directory), after.as_deref(), PAGE, Detail::Sizes) {
                Ok(page) => page,
                // Removed meanwhile.
                Err(error) if error.is_gone() => break,
                Err(error) => return Err(error),
            };
            after = entries.last().map(|entry| entry.name.to_vec());
            for entry in entries {
                let below = [&path[..], b"/", entry.name.as_bytes()].concat();
                scrub.found.lock().report.names += 1;
                match (entry.kind, entry.attributes) {
                    (FileKind::Directory, _) => left.push((entry.id, below)),
                    (FileKind::File, Some(attributes)) => walking.file(below, attributes)?,
                    _ => {}
                }
            }
            if !more || after.is_none() {
                break;
            }
        }
    }
    walking.glimpse()
}

struct Walking<'a> {
    scrub: &'a Scrub<'a>,
    each: Option<Each<'a>>,
    files: Vec<(FileHandle, Vec<u8>, Attributes)>,
    datafiles: usize,
}

impl Walking<'_> {
    fn file(&mut self, path: Vec<u8>, attributes: Attributes) -> Result<()> {
        {
            let mut found = self.scrub.found.lock();
            if let Some(wanted) = found.paths.get_mut(&attributes.id) {
                *wanted = Some(path.clone());
            }
            if let Some(lost) = attributes.lost.as_ref().filter(|_| self.scrub.options.files.is_empty()) {
                let place = Place { file: Some(attributes.id), path: Some(path.clone()), ..Place::default() };
                found.add(FindingKind::Lost, place, format!("acknowledged bytes are lost, up to byte {}", lost.end_bytes()));
            }
        }
        if let Some(each) = self.each {
            each(self.scrub, &path, &attributes)?;
        }
        let files = &self.scrub.options.files;
        if attributes.settled.is_some() && (files.is_empty() || files.contains(&attributes.id)) {
            let handle = FileHandle::from_attributes(String::from_utf8_lossy(&path), &attributes)?;
            self.datafiles += handle.targets().len();
            self.files.push((handle, path, attributes));
        }
        if self.datafiles >= limits::BATCH { self.glimpse() } else { Ok(()) }
    }

    /// Holds the sizes of the files' datafiles against those that the metadata service expects.
    fn glimpse(&mut self) -> Result<()> {
        let files = std::mem::take(&mut self.files);
        self.datafiles = 0;
        let mut by_server: BTreeMap<usize, Vec<(usize, DatafileId)>> = BTreeMap::new();
        for (at, (handle, ..)) in files.iter().enumerate() {
            for id in handle.datafiles() {
                by_server.entry(self.scrub.data.server_of(id.target)?).or_default().push((at, id));
            }
        }
        let batches: Vec<(usize, &[(usize, DatafileId)])> =
            by_server.iter().flat_map(|(server, ids)| ids.chunks(limits::BATCH).map(|ids| (*server, ids))).collect();
        let request = |(server, ids): &(usize, &[(usize, DatafileId)])| Outgoing {
            server: *server,
            request: IoRequest::Glimpse { datafiles: ids.iter().map(|(_, id)| *id).collect() },
            payload: Vec::new(),
        };
        let requests: Vec<Outgoing<'_>> = batches.iter().map(request).collect();
        let mut sizes: Vec<Option<Vec<DatafileSize>>> =
            files.iter().map(|(handle, ..)| Some(vec![DatafileSize::default(); handle.targets().len()])).collect();
        for ((_, ids), reply) in batches.iter().zip(self.scrub.data.exchange(&mut Tracer::off(), None, &requests)) {
            match reply {
                Ok((IoReply::Sizes(found), _)) if found.len() == ids.len() => {
                    for ((at, id), size) in ids.iter().zip(found) {
                        if let Some(sizes) = &mut sizes[*at] {
                            sizes[id.index as usize] = size;
                        }
                    }
                }
                // Its server is in the report already, or is now.
                other => {
                    ids.iter().for_each(|(at, _)| sizes[*at] = None);
                    let error = other.err().map_or_else(|| "a reply that does not match its request".to_owned(), |error| error.to_string());
                    let mut found = self.scrub.found.lock();
                    if !found.report.silent.contains(&error) {
                        found.report.silent.push(error);
                    }
                }
            }
        }
        for ((handle, path, attributes), sizes) in files.iter().zip(&sizes) {
            if let (Some(sizes), Some(settled)) = (sizes, &attributes.settled)
                && !is_as_expected(handle.layout(), settled, sizes)
            {
                self.scrub.found.lock().is_short(attributes.id, path);
            }
        }
        Ok(())
    }
}

/// Adds partial copies whose clients are gone.
pub(super) fn partials(scrub: &Scrub<'_>) -> Result<()> {
    let tracer = &mut Tracer::off();
    for partial in Partial::all(tracer, scrub.names)? {
        let Some(gone) = partial.abandoned_for.filter(|gone| *gone >= OLD) else { continue };
        let days = gone.as_secs() / (24 * 3600);
        let place = Place { path: Some(partial.path.clone()), ..Place::default() };
        scrub.found.lock().add(FindingKind::Partial, place, format!("its client has been gone for {days} days"));
    }
    Ok(())
}
