//! `thalweg du`: shows the space that files use, directory by directory.
//!
//! A tree is walked depth-first, so a directory's sum is complete when the walk leaves it; only the sums of the current path are kept.
//! Only the I/O servers know the space used (a file may have holes); lengths may come from the metadata service.

use super::walking::{Troubles, WalkFlags, Walking};
use crate::listing;
use crate::names::{self, Style};
use crate::operand::{BytePath, StoreFlags};
use crate::{failure::Failure, output::Lines};
use std::collections::HashSet;
use std::ffi::OsString;
use std::time::Instant;
use thalweg_client::walk::{Detail, TreeOptions, Visit, WalkEntry, WalkMode};
use thalweg_trace::{TraceHandle, Tracer};
use thalweg_wire::protocol::metadata::{FileId, FileKind, FilePath};

/// Arguments of `thalweg du`.
#[derive(clap::Args)]
#[command(
    disable_help_flag = true,
    after_help = "A ? after a number means that a server did not answer for some of the files (the exit code is then 1). \
    A file with several names counts once. Symbolic links are not followed.\n\
    thalweg du -sh thal://HOST:PORT/run7            the total of a tree\n\
    thalweg du -h -d 1 thal:/                       for each directory below the root\n\
    thalweg du -b thal:/run7 | sort -n | tail       where the bytes are"
)]
pub(crate) struct Arguments {
    /// Directories or files: thal://HOST:PORT/path, or paths with --store (default: the store's root)
    paths: Vec<OsString>,
    /// Print only a total for each operand
    #[arg(short, long, conflicts_with_all = ["all", "depth"])]
    summarize: bool,
    /// Print files too
    #[arg(short, long)]
    all: bool,
    /// Print directories down to this depth; 0 is the path itself
    #[arg(short, long = "max-depth", id = "depth", value_name = "N")]
    depth: Option<u32>,
    /// Print sizes like 1.5K and 12M (default: in KiB)
    #[arg(short = 'h', long)]
    human_readable: bool,
    /// Sum lengths of files, not the space they use
    #[arg(long)]
    apparent_size: bool,
    /// Sum lengths of files, and print bytes
    #[arg(short, long)]
    bytes: bool,
    /// Print a grand total at the end
    #[arg(short = 'c', long)]
    total: bool,
    /// Print as JSON, in bytes
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

/// The sum of a directory so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    bytes: u64,
    files: u64,
    /// Number of files of unknown size.
    unknown: u64,
}

impl Sum {
    fn add(&mut self, other: Sum) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.files += other.files;
        self.unknown += other.unknown;
    }
}

/// Sums and prints.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    // The metadata service cannot know the space that a file uses.
    let most = if arguments.is_apparent() { WalkMode::SizesFromMetadata } else { WalkMode::GlimpseAhead };
    let options = arguments.walk.options(Detail::Sizes, most, &arguments.store);
    let operands = arguments.walk.operands(&arguments.paths, &arguments.store, &options)?;
    arguments.walk.around("du", &arguments.store, &operands, arguments.json, |trace, troubles| {
        let lines = if arguments.walk.recording.replaces_result(arguments.json) { Lines::nowhere() } else { Lines::new() };
        let mut adding = Adding { arguments, lines, written: 0, seen: HashSet::new(), style: Style::for_stdout(false) };
        adding.begin();
        let mut total = Sum::default();
        for (path, store) in &operands.paths {
            match adding.operand(trace, path, &operands.walking[*store], troubles) {
                Ok(sum) => total.add(sum),
                Err(failure) => troubles.or_end(failure)?,
            }
        }
        adding.end(total, troubles)
    })
}

impl Arguments {
    fn is_apparent(&self) -> bool {
        self.apparent_size || self.bytes
    }

    fn depth(&self) -> u32 {
        if self.summarize { 0 } else { self.depth.unwrap_or(u32::MAX) }
    }
}

struct Adding<'a> {
    arguments: &'a Arguments,
    lines: Lines,
    written: usize,
    /// Files with several names that were counted, by store and id.
    seen: HashSet<(u64, FileId)>,
    style: Style,
}

impl Adding<'_> {
    fn operand(&mut self, trace: &TraceHandle, path: &BytePath, walking: &Walking, troubles: &mut Troubles) -> Result<Sum, Failure> {
        let mut tracer = trace.thread("main");
        let place = FilePath::at(&path.path);
        let store = walking.session.map().store;
        let attributes = walking.session.stat_at(&mut tracer, &place)?;
        if attributes.kind != FileKind::Directory {
            let known = (attributes.kind == FileKind::File).then(|| walking.walker.stat(&mut tracer, attributes.id));
            let (kind, id) = (attributes.kind, attributes.id);
            let size = known.and_then(|known| known.map(|known| known.size).transpose());
            let sum = self.of(
                store,
                &WalkEntry { name: Vec::new(), id, kind, attributes: Some(attributes), size, asked: Instant::now() },
                troubles,
            );
            self.line(&path.given, sum, "file")?;
            return Ok(sum);
        }
        let sum = self.tree(&mut tracer, path, &place, walking, store, troubles)?;
        self.line(&path.given, sum, "directory")?;
        self.lines.flush()?;
        Ok(sum)
    }

    fn tree(
        &mut self,
        tracer: &mut Tracer,
        path: &BytePath,
        place: &FilePath,
        walking: &Walking,
        store: u64,
        troubles: &mut Troubles,
    ) -> Result<Sum, Failure> {
        let mut tree = walking.walker.tree(place, TreeOptions { leaving: true, ..TreeOptions::default() });
        // The operand's sum, and that of each directory on the current path.
        let mut sums = vec![Sum::default()];
        while let Some(next) = tree.next(tracer) {
            let next = match next {
                Ok(next) => next,
                Err(error) => {
                    troubles.of(&path.path, &error);
                    sums[0].unknown += 1;
                    break;
                }
            };
            let depth = next.depth as usize;
            match next.visit {
                Visit::Found => {
                    sums.resize(depth, Sum::default());
                    let sum = self.of(store, &next.entry, troubles);
                    if let Some(of) = sums.last_mut() {
                        of.add(sum);
                    }
                    if self.arguments.all && next.entry.kind != FileKind::Directory && next.depth <= self.arguments.depth() {
                        self.line(&names::join(&path.given, &next.path), sum, listing::kind_text(next.entry.kind))?;
                    }
                }
                Visit::Unreadable(error) if error.is_gone() => {}
                Visit::Unreadable(error) => {
                    troubles.of(&names::join(&path.path, &next.path), &error);
                    sums.resize(depth + 1, Sum::default());
                    sums[depth].unknown += 1;
                }
                Visit::Left => {
                    sums.resize(depth + 1, Sum::default());
                    let sum = sums.pop().unwrap_or_default();
                    if let Some(above) = sums.last_mut() {
                        above.add(sum);
                    }
                    if next.depth <= self.arguments.depth() {
                        self.line(&names::join(&path.given, &next.path), sum, "directory")?;
                    }
                }
            }
            if !tree.is_ready() {
                self.lines.flush()?;
            }
        }
        // If the walk ended early, the sums of the current path are added too.
        let mut all = Sum::default();
        sums.into_iter().for_each(|sum| all.add(sum));
        Ok(all)
    }

    /// Returns the sum of one entry.
    fn of(&mut self, store: u64, entry: &WalkEntry, troubles: &mut Troubles) -> Sum {
        if entry.kind != FileKind::File {
            return Sum::default();
        }
        let has_names = entry.attributes.as_ref().is_some_and(|attributes| attributes.links > 1);
        if has_names && !self.seen.insert((store, entry.id)) {
            return Sum::default();
        }
        let bytes = match &entry.size {
            Some(Ok(size)) if self.arguments.is_apparent() => Some(size.size_bytes),
            Some(Ok(size)) => size.allocated_bytes,
            Some(Err(error)) => {
                troubles.size(error);
                None
            }
            None => None,
        };
        Sum { bytes: bytes.unwrap_or(0), files: 1, unknown: u64::from(bytes.is_none()) }
    }

    fn begin(&mut self) {
        if self.arguments.json {
            self.lines.buffer.extend_from_slice(b"{\n  \"schema\": \"thalweg.du/1\",\n  \"entries\": [");
        }
    }

    fn line(&mut self, path: &[u8], sum: Sum, kind: &str) -> Result<(), Failure> {
        if self.arguments.json {
            self.lines.buffer.extend_from_slice(if self.written == 0 { b"\n    " } else { b",\n    " });
            self.object(path, sum, kind);
        } else {
            self.plain(path, sum);
        }
        self.written += 1;
        self.lines.due()
    }

    fn plain(&mut self, path: &[u8], sum: Sum) {
        let out = &mut self.lines.buffer;
        match (self.arguments.human_readable, self.arguments.bytes) {
            (true, _) => out.extend_from_slice(listing::human(sum.bytes).as_bytes()),
            (_, true) => listing::push_number(out, sum.bytes, 0),
            _ => listing::push_number(out, sum.bytes.div_ceil(1024), 0),
        }
        if sum.unknown > 0 {
            out.push(b'?');
        }
        out.push(b'\t');
        names::push(out, path, self.style);
        out.push(b'\n');
    }

    fn object(&mut self, path: &[u8], sum: Sum, kind: &str) {
        let out = &mut self.lines.buffer;
        out.extend_from_slice(b"{\"path\": ");
        names::push_json(out, path);
        if std::str::from_utf8(path).is_err() {
            out.extend_from_slice(b", \"path_hexadecimal\": ");
            names::push_json(out, names::hexadecimal(path).as_bytes());
        }
        let bytes = if self.arguments.is_apparent() { "size_bytes" } else { "allocated_bytes" };
        let rest =
            format!(", \"kind\": \"{kind}\", \"{bytes}\": {}, \"files\": {}, \"files_unknown\": {}}}", sum.bytes, sum.files, sum.unknown);
        out.extend_from_slice(rest.as_bytes());
    }

    fn end(mut self, total: Sum, troubles: &mut Troubles) -> Result<(), Failure> {
        troubles.report_sizes();
        if self.arguments.json {
            let out = &mut self.lines.buffer;
            out.extend_from_slice(if self.written == 0 { b"]" } else { b"\n  ]" });
            if self.arguments.total {
                out.extend_from_slice(format!(",\n  \"total_bytes\": {}", total.bytes).as_bytes());
            }
            for (i, error) in troubles.said.iter().enumerate() {
                out.extend_from_slice(if i == 0 { b",\n  \"errors\": [\n    " } else { b",\n    " });
                names::push_json(out, error.as_bytes());
            }
            out.extend_from_slice(if troubles.said.is_empty() { b"\n}\n" } else { b"\n  ]\n}\n" });
        } else if self.arguments.total {
            self.plain(b"total", total);
        }
        self.lines.flush()
    }
}
