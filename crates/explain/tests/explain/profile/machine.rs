//! A synthetic profile of a machine.

use thalweg_trace::*;

/// Length of a counter's bin.
const EVERY_NS: i64 = 100_000_000;

/// A profiled machine. Times are in nanoseconds.
pub struct Machine {
    events: Vec<Event>,
    stacks: u32,
    tracks: u64,
    pub meta: Meta,
    pub wall_ns: i64,
    pub cpus: u32,
}

impl Machine {
    pub fn new(wall_ns: i64, cpus: u32) -> Machine {
        let attributes = [("class.32", "profile.user"), ("class.33", "profile.kernel"), ("profile.period_ns", "1000000")];
        let meta = Meta {
            format: FORMAT_VERSION,
            command: vec!["copy".into()],
            recorder: "profile".into(),
            start: Time::from_monotonic_ns(0),
            end: Some(Time::from_monotonic_ns(wall_ns)),
            exit_code: Some(0),
            dropped_events: 0,
            attributes: attributes.map(|(name, value)| (name.into(), value.into())).to_vec(),
        };
        let (clock, kernel) = ("monotonic:x".into(), "k".into());
        let host = Host { host: HostId(0), name: "here".into(), node: "here".into(), clock, kernel, cpus };
        Machine { events: vec![Event::Host(host)], stacks: 0, tracks: 0, meta, wall_ns, cpus }
    }

    pub fn attribute(mut self, name: &str, value: &str) -> Machine {
        self.meta.attributes.push((name.into(), value.into()));
        self
    }

    pub fn thread(&mut self, role: Role, name: &str, pid: u32) -> TrackId {
        self.track(TrackKind::Thread, role, name, Some(pid))
    }

    fn track(&mut self, kind: TrackKind, role: Role, name: &str, pid: Option<u32>) -> TrackId {
        self.tracks += 1;
        let track = TrackId::new(self.tracks).unwrap();
        self.events.push(Event::Track(Track { track, host: HostId(0), kind, role, pid, tid: pid, name: name.into() }));
        track
    }

    /// Adds a counter of each processor that increases evenly, by `ns` over all of them.
    pub fn counts(&mut self, name: CounterName, ns: i64) -> &mut Machine {
        for cpu in 0..self.cpus {
            let track = self.track(TrackKind::Cpu, Role::None, &format!("cpu{cpu}"), None);
            let mut at = 0;
            loop {
                let value = (i128::from(ns) * i128::from(at) / i128::from(self.wall_ns) / i128::from(self.cpus)) as i64;
                self.events.push(Event::Counter(Counter { of: CounterOf::Track(track), name, at: Time::from_monotonic_ns(at), value }));
                if at == self.wall_ns {
                    break;
                }
                at = (at + EVERY_NS).min(self.wall_ns);
            }
        }
        self
    }

    /// Adds a process with these times by /proc.
    pub fn process(&mut self, role: Role, name: &str, pid: u32, user_ns: i64, system_ns: i64) -> &mut Machine {
        let track = self.thread(role, name, pid);
        for (counter, ns) in [(CounterName::CpuUserNs, user_ns), (CounterName::CpuSystemNs, system_ns)] {
            let end = self.wall_ns;
            self.value(track, counter, 0, 0).value(track, counter, end, ns);
        }
        self
    }

    /// The first processor's track.
    pub fn processor(&mut self) -> TrackId {
        self.track(TrackKind::Cpu, Role::None, "cpu0", None)
    }

    /// One value of a counter.
    pub fn value(&mut self, track: TrackId, name: CounterName, at: i64, value: i64) -> &mut Machine {
        let (of, at) = (CounterOf::Track(track), Time::from_monotonic_ns(at));
        self.events.push(Event::Counter(Counter { of, name, at, value }));
        self
    }

    /// Adds samples of a millisecond with this stack, innermost function first, evenly over the time.
    pub fn samples(&mut self, track: TrackId, count: u64, frames: &[&str]) -> &mut Machine {
        self.stacks += 1;
        let frames = frames.iter().map(|frame| (*frame).to_owned()).collect();
        self.events.push(Event::Stack(Stack { stack: self.stacks, frames }));
        for n in 0..count {
            let at = Time::from_monotonic_ns((i128::from(self.wall_ns) * i128::from(2 * n + 1) / i128::from(2 * count)) as i64);
            let (host, track, stack) = (HostId(0), Some(track), Some(self.stacks));
            self.events.push(Event::Sample(Sample { at, host, cpu: 0, track, class: 32, stack, weight_ns: 1_000_000 }));
        }
        self
    }

    pub fn source(&self) -> MemorySource {
        MemorySource::from_events(self.meta.clone(), self.events.clone())
    }
}
