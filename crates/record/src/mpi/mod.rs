//! Records the MPI calls of each rank, besides whatever else is recorded of its threads.
//!
//! A library that wraps MPI's functions (`mpi/`, built for each implementation) is loaded into the ranks; each writes
//! its calls into a file of its own in the recording's directory (`mpi/rank-N.mpi`; `mpi/record/record.h` describes
//! the format). When the command has ended, the files become `mpi.*` spans on the tracks that other recorders gave
//! those threads ([`Threads`] remembers them), and the tracks are named after the ranks. Messages and collectives are
//! matched here, rank by rank, with numbers that all ranks derive independently ([`matching`]), so that the ranks may
//! be in different recordings.
//!
//! Memory is bounded by one rank's file; the files are read one after another.

mod file;
mod implementation;
mod matching;
mod rank;
mod threads;
mod translate;

pub use implementation::{Implementation, rank_here};

use crate::{Finished, RecordError};
use rank::Rank;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thalweg_trace::{Event, HostId, IdSpace, Role, Sink, Track, TrackId, TrackKind};
use threads::Threads;

/// Whether, and for which implementation, MPI calls are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mpi {
    /// The implementation is detected: from a launcher, from the environment it gives its ranks, or from the
    /// program's libraries.
    Auto,
    /// This implementation.
    Of(Implementation),
}

/// Maximum size of one rank's file.
const LIMIT_BYTES: u64 = 256 << 20;

/// Recording of MPI calls in one run.
#[derive(Debug)]
pub(crate) struct MpiRecording {
    directory: PathBuf,
    library: PathBuf,
    limit_bytes: u64,
    threads: Arc<Threads>,
}

impl MpiRecording {
    /// Creates the ranks' directory within the recording at `output`, and finds the library.
    ///
    /// # Errors
    /// The command's implementation is unknown, its library has not been built, or the directory cannot be created.
    pub(crate) fn prepare(
        mpi: Mpi,
        command: &[OsString],
        output: &Path,
        limit_bytes: u64,
        sink: Arc<dyn Sink>,
    ) -> Result<MpiRecording, RecordError> {
        let implementation = match mpi {
            Mpi::Of(implementation) => implementation,
            Mpi::Auto => implementation::of_command(command)?,
        };
        let library = implementation::library(implementation)?;
        let problem = |path: &Path, error: std::io::Error| RecordError::File { path: path.to_owned(), problem: error.to_string() };
        let directory = std::path::absolute(output).map_err(|error| problem(output, error))?.join("mpi");
        fs::DirBuilder::new().mode(0o700).create(&directory).map_err(|error| problem(&directory, error))?;
        let threads = Arc::new(Threads::new(sink));
        Ok(MpiRecording { directory, library, limit_bytes: LIMIT_BYTES.min(limit_bytes / 4), threads })
    }

    /// Returns the sink that all other recorders' events must pass through from now on.
    pub(crate) fn sink(&self) -> Arc<dyn Sink> {
        Arc::clone(&self.threads) as Arc<dyn Sink>
    }

    /// Adds to the command's environment: our library precedes other preloaded ones.
    pub(crate) fn environment(&self, mut others: Vec<(OsString, OsString)>) -> Vec<(OsString, OsString)> {
        let mut preload = OsString::from(&self.library);
        let before = others.iter().position(|(name, _)| name == "LD_PRELOAD").map(|at| others.swap_remove(at).1);
        if let Some(before) = before.or_else(|| std::env::var_os("LD_PRELOAD")).filter(|before| !before.is_empty()) {
            preload.push(":");
            preload.push(before);
        }
        others.push(("LD_PRELOAD".into(), preload));
        others.push(("THALWEG_MPI_RECORD".into(), self.directory.clone().into()));
        others.push(("THALWEG_MPI_RECORD_LIMIT".into(), self.limit_bytes.to_string().into()));
        others
    }

    /// Converts the ranks' files to spans, after all other recorders have ended, and removes them. What cannot be
    /// read becomes a note.
    pub(crate) fn finish(&self, host: HostId, space: IdSpace) -> Finished {
        let mut finished = Finished::default();
        let ranks = match self.ranks(&mut finished.notes) {
            Ok(ranks) => ranks,
            Err(error) => {
                finished.notes.push(format!("The ranks' recordings cannot be read: {}: {error}.", self.directory.display()));
                return finished;
            }
        };
        if ranks.is_empty() {
            finished.notes.push(
                "No rank was recorded: the program did not initialise MPI, or uses another implementation (`--mpi=mpich`, `--mpi=openmpi`).".to_owned(),
            );
        }
        let mut translator = translate::Translator::new(host, space, self.sink());
        let tracks = self.name_ranks(&ranks, &mut translator);
        for rank in &ranks {
            let recorded = translator.rank(rank, &tracks, &self.threads);
            match recorded {
                Ok(lost) if lost > 0 => {
                    finished.dropped_events += lost;
                    finished.notes.push(format!(
                        "Rank {} made more calls than fit into {} MiB; the last {lost} were not recorded.",
                        rank.header.rank,
                        self.limit_bytes >> 20
                    ));
                }
                Ok(_) => {}
                Err(error) => finished.notes.push(format!("Rank {} could be read only in part: {error}.", rank.header.rank)),
            }
        }
        translator.end();
        if let Some(first) = ranks.first() {
            finished.attributes.push(("mpi.library".to_owned(), first.header.library.clone()));
            finished.attributes.push(("mpi.ranks".to_owned(), ranks.len().to_string()));
        }
        self.say_who_is_missing(&ranks, &mut finished.notes);
        let _ = fs::remove_dir_all(&self.directory);
        finished
    }

    /// Returns the ranks' files of this machine, by job and rank.
    fn ranks(&self, notes: &mut Vec<String>) -> std::io::Result<Vec<Rank>> {
        let here = thalweg_base::machine::host_name();
        let mut ranks = Vec::new();
        let mut elsewhere: BTreeMap<String, usize> = BTreeMap::new();
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            if path.extension().is_none_or(|extension| extension != "mpi") {
                continue;
            }
            match file::Header::read(&path) {
                Ok(header) if header.host != here => *elsewhere.entry(header.host).or_default() += 1,
                Ok(header) => ranks.push(Rank { path, header, job: 0 }),
                Err(problem) => notes.push(format!("{}: {problem}; it was left out.", path.display())),
            }
        }
        for (host, count) in elsewhere {
            notes.push(format!(
                "{count} ranks ran on {host}, which has another clock: record there too (`mpirun ... thalweg record --mpi -o job.thw -- \
                 PROGRAM`, and `thalweg merge`)."
            ));
        }
        number_jobs(&mut ranks);
        Ok(ranks)
    }

    /// Names each rank's main thread after it; returns the tracks.
    fn name_ranks(&self, ranks: &[Rank], translator: &mut translate::Translator) -> HashMap<(u32, i32), (TrackId, String)> {
        let several = ranks.iter().any(|rank| rank.job > 0);
        let mut tracks = HashMap::new();
        for rank in ranks {
            let header = &rank.header;
            let job = if several { format!("job {} ", rank.job + 1) } else { String::new() };
            let name = format!("{job}rank {}", header.rank);
            let track = self.threads.get(header.pid, header.tid).unwrap_or_else(|| Track {
                track: translator.fresh_track(),
                host: translator.host(),
                kind: TrackKind::Thread,
                role: Role::Client,
                pid: Some(header.pid),
                tid: Some(header.tid),
                name: String::new(),
            });
            tracks.insert((rank.job, header.rank), (track.track, name.clone()));
            translator.emit(Event::Track(Track { name, ..track }));
        }
        tracks
    }

    /// Adds a note for each job of which not all ranks were recorded.
    fn say_who_is_missing(&self, ranks: &[Rank], notes: &mut Vec<String>) {
        let jobs = ranks.last().map_or(0, |rank| rank.job + 1);
        for job in 0..jobs {
            let of_job: Vec<&Rank> = ranks.iter().filter(|rank| rank.job == job).collect();
            let world = of_job.first().map_or(0, |rank| rank.header.world_size);
            let have = of_job.len() as i64;
            // Ranks recorded one by one are each in a recording of their own.
            if have < i64::from(world) && rank_here().is_none() {
                notes.push(format!("{have} of the job's {world} ranks were recorded; the others are missing."));
            }
            let killed = of_job.iter().filter(|rank| !rank.header.ended).count();
            if killed > 0 {
                notes.push(format!("{killed} ranks ended without MPI_Finalize."));
            }
        }
    }
}

impl Drop for MpiRecording {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.directory);
    }
}

/// Assigns ranks to jobs. Launchers give their jobs names; without names, a rank's nth file belongs to the nth job.
fn number_jobs(ranks: &mut [Rank]) {
    ranks.sort_by_key(|a| (a.header.start_ns, a.header.rank));
    let mut seen: HashMap<(String, i32, i32), u32> = HashMap::new();
    let mut jobs: Vec<(String, i32, u32)> = Vec::new();
    for rank in ranks.iter_mut() {
        let header = &rank.header;
        let nth = seen.entry((header.job.clone(), header.world_size, header.rank)).or_default();
        let key = (header.job.clone(), header.world_size, *nth);
        *nth += 1;
        rank.job = jobs.iter().position(|job| *job == key).unwrap_or_else(|| {
            jobs.push(key);
            jobs.len() - 1
        }) as u32;
    }
    ranks.sort_by_key(|rank| (rank.job, rank.header.rank));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(job: &str, rank: i32, size: i32, start_ns: u64) -> Rank {
        let header = file::Header { job: job.to_owned(), rank, world_size: size, start_ns, ..file::Header::default() };
        Rank { path: PathBuf::new(), header, job: 0 }
    }

    #[test]
    fn jobs_one_after_the_other_are_distinguished() {
        let mut ranks = vec![rank("", 1, 2, 30), rank("", 0, 2, 31), rank("", 0, 2, 10), rank("", 1, 2, 12), rank("", 0, 4, 5)];
        number_jobs(&mut ranks);
        let recorded: Vec<(u32, i32, u64)> = ranks.iter().map(|r| (r.job, r.header.rank, r.header.start_ns)).collect();
        assert_eq!(recorded, [(0, 0, 5), (1, 0, 10), (1, 1, 12), (2, 0, 31), (2, 1, 30)]);
        let mut ranks = vec![rank("b", 0, 1, 30), rank("a", 0, 1, 31)];
        number_jobs(&mut ranks);
        assert_eq!(ranks.iter().map(|r| r.header.job.as_str()).collect::<Vec<_>>(), ["b", "a"]);
    }
}
