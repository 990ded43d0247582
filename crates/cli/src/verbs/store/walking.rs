//! Walks a store's directories for a verb: flags, walkers, errors and counters.
//!
//! Whatever is known is printed. Unknown sizes are counted here, reported at the end (once for each server that did not answer, not for
//! each file), and make the exit code 1.

use crate::operand::{BytePath, StoreFlags};
use crate::recordings::around::{Attributes, RecordingFlags, command_line};
use crate::session::{Session, Sessions};
use crate::{failure::Failure, names, output};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;
use thalweg_base::numbers;
use thalweg_client::walk::{Detail, WalkCounters, WalkMode, WalkOptions, Walker};
use thalweg_trace::{Knob, PLACE, TraceHandle};
use thalweg_wire::Error;

/// Flags for walking directories. The defaults need no tuning.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Walking")]
pub(super) struct WalkFlags {
    /// What to prefetch
    #[arg(long, value_name = "MODE", value_enum, default_value = "metadata")]
    mode: ModeFlag,
    /// Number of entries to prefetch (default: 8, doubled whenever all were used, up to 4096)
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = numbers::parse_count)]
    window: Option<u32>,
    /// Print the cost on standard error: requests, round trips, prefetch hits and misses, time per entry
    #[arg(long)]
    counters: bool,
    #[command(flatten)]
    pub recording: RecordingFlags,
}

/// Prefetching mechanisms, as the flag names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum ModeFlag {
    /// Prefetch nothing: ask for one file at a time
    #[value(name = "none")]
    Synchronous,
    /// Prefetch attributes, together with the names
    Statahead,
    /// Prefetch attributes and sizes, the sizes of many files in one message
    GlimpseAhead,
    /// Prefetch attributes and sizes, but ask I/O servers only for sizes that the metadata service does not know for certain
    Metadata,
}

impl ModeFlag {
    fn mode(self) -> WalkMode {
        match self {
            ModeFlag::Synchronous => WalkMode::Synchronous,
            ModeFlag::Statahead => WalkMode::Statahead,
            ModeFlag::GlimpseAhead => WalkMode::GlimpseAhead,
            ModeFlag::Metadata => WalkMode::SizesFromMetadata,
        }
    }
}

/// A store and its walker.
pub(super) struct Walking {
    /// The session with the store.
    pub session: Arc<Session>,
    /// Its walker.
    pub walker: Walker,
}

/// The operands of a verb that walks, in their stores.
pub(super) struct Operands {
    /// Each with its store's index in `walking`.
    pub paths: Vec<(BytePath, usize)>,
    /// The stores, each once.
    pub walking: Vec<Walking>,
}

impl WalkFlags {
    /// Returns the options of a walk with this detail.
    pub(super) fn options(&self, detail: Detail, most: WalkMode, stores: &StoreFlags) -> WalkOptions {
        let mut options = WalkOptions { mode: self.mode.mode().min(most), detail, timeout: Some(stores.timeout), ..WalkOptions::default() };
        if let Some(window) = self.window {
            (options.window_start, options.window_most) = (window, window);
        }
        options
    }

    /// Connects to the stores of these paths.
    pub(super) fn operands(&self, given: &[std::ffi::OsString], stores: &StoreFlags, options: &WalkOptions) -> Result<Operands, Failure> {
        let root = [std::ffi::OsString::from("/")];
        let given = if given.is_empty() { &root } else { given };
        let sessions = Sessions::new(stores);
        let mut operands = Operands { paths: Vec::new(), walking: Vec::new() };
        let mut known = Vec::new();
        // All are parsed before any is connected to: an invalid command line does nothing.
        let paths = given.iter().map(|path| stores.byte_path(path)).collect::<Result<Vec<_>, _>>()?;
        for path in paths {
            let at = match known.iter().position(|store| *store == path.store) {
                Some(at) => at,
                None => {
                    let session = sessions.of(&path.store)?;
                    operands.walking.push(Walking { walker: session.walker(options.clone()), session });
                    known.push(path.store.clone());
                    known.len() - 1
                }
            };
            operands.paths.push((path, at));
        }
        Ok(operands)
    }

    /// Runs `work`, recorded if asked to, and reports its errors and counters at the end.
    pub(super) fn around(
        &self,
        verb: &'static str,
        stores: &StoreFlags,
        operands: &Operands,
        json: bool,
        work: impl FnOnce(&TraceHandle, &mut Troubles) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let sessions: Vec<Arc<Session>> = operands.walking.iter().map(|walking| Arc::clone(&walking.session)).collect();
        self.recording.around(stores, &sessions, json, |trace| {
            let begun = Instant::now();
            let io_servers = sessions.iter().flat_map(|session| session.map().servers.clone()).map(|server| server.name).collect();
            let mut troubles = Troubles { io_servers, ..Troubles::new(verb) };
            let done = work(trace, &mut troubles);
            let counted: Vec<WalkCounters> = operands.walking.iter().map(|walking| walking.walker.counters()).collect();
            if self.counters {
                let seconds = begun.elapsed().as_secs_f64();
                counted.iter().for_each(|counters| output::note(&format!("thalweg {verb}: {}", counters_text(counters, seconds))));
            }
            let attributes = operands.walking.first().map_or_else(Vec::new, |first| attributes(first.walker.options(), &counted));
            (done.and_then(|()| troubles.end()), attributes)
        })
    }
}

/// Returns the walk's options and counters, for its recording.
fn attributes(options: &WalkOptions, counted: &[WalkCounters]) -> Attributes {
    let pairs = [
        ("walk.mode", options.mode.name().to_owned()),
        ("walk.window", options.window_most.to_string()),
        ("walk.entries", counted.iter().map(|c| c.entries).sum::<u64>().to_string()),
        ("walk.datafiles", counted.iter().map(|c| c.glimpsed).sum::<u64>().to_string()),
        ("walk.page_names", options.page_names.to_string()),
        ("walk.datafiles_per_request", options.datafiles_per_request.to_string()),
        ("walk.requests_per_server", options.requests_per_server.to_string()),
    ];
    let flags = [("--mode", WalkMode::GlimpseAhead.name()), ("--window", PLACE)];
    let command = command_line();
    let window = Knob::of_flags("window", options.window_most, &flags, &command, &["ls", "find", "du", "rm", "cp"]);
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).chain(window.attributes()).collect()
}

/// Formats a walk's counters in one line.
fn counters_text(counters: &WalkCounters, seconds: f64) -> String {
    let each = if counters.entries > 0 { numbers::duration(seconds / counters.entries as f64) } else { "-".to_owned() };
    format!(
        "{} entries in {}, {each} each; {} requests, {} sequential round trips; prefetching: {} hits, {} misses, {} wasted, window {}; \
         sizes: {} from the metadata service, {} datafiles glimpsed",
        counters.entries,
        numbers::duration(seconds),
        counters.requests,
        counters.round_trips,
        counters.hits,
        counters.misses,
        counters.wasted,
        counters.window,
        counters.from_metadata,
        counters.glimpsed,
    )
}

/// Collects and reports errors of a verb.
pub(super) struct Troubles {
    verb: &'static str,
    /// Names of the I/O servers; an error from any other name is from a metadata service.
    io_servers: Vec<String>,
    /// Number of unknown sizes, by error.
    sizes: BTreeMap<String, u64>,
    /// The first messages, for a document.
    pub said: Vec<String>,
    count: u64,
}

impl Troubles {
    /// Maximum number of different errors about sizes; further ones are counted with one of these.
    const KINDS: usize = 64;
    /// Maximum number of messages kept for a document.
    const KEPT: usize = 1000;

    /// Returns an empty collection.
    pub(super) fn new(verb: &'static str) -> Troubles {
        Troubles { verb, io_servers: Vec::new(), sizes: BTreeMap::new(), said: Vec::new(), count: 0 }
    }

    /// Reports an error for this path immediately.
    pub(super) fn of(&mut self, path: &[u8], error: &Error) {
        // A path relative to a directory id would show the id, which means nothing to the user: name the path instead.
        let text = format!("{}: {}", names::text(path), self.why(error));
        self.say(text);
    }

    /// Formats an error and its server, without the file.
    fn why(&self, error: &Error) -> String {
        match error.server() {
            Some(server) if self.io_servers.iter().any(|known| known == server) => format!("server {server}: {}", error.message()),
            Some(address) => format!("metadata service at {address}: {}", error.message()),
            None => error.message().to_owned(),
        }
    }

    /// Reports a message that names its path already.
    pub(super) fn say(&mut self, text: String) {
        self.count += 1;
        output::note(&format!("thalweg {}: {text}", self.verb));
        if self.said.len() < Troubles::KEPT {
            self.said.push(text);
        }
    }

    /// Reports a failure of one operand; returns failures that end the verb.
    pub(super) fn or_end(&mut self, failure: Failure) -> Result<(), Failure> {
        match failure {
            Failure::Failed(text) => {
                self.say(text);
                Ok(())
            }
            other => Err(other),
        }
    }

    /// Counts a file whose size is not known.
    pub(super) fn size(&mut self, error: &Error) {
        let why = self.why(error);
        if self.sizes.len() < Troubles::KINDS || self.sizes.contains_key(&why) {
            *self.sizes.entry(why).or_default() += 1;
        } else if let Some(count) = self.sizes.values_mut().next() {
            *count += 1;
        }
    }

    /// Reports the unknown sizes.
    pub(super) fn report_sizes(&mut self) {
        for (why, count) in std::mem::take(&mut self.sizes) {
            let files = if count == 1 { "the size of 1 file is".to_owned() } else { format!("the sizes of {count} files are") };
            self.say(format!("{why}; {files} not known"));
        }
    }

    /// Fails if any error was reported.
    pub(super) fn end(mut self) -> Result<(), Failure> {
        self.report_sizes();
        if self.count == 0 { Ok(()) } else { Err(Failure::Reported) }
    }
}
