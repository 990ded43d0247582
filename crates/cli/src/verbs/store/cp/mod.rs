//! `thalweg cp`: copies files and pipes into, out of and between stores, and trees with `-r`; records and explains the copy if asked to.

mod document;
mod tree;

use crate::interrupt::Interrupt;
use crate::layout_flags::LayoutFlags;
use crate::lots::LotFlag;
use crate::operand::{Operand, StoreFlags, StorePath};
use crate::recordings::around::RecordingFlags;
use crate::recordings::explained::{self, Form};
use crate::recordings::temporary::Temporary;
use crate::session::{Session, Sessions};
use crate::terminal::progress::Progress;
use crate::tuning::{self, Tuned};
use crate::{emulation, failure::Failure, output};
use document::document;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;
use thalweg_base::numbers;
use thalweg_client::Controller;
use thalweg_client::copy::{
    self, CopyJob, CopyObserver, CopyOutcome, DataPath, Recording, Sink, Source, Sparse, TreeEnd, TreeJob, TreeOutcome, Tuning,
};
use thalweg_wire::ErrorKind;
use thalweg_wire::emulate;
use thalweg_wire::protocol::metadata::FileKind;
use tree::TreeCopy;

/// Arguments of `thalweg cp`.
#[derive(clap::Args)]
#[command(args_override_self = true)]
#[command(
    after_help = "A copy is written as NAME.partial and renamed to NAME once it is complete. A local NAME that is a symbolic link is followed; \
    links inside a tree are not, unless --follow is given.\n\
    thalweg cp big.tar thal://HOST:PORT/big.tar     in\n\
    thalweg cp thal://HOST:PORT/big.tar -           out, to a pipe\n\
    thalweg cp -r tree thal://HOST:PORT/            a tree, into a directory (the slash at the end)\n\
    thalweg cp --source memory:1Gi --sink null ...  control runs: without reading, without writing"
)]
pub(crate) struct Arguments {
    /// Each is a local path, thal://HOST:PORT/path (thal:/path with --store), or - for a pipe. TO with a / at the end is a directory to
    /// copy into. --source replaces FROM, --sink replaces TO
    #[arg(value_name = "FROM TO", num_args = 0..=2, required = true)]
    operands: Vec<String>,

    /// Copy directories and everything in them
    #[arg(short, long)]
    recursive: bool,
    /// With -r: number of batches of files copied concurrently (default: 4)
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = numbers::parse_count, requires = "recursive")]
    workers: Option<u32>,
    /// With -r: copy what symbolic links point to
    #[arg(long, requires = "recursive")]
    follow: bool,
    /// With -r: keep owners, all mode bits and times
    #[arg(short, long, requires = "recursive")]
    preserve: bool,
    /// With -r: also copy device nodes and, with --preserve, set-user-ID and set-group-ID bits (default: leave them out, and count them)
    #[arg(long, requires = "recursive")]
    privileges: bool,
    /// Replace the target if it already exists
    #[arg(short, long)]
    force: bool,
    /// Return only when the copy is durable at every target and at the metadata service
    #[arg(long)]
    sync: bool,
    /// How to copy holes
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    sparse: Holes,
    /// Out of a store: leave out bytes that are damaged at rest, as holes; list them, and exit with 1
    #[arg(long)]
    skip_damaged: bool,
    /// Tune the flow during the copy, and list the steps; parameters given as flags are not changed
    #[arg(long)]
    tune: bool,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    recording: RecordingFlags,
    #[command(flatten)]
    flow: FlowFlags,
    #[command(flatten)]
    layout: LayoutFlags,
    #[command(flatten)]
    lot: LotFlag,
    #[command(flatten)]
    store: StoreFlags,
}

/// Flags for the flow. The defaults need no tuning.
#[derive(clap::Args)]
#[command(next_help_heading = "Flow")]
struct FlowFlags {
    /// Size of a request
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, value_parser = numbers::parse_positive_size)]
    request: Option<u64>,
    /// Requests in flight; with 1, each request is read, written and answered before the next is read
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = numbers::parse_count)]
    requests: Option<u32>,
    /// Size of a flow buffer, the unit of transfer on the wire
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, value_parser = numbers::parse_positive_size)]
    buffer: Option<u64>,
    /// Flow buffers in flight on each connection
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = numbers::parse_count)]
    depth: Option<u32>,
    /// Connections to each server
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = numbers::parse_count)]
    streams: Option<u32>,
    /// Size of socket buffers (default: the system chooses)
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, value_parser = numbers::parse_positive_size)]
    socket_buffer: Option<u64>,
    /// The thread that moves the bytes
    #[arg(long, value_enum, default_value = "automatic", value_name = "PATH")]
    data_path: PathOfData,
    /// For control runs: read from memory instead of FROM
    #[arg(long, value_name = "memory:SIZE", allow_hyphen_values = true, value_parser = memory)]
    source: Option<u64>,
    /// Emulate a disk of this rate under FROM, a local file (for a store, use `thalweg up --emulate`)
    #[arg(long, value_name = "source=RATE", value_parser = emulate::parse_source, conflicts_with = "recursive")]
    emulate: Option<u64>,
    /// For control runs: write nothing instead of TO
    #[arg(long, value_name = "null", value_parser = ["null"])]
    sink: Option<String>,
}

/// The thread that moves a request's bytes, as the flag names it.
#[derive(Clone, Copy, clap::ValueEnum)]
enum PathOfData {
    /// `direct` where possible, unless --request or --requests is given
    Automatic,
    /// The request's thread reads the request into memory, sends it, and waits for the answers
    Buffered,
    /// Each connection's thread fetches or stores its own flow buffers
    Direct,
}

/// How holes are copied, as the flag names it.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Holes {
    /// Keep the holes of FROM
    Auto,
    /// Also turn blocks of zeros into holes
    Always,
    /// Write all bytes, including zeros
    Never,
}

impl Holes {
    fn of_copy(self) -> Sparse {
        match self {
            Holes::Auto => Sparse::Auto,
            Holes::Always => Sparse::Always,
            Holes::Never => Sparse::Never,
        }
    }
}

/// Parses `memory:SIZE`.
fn memory(text: &str) -> Result<u64, String> {
    let size_text = text.strip_prefix("memory:").ok_or("expected memory:SIZE, like memory:1Gi")?;
    numbers::parse_size(size_text)
}

/// The source, before anything is connected.
#[derive(Clone, Debug)]
enum From {
    Memory(u64),
    At(Operand),
}

/// The destination, before anything is connected.
#[derive(Clone, Debug)]
enum To {
    Null,
    At(Operand),
}

/// Runs the copy.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let interrupt = Interrupt::listen()?;
    let (from, to) = arguments.ends()?;
    let copying = Copying { arguments, interrupt, sessions: Sessions::new(&arguments.store) };
    if arguments.recursive { copying.tree(&from, &to) } else { copying.one(from, to) }
}

impl Arguments {
    fn ends(&self) -> Result<(From, To), Failure> {
        let mut operands = self.operands.iter();
        let mut next = |which: &str| {
            let text = operands.next().ok_or_else(|| Failure::usage(format!("{which} is missing: expected thalweg cp FROM TO")))?;
            self.store.operand(text)
        };
        let from = match self.flow.source {
            Some(bytes) => From::Memory(bytes),
            None => From::At(next("FROM")?),
        };
        let to = match self.flow.sink {
            Some(_) => To::Null,
            None => To::At(next("TO")?),
        };
        if let Some(extra) = operands.next() {
            return Err(Failure::usage(format!("{extra}: too many operands: --source replaces FROM, and --sink replaces TO")));
        }
        if !matches!(from, From::At(Operand::Store(_))) && !matches!(to, To::At(Operand::Store(_))) {
            return Err(Failure::usage("neither FROM nor TO is in a store: expected thal://HOST:PORT/path for one of them"));
        }
        if self.lot.lot.is_some() && !matches!(to, To::At(Operand::Store(_))) {
            return Err(Failure::usage("--lot: TO is not in a store, and only stores have lots"));
        }
        if self.json && matches!(to, To::At(Operand::Pipe)) {
            return Err(Failure::usage("--json and TO - would both write to standard output"));
        }
        Ok((from, to))
    }

    /// Returns the parameters given as flags: a tuner does not change them.
    fn given(&self) -> BTreeSet<String> {
        let flow = &self.flow;
        let given = [
            ("requests", flow.requests.is_some()),
            ("depth", flow.depth.is_some()),
            ("streams", flow.streams.is_some()),
            ("buffer", flow.buffer.is_some()),
            ("workers", self.workers.is_some()),
        ];
        given.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name.to_owned()).collect()
    }

    fn tuning(&self) -> Tuning {
        let flow = &self.flow;
        Tuning {
            request_bytes: flow.request,
            requests: flow.requests,
            buffer_bytes: flow.buffer,
            depth: flow.depth,
            streams: flow.streams,
            socket_buffer_bytes: flow.socket_buffer.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
            data_path: match flow.data_path {
                PathOfData::Automatic => DataPath::Automatic,
                PathOfData::Buffered => DataPath::Buffered,
                PathOfData::Direct => DataPath::Direct,
            },
        }
    }
}

/// The state of one `cp` command.
struct Copying<'a> {
    arguments: &'a Arguments,
    interrupt: Interrupt,
    sessions: Sessions<'a>,
}

impl Copying<'_> {
    /// Copies one file.
    fn one(&self, from: From, to: To) -> Result<(), Failure> {
        let to = self.named(&from, to)?;
        let flags = self.arguments;
        let mut job = self.job(&from, &to)?;
        // An explanation without --record is made from a temporary recording.
        let temporary = match (&flags.recording.record, flags.recording.explain) {
            (None, true) => Some(Temporary::new()?),
            _ => None,
        };
        let path = flags.recording.record.clone().or_else(|| temporary.as_ref().map(|t| t.recording("copy.thw")));
        let keep_command = flags.recording.keep_command;
        job.recording = path.map(|path| Recording { path, command: command(), node: flags.store.node(), keep_command });
        let piped = matches!(to, To::At(Operand::Pipe));
        let tuned = flags.tune.then(|| self.tuned(&job)).flatten();
        let copied = {
            let progress = Progress::new(&shown_from(&from), None, flags.quiet || flags.json);
            self.copy(&job, &progress)
        };
        let tuning = tuned.map(Tuned::end);
        let outcome = copied.inspect_err(|_| {
            let shown = tuning.iter().filter(|_| !flags.quiet && !flags.json);
            shown.for_each(|report| output::note(&report.text()));
        })?;
        let seconds = outcome.elapsed.as_secs_f64();
        if outcome.source_modified {
            output::note(&format!("{}: was modified during the copy, which may mix old and new bytes", shown_from(&from)));
        }
        let explanation = match (&outcome.recording, flags.recording.explain) {
            (Some(path), true) => Some(explained::explained(path)?.1),
            _ => None,
        };
        if let (true, Some(explanation)) = (flags.json, &explanation) {
            return explained::print(explanation, Form::Json);
        }
        if flags.json {
            let emulated = self.emulated();
            output::json(&document((&shown_from(&from), &shown_to(&to)), &outcome, emulated, tuning))?;
            return left_out(&shown_from(&from), &outcome);
        }
        if !flags.quiet {
            let rate = numbers::byte_rate((outcome.size_bytes - outcome.hole_bytes) as f64 / seconds);
            output::note(&format!("{}: {} in {}, {rate}", shown_to(&to), numbers::size(outcome.size_bytes), numbers::duration(seconds)));
            self.emulated().iter().for_each(|emulated| output::note(&format!("emulated, not this machine's own: {emulated}")));
            tuning.iter().for_each(|report| output::note(&report.text()));
        }
        let more = flags.recording.more();
        let form = Form::Short { more: &more };
        match explanation {
            // Standard output has the file's data.
            Some(explanation) if piped => explained::note(&explanation, form),
            Some(explanation) => explained::print(&explanation, form)?,
            None => {}
        }
        left_out(&shown_from(&from), &outcome)
    }

    /// Returns the emulated devices of the store and the source.
    fn emulated(&self) -> Option<String> {
        let sessions = self.sessions.all();
        emulation::of_copy(sessions.iter().map(|session| &**session), self.arguments.flow.emulate)
    }

    /// Starts a tuner for a copy; between two stores it is keyed by the one written to.
    fn tuned(&self, job: &CopyJob) -> Option<Tuned> {
        let (store, way) = match (&job.source, &job.sink) {
            (_, Sink::Store(store, ..)) => (store, "in"),
            (Source::Store(store, _), _) => (store, "out"),
            _ => return None,
        };
        let controller: Arc<dyn Controller> = Arc::clone(&job.control) as Arc<dyn Controller>;
        Some(tuning::begin(controller, self.arguments.given(), &store.data, way))
    }

    /// Starts a tuner for a tree's copy, likewise.
    fn tuned_tree(&self, job: &TreeJob) -> Option<Tuned> {
        let (store, way) = match (&job.from, &job.to) {
            (_, TreeEnd::Store(store, _)) => (store, "in a tree"),
            (TreeEnd::Store(store, _), _) => (store, "out a tree"),
            _ => return None,
        };
        let controller: Arc<dyn Controller> = Arc::clone(&job.control) as Arc<dyn Controller>;
        Some(tuning::begin(controller, self.arguments.given(), &store.data, way))
    }

    /// Appends the source's name to a target that ends with `/`.
    fn named(&self, from: &From, to: To) -> Result<To, Failure> {
        let name = match from {
            From::At(Operand::Local(path)) => path.file_name().map(OsStr::to_os_string),
            From::At(Operand::Store(path)) => {
                path.path.trim_end_matches('/').rsplit('/').next().filter(|n| !n.is_empty()).map(OsString::from)
            }
            From::At(Operand::Pipe) | From::Memory(_) => None,
        };
        let into = |shown: &str| name.clone().ok_or_else(|| Failure::usage(format!("{shown}: the source has no name: name the copy")));
        match to {
            To::At(Operand::Store(path)) if path.path.ends_with('/') => {
                let name = utf8(&into(&path.path)?)?.to_owned();
                Ok(To::At(Operand::Store(StorePath { path: format!("{}{name}", path.path), ..path })))
            }
            To::At(Operand::Local(path)) if path.as_os_str().to_string_lossy().ends_with('/') => {
                Ok(To::At(Operand::Local(path.join(into(&path.to_string_lossy())?))))
            }
            to => Ok(to),
        }
    }

    fn job(&self, from: &From, to: &To) -> Result<CopyJob, Failure> {
        let source = match from {
            From::Memory(bytes) => Source::Memory(*bytes),
            From::At(Operand::Pipe) => Source::Stdin,
            From::At(Operand::Local(path)) => Source::Local(path.clone()),
            From::At(Operand::Store(path)) => Source::Store(self.sessions.of(&path.store)?.store(), path.path.clone()),
        };
        let sink = match to {
            To::Null => Sink::Null,
            To::At(Operand::Pipe) => Sink::Stdout,
            To::At(Operand::Local(path)) => Sink::Local(path.clone()),
            To::At(Operand::Store(path)) => {
                let session = self.sessions.of(&path.store)?;
                let layout = self.arguments.lot.choose(&session, self.arguments.layout.choice()?)?;
                Sink::Store(session.store(), path.path.clone(), layout)
            }
        };
        let mut job = CopyJob::new(source, sink);
        job.tuning = self.arguments.tuning();
        job.sync = self.arguments.sync;
        job.force = self.arguments.force;
        job.sparse = self.arguments.sparse.of_copy();
        job.skip_damaged = self.arguments.skip_damaged;
        if job.skip_damaged && !matches!(job.source, Source::Store(..)) {
            return Err(Failure::usage(NO_CHECKSUMS));
        }
        job.emulated_source = self.arguments.flow.emulate;
        if job.emulated_source.is_some() && !matches!(job.source, Source::Local(_)) {
            return Err(Failure::usage("--emulate: FROM is not a local file; a store's devices are emulated by `thalweg up --emulate`"));
        }
        Ok(job)
    }

    fn copy(&self, job: &CopyJob, progress: &Progress) -> Result<CopyOutcome, Failure> {
        let watch = Watch { progress, interrupt: &self.interrupt, seen_bytes: Cell::new(0), seen_size: Cell::new(0) };
        copy::run(job, &watch).map_err(|e| match e.kind() {
            ErrorKind::Cancelled => Failure::Interrupted("interrupted: nothing was copied".to_owned()),
            // The reader of standard output closed the pipe.
            ErrorKind::Reset if matches!(job.sink, Sink::Stdout) && e.server().is_none() => Failure::NobodyReads,
            ErrorKind::Exists | ErrorKind::IsDirectory if is_directory(&job.sink) => {
                Failure::failed(format!("{}: is a directory: append / to copy into it", e.file().unwrap_or("the target")))
            }
            _ => Failure::failed(e),
        })
    }

    /// Copies a tree.
    fn tree(&self, from: &From, to: &To) -> Result<(), Failure> {
        let flags = self.arguments;
        let (From::At(from), To::At(to)) = (from, self.named(from, to.clone())?) else {
            return Err(Failure::usage("-r copies directories: expected FROM and TO, without --source and --sink"));
        };
        let is_directory = match from {
            Operand::Pipe => return Err(Failure::usage("-r copies directories: FROM cannot be a pipe")),
            Operand::Local(root) => root.is_dir(),
            Operand::Store(root) => self.sessions.of(&root.store)?.stat(&root.path)?.kind == FileKind::Directory,
        };
        if !is_directory {
            return self.one(From::At(from.clone()), To::At(to));
        }
        if flags.skip_damaged && !matches!(from, Operand::Store(_)) {
            return Err(Failure::usage(NO_CHECKSUMS));
        }
        let mut sessions = Vec::new();
        let job = TreeJob {
            from: self.tree_end(from, &mut sessions)?,
            to: self.tree_end(&to, &mut sessions)?,
            layout: match &to {
                Operand::Store(path) => flags.lot.choose(&*self.sessions.of(&path.store)?, flags.layout.choice()?)?,
                _ => flags.layout.choice()?,
            },
            workers: flags.workers.unwrap_or(WORKERS),
            tuning: flags.tuning(),
            sync: flags.sync,
            force: flags.force,
            preserve: flags.preserve,
            privileges: flags.privileges,
            sparse: flags.sparse.of_copy(),
            follow: flags.follow,
            skip_damaged: flags.skip_damaged,
            control: Arc::default(),
        };
        if let (Operand::Store(from), Operand::Store(to)) = (from, &to)
            && from.store == to.store
            && format!("{}/", to.path.trim_end_matches('/')).starts_with(&format!("{}/", from.path.trim_end_matches('/')))
        {
            return Err(Failure::failed(format!("{to}: is inside the tree to copy")));
        }
        let (from, to) = (shown(from), shown(&to));
        let copy = TreeCopy { from: &from, to: &to, quiet: flags.quiet, json: flags.json, interrupt: &self.interrupt };
        let recording = &flags.recording;
        let done = recording.around(&flags.store, &sessions, flags.json, |trace| {
            let tuned = flags.tune.then(|| self.tuned_tree(&job)).flatten();
            let done = copy.run(&job, trace).map(|(outcome, seconds)| (outcome, seconds, tuned.map(Tuned::end)));
            let attributes = done.as_ref().map_or_else(|_| Vec::new(), |(outcome, ..)| tree_attributes(&job, (&from, &to), outcome));
            (done, attributes)
        })?;
        if recording.replaces_result(flags.json) { Ok(()) } else { copy.report(done, recording.record.as_ref()) }
    }

    fn tree_end(&self, operand: &Operand, sessions: &mut Vec<Arc<Session>>) -> Result<TreeEnd, Failure> {
        Ok(match operand {
            Operand::Pipe => return Err(Failure::usage("-r copies directories: TO cannot be a pipe")),
            Operand::Local(path) => TreeEnd::Local(path.clone()),
            Operand::Store(path) => {
                let session = self.sessions.of(&path.store)?;
                let store = session.tree_store();
                if !sessions.iter().any(|known| Arc::ptr_eq(known, &session)) {
                    sessions.push(session);
                }
                TreeEnd::Store(store, path.path.clone().into_bytes())
            }
        })
    }
}

/// Returns the attributes of a tree's copy, for its recording.
fn tree_attributes(job: &TreeJob, (from, to): (&str, &str), outcome: &TreeOutcome) -> Vec<(String, String)> {
    let direction = match (&job.from, &job.to) {
        (TreeEnd::Store(..), TreeEnd::Store(..)) => "between",
        (TreeEnd::Store(..), _) => "out",
        _ => "in",
    };
    let pairs = [
        ("from", from.to_owned()),
        ("to", to.to_owned()),
        ("direction", direction.to_owned()),
        ("size_bytes", outcome.size_bytes.to_string()),
        ("files", outcome.files.to_string()),
        ("workers", job.workers.to_string()),
        ("sync", job.sync.to_string()),
    ];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Whether the target is a directory, for which `--force` does not help.
fn is_directory(sink: &Sink) -> bool {
    match sink {
        Sink::Store(store, path, _) => {
            store.names.stat(&mut thalweg_trace::Tracer::off(), path).is_ok_and(|a| a.kind == FileKind::Directory)
        }
        Sink::Local(path) => path.is_dir(),
        Sink::Null | Sink::Stdout => false,
    }
}

/// Reports a copy's progress, and whether to stop it.
struct Watch<'a> {
    progress: &'a Progress,
    interrupt: &'a Interrupt,
    seen_bytes: Cell<u64>,
    seen_size: Cell<u64>,
}

impl CopyObserver for Watch<'_> {
    fn progress(&self, moved_bytes: u64, size_bytes: Option<u64>) {
        if let Some(size) = size_bytes.filter(|size| *size != self.seen_size.get()) {
            self.seen_size.set(size);
            self.progress.expect(size);
        }
        let seen = self.seen_bytes.replace(moved_bytes);
        self.progress.advance(moved_bytes.saturating_sub(seen));
    }

    fn left_alone(&self, path: &Path) {
        output::note(&format!("thalweg cp: {}: exists, but no copy is known to have made it, so it was left alone", path.display()));
    }

    fn cancelled(&self) -> bool {
        self.interrupt.is_raised()
    }
}

fn utf8(name: &OsStr) -> Result<&str, Failure> {
    name.to_str().ok_or_else(|| Failure::failed(format!("{}: the name is not UTF-8", Path::new(name).display())))
}

/// Default number of concurrent batches of a tree.
const WORKERS: u32 = 4;

fn shown(operand: &Operand) -> String {
    match operand {
        Operand::Pipe => "-".to_owned(),
        Operand::Local(path) => path.display().to_string(),
        Operand::Store(path) => path.path.clone(),
    }
}

fn shown_from(from: &From) -> String {
    match from {
        From::Memory(_) => "memory".to_owned(),
        From::At(operand) => shown(operand),
    }
}

fn shown_to(to: &To) -> String {
    match to {
        To::Null => "null".to_owned(),
        To::At(operand) => shown(operand),
    }
}

/// Returns the command line, for the recording.
fn command() -> Vec<String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect()
}

const NO_CHECKSUMS: &str = "--skip-damaged: FROM is not in a store; other sources have no checksums";

/// Fails if damaged bytes were left out, and lists them.
fn left_out(from: &str, outcome: &CopyOutcome) -> Result<(), Failure> {
    if outcome.damaged.is_empty() { Ok(()) } else { Err(Failure::failed(tree::damaged(from, &outcome.damaged))) }
}
