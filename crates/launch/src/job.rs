//! A job from start to end: store up, data in, mounted, program, unmounted, data out, store down.
//!
//! Invariants however the job ends: [`run`] leaves no server, mount or copy behind, and removes a store's data only if nothing was to be
//! copied out of it, or everything was. A signal goes to the program, which may handle it; then the store is taken down without copying
//! out, since a scheduler that sends a signal does not wait long.

use crate::child;
use crate::error::{LaunchError, Result};
use crate::hosts::{Host, Source, addressed};
use crate::messages::{Begin, Listens, ToJob, ToPart};
use crate::mounting::Mounting;
use crate::part::this_machine;
use crate::parts::{Event, Parts};
use crate::saved_store::{SavedStore, io_name};
use crate::starter::{Starter, choose, is_in_path};
use crate::watching::Watcher;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use thalweg_base::proc::status;
use thalweg_store::config::{STORE_VARIABLE, StoreConfig};
use thalweg_store::wire::address::without_pin;
use thalweg_store::wire::trust::{CREDENTIAL_VARIABLE, Credential, Credentials, Published};
use thalweg_store::wire::{Connect, Connection, raise_descriptors};

/// Above this number of hosts, their pipes may not fit into the usual descriptor limit.
const MANY: usize = 256;
/// Timeout for the program to end after a signal.
const GRACE: Duration = Duration::from_secs(60);
/// Timeout for servers to stop.
const STOPPING: Duration = Duration::from_secs(30);
/// Timeout for unmounting, which writes out data.
const UNMOUNTING: Duration = Duration::from_secs(620);
/// Timeout for connecting to a server.
const REACHED: Duration = Duration::from_secs(5);

/// A job to run.
pub struct Job {
    /// The hosts, one I/O server each; the first also runs the metadata service.
    pub hosts: Vec<String>,
    /// The origin of the list of hosts.
    pub source: Source,
    /// How to start servers; `None`: chosen by what is available.
    pub starter: Option<Starter>,
    /// The path of this command on the hosts, if it differs there.
    pub program_there: Option<PathBuf>,
    /// Absolute directories on the hosts for the store's data; if empty, the host's temporary directory.
    pub targets: Vec<PathBuf>,
    /// A kept store to serve instead of a new one.
    pub again: Option<SavedStore>,
    /// Do not encrypt traffic between hosts.
    pub plain: bool,
    /// Timeout for hosts to serve.
    pub wait: Duration,
    /// Local paths to copy in, with their paths in the store.
    pub stage_in: Vec<(PathBuf, String)>,
    /// Paths in the store to copy out, with their local paths.
    pub stage_out: Vec<(String, PathBuf)>,
    /// The absolute directory to mount the store on, on every host and here.
    pub mount: Option<PathBuf>,
    /// Keep the store's data afterwards.
    pub keep: bool,
    /// The program with its arguments.
    pub program: Vec<OsString>,
    /// Receives notes for the user.
    pub note: fn(&str),
}

impl Job {
    /// Returns whether a new store's data is removed with the job, however the job ends.
    fn data_goes(&self) -> bool {
        !self.keep && self.stage_out.is_empty()
    }
}

/// Runs a job; returns the program's exit status.
///
/// # Errors
/// The store or the program could not be started; or the program succeeded and its results could not be copied out.
pub fn run(job: &Job) -> Result<ExitStatus> {
    let parts = Parts::new(job.note, job.wait);
    listen(&parts)?;
    let hosts = addressed(&job.hosts)?;
    if hosts.len() > MANY {
        // Only if needed: the program inherits the limit, and select(2) fails with high descriptors.
        raise_descriptors();
    }
    let starters = choose(&hosts, job.source, job.starter.as_ref(), &is_in_path)?;
    let saved = job.again.clone().map_or_else(|| SavedStore::new(&hosts, job.data_goes()), Ok)?;
    let program = job.program_there.clone().map_or_else(child::this_program, Ok)?;
    let mut running =
        Running { job, hosts, saved, parts, address: String::new(), published: None, mounting: None, mounted: Vec::new(), signal: None };
    let started = running.start(&starters, &program).and_then(|()| running.prepare());
    if let Err(error) = started {
        let removes = running.job.again.is_none();
        running.take_down(removes);
        return Err(error);
    }
    let ended = running.child(command_of(&job.program, running.environment()), true);
    running.finish(ended)
}

/// Delivers signals as events. Signals ignored at start (`nohup`) stay ignored.
fn listen(parts: &Parts) -> Result<()> {
    let ignored = status::here().bits("SigIgn").unwrap_or(0);
    let heeded = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let mut signals = signal_hook::iterator::Signals::new(heeded).map_err(|e| LaunchError::failed(format!("signals: {e}")))?;
    let send = parts.sender();
    std::thread::spawn(move || signals.forever().for_each(|signal| drop(send.send(Event::Signal(signal)))));
    Ok(())
}

struct Running<'a> {
    job: &'a Job,
    hosts: Vec<Host>,
    saved: SavedStore,
    parts: Parts,
    address: String,
    published: Option<Published>,
    /// The mount of this machine, if no part shares this mount namespace.
    mounting: Option<Mounting>,
    /// The parts that have mounted.
    mounted: Vec<usize>,
    /// The first signal received.
    signal: Option<i32>,
}

impl Running<'_> {
    /// Starts the store: all parts listen, then all serve.
    fn start(&mut self, starters: &[Starter], program: &Path) -> Result<()> {
        for (host, starter) in self.hosts.iter().zip(starters) {
            self.parts.start(&host.name, starter, program)?;
        }
        let all: Vec<usize> = (0..self.parts.len()).collect();
        for index in &all {
            let begin = Begin {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                address: self.hosts[*index].address,
                listeners: if *index == 0 { 2 } else { 1 },
                targets: self.job.targets.clone(),
            };
            self.parts.send(*index, &ToPart::Begin(begin));
        }
        let found: Vec<Listens> = self.parts.answers(&all, |word| if let ToJob::Listens(found) = word { Some(found) } else { None })?;
        let config = self.saved.describe(&self.hosts, &found, self.job.plain)?;
        let is_first = |i: usize| found[..i].iter().all(|other| other.machine != found[i].machine);
        // The metadata service last: at its start it queries the I/O servers.
        for indices in [&all[1..], &all[..1]] {
            for index in indices {
                let serve = self.saved.serve(&config, *index, is_first(*index), self.removes_by_itself())?;
                self.parts.send(*index, &ToPart::Serve(serve));
            }
            let serving = self.parts.answers(indices, |word| if let ToJob::Serves { address } = word { Some(address) } else { None })?;
            self.address = serving.into_iter().next().unwrap_or_default();
        }
        self.parts.note_remarks(true);
        self.reach(&config)?;
        self.publish()?;
        if let Some(directory) = &self.job.mount {
            let firsts: Vec<usize> = all.into_iter().filter(|i| is_first(*i)).collect();
            self.mount(directory, firsts, !found.iter().any(|part| part.machine == this_machine()))?;
        }
        Ok(())
    }

    /// Returns whether parts remove the data if this process dies.
    fn removes_by_itself(&self) -> bool {
        self.job.data_goes() && !self.saved.is_again()
    }

    /// Checks that every server is reachable from here and belongs to the store.
    fn reach(&self, config: &StoreConfig) -> Result<()> {
        let credentials = Credentials::file(self.saved.credential());
        let options = Connect { timeout: REACHED, store: Some(config.store), credentials, ..Connect::default() };
        for (host, server) in self.hosts.iter().zip(config.map().servers) {
            Connection::connect(&server.address, &options).map_err(|e| {
                let at = without_pin(&server.address);
                LaunchError::failed(format!(
                    "host `{}` serves at {at}, but cannot be reached from here ({e}): check for a firewall between them",
                    host.name
                ))
            })?;
        }
        Ok(())
    }

    /// Publishes the credential to this user's clients, replacing an earlier publication.
    fn publish(&mut self) -> Result<()> {
        // Dropping the earlier one removes its file.
        self.published = None;
        self.published = Some(Published::publish(&Credential::read(&self.saved.credential())?)?);
        Ok(())
    }

    fn mount(&mut self, directory: &Path, parts: Vec<usize>, here_too: bool) -> Result<()> {
        let word = ToPart::Mount { address: self.address.clone(), directory: directory.to_owned() };
        parts.iter().for_each(|index| self.parts.send(*index, &word));
        self.parts.answers(&parts, |word| matches!(word, ToJob::Mounted).then_some(()))?;
        self.mounted = parts;
        if here_too {
            self.mounting = Some(Mounting::start(&self.address, &self.saved.credential(), directory)?);
        }
        Ok(())
    }

    /// Returns the environment for programs that use the store.
    fn environment(&self) -> Environment {
        Environment { store: self.address.clone() }
    }

    /// Copies in the requested files.
    fn prepare(&mut self) -> Result<()> {
        for (from, to) in &self.job.stage_in {
            let parent = to.trim_end_matches('/').rsplit_once('/').map_or("", |(parent, _)| parent);
            let what = format!("--stage-in {}:{to}", from.display());
            if !parent.is_empty() {
                self.thalweg(&what, &["mkdir".into(), "-p".into(), format!("thal:{parent}").into()])?;
            }
            self.thalweg(&what, &["cp".into(), "-r".into(), from.into(), format!("thal:{to}").into()])?;
        }
        Ok(())
    }

    /// Runs this command on the store.
    fn thalweg(&mut self, what: &str, arguments: &[OsString]) -> Result<()> {
        let mut words = vec![child::this_program()?.into_os_string()];
        words.extend(arguments.iter().cloned());
        let mut command = command_of(&words, self.environment());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let status = self.child(command, false)?;
        match self.signal {
            Some(signal) => Err(LaunchError::Interrupted(format!("{what}: ended by signal {signal}"))),
            None if status.success() => Ok(()),
            None => Err(LaunchError::failed(format!("{what}: `thalweg {}` ended with {status}", arguments[0].to_string_lossy()))),
        }
    }

    /// Runs a child to its end, handling events meanwhile.
    fn child(&mut self, mut command: Command, is_program: bool) -> Result<ExitStatus> {
        let name = command.get_program().to_string_lossy().into_owned();
        // On a terminal the program shares this process group, to get the keyboard and Ctrl-C.
        let is_apart = !(is_program && std::io::stdin().is_terminal());
        let watcher = is_program.then(|| Watcher::start(&mut command)).transpose()?;
        let mut process = child::spawn(command, is_apart).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => LaunchError::NotRun(format!("{name}: not found: expected a program to run on the store"), 127),
            std::io::ErrorKind::PermissionDenied => LaunchError::NotRun(format!("{name}: not executable"), 126),
            _ => LaunchError::failed(format!("{name}: {e}")),
        })?;
        let pid = Pid::from_raw(process.id() as i32).ok_or_else(|| LaunchError::failed("a child without a process ID"))?;
        let send = self.parts.sender();
        std::thread::spawn(move || {
            // Leaves the zombie for the owner to reap: until then its process ID is not reused.
            let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
            let _ = send.send(Event::ChildEnded);
        });
        let (mut until, mut by_keyboard) = (None, false);
        loop {
            match self.parts.next(until) {
                Some(Event::ChildEnded) => break,
                Some(Event::Signal(signal)) => {
                    // A program in this process group has already got the keyboard's signal, and may ignore it.
                    if !is_apart && signal == SIGINT {
                        by_keyboard = true;
                        continue;
                    }
                    let again = self.signal.replace(signal).is_some();
                    until = until.or(Some(Instant::now() + GRACE));
                    send_signal(pid, is_apart, signal, again);
                }
                Some(Event::Closed(index)) => self.lost(index, "no message"),
                Some(Event::Malformed(index, error)) => self.lost(index, &error.to_string()),
                Some(Event::Message(index, ToJob::Failed { reason })) => self.lost(index, &reason),
                Some(Event::Message(..)) => {}
                None => {
                    send_signal(pid, is_apart, SIGTERM, true);
                    until = None;
                }
            }
        }
        let status = process.wait().map_err(|e| LaunchError::failed(format!("{name}: {e}")))?;
        watcher.into_iter().for_each(Watcher::done);
        if by_keyboard && status.signal() == Some(SIGINT) {
            self.signal = Some(SIGINT);
        }
        Ok(status)
    }

    /// Reports a part that ended while it was needed.
    fn lost(&mut self, index: usize, why: &str) {
        let what = if index == 0 { "the store's names are unavailable, and so are" } else { "unavailable:" };
        (self.job.note)(&format!(
            "host `{}`: its server has ended ({why}): {what} files with bytes on {}",
            self.parts.host(index),
            io_name(index)
        ));
        if self.published.is_some() {
            let _ = self.publish();
        }
    }

    /// Unmounts, copies out, takes the store down.
    fn finish(mut self, ended: Result<ExitStatus>) -> Result<ExitStatus> {
        let mut out = self.unmount();
        let was_interrupted = self.signal.is_some();
        if ended.is_err() && !self.saved.is_again() {
            // The program did not run, so there are no results.
            self.take_down(!self.job.keep);
            return ended;
        }
        if out.is_ok() && !self.job.stage_out.is_empty() {
            out = match self.signal {
                None => self.copy_out(),
                Some(signal) => Err(LaunchError::Interrupted(format!("signal {signal}"))),
            };
        }
        let is_kept = self.job.keep
            || ended.is_err()
            || (out.is_err() && !self.job.stage_out.is_empty())
            || (was_interrupted && self.saved.is_again());
        self.take_down(!is_kept);
        match (ended, out) {
            (Err(error), _) => Err(error),
            (Ok(status), Ok(())) => {
                if is_kept {
                    (self.job.note)(&format!("the store's data stays on its hosts; to serve it again, run {}", self.again("PROGRAM")));
                }
                Ok(status)
            }
            (Ok(status), Err(error)) => {
                let what = if self.job.stage_out.is_empty() { "" } else { "not copied out: " };
                let mut problem = format!("{what}{error}");
                if is_kept {
                    problem
                        .push_str(&format!("; the store's data stays on its hosts: {} serves it again and copies out", self.again("true")));
                }
                if !status.success() {
                    (self.job.note)(&problem);
                    return Ok(status);
                }
                Err(if was_interrupted { LaunchError::Interrupted(problem) } else { LaunchError::Failed(problem) })
            }
        }
    }

    /// Returns the command that serves the data again to this program.
    fn again(&self, program: &str) -> String {
        let mut words = format!("`thalweg launch --again {}", self.saved.name());
        for (from, to) in &self.job.stage_out {
            words.push_str(&format!(" --stage-out {from}:{}", to.display()));
        }
        words.push_str(&format!(" -- {program}`"));
        words
    }

    fn unmount(&mut self) -> Result<()> {
        let mut done = self.mounting.take().map_or(Ok(()), Mounting::end);
        let asked: Vec<usize> = std::mem::take(&mut self.mounted);
        asked.iter().for_each(|index| self.parts.send(*index, &ToPart::Unmount));
        let until = Instant::now() + UNMOUNTING;
        let mut left: Vec<usize> = asked.into_iter().filter(|index| !self.parts.is_gone(*index)).collect();
        while !left.is_empty() {
            let index = match self.parts.next(Some(until)) {
                None => return done.and(Err(LaunchError::failed("a mount was not unmounted in time"))),
                Some(Event::Message(index, ToJob::Unmounted)) => index,
                Some(Event::Message(index, ToJob::Failed { reason })) => {
                    done = done.and(Err(LaunchError::failed(format!("host `{}`: {reason}", self.parts.host(index)))));
                    index
                }
                Some(Event::Closed(index) | Event::Malformed(index, _)) => {
                    self.lost(index, "while unmounting");
                    index
                }
                Some(Event::Signal(signal)) => {
                    self.signal.get_or_insert(signal);
                    continue;
                }
                Some(Event::Message(..) | Event::ChildEnded) => continue,
            };
            left.retain(|i| *i != index);
        }
        done
    }

    fn copy_out(&mut self) -> Result<()> {
        for (from, to) in &self.job.stage_out {
            let what = format!("--stage-out {from}:{}", to.display());
            if let Some(parent) = to.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                std::fs::create_dir_all(parent).map_err(|e| LaunchError::failed(format!("{what}: {}: {e}", parent.display())))?;
            }
            self.thalweg(&what, &["cp".into(), "-r".into(), format!("thal:{from}").into(), to.into()])?;
        }
        Ok(())
    }

    /// Stops everything that runs, and reports failures as notes.
    fn take_down(&mut self, removes: bool) {
        if let Err(error) = self.unmount() {
            (self.job.note)(&error.to_string());
        }
        self.published = None;
        let stopped = self.parts.stop(removes, STOPPING);
        if removes && stopped.is_ok() {
            self.saved.remove();
        }
    }
}

struct Environment {
    store: String,
}

/// Builds a command that uses the store. The user's credential for another store is removed from its environment.
fn command_of(words: &[OsString], environment: Environment) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env(STORE_VARIABLE, environment.store).env_remove(CREDENTIAL_VARIABLE);
    command
}

/// Forwards a signal, or kills. The process ID of an ended child stays valid until it is reaped.
fn send_signal(pid: Pid, is_apart: bool, signal: i32, kills: bool) {
    let signal = if kills { Some(Signal::KILL) } else { Signal::from_named_raw(signal) };
    if let Some(signal) = signal {
        let _ = if is_apart { kill_process_group(pid, signal) } else { kill_process(pid, signal) };
    }
}
