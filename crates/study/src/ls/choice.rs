//! What to measure, from where, and how much of it.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// From so many workers on, they make as many names together as these: the directory is as large, and the run as long.
const FEW_WORKERS: u32 = 4;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The `thalweg` that is measured.
    pub program: PathBuf,
    /// Where stores are made and removed again: a directory on the disk to be measured.
    pub directory: PathBuf,
    /// From where, and beside what.
    pub stage: Stage,
    /// Which parts; empty: all.
    pub parts: Vec<Part>,
    /// How much of each.
    pub scale: Scale,
    /// Repetitions, interleaved.
    pub repeat: usize,
    /// Silence after which a server, and ten times that after which a location, is given up.
    pub timeout_s: f64,
    /// Where the raw times and results go.
    pub out: PathBuf,
    /// Whether to go on with what is there.
    pub resume: bool,
}

/// A part of the study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Files of 0 to 32 datafiles, each mechanism, each round trip.
    Grid,
    /// More and more files in one directory.
    Items,
    /// More and more targets on a server.
    Targets,
    /// `mdtest`: directories and files made, asked for, read and removed each second.
    Names,
    /// Many listings at once beside one who writes small files.
    Crowd,
    /// Trees of small files copied in.
    Copies,
}

impl Part {
    /// All of them.
    pub const ALL: [Part; 6] = [Part::Grid, Part::Items, Part::Targets, Part::Names, Part::Crowd, Part::Copies];

    /// Its name.
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

    /// The part of this name.
    ///
    /// # Errors
    /// There is none; which there are.
    pub fn named(name: &str) -> Result<Part> {
        Part::ALL.into_iter().find(|part| part.name() == name).ok_or_else(|| {
            let all: Vec<&str> = Part::ALL.iter().map(|part| part.name()).collect();
            Error::Choice(format!("part `{name}`: expected {}", all.join(", ")))
        })
    }
}

/// How much is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    /// I/O servers, and targets of each: the anchor's are 4 and 8.
    pub servers: u32,
    /// Targets of each server.
    pub targets: u32,
    /// Files of a directory in the grid.
    pub files: u64,
    /// Datafiles of a file in the grid; 0: files that nobody has ever written.
    pub datafiles: Vec<u32>,
    /// Directories of the items axis: files, and datafiles of each.
    pub items: Vec<(u64, u32)>,
    /// Targets of each server on the targets axis.
    pub targets_axis: Vec<u32>,
    /// About how long a run takes that goes one file at a time; it lists as many files as fit.
    pub slow_s: f64,
    /// Names made by each worker, in each run; fewer where many workers would make too many.
    pub names_each: u64,
    /// Workers at a time.
    pub workers: Vec<u32>,
    /// Operations in one request; 1: single calls.
    pub batches: Vec<u32>,
    /// Listings at a time, and files in the directory they list.
    pub listings: u32,
    /// Files in that directory.
    pub listed_files: u64,
    /// Small files written in one run beside them.
    pub writes: u32,
    /// Files copied in.
    pub copied_files: u64,
    /// Bytes of each.
    pub copied_bytes: u64,
}

impl Scale {
    /// About twenty minutes on two processors.
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

    /// Under a minute, and no figure to rely on.
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

    /// Grid and axes with so many files at most.
    #[must_use]
    pub fn with_files(mut self, files: u64) -> Scale {
        self.files = files;
        self
    }

    /// Names of each worker where so many work and so many operations are in a request.
    pub(super) fn names_of_each(&self, workers: u32, batch: u32) -> u64 {
        // Single calls take longer each.
        let each = if batch == 1 { self.names_each / 4 } else { self.names_each };
        (each * u64::from(FEW_WORKERS) / u64::from(workers.max(FEW_WORKERS))).max(8)
    }

    /// # Errors
    /// A number that is impossible.
    pub fn check(&self) -> Result<()> {
        let targets = self.servers * self.targets;
        let most = self.datafiles.iter().chain(self.items.iter().map(|(_, datafiles)| datafiles)).copied().max().unwrap_or(0);
        if most > targets {
            return Err(Error::Choice(format!("files of {most} datafiles need as many targets, and {targets} are to be started")));
        }
        let few = self.datafiles.len() < 2 || self.files < 10 || self.servers == 0 || self.targets == 0;
        if few || self.workers.contains(&0) || self.batches.contains(&0) || self.targets_axis.contains(&0) {
            return Err(Error::Choice("at least two numbers of datafiles, 10 files, and one of everything else".into()));
        }
        Ok(())
    }
}

/// From where listings are made, and what they are held against. A TOML file, or made by [`Stage::here`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// What it is, for the page's first lines.
    #[serde(default)]
    pub label: String,
    /// What starts a command where the servers are; absent: on this machine.
    #[serde(default)]
    pub serve_on: Option<String>,
    /// The address at which the servers are reached from all locations.
    #[serde(default = "loopback")]
    pub host: String,
    /// From where listings are made.
    pub locations: Vec<Location>,
    /// Other systems.
    #[serde(default)]
    pub peers: Vec<Peer>,
}

fn loopback() -> String {
    "127.0.0.1".into()
}

/// From where listings are made.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Location {
    /// Its name: `1 ms`.
    pub name: String,
    /// The round trip from there to the servers that was asked for; 0: the same machine.
    pub round_trip_us: f64,
    /// What starts a command there; absent: on this machine.
    #[serde(default)]
    pub run_on: Option<String>,
    /// Processes that are the link to there: their processor time is neither the client's nor the servers'.
    #[serde(default)]
    pub link_pids: Vec<u32>,
}

/// Another system that the same number of files is listed over.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// Its name, with how it lists: `NFS-Ganesha, READDIRPLUS`.
    pub name: String,
    /// The directory on its server's disk below which files are made.
    pub directory: PathBuf,
    /// What lists it; `{directory}` stands for a directory's name below that one, `{window}` for the requests in flight.
    pub list: String,
    /// Requests in flight; each is a curve.
    pub windows: Vec<u32>,
    /// Round trips that one file costs with a window of 1: how many files can be listed is chosen by it. 0: as many as there are.
    pub trips_per_file: f64,
    /// Its server's processes.
    #[serde(default)]
    pub pids: Vec<u32>,
}

impl Stage {
    /// This machine alone.
    pub fn here() -> Stage {
        let location = Location { name: "loopback".into(), round_trip_us: 0.0, run_on: None, link_pids: Vec::new() };
        Stage { label: String::new(), serve_on: None, host: loopback(), locations: vec![location], peers: Vec::new() }
    }

    /// # Errors
    /// Names that are not one each, or no location at all.
    pub fn check(&self) -> Result<()> {
        let names: Vec<&str> = self.locations.iter().map(|location| location.name.as_str()).collect();
        match names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
            _ if names.is_empty() => Err(Error::Choice("a stage needs at least one location".into())),
            Some((_, name)) => Err(Error::Choice(format!("two locations are called `{name}`"))),
            None => Ok(()),
        }
    }

    /// The location nearest the servers.
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
