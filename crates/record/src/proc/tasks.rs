//! One thread in /proc.

use super::kernel::CpuUsage;
use thalweg_base::proc::stat::ThreadStat;
use thalweg_base::proc::status::ThreadStatus;
use thalweg_base::proc::task_file::TaskFile;

/// Scheduler times, accumulated since the thread began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scheduling {
    /// Time running.
    pub run_ns: u64,
    /// Time runnable but not running.
    pub runqueue_ns: u64,
    /// Number of times it was given a CPU.
    pub turns: u64,
}

impl Scheduling {
    /// Parses `schedstat`.
    pub(crate) fn parse(text: &str) -> Option<Scheduling> {
        let mut numbers = text.split_ascii_whitespace().map(str::parse);
        let mut next = || numbers.next()?.ok();
        Some(Scheduling { run_ns: next()?, runqueue_ns: next()?, turns: next()? })
    }
}

/// A thread's activity at the moment of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// Running or runnable.
    Running,
    /// Blocked in a system call: its number and arguments.
    Call(i64, [u64; 6]),
    /// Blocked outside any call (a page fault, stopped, etc.), or not readable.
    Other,
}

impl Doing {
    /// Parses `/proc/PID/task/TID/syscall`.
    pub(crate) fn parse(text: &str) -> Option<Doing> {
        let mut words = text.split_ascii_whitespace();
        let first = words.next()?;
        if first == "running" {
            return Some(Doing::Running);
        }
        let number: i64 = first.parse().ok()?;
        if number < 0 {
            return Some(Doing::Other);
        }
        let mut arguments = [0; 6];
        for argument in &mut arguments {
            *argument = words.next()?.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok())?;
        }
        Some(Doing::Call(number, arguments))
    }
}

/// A thread's state at a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// Its state's letter.
    pub letter: char,
    /// Its name.
    pub name: String,
    /// Page faults that waited for a disk, since it began.
    pub disk_faults: u64,
}

/// The /proc files of one thread, kept open so that a reading is a single system call.
#[derive(Debug)]
pub(crate) struct TaskFiles {
    schedstat: TaskFile,
    stat: ThreadStat,
    status: ThreadStatus,
    /// Absent if only the thread's owner, or no user, may read it.
    syscall: Option<TaskFile>,
    /// Absent if the kernel lacks function names.
    wchan: Option<TaskFile>,
}

impl TaskFiles {
    /// Opens the files; `None` if the thread is gone.
    pub(crate) fn open(pid: u32, tid: u32) -> Option<TaskFiles> {
        let open = |name: &str| TaskFile::open(pid, tid, name);
        Some(TaskFiles {
            schedstat: open("schedstat").ok()?,
            stat: ThreadStat::open(pid, tid).ok()?,
            status: ThreadStatus::open(pid, tid).ok()?,
            syscall: open("syscall").ok(),
            wchan: open("wchan").ok(),
        })
    }

    /// Reads its times; `None` if the thread is gone.
    pub(crate) fn scheduling(&self) -> Option<Scheduling> {
        Scheduling::parse(self.schedstat.text(&mut [0; 128])?)
    }

    /// Reads its state; `None` if the thread is gone.
    pub(crate) fn state(&self) -> Option<State> {
        let stat = self.stat.read()?;
        Some(State { letter: stat.state, name: stat.name, disk_faults: stat.major_faults })
    }

    /// Returns the kernel function it sleeps in; `None` if unknown.
    pub(crate) fn sleeps_in(&self) -> Option<String> {
        let mut buffer = [0; 128];
        let name = self.wchan.as_ref()?.text(&mut buffer)?;
        (!matches!(name, "" | "0")).then(|| name.to_owned())
    }

    /// Returns its start time, in clock ticks since boot.
    pub(crate) fn started_ticks(&self) -> Option<u64> {
        Some(self.stat.read()?.started_ticks)
    }

    /// Returns its CPU usage: user time, system time, and page faults.
    pub(super) fn work(&self) -> Option<CpuUsage> {
        let stat = self.stat.read()?;
        Some(CpuUsage { faults: stat.minor_faults, user_ticks: stat.used.user, system_ticks: stat.used.system })
    }

    /// Returns how often it went to sleep.
    pub(crate) fn sleeps(&self) -> Option<u64> {
        self.status.sleeps()
    }

    /// Returns its activity; `None` if it is gone or not readable.
    pub(crate) fn doing(&self) -> Option<Doing> {
        Doing::parse(self.syscall.as_ref()?.text(&mut [0; 256])?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_proc_says_is_read() {
        assert_eq!(Scheduling::parse("100 20 3\n"), Some(Scheduling { run_ns: 100, runqueue_ns: 20, turns: 3 }));
        assert_eq!(Scheduling::parse("100 20"), None);
        assert_eq!(Doing::parse("running\n"), Some(Doing::Running));
        assert_eq!(Doing::parse("-1 0x7ffd 0x7f\n"), Some(Doing::Other));
        assert_eq!(Doing::parse("0 0x3 0x7f 0x1 0x0 0x0 0x0 0x7ffd 0x7f\n"), Some(Doing::Call(0, [3, 0x7f, 1, 0, 0, 0])));
        assert_eq!(Doing::parse(""), None);
    }

    #[test]
    fn our_own_thread_can_be_read() {
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let files = TaskFiles::open(std::process::id(), tid).expect("it is there");
        // The kernel updates a running thread's time at its next tick.
        while files.scheduling().expect("read").run_ns == 0 {}
        assert_eq!(files.state().expect("read").letter, 'R');
    }
}
