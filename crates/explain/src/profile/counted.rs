//! A profile without samples: /proc's counts for each processor and each process, where sampling was not permitted.
//!
//! Its classes are a processor's states, and add up to all of its time. Programs are counted by other means than processors, so their sum
//! is close to the processors', but not equal: the rest is the time of programs that ended between two readings, of invisible ones, and the
//! difference of the two counts.

use super::bins::Bins;
use super::document::{ClassLine, ClassShare, CountedFrom, HostProfile, OverTime, OwnTime, ProgramShare, RecorderCost, Unsymbolised};
use super::rules::name;
use super::times::{Counted, number, of_hosts, text};
use crate::ExplainError;
use crate::limits::profile as limits;
use std::collections::{BTreeMap, BTreeSet};
use thalweg_trace::{CounterName, CounterOf, HostId, Role, Source, TrackKind};

/// The states of a processor, with their titles, in the order of the table.
const CLASSES: [(CounterName, &str, &str); 6] = [
    (CounterName::CpuIdleNs, name::IDLE, "idle"),
    (CounterName::CpuUserNs, USER, "programs' own code"),
    (CounterName::CpuSystemNs, SYSTEM, "kernel, for programs"),
    (CounterName::CpuHardirqNs, "hardirq", "hard interrupts"),
    (CounterName::CpuSoftirqNs, "softirq", "software interrupts"),
    (CounterName::CpuStealNs, name::STEAL, "steal"),
];

/// Programs' own code.
pub(super) const USER: &str = "user";
/// The kernel, for programs.
pub(super) const SYSTEM: &str = "system";

/// A machine whose processors were counted.
pub(super) struct CountedHost {
    pub(super) document: HostProfile,
    /// All processors' time.
    pub(super) total_ns: f64,
}

/// The machines of a recording whose processors were counted.
pub(super) fn hosts(source: &dyn Source) -> Result<BTreeMap<HostId, CountedHost>, ExplainError> {
    let counted = |host: &HostId| text(source.meta(), *host, "profile.counted").is_some();
    let hosts: BTreeSet<HostId> = source.hosts().iter().map(|host| host.host).filter(counted).collect();
    let mut profiles = BTreeMap::new();
    if hosts.is_empty() {
        return Ok(profiles);
    }
    let mut counters = Vec::new();
    for (counter, class, title) in CLASSES {
        counters.push((class, title, of_hosts(source, counter)?));
    }
    let mut programs = programs(source)?;
    for host in hosts {
        let of_host = |(class, title, all): &mut (&'static str, &'static str, BTreeMap<HostId, Vec<_>>)| {
            Some((*class, *title, Counted::new(all.remove(&host)?)))
        };
        let classes: Vec<_> = counters.iter_mut().filter_map(of_host).collect();
        profiles.insert(host, MachineCounts { source, host, classes, programs: programs.remove(&host).unwrap_or_default() }.profile());
    }
    Ok(profiles)
}

/// The run time of a program, and the number of its processes.
#[derive(Clone, Copy, Debug, Default)]
struct Ran {
    processes: u64,
    user_ns: f64,
    system_ns: f64,
}

type ByProgram = BTreeMap<(String, Role), Ran>;

fn programs(source: &dyn Source) -> Result<BTreeMap<HostId, ByProgram>, ExplainError> {
    let mut of_tracks: BTreeMap<u64, [Option<(i64, i64)>; 2]> = BTreeMap::new();
    for (place, counter) in [CounterName::CpuUserNs, CounterName::CpuSystemNs].into_iter().enumerate() {
        for counter in source.counters(counter)? {
            if let CounterOf::Track(track) = counter.of {
                let ends = &mut of_tracks.entry(track.number()).or_default()[place];
                ends.get_or_insert((counter.value, counter.value)).1 = counter.value;
            }
        }
    }
    let mut programs: BTreeMap<HostId, ByProgram> = BTreeMap::new();
    for track in source.tracks().iter().filter(|track| track.kind == TrackKind::Thread) {
        let Some(ends) = of_tracks.get(&track.track.number()) else { continue };
        let [user, system] = ends.map(|ends| ends.map_or(0.0, |(first, last)| last.saturating_sub(first).max(0) as f64));
        // The part before a worker's own name is the program's.
        let name = track.name.split('/').next().unwrap_or(&track.name).to_owned();
        let ran = programs.entry(track.host).or_default().entry((name, track.role)).or_default();
        (ran.processes, ran.user_ns, ran.system_ns) = (ran.processes + 1, ran.user_ns + user, ran.system_ns + system);
    }
    Ok(programs)
}

/// The time of a machine's sampled programs, if it was recorded.
fn own_time(source: &dyn Source, host: HostId) -> Option<OwnTime> {
    let seconds = |name: &str| number(source.meta(), host, name).map(|ns| ns.max(0) as f64 / 1e9);
    Some(OwnTime {
        run_s: seconds("profile.own_run_ns")?,
        user_s: seconds("profile.own_user_ns")?,
        kernel_s: seconds("profile.own_kernel_ns")?,
        short_s: seconds("profile.own_short_ns")?,
    })
}

/// The facts of one machine.
struct MachineCounts<'a> {
    source: &'a dyn Source,
    host: HostId,
    classes: Vec<(&'static str, &'static str, Counted)>,
    programs: ByProgram,
}

impl MachineCounts<'_> {
    fn profile(self) -> CountedHost {
        let meta = self.source.meta();
        let number = |name: &str| number(meta, self.host, name).filter(|value| *value > 0);
        let row = self.source.hosts().iter().find(|host| host.host == self.host);
        let ns = |class: &str| self.classes.iter().find(|(name, ..)| *name == class).map_or(0.0, |(.., counted)| counted.ns);
        let total: f64 = self.classes.iter().map(|(.., counted)| counted.ns).sum();
        let (start, end) = self
            .classes
            .iter()
            .filter_map(|(.., counted)| counted.ends())
            .fold((i64::MAX, i64::MIN), |all, one| (all.0.min(one.0), all.1.max(one.1)));
        let (start, end) = if start < end { (start, end) } else { (0, 0) };
        let tick_ns = number("profile.tick_ns").unwrap_or(limits::UNSTATED_TICK_NS);
        let enough = total >= limits::FEWEST_TICKS * tick_ns as f64;
        let share = |ns: f64| (enough && total > 0.0).then(|| ns / total);
        let reader_s = number("profile.reader_ns").map(|ns| ns as f64 / 1e9);
        let of_programs: f64 = self.programs.values().map(|ran| ran.user_ns + ran.system_ns).sum();
        let (rest, has_programs) = (ns(USER) + ns(SYSTEM) - of_programs, !self.programs.is_empty());
        let document = HostProfile {
            name: row.map_or_else(|| format!("host {}", self.host.0), |host| host.name.clone()),
            cpus: self.classes.first().map_or(1, |(.., counted)| counted.processors()).max(1),
            wall_s: end.saturating_sub(start).max(0) as f64 / 1e9,
            busy_s: (total - ns(name::IDLE) - ns(name::STEAL)).max(0.0) / 1e9,
            samples: 0,
            enough,
            lost: 0,
            classes: self.rows(&share),
            purposes: Vec::new(),
            functions: Vec::new(),
            programs: self.program_rows(&share),
            over_time: self.over_time(start, end, enough),
            guessed_share: None,
            unsymbolised: Unsymbolised::default(),
            cost: RecorderCost { share: reader_s.and_then(|s| share(s * 1e9)), bpf_s: None, reader_s },
            rates: Vec::new(),
            events: Vec::new(),
            counted: Some(CountedFrom {
                source: "/proc".to_owned(),
                tick_s: tick_ns as f64 / 1e9,
                look_s: number("profile.look_ns").map(|ns| ns as f64 / 1e9),
                no_samples: text(meta, self.host, "profile.no_samples").unwrap_or_default().to_owned(),
                // Beside another recorder, no process has a count.
                rest: share(rest.max(0.0)).filter(|_| has_programs),
                over: share(-rest).filter(|over| *over > 0.0),
                own: own_time(self.source, self.host),
            }),
        };
        CountedHost { document, total_ns: total }
    }

    fn rows(&self, share: &impl Fn(f64) -> Option<f64>) -> Vec<ClassShare> {
        let row = |(class, title, counted): &(&'static str, &'static str, Counted)| {
            let (share, class, title) = (share(counted.ns), (*class).to_owned(), (*title).to_owned());
            let seconds = share.map(|_| counted.ns / 1e9);
            ClassShare { class, title, share, low: None, high: None, seconds, samples: 0, guessed: 0 }
        };
        self.classes.iter().map(row).collect()
    }

    fn program_rows(&self, share: &impl Fn(f64) -> Option<f64>) -> Vec<ProgramShare> {
        let mut programs: Vec<_> = self.programs.iter().collect();
        programs.sort_by(|a, b| (b.1.user_ns + b.1.system_ns).total_cmp(&(a.1.user_ns + a.1.system_ns)).then_with(|| a.0.0.cmp(&b.0.0)));
        programs.truncate(limits::MOST_PROGRAMS);
        let row = |((program, role), ran): (&(String, Role), &Ran)| ProgramShare {
            program: program.clone(),
            role: role.name().to_owned(),
            processes: ran.processes,
            share: share(ran.user_ns + ran.system_ns),
            user_share: share(ran.user_ns),
            system_share: share(ran.system_ns),
            samples: 0,
            classes: Vec::new(),
            purposes: Vec::new(),
        };
        programs.into_iter().map(row).collect()
    }

    fn over_time(&self, start: i64, end: i64, enough: bool) -> OverTime {
        let bins = Bins::new(start, end);
        let bin_s = bins.bin_ns as f64 / 1e9;
        if !enough {
            return OverTime { bin_s, lines: Vec::new() };
        }
        let spread: Vec<(&str, Vec<f64>)> = self.classes.iter().map(|(class, _, counted)| (*class, counted.spread(&bins))).collect();
        let whole: Vec<f64> = (0..bins.count).map(|bin| spread.iter().map(|(_, ns)| ns[bin]).sum()).collect();
        let line = |(class, ns): (&str, Vec<f64>)| ClassLine {
            class: class.to_owned(),
            shares: ns.iter().zip(&whole).map(|(ns, whole)| (ns / whole.max(1.0)).clamp(0.0, 1.0)).collect(),
        };
        let lines = spread.into_iter().filter(|(_, ns)| ns.iter().any(|ns| *ns > 0.0)).map(line).collect();
        OverTime { bin_s, lines }
    }
}
