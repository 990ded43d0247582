//! `thalweg ls`: lists names, with `-l` their attributes.
//!
//! The service lists names in byte order, so a listing in that order is written while it arrives: line by line with `-U`, otherwise in
//! batches of 1024, whose widest fields set the column widths (which never shrink). Only other orders need the whole directory before the
//! first line. The store's walker lists; this module only formats.

mod rows;
mod writer;

use super::walking::{Operands, Troubles, WalkFlags, Walking};
use crate::names::{self, Style};
use crate::operand::{BytePath, StoreFlags};
use crate::{failure::Failure, output::Lines};
use rows::{Order, Row};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::time::Instant;
use thalweg_client::walk::{Detail, TreeOptions, Visit, WalkEntry, WalkMode};
use thalweg_trace::Tracer;
use thalweg_wire::protocol::metadata::{Attributes, FileKind, FilePath};
use writer::{Format, Writer};

/// Entries taken from a walk at a time.
const BATCH: usize = 1024;

/// Arguments of `thalweg ls`.
#[derive(clap::Args)]
#[command(
    disable_help_flag = true,
    after_help = "The size is - for entries without one, and ? if a server did not answer (the exit code is then 1). \
    Names are escaped on a terminal, and written as they are to a pipe or file.\n\
    thalweg ls -l thal://HOST:PORT/run7             with modes, owners, sizes and times\n\
    thalweg ls -lU thal:/many | head                the first lines immediately, however large the directory\n\
    thalweg ls -lRS thal:/                          largest files first in each directory\n\
    thalweg ls -lU --json thal:/many                one JSON object per line, as they come\n\
    thalweg ls -l --counters --mode none thal:/run7 what it costs without prefetching"
)]
pub(crate) struct Arguments {
    /// Directories or files: thal://HOST:PORT/path, or paths with --store (default: the store's root)
    paths: Vec<OsString>,
    /// Show mode, owner, size and time
    #[arg(short, long)]
    long: bool,
    /// Do not sort: print each line as it arrives, for directories of any size
    #[arg(short = 'U', long = "unsorted", conflicts_with_all = ["by_size", "by_time", "reverse"])]
    unsorted: bool,
    /// Also list subdirectories; symbolic links are not followed
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Include names that begin with a dot
    #[arg(short, long, visible_short_alias = 'A')]
    all: bool,
    /// One name per line, on a terminal too
    #[arg(short = '1')]
    one: bool,
    /// Sort by size, largest first
    #[arg(short = 'S', conflicts_with = "by_time")]
    by_size: bool,
    /// Sort by time, newest first
    #[arg(short = 't')]
    by_time: bool,
    /// Reverse the order
    #[arg(short, long)]
    reverse: bool,
    /// List directories themselves, not their contents
    #[arg(short = 'd', long = "directory")]
    directory: bool,
    /// With -l, print sizes like 1.5K and 12M
    #[arg(short = 'h', long)]
    human_readable: bool,
    /// Escape names as on a terminal, even to a pipe or file
    #[arg(short = 'b', long)]
    escape: bool,
    /// Print JSON: a document for each path; with -U, an object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    walk: WalkFlags,
    #[command(flatten)]
    store: StoreFlags,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// Lists the operands.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let operands = arguments.walk.operands(&arguments.paths, &arguments.store, &arguments.options())?;
    arguments.walk.around("ls", &arguments.store, &operands, arguments.json, |trace, troubles| {
        let lines = if arguments.walk.recording.replaces_result(arguments.json) { Lines::nowhere() } else { Lines::new() };
        let writer = Writer::new(lines, arguments.format(), Style::for_stdout(arguments.escape), arguments.human_readable);
        Listing { arguments, writer, tracer: trace.thread("main") }.all(&operands, troubles)
    })
}

impl Arguments {
    fn order(&self) -> Order {
        match (self.unsorted, self.by_size, self.by_time) {
            (true, ..) => Order::AsTheyCome,
            (_, true, _) => Order::Size { reverse: self.reverse },
            (.., true) => Order::Time { reverse: self.reverse },
            _ => Order::Name { reverse: self.reverse },
        }
    }

    fn format(&self) -> Format {
        let columns = || match terminal_columns() {
            Some(columns) if !self.one && !self.unsorted => Format::Grid { columns },
            _ => Format::Names,
        };
        match (self.json, self.long) {
            (true, _) if self.unsorted => Format::JsonLines { long: self.long },
            (true, _) => Format::Json { long: self.long },
            (_, true) => Format::Long { at_once: self.unsorted },
            _ => columns(),
        }
    }

    fn options(&self) -> thalweg_client::walk::WalkOptions {
        let detail = match self.order() {
            _ if self.long => Detail::Sizes,
            Order::Size { .. } => Detail::Sizes,
            Order::Time { .. } => Detail::Attributes,
            _ => Detail::Names,
        };
        self.walk.options(detail, WalkMode::SizesFromMetadata, &self.store)
    }
}

/// Returns the width of the terminal, if standard output is one.
fn terminal_columns() -> Option<usize> {
    let out = std::io::stdout();
    if !out.is_terminal() {
        return None;
    }
    let given = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let asked = || rustix::termios::tcgetwinsize(&out).ok().map(|size| usize::from(size.ws_col));
    Some(given.or_else(asked).filter(|columns| *columns > 0).unwrap_or(80))
}

/// One command's listing.
struct Listing<'a> {
    arguments: &'a Arguments,
    writer: Writer,
    tracer: Tracer,
}

/// An operand that exists, with its attributes.
struct ListedOperand<'a> {
    path: &'a BytePath,
    walking: &'a Walking,
    place: FilePath,
    attributes: Attributes,
}

impl Listing<'_> {
    /// Lists files first, then directories, each under its name if there are several, as `ls` does.
    fn all(mut self, operands: &Operands, troubles: &mut Troubles) -> Result<(), Failure> {
        let (mut files, mut directories) = (Vec::new(), Vec::new());
        for (path, store) in &operands.paths {
            match self.find(path, &operands.walking[*store]) {
                Ok(found) if found.attributes.kind == FileKind::Directory && !self.arguments.directory => directories.push(found),
                Ok(found) => files.push(found),
                Err(failure) => troubles.or_end(failure)?,
            }
        }
        if !files.is_empty() {
            self.files(&files, troubles)?;
        }
        let headed = self.arguments.recursive || operands.paths.len() > 1;
        for found in &directories {
            let said = troubles.said.len();
            self.writer.begin(&found.path.path)?;
            if self.arguments.recursive {
                self.tree(found, troubles)?;
            } else {
                self.directory(found, headed, troubles)?;
            }
            troubles.report_sizes();
            self.writer.end(&troubles.said[said.min(troubles.said.len())..])?;
        }
        self.writer.finish()
    }

    fn find<'a>(&mut self, path: &'a BytePath, walking: &'a Walking) -> Result<ListedOperand<'a>, Failure> {
        let place = FilePath::at(&path.path);
        let attributes = walking.session.stat_at(&mut self.tracer, &place)?;
        if attributes.kind == FileKind::Symlink && !self.arguments.long && !self.arguments.directory {
            // As with other `ls`: a link operand stands for its directory, unless attributes are asked for.
            let followed = walking.session.follow_at(&mut self.tracer, &path.path)?;
            if let Some((place, attributes)) = followed.filter(|(_, found)| found.kind == FileKind::Directory) {
                return Ok(ListedOperand { path, walking, place, attributes });
            }
        }
        Ok(ListedOperand { path, walking, place, attributes })
    }

    /// Lists operands that are not directories, by the names given.
    fn files(&mut self, files: &[ListedOperand<'_>], troubles: &mut Troubles) -> Result<(), Failure> {
        let wants_sizes = self.arguments.options().detail == Detail::Sizes;
        let mut rows = Vec::new();
        for found in files {
            let kind = found.attributes.kind;
            let size = (kind == FileKind::File && wants_sizes).then(|| {
                let known = found.walking.walker.stat(&mut self.tracer, found.attributes.id)?;
                known.size.ok_or_else(|| thalweg_wire::Error::new(thalweg_wire::ErrorKind::Io, "no answer had it"))
            });
            // A single file in a document is listed by its last name, for compatibility.
            let name = if self.arguments.json { names::last(&found.path.path) } else { &found.path.given };
            let name = if name.is_empty() { b"/" } else { name };
            let attributes = Some(found.attributes.clone());
            let entry = WalkEntry { name: name.to_vec(), id: found.attributes.id, kind, attributes, size, asked: Instant::now() };
            rows.push(Row::new(entry, troubles));
        }
        let path = if let [one] = files { one.path.path.clone() } else { b"/".to_vec() };
        self.writer.begin(&path)?;
        self.arguments.order().sort(&mut rows);
        rows.into_iter().try_for_each(|row| self.writer.row(row))?;
        troubles.report_sizes();
        self.writer.end(&troubles.said)
    }

    fn directory(&mut self, found: &ListedOperand<'_>, headed: bool, troubles: &mut Troubles) -> Result<(), Failure> {
        self.writer.section(headed.then_some(&found.path.given))?;
        let order = self.arguments.order();
        let mut walk = found.walking.walker.directory(&found.place);
        let mut kept = Vec::new();
        loop {
            let batch = match walk.next_batch(&mut self.tracer, BATCH) {
                Ok(batch) => batch,
                Err(error) => {
                    troubles.of(&found.path.path, &error);
                    break;
                }
            };
            if batch.is_empty() {
                break;
            }
            for entry in batch.into_iter().filter(|entry| self.arguments.all || !is_hidden(&entry.name)) {
                let row = Row::new(entry, troubles);
                if order.needs_all() { kept.push(row) } else { self.writer.row(row)? }
            }
            self.writer.batch_ends()?;
        }
        order.sort(&mut kept);
        kept.into_iter().try_for_each(|row| self.writer.row(row))?;
        self.writer.section_ends()
    }

    fn tree(&mut self, found: &ListedOperand<'_>, troubles: &mut Troubles) -> Result<(), Failure> {
        let order = self.arguments.order();
        let mut tree = found.walking.walker.tree(&found.place, TreeOptions { leaving: true, ..TreeOptions::default() });
        let given = &found.path.given;
        // The current directory relative to the operand; its rows, if all are needed before printing; and the previous entry.
        let (mut section, mut kept, mut last) = (Vec::new(), Vec::new(), Vec::new());
        self.writer.section(Some(given))?;
        while let Some(next) = tree.next(&mut self.tracer) {
            let next = match next {
                Ok(next) => next,
                Err(error) => {
                    troubles.of(&found.path.path, &error);
                    break;
                }
            };
            match next.visit {
                Visit::Found => {
                    let directory = parent(&next.path);
                    if directory != section {
                        self.section_ends(order, &mut kept)?;
                        section = directory.to_vec();
                        self.writer.section(Some(&names::join(given, &section)))?;
                    }
                    let hidden = !self.arguments.all && is_hidden(&next.entry.name);
                    if hidden && next.entry.kind == FileKind::Directory {
                        tree.prune();
                    }
                    last = next.path;
                    if hidden {
                        continue;
                    }
                    let row = Row::new(next.entry, troubles);
                    if order.needs_all() { kept.push(row) } else { self.writer.row(row)? }
                }
                Visit::Unreadable(error) if error.is_gone() => {}
                Visit::Unreadable(error) => troubles.of(&names::join(&found.path.path, &next.path), &error),
                // An empty directory has a heading too.
                Visit::Left if !is_below(&last, &next.path) => {
                    self.section_ends(order, &mut kept)?;
                    section = next.path;
                    self.writer.section(Some(&names::join(given, &section)))?;
                }
                Visit::Left => {}
            }
            if !tree.is_ready() {
                self.writer.batch_ends()?;
            }
        }
        self.section_ends(order, &mut kept)
    }

    fn section_ends(&mut self, order: Order, kept: &mut Vec<Row>) -> Result<(), Failure> {
        order.sort(kept);
        kept.drain(..).try_for_each(|row| self.writer.row(row))?;
        self.writer.section_ends()
    }
}

fn is_hidden(name: &[u8]) -> bool {
    name.starts_with(b".")
}

/// Returns the parent of a path within a tree; empty for the tree's root.
pub(crate) fn parent(path: &[u8]) -> &[u8] {
    path.iter().rposition(|b| *b == b'/').map_or(&[], |at| &path[..at])
}

/// Whether a path is below a directory, both relative to the same tree.
pub(crate) fn is_below(path: &[u8], directory: &[u8]) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_a_directory_is_not_what_begins_like_it() {
        assert!(is_below(b"a/b", b"a") && is_below(b"a/b/c", b"a"));
        assert!(!is_below(b"ab", b"a") && !is_below(b"a", b"a") && !is_below(b"", b"a"));
        assert_eq!((parent(b"a/b/c"), parent(b"a")), (&b"a/b"[..], &b""[..]));
    }
}
