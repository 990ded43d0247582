//! The entry point: runs a command, or watches running processes, and leaves a recording.
//!
//! The order: the recording is created first; if that fails, nothing is run. The command's process is created and
//! held before `execve`; recorders attach to it; the interval to explain begins; it is released. It is waited for
//! through its pidfd, and signals meant for it are forwarded. When its main process ends the recording ends, even if
//! processes it started are still running (a note says so).
//!
//! The command has priority. A recorder that cannot begin is replaced by the next that can, with a note; one that
//! fails later costs the recording, not the command; once the command is released, [`run`] returns how it ended,
//! whatever happens to the recording. A failure before that is an error, and nothing has run.
//!
//! Disk use is bounded: a recording takes at most [`Options::limit_bytes`] while it is made. Events beyond that, or
//! on a full disk, are counted as lost; rows that others refer to are kept in memory. Conversion to tables briefly
//! needs about as much space again; if that is not available, the recording stays unfinished, and can still be
//! opened.

mod active;
mod attributes;
mod busy;
mod full;
mod modules;
mod options;
mod scripts;
mod signals;

use crate::also::Others;
use crate::command::{Executable, Exit, Held};
use crate::mpi::MpiRecording;
use crate::{RecordError, Watched, WatchedProcess, also, mounted, quota};
use active::Active;
use busy::{InUse, Used};
pub use options::{Method, Options, Profile, UserStacks};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use scripts::Scripts;
use signals::Signals;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_base::machine;
use thalweg_trace::{Ending, Event, FORMAT_VERSION, Host, HostId, IdSpace, Meta, RecordingWriter, Role, Sink, Time, secrets};

/// Identifiers of records made by ranks.
const MPI_SPACE: IdSpace = IdSpace(9);

/// The outcome of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How the command ended; `None` if there was none.
    pub exit: Option<Exit>,
    /// The recording's path.
    pub path: PathBuf,
    /// The recorder that made it.
    pub recorder: &'static str,
    /// Whether it was converted to tables; if not, it can still be opened, and a note says why.
    pub finished: bool,
    /// Number of lost events.
    pub dropped_events: u64,
    /// Notes for the user, one sentence each.
    pub notes: Vec<String>,
    /// Those of them that say why a better recorder was not used.
    pub unavailable: Vec<String>,
}

/// Runs a command and records it.
///
/// Meanwhile, SIGINT, SIGTERM, SIGHUP and SIGQUIT of this process are forwarded to the command (those that the
/// terminal sent to both are not sent twice); without a command, SIGINT and SIGTERM end the recording.
///
/// # Errors
/// Nothing was run: the command cannot be (127, 126), the recording cannot be created, the options are invalid, or no
/// requested recorder is allowed.
pub fn run(options: &Options) -> Result<Outcome, RecordError> {
    check(options)?;
    if options.is_of_everything() && options.profile != Profile::Alone {
        // A second recorder would have nothing to record.
        let samples_for = Some("`record --profile`".to_owned());
        return run(&Options { profile: Profile::Alone, samples_for, ..options.clone() });
    }
    let mut others = match options.server {
        true => Others { processes: also::resolve_ports(&options.ports)?, ..Others::default() },
        false => also::resolve(&options.also)?,
    };
    if options.also_mounts {
        others.add(mounted::of_command(&options.command));
    }
    let ceilings = options.ceilings.as_deref().map(attributes::ceilings).transpose()?.unwrap_or_default();
    let executable = match options.command.first() {
        Some(word) => Some(Executable::look(&crate::command::find(word)?.path)),
        None => None,
    };
    let mut active = Active::choose(options, executable.as_ref(), !others.processes.is_empty())?;
    let existed = options.output.exists();
    let writer = RecordingWriter::create_bounded(&options.output, meta(options, active.name()), options.limit_bytes)?;
    let started = Session::start(options, &mut active, others, &writer);
    let session = started.inspect_err(|_| {
        // Nothing was run: remove the recording.
        writer.discard(!existed);
    })?;
    Ok(session.finish(options, active, &writer, ceilings))
}

fn check(options: &Options) -> Result<(), RecordError> {
    let usage = |text: &str| Err(RecordError::Usage(text.to_owned()));
    match (options.server, options.command.is_empty()) {
        (true, false) => usage("a server is recorded without a command: give its ports, and start the command elsewhere"),
        (true, true) if options.ports.is_empty() => usage("give at least one port that the server listens on"),
        (false, true) if options.also.is_empty() && !options.is_of_everything() => {
            usage("nothing to record: give a command, or processes to watch")
        }
        _ => Ok(()),
    }
}

fn meta(options: &Options, recorder: &str) -> Meta {
    Meta {
        format: FORMAT_VERSION,
        command: options.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        recorder: recorder.to_owned(),
        start: Time::now(),
        end: None,
        exit_code: None,
        dropped_events: 0,
        attributes: options.keep_command.then(|| (secrets::KEPT.to_owned(), "yes".to_owned())).into_iter().collect(),
    }
}

/// Returns attributes of the command itself: the modules that its script imports.
fn of_command(options: &Options) -> Option<(String, String)> {
    let modules = modules::of_command(&options.command);
    (!modules.is_empty()).then(|| ("command.modules".to_owned(), modules.into_iter().collect::<Vec<String>>().join(" ")))
}

/// A recording in progress.
struct Session {
    signals: Signals,
    held: Option<Held>,
    /// Pidfds of the other watched processes.
    others: Vec<OwnedFd>,
    quota: Option<f64>,
    /// Attributes of the processes besides the command.
    attributes: Vec<(String, String)>,
    notes: Vec<String>,
    mpi: Option<MpiRecording>,
    scripts: Arc<Scripts>,
    started: Instant,
    /// CPU usage when the command began.
    used: Used,
    /// Only the clock or a signal ends it.
    of_everything: bool,
}

/// How a session's interval ended.
struct Ended {
    at: Time,
    /// Usage of the machine's CPUs until then.
    in_use: Option<InUse>,
    exit: Option<Exit>,
    notes: Vec<String>,
}

impl Session {
    fn start(options: &Options, active: &mut Active, others: Others, writer: &Arc<RecordingWriter>) -> Result<Session, RecordError> {
        let signals = Signals::catch()?;
        let sink = Arc::clone(writer) as Arc<dyn Sink>;
        let node = options.node.clone().unwrap_or_else(machine::node);
        sink.take(&mut vec![Event::Host(Host::here(HostId(0), &node))]);
        let prepare = |mpi| MpiRecording::prepare(mpi, &options.command, &options.output, options.limit_bytes, Arc::clone(&sink));
        let mpi = options.mpi.map(prepare).transpose()?;
        let scripts = Scripts::before(mpi.as_ref().map_or(sink, MpiRecording::sink));
        let mut held = match options.command.is_empty() {
            true => None,
            false => Some(Held::spawn(&options.command, signals.before())?),
        };
        let pidfds = others.processes.iter().filter_map(|process| pidfd(process.pid)).collect();
        let watched = Watched {
            command: held.as_ref().map(|held| WatchedProcess { pid: held.pid(), role: Role::Client }),
            executable: active.executable.as_ref().map(|executable| executable.path.clone()),
            follow: !options.only,
            names: others.names,
            others: others.processes,
            tier: options.tier,
            host: HostId(0),
            space: IdSpace(1),
            drain: options.drain,
            profile_alone: options.profile == Profile::Alone,
            sink: Arc::clone(&scripts) as Arc<dyn Sink>,
        };
        active.begin(watched)?;
        writer.begin_at(Time::now(), active.name())?;
        if let Some(begun) = options.begun {
            begun();
        }
        let used = Used::now();
        let quota = quota::processors(held.as_ref().map_or_else(std::process::id, Held::pid));
        if let Some(held) = &mut held {
            let environment = active.environment();
            held.release(&mpi.as_ref().map_or_else(|| environment.clone(), |mpi| mpi.environment(environment.clone())))?;
        }
        let (mut attributes, notes) = (others.attributes, others.notes);
        attributes.extend(of_command(options));
        Ok(Session {
            signals,
            held,
            others: pidfds,
            quota,
            attributes,
            notes,
            mpi,
            scripts,
            started: Instant::now(),
            used,
            of_everything: options.is_of_everything(),
        })
    }

    /// Waits for the end of the interval.
    fn watch(&mut self, duration: Option<Duration>) -> Ended {
        let deadline = duration.map(|duration| self.started + duration);
        loop {
            let ended = match (&self.held, self.others.is_empty()) {
                (Some(held), _) => wait_any(&[held.pidfd()], &self.signals, deadline),
                (None, false) => wait_any(&[self.others[0].as_fd()], &self.signals, deadline),
                (None, true) if self.of_everything => wait_any(&[], &self.signals, deadline),
                (None, true) => return self.ended(vec!["All the processes that were watched have ended.".to_owned()]),
            };
            match ended {
                Woken::Process if self.held.is_some() => return self.command_ended(),
                Woken::Process => drop(self.others.swap_remove(0)),
                Woken::Deadline => return self.ended(Vec::new()),
                Woken::Signal => {
                    if !self.pass_on_signals() {
                        return self.ended(Vec::new());
                    }
                }
            }
        }
    }

    fn ended(&self, notes: Vec<String>) -> Ended {
        Ended { at: Time::now(), in_use: self.in_use(), exit: None, notes }
    }

    /// Returns the usage of the machine's CPUs since the command began.
    fn in_use(&self) -> Option<InUse> {
        self.used.until(&Used::now())
    }

    fn command_ended(&mut self) -> Ended {
        let at = Time::now();
        let Some(held) = &mut self.held else { return self.ended(Vec::new()) };
        let ended = held.wait();
        // (Only waited-for children are counted.)
        let in_use = self.in_use();
        match ended {
            Ok(exit) => Ended { at, in_use, exit: Some(exit), notes: Vec::new() },
            Err(error) => Ended { at, in_use, exit: Some(Exit::Code(1)), notes: vec![error.to_string()] },
        }
    }

    /// Forwards signals to the command; `false` if there is none and a signal ends the recording.
    fn pass_on_signals(&self) -> bool {
        let caught = self.signals.take();
        let Some(held) = &self.held else {
            return !caught.iter().any(|signal| matches!(signal.number, libc::SIGINT | libc::SIGTERM));
        };
        caught.iter().filter(|signal| !signal.reached(held.pid())).for_each(|signal| held.signal(signal.number));
        true
    }

    /// Waits, ends the recorders and the recording, and returns the outcome. Failures become notes, since the command
    /// has run.
    fn finish(mut self, options: &Options, mut active: Active, writer: &RecordingWriter, ceilings: Vec<(String, String)>) -> Outcome {
        let mut ended = self.watch(options.duration);
        let goes_on = self.held.is_some() && ended.exit.is_none();
        let pid = self.held.as_ref().map(Held::pid);
        if let Some(pid) = pid.filter(|_| !goes_on) {
            ended.notes.extend(attributes::left_behind(pid));
            // From here on Ctrl-C is for us: it leaves an unfinished recording, which can be opened.
            self.signals.restore_after_event();
        }
        let unavailable = active.unavailable().to_vec();
        let mut finished = active.finish();
        self.scripts.finish();
        if let Some(mpi) = &self.mpi {
            finished.add(mpi.finish(HostId(0), MPI_SPACE));
        }
        let mut notes = std::mem::take(&mut ended.notes);
        notes.splice(0..0, std::mem::take(&mut self.notes).into_iter().chain(finished.notes));
        if goes_on {
            notes.push("The recording ended before the command did: it covers only the requested time.".to_owned());
        }
        let lost = writer.lost_events();
        if lost > 0 {
            let limit = options.limit_bytes >> 20;
            notes.push(format!("{lost} events were lost because the recording reached its limit ({limit} MiB) or the disk is full."));
        }
        let mut attributes = finished.attributes;
        attributes.extend(ceilings);
        attributes.extend(std::mem::take(&mut self.attributes));
        if let Some(used) = ended.in_use {
            attributes.extend([("cpus.busy".to_owned(), format!("{:.2}", used.busy)), ("cpus.own".to_owned(), format!("{:.2}", used.own))]);
        }
        attributes.extend(pid.map(|pid| ("command.pid".to_owned(), pid.to_string())));
        let directory = std::env::current_dir().unwrap_or_default();
        let failed = ended.exit.is_some_and(|exit| exit.shell_code() != 0);
        if !failed {
            // The output of a successful command is private.
            attributes.retain(|(name, _)| !name.starts_with("ended."));
        }
        let full = if failed { full::full(&options.command, &directory) } else { None };
        attributes.extend(full.map(|path| ("filesystem.full".to_owned(), path)));
        attributes::describe(&mut attributes, options, ended.exit, self.quota, &notes);
        let exit_code = ended.exit.map(Exit::shell_code);
        let ending = Ending { end: ended.at, exit_code, dropped_events: finished.dropped_events, attributes };
        let written = if options.read_once { writer.finish_to_read_once(ending) } else { writer.finish(ending) };
        if let Err(error) = &written {
            notes.push(format!("The recording could not be finished, but can still be opened: {error}"));
        }
        let exit = if goes_on { self.wait_on() } else { ended.exit };
        let dropped_events = finished.dropped_events + lost;
        let path = options.output.clone();
        Outcome { exit, path, recorder: active.name(), finished: written.is_ok(), dropped_events, notes, unavailable }
    }

    /// Waits for the command after the recording has ended; signals for it are still forwarded.
    fn wait_on(&mut self) -> Option<Exit> {
        self.watch(None).exit
    }
}

enum Woken {
    Process,
    Signal,
    Deadline,
}

fn wait_any(processes: &[rustix::fd::BorrowedFd<'_>], signals: &Signals, deadline: Option<Instant>) -> Woken {
    loop {
        let mut fds: Vec<PollFd<'_>> = processes.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
        fds.push(PollFd::from_borrowed_fd(signals.fd(), PollFlags::IN));
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let timeout = left.map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() });
        let ready = poll(&mut fds, timeout.as_ref());
        let readable = |fd: &PollFd<'_>| !fd.revents().is_empty();
        match ready {
            Ok(0) => return Woken::Deadline,
            Ok(_) if fds[..processes.len()].iter().any(readable) => return Woken::Process,
            Ok(_) => return Woken::Signal,
            // A handler interrupted it; its pipe is now readable.
            Err(_) => {}
        }
    }
}

fn pidfd(pid: u32) -> Option<OwnedFd> {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).ok()?)?;
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}
