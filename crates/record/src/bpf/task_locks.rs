//! Attaches the recorder's programs to Go processes, to record waits for mutexes, and detaches them where they would cost too much.

use super::load::Programs;
use crate::kernel::object::{Program, run_by};
use crate::perf::function_event;
use crate::symbols::{go, open_file};
use std::collections::HashMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// The functions of Go's runtime, and the programs attached to them.
const FUNCTIONS: [&str; 2] = ["runtime.semacquire1", "runtime.semrelease1"];
const PROGRAMS: [&str; 2] = ["on_task_waits", "on_task_hands_on"];

/// Bound: maximum number of Go processes attached to at a time, and of executables remembered.
const MOST_PROCESSES: usize = 64;
const MOST_EXECUTABLES: usize = 1_024;

/// Bound: maximum number of waits and releases in a window. Each takes the program 5 µs (measured on Linux 6.18 in a virtual machine), and only a release delays the
/// holder of the mutex, so the holder loses 1 % of the time.
const WINDOW: Duration = Duration::from_millis(200);
const MOST_IN_WINDOW: u64 = 800;

/// The Go processes that are recorded.
#[derive(Debug)]
pub(crate) struct TaskLocks {
    /// File offsets of the functions in each executable, by device and inode; `None`: not a Go program.
    executables: HashMap<(u64, u64), Option<[u64; 2]>>,
    programs: Option<[Program; 2]>,
    /// Per process: its executable, and the links, which detach when closed.
    attached: HashMap<u32, ((u64, u64), Vec<OwnedFd>)>,
    window: (Instant, u64),
    /// The recorder's own executable.
    own: Option<(u64, u64)>,
    /// Recording stopped early: too many goroutines waited.
    pub in_part: bool,
    /// The kernel refused the programs.
    refused: bool,
}

impl TaskLocks {
    /// Attached to no process yet.
    pub(crate) fn new() -> TaskLocks {
        TaskLocks {
            executables: HashMap::new(),
            programs: None,
            attached: HashMap::new(),
            window: (Instant::now(), 0),
            own: fs::metadata("/proc/self/exe").ok().map(|about| (about.dev(), about.ino())),
            in_part: false,
            refused: false,
        }
    }

    /// Attaches to a process if it runs a Go program. To be called when a process is first seen, and after each `execve`.
    pub(crate) fn watch(&mut self, pid: u32, programs: &Programs) {
        self.watch_program(pid, Path::new(&format!("/proc/{pid}/exe")), programs);
    }

    /// Attaches to a process before it executes the program at `path`, if that is a Go program.
    pub(crate) fn watch_program(&mut self, pid: u32, path: &Path, programs: &Programs) {
        let Ok(about) = fs::metadata(path) else { return };
        let executable = (about.dev(), about.ino());
        // (Before `execve` the command runs the recorder's own executable.)
        if self.in_part || self.refused || self.own == Some(executable) || self.attached.get(&pid).is_some_and(|(of, _)| *of == executable)
        {
            return;
        }
        self.attached.remove(&pid);
        if self.executables.len() >= MOST_EXECUTABLES {
            self.executables.clear();
        }
        let find = || open_file(path).and_then(|file| go::functions(&file, FUNCTIONS));
        let Some(offsets) = *self.executables.entry(executable).or_insert_with(find) else { return };
        if self.attached.len() >= MOST_PROCESSES {
            self.attached.retain(|pid, _| fs::exists(format!("/proc/{pid}")).unwrap_or(false));
        }
        if self.attached.len() >= MOST_PROCESSES {
            return;
        }
        match self.attach(pid, path, offsets, programs) {
            Some(links) => drop(self.attached.insert(pid, (executable, links))),
            None => self.refused = path.exists(),
        }
    }

    fn attach(&mut self, pid: u32, path: &Path, offsets: [u64; 2], programs: &Programs) -> Option<Vec<OwnedFd>> {
        if self.programs.is_none() {
            self.programs = Some([programs.load_later(PROGRAMS[0])?, programs.load_later(PROGRAMS[1])?]);
        }
        let mut open = Vec::new();
        for (program, offset) in self.programs.iter().flatten().zip(offsets) {
            let event = function_event(pid, path, offset).ok()?;
            open.push(run_by(program, &event).ok()?);
            open.push(event);
        }
        Some(open)
    }

    /// Detaches from all processes if waits and releases are too frequent. `recorded`: their number so far.
    pub(crate) fn round(&mut self, now: Instant, recorded: u64) {
        let (since, before) = self.window;
        if self.attached.is_empty() || now - since < WINDOW {
            return;
        }
        self.window = (now, recorded);
        if is_too_often(now - since, recorded - before) {
            self.in_part = true;
            self.attached.clear();
        }
    }
}

/// Returns whether `recorded` waits and releases within this time exceed the bound.
fn is_too_often(within: Duration, recorded: u64) -> bool {
    u128::from(recorded) * WINDOW.as_nanos() > u128::from(MOST_IN_WINDOW) * within.as_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recording_is_given_up_where_it_would_cost_more_than_a_hundredth() {
        assert!(is_too_often(WINDOW, MOST_IN_WINDOW + 1) && !is_too_often(WINDOW, MOST_IN_WINDOW));
        assert!(!is_too_often(3 * WINDOW, 3 * MOST_IN_WINDOW), "a round came late");
    }
}
