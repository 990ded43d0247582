//! The request for a study of listings: parts, locations and scale.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Above this number of workers, the total number of names stays constant, so that directory and run do not grow.
const FEW_WORKERS: u32 = 4;

/// The request for a study of listings.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Path of the `thalweg` to measure.
    pub program: PathBuf,
    /// Directory for temporary stores, on the disk to measure.
    pub directory: PathBuf,
    /// Locations, and other systems.
    pub stage: Stage,
    /// The parts; empty: all.
    pub parts: Vec<Part>,
    /// The scale of each part.
    pub scale: Scale,
    /// Repetitions, interleaved.
    pub repeat: usize,
    /// Timeout for a server in seconds; ten times as long for a location.
    pub timeout_s: f64,
    /// Directory for the raw times and results.
    pub out: PathBuf,
    /// Whether to resume from existing runs.
    pub resume: bool,
}

/// A part of the study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Files of 0 to 32 datafiles, each mechanism, each round trip.
    Grid,
    /// Growing numbers of files in one directory.
    Items,
    /// Growing numbers of targets on a server.
    Targets,
    /// `mdtest`: directories and files created, queried, read and removed per second.
    Names,
    /// Many concurrent listings beside a writer of small files.
    Crowd,
    /// Trees of small files copied in.
    Copies,
}

impl Part {
    /// All parts.
    pub const ALL: [Part; 6] = [Part::Grid, Part::Items, Part::Targets, Part::Names, Part::Crowd, Part::Copies];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Part::Grid => "grid",
            Part::Items => "items",
            Part::Targets => "targets",
            Part::Names => "names",
            Part::Crowd => "crowd",
            Part::Copies => "copies",
        }
    }

    /// Returns the part of this name.
    ///
    /// # Errors
    /// The name is unknown; the error lists the known ones.
    pub fn named(name: &str) -> Result<Part> {
        Part::ALL.into_iter().find(|part| part.name() == name).ok_or_else(|| {
            let all: Vec<&str> = Part::ALL.iter().map(|part| part.name()).collect();
            Error::Choice(format!("part `{name}`: expected {}", all.join(", ")))
        })
    }
}

/// The scale of the study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    /// I/O servers (4 in the reference study, with 8 targets each).
    pub servers: u32,
    /// Targets of each server.
    pub targets: u32,
    /// Files in each directory of the grid.
    pub files: u64,
    /// Datafiles per file in the grid; 0: files never written.
    pub datafiles: Vec<u32>,
    /// Directories of the items part: files, and datafiles per file.
    pub items: Vec<(u64, u32)>,
    /// Targets per server in the targets part.
    pub targets_axis: Vec<u32>,
    /// Approximate duration of a run that goes one file at a time; it lists as many files as fit.
    pub slow_s: f64,
    /// Names created by each worker in each run; fewer with many workers.
    pub names_each: u64,
    /// Numbers of concurrent workers.
    pub workers: Vec<u32>,
    /// Operations in one request; 1: single calls.
    pub batches: Vec<u32>,
    /// Number of concurrent listings.
    pub listings: u32,
    /// Files in the directory that they list.
    pub listed_files: u64,
    /// Small files written in one run beside them.
    pub writes: u32,
    /// Files copied in.
    pub copied_files: u64,
    /// Bytes per copied file.
    pub copied_bytes: u64,
}

impl Scale {
    /// Returns the usual scale: about 20 minutes on two processors.
    pub fn usual() -> Scale {
        Scale {
            servers: 4,
            targets: 8,
            files: 25_000,
            datafiles: vec![0, 1, 2, 4, 8, 16, 32],
            items: vec![(1_000, 4), (10_000, 4), (100_000, 4), (400_000, 4), (1_000_000, 0)],
            targets_axis: vec![1, 2, 4, 8],
            slow_s: 0.4,
            names_each: 4_096,
            workers: vec![1, 8, 64],
            batches: vec![1, 64],
            listings: 100,
            listed_files: 10_000,
            writes: 2_000,
            copied_files: 10_000,
            copied_bytes: 4_096,
        }
    }

    /// Returns the scale of a smoke test, under a minute: its figures mean nothing.
    pub fn short() -> Scale {
        Scale {
            servers: 2,
            targets: 2,
            files: 600,
            datafiles: vec![0, 1, 4],
            items: vec![(100, 1), (1_000, 1)],
            targets_axis: vec![1, 2],
            slow_s: 0.05,
            names_each: 128,
            workers: vec![1, 2],
            batches: vec![1, 64],
            listings: 8,
            listed_files: 200,
            writes: 50,
            copied_files: 200,
            ..Scale::usual()
        }
    }

    /// Limits grid and axes to `files` files.
    #[must_use]
    pub fn with_files(mut self, files: u64) -> Scale {
        self.files = files;
        self
    }

    /// Returns the names per worker for this number of workers and operations per request.
    pub(super) fn names_of_each(&self, workers: u32, batch: u32) -> u64 {
        // Single calls take longer.
        let each = if batch == 1 { self.names_each / 4 } else { self.names_each };
        (each * u64::from(FEW_WORKERS) / u64::from(workers.max(FEW_WORKERS))).max(8)
    }

    /// # Errors
    /// A number is invalid.
    pub fn check(&self) -> Result<()> {
        let targets = self.servers * self.targets;
        let most = self.datafiles.iter().chain(self.items.iter().map(|(_, datafiles)| datafiles)).copied().max().unwrap_or(0);
        if most > targets {
            return Err(Error::Choice(format!("files of {most} datafiles need as many targets, but only {targets} are to be started")));
        }
        let few = self.datafiles.len() < 2 || self.files < 10 || self.servers == 0 || self.targets == 0;
        if few || self.workers.contains(&0) || self.batches.contains(&0) || self.targets_axis.contains(&0) {
            return Err(Error::Choice("expected at least two numbers of datafiles, 10 files, and one of everything else".into()));
        }
        Ok(())
    }
}

/// The locations to list from and the systems to compare with, from a TOML file or [`Stage::here`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Description, for the head of the page.
    #[serde(default)]
    pub label: String,
    /// Prefix that starts a command on the servers' machine; absent: this machine.
    #[serde(default)]
    pub serve_on: Option<String>,
    /// The address at which the servers are reached from all locations.
    #[serde(default = "loopback")]
    pub host: String,
    /// The locations to list from.
    pub locations: Vec<Location>,
    /// Other systems.
    #[serde(default)]
    pub peers: Vec<Peer>,
}

fn loopback() -> String {
    "127.0.0.1".into()
}

/// A location to list from.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Location {
    /// Its name: `1 ms`.
    pub name: String,
    /// The nominal round-trip time to the servers; 0: the same machine.
    pub round_trip_us: f64,
    /// Prefix that starts a command there; absent: this machine.
    #[serde(default)]
    pub run_on: Option<String>,
    /// Processes that emulate the link: their CPU time counts neither for the client nor for the servers.
    #[serde(default)]
    pub link_pids: Vec<u32>,
}

/// Another system, on which the same number of files is listed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// Its name and listing method: `NFS-Ganesha, READDIRPLUS`.
    pub name: String,
    /// The directory on its server's disk for the files.
    pub directory: PathBuf,
    /// Command that lists; `{directory}` is replaced by a directory's name below that one, `{window}` by the requests in flight.
    pub list: String,
    /// Numbers of requests in flight; each is a curve.
    pub windows: Vec<u32>,
    /// Round trips per file with a window of 1, from which the number of files to list is chosen; 0: all.
    pub trips_per_file: f64,
    /// Its server's processes.
    #[serde(default)]
    pub pids: Vec<u32>,
}

impl Stage {
    /// Returns a stage of this machine alone.
    pub fn here() -> Stage {
        let location = Location { name: "loopback".into(), round_trip_us: 0.0, run_on: None, link_pids: Vec::new() };
        Stage { label: String::new(), serve_on: None, host: loopback(), locations: vec![location], peers: Vec::new() }
    }

    /// # Errors
    /// Two locations have the same name, or there is no location.
    pub fn check(&self) -> Result<()> {
        let names: Vec<&str> = self.locations.iter().map(|location| location.name.as_str()).collect();
        match names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
            _ if names.is_empty() => Err(Error::Choice("a stage needs at least one location".into())),
            Some((_, name)) => Err(Error::Choice(format!("two locations are called `{name}`"))),
            None => Ok(()),
        }
    }

    /// Returns the index of the location nearest to the servers.
    pub fn nearest(&self) -> usize {
        let near = |at: &usize| self.locations[*at].round_trip_us;
        (0..self.locations.len()).min_by(|a, b| near(a).total_cmp(&near(b))).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_and_the_short_form_are_possible() {
        Scale::usual().check().unwrap();
        Scale::short().check().unwrap();
        let wrong = Scale { datafiles: vec![1, 64], ..Scale::usual() };
        assert!(wrong.check().unwrap_err().to_string().contains("64 datafiles"));
        assert!(Part::named("walls").unwrap_err().to_string().starts_with("part `walls`: expected grid, "));
        assert_eq!(Part::named("crowd").unwrap(), Part::Crowd);
    }

    #[test]
    fn a_stage_is_read_from_its_file_and_held_to_it() {
        let mut stage = Stage::here();
        stage.check().unwrap();
        stage.locations.push(Location { name: "far".into(), round_trip_us: 1000.0, run_on: None, link_pids: vec![7] });
        assert_eq!(stage.nearest(), 0);
        stage.locations.push(stage.locations[1].clone());
        assert!(stage.check().unwrap_err().to_string().contains("two locations are called `far`"));
        stage.locations.clear();
        assert!(stage.check().is_err());
    }
}
