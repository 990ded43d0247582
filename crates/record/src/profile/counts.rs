//! Event counters beside the samples: cycles, instructions, cache misses, or any event perf has a name for.
//!
//! Each CPU counts separately. A sample carries the counters' current values; the difference from the previous sample
//! is what happened since, and is attributed to what the sample found. A counter that was multiplexed (more are
//! requested than a CPU has) is scaled up by its share of the time, as perf does.
//!
//! An event that this machine lacks is left out and named; if no event is available, nothing is counted, rather than
//! 0.

use super::processors::Processors;
use super::raw::{EventValue, Sample};
use crate::RecordError;
use crate::perf::PerfEvent;
use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use thalweg_trace::{Counter, CounterName, CounterOf, Event, Time, TrackId};

/// Maximum counters in a sample.
pub(crate) const MOST: usize = 6;

/// Default events: the 2004 study's, and those they are related to.
const USUAL: [&str; 4] = ["cycles", "instructions", "dTLB-load-misses", "cache-misses"];

/// perf's event types.
const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
const CACHE: u32 = 3;
const RAW: u32 = 4;

/// Names of the first two types; an event may have two.
const NAMES: &[(&str, u32, u64)] = &[
    ("cycles", HARDWARE, 0),
    ("cpu-cycles", HARDWARE, 0),
    ("instructions", HARDWARE, 1),
    ("cache-references", HARDWARE, 2),
    ("cache-misses", HARDWARE, 3),
    ("branches", HARDWARE, 4),
    ("branch-instructions", HARDWARE, 4),
    ("branch-misses", HARDWARE, 5),
    ("bus-cycles", HARDWARE, 6),
    ("stalled-cycles-frontend", HARDWARE, 7),
    ("stalled-cycles-backend", HARDWARE, 8),
    ("ref-cycles", HARDWARE, 9),
    ("cpu-clock", SOFTWARE, 0),
    ("task-clock", SOFTWARE, 1),
    ("page-faults", SOFTWARE, 2),
    ("faults", SOFTWARE, 2),
    ("context-switches", SOFTWARE, 3),
    ("cs", SOFTWARE, 3),
    ("cpu-migrations", SOFTWARE, 4),
    ("minor-faults", SOFTWARE, 5),
    ("major-faults", SOFTWARE, 6),
    ("alignment-faults", SOFTWARE, 7),
    ("emulation-faults", SOFTWARE, 8),
];

/// Names of caches and of operations on them: `dTLB-load-misses`, `L1-dcache-loads`.
const CACHES: [&str; 7] = ["L1-dcache", "L1-icache", "LLC", "dTLB", "iTLB", "branch", "node"];
const OPERATIONS: [&str; 3] = ["load", "store", "prefetch"];

/// The counters' names in the recording, by the event's number.
const COUNTERS: [CounterName; MOST] =
    [CounterName::Event0, CounterName::Event1, CounterName::Event2, CounterName::Event3, CounterName::Event4, CounterName::Event5];

/// An event in the kernel's terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventSpec {
    pub name: String,
    kind: u32,
    config: u64,
}

impl EventSpec {
    fn parse(name: &str) -> Option<EventSpec> {
        let wanted = |(kind, config)| EventSpec { name: name.to_owned(), kind, config };
        if let Some((_, kind, config)) = NAMES.iter().find(|(known, ..)| *known == name) {
            return Some(wanted((*kind, *config)));
        }
        if let Some(code) = name.strip_prefix('r').and_then(|code| u64::from_str_radix(code, 16).ok()) {
            return Some(wanted((RAW, code)));
        }
        let (cache, rest) = CACHES.iter().enumerate().find_map(|(n, cache)| Some((n, name.strip_prefix(cache)?.strip_prefix('-')?)))?;
        let (operation, rest) = OPERATIONS.iter().enumerate().find_map(|(n, operation)| Some((n, rest.strip_prefix(operation)?)))?;
        let result = match rest {
            "s" | "es" => 0,
            "-misses" => 1,
            _ => return None,
        };
        Some(wanted((CACHE, (cache | operation << 8) as u64 | result << 16)))
    }

    /// Opens the event on one CPU, in a group if there is one: the group's events are counted together.
    fn open(&self, cpu: u32, group: Option<BorrowedFd<'_>>) -> std::io::Result<OwnedFd> {
        // Read format: the value, and the times enabled and running.
        const WITH_TIMES: u64 = 3;
        let mut event = PerfEvent::software(self.config);
        (event.kind, event.read_format) = (self.kind, WITH_TIMES);
        match (event.open_in(cpu, group), group) {
            // More than the CPU has counters for: they are multiplexed.
            (Err(error), Some(_)) if error.raw_os_error() == Some(libc::EINVAL) => event.open_in(cpu, None),
            (opened, _) => opened,
        }
    }
}

/// The requested events.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestedEvents {
    wanted: Vec<EventSpec>,
    /// Whether the user named them.
    by_name: bool,
}

impl RequestedEvents {
    /// Parses these names; with none, returns the default events.
    ///
    /// # Errors
    /// A name is unknown, or there are too many.
    pub(crate) fn of(names: &[String]) -> Result<RequestedEvents, RecordError> {
        if names.is_empty() {
            return Ok(RequestedEvents { wanted: USUAL.iter().filter_map(|name| EventSpec::parse(name)).collect(), by_name: false });
        }
        if names.len() > MOST {
            return Err(RecordError::Usage(format!("{} events; at most {MOST} can be counted together", names.len())));
        }
        let parse = |name: &String| {
            let known = NAMES.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(", ");
            EventSpec::parse(name).ok_or_else(|| {
                RecordError::Usage(format!(
                    "no event is named {name:?}; expected {known}, CACHE-loads or CACHE-load-misses (also -store-) of {}, or rNNN for a \
                     processor's own (hexadecimal)",
                    CACHES.join(", ")
                ))
            })
        };
        Ok(RequestedEvents { wanted: names.iter().map(parse).collect::<Result<_, _>>()?, by_name: true })
    }
}

/// The events that could be opened, on all CPUs.
#[derive(Debug, Default)]
pub(crate) struct Opened {
    pub names: Vec<String>,
    /// By event, then by CPU.
    pub counters: Vec<Vec<(u32, OwnedFd)>>,
    /// A note for the user on those that could not be opened.
    pub note: Option<String>,
}

impl Opened {
    /// Opens the events that the machine has.
    pub(crate) fn open(asked: &RequestedEvents, processors: &[u32]) -> Opened {
        let mut opened = Opened::default();
        let mut missing: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for event in &asked.wanted {
            let on_each = |cpu: &u32| {
                let leader = opened.counters.first().and_then(|all| all.iter().find(|(of, _)| of == cpu)).map(|(_, fd)| fd.as_fd());
                event.open(*cpu, leader).map(|fd| (*cpu, fd))
            };
            let counters: std::io::Result<Vec<(u32, OwnedFd)>> = processors.iter().map(on_each).collect();
            match counters {
                Ok(counters) => {
                    opened.names.push(event.name.clone());
                    opened.counters.push(counters);
                }
                Err(error) => missing.entry(reason(&error)).or_default().push(&event.name),
            }
        }
        let none = opened.names.is_empty() && !asked.by_name && missing.keys().all(|why| why == NOT_HERE);
        opened.note = match (none, missing.is_empty()) {
            (_, true) => None,
            (true, _) => Some("hardware counters: not on this machine (no PMU)".to_owned()),
            (false, _) => {
                let said: Vec<String> = missing.iter().map(|(why, names)| format!("{}: {why}", names.join(", "))).collect();
                Some(format!("Not counted: {}.", said.join("; ")))
            }
        };
        opened
    }
}

const NOT_HERE: &str = "not on this machine";

fn reason(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV | libc::EINVAL) => NOT_HERE.to_owned(),
        _ => error.to_string(),
    }
}

/// Values counted, as counters of the CPUs' tracks.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    names: Vec<String>,
    last: HashMap<(u32, usize), Last>,
}

/// A counter at the last sample.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    value: EventValue,
    /// Counted since the start, scaled.
    sum: f64,
}

impl Last {
    /// Adds the difference from the last value.
    fn count(&mut self, now: EventValue) {
        let counted = now.counted.wrapping_sub(self.value.counted) as f64;
        let (enabled, running) =
            (now.enabled_ns.saturating_sub(self.value.enabled_ns), now.running_ns.saturating_sub(self.value.running_ns));
        if running > 0 {
            self.sum += counted * (enabled as f64 / running as f64).max(1.0);
            self.value = now;
        }
    }
}

impl Counts {
    /// Reads the counters' initial values.
    pub(crate) fn begin(opened: &Opened) -> Counts {
        let mut last = HashMap::new();
        for (number, counters) in opened.counters.iter().enumerate() {
            for (cpu, fd) in counters {
                let mut bytes = [0; 24];
                let read = rustix::io::read(fd, &mut bytes).is_ok();
                let value = EventValue::parse(&bytes).filter(|_| read).unwrap_or_default();
                last.insert((*cpu, number), Last { value, sum: 0.0 });
            }
        }
        Counts { names: opened.names.clone(), last }
    }

    /// Emits the value 0 for each CPU's counters.
    pub(crate) fn emit_begin(&self, at: Time, processors: &Processors, into: &mut Vec<Event>) {
        let mut all: Vec<&(u32, usize)> = self.last.keys().collect();
        all.sort_unstable();
        into.extend(all.into_iter().filter_map(|(cpu, number)| Some(counter(processors.track(*cpu)?, *number, at, 0.0))));
    }

    /// Emits the values counted up to a sample.
    pub(crate) fn emit(&mut self, sample: &Sample<'_>, at: Time, processors: &Processors, into: &mut Vec<Event>) {
        let cpu = u32::from(sample.cpu);
        let Some(track) = processors.track(cpu).filter(|_| !self.names.is_empty()) else { return };
        for (number, value) in sample.events().enumerate().take(MOST) {
            if let Some(last) = self.last.get_mut(&(cpu, number)) {
                last.count(value);
                into.push(counter(track, number, at, last.sum));
            }
        }
    }

    /// Returns the event of each counter, as attributes.
    pub(crate) fn attributes(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.names.iter().enumerate().map(|(number, name)| (format!("event.{number}"), name.clone()))
    }
}

fn counter(track: TrackId, number: usize, at: Time, value: f64) -> Event {
    Event::Counter(Counter { of: CounterOf::Track(track), name: COUNTERS[number.min(MOST - 1)], at, value: value.round() as i64 })
}

/// Encodes a descriptor for the array of counters.
pub(crate) fn value_of(fd: &OwnedFd) -> [u8; 4] {
    fd.as_raw_fd().to_ne_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(name: &str) -> Option<(u32, u64)> {
        EventSpec::parse(name).map(|wanted| (wanted.kind, wanted.config))
    }

    #[test]
    fn events_have_the_names_that_perf_has() {
        assert_eq!([parsed("cycles"), parsed("instructions"), parsed("cs")], [Some((0, 0)), Some((0, 1)), Some((1, 3))]);
        assert_eq!(parsed("dTLB-load-misses"), Some((3, 3 | 1 << 16)));
        assert_eq!(parsed("L1-dcache-loads"), Some((3, 0)));
        assert_eq!(parsed("LLC-store-misses"), Some((3, 2 | 1 << 8 | 1 << 16)));
        assert_eq!(parsed("r01c2"), Some((4, 0x1c2)));
        assert_eq!([parsed("cycle"), parsed("dTLB-load-miss"), parsed("dTLB-"), parsed("")], [None; 4]);
        assert_eq!(RequestedEvents::of(&[]).expect("the usual").wanted.len(), USUAL.len());
        let error = RequestedEvents::of(&["cycels".to_owned()]).expect_err("no such event").to_string();
        assert!(error.contains("\"cycels\"") && error.contains("cycles"), "{error}");
        assert!(RequestedEvents::of(&vec!["cycles".to_owned(); MOST + 1]).is_err());
    }

    #[test]
    fn a_counter_that_took_turns_is_scaled_and_one_that_was_not_there_says_nothing() {
        let value = |counted, enabled_ns, running_ns| EventValue { counted, enabled_ns, running_ns };
        let mut last = Last { value: value(1_000, 50, 50), sum: 0.0 };
        last.count(value(1_100, 150, 150));
        assert_eq!(last.sum, 100.0);
        last.count(value(1_150, 250, 200));
        assert_eq!(last.sum, 200.0, "half of the time");
        last.count(value(1_150, 350, 200));
        last.count(value(1_250, 450, 300));
        assert_eq!(last.sum, 400.0, "what was missed is in the next value");
        last.count(EventValue::default());
        assert_eq!(last.sum, 400.0, "a counter that could not be read");
    }

    #[test]
    fn what_the_machine_has_is_opened_and_the_rest_named() {
        let processors = crate::perf::online_processors();
        let named = |names: &[&str]| RequestedEvents::of(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).expect("names");
        let opened = Opened::open(&named(&["page-faults", "context-switches"]), &processors);
        if opened.names.is_empty() {
            return println!("SKIPPED: no events may be opened here: {:?}", opened.note);
        }
        assert_eq!((opened.names.len(), opened.counters[0].len(), &opened.note), (2, processors.len(), &None));
        // No CPU has such an event.
        let opened = Opened::open(&named(&["page-faults", "rffffffffffffffff"]), &processors);
        assert_eq!(opened.names, ["page-faults"]);
        assert!(opened.note.is_some_and(|note| note.contains("rffffffffffffffff")));
    }
}
