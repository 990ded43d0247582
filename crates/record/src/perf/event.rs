//! perf events as recorders open them, and the sampling clock.

use std::ffi::CString;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Sampling period: a millisecond, but out of step with ticks of 1, 4 and 10 ms. In step, every fourth sample would
/// have the same distance from the tick, and see the tick's effects ten times too often, or never.
pub(crate) const SAMPLE_NS: u64 = 1_003_009;

/// Sampling period where a few hundred samples are enough: for threads that have worked for a while.
pub(crate) const SELDOM_NS: u64 = 3_607_009;

/// Returns the numbers of the online CPUs.
pub(crate) fn online_processors() -> Vec<u32> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let mut all = Vec::new();
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) {
            all.extend(first..=last);
        }
    }
    all
}

/// The fields of `struct perf_event_attr` that the recorder sets; the rest is zero.
#[repr(C)]
#[derive(Default)]
pub(crate) struct PerfEvent {
    pub kind: u32,
    pub size: u32,
    pub config: u64,
    pub period: u64,
    pub sample_type: u64,
    pub read_format: u64,
    pub flags: u64,
    /// With [`flags::WATERMARK`]: the bytes in the ring at which a poll wakes.
    pub wakeup: u32,
    breakpoint: u32,
    pub config1: u64,
    pub config2: u64,
    branches: u64,
    /// Registers of user space that a sample carries.
    pub user_registers: u64,
    /// Bytes of the user stack that a sample carries.
    pub user_stack: u32,
    pub clock: i32,
    rest: [u64; 4],
}

/// Bits of [`PerfEvent::flags`].
pub(crate) mod flags {
    /// Children made later inherit the event.
    pub(crate) const INHERIT: u64 = 1 << 1;
    pub(crate) const EXCLUDE_KERNEL: u64 = 1 << 5;
    pub(crate) const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
    /// Names of threads.
    pub(crate) const COMM: u64 = 1 << 9;
    /// Ends of threads say how much they had counted.
    pub(crate) const INHERIT_COUNTS: u64 = 1 << 11;
    /// Starts and ends of threads.
    pub(crate) const TASK: u64 = 1 << 13;
    pub(crate) const WATERMARK: u64 = 1 << 14;
    /// Each record names its thread, time and CPU.
    pub(crate) const ID_IN_ALL: u64 = 1 << 18;
    pub(crate) const EXCLUDE_KERNEL_STACK: u64 = 1 << 21;
    /// Mappings of files as code, with their device or build identifier.
    pub(crate) const MAPPINGS: u64 = 1 << 8 | 1 << 23;
    /// Names made by an exec are marked.
    pub(crate) const COMM_EXEC: u64 = 1 << 24;
    /// [`super::PerfEvent::clock`] is the clock of times.
    pub(crate) const CLOCK: u64 = 1 << 25;
    /// Each time a thread is given a CPU or leaves it.
    pub(crate) const SWITCHES: u64 = 1 << 26;
    /// Mappings name their file by its build identifier (Linux 5.12).
    pub(crate) const BUILD_ID: u64 = 1 << 34;
}

/// Bits of [`PerfEvent::sample_type`].
pub(crate) mod sample {
    pub(crate) const INSTRUCTION: u64 = 1;
    pub(crate) const THREAD: u64 = 1 << 1;
    pub(crate) const TIME: u64 = 1 << 2;
    pub(crate) const CALL_CHAIN: u64 = 1 << 5;
    pub(crate) const CPU: u64 = 1 << 7;
    /// [`super::PerfEvent::user_registers`].
    pub(crate) const REGISTERS: u64 = 1 << 12;
    /// [`super::PerfEvent::user_stack`].
    pub(crate) const STACK: u64 = 1 << 13;
}

/// perf's type of software events.
const SOFTWARE: u32 = 1;

impl PerfEvent {
    /// A software event.
    pub(crate) fn software(config: u64) -> PerfEvent {
        PerfEvent { kind: SOFTWARE, size: u32::try_from(size_of::<PerfEvent>()).unwrap_or(0), config, ..PerfEvent::default() }
    }

    /// Opens the event for whatever runs on one CPU; closed on exec.
    pub(crate) fn open(&self, cpu: u32) -> std::io::Result<OwnedFd> {
        self.open_in(cpu, None)
    }

    /// Opens the event as part of a group, counted together with the group's first.
    pub(crate) fn open_in(&self, cpu: u32, group: Option<BorrowedFd<'_>>) -> std::io::Result<OwnedFd> {
        self.open_of(-1, libc::c_int::try_from(cpu).unwrap_or(0), group)
    }

    /// Opens the event for one thread on one CPU; −1 is any.
    pub(crate) fn open_of(&self, pid: libc::pid_t, cpu: libc::c_int, group: Option<BorrowedFd<'_>>) -> std::io::Result<OwnedFd> {
        const CLOSE_ON_EXEC: libc::c_int = 8;
        let group = group.map_or(-1, |group| group.as_raw_fd());
        // SAFETY: the structure is as large as it says; the rest are numbers.
        let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, std::ptr::from_ref(self), pid, cpu, group, CLOSE_ON_EXEC) };
        if fd < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: the call made this descriptor, and it has no other owner.
        Ok(unsafe { OwnedFd::from_raw_fd(libc::c_int::try_from(fd).unwrap_or(-1)) })
    }
}

/// Opens a software clock that expires a thousand times a second on one CPU.
pub(crate) fn clock_event(cpu: u32) -> std::io::Result<OwnedFd> {
    const CLOCK: u64 = 0;
    PerfEvent { period: SAMPLE_NS, ..PerfEvent::software(CLOCK) }.open(cpu)
}

/// Opens an event (a uprobe) for each call, in process `pid` only, of the function at `offset` of the file at `path`.
///
/// # Errors
/// The kernel lacks uprobes, or refuses one.
pub(crate) fn function_event(pid: u32, path: &Path, offset: u64) -> std::io::Result<OwnedFd> {
    let kind = std::fs::read_to_string("/sys/bus/event_source/devices/uprobe/type")?;
    let kind = kind.trim().parse().map_err(std::io::Error::other)?;
    let path = CString::new(path.as_os_str().as_bytes())?;
    let event = PerfEvent { kind, config1: path.as_ptr() as u64, config2: offset, ..PerfEvent::software(0) };
    event.open_of(libc::pid_t::try_from(pid).map_err(std::io::Error::other)?, -1, None)
}
