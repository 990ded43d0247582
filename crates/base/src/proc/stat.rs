//! One process or thread, from `/proc/PID/stat`.
//!
//! The line holds numbers and the name in parentheses. The name may contain spaces, parentheses or half a character, so the line is split
//! at the first opening and the last closing parenthesis.

use super::task_file::TaskFile;
use std::fs::File;
use std::io::{Read, Result};
use std::time::Duration;

/// Longer than any line.
const MOST_BYTES: usize = 1024;

/// The fields of the line that are used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// The process or thread ID.
    pub pid: u32,
    /// The name, at most 15 bytes; invalid UTF-8 is replaced.
    pub name: String,
    /// The state as one letter: running, sleeping, ...
    pub state: char,
    /// The process that started or adopted it.
    pub parent: u32,
    /// Its process group.
    pub group: u32,
    /// Its session.
    pub session: u32,
    /// The kernel's flags (`PF_...`).
    pub flags: u64,
    /// Minor page faults, which needed no disk.
    pub minor_faults: u64,
    /// Major page faults, which waited for a disk.
    pub major_faults: u64,
    /// CPU time in user and kernel mode, including threads that have ended, in clock ticks.
    pub used: Ticks,
    /// CPU time of children it has waited for, and of their children.
    pub children_used: Ticks,
    /// Start time in clock ticks since boot; together with the ID it identifies a process across reuse of IDs.
    pub started_ticks: u64,
    /// Its exit status as `wait` returns it; 0 if unknown or not readable.
    pub exit_code: u64,
}

/// CPU time in user and kernel mode, in clock ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticks {
    /// In user mode.
    pub user: u64,
    /// In kernel mode.
    pub system: u64,
}

impl Ticks {
    /// Adds both fields.
    #[must_use]
    pub fn plus(self, more: Ticks) -> Ticks {
        Ticks { user: self.user + more.user, system: self.system + more.system }
    }

    /// Subtracts both fields, stopping at 0.
    #[must_use]
    pub fn less(self, other: Ticks) -> Ticks {
        Ticks { user: self.user.saturating_sub(other.user), system: self.system.saturating_sub(other.system) }
    }

    /// Returns the sum of both as a duration.
    pub fn duration(self) -> Duration {
        Duration::from_nanos((self.user + self.system).saturating_mul(tick_ns()))
    }
}

/// Returns the length of a clock tick in nanoseconds: the unit of CPU time and start times in /proc.
pub fn tick_ns() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)
}

impl Stat {
    /// Reads a process's line; `None` if the process has ended. Uses a single read: a table has hundreds of lines.
    pub fn of(pid: u32) -> Option<Stat> {
        let mut line = [0; MOST_BYTES];
        let length = File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut line).ok()?;
        Stat::parse(line.get(..length)?)
    }

    /// Parses a line.
    pub fn parse(line: &[u8]) -> Option<Stat> {
        let open = line.iter().position(|byte| *byte == b'(')?;
        let close = line.iter().rposition(|byte| *byte == b')').filter(|close| *close > open)?;
        let text = |bytes| std::str::from_utf8(bytes).ok();
        let pid = text(&line[..open])?.trim().parse().ok()?;
        let name = String::from_utf8_lossy(&line[open + 1..close]).into_owned();
        let mut fields = text(&line[close + 1..])?.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        // The next field is number 4 in proc(5).
        let mut at = 4;
        let mut number = |field: usize| {
            let skipped = field - std::mem::replace(&mut at, field + 1);
            fields.nth(skipped)?.parse::<u64>().ok()
        };
        let small = |number: Option<u64>| u32::try_from(number?).ok();
        Some(Stat {
            pid,
            name,
            state,
            parent: small(number(4))?,
            group: small(number(5))?,
            session: small(number(6))?,
            flags: number(9)?,
            minor_faults: number(10)?,
            major_faults: number(12)?,
            used: Ticks { user: number(14)?, system: number(15)? },
            children_used: Ticks { user: number(16)?, system: number(17)? },
            started_ticks: number(22)?,
            exit_code: number(52).unwrap_or(0),
        })
    }

    /// Returns whether this is a kernel thread.
    pub fn is_kernel(&self) -> bool {
        const PF_KTHREAD: u64 = 0x0020_0000;
        self.flags & PF_KTHREAD != 0
    }

    /// Returns whether it is exiting.
    pub fn is_exiting(&self) -> bool {
        const PF_EXITING: u64 = 0x4;
        self.flags & PF_EXITING != 0
    }
}

/// The open `stat` file of one thread: each read is a single system call.
#[derive(Debug)]
pub struct ThreadStat(TaskFile);

impl ThreadStat {
    /// Opens the file.
    ///
    /// # Errors
    /// The thread has ended.
    pub fn open(pid: u32, tid: u32) -> Result<ThreadStat> {
        TaskFile::open(pid, tid, "stat").map(ThreadStat)
    }

    /// Reads the thread's line; `None` if it has ended.
    pub fn read(&self) -> Option<Stat> {
        Stat::parse(self.0.read(&mut [0; MOST_BYTES])?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_is_read_whole() {
        let text = b"42 (a) b (c)) S 7 8 9 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 777 8 9";
        let stat = Stat::parse(text).expect("parsed");
        assert_eq!((stat.pid, stat.name.as_str(), stat.state), (42, "a) b (c)", 'S'));
        assert_eq!((stat.parent, stat.group, stat.session, stat.started_ticks), (7, 8, 9, 777));
        assert_eq!((stat.minor_faults, stat.major_faults), (1, 3));
        assert_eq!((stat.used, stat.children_used), (Ticks { user: 5, system: 6 }, Ticks { user: 7, system: 8 }));
        assert!(!stat.is_kernel() && !stat.is_exiting() && stat.exit_code == 0);
    }

    #[test]
    fn a_name_that_was_cut_within_a_character_hides_no_process() {
        let stat = Stat::parse(b"42 (caf\xc3) S 7 8 9 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 777 8 9").expect("parsed");
        assert_eq!((stat.name.as_str(), stat.parent), ("caf\u{fffd}", 7));
    }

    #[test]
    fn flags_and_the_exit_code_say_who_is_killed() {
        let line = |flags: u64, code: u64| {
            let between = "1 ".repeat(29);
            format!("7 (cp (x) y) S 1 1 1 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 5 {between}{code}\n")
        };
        let read = |flags, code| Stat::parse(line(flags, code).as_bytes()).expect("parsed");
        assert_eq!((read(0x4, 9).is_exiting(), read(0x4, 9).exit_code), (true, 9));
        assert!(read(0x0020_0000, 0).is_kernel() && !read(0x0020_0000, 0).is_exiting());
    }

    #[test]
    fn what_is_no_line_is_none() {
        for text in ["", "42 (short) S 1", "7 (a) S", ") 1 (", "x (a) S 7 8 9 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 777 8 9"] {
            assert_eq!(Stat::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn our_own_line_is_read() {
        let own = Stat::of(std::process::id()).expect("it is there");
        assert!(own.parent != 0 && own.started_ticks > 0 && !own.is_kernel(), "{own:?}");
        let thread = ThreadStat::open(own.pid, rustix::thread::gettid().as_raw_nonzero().get() as u32).expect("opened").read();
        assert_eq!(thread.map(|thread| (thread.state, thread.parent)), Some(('R', own.parent)));
        assert_eq!(Stat::of(u32::MAX), None);
    }

    #[test]
    fn ticks_are_as_long_as_the_system_says() {
        assert_eq!(tick_ns() * rustix::param::clock_ticks_per_second(), 1_000_000_000);
        assert_eq!(Ticks { user: 3, system: 4 }.duration(), Duration::from_nanos(7 * tick_ns()));
    }
}
