//! Loads the programs of a profile, and reads their cost from the kernel.

use super::counts::{Opened, RequestedEvents, value_of};
use super::raw::{Times, WaitCounts};
use crate::kernel::cost::Cost;
use crate::kernel::object::{self, Loaded, When, failed};
use crate::kernel::tracepoints::Tracepoints;
use crate::perf::{clock_event, online_processors};
use crate::{RecordError, kernel};
use libbpf_rs::{Map, MapCore, MapFlags, OpenMapMut, OpenObject, libbpf_sys};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// The object compiled from `bpf/profile.bpf.c`.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/profile.bpf.o"));

/// Name in messages.
pub(crate) const WHO: &str = "the profile";

/// Required tracepoints: without them, idle time and software interrupts are unknown.
const NEEDED: &[&str] = &["sched_switch", "softirq_entry", "softirq_exit"];

/// Programs that take stacks of waits, and their tracepoints, best first. The last works on every supported kernel.
pub(super) const WAITS: [(&str, &str); 2] = [("on_wait_over", "sched_exit_tp"), ("on_wait_switch", "sched_switch")];

/// Ring size: three seconds of two busy CPUs at a thousand samples per second with 40 frames; it doubles with them.
const RING_BYTES: u32 = 2 << 20;
const MOST_RING_BYTES: u32 = 64 << 20;
const FEW_PROCESSORS: usize = 2;

/// Stack copies in the ring: a second of two busy CPUs.
const COPIES_IN_RING: u32 = 2_048;
const MOST_RING_BYTES_OF_COPIES: u32 = 256 << 20;

/// Options beyond plain samples.
#[derive(Debug, Default)]
pub(crate) struct Choices {
    /// The thread map of a simultaneous recorder, whose threads' wait stacks are then taken too.
    pub threads: Option<OwnedFd>,
    /// Bytes copied of each user stack; 0: frame pointers are followed instead.
    pub stack_bytes: u32,
    /// Events to count.
    pub events: RequestedEvents,
}

/// The loaded programs.
pub(crate) struct Programs {
    loaded: Loaded,
    /// Links, attached while open.
    links: Vec<OwnedFd>,
    processors: Vec<u32>,
    takes_waits: bool,
}

impl std::fmt::Debug for Programs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Programs").field("processors", &self.processors).finish_non_exhaustive()
    }
}

/// Returns the kernel's tracepoints, if programs may be loaded and a clock may sample all CPUs.
///
/// # Errors
/// The missing setting or right.
pub(crate) fn allowed() -> Result<Tracepoints, RecordError> {
    let tracepoints = kernel::probe::allowed(WHO, NEEDED, &[])?;
    clock_event(online_processors().first().copied().unwrap_or(0)).map_err(|error| refused(&error))?;
    Ok(tracepoints)
}

fn refused(error: &std::io::Error) -> RecordError {
    let setting = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    RecordError::NotAllowed(format!(
        "the kernel does not allow a clock that samples all CPUs (perf_event_open: {error}; kernel.perf_event_paranoid is {}): run as \
         root, or give the command CAP_PERFMON and CAP_BPF (setcap cap_perfmon,cap_bpf+ep)",
        if setting.trim().is_empty() { "missing" } else { setting.trim() }
    ))
}

/// Returns the ring's size: a power of two, as the kernel requires.
fn ring_bytes(processors: usize, stack_bytes: u32) -> u32 {
    let times = u32::try_from(processors.div_ceil(FEW_PROCESSORS).next_power_of_two()).unwrap_or(u32::MAX);
    let (bytes, most) = match stack_bytes {
        0 => (RING_BYTES, MOST_RING_BYTES),
        _ => (stack_bytes.saturating_mul(COPIES_IN_RING).max(RING_BYTES), MOST_RING_BYTES_OF_COPIES),
    };
    bytes.saturating_mul(times).min(most).next_power_of_two()
}

/// Sets the programs' settings, and sizes the maps for `online` CPUs with ids below `cpus`.
fn set_up(open: &mut OpenObject, choices: &Choices, events: &Opened, (online, cpus): (usize, u32)) -> Result<(), RecordError> {
    let Choices { threads, stack_bytes, .. } = choices;
    let bytes = ring_bytes(online, *stack_bytes);
    let event_count = u32::try_from(events.counters.len()).unwrap_or(0);
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        let room =
            |entries: u32, map: &mut OpenMapMut<'_>| map.set_max_entries(entries).map_err(failed(WHO, "cannot make room in its maps"));
        match name.as_str() {
            name if name.ends_with(".rodata") => {
                let settings = [bytes.ilog2() - 2, *stack_bytes, event_count, cpus].map(u32::to_ne_bytes).concat();
                map.set_initial_value(&settings).map_err(failed(WHO, "cannot set up its programs"))?;
            }
            "ring" => room(bytes, &mut map)?,
            "copies" if *stack_bytes > 0 => room(cpus, &mut map)?,
            "events" => room((event_count * cpus).max(1), &mut map)?,
            "threads" => {
                if let Some(threads) = threads {
                    map.reuse_fd(threads.as_fd()).map_err(failed(WHO, "cannot use the recorder's thread map"))?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

impl Programs {
    /// Loads and attaches everything the kernel supports, and begins.
    pub(crate) fn load(tracepoints: &Tracepoints, choices: &Choices, events: &Opened) -> Result<Programs, RecordError> {
        let waits = WAITS.into_iter().find(|(_, tracepoint)| choices.threads.is_some() && tracepoints.has(tracepoint));
        Programs::load_with(tracepoints, choices, events, waits.map(|(name, _)| name))
    }

    /// Loads with this program for the stacks of waits.
    pub(super) fn load_with(
        tracepoints: &Tracepoints,
        choices: &Choices,
        events: &Opened,
        of_waits: Option<&str>,
    ) -> Result<Programs, RecordError> {
        let processors = online_processors();
        // CPU ids have gaps if some CPUs are offline.
        let cpus = processors.iter().max().map_or(1, |last| last + 1);
        let mut opened = object::Opened::new(OBJECT, tracepoints, WHO)?;
        for mut program in opened.open.progs_mut() {
            let (section, name) = (program.section().to_string_lossy().into_owned(), program.name().to_string_lossy().into_owned());
            let is_unused = WAITS.iter().any(|(unused, _)| *unused == name) && of_waits != Some(name.as_str());
            if is_unused || section.strip_prefix("tp_btf/").is_some_and(|name| !tracepoints.has(name)) {
                program.set_autoload(false);
            }
        }
        set_up(&mut opened.open, choices, events, (processors.len(), cpus))?;
        let when = |_: &str, section: &str| if section.starts_with("tp_btf/") { When::Attached } else { When::Loaded };
        let loaded = opened.prepare()?.load(tracepoints, when)?;
        let mut programs = Programs { loaded, links: Vec::new(), processors, takes_waits: of_waits.is_some() };
        programs.count(events, cpus)?;
        programs.attach()?;
        Ok(programs)
    }

    /// Passes the event counters to the sampler.
    fn count(&self, events: &Opened, cpus: u32) -> Result<(), RecordError> {
        let Some(map) = self.loaded.map("events") else { return Ok(()) };
        for (number, counters) in (0_u32..).zip(&events.counters) {
            for (cpu, fd) in counters {
                let key = (number * cpus + cpu).to_ne_bytes();
                map.update(&key, &value_of(fd), MapFlags::ANY).map_err(failed(WHO, "cannot set up its counters"))?;
            }
        }
        Ok(())
    }

    fn attach(&mut self) -> Result<(), RecordError> {
        let cannot = |to: &str, error| RecordError::Failed(format!("{WHO} cannot attach to the {to}: {error}"));
        for link in self.loaded.programs.iter_mut().filter_map(|program| program.link.take()) {
            self.links.push(link.map_err(|error| cannot("kernel's tracepoints", error))?);
        }
        for cpu in &self.processors {
            let clock = clock_event(*cpu).map_err(|error| refused(&error))?;
            // (The link keeps the clock open.)
            self.links.push(self.loaded.run_by("on_sample", &clock).map_err(|error| cannot("clock", error))?);
        }
        Ok(())
    }

    /// Returns the ring of samples.
    pub(crate) fn ring(&self) -> Option<Map<'_>> {
        self.loaded.map("ring")
    }

    /// Starts or stops sampling and counting.
    pub(crate) fn run(&self, on: bool) {
        self.loaded.set_first_variable(on.into());
    }

    /// Charges each CPU's time up to now, and returns how each has spent its time.
    pub(crate) fn settle(&self) -> Vec<(u32, Times)> {
        if let Some(settle) = self.loaded.program("settle") {
            for cpu in &self.processors {
                let mut options = libbpf_sys::bpf_test_run_opts {
                    sz: size_of::<libbpf_sys::bpf_test_run_opts>() as u64,
                    flags: libbpf_sys::BPF_F_TEST_RUN_ON_CPU,
                    cpu: *cpu,
                    ..Default::default()
                };
                // SAFETY: the descriptor is the program's, and the structure has the stated size.
                let _ = unsafe { libbpf_sys::bpf_prog_test_run_opts(settle.fd.as_raw_fd(), &raw mut options) };
            }
        }
        let all = self.loaded.of_processors("processors");
        let of = |cpu: &u32| Some((*cpu, Times::parse(all.get(usize::try_from(*cpu).ok()?)?)?));
        self.processors.iter().filter_map(of).collect()
    }

    /// Whether stacks of waits are taken.
    pub(crate) fn takes_waits(&self) -> bool {
        self.takes_waits
    }

    /// Returns the counts of wait stacks so far, over all CPUs.
    pub(crate) fn waits(&self) -> WaitCounts {
        let all = self.loaded.of_processors("wait_counts");
        all.iter().filter_map(|bytes| WaitCounts::parse(bytes)).fold(WaitCounts::default(), |sum, more| WaitCounts {
            taken: sum.taken + more.taken,
            left_out: sum.left_out + more.left_out,
            lost: sum.lost + more.lost,
        })
    }

    /// Returns the programs' cost while counting was on.
    pub(crate) fn cost(&self) -> Cost {
        Cost::of(self.loaded.programs.iter())
    }

    /// Returns the cost of one program.
    #[cfg(test)]
    pub(super) fn cost_of(&self, wanted: &str) -> Cost {
        Cost::of(self.loaded.program(wanted).into_iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_s_time_is_charged_without_a_gap_and_never_twice() {
        let tracepoints = match allowed() {
            Ok(tracepoints) => tracepoints,
            Err(error) => return println!("SKIPPED: {error}"),
        };
        let programs = Programs::load(&tracepoints, &Choices::default(), &Opened::default()).expect("loaded");
        programs.run(true);
        let before = programs.settle();
        std::thread::sleep(std::time::Duration::from_millis(500));
        let after = programs.settle();
        assert_eq!(before.len(), online_processors().len());
        for ((cpu, before), (_, after)) in before.into_iter().zip(after) {
            let all = |t: &Times| t.idle_ns + t.hardirq_ns + t.busy_ns + t.sampler_ns;
            let (charged, passed) = (all(&after) - all(&before), after.last_ns - before.last_ns);
            assert!(passed >= 500_000_000 && charged.abs_diff(passed) <= passed / 1_000, "cpu {cpu}: {charged} of {passed} ns: {after:?}");
            assert!(after.taken > before.taken || after.idle_ns > before.idle_ns, "cpu {cpu}: {after:?}");
        }
    }

    #[test]
    fn a_ring_grows_with_the_machine_within_bounds_and_is_a_power_of_two() {
        assert_eq!(ring_bytes(1, 0), RING_BYTES);
        assert_eq!(ring_bytes(4, 0), 2 * RING_BYTES);
        assert_eq!(ring_bytes(100_000, 0), MOST_RING_BYTES);
        assert_eq!(ring_bytes(2, 16 << 10), 32 << 20);
        assert_eq!(ring_bytes(100_000, 64 << 10), MOST_RING_BYTES_OF_COPIES);
        for stack_bytes in [0, 1 << 10, 3_000, 64 << 10] {
            assert!((1..300).all(|processors| ring_bytes(processors, stack_bytes).is_power_of_two()));
        }
    }
}
