//! What is measured of listings: points, and what one run gives.

use crate::worker::protocol::{Counters, NamesPoint, Phase};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is made before anything is listed: a store, and a directory in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Fixture {
    /// I/O servers.
    pub servers: u32,
    /// Targets of each.
    pub targets: u32,
    /// Files of the directory.
    pub files: u64,
    /// Datafiles of each; 0: never written.
    pub datafiles: u32,
}

/// A directory, and from where it is listed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ListingPoint {
    /// On what.
    #[serde(flatten)]
    pub fixture: Fixture,
    /// From where.
    pub location: String,
}

/// What is varied. A listing's subject is its method; those of the others are said beside them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Point {
    /// The link between the servers and a location.
    Link(String),
    /// Trees copied in: by our command, or by the stock one.
    Copy,
    /// Small files written: alone, or beside listings.
    Writes,
    /// Names made, asked for and removed.
    Names(NamesPoint),
    /// A directory is listed.
    Listing(ListingPoint),
}

/// What is compared.
pub(crate) type Subject = String;

/// What one run gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Sample {
    /// Of a link.
    Link(LinkSample),
    /// Of a copy: the time.
    Copy(f64),
    /// Of small writes.
    Writes(WritesSample),
    /// Of names.
    Names(NamesSample),
    /// Of a listing.
    Listing(Listing),
}

impl Sample {
    /// If it is of a listing.
    pub(crate) fn listing(&self) -> Option<&Listing> {
        if let Sample::Listing(listing) = self { Some(listing) } else { None }
    }
}

/// What lies between a location and the servers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LinkSample {
    /// A request that costs nothing, and its reply: the median.
    pub(crate) round_trip_us: f64,
    /// What one TCP stream carries from the servers to there.
    pub(crate) bytes_per_s: Option<f64>,
}

/// One listing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Listing {
    /// Entries that were listed in `seconds`.
    pub(crate) entries: u64,
    /// The time. Of a listing that stops early: from its first entry on.
    pub(crate) seconds: f64,
    /// What the library counted.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) counters: Option<Counters>,
    /// Processor time of the client: its process, and the mount's.
    pub(crate) client_cpu_s: f64,
    /// Processor time of all servers.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) server_cpu_s: Option<f64>,
    /// Processor time of the link, where it is made by a process.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) link_cpu_s: Option<f64>,
    /// Bytes of IP packets, both ways, as the client's network devices count them.
    pub(crate) bytes: u64,
}

/// Names made, asked for, read, and removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct NamesSample {
    /// Names of each worker.
    pub(crate) each: u64,
    /// Of each phase: from the first worker's beginning to the last one's end.
    pub(crate) seconds: BTreeMap<Phase, f64>,
}

/// Small files written, alone or beside listings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct WritesSample {
    /// Listings at a time; 0: none.
    pub(crate) listings: u32,
    /// Files written.
    pub(crate) writes: u64,
    /// Median time to create, write and close one.
    pub(crate) p50_s: f64,
    /// The time that 99 of 100 stay below.
    pub(crate) p99_s: f64,
    /// The longest.
    pub(crate) most_s: f64,
    /// Entries listed meanwhile, in all listings.
    pub(crate) listed: u64,
    /// How long it took.
    pub(crate) seconds: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_measure::Run;

    #[test]
    fn every_kind_of_run_is_a_line_of_the_log() {
        let fixture = Fixture { servers: 4, targets: 8, files: 10, datafiles: 32 };
        let names = NamesPoint { location: "here".into(), mounted: false, shared: true, workers: 4, batch: 64, bytes: 0, stride: 0 };
        let seconds = Phase::ALL.into_iter().map(|phase| (phase, 0.25)).collect();
        let listing = Listing {
            entries: 10,
            seconds: 0.5,
            counters: Some(Counters { requests: 3, ..Counters::default() }),
            client_cpu_s: 0.25,
            server_cpu_s: None,
            link_cpu_s: Some(0.5),
            bytes: 7,
        };
        let writes = WritesSample { listings: 100, writes: 10, p50_s: 0.5, p99_s: 1.0, most_s: 2.0, listed: 4, seconds: 5.0 };
        let samples = [
            (Point::Link("here".into()), Sample::Link(LinkSample { round_trip_us: 40.0, bytes_per_s: None })),
            (Point::Copy, Sample::Copy(0.75)),
            (Point::Writes, Sample::Writes(writes)),
            (Point::Names(names), Sample::Names(NamesSample { each: 8, seconds })),
            (Point::Listing(ListingPoint { fixture, location: "here".into() }), Sample::Listing(listing)),
        ];
        for (point, sample) in samples {
            let run = Run { point, subject: "none".to_owned(), repeat: 1, at_unix_s: 9, sample };
            let line = serde_json::to_string(&run).unwrap();
            assert_eq!(serde_json::from_str::<Run<Point, Subject, Sample>>(&line).unwrap(), run, "{line}");
        }
    }
}
