//! How the clocks of the hosts relate: lanes of a host whose clock could not be aligned have an axis of their own.

use serde::Serialize;
use std::collections::HashMap;
use thalweg_base::numbers;
use thalweg_trace::{ClockRelation, Host, HostId, Source};

/// The clock of a host other than the reference, as the header lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ClockEntry {
    host: String,
    aligned: bool,
    uncertainty_ns: Option<u64>,
    why: String,
}

/// The clocks of a recording.
pub(super) struct Clocks {
    pub(super) entries: Vec<ClockEntry>,
    /// The clock of each host that is not on the reference axis.
    apart: HashMap<HostId, String>,
}

impl Clocks {
    /// Returns the clocks of a recording's hosts.
    pub(super) fn of(source: &dyn Source) -> Clocks {
        let mut clocks = Clocks { entries: Vec::new(), apart: HashMap::new() };
        let reference = source.hosts().iter().find(|host| host.host == HostId(0)).or(source.hosts().first());
        let reference = reference.map_or("the first host", |host| &host.name);
        for host in source.hosts() {
            let Some(relation) = ClockRelation::of(source, host) else { continue };
            let entry = entry(host, relation, reference);
            if !entry.aligned {
                clocks.apart.insert(host.host, host.clock.clone());
            }
            clocks.entries.push(entry);
        }
        clocks
    }

    /// Whether the times of two hosts can be compared.
    pub(super) fn are_comparable(&self, one: HostId, other: HostId) -> bool {
        one == other || self.apart.get(&one) == self.apart.get(&other)
    }
}

fn entry(host: &Host, relation: ClockRelation, reference: &str) -> ClockEntry {
    let time = |ns: u64| numbers::duration(ns as f64 * 1e-9);
    let (aligned, uncertainty_ns, why) = match relation {
        ClockRelation::OneClock => (true, Some(0), format!("{} and {reference} have one clock.", host.name)),
        ClockRelation::Within { error_ns } => {
            (true, Some(error_ns), format!("The clock of {} is aligned with that of {reference} to within {}.", host.name, time(error_ns)))
        }
        ClockRelation::WallClocks { error_ns } => (
            false,
            Some(error_ns),
            format!(
                "Only wall clocks relate the clock of {} to that of {reference}: they may be {} apart, so their events cannot be ordered.",
                host.name,
                time(error_ns)
            ),
        ),
        ClockRelation::Unknown => {
            (false, None, format!("Nothing relates the clock of {} to that of {reference}, so their events cannot be ordered.", host.name))
        }
    };
    ClockEntry { host: host.name.clone(), aligned, uncertainty_ns, why }
}
