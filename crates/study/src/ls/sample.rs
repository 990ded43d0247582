//! The times of a listing study, one line each: see [`crate::log`].

use super::plan::Point;
use crate::log::OfStudy;
use serde::{Deserialize, Serialize};

/// The version of the lines.
pub const SCHEMA: &str = "thalweg.ls-study/1";

/// What the lines belong to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`SCHEMA`].
    pub schema: String,
    /// What the stage is.
    pub label: String,
    /// The places' names.
    pub places: Vec<String>,
}

impl OfStudy for Header {
    fn describe(&self) -> String {
        format!("{}, from {}", self.label, self.places.join(", "))
    }
}

/// One thing that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Line {
    /// What lies between a place and the servers.
    Link(LinkLine),
    /// A directory was listed.
    Listing(Listing),
    /// Names were made, asked for or removed.
    Names(NamesLine),
    /// Small files were written beside listings.
    Crowd(CrowdLine),
    /// A tree was copied in.
    Copy(CopyLine),
}

/// What lies between a place and the servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkLine {
    /// The place.
    pub place: String,
    /// What was asked for.
    pub asked_us: f64,
    /// A request that costs nothing, and its reply: the median.
    pub round_trip_us: f64,
    /// What one TCP stream carries from the servers to there.
    pub bytes_per_s: Option<f64>,
}

/// One listing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Listing {
    /// The point.
    #[serde(flatten)]
    pub point: Point,
    /// Which repetition, from 1.
    pub repeat: usize,
    /// Entries that were listed in `seconds`.
    pub entries: u64,
    /// The time. Of a listing that stops early: from its first entry on.
    pub seconds: f64,
    /// What the library counted.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub counters: Option<Counters>,
    /// Processor time of the client: its process, and the mount's.
    pub client_cpu_s: f64,
    /// Processor time of all servers.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server_cpu_s: Option<f64>,
    /// Processor time of the link, where it is made by a process.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub link_cpu_s: Option<f64>,
    /// Bytes of IP packets, both ways, as the client's network devices count them.
    pub bytes: u64,
    /// When it ended, seconds since 1970.
    pub at_unix_s: u64,
}

/// What the library counts of a listing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Requests, to all servers.
    pub requests: u64,
    /// The longest chain of requests that needed one another.
    pub round_trips: u64,
    /// Datafiles whose sizes I/O servers were asked for.
    pub glimpsed: u64,
    /// Sizes that the metadata service proved.
    pub from_metadata: u64,
    /// Entries that were there when the reader wanted them.
    pub hits: u64,
    /// Entries that were not.
    pub misses: u64,
    /// Entries that were asked for, and that nobody read.
    pub wasted: u64,
    /// The window at the end.
    pub window: u32,
}

/// What names were used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Files are made, and closed.
    Create,
    /// Their attributes are asked for.
    Stat,
    /// They are removed.
    Remove,
}

impl Phase {
    /// All, in the order in which they are done.
    pub const ALL: [Phase; 3] = [Phase::Create, Phase::Stat, Phase::Remove];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Create => "create",
            Phase::Stat => "stat",
            Phase::Remove => "remove",
        }
    }
}

/// How names are used: one curve's point of `mdtest`'s patterns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NamesPoint {
    /// From where.
    pub place: String,
    /// Through a mount (with system calls), or by the library.
    pub mounted: bool,
    /// Whether all workers use one directory.
    pub shared: bool,
    /// Workers at a time.
    pub workers: u32,
    /// Operations in one request.
    pub batch: u32,
}

/// Names made, asked for, or removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NamesLine {
    /// How.
    #[serde(flatten)]
    pub point: NamesPoint,
    /// What.
    pub phase: Phase,
    /// Which repetition, from 1.
    pub repeat: usize,
    /// Names of all workers.
    pub names: u64,
    /// From the first worker's beginning to the last one's end.
    pub seconds: f64,
}

/// Small files written, alone or beside listings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CrowdLine {
    /// From where both are done.
    pub place: String,
    /// Listings at a time; 0: none.
    pub listings: u32,
    /// Which repetition, from 1.
    pub repeat: usize,
    /// Files written.
    pub writes: u64,
    /// Median time to create, write and close one.
    pub p50_s: f64,
    /// The time that 99 of 100 stay below.
    pub p99_s: f64,
    /// The longest.
    pub most_s: f64,
    /// Entries listed meanwhile, in all listings.
    pub listed: u64,
    /// How long it took.
    pub seconds: f64,
}

/// A tree of small files copied in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CopyLine {
    /// From where.
    pub place: String,
    /// By what.
    pub how: String,
    /// Which repetition, from 1.
    pub repeat: usize,
    /// Files.
    pub files: u64,
    /// Bytes of each.
    pub bytes_each: u64,
    /// The time.
    pub seconds: f64,
}

#[cfg(test)]
mod tests {
    use super::super::plan::Ground;
    use super::*;
    use crate::log::{Log, load};

    #[test]
    fn every_kind_of_line_survives_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("raw.jsonl");
        let header = Header { schema: SCHEMA.into(), label: "x".into(), places: vec!["here".into()] };
        let point = Point { ground: Ground { servers: 4, targets: 8, files: 10, datafiles: 32 }, place: "here".into(), how: "sync".into() };
        let names = NamesPoint { place: "here".into(), mounted: false, shared: true, workers: 4, batch: 64 };
        let lines = vec![
            Line::Link(LinkLine { place: "here".into(), asked_us: 0.0, round_trip_us: 40.0, bytes_per_s: None }),
            Line::Listing(Listing {
                point,
                repeat: 1,
                entries: 10,
                seconds: 0.5,
                counters: Some(Counters { requests: 3, ..Counters::default() }),
                client_cpu_s: 0.25,
                server_cpu_s: None,
                link_cpu_s: Some(0.5),
                bytes: 7,
                at_unix_s: 9,
            }),
            Line::Names(NamesLine { point: names, phase: Phase::Stat, repeat: 2, names: 8, seconds: 0.25 }),
            Line::Crowd(CrowdLine {
                place: "here".into(),
                listings: 100,
                repeat: 1,
                writes: 10,
                p50_s: 0.5,
                p99_s: 1.0,
                most_s: 2.0,
                listed: 4,
                seconds: 5.0,
            }),
            Line::Copy(CopyLine { place: "here".into(), how: "cp -r".into(), repeat: 1, files: 3, bytes_each: 4096, seconds: 0.75 }),
        ];
        let (mut log, none) = Log::open::<Line>(&path, &header, false).unwrap();
        assert!(none.is_empty());
        lines.iter().for_each(|line| log.add(line).unwrap());
        assert_eq!(load::<Header, Line>(&path).unwrap(), (header, lines));
    }
}
