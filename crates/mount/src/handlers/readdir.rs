//! Reading directories: each open directory has a walk that runs ahead of its reader.
//!
//! The kernel continues at an offset it was given before: the number of entries that precede it. Mostly it is that of the last entry
//! returned, and the walk continues; otherwise a new walk begins after the entry before it ([`crate::handles::readdir_cursor`]), so that
//! an entry that exists throughout is returned once. Both the window and the cursor are bounded, so memory does not depend on the
//! directory's size.
//!
//! The kernel gets attributes with the names if it wants them and they are younger than their lifetime. Attributes are left out for a file
//! that is open here (its last bytes may be in flight), that was changed here since the servers were asked
//! ([`crate::inodes::local_changes`]), or whose I/O servers do not answer; a program that needs them then makes a separate request.

use crate::errors::HandlerResult;
use crate::filesystem::{Answer, FileSystem, Worker};
use crate::fuse::reply::{self, Name};
use crate::handles::directories::Reading;
use crate::inodes::attributes::kind_bits;
use crate::inodes::local_changes::Changes;
use std::time::{Duration, Instant};
use thalweg_client::walk::WalkEntry;
use thalweg_client::wire::protocol::metadata::{FileId, FilePath};

/// `.` and `..` come first.
const DOTS: u64 = 2;
/// Entries taken from a walk together.
const BATCH: usize = 1024;
/// Time after which the kernel gets the entries available, even if there is room for more.
const LONG: Duration = Duration::from_millis(100);

/// Parameters of a page of names.
struct Page {
    directory: FileId,
    room: usize,
    plus: bool,
}

impl FileSystem {
    /// Opens a directory; nothing is requested yet.
    pub(crate) fn open_directory(&self, w: &mut Worker, inode: u64) -> HandlerResult<Answer> {
        self.inode(inode)?.state().open_directories += 1;
        let handle = self.directories.add();
        reply::opened(&mut w.out, handle, 0);
        Ok(Answer::Out)
    }

    /// Closes a directory and drops unread entries.
    pub(crate) fn release_directory(&self, inode: u64, handle: u64) -> HandlerResult<Answer> {
        self.directories.remove(handle);
        if let Ok(inode) = self.inode(inode) {
            let mut state = inode.state();
            state.open_directories = state.open_directories.saturating_sub(1);
        }
        Ok(Answer::Done)
    }

    /// Returns names from `offset` on, as many as fit.
    pub(crate) fn read_directory(
        &self,
        w: &mut Worker,
        inode: u64,
        handle: u64,
        offset: u64,
        (room, plus): (usize, bool),
    ) -> HandlerResult<Answer> {
        let reading = self.directories.get(handle)?;
        let mut reading = reading.lock();
        let page = Page { directory: self.table.id(inode), room, plus };
        let mut at = offset;
        while at < DOTS {
            let dot: &[u8] = if at == 0 { b"." } else { b".." };
            let name = Name { number: page.directory.0, next: at + 1, name: dot, kind: libc::S_IFDIR >> 12 };
            let fits = if plus { reply::name_with_attributes(&mut w.out, room, &name, None) } else { reply::name(&mut w.out, room, &name) };
            if !fits {
                return Ok(Answer::Out);
            }
            at += 1;
        }
        if offset == 0 {
            // Restarts at the beginning: new names appear.
            *reading = Reading::default();
            self.lookup_ahead.listed(page.directory);
        }
        let done = self.go_to(w, &page, &mut reading, at - DOTS).and_then(|()| self.fill_page(w, &page, &mut reading));
        reading.left_at = Some(Instant::now());
        match done {
            // Return the available entries first; the error recurs on the next call.
            Err(refusal) if w.out.is_empty() => Err(refusal),
            _ => Ok(Answer::Out),
        }
    }

    /// Fills the page with entries until it is full, the directory ends, or it takes too long.
    fn fill_page(&self, w: &mut Worker, page: &Page, reading: &mut Reading) -> HandlerResult<()> {
        let began = Instant::now();
        loop {
            if reading.came.is_empty() {
                if !w.out.is_empty() && began.elapsed() >= LONG {
                    return Ok(());
                }
                self.bring(w, reading)?;
                if reading.came.is_empty() {
                    return Ok(());
                }
            }
            let changes = self.local_changes.changes();
            while let Some(entry) = reading.came.front() {
                let next = DOTS + reading.cursor.count() + 1;
                if !self.emit_entry(&mut w.out, page, entry, next, &changes) {
                    return Ok(());
                }
                if let Some(entry) = reading.came.pop_front() {
                    reading.cursor.push(entry.name);
                }
            }
        }
    }

    /// Appends one entry, if it fits.
    fn emit_entry(&self, out: &mut Vec<u8>, page: &Page, entry: &WalkEntry, next: u64, changes: &Changes) -> bool {
        let name = Name { number: entry.id.0, next, name: &entry.name, kind: kind_bits(entry.kind) >> 12 };
        if !page.plus {
            return reply::name(out, page.room, &name);
        }
        let Some((known, lifetimes)) = self.walked_attr(entry, page.directory, changes) else {
            return reply::name_with_attributes(out, page.room, &name, None);
        };
        let fits = reply::name_with_attributes(out, page.room, &name, Some((entry.id.0, &known, lifetimes)));
        if fits && let Some(attributes) = &entry.attributes {
            let inode = self.table.insert((attributes, entry.asked), (page.directory, &entry.name), self.options.lifetime());
            inode.cache_attr(&known, attributes.change, entry.asked);
        }
        fits
    }

    /// Takes more entries from the walk, which is begun after the last entry listed if necessary.
    fn bring(&self, w: &mut Worker, reading: &mut Reading) -> HandlerResult<()> {
        let Some(walk) = &mut reading.walk else { return Ok(()) };
        match walk.next_batch(&mut w.tracer, BATCH) {
            Ok(batch) => {
                batch.iter().for_each(|entry| self.breaker.failed_entry(entry));
                reading.came.extend(batch);
                Ok(())
            }
            Err(error) => {
                // The next call begins a new walk where this one ended.
                reading.walk = None;
                Err(error.into())
            }
        }
    }

    /// Positions the reader so that the next entry is number `at`, with the detail requested.
    fn go_to(&self, w: &mut Worker, page: &Page, reading: &mut Reading, at: u64) -> HandlerResult<()> {
        // With a silent server, names are listed without attributes; a stat of a single file waits for its servers only.
        let wanted = page.plus && !self.options.strict && !self.breaker.is_tripped();
        if at == reading.cursor.count() {
            let is_late = reading.left_at.is_some_and(|left| left.elapsed() >= self.options.lifetime() / 2);
            if reading.walk.is_none() || wanted && (!reading.with_attributes || is_late) {
                self.begin(page, reading, wanted);
            } else if !wanted && reading.with_attributes {
                // Entries already fetched with attributes are used first; later ones need not have any.
                let after = reading.came.back().map(|entry| entry.name.as_slice()).or(reading.cursor.last());
                reading.walk = Some(self.walkers.names.directory_after(&FilePath::of(page.directory), after));
                reading.with_attributes = false;
            }
            return Ok(());
        }
        reading.cursor.go_back(at);
        let behind = at - reading.cursor.count();
        if behind == 0 {
            self.begin(page, reading, wanted);
            return Ok(());
        }
        // The number is not remembered: count names from the nearest one that is.
        self.begin(page, reading, false);
        for _ in 0..behind {
            if reading.came.is_empty() {
                self.bring(w, reading)?;
            }
            let Some(entry) = reading.came.pop_front() else { return Ok(()) };
            reading.cursor.push(entry.name);
        }
        if wanted {
            self.begin(page, reading, wanted);
        }
        Ok(())
    }

    /// Begins a walk after the last entry listed; drops entries of a previous walk.
    fn begin(&self, page: &Page, reading: &mut Reading, with_attributes: bool) {
        let walker = if with_attributes { &self.walkers.whole } else { &self.walkers.names };
        reading.came.clear();
        reading.walk = Some(walker.directory_after(&FilePath::of(page.directory), reading.cursor.last()));
        reading.with_attributes = with_attributes;
    }
}
