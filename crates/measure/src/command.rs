//! Runs a command as a whole process, timed from before its start until it has been waited for, with the resource usage of it and of its
//! waited-for children.
//!
//! The end is awaited on a pidfd: polling would round every time up to its interval.

use crate::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::MemfdFlags;
use rustix::process::PidfdFlags;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The resource usage of one run of a process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Wall time from before its start until it was waited for.
    pub wall_s: f64,
    /// Time in user mode, including its waited-for children.
    pub user_s: f64,
    /// Time in the kernel, including its waited-for children.
    pub system_s: f64,
    /// Maximum resident set size of it or of one such child.
    pub max_rss_bytes: u64,
    /// Voluntary context switches.
    pub voluntary_switches: u64,
    /// Involuntary context switches.
    pub involuntary_switches: u64,
}

/// Returns the CPU time of a process on this machine so far, including ended threads, in ns resolution; `None` if it does not exist.
pub fn cpu_time_of(pid: u32) -> Option<Duration> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: writes one clock id to a live variable.
    let code = unsafe { libc::clock_getcpuclockid(libc::pid_t::try_from(pid).ok()?, &raw mut clock) };
    // SAFETY: a timespec is plain integers, for which 0 is valid.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: writes one timespec to a live variable.
    if code != 0 || unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return None;
    }
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
}

/// A command to run and time. Standard input and output are `/dev/null`; the end of standard error is kept for the error message.
#[derive(Debug)]
pub struct Process {
    command: Command,
    limit: Option<Duration>,
    keep_output: bool,
    group: Option<Stop>,
}

/// A flag raised to stop everything.
type Stop = Arc<AtomicBool>;

/// Interval at which a wait checks the stop flag. A command's end is noticed immediately, so this does not affect times.
const LOOKS_EVERY: Duration = Duration::from_millis(100);

/// Bytes of standard error, from its end, shown in an error message.
const SAID_BYTES: u64 = 2_048;

impl Process {
    /// Takes the program, its arguments, environment and directory from `command`; its standard streams are replaced.
    pub fn new(command: Command) -> Process {
        Process { command, limit: None, keep_output: false, group: None }
    }

    /// Sets a time limit, after which the command is killed and the run fails.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Process {
        self.limit = Some(limit);
        self
    }

    /// Runs it as its own process group, which is killed past the time limit, when `stop` is raised, and after the command has ended, so
    /// that nothing of it is left in the next run. (Killing it on our own exit too would need code between fork and exec, and so a slower
    /// way of starting, which would be in every time.)
    #[must_use]
    pub fn own_group(mut self, stop: Stop) -> Process {
        self.command.process_group(0);
        self.group = Some(stop);
        self
    }

    /// Keeps standard output, for [`Process::run_for_output`].
    #[must_use]
    pub fn keep_output(mut self) -> Process {
        self.keep_output = true;
        self
    }

    /// Returns the command line, for messages.
    pub fn line(&self) -> String {
        let words = std::iter::once(self.command.get_program()).chain(self.command.get_args());
        words.map(|w| w.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    /// Runs it once. An exit code other than 0 is an error.
    pub fn run(&mut self) -> Result<Usage> {
        self.run_for_output().map(|(usage, _)| usage)
    }

    /// Runs it once, and returns its standard output too (empty unless kept).
    pub fn run_for_output(&mut self) -> Result<(Usage, Vec<u8>)> {
        let line = self.line();
        let fail = |doing: &'static str| {
            let command = line.clone();
            move |source: std::io::Error| Error::Process { command, doing, source }
        };
        let mut said = memory_file("stderr").map_err(fail("creating a buffer for its messages"))?;
        let mut wrote =
            if self.keep_output { Some(memory_file("stdout").map_err(fail("creating a buffer for its output"))?) } else { None };
        self.command.stdin(Stdio::null()).stderr(said.try_clone().map_err(fail("sharing a descriptor"))?);
        match &wrote {
            Some(file) => self.command.stdout(file.try_clone().map_err(fail("sharing a descriptor"))?),
            None => self.command.stdout(Stdio::null()),
        };

        let start = Instant::now();
        let child = self.command.spawn().map_err(fail("starting it"))?;
        let (status, rusage, ended) = wait(&child, self.limit, self.group.as_ref()).map_err(fail("waiting for it"))?;
        let wall_s = ended.at.duration_since(start).as_secs_f64();

        if ended.stopped {
            return Err(Error::Stopped);
        }
        if !ended.in_time {
            return Err(Error::TimedOut { command: line, limit: self.limit.unwrap_or_default(), said: tail(&mut said) });
        }
        if !status.success() {
            return Err(Error::Failed { command: line, ended: status.to_string(), said: tail(&mut said) });
        }
        let mut output = Vec::new();
        if let Some(file) = &mut wrote {
            file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_end(&mut output)).map_err(fail("reading its output"))?;
        }
        Ok((usage(wall_s, &rusage), output))
    }
}

fn memory_file(name: &str) -> std::io::Result<File> {
    Ok(File::from(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?))
}

/// Time and reason of the end of a wait.
struct Ended {
    at: Instant,
    in_time: bool,
    stopped: bool,
}

/// Waits for the child's end; past the limit, kills it by PID, and its group if it has one.
fn wait(child: &Child, limit: Option<Duration>, group: Option<&Stop>) -> std::io::Result<(ExitStatus, libc::rusage, Ended)> {
    let pid = rustix::process::Pid::from_child(child);
    let mut end = Ended { at: Instant::now(), in_time: true, stopped: false };
    if limit.is_some() || group.is_some() {
        let ended = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
        let deadline = limit.map(|limit| Instant::now() + limit);
        let has_ended = loop {
            end.stopped = group.is_some_and(|stop| stop.load(Ordering::SeqCst));
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let next = left.unwrap_or(LOOKS_EVERY).min(if group.is_some() { LOOKS_EVERY } else { Duration::MAX });
            if end.stopped || left == Some(Duration::ZERO) {
                break false;
            }
            if ends_within(&ended, next)? {
                break true;
            }
        };
        end.at = Instant::now();
        end.in_time = has_ended || end.stopped;
        if group.is_some() {
            // It has not been waited for, so its PID is still its group's id.
            end_group(pid);
        }
        if !has_ended {
            rustix::process::pidfd_send_signal(&ended, rustix::process::Signal::KILL)?;
        }
    }
    let mut status = 0;
    // SAFETY: a plain structure of integers, for which zero is valid.
    let mut rusage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are to live variables of the types that wait4 writes. The child is ours and has not been waited for:
        // `Child` waits only on request.
        let code = unsafe { libc::wait4(pid.as_raw_nonzero().get(), &raw mut status, 0, &raw mut rusage) };
        if code >= 0 {
            if limit.is_none() && group.is_none() {
                end.at = Instant::now();
            }
            return Ok((ExitStatus::from_raw(status), rusage, end));
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Kills a process group; an empty group is no error.
pub(crate) fn end_group(leader: rustix::process::Pid) {
    let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
}

/// Makes the kernel kill the command's process when this process ends in any way.
pub(crate) fn end_with_us(command: &mut Command) {
    let us = std::process::id();
    let ask = move || {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        // This process may have ended before prctl was called.
        let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
        if parent == Some(us) { Ok(()) } else { Err(std::io::Error::from_raw_os_error(libc::ESRCH)) }
    };
    // SAFETY: after the fork it makes two system calls, which neither allocate nor lock.
    unsafe { command.pre_exec(ask) };
}

fn ends_within(pidfd: &std::os::fd::OwnedFd, limit: Duration) -> std::io::Result<bool> {
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match rustix::event::poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&timeout)) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

fn usage(wall_s: f64, rusage: &libc::rusage) -> Usage {
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
    Usage {
        wall_s,
        user_s: seconds(rusage.ru_utime),
        system_s: seconds(rusage.ru_stime),
        max_rss_bytes: u64::try_from(rusage.ru_maxrss).unwrap_or(0) * 1024,
        voluntary_switches: u64::try_from(rusage.ru_nvcsw).unwrap_or(0),
        involuntary_switches: u64::try_from(rusage.ru_nivcsw).unwrap_or(0),
    }
}

/// Returns the end of standard error, formatted for an error message.
fn tail(file: &mut File) -> String {
    let mut bytes = Vec::new();
    let length = file.metadata().map_or(0, |m| m.len());
    let read = file.seek(SeekFrom::Start(length.saturating_sub(SAID_BYTES))).and_then(|_| file.read_to_end(&mut bytes));
    let text = String::from_utf8_lossy(&bytes);
    match read {
        Ok(_) if !text.trim().is_empty() => format!("; standard error: {}", text.trim()),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_base::proc::stat::Stat;

    fn shell(script: &str) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::new(command)
    }

    #[test]
    fn processor_time_of_a_process_counts_threads_that_have_ended() {
        let before = cpu_time_of(std::process::id()).unwrap();
        let worked = std::thread::spawn(|| {
            let mut sum = 0_u64;
            let own = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).tv_nsec;
            let until = own() + 20_000_000;
            while own() < until {
                sum = sum.wrapping_add((0..10_000_u64).fold(0, |a, b| a ^ std::hint::black_box(b)));
            }
            sum
        });
        std::hint::black_box(worked.join().unwrap());
        assert!(cpu_time_of(std::process::id()).unwrap() >= before + Duration::from_millis(20));
        assert!(cpu_time_of(u32::MAX).is_none());
    }

    #[test]
    fn a_process_is_accounted_with_its_children() {
        let usage = shell("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; true").run().unwrap();
        assert!(usage.wall_s > 0.0);
        assert!(usage.user_s + usage.system_s > 0.0);
        assert!(usage.max_rss_bytes > 100 * 1024);
    }

    #[test]
    fn a_failure_names_the_command_its_code_and_what_it_said() {
        let error = shell("echo the disk is on fire >&2; exit 3").run().unwrap_err().to_string();
        assert!(error.contains("sh -c") && error.contains("exit status: 3"), "{error}");
        assert!(error.ends_with("standard error: the disk is on fire"), "{error}");
        let missing = Process::new(Command::new("/no/such/program")).run().unwrap_err().to_string();
        assert!(missing.starts_with("/no/such/program: starting it: "), "{missing}");
    }

    #[test]
    fn a_command_past_its_limit_is_killed_and_waited_for() {
        let error = shell("exec sleep 1000").time_limit(Duration::from_millis(50)).run().unwrap_err().to_string();
        assert!(error.contains("killed after its time limit, 50ms"), "{error}");
    }

    #[test]
    fn a_group_ends_as_a_whole_past_its_limit_after_its_command_and_when_asked_to_stop() {
        let directory = tempfile::tempdir().unwrap();
        let note = directory.path().join("pid");
        let left = |script: &str, stop: bool, limit: u64| {
            let script = format!("sleep 1000 & echo $! > {}; {script}", note.display());
            let ran = shell(&script).own_group(Arc::new(AtomicBool::new(stop))).time_limit(Duration::from_millis(limit)).run();
            let pid = std::fs::read_to_string(&note).unwrap_or_default();
            let _ = std::fs::remove_file(&note);
            // A killed process may remain a zombie until its adopter waits for it.
            let pid = pid.trim().parse().ok();
            let runs = || pid.and_then(Stat::of).is_some_and(|stat| stat.state != 'Z');
            let begun = Instant::now();
            while runs() {
                assert!(begun.elapsed() < Duration::from_secs(60), "{script}: its child is still there");
            }
            ran
        };
        assert!(left("exit 0", false, 60_000).is_ok());
        assert!(matches!(left("wait", false, 100), Err(Error::TimedOut { .. })));
        assert!(matches!(left("wait", true, 60_000), Err(Error::Stopped)));
    }

    #[test]
    fn output_is_kept_when_asked_for() {
        let (_, output) = shell("printf 'rate 3'").keep_output().run_for_output().unwrap();
        assert_eq!(output, b"rate 3");
        let (_, output) = shell("printf 'rate 3'").run_for_output().unwrap();
        assert!(output.is_empty());
    }

    #[test]
    fn a_process_can_be_run_again() {
        let mut process = shell("true").time_limit(Duration::from_secs(60));
        process.run().unwrap();
        process.run().unwrap();
    }
}
