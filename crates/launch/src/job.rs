//! A job from its start to its end: store up, data in, mounted, program, unmounted, data out, store down.
//!
//! What must hold however it goes: no server, mount or copy is left when [`run`] returns, and the data of a store is removed only if nothing was
//! to be copied out of it, or all of that was. A signal goes to the program, which may end as it likes; then the store is taken down without
//! copying out, since a scheduler that sends one does not wait long.

use crate::child;
use crate::described::{Kept, io_name};
use crate::error::{LaunchError, Result};
use crate::hosts::{Host, Source, addressed};
use crate::mounting::Mounting;
use crate::part::this_machine;
use crate::parts::{Event, Parts};
use crate::starter::{Starter, choose, is_in_path};
use crate::watching::Watcher;
use crate::words::{Begin, Listens, ToJob, ToPart};
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

/// With more hosts than this their pipes may not fit into the usual limit of descriptors.
const MANY: usize = 256;
/// How long a program may take to end after a signal.
const GRACE: Duration = Duration::from_secs(60);
/// How long servers may take to stop.
const STOPPING: Duration = Duration::from_secs(30);
/// How long taking mounts away may take: what was written through them is written out.
const UNMOUNTING: Duration = Duration::from_secs(620);
/// How long a server may take to be reached.
const REACHED: Duration = Duration::from_secs(5);

/// What is asked for.
pub struct Job {
    /// The hosts, one I/O server each; the first has the metadata service too.
    pub hosts: Vec<String>,
    /// Who has said so.
    pub source: Source,
    /// How servers are started; otherwise what is there.
    pub starter: Option<Starter>,
    /// This command's path on the hosts, if it is another there.
    pub program_there: Option<PathBuf>,
    /// Directories on the hosts for the store's data, absolute; none: where the host has temporary files.
    pub targets: Vec<PathBuf>,
    /// A store that was kept, instead of a new one.
    pub again: Option<Kept>,
    /// Bytes go in clear between hosts.
    pub plain: bool,
    /// How long hosts may take to serve.
    pub wait: Duration,
    /// Local paths, and where they go in the store.
    pub stage_in: Vec<(PathBuf, String)>,
    /// Paths in the store, and where they go.
    pub stage_out: Vec<(String, PathBuf)>,
    /// The directory to mount the store on, absolute, on every host and here.
    pub mount: Option<PathBuf>,
    /// Keep the store's data.
    pub keep: bool,
    /// The program with its arguments.
    pub program: Vec<OsString>,
    /// Where notes for the person go.
    pub note: fn(&str),
}

impl Job {
    /// Whether the data of a new store goes with the job, however that ends.
    fn data_goes(&self) -> bool {
        !self.keep && self.stage_out.is_empty()
    }
}

/// Runs a job; how its program ended.
///
/// # Errors
/// Why there was no store, or no program; or, of a program that succeeded, why its results were not copied out.
pub fn run(job: &Job) -> Result<ExitStatus> {
    let parts = Parts::new(job.note, job.wait);
    listen(&parts)?;
    let hosts = addressed(&job.hosts)?;
    if hosts.len() > MANY {
        // The program inherits the limit, and one that uses select(2) may mind: only where it must be.
        raise_descriptors();
    }
    let starters = choose(&hosts, job.source, job.starter.as_ref(), &is_in_path)?;
    let kept = job.again.clone().map_or_else(|| Kept::new(&hosts, job.data_goes()), Ok)?;
    let program = job.program_there.clone().map_or_else(child::this_program, Ok)?;
    let mut running =
        Running { job, hosts, kept, parts, address: String::new(), published: None, mounting: None, mounted: Vec::new(), signal: None };
    let started = running.start(&starters, &program).and_then(|()| running.prepare());
    if let Err(error) = started {
        let removes = running.job.again.is_none();
        running.take_down(removes);
        return Err(error);
    }
    let ended = running.child(command_of(&job.program, running.environment()), true);
    running.finish(ended)
}

/// Signals, as events. One that was ignored when this began (`nohup`) stays so.
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
    kept: Kept,
    parts: Parts,
    address: String,
    published: Option<Published>,
    /// The mount here, where no part sees the same mounts.
    mounting: Option<Mounting>,
    /// The parts that have mounted.
    mounted: Vec<usize>,
    /// The first signal that came.
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
            self.parts.say(*index, &ToPart::Begin(begin));
        }
        let found: Vec<Listens> = self.parts.answers(&all, |word| if let ToJob::Listens(found) = word { Some(found) } else { None })?;
        let config = self.kept.describe(&self.hosts, &found, self.job.plain)?;
        let is_first = |i: usize| found[..i].iter().all(|other| other.machine != found[i].machine);
        // Names last: the service asks the others what they have.
        for indices in [&all[1..], &all[..1]] {
            for index in indices {
                let serve = self.kept.serve(&config, *index, is_first(*index), self.removes_by_itself())?;
                self.parts.say(*index, &ToPart::Serve(serve));
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

    /// Whether the data goes if this process is gone without a word.
    fn removes_by_itself(&self) -> bool {
        self.job.data_goes() && !self.kept.is_again()
    }

    /// Every server can be reached from here, and is the store's.
    fn reach(&self, config: &StoreConfig) -> Result<()> {
        let credentials = Credentials::file(self.kept.credential());
        let options = Connect { timeout: REACHED, store: Some(config.store), credentials, ..Connect::default() };
        for (host, server) in self.hosts.iter().zip(config.map().servers) {
            Connection::connect(&server.address, &options).map_err(|e| {
                let at = without_pin(&server.address);
                LaunchError::failed(format!(
                    "host `{}` serves at {at}, and cannot be used from here ({e}): is a firewall between them?",
                    host.name
                ))
            })?;
        }
        Ok(())
    }

    /// Puts the credential where clients of this user find it, again if need be.
    fn publish(&mut self) -> Result<()> {
        // The old one takes its file away when it goes.
        self.published = None;
        self.published = Some(Published::publish(&Credential::read(&self.kept.credential())?)?);
        Ok(())
    }

    fn mount(&mut self, directory: &Path, parts: Vec<usize>, here_too: bool) -> Result<()> {
        let word = ToPart::Mount { address: self.address.clone(), directory: directory.to_owned() };
        parts.iter().for_each(|index| self.parts.say(*index, &word));
        self.parts.answers(&parts, |word| matches!(word, ToJob::Mounted).then_some(()))?;
        self.mounted = parts;
        if here_too {
            self.mounting = Some(Mounting::start(&self.address, &self.kept.credential(), directory)?);
        }
        Ok(())
    }

    /// The variables of everything that uses the store.
    fn environment(&self) -> Environment {
        Environment { store: self.address.clone() }
    }

    /// Copies in what is asked for.
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

    /// Runs a child to its end; what happens meanwhile is dealt with.
    fn child(&mut self, mut command: Command, is_program: bool) -> Result<ExitStatus> {
        let name = command.get_program().to_string_lossy().into_owned();
        // On a terminal the program shares our group: it is to have the keyboard, and Ctrl-C.
        let is_apart = !(is_program && std::io::stdin().is_terminal());
        let watcher = is_program.then(|| Watcher::start(&mut command)).transpose()?;
        let mut process = child::spawn(command, is_apart).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => LaunchError::NotRun(format!("{name}: not found: expected a program to run on the store"), 127),
            std::io::ErrorKind::PermissionDenied => LaunchError::NotRun(format!("{name}: not executable"), 126),
            _ => LaunchError::failed(format!("{name}: {e}")),
        })?;
        let pid = Pid::from_raw(process.id() as i32).ok_or_else(|| LaunchError::failed("a child without a number"))?;
        let send = self.parts.sender();
        std::thread::spawn(move || {
            // Left for this thread's owner to collect: until then the number is the child's own.
            let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
            let _ = send.send(Event::ChildEnded);
        });
        let (mut until, mut by_keyboard) = (None, false);
        loop {
            match self.parts.next(until) {
                Some(Event::ChildEnded) => break,
                Some(Event::Signal(signal)) => {
                    // What the keyboard sends has reached a program that shares our group, and may mean nothing to it.
                    if !is_apart && signal == SIGINT {
                        by_keyboard = true;
                        continue;
                    }
                    let again = self.signal.replace(signal).is_some();
                    until = until.or(Some(Instant::now() + GRACE));
                    send_signal(pid, is_apart, signal, again);
                }
                Some(Event::Silent(index)) => self.lost(index, "without a word"),
                Some(Event::Strange(index, error)) => self.lost(index, &error.to_string()),
                Some(Event::Said(index, ToJob::Failed { reason })) => self.lost(index, &reason),
                Some(Event::Said(..)) => {}
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

    /// A part has ended while it was needed.
    fn lost(&mut self, index: usize, why: &str) {
        let what = if index == 0 { "names cannot be used any more, nor" } else { "nothing works any more with" };
        (self.job.note)(&format!(
            "host `{}`: its server has ended ({why}): {what} files with bytes on {}",
            self.parts.host(index),
            io_name(index)
        ));
        if self.published.is_some() {
            let _ = self.publish();
        }
    }

    /// Takes mounts away, copies out, takes the store down.
    fn finish(mut self, ended: Result<ExitStatus>) -> Result<ExitStatus> {
        let mut out = self.unmount();
        let was_interrupted = self.signal.is_some();
        if ended.is_err() && !self.kept.is_again() {
            // No program was run: there are no results.
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
            || (was_interrupted && self.kept.is_again());
        self.take_down(!is_kept);
        match (ended, out) {
            (Err(error), _) => Err(error),
            (Ok(status), Ok(())) => {
                if is_kept {
                    (self.job.note)(&format!("the store's data stays on its hosts; {} serves it again", self.again("PROGRAM")));
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

    /// The command that serves the data again to this program.
    fn again(&self, program: &str) -> String {
        let mut words = format!("`thalweg launch --again {}", self.kept.name());
        for (from, to) in &self.job.stage_out {
            words.push_str(&format!(" --stage-out {from}:{}", to.display()));
        }
        words.push_str(&format!(" -- {program}`"));
        words
    }

    fn unmount(&mut self) -> Result<()> {
        let mut done = self.mounting.take().map_or(Ok(()), Mounting::end);
        let asked: Vec<usize> = std::mem::take(&mut self.mounted);
        asked.iter().for_each(|index| self.parts.say(*index, &ToPart::Unmount));
        let until = Instant::now() + UNMOUNTING;
        let mut left: Vec<usize> = asked.into_iter().filter(|index| !self.parts.is_gone(*index)).collect();
        while !left.is_empty() {
            let index = match self.parts.next(Some(until)) {
                None => return done.and(Err(LaunchError::failed("a mount was not taken away in time"))),
                Some(Event::Said(index, ToJob::Unmounted)) => index,
                Some(Event::Said(index, ToJob::Failed { reason })) => {
                    done = done.and(Err(LaunchError::failed(format!("host `{}`: {reason}", self.parts.host(index)))));
                    index
                }
                Some(Event::Silent(index) | Event::Strange(index, _)) => {
                    self.lost(index, "while its mount was taken away");
                    index
                }
                Some(Event::Signal(signal)) => {
                    self.signal.get_or_insert(signal);
                    continue;
                }
                Some(Event::Said(..) | Event::ChildEnded) => continue,
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

    /// Stops everything that runs. What failed is noted.
    fn take_down(&mut self, removes: bool) {
        if let Err(error) = self.unmount() {
            (self.job.note)(&error.to_string());
        }
        self.published = None;
        let stopped = self.parts.stop(removes, STOPPING);
        if removes && stopped.is_ok() {
            self.kept.remove();
        }
    }
}

struct Environment {
    store: String,
}

/// A command that uses the store. A credential that the person has for another store would not open it.
fn command_of(words: &[OsString], environment: Environment) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env(STORE_VARIABLE, environment.store).env_remove(CREDENTIAL_VARIABLE);
    command
}

/// Hands a signal on, or kills. A child that has ended keeps its number until it is waited for.
fn send_signal(pid: Pid, is_apart: bool, signal: i32, kills: bool) {
    let signal = if kills { Some(Signal::KILL) } else { Signal::from_named_raw(signal) };
    if let Some(signal) = signal {
        let _ = if is_apart { kill_process_group(pid, signal) } else { kill_process(pid, signal) };
    }
}
