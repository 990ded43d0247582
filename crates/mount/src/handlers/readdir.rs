//! Reading directories: each open directory has a walk, which runs ahead of its reader.
//!
//! The kernel continues at an offset, which may be any that it was given before: the number of entries before it. Mostly it is that of the
//! last entry it got, and the walk goes on; otherwise a new walk begins after the entry before it ([`crate::handles::readdir_cursor`]), so
//! that what exists throughout is seen once. The walk is ahead by a bounded number of entries, and the cursor is bounded too, so a
//! directory of any size takes no more memory than that.
//!
//! The kernel gets attributes with the names if it wants them, as long as they are not older than a lifetime. It does not get those of a
//! file that is open here (its last bytes may not have arrived), of one that was changed here since the servers were asked
//! ([`crate::inodes::local_changes`]), or of one whose I/O servers do not answer: those are listed without attributes, and a program that
//! wants them takes a request of its own.

use crate::errors::Answered;
use crate::filesystem::{Answer, FileSystem, Worker};
use crate::fuse::reply::{self, Name};
use crate::handles::directories::Reading;
use crate::inodes::attributes::kind_bits;
use crate::inodes::local_changes::Changes;
use std::time::{Duration, Instant};
use thalweg_client::walk::WalkEntry;
use thalweg_client::wire::protocol::metadata::{FileId, Place};

/// `.` and `..` come first.
const DOTS: u64 = 2;
/// Entries that are taken from a walk at a time.
const BATCH: usize = 1024;
/// After so long, the kernel is given what has come, though there is room for more.
const LONG: Duration = Duration::from_millis(100);

/// Where names are put for the kernel.
struct Page {
    directory: FileId,
    room: usize,
    plus: bool,
}

impl FileSystem {
    /// Opens a directory: nothing is asked yet.
    pub(crate) fn open_directory(&self, w: &mut Worker, inode: u64) -> Answered<Answer> {
        self.inode(inode)?.state().open_directories += 1;
        let handle = self.directories.add();
        reply::opened(&mut w.out, handle, 0);
        Ok(Answer::Out)
    }

    /// It is closed: what was asked for and nobody read is let go.
    pub(crate) fn release_directory(&self, inode: u64, handle: u64) -> Answered<Answer> {
        self.directories.remove(handle);
        if let Ok(inode) = self.inode(inode) {
            let mut state = inode.state();
            state.open_directories = state.open_directories.saturating_sub(1);
        }
        Ok(Answer::Done)
    }

    /// Names from `offset` on, as many as there is room for.
    pub(crate) fn read_directory(
        &self,
        w: &mut Worker,
        inode: u64,
        handle: u64,
        offset: u64,
        (room, plus): (usize, bool),
    ) -> Answered<Answer> {
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
            // From the beginning once more: what is new is seen.
            *reading = Reading::default();
            self.lookup_ahead.listed(page.directory);
        }
        let done = self.go_to(w, &page, &mut reading, at - DOTS).and_then(|()| self.fill_page(w, &page, &mut reading));
        reading.left_at = Some(Instant::now());
        match done {
            // What there is already is listed first; the error comes when it is asked again.
            Err(refusal) if w.out.is_empty() => Err(refusal),
            _ => Ok(Answer::Out),
        }
    }

    /// Puts entries into the page until it is full or the directory ends; not all that could be where that takes long.
    fn fill_page(&self, w: &mut Worker, page: &Page, reading: &mut Reading) -> Answered<()> {
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

    /// Appends one entry, if there is room for it.
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

    /// Takes more from the walk, which begins if there is none: after what was listed last.
    fn bring(&self, w: &mut Worker, reading: &mut Reading) -> Answered<()> {
        let Some(walk) = &mut reading.walk else { return Ok(()) };
        match walk.next_batch(&mut w.tracer, BATCH) {
            Ok(batch) => {
                batch.iter().for_each(|entry| self.breaker.failed_entry(entry));
                reading.came.extend(batch);
                Ok(())
            }
            Err(error) => {
                // The next question begins a walk of its own, from where this one ended.
                reading.walk = None;
                Err(error.into())
            }
        }
    }

    /// Sees to it that the entry that comes next is number `at`, and that it comes with what is asked for.
    fn go_to(&self, w: &mut Worker, page: &Page, reading: &mut Reading, at: u64) -> Answered<()> {
        // Beside a server that does not answer, names are listed, and who asks for one file waits for its servers only.
        let wanted = page.plus && !self.options.strict && !self.breaker.is_tripped();
        if at == reading.cursor.count() {
            let is_late = reading.left_at.is_some_and(|left| left.elapsed() >= self.options.lifetime() / 2);
            if reading.walk.is_none() || wanted && (!reading.with_attributes || is_late) {
                self.begin(page, reading, wanted);
            } else if !wanted && reading.with_attributes {
                // What came with attributes will do; what comes next need not have any.
                let after = reading.came.back().map(|entry| entry.name.as_slice()).or(reading.cursor.last());
                reading.walk = Some(self.walkers.names.directory_after(&Place::of(page.directory), after));
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
        // To a number that is not remembered: names are counted from the nearest one that is.
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

    /// Begins a walk after what was listed last; what came of another is let go.
    fn begin(&self, page: &Page, reading: &mut Reading, with_attributes: bool) {
        let walker = if with_attributes { &self.walkers.whole } else { &self.walkers.names };
        reading.came.clear();
        reading.walk = Some(walker.directory_after(&Place::of(page.directory), reading.cursor.last()));
        reading.with_attributes = with_attributes;
    }
}
