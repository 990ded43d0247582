//! One thread, as /proc shows it.

use super::kernel::Work;
use thalweg_base::proc::stat::ThreadStat;
use thalweg_base::proc::status::ThreadStatus;
use thalweg_base::proc::task_file::TaskFile;

/// Accumulated since the thread began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scheduling {
    /// Time running.
    pub run_ns: u64,
    /// Time runnable and not running.
    pub runqueue_ns: u64,
    /// How often it was given a processor.
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

/// What a thread does at the moment it is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// It runs, or could.
    Running,
    /// Blocked in a system call: its number and arguments.
    Call(i64, [u64; 6]),
    /// Blocked outside any (a page fault, stopped, ...), or it may not be read.
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

/// What a thread is, at a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// Its state's letter.
    pub letter: char,
    /// Its name.
    pub name: String,
    /// Page faults that waited for a disk, since it began.
    pub disk_faults: u64,
}

/// The files of one thread in /proc, kept open: a reading is then one system call.
#[derive(Debug)]
pub(crate) struct TaskFiles {
    schedstat: TaskFile,
    stat: ThreadStat,
    status: ThreadStatus,
    /// Absent where only the thread's owner, or nobody, may read it.
    syscall: Option<TaskFile>,
    /// Absent where the kernel has no names of its functions.
    wchan: Option<TaskFile>,
}

impl TaskFiles {
    /// Opens them; `None` where the thread is gone.
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

    /// Its times; `None` where the thread is gone.
    pub(crate) fn scheduling(&self) -> Option<Scheduling> {
        Scheduling::parse(self.schedstat.text(&mut [0; 128])?)
    }

    /// Its state; `None` where it is gone.
    pub(crate) fn state(&self) -> Option<State> {
        let stat = self.stat.read()?;
        Some(State { letter: stat.state, name: stat.name, disk_faults: stat.major_faults })
    }

    /// The kernel's function that it sleeps in; `None` where that is not known.
    pub(crate) fn sleeps_in(&self) -> Option<String> {
        let mut buffer = [0; 128];
        let name = self.wchan.as_ref()?.text(&mut buffer)?;
        (!matches!(name, "" | "0")).then(|| name.to_owned())
    }

    /// When it began, in clock ticks since boot.
    pub(crate) fn started_ticks(&self) -> Option<u64> {
        Some(self.stat.read()?.started_ticks)
    }

    /// What it has worked: in the program, in the kernel, and page faults.
    pub(super) fn work(&self) -> Option<Work> {
        let stat = self.stat.read()?;
        Some(Work { faults: stat.minor_faults, user_ticks: stat.used.user, system_ticks: stat.used.system })
    }

    /// How often it went to sleep.
    pub(crate) fn sleeps(&self) -> Option<u64> {
        self.status.sleeps()
    }

    /// What it does; `None` where it is gone or may not be asked.
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
        // A running thread's time is brought up to date at the kernel's next tick.
        while files.scheduling().expect("read").run_ns == 0 {}
        assert_eq!(files.state().expect("read").letter, 'R');
    }
}
