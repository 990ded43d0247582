//! `thalweg profile`: shows where the CPU time of whole machines went, by class of code and by stack.
//!
//! `profile RECORDING...` shows recordings, a column for each machine; `profile -- COMMAND`, `profile --port P --for 30s` and
//! `profile --for 10s` record first. With a command, standard output is the command's: the table goes to standard error, as with
//! `explain -- COMMAND`. `-o FILE.html` writes a page with pictures; any other name keeps the recording.

use super::report::write_whole;
use crate::failure::Failure;
use crate::output;
use crate::recordings::memory;
use crate::recordings::record_flags::{UserStacksFlag, stack_size};
use crate::recordings::symbols::Symbolised;
use crate::recordings::temporary::Temporary;
use crate::terminal::exit;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thalweg_base::numbers;
use thalweg_explain::profile::document::HostProfile;
use thalweg_explain::profile::{HostStacks, Profiled, Rules, profile, profile_with_stacks};
use thalweg_record::{Exit, Options};
use thalweg_report::{MAX_COLUMNS, ProfileColumn, TextOptions};
use thalweg_trace::{Recording, Source};

/// Arguments of `thalweg profile`.
#[derive(clap::Args)]
#[command(override_usage = "thalweg profile [OPTIONS] RECORDING...\n       thalweg profile [OPTIONS] -- COMMAND [ARGUMENTS]...\n       \
thalweg profile [OPTIONS] --port PORT --for TIME\n       thalweg profile [OPTIONS] --for TIME")]
#[command(
    after_help = "Sampling everything needs root, or CAP_BPF and CAP_PERFMON. Without them, the code of your own programs is sampled (where \
    kernel.perf_event_paranoid is 2 or less), and the rest comes from the counters in /proc: each processor's time in programs, in the kernel, in \
    interrupts and idle, and each program's time. Where nothing may be sampled, options that need stacks do not work. With a command, it exits as the command did, and the table goes to standard error. docs/PROFILE.md describes the classes and the limits of sampling."
)]
pub(crate) struct Arguments {
    /// Recordings with a profile (directories NAME.thw); each becomes a column
    #[arg(value_name = "RECORDING", conflicts_with_all = ["command", "also", "port", "duration"])]
    recordings: Vec<PathBuf>,
    /// Print the profile as JSON (thalweg.profile/1); a list if there are several recordings
    #[arg(long)]
    json: bool,
    /// Write a page with pictures (FILE.html), or keep the new recording (any other name). May be repeated
    #[arg(short, long, value_name = "FILE.html|NAME.thw")]
    output: Vec<PathBuf>,
    /// Further rules that map functions to classes, applied before the built-in ones (docs/PROFILE.md)
    #[arg(long, value_name = "FILE")]
    classes: Option<PathBuf>,
    /// Look for symbol files here, by build ID or name. May be repeated
    #[arg(long, value_name = "DIR")]
    symbols: Vec<PathBuf>,
    /// Also profile this process, by PID, name or listening port (`:2049`). May be repeated
    #[arg(long, value_name = "PID|NAME|:PORT", help_heading = "Making a profile")]
    also: Vec<String>,
    /// Profile the server that listens on this port. May be repeated
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..), conflicts_with_all = ["command", "also"], help_heading = "Making a profile")]
    port: Vec<u16>,
    /// Count these events, by perf's names, at most 6, like `cycles,instructions,page-faults` (default: cycles, instructions,
    /// dTLB-load-misses and cache-misses, where the processor supports them)
    #[arg(long, value_name = "EVENT", value_delimiter = ',', help_heading = "Making a profile", conflicts_with = "recordings")]
    events: Vec<String>,
    /// Do not replace words of the command that look like secrets (passwords, tokens, keys) with `[secret]`
    #[arg(long, help_heading = "Making a profile", conflicts_with = "recordings")]
    keep_command: bool,
    /// How long to profile, like 30s or 5m; without a command or --port, everything that runs is profiled
    #[arg(long = "for", value_name = "TIME", value_parser = numbers::parse_duration, help_heading = "Making a profile")]
    duration: Option<Duration>,
    /// How to unwind user stacks
    #[arg(long, value_enum, default_value_t = UserStacksFlag::Fp, conflicts_with = "recordings", help_heading = "Making a profile")]
    user_stacks: UserStacksFlag,
    /// With --user-stacks dwarf: bytes copied from each stack, at most 64Ki
    #[arg(long, value_name = "SIZE", default_value = "16Ki", value_parser = stack_size, requires = "user_stacks")]
    #[arg(conflicts_with = "recordings", help_heading = "Making a profile")]
    stack_bytes: u32,
    /// The command to run and profile, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Arguments {
    /// Returns the paths of pages, and of recordings to keep.
    fn outputs(&self) -> (Vec<&Path>, Vec<&Path>) {
        let is_page = |path: &&Path| path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("html"));
        self.output.iter().map(PathBuf::as_path).partition(is_page)
    }

    /// Returns the first option given that needs stack samples.
    fn needs_samples(&self) -> Option<String> {
        let page = self.outputs().0.first().map(|page| format!("-o {}: a page's flame graph", page.display()));
        let given = |is_given: bool, name: &str| is_given.then(|| name.to_owned());
        page.or_else(|| given(self.classes.is_some(), "--classes"))
            .or_else(|| given(!self.symbols.is_empty(), "--symbols"))
            .or_else(|| given(!self.events.is_empty(), "--events"))
    }
}

/// Shows a profile; records one first if no recording is given.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    // Errors in the rules are reported before a command runs.
    let rules = rules(arguments.classes.as_deref())?;
    let (_, kept) = arguments.outputs();
    if !arguments.recordings.is_empty() {
        if let Some(name) = kept.first() {
            let name = name.display();
            return Err(Failure::usage(format!("-o {name}: this recording already exists; -o FILE.html writes a page with pictures")));
        }
        return show(arguments, &rules, &arguments.recordings, false).map(drop);
    }
    if arguments.command.is_empty() && arguments.port.is_empty() && arguments.also.is_empty() && arguments.duration.is_none() {
        return Err(Failure::usage("expected recordings, a command after --, --port PORT or --for TIME"));
    }
    match kept.as_slice() {
        [_, more, ..] => Err(Failure::usage(format!("-o {}: only one recording is made, so give only one name", more.display()))),
        kept => make(arguments, &rules, kept.first().copied()),
    }
}

/// Records a profile and shows it; exits as the command did.
fn make(arguments: &Arguments, rules: &Rules, kept: Option<&Path>) -> Result<(), Failure> {
    let temporary = Temporary::new()?;
    let path = kept.map_or_else(|| temporary.recording("profile.thw"), Path::to_owned);
    let (command, also, ports) = (arguments.command.clone(), arguments.also.clone(), arguments.port.clone());
    let options = Options {
        // With a command nothing is printed before its own output.
        begun: command.is_empty().then_some(|| output::note("thalweg profile: recording; Ctrl-C ends it")),
        user_stacks: arguments.user_stacks.with(arguments.stack_bytes),
        samples_for: arguments.needs_samples(),
        events: arguments.events.clone(),
        keep_command: arguments.keep_command,
        ..Options::profile(command, also, ports, arguments.duration, path)
    };
    let outcome = thalweg_record::run(&options)?;
    temporary.guard();
    let shown = show(arguments, rules, std::slice::from_ref(&outcome.path), !arguments.command.is_empty());
    drop(temporary);
    // Most notes are part of the printed profile.
    let said = shown.as_ref().map_or(&[][..], Vec::as_slice);
    outcome.notes.iter().filter(|note| !said.contains(note)).for_each(|note| output::note(&format!("thalweg profile: {note}")));
    match (outcome.exit, shown.map(drop)) {
        (None | Some(Exit::Code(0)), shown) => shown,
        (Some(exit), shown) => {
            // The command's exit status takes precedence over a failure to show the profile.
            if let Err(failure) = shown {
                exit::report(&failure, "profile");
            }
            Err(Failure::Ended(exit))
        }
    }
}

/// Shows recordings; `after_command`: standard output was the command's. Returns the notes printed with them.
fn show(arguments: &Arguments, rules: &Rules, paths: &[PathBuf], after_command: bool) -> Result<Vec<String>, Failure> {
    let (pages, _) = arguments.outputs();
    let one = |path: &PathBuf| Shown::of(path, rules, &arguments.symbols, !pages.is_empty());
    let shown: Vec<Shown> = paths.iter().map(one).collect::<Result<_, _>>()?;
    let is_without = |host: &HostProfile| host.counted.as_ref().is_some_and(|counted| counted.own.is_none());
    let without = shown.iter().find(|shown| shown.profiled.document.hosts.iter().any(is_without));
    if let (Some(what), Some(without)) = (arguments.needs_samples(), without) {
        return Err(Failure::failed(format!("{what} needs samples of stacks; {} has none: it was made from /proc", without.name)));
    }
    let mut notes: Vec<String> = Vec::new();
    for note in shown.iter().flat_map(|shown| &shown.profiled.document.notes) {
        if !notes.contains(note) {
            notes.push(note.clone());
        }
    }
    if arguments.json {
        let documents: Vec<String> = shown.iter().map(|shown| shown.profiled.document.to_json()).collect();
        output::line(&match documents.as_slice() {
            [document] => document.clone(),
            several => format!("[\n{}\n]", several.join(",\n")),
        })?;
        return Ok(notes);
    }
    let columns = columns(&shown)?;
    let stacks: Vec<&HostStacks> = shown.iter().flat_map(|shown| &shown.profiled.stacks).collect();
    for page in &pages {
        write_whole(page, thalweg_report::profile_page(&columns, &stacks, &notes))?;
    }
    match after_command {
        true => output::note(thalweg_report::profile(&columns, &notes, &TextOptions::for_stderr()).trim_end()),
        false => output::result(&thalweg_report::profile(&columns, &notes, &TextOptions::for_stdout()))?,
    }
    Ok(notes)
}

/// Returns the built-in rules, preceded by those of a file.
fn rules(file: Option<&Path>) -> Result<Rules, Failure> {
    let Some(file) = file else { return Ok(Rules::default()) };
    let text = std::fs::read_to_string(file).map_err(|e| Failure::failed(format!("{}: {e}", file.display())))?;
    Rules::parse(&text).map_err(|e| Failure::failed(format!("{}: {e}", file.display())))
}

/// A recording to show.
struct Shown {
    /// Its title above its columns.
    name: String,
    profiled: Profiled,
}

impl Shown {
    fn of(path: &Path, rules: &Rules, symbols: &[PathBuf], with_stacks: bool) -> Result<Shown, Failure> {
        memory::keep_freed();
        let recording = Recording::open(path).map_err(Failure::failed)?;
        let made = |source: &dyn Source| {
            let made = match with_stacks {
                true => profile_with_stacks(source, rules),
                false => profile(source, rules).map(|document| Profiled { document, stacks: Vec::new() }),
            };
            made.map_err(|e| Failure::failed(format!("{}: {e}", path.display())))
        };
        let profiled = match symbols {
            [] => made(&recording)?,
            dirs => {
                let symbolised = Symbolised::new(recording, dirs).map_err(Failure::failed)?;
                let mut profiled = made(&symbolised)?;
                profiled.document.notes.extend(symbolised.missing());
                profiled
            }
        };
        let name = path.file_stem().map_or_else(|| path.display().to_string(), |stem| stem.to_string_lossy().into_owned());
        Ok(Shown { name, profiled })
    }
}

/// Returns a column for each machine, named for its recording, for its host if there is one recording, or for both if neither is unique.
fn columns(shown: &[Shown]) -> Result<Vec<ProfileColumn<'_>>, Failure> {
    let mut columns = Vec::new();
    for one in shown {
        let hosts = &one.profiled.document.hosts;
        for host in hosts {
            let name = match (shown.len(), hosts.len()) {
                (1, _) => host.name.clone(),
                (_, 1) => one.name.clone(),
                _ => format!("{} {}", one.name, host.name),
            };
            columns.push(ProfileColumn { name, profile: host });
        }
    }
    match columns.len() {
        n if n > MAX_COLUMNS => {
            Err(Failure::usage(format!("{n} columns do not fit: give recordings of at most {MAX_COLUMNS} machines, or --json")))
        }
        _ => Ok(columns),
    }
}
