//! `thalweg find`: prints, describes or removes the names below a path that meet all conditions.
//!
//! Conditions and actions are those of `find`, with one dash or two. Servers are asked only for what the conditions need: names for `-name`
//! and `-type`, attributes for `-mtime`, sizes for `-size`. Removal uses the same batches as `thalweg rm -r`.

mod conditions;

use super::walking::{Troubles, WalkFlags, Walking};
use crate::names::{self, Style};
use crate::operand::{BytePath, StoreFlags};
use crate::{failure::Failure, listing, output::Lines};
use conditions::{Age, Answer, Candidate, Conditions, Kind, SizeIs};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;
use thalweg_client::remove::{Name, Remover};
use thalweg_client::walk::{Detail, TreeEntry, TreeOptions, Visit, WalkEntry, WalkMode};
use thalweg_trace::{TraceHandle, Tracer};
use thalweg_wire::protocol::metadata::{FileId, FileKind, FilePath};

/// Arguments of `thalweg find`.
#[derive(clap::Args)]
#[command(
    disable_help_flag = true,
    after_help = "All conditions must hold; write them with one dash, as for find, or two. N means exactly N, +N more, -N less. \
    SIZE takes the suffix c (bytes), k, M, G, T, Ki, Mi, Gi or Ti; without one it counts blocks of 512 bytes; sizes are rounded up.\n\
    thalweg find thal://HOST:PORT/run7 -name '*.h5' -size +1G\n\
    thalweg find thal:/ -type f -mtime +30 -print0 | xargs -0 thalweg rm\n\
    thalweg find thal:/run7 -name '*.tmp' -delete       in batches, as rm -r does\n\
    thalweg find thal:/ -type d -empty -ls"
)]
pub(crate) struct Arguments {
    /// Where to search: thal://HOST:PORT/path, or paths with --store (default: the store's root)
    paths: Vec<OsString>,
    /// The name matches a pattern: * ? [a-z] [!x] \*
    #[arg(long, value_name = "GLOB", allow_hyphen_values = true)]
    name: Vec<OsString>,
    /// Like --name, ignoring case
    #[arg(long, value_name = "GLOB", allow_hyphen_values = true)]
    iname: Vec<OsString>,
    /// The whole path, as printed, matches a pattern; * matches / too
    #[arg(long, value_name = "GLOB", allow_hyphen_values = true)]
    path: Vec<OsString>,
    /// The kind: f file, d directory, l symbolic link, p pipe, s socket, b block device, c character device; or several, with commas
    #[arg(long = "type", value_name = "KINDS", value_delimiter = ',')]
    kind: Vec<Kind>,
    /// The size of a file
    #[arg(long, value_name = "[+-]SIZE", allow_hyphen_values = true)]
    size: Vec<SizeIs>,
    /// Modified this many whole days ago
    #[arg(long, value_name = "[+-]N", allow_hyphen_values = true, value_parser = Age::days)]
    mtime: Vec<Age>,
    /// Modified this many whole minutes ago
    #[arg(long, value_name = "[+-]N", allow_hyphen_values = true, value_parser = Age::minutes)]
    mmin: Vec<Age>,
    /// Modified later than this path
    #[arg(long, value_name = "PATH")]
    newer: Vec<OsString>,
    /// The file or directory is empty
    #[arg(long)]
    empty: bool,
    /// At most this deep; 0 is the path itself
    #[arg(long, value_name = "N")]
    maxdepth: Option<u32>,
    /// At least this deep
    #[arg(long, value_name = "N")]
    mindepth: Option<u32>,
    /// Visit directories after their contents
    #[arg(long)]
    depth: bool,
    /// Print each path (the default)
    #[arg(long)]
    print: bool,
    /// Print each path with a zero byte after it, for xargs -0
    #[arg(long)]
    print0: bool,
    /// Print inode number, mode, links, owner, size, time and path
    #[arg(long)]
    ls: bool,
    /// Remove the names found, directories after their contents
    #[arg(long)]
    delete: bool,
    #[command(flatten)]
    walk: WalkFlags,
    #[command(flatten)]
    store: StoreFlags,
    /// Print help
    #[arg(short, long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// Conditions and actions that `find` writes with one dash.
const ONE_DASH: &[&str] = &[
    "name", "iname", "path", "type", "size", "mtime", "mmin", "newer", "empty", "maxdepth", "mindepth", "depth", "print", "print0", "ls",
    "delete", "help",
];

/// Returns the command line with two dashes where `find` has one, if the verb is `find`.
pub(crate) fn with_two_dashes(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.collect();
    if words.get(1).is_some_and(|verb| verb == "find") {
        for word in words.iter_mut().skip(2).take_while(|word| *word != "--") {
            let Some(condition) = word.as_bytes().strip_prefix(b"-") else { continue };
            if ONE_DASH.iter().any(|known| known.as_bytes() == condition) {
                *word = OsStr::from_bytes(&[b"-", word.as_bytes()].concat()).to_owned();
            }
        }
    }
    words
}

/// Runs the search.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(word) = arguments.paths.iter().find(|path| ["!", "(", ")", ","].iter().any(|odd| path == odd)) {
        let word = word.to_string_lossy();
        return Err(Failure::usage(format!("{word}: conditions are ANDed; NOT, OR and parentheses are not supported")));
    }
    let options = arguments.walk.options(arguments.detail(), WalkMode::SizesFromMetadata, &arguments.store);
    let operands = arguments.walk.operands(&arguments.paths, &arguments.store, &options)?;
    arguments.walk.around("find", &arguments.store, &operands, false, |trace, troubles| {
        let conditions = arguments.conditions(trace, troubles)?;
        let Some(conditions) = conditions else { return Ok(()) };
        let mut printing = Printing { arguments, lines: Lines::new(), style: arguments.style(), times: listing::Times::default() };
        for (path, store) in &operands.paths {
            let walking = &operands.walking[*store];
            let finding = Search { arguments, conditions: &conditions, path, walking, counts: Vec::new() };
            if let Err(failure) = finding.all(trace, &mut printing, troubles) {
                troubles.or_end(failure)?;
            }
        }
        printing.lines.flush()
    })
}

impl Arguments {
    fn detail(&self) -> Detail {
        if !self.size.is_empty() || self.ls || self.empty {
            Detail::Sizes
        } else if !self.mtime.is_empty() || !self.mmin.is_empty() || !self.newer.is_empty() {
            Detail::Attributes
        } else {
            Detail::Names
        }
    }

    fn style(&self) -> Style {
        if self.print0 { Style::Raw } else { Style::for_stdout(false) }
    }

    /// Returns the conditions; `None` if a path to compare with does not exist, which was reported.
    fn conditions(&self, trace: &TraceHandle, troubles: &mut Troubles) -> Result<Option<Conditions>, Failure> {
        let mut newer_ns = Vec::new();
        let operands = if self.newer.is_empty() {
            None
        } else {
            let options = self.walk.options(Detail::Names, WalkMode::SizesFromMetadata, &self.store);
            Some(self.walk.operands(&self.newer, &self.store, &options)?)
        };
        for (path, store) in operands.iter().flat_map(|operands| &operands.paths) {
            let Some(operands) = &operands else { break };
            match operands.walking[*store].session.stat_at(&mut trace.thread("main"), &FilePath::at(&path.path)) {
                Ok(attributes) => newer_ns.push(attributes.modified_ns),
                Err(failure) => {
                    troubles.or_end(failure)?;
                    return Ok(None);
                }
            }
        }
        let bytes = |patterns: &[OsString]| patterns.iter().map(|pattern| pattern.as_bytes().to_vec()).collect();
        Ok(Some(Conditions {
            names: bytes(&self.name),
            names_any_case: bytes(&self.iname),
            paths: bytes(&self.path),
            kinds: self.kind.iter().map(|kind| kind.0).collect(),
            sizes: self.size.clone(),
            ages: self.mtime.iter().chain(&self.mmin).copied().collect(),
            newer_ns,
            empty: self.empty,
            now_ns: conditions::now_ns(),
        }))
    }

    /// Whether directories are visited after their contents.
    fn leaving(&self) -> bool {
        self.depth || self.delete
    }

    fn is_deep_enough(&self, depth: u32) -> bool {
        self.mindepth.is_none_or(|least| depth >= least)
    }
}

/// A name that was reached, or a directory that the walk left.
struct Visited<'a> {
    entry: &'a WalkEntry,
    depth: u32,
    /// Relative to the operand.
    path: &'a [u8],
    parent: FileId,
    /// Number of a directory's entries.
    names: u64,
}

impl<'a> Visited<'a> {
    fn of(next: &'a TreeEntry, names: u64) -> Visited<'a> {
        Visited { entry: &next.entry, depth: next.depth, path: &next.path, parent: next.parent, names }
    }
}

/// The actions on names found.
struct Actions<'a, 'b> {
    remover: Remover,
    printing: &'a mut Printing<'b>,
    troubles: &'a mut Troubles,
}

/// The search below one operand.
struct Search<'a> {
    arguments: &'a Arguments,
    conditions: &'a Conditions,
    path: &'a BytePath,
    walking: &'a Walking,
    /// For the operand and each directory on the current path: the number of entries that stay.
    counts: Vec<u64>,
}

impl Search<'_> {
    fn all(mut self, trace: &TraceHandle, printing: &mut Printing<'_>, troubles: &mut Troubles) -> Result<(), Failure> {
        let mut tracer = trace.thread("main");
        let root = self.root(&mut tracer)?;
        let of_root = |names| Visited { entry: &root, depth: 0, path: &[], parent: FileId::ROOT, names };
        let mut actions = Actions { remover: Remover::new(self.walking.session.names().clone(), trace, false), printing, troubles };
        if root.kind != FileKind::Directory || (!self.arguments.leaving() && !self.arguments.empty) {
            self.candidate(&of_root(0), &mut actions)?;
        }
        let most = self.arguments.maxdepth.unwrap_or(u32::MAX);
        if root.kind == FileKind::Directory && most > 0 {
            self.below(&mut tracer, root.id, most, &mut actions)?;
        }
        if root.kind == FileKind::Directory && (self.arguments.leaving() || self.arguments.empty) {
            let left = self.left(&mut tracer, root.id, 0, most)?;
            self.candidate(&of_root(left), &mut actions)?;
        }
        let Actions { remover, printing, troubles } = actions;
        remover.finish(&mut |path, error| troubles.of(path, error));
        printing.lines.flush()
    }

    fn root(&self, tracer: &mut Tracer) -> Result<WalkEntry, Failure> {
        let place = FilePath::at(&self.path.path);
        let attributes = self.walking.session.stat_at(tracer, &place)?;
        let wants_size = attributes.kind == FileKind::File && self.arguments.detail() == Detail::Sizes;
        let size = wants_size.then(|| {
            let known = self.walking.walker.stat(tracer, attributes.id)?;
            known.size.ok_or_else(|| thalweg_wire::Error::new(thalweg_wire::ErrorKind::Io, "no answer had its size"))
        });
        let name = names::last(&self.path.path);
        let name = if name.is_empty() { b"/".to_vec() } else { name.to_vec() };
        Ok(WalkEntry { name, id: attributes.id, kind: attributes.kind, attributes: Some(attributes), size, asked: Instant::now() })
    }

    fn below(&mut self, tracer: &mut Tracer, id: FileId, most: u32, actions: &mut Actions<'_, '_>) -> Result<(), Failure> {
        // Whether a directory is empty is known only when the walk leaves it.
        let late = self.arguments.leaving() || self.arguments.empty;
        let options = TreeOptions { depth_most: most, leaving: late, ..TreeOptions::default() };
        let mut tree = self.walking.walker.tree(&FilePath::of(id), options);
        self.counts = vec![0];
        while let Some(next) = tree.next(tracer) {
            let next = match next {
                Ok(next) => next,
                Err(error) => {
                    actions.troubles.of(&self.path.path, &error);
                    self.counts[0] += 1;
                    break;
                }
            };
            self.visit(tracer, &next, late, most, actions)?;
            if !tree.is_ready() {
                actions.printing.lines.flush()?;
            }
        }
        Ok(())
    }

    fn visit(
        &mut self,
        tracer: &mut Tracer,
        next: &TreeEntry,
        late: bool,
        most: u32,
        actions: &mut Actions<'_, '_>,
    ) -> Result<(), Failure> {
        let (depth, is_directory) = (next.depth as usize, next.entry.kind == FileKind::Directory);
        match &next.visit {
            Visit::Unreadable(error) => {
                if !error.is_gone() {
                    actions.troubles.of(&names::join(&self.path.path, &next.path), error);
                }
                self.counts.resize(depth + 1, 0);
                // Its entries are not known: it counts as not empty.
                self.counts[depth] += 1;
                Ok(())
            }
            Visit::Found => {
                self.counts.resize(depth, 0);
                self.counts[depth - 1] += 1;
                if is_directory && late {
                    return Ok(());
                }
                self.candidate(&Visited::of(next, 0), actions)
            }
            Visit::Left => {
                self.counts.resize(depth + 1, 0);
                let left = self.left(tracer, next.entry.id, next.depth, most)?;
                self.counts.truncate(depth);
                self.candidate(&Visited::of(next, left), actions)
            }
        }
    }

    /// Returns the number of entries of a directory that was walked, or 0 or 1 (any) for one that the walk does not enter.
    fn left(&self, tracer: &mut Tracer, id: FileId, depth: u32, most: u32) -> Result<u64, Failure> {
        if depth < most || !self.arguments.empty {
            return Ok(self.counts.get(depth as usize).copied().unwrap_or(0));
        }
        self.walking.session.has_names(tracer, id).map(u64::from)
    }

    /// Prints or removes a name that meets the conditions.
    fn candidate(&mut self, visited: &Visited<'_>, actions: &mut Actions<'_, '_>) -> Result<(), Failure> {
        let Visited { entry, depth, path, parent, names } = *visited;
        if !self.arguments.is_deep_enough(depth) {
            return Ok(());
        }
        let shown = names::join(&self.path.given, path);
        match self.conditions.hold(&Candidate { entry, path: &shown, names }) {
            Answer::No => return Ok(()),
            Answer::Unknown(error) => {
                actions.troubles.size(error);
                return Ok(());
            }
            Answer::Yes => {}
        }
        actions.printing.found(entry, &shown, actions.troubles)?;
        // A store's root cannot be removed.
        if self.arguments.delete && entry.id != FileId::ROOT {
            let name = if depth == 0 { self.path.path.clone() } else { entry.name.clone() };
            let directory = (entry.kind == FileKind::Directory).then_some(entry.id);
            let name = Name { parent, name, path: names::join(&self.path.path, path), directory };
            let Actions { remover, troubles, .. } = actions;
            remover.remove(name, &mut |path, error| troubles.of(path, error));
            if depth > 0 {
                let of = &mut self.counts[depth as usize - 1];
                *of = of.saturating_sub(1);
            }
        }
        Ok(())
    }
}

/// Prints names found.
struct Printing<'a> {
    arguments: &'a Arguments,
    lines: Lines,
    style: Style,
    times: listing::Times,
}

impl Printing<'_> {
    fn found(&mut self, entry: &WalkEntry, path: &[u8], troubles: &mut Troubles) -> Result<(), Failure> {
        let arguments = self.arguments;
        if arguments.ls {
            self.described(entry, path, troubles);
        }
        let is_asked = arguments.print || !(arguments.ls || arguments.print0 || arguments.delete);
        if is_asked || arguments.print0 {
            names::push(&mut self.lines.buffer, path, self.style);
            self.lines.buffer.push(if arguments.print0 { 0 } else { b'\n' });
        }
        self.lines.due()
    }

    fn described(&mut self, entry: &WalkEntry, path: &[u8], troubles: &mut Troubles) {
        let out = &mut self.lines.buffer;
        out.extend_from_slice(entry.id.to_string().as_bytes());
        out.push(b' ');
        let Some(known) = &entry.attributes else {
            out.extend_from_slice(b"? ");
            names::push(out, path, self.style);
            return out.push(b'\n');
        };
        out.extend_from_slice(&listing::mode_bytes(entry.kind, known.mode));
        for (number, width) in [(known.links, 3), (known.uid, 5), (known.gid, 5)] {
            out.push(b' ');
            listing::push_number(out, number.into(), width);
        }
        out.push(b' ');
        match &entry.size {
            None => listing::push_right(out, b"-", 12),
            Some(Ok(size)) => listing::push_number(out, size.size_bytes, 12),
            Some(Err(error)) => {
                troubles.size(error);
                listing::push_right(out, b"?", 12);
            }
        }
        out.push(b' ');
        self.times.push(out, known.modified_ns);
        out.push(b' ');
        names::push(out, path, self.style);
        if let Some(target) = &known.target {
            out.extend_from_slice(b" -> ");
            names::push(out, target, self.style);
        }
        out.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_have_one_dash_or_two_and_flags_stay_as_they_are() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let read = |line: &str| with_two_dashes(words(line).into_iter());
        assert_eq!(read("thalweg find / -name *.c -size -3k --store s"), words("thalweg find / --name *.c --size -3k --store s"));
        assert_eq!(read("thalweg find -- -name"), words("thalweg find -- -name"));
        assert_eq!(read("thalweg ls -name"), words("thalweg ls -name"));
    }
}
