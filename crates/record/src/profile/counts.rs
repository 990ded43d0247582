//! Counters of events beside the samples: cycles, instructions, cache misses, or whatever perf has a name for.
//!
//! Each processor counts by itself. A sample carries the counters as they stand; the difference from the sample before is what happened
//! since, and belongs to what the sample found. A counter that shared its place with others (more are asked for than a processor has) is
//! scaled up by the time that it was there, as perf does.
//!
//! An event that this machine does not have is left out and named; without any, nothing is counted, and never 0.

use super::processors::Processors;
use super::raw::{EventValue, Sample};
use crate::RecordError;
use crate::kernel::perf::PerfEvent;
use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use thalweg_trace::{Counter, CounterName, CounterOf, Event, Time, TrackId};

/// So many have room in a sample.
pub(crate) const MOST: usize = 6;

/// What is counted where nothing else is asked for: the 2004 study's, and what they are put in relation to.
const USUAL: [&str; 4] = ["cycles", "instructions", "dTLB-load-misses", "cache-misses"];

/// perf's kinds of events.
const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
const CACHE: u32 = 3;
const RAW: u32 = 4;

/// Names of the first two kinds; an event may have two.
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

/// Names of caches, and of what is done to them: `dTLB-load-misses`, `L1-dcache-loads`.
const CACHES: [&str; 7] = ["L1-dcache", "L1-icache", "LLC", "dTLB", "iTLB", "branch", "node"];
const OPERATIONS: [&str; 3] = ["load", "store", "prefetch"];

/// Counters of this name in the recording, by the event's number.
const COUNTERS: [CounterName; MOST] =
    [CounterName::Event0, CounterName::Event1, CounterName::Event2, CounterName::Event3, CounterName::Event4, CounterName::Event5];

/// An event as the kernel knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub name: String,
    kind: u32,
    config: u64,
}

impl Wanted {
    fn parse(name: &str) -> Option<Wanted> {
        let wanted = |(kind, config)| Wanted { name: name.to_owned(), kind, config };
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

    /// Opens it on one processor, with others in a group where there is one: those are counted at the same time.
    fn open(&self, cpu: u32, group: Option<BorrowedFd<'_>>) -> std::io::Result<OwnedFd> {
        // The value, and for how long it was meant to be counted and was.
        const WITH_TIMES: u64 = 3;
        let mut event = PerfEvent::software(self.config);
        (event.kind, event.read_format) = (self.kind, WITH_TIMES);
        match (event.open_in(cpu, group), group) {
            // More than the processor has counters for: they take turns.
            (Err(error), Some(_)) if error.raw_os_error() == Some(libc::EINVAL) => event.open_in(cpu, None),
            (opened, _) => opened,
        }
    }
}

/// The events to count.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    wanted: Vec<Wanted>,
    /// A person has asked for them.
    by_name: bool,
}

impl Asked {
    /// Those of these names; of none: the usual ones.
    ///
    /// # Errors
    /// Nothing has that name, or there are too many.
    pub(crate) fn of(names: &[String]) -> Result<Asked, RecordError> {
        if names.is_empty() {
            return Ok(Asked { wanted: USUAL.iter().filter_map(|name| Wanted::parse(name)).collect(), by_name: false });
        }
        if names.len() > MOST {
            return Err(RecordError::Usage(format!("{} events; at most {MOST} are counted at once", names.len())));
        }
        let parse = |name: &String| {
            let known = NAMES.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(", ");
            Wanted::parse(name).ok_or_else(|| {
                RecordError::Usage(format!(
                    "no event is named {name:?}; expected {known}, CACHE-loads or CACHE-load-misses (also -store-) of {}, or rNNN for a \
                     processor's own (hexadecimal)",
                    CACHES.join(", ")
                ))
            })
        };
        Ok(Asked { wanted: names.iter().map(parse).collect::<Result<_, _>>()?, by_name: true })
    }
}

/// The events that could be opened, on all processors.
#[derive(Debug, Default)]
pub(crate) struct Opened {
    pub names: Vec<String>,
    /// By event, and then by processor.
    pub counters: Vec<Vec<(u32, OwnedFd)>>,
    /// What a person must know of those that could not.
    pub note: Option<String>,
}

impl Opened {
    /// Opens what the machine has.
    pub(crate) fn open(asked: &Asked, processors: &[u32]) -> Opened {
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

/// What the counters have counted, as counters of the processors' tracks.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    names: Vec<String>,
    last: HashMap<(u32, usize), Last>,
}

/// A counter at the last sample.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    value: EventValue,
    /// What was counted since the beginning, scaled.
    sum: f64,
}

impl Last {
    /// The counter stands like this now.
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
    /// Reads where the counters stand now.
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

    /// Each processor's counters begin at 0 here.
    pub(crate) fn emit_begin(&self, at: Time, processors: &Processors, into: &mut Vec<Event>) {
        let mut all: Vec<&(u32, usize)> = self.last.keys().collect();
        all.sort_unstable();
        into.extend(all.into_iter().filter_map(|(cpu, number)| Some(counter(processors.track(*cpu)?, *number, at, 0.0))));
    }

    /// What the counters have counted up to a sample.
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

    /// Which counter counts what.
    pub(crate) fn attributes(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.names.iter().enumerate().map(|(number, name)| (format!("event.{number}"), name.clone()))
    }
}

fn counter(track: TrackId, number: usize, at: Time, value: f64) -> Event {
    Event::Counter(Counter { of: CounterOf::Track(track), name: COUNTERS[number.min(MOST - 1)], at, value: value.round() as i64 })
}

/// The number of a descriptor, as the array of counters takes it.
pub(crate) fn value_of(fd: &OwnedFd) -> [u8; 4] {
    fd.as_raw_fd().to_ne_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(name: &str) -> Option<(u32, u64)> {
        Wanted::parse(name).map(|wanted| (wanted.kind, wanted.config))
    }

    #[test]
    fn events_have_the_names_that_perf_has() {
        assert_eq!([parsed("cycles"), parsed("instructions"), parsed("cs")], [Some((0, 0)), Some((0, 1)), Some((1, 3))]);
        assert_eq!(parsed("dTLB-load-misses"), Some((3, 3 | 1 << 16)));
        assert_eq!(parsed("L1-dcache-loads"), Some((3, 0)));
        assert_eq!(parsed("LLC-store-misses"), Some((3, 2 | 1 << 8 | 1 << 16)));
        assert_eq!(parsed("r01c2"), Some((4, 0x1c2)));
        assert_eq!([parsed("cycle"), parsed("dTLB-load-miss"), parsed("dTLB-"), parsed("")], [None; 4]);
        assert_eq!(Asked::of(&[]).expect("the usual").wanted.len(), USUAL.len());
        let error = Asked::of(&["cycels".to_owned()]).expect_err("no such event").to_string();
        assert!(error.contains("\"cycels\"") && error.contains("cycles"), "{error}");
        assert!(Asked::of(&vec!["cycles".to_owned(); MOST + 1]).is_err());
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
        let processors = crate::kernel::perf::online_processors();
        let named = |names: &[&str]| Asked::of(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).expect("names");
        let opened = Opened::open(&named(&["page-faults", "context-switches"]), &processors);
        if opened.names.is_empty() {
            return println!("SKIPPED: no events may be opened here: {:?}", opened.note);
        }
        assert_eq!((opened.names.len(), opened.counters[0].len(), &opened.note), (2, processors.len(), &None));
        // No processor has such an event.
        let opened = Opened::open(&named(&["page-faults", "rffffffffffffffff"]), &processors);
        assert_eq!(opened.names, ["page-faults"]);
        assert!(opened.note.is_some_and(|note| note.contains("rffffffffffffffff")));
    }
}
