//! Points of a study of listings, and the sample of a run.

use crate::worker::protocol::{Counters, NamesPoint, Phase};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A store and a directory in it, made before anything is listed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Fixture {
    /// I/O servers.
    pub servers: u32,
    /// Targets per server.
    pub targets: u32,
    /// Files in the directory.
    pub files: u64,
    /// Datafiles per file; 0: never written.
    pub datafiles: u32,
}

/// A directory, and the location it is listed from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ListingPoint {
    /// The store and directory.
    #[serde(flatten)]
    pub fixture: Fixture,
    /// The location.
    pub location: String,
}

/// The varied parameters. A listing's subject is its method; for the others, subjects are given below.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Point {
    /// The link between the servers and a location.
    Link(String),
    /// Trees copied in. Subjects: `thalweg cp`, and the stock `cp`.
    Copy,
    /// Small files written. Subjects: alone, and beside listings.
    Writes,
    /// Names created, queried and removed.
    Names(NamesPoint),
    /// A directory listed.
    Listing(ListingPoint),
}

/// A subject of a comparison.
pub(crate) type Subject = String;

/// The sample of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Sample {
    /// A link's.
    Link(LinkSample),
    /// A copy's time, in seconds.
    Copy(f64),
    /// Small writes'.
    Writes(WritesSample),
    /// Names'.
    Names(NamesSample),
    /// A listing's.
    Listing(Listing),
}

impl Sample {
    /// Returns the listing, if it is one.
    pub(crate) fn listing(&self) -> Option<&Listing> {
        if let Sample::Listing(listing) = self { Some(listing) } else { None }
    }
}

/// The link between a location and the servers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LinkSample {
    /// The median time of a request that costs the server nothing.
    pub(crate) round_trip_us: f64,
    /// The rate of one TCP stream from the servers to there.
    pub(crate) bytes_per_s: Option<f64>,
}

/// One listing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Listing {
    /// Entries listed in `seconds`.
    pub(crate) entries: u64,
    /// The time; for a listing that stops early, from its first entry on.
    pub(crate) seconds: f64,
    /// The library's counters.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) counters: Option<Counters>,
    /// CPU time of the client: its process, and the mount's.
    pub(crate) client_cpu_s: f64,
    /// CPU time of all servers.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) server_cpu_s: Option<f64>,
    /// CPU time of the link, if a process emulates it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) link_cpu_s: Option<f64>,
    /// Bytes of IP packets in both directions, counted by the client's network devices.
    pub(crate) bytes: u64,
}

/// Names created, queried, read and removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct NamesSample {
    /// Names per worker.
    pub(crate) each: u64,
    /// Time of each phase, from the first worker's start to the last one's end.
    pub(crate) seconds: BTreeMap<Phase, f64>,
}

/// Small files written, alone or beside listings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct WritesSample {
    /// Concurrent listings; 0: none.
    pub(crate) listings: u32,
    /// Files written.
    pub(crate) writes: u64,
    /// Median time to create, write and close one.
    pub(crate) p50_s: f64,
    /// 99th percentile of that time.
    pub(crate) p99_s: f64,
    /// Maximum of that time.
    pub(crate) most_s: f64,
    /// Entries listed meanwhile, in all listings.
    pub(crate) listed: u64,
    /// Duration of the run.
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
