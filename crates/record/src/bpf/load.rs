//! Loads and attaches the programs, and reads their cost from the kernel.

use super::file_counts::{COUNTED, COUNTS, STAND_INS};
use super::raw::{Control, Settings};
use super::sampling::Sampling;
use crate::RecordError;
use crate::kernel::cost::Cost;
#[cfg(test)]
use crate::kernel::cost::facts;
use crate::kernel::object::{Loaded, Opened, Program, When, attach, descriptor, failed};
use crate::kernel::tracepoints::Tracepoints;
use crate::perf::{SAMPLE_NS, clock_event, online_processors};
use libbpf_rs::{Map, MapCore, MapFlags, libbpf_sys};
use std::cell::OnceCell;
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// The object compiled from `bpf/recorder.bpf.c`.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/recorder.bpf.o"));

/// Name in messages.
pub(crate) const WHO: &str = "the kernel recorder";

/// Required tracepoints.
pub(crate) const NEEDED: &[&str] = &["sched_switch", "sched_waking", "sched_process_fork"];

/// Optional tracepoints: program, tracepoint, and what is not seen without it.
pub(crate) const OPTIONAL: &[(&str, &str, &str)] = &[
    ("on_wakeup_new", "sched_wakeup_new", "the threads of io_uring"),
    ("on_exec", "sched_process_exec", "the names of executed programs"),
    ("on_exit", "sched_process_exit", "the last activity of threads"),
    ("on_send", "sock_send_length", "data sent on connections"),
    ("on_receive", "sock_recv_length", "data received on connections"),
    ("on_tcp_probe", "tcp_probe", "the state of TCP, and which connection ends a wait"),
    ("on_data_ready", "sk_data_ready", "which connection ends a wait, while it is being closed"),
    ("on_retransmit", "tcp_retransmit_skb", "TCP retransmissions"),
    ("on_tcp_state", "inet_sock_set_state", "which end of a connection is the client"),
    ("on_block_start", "block_io_start", "which thread asks for a disk request"),
    ("on_block_issue", "block_rq_issue", "disk requests"),
    ("on_block_complete", "block_rq_complete", "disk requests"),
    ("on_balance_dirty_pages", "balance_dirty_pages", "throttling of writers"),
    ("on_wait_writeback", "folio_wait_writeback", "waits for pages being written"),
    ("on_fault", "mm_filemap_fault", "which mapped file a fault reads"),
    ("on_softirq_entry", "softirq_entry", "waits ended by the network"),
    ("on_softirq_exit", "softirq_exit", "waits ended by the network"),
    ("on_irq_entry", "irq_handler_entry", "waits ended by a device"),
    ("on_irq_exit", "irq_handler_exit", "waits ended by a device"),
    ("on_timer_entry", "hrtimer_expire_entry", "waits ended by a timer"),
    ("on_timer_exit", "hrtimer_expire_exit", "waits ended by a timer"),
    ("on_signal", "signal_generate", "senders of signals"),
];

/// Returns what is not seen without an optional program; `None` if it is required.
fn lost_without(program: &str) -> Option<&'static str> {
    let counts = COUNTED.iter().map(|(name, _)| name).chain(STAND_INS.iter().map(|(name, _, _)| name)).any(|name| *name == program);
    let counts = counts.then_some(COUNTS);
    OPTIONAL.iter().find(|(name, _, _)| *name == program).map(|(_, _, what)| *what).or(counts)
}

/// Programs of the tier `syscall`, with their tracepoints.
const CALL_PROGRAMS: &[(&str, &str)] = &[("on_call_entry", "sys_enter"), ("on_call_exit", "sys_exit")];

/// The program that runs at each page cache read on the machine.
const READS: &str = "on_read_pages";

/// The program that runs at each system call's end on the machine: attached while a recorded thread pauses.
const LOOKS: &str = "on_look";

/// The program that runs at each system call's end on the machine, for the command's last output: attached while
/// there are few calls.
const WORDS: &str = "on_words";

/// Interval at which the counting of reads is reviewed. It is given up if it ran more often than this since the last
/// review, which takes about a hundredth of a CPU, and this many times per file.
const WEIGH: Duration = Duration::from_millis(200);
const MOST_READS: u64 = 10_000;
const READS_A_FILE: u64 = 8;

/// Whether this many reads of this many files in this time are many per file.
fn is_about_bytes(within: Duration, runs: u64, files: u32) -> bool {
    u128::from(runs) * WEIGH.as_nanos() > u128::from(MOST_READS) * within.as_nanos() && runs > READS_A_FILE * u64::from(files)
}

/// The loaded programs.
pub(crate) struct Programs {
    loaded: Loaded,
    /// Links, attached while open.
    links: Vec<OwnedFd>,
    /// The program that records polling calls, once it was needed.
    looking: OnceCell<Option<Program>>,
    sampling: Sampling,
    /// Link of the program that counts reads, while it is worth its cost.
    reads: Option<OwnedFd>,
    /// Time, runs and counted files at its last review.
    reads_before: (Instant, u64, u32),
    /// Reads were counted for part of the time only.
    pub gave_up_reads: bool,
    /// Facts not seen because the kernel lacks a feature.
    pub missing: Vec<String>,
}

impl std::fmt::Debug for Programs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Programs").field("missing", &self.missing).finish_non_exhaustive()
    }
}

impl Programs {
    /// Loads and attaches everything the kernel supports. No process is watched yet.
    pub(crate) fn load(settings: &Settings, tracepoints: &Tracepoints, ring_bytes: u32) -> Result<Programs, RecordError> {
        // A kernel may list a function to which programs cannot be attached (inlined, renamed, without trampolines).
        let without = || Programs::loaded(settings, tracepoints, ring_bytes, false);
        let mut programs = match function_programs() {
            Ok(()) => Programs::loaded(settings, tracepoints, ring_bytes, true).or_else(|_| without())?,
            Err(_) => without()?,
        };
        programs.attach()?;
        Ok(programs)
    }

    /// Loads everything the kernel supports, and attaches it to its tracepoints; to its functions only if `counting`.
    fn loaded(settings: &Settings, tracepoints: &Tracepoints, ring_bytes: u32, counting: bool) -> Result<Programs, RecordError> {
        let mut opened = Opened::new(OBJECT, tracepoints, WHO)?;
        let open = &mut opened.open;
        let mut missing: Vec<String> = tracepoints.not_counted(counting).into_iter().map(str::to_owned).collect();
        for mut program in open.progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            let no_tracepoint = OPTIONAL.iter().any(|(n, t, _)| *n == name && !tracepoints.has(t));
            let call = CALL_PROGRAMS.iter().any(|(n, _)| *n == name);
            if tracepoints.counts(&name, counting) == Some(false) {
                program.set_autoload(false);
            }
            if let Some(what) = lost_without(&name).filter(|_| no_tracepoint) {
                if !missing.iter().any(|m| m == what) {
                    missing.push(what.to_owned());
                }
                program.set_autoload(false);
            }
            // (If every call is traced, failing ones are recorded anyway.)
            if (name == LOOKS || name == WORDS) && (settings.trace_calls != 0 || !tracepoints.has("sys_exit")) {
                program.set_autoload(false);
            }
            if call && settings.trace_calls == 0 {
                program.set_autoload(false);
            }
        }
        for mut map in open.maps_mut() {
            if map.name().to_string_lossy().ends_with(".rodata") {
                let bytes = settings.bytes();
                map.set_initial_value(&bytes).map_err(failed(WHO, "cannot set up its programs"))?;
            }
            if map.name() == OsStr::new("ring") {
                map.set_max_entries(ring_bytes).map_err(failed(WHO, "cannot set up its ring"))?;
            }
        }
        // (The polling program is attached during pauses, which are rare.)
        let when = |name: &str, section: &str| match name {
            LOOKS => When::Later,
            _ if section == "uprobe" => When::Later,
            WORDS => When::Loaded,
            _ if section.starts_with("tp_btf/") || section.starts_with("fentry/") => When::Attached,
            _ => When::Loaded,
        };
        Ok(Programs {
            loaded: opened.prepare()?.load(tracepoints, when)?,
            links: Vec::new(),
            looking: OnceCell::new(),
            sampling: Sampling::default(),
            reads: None,
            reads_before: (Instant::now(), 0, 0),
            gave_up_reads: false,
            missing,
        })
    }

    /// Collects what could not be attached, and starts sampling.
    fn attach(&mut self) -> Result<(), RecordError> {
        for program in &mut self.loaded.programs {
            match (program.link.take(), lost_without(&program.name)) {
                (None, _) => {}
                (Some(Ok(link)), _) if program.name == READS => self.reads = Some(link),
                (Some(Ok(link)), _) => self.links.push(link),
                (Some(Err(error)), Some(what)) if !self.missing.iter().any(|m| m.starts_with(what)) => {
                    self.missing.push(format!("{what} ({error})"));
                }
                (Some(Err(_)), Some(_)) => {}
                (Some(Err(error)), None) => {
                    return Err(RecordError::Failed(format!("the kernel recorder cannot attach to the kernel's tracepoints: {error}")));
                }
            }
        }
        if let Err(problem) = self.sample() {
            self.missing.push(format!("the activity of running threads ({problem})"));
        }
        Ok(())
    }

    /// Reviews the counting of reads, periodically; gives it up if much is read of each file. Such a run is about
    /// bytes, and each read would take longer.
    pub(crate) fn weigh_reads(&mut self, now: Instant) {
        let (before, runs_before, files_before) = self.reads_before;
        if self.reads.is_none() || now - before < WEIGH {
            return;
        }
        self.reads_before = (now, self.sum("page_reads"), self.control().read);
        let (runs, files) = (self.reads_before.1 - runs_before, self.reads_before.2.wrapping_sub(files_before));
        if is_about_bytes(now - before, runs, files) {
            self.reads = None;
            self.gave_up_reads = true;
        }
    }

    /// Adjusts the sampling rate, given the number of samples so far; call it periodically.
    pub(crate) fn pace_samples(&mut self, now: Instant, samples: u64) {
        if let Some(period_ns) = self.sampling.tick(now, samples) {
            let _ = self.set_pace(period_ns);
        }
    }

    /// Sets the time that a sample represents.
    fn set_pace(&self, period_ns: u64) -> Result<(), String> {
        let map = self.map("pace").ok_or("no map of how long a sample stands for")?;
        map.update(&0_u32.to_ne_bytes(), &period_ns.to_ne_bytes(), MapFlags::ANY).map_err(|e| format!("{e:#}"))
    }

    /// Records polling calls until the link is closed; `None` if that is not possible.
    pub(crate) fn record_looks(&self) -> Option<OwnedFd> {
        attach(self.looking()?.fd.as_fd(), "tp_btf/").ok()
    }

    /// Records the command's last output until the link is closed; `None` if that is not possible.
    pub(crate) fn record_words(&self) -> Option<OwnedFd> {
        attach(self.loaded.program(WORDS)?.fd.as_fd(), "tp_btf/").ok()
    }

    fn looking(&self) -> Option<&Program> {
        self.looking.get_or_init(|| self.load_later(LOOKS)).as_ref()
    }

    /// Loads a program that is only loaded where it is needed; `None` where the kernel refuses.
    pub(crate) fn load_later(&self, name: &str) -> Option<Program> {
        self.loaded.later.iter().find(|later| later.name() == name)?.load().ok()
    }

    /// Starts a sampling clock on each CPU.
    fn sample(&mut self) -> Result<(), String> {
        self.set_pace(SAMPLE_NS)?;
        for cpu in online_processors() {
            let clock = clock_event(cpu).map_err(|e| format!("perf_event_open: {e}"))?;
            self.links.push(self.loaded.run_by("on_sample", &clock).map_err(|e| e.to_string())?);
            self.sampling.add(clock);
        }
        Ok(())
    }

    /// Returns a map by name.
    pub(crate) fn map(&self, name: &str) -> Option<Map<'_>> {
        self.loaded.map(name)
    }

    /// Returns the programs' global variables.
    pub(crate) fn control(&self) -> Control {
        self.loaded.variables().and_then(|bytes| Control::parse(&bytes)).unwrap_or_default()
    }

    /// Watches a process: `role` as in `raw::ROLE_*`, with its depth above the low byte. Takes effect with
    /// [`Programs::walk`] of `seed`.
    pub(crate) fn watch(&self, pid: u32, role: u32) -> Result<(), RecordError> {
        let map =
            self.map("seeds").ok_or_else(|| RecordError::Failed("the kernel recorder has no map of processes to watch".to_owned()))?;
        map.update(&pid.to_ne_bytes(), &role.to_ne_bytes(), MapFlags::ANY).map_err(failed(WHO, "cannot add a process to watch"))
    }

    /// Records requests of this disk from now on.
    pub(crate) fn watch_disk(&self, number: u32) {
        if let Some(map) = self.map("devices") {
            let _ = map.update(&number.to_ne_bytes(), &1_u32.to_ne_bytes(), MapFlags::ANY);
        }
    }

    /// Returns a program by name, to be run by the reader.
    pub(crate) fn program(&self, name: &str) -> Option<OwnedFd> {
        self.loaded.program(name)?.fd.try_clone().ok()
    }

    /// Runs one of the walks over all threads: `seed` or `sweep`.
    pub(crate) fn walk(&self, name: &str) -> Result<(), RecordError> {
        let program = self.loaded.program(name).ok_or_else(|| RecordError::Failed(format!("the kernel recorder has no program {name}")))?;
        let cannot = |error: std::io::Error| RecordError::Failed(format!("the kernel recorder cannot walk over the threads: {error}"));
        let link = attach(program.fd.as_fd(), "iter/").map_err(cannot)?;
        // SAFETY: the descriptor is a link's, and stays open.
        let walk = descriptor(unsafe { libbpf_sys::bpf_iter_create(link.as_raw_fd()) }).map_err(cannot)?;
        std::io::copy(&mut std::fs::File::from(walk), &mut std::io::sink()).map(drop).map_err(cannot)
    }

    /// Stops recording.
    pub(crate) fn stop(&self) {
        self.loaded.set_first_variable(1);
    }

    /// Returns the records that did not fit into the ring so far.
    pub(crate) fn lost(&self) -> u64 {
        self.sum("lost")
    }

    /// Returns the system calls, of all programs, that ended while polling calls were recorded.
    pub(crate) fn calls_ended(&self) -> u64 {
        self.sum("calls_ended")
    }

    /// Sums a per-CPU number.
    fn sum(&self, map: &str) -> u64 {
        let each = self.loaded.of_processors(map);
        each.iter().filter_map(|bytes| Some(u64::from_ne_bytes(bytes.get(..8)?.try_into().ok()?))).sum()
    }

    /// Returns the programs' cost while counting was on.
    pub(crate) fn cost(&self) -> Cost {
        Cost::of(self.programs())
    }

    /// Returns how many instructions the verifier processed for each program, the cost of loading it. 0 if the kernel
    /// does not say (before 5.16).
    #[cfg(test)]
    pub(crate) fn verified(&self) -> Vec<(String, u32)> {
        let _ = self.looking();
        self.programs().filter_map(|program| Some((program.name.clone(), facts(program)?.verified_insns))).collect()
    }

    fn programs(&self) -> impl Iterator<Item = &Program> {
        self.loaded.programs.iter().chain(self.looking.get().into_iter().flatten())
    }
}

/// Whether programs may be attached to kernel functions at all: some systems allow tracepoints only. Requests one
/// without a function, so that nothing is loaded: this costs a system call, while a rejection of all programs
/// together would cost loading them twice.
pub(crate) fn function_programs() -> std::io::Result<()> {
    // r0 = 0; exit.
    let code = [0xb7_u64, 0x95].map(u64::to_le_bytes).concat();
    let mut options = libbpf_sys::bpf_prog_load_opts {
        sz: size_of::<libbpf_sys::bpf_prog_load_opts>() as libbpf_sys::size_t,
        expected_attach_type: libbpf_sys::BPF_TRACE_FENTRY,
        ..Default::default()
    };
    // SAFETY: the code is of two instructions, the names are C strings, the options as large as they say.
    let refused = unsafe {
        let (kind, license) = (libbpf_sys::BPF_PROG_TYPE_TRACING, c"GPL".as_ptr());
        libbpf_sys::bpf_prog_load(kind, c"thalweg_probe".as_ptr(), license, code.as_ptr().cast(), 2, &raw mut options)
    };
    match std::io::Error::from_raw_os_error(-refused) {
        error if error.kind() == std::io::ErrorKind::PermissionDenied => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_reads_of_few_files_are_about_bytes_and_few_of_each_or_seldom_ones_are_not() {
        let most = u32::try_from(MOST_READS).unwrap();
        assert!(is_about_bytes(WEIGH, MOST_READS + 1, 1));
        assert!(!is_about_bytes(WEIGH, MOST_READS, 1));
        assert!(!is_about_bytes(2 * WEIGH, 2 * MOST_READS, 1), "it was weighed late");
        assert!(!is_about_bytes(WEIGH, READS_A_FILE * MOST_READS, most));
    }
}
