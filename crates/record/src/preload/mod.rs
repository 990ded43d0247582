//! Records from a library in the program's own processes, for users without access to kernel tracing.
//!
//! The library (`preload/*.c`) wraps the C library's calls and writes blocking and merged calls into rings: one file
//! per process, in a private directory ([`directory`]). Here the rings are drained and turned into tracks, objects
//! and spans. The program never waits for the recorder; if the recorder is gone, the rings fill and the program
//! continues.
//!
//! The program does not see that it is recorded: the settings are written into the library's file, and the library
//! removes itself from the environment, and adds itself again for programs that the program executes, if they can use
//! it. A process under a system call filter is left alone.

pub(crate) mod directory;
mod library;
mod place;
mod process;
mod shared;
mod sharing;
mod translate;

use crate::proc::ProcRecorder;
use crate::proc::calls::Calls;
use crate::proc::diagnostics::{Diagnostics, LISTEN};
use crate::proc::files::Objects;
use crate::proc::strangers::{Strangers, Tracks};
use crate::proc::system::System;
use crate::worker::{Stop, Worker, thread_cpu};
use crate::{Finished, RecordError, Recorder, Watched};
use directory::RecorderDirectory;
use process::Process;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_trace::{Event, IdSpace, Role, Sink, Time, TraceHandle, Track, TrackId, TrackKind};
use translate::Translator;

/// Polling interval for the machine's counters.
const SYSTEM_PART: Duration = Duration::from_millis(50);

const NOT_SEEN: &str = "The program was watched from within: page faults and memory-mapped files, writeback by the kernel, who in the \
    kernel woke a thread, direct system calls, io_uring, processes under a filter of system calls \
    (seccomp) or in a file system of their own (chroot, container) and other users' processes were not seen.";

/// Distance of the strangers' identifier space from ours; the one in between belongs to another recorder.
const STRANGERS_SPACE: u16 = 2;

/// Bit of the used features: gave up system calls or the clock.
const CONFINED: u32 = 8;

/// The recorder `preload`.
#[derive(Debug)]
pub(crate) struct PreloadRecorder {
    directory: RecorderDirectory,
    /// For static programs and those of other users.
    strangers: Option<ProcRecorder>,
    running: Option<Worker>,
}

impl PreloadRecorder {
    /// Puts the library where programs can load it. `recording` is the path of the recording, if there is one.
    ///
    /// # Errors
    /// There is no directory that is writable and not mounted noexec.
    pub(crate) fn new(recording: Option<&Path>) -> Result<PreloadRecorder, RecordError> {
        Ok(PreloadRecorder { directory: place::made(recording)?, strangers: None, running: None })
    }

    /// Creates what drains the rings beside a recorder of switches, which has the threads' tracks and wants their calls.
    pub(crate) fn drain_beside(&self, watched: &Watched, tracks: Tracks, calls: Calls) -> Drain {
        let mut drain = Drain::new(watched, self.directory.rings(), tracks);
        drain.translator.calls = Some(calls);
        drain
    }

    /// Returns the path of the library.
    pub(crate) fn library(&self) -> PathBuf {
        self.directory.library()
    }
}

fn loading(library: &Path) -> Vec<(OsString, OsString)> {
    let mut preload = OsString::from(library);
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    vec![("LD_PRELOAD".into(), preload)]
}

impl Recorder for PreloadRecorder {
    fn name(&self) -> &'static str {
        "preload"
    }

    fn environment(&self) -> Vec<(OsString, OsString)> {
        loading(&self.directory.library())
    }

    fn begin(&mut self, watched: Watched) -> Result<(), RecordError> {
        let tracks = Tracks::default();
        let mut strangers = ProcRecorder::of_strangers(Strangers::without(self.directory.library(), Tracks::clone(&tracks)));
        let space = IdSpace(watched.space.0 + STRANGERS_SPACE);
        strangers.begin(Watched { others: Vec::new(), space, ..watched.clone() })?;
        self.strangers = Some(strangers);
        let mut drain = Drain::new(&watched, self.directory.rings(), tracks);
        let pause = watched.drain;
        self.running = Some(Worker::start("drain", move |stop| drain.work(stop, pause))?);
        Ok(())
    }

    fn finish(&mut self) -> Result<Finished, RecordError> {
        let strangers = self.strangers.take().map(|mut strangers| strangers.finish()).transpose()?;
        let mut finished = Worker::finish_any(&mut self.running)?;
        if let Some(strangers) = strangers {
            finished.add(strangers);
        }
        Ok(finished)
    }
}

impl Drop for PreloadRecorder {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

/// Drains the rings of all processes.
pub(crate) struct Drain {
    /// Directory of the rings.
    directory: PathBuf,
    trace: TraceHandle,
    sink: Arc<dyn Sink>,
    translator: Translator,
    system: System,
    system_at: Instant,
    /// Processes by file name: process id and creation time of the ring.
    processes: BTreeMap<(u32, u64), Process>,
    seen: u64,
    broken: u64,
    unseen: u32,
    untracked: u64,
    batch: Vec<Event>,
}

impl Drain {
    fn new(watched: &Watched, directory: PathBuf, strangers: Tracks) -> Drain {
        let trace = TraceHandle::on(Arc::clone(&watched.sink), watched.host, Role::Client, watched.space);
        let mut translator = Translator::new(trace.clone(), watched.host, strangers);
        if let Ok(sockets) = Diagnostics::open().and_then(|mut diagnostics| diagnostics.sockets()) {
            let listening = sockets.iter().filter(|socket| socket.state == LISTEN).map(|socket| socket.local.port());
            translator.objects.listening.extend(listening);
        }
        Drain {
            directory,
            system: System::new(trace.clone(), watched.host),
            system_at: Instant::now(),
            sink: Arc::clone(&watched.sink),
            translator,
            processes: BTreeMap::new(),
            seen: 0,
            broken: 0,
            unseen: 0,
            untracked: 0,
            batch: Vec::new(),
            trace,
        }
    }

    fn work(&mut self, stop: &Stop, pause: Duration) -> Finished {
        self.recorder_track();
        loop {
            let asked = stop.wait(pause);
            self.drain(asked);
            if asked {
                return self.end();
            }
        }
    }

    fn recorder_track(&mut self) {
        let Some(track) = TrackId::new(self.trace.fresh()) else { return };
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let (pid, tid, name) = (Some(std::process::id()), Some(tid), "thalweg/drain".to_owned());
        self.batch.push(Event::Track(Track {
            track,
            host: self.translator.host,
            kind: TrackKind::Thread,
            role: Role::Recorder,
            pid,
            tid,
            name,
        }));
    }

    /// The objects, which another recorder may share.
    pub(crate) fn objects(&mut self) -> &mut Objects {
        &mut self.translator.objects
    }

    /// Drains all rings. Each ring's fill level is read before looking for new processes and objects, so that
    /// whatever a record refers to (a child, an object named by another thread) is known when it is translated.
    pub(crate) fn drain(&mut self, last: bool) {
        let begun = Time::now();
        self.find_processes();
        let ended = self.ended();
        for process in self.processes.values_mut() {
            process.note_heads();
        }
        self.find_processes();
        for process in self.processes.values_mut() {
            process.find_threads(&mut self.translator, &mut self.batch);
            process.find_objects(&mut self.translator);
        }
        if last || self.system_at.elapsed() >= SYSTEM_PART {
            self.poll_machine();
        }
        let now = Time::now();
        for (key, process) in &mut self.processes {
            process.drain(&mut self.translator, now, &mut self.batch);
            if last || ended.contains(key) {
                process.end(&mut self.translator, now, &mut self.batch);
            }
        }
        if let Some(calls) = &self.translator.calls {
            calls.drained(begun);
        }
        for key in &ended {
            if let Some(process) = self.processes.remove(key) {
                self.account(&process);
                if !self.processes.keys().any(|other| other.0 == key.0) {
                    // A stranger may get its number.
                    self.translator.became_another.remove(&key.0);
                    self.translator.sharing.ended(key.0);
                }
                let _ = fs::remove_file(self.directory.join(format!("{}.{}.ring", key.0, key.1)));
            }
        }
        self.sink.take(&mut self.batch);
    }

    /// Records devices and quotas, before what threads did meanwhile.
    fn poll_machine(&mut self) {
        self.system_at = Instant::now();
        if self.translator.calls.is_none() {
            self.system.poll(&mut self.batch);
        }
        for process in self.processes.values() {
            process.poll_quota(&mut self.translator);
        }
        self.translator.quotas.read(&mut self.batch);
    }

    fn account(&mut self, process: &Process) {
        self.unseen |= process.unseen();
        self.untracked += u64::from(process.untracked());
        self.broken += process.broken;
    }

    fn find_processes(&mut self) {
        for entry in fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let key = name.to_str().and_then(|name| {
                let (pid, created) = name.strip_suffix(".ring")?.split_once('.')?;
                Some((pid.parse().ok()?, created.parse().ok()?))
            });
            let Some(key) = key.filter(|key| !self.processes.contains_key(key)) else { continue };
            match Process::open(&entry.path(), key.0) {
                Ok(process) => {
                    self.seen += 1;
                    if let Some(calls) = &self.translator.calls {
                        calls.begins();
                    }
                    self.processes.insert(key, process);
                }
                Err(_) => {
                    self.broken += 1;
                    let _ = fs::remove_file(entry.path());
                }
            }
        }
    }

    /// Returns the processes that are gone or have executed another program.
    fn ended(&self) -> Vec<(u32, u64)> {
        let alive: Vec<_> = self.processes.iter().filter_map(|(key, process)| Some((key, process.pidfd()?))).collect();
        let mut fds: Vec<PollFd<'_>> = alive.iter().map(|(_, fd)| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let polled = poll(&mut fds, Some(&at_once)).is_ok();
        let gone = |key: &(u32, u64)| {
            let index = alive.iter().position(|(alive, _)| *alive == key);
            index.is_none_or(|index| polled && !fds[index].revents().is_empty())
        };
        let replaced = |key: &(u32, u64)| self.processes.range((key.0, key.1 + 1)..=(key.0, u64::MAX)).next().is_some();
        self.processes.keys().filter(|key| gone(key) || replaced(key)).copied().collect()
    }

    pub(crate) fn end(&mut self) -> Finished {
        for process in std::mem::take(&mut self.processes).into_values() {
            self.account(&process);
        }
        self.sink.take(&mut self.batch);
        let mut notes = Vec::new();
        if self.seen == 0 && self.translator.calls.is_none() {
            notes.push(
                "The program never loaded our library, or runs under a filter of system calls (seccomp) where the library steps aside, so nothing of it was seen; \
                 try `--method proc`."
                    .to_owned(),
            );
        }
        let unseen = [(1, "memory-mapped files"), (2, "io_uring"), (4, "asynchronous I/O of the kernel")];
        for (bit, what) in unseen {
            if self.unseen & bit != 0 {
                notes.push(format!("The program uses {what}; this recorder cannot see their waits. Record as root to see them."));
            }
        }
        if self.unseen & CONFINED != 0 {
            notes.push(
                "A process gave up system calls or the clock (seccomp, PR_SET_TSC): from there on it and what it started were not recorded; record as \
                 root, or with `--method proc`, to see it."
                    .to_owned(),
            );
        }
        if self.untracked > 0 {
            notes.push(format!(
                "{} threads were not recorded, because a process had too many at once or shared memory is full.",
                self.untracked
            ));
        }
        if self.broken > 0 {
            notes.push(format!("{} invalid records of the preloaded library were dropped.", self.broken));
        }
        if self.translator.calls.is_some() {
            return Finished { dropped_events: self.broken, notes, ..Finished::default() };
        }
        let attributes = vec![
            ("not_seen".to_owned(), NOT_SEEN.to_owned()),
            ("wakers".to_owned(), "inferred".to_owned()),
            ("recorder.cpu_ns".to_owned(), thread_cpu().as_nanos().to_string()),
        ];
        Finished { dropped_events: self.broken, attributes, notes }
    }
}
