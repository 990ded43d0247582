//! Reading directories, page by page.
//!
//! The service lists names in order, from after a name. The kernel goes on from a number, which may be any it was given before:
//! it is the count of names before it, and for each page that was left the name it began after is kept. So a directory of any
//! size takes a page and a name for each page before it, and what is there all the time is seen once.

use crate::attributes::{Size, attr, kind_bits};
use crate::errors::{Answered, Refusal};
use crate::filesystem::{Answer, FileSystem, Worker};
use crate::fuse::reply::{self, Name};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thalweg_store::client::FileHandle;
use thalweg_store::protocol::metadata::{DirectoryEntry, FileId, FileKind, Place};

/// Names in a page; with attributes, the sizes of its files are asked for at once.
const PAGE_NAMES: u32 = 512;
/// `.` and `..` come first.
const DOTS: u64 = 2;

/// All open directories.
#[derive(Default)]
pub struct Directories {
    open: Mutex<HashMap<u64, Arc<Mutex<Reading>>>>,
    next: AtomicU64,
}

/// One directory that is being read.
#[derive(Default)]
struct Reading {
    page: Vec<Listed>,
    /// Names before the page, `.` and `..` not counted.
    before: u64,
    /// Whether names follow the page.
    more: bool,
    with_attributes: bool,
    /// For each page that was left: names before it, and the name it begins after.
    pages: Vec<(u64, Option<Vec<u8>>)>,
    began: bool,
}

struct Listed {
    entry: DirectoryEntry,
    /// Where it was asked for and could be had.
    size: Option<Size>,
}

impl Directories {
    fn open(&self) -> MutexGuard<'_, HashMap<u64, Arc<Mutex<Reading>>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, handle: u64) -> Answered<Arc<Mutex<Reading>>> {
        self.open().get(&handle).cloned().ok_or(Refusal::plain(libc::EBADF))
    }
}

impl FileSystem {
    /// Opens a directory: nothing is asked yet.
    pub fn open_directory(&self, w: &mut Worker, node: u64) -> Answered<Answer> {
        self.node(node)?.state().open_directories += 1;
        let handle = self.directories.next.fetch_add(1, Ordering::Relaxed) + 1;
        self.directories.open().insert(handle, Arc::default());
        reply::opened(&mut w.out, handle, 0);
        Ok(Answer::Out)
    }

    /// It is closed.
    pub fn release_directory(&self, node: u64, handle: u64) -> Answered<Answer> {
        self.directories.open().remove(&handle);
        if let Ok(node) = self.node(node) {
            let mut state = node.state();
            state.open_directories = state.open_directories.saturating_sub(1);
        }
        Ok(Answer::Done)
    }

    /// Names from `offset` on, as many as there is room for.
    pub fn read_directory(&self, w: &mut Worker, node: u64, handle: u64, offset: u64, (room, plus): (usize, bool)) -> Answered<Answer> {
        let reading = self.directories.get(handle)?;
        let mut reading = reading.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = self.table.id(node);
        let mut at = offset;
        while at < DOTS {
            let dot: &[u8] = if at == 0 { b"." } else { b".." };
            let name = Name { number: directory.0, next: at + 1, name: dot, kind: libc::S_IFDIR >> 12 };
            let fits = if plus { reply::name_with_attributes(&mut w.out, room, &name, None) } else { reply::name(&mut w.out, room, &name) };
            if !fits {
                return Ok(Answer::Out);
            }
            at += 1;
        }
        if offset == 0 {
            // From the beginning once more: what is new is seen.
            *reading = Reading::default();
        }
        loop {
            let found = match self.find_page(w, directory, &mut reading, at - DOTS, plus) {
                Ok(found) => found,
                // What there is already is told first; the error comes when it is asked again.
                Err(_) if !w.out.is_empty() => return Ok(Answer::Out),
                Err(refusal) => return Err(refusal),
            };
            let Some(first) = found else { return Ok(Answer::Out) };
            for listed in &reading.page[first..] {
                if !self.add_name(w, directory, listed, at + 1, (room, plus)) {
                    return Ok(Answer::Out);
                }
                at += 1;
            }
        }
    }

    fn add_name(&self, w: &mut Worker, directory: FileId, listed: &Listed, next: u64, (room, plus): (usize, bool)) -> bool {
        let entry = &listed.entry;
        let name = Name { number: entry.id.0, next, name: &entry.name, kind: kind_bits(entry.kind) >> 12 };
        if !plus {
            return reply::name(&mut w.out, room, &name);
        }
        let (Some(attributes), Some(size)) = (&entry.attributes, listed.size) else {
            return reply::name_with_attributes(&mut w.out, room, &name, None);
        };
        // What is open here is asked for by itself: what was written here and is not at the servers yet counts.
        if self.table.get(entry.id.0).is_some_and(|node| node.shared().is_some()) {
            return reply::name_with_attributes(&mut w.out, room, &name, None);
        }
        let known = attr(attributes, size);
        let fits = reply::name_with_attributes(&mut w.out, room, &name, Some((entry.id.0, &known, self.lifetimes())));
        if fits {
            self.table.remember(attributes, (directory, &entry.name), self.options.lifetime());
        }
        fits
    }

    /// Makes the page with name number `at` the current one: its place in it. `None`: there are not so many.
    fn find_page(&self, w: &mut Worker, directory: FileId, reading: &mut Reading, at: u64, plus: bool) -> Answered<Option<usize>> {
        if reading.began && at < reading.before {
            // Back to the last page that begins before it.
            while let Some((before, after)) = reading.pages.pop() {
                if before <= at || reading.pages.is_empty() {
                    self.list_page(w, directory, reading, before, after, plus)?;
                    break;
                }
            }
        }
        if !reading.began {
            self.list_page(w, directory, reading, 0, None, plus)?;
        }
        loop {
            let inside = at.saturating_sub(reading.before) as usize;
            if inside < reading.page.len() {
                return Ok(Some(inside));
            }
            if !reading.more || reading.page.is_empty() {
                return Ok(None);
            }
            let (before, after) = (reading.before + reading.page.len() as u64, reading.page.last().map(|l| l.entry.name.clone()));
            self.list_page(w, directory, reading, before, after, plus)?;
        }
    }

    fn list_page(
        &self,
        w: &mut Worker,
        directory: FileId,
        reading: &mut Reading,
        before: u64,
        after: Option<Vec<u8>>,
        plus: bool,
    ) -> Answered<()> {
        let listed = self.names.list(&mut w.tracer, &Place::of(directory), after.as_deref(), PAGE_NAMES, plus);
        let (entries, more) = listed.map_err(|e| Refusal::from(e).of_known_file())?;
        let mut page: Vec<Listed> = entries.into_iter().map(|entry| Listed { entry, size: None }).collect();
        if plus {
            self.fill_sizes(w, &mut page);
        }
        reading.pages.push((before, after));
        (reading.page, reading.before, reading.more, reading.with_attributes, reading.began) = (page, before, more, plus, true);
        Ok(())
    }

    fn fill_sizes(&self, w: &mut Worker, page: &mut [Listed]) {
        let mut handles = Vec::new();
        for (i, listed) in page.iter_mut().enumerate() {
            match &listed.entry.attributes {
                Some(attributes) if attributes.kind == FileKind::File => {
                    let name = String::from_utf8_lossy(&listed.entry.name).into_owned();
                    if let Ok(handle) = FileHandle::from_attributes(name, attributes) {
                        handles.push((i, handle));
                    }
                }
                Some(_) => listed.size = Some(Size::default()),
                None => {}
            }
        }
        let files: Vec<&FileHandle> = handles.iter().map(|(_, handle)| handle).collect();
        let sizes = self.sizes(&mut w.tracer, &files);
        for ((i, _), size) in handles.iter().zip(sizes) {
            page[*i].size = size.ok();
        }
    }
}
