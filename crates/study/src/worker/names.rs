//! `mdtest`'s patterns: every worker makes its directories, then queries their attributes, then removes them, with all workers in step; then
//! likewise for files, which may be read too. Each worker has its own directory, or all share one.
//!
//! A worker is a thread with its own connections, new ones for each phase, so that it has nothing cached. With single calls a file is
//! created and closed as by a program (an open and a close), queried, and removed, one call after the other. With batches the library's
//! batched requests are used. Through a mount, workers make system calls and share the mount; names that another worker made
//! ([`NamesPoint::stride`]) are then used through a second mount, by the process of another node.

use super::client::{Client, content, file_name, owner};
use super::protocol::{Answer, NamesPoint, Phase};
use crate::{Error, Result};
use parking_lot::Mutex;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::time::Instant;
use thalweg_client::wire::protocol::metadata::{End, Existing, FilePath, LayoutChoice, Small};
use thalweg_client::wire::raise_descriptors;
use thalweg_client::{FileHandle, StoreFile};
use thalweg_trace::Tracer;

/// Runs one phase by all workers concurrently; measures from the first one's start to the last one's end.
pub(super) fn phase(client: &Client, point: &NamesPoint, phase: Phase, below: &str, each: u64) -> Result<Answer> {
    // Each worker has its own connections.
    raise_descriptors();
    if phase == Phase::TreeCreation {
        prepare(client, point, below)?;
    }
    let client_of_one = || if point.mounted { Ok(None) } else { client.another().map(Some) };
    let prepared = (0..point.workers).map(|rank| Ok(Rank::new(client_of_one()?, point, phase, below, rank, each)));
    at_once(prepared.collect::<Result<Vec<Rank>>>()?, phase)
}

/// Makes the directory for all trees.
fn prepare(client: &Client, point: &NamesPoint, below: &str) -> Result<()> {
    if point.mounted {
        std::fs::create_dir_all(below).map_err(Error::file(Path::new(below), "making it"))
    } else {
        client.make_directories(below).map(drop)
    }
}

/// Starts all ranks when all are ready.
fn at_once(prepared: Vec<Rank>, phase: Phase) -> Result<Answer> {
    let barrier = Barrier::new(prepared.len());
    let times: Mutex<Vec<(Instant, Instant)>> = Mutex::default();
    std::thread::scope(|scope| {
        let start = |rank: Rank| {
            let (barrier, times) = (&barrier, &times);
            scope.spawn(move || {
                barrier.wait();
                let begun = Instant::now();
                let done = rank.go(phase);
                times.lock().push((begun, Instant::now()));
                done
            })
        };
        let started: Vec<_> = prepared.into_iter().map(start).collect();
        started.into_iter().try_for_each(|rank| rank.join().map_err(|_| Error::Choice("a worker panicked: a bug".into()))?)
    })?;
    let times = times.into_inner();
    let (first, last) = (times.iter().map(|t| t.0).min(), times.iter().map(|t| t.1).max());
    Ok(Answer::Took(first.zip(last).map_or(0.0, |(first, last)| last.duration_since(first).as_secs_f64())))
}

/// One worker of `mdtest`.
struct Rank {
    client: Option<Client>,
    directory: String,
    names: Vec<String>,
    batch: usize,
    content: Vec<u8>,
}

impl Rank {
    fn new(client: Option<Client>, point: &NamesPoint, phase: Phase, below: &str, rank: u32, each: u64) -> Rank {
        let maker = (u64::from(rank) + u64::from(phase.strides()) * u64::from(point.stride)) % u64::from(point.workers);
        let tree = if point.shared { "all".to_owned() } else { format!("rank-{maker}") };
        let (batch, content) = (point.batch as usize, content(point.bytes.into()));
        if phase.is_of_tree() {
            let names = if point.shared && rank > 0 { Vec::new() } else { vec![tree] };
            return Rank { client, directory: below.to_owned(), names, batch, content };
        }
        let first = maker * each;
        let name = |number: u64| match phase {
            Phase::DirectoryCreation | Phase::DirectoryStat | Phase::DirectoryRemoval => format!("directory-{number:08}"),
            _ => file_name(number),
        };
        Rank { client, directory: format!("{below}/{tree}"), names: (first..first + each).map(name).collect(), batch, content }
    }

    fn go(self, phase: Phase) -> Result<()> {
        match &self.client {
            None => self.names.iter().try_for_each(|name| self.by_path(name, phase)),
            Some(client) if self.batch <= 1 || phase == Phase::FileRead => {
                self.names.iter().try_for_each(|name| self.single(client, name, phase))?;
                // Including the last one's close.
                Ok(client.names.report_closed(&mut Tracer::off())?)
            }
            Some(client) => self.names.chunks(self.batch).try_for_each(|names| self.many(client, names, phase)),
        }
    }

    fn by_path(&self, name: &str, phase: Phase) -> Result<()> {
        let path = Path::new(&self.directory).join(name);
        match phase {
            Phase::TreeCreation | Phase::DirectoryCreation => std::fs::create_dir(&path),
            Phase::FileCreation => {
                let made = std::fs::File::options().write(true).create_new(true).open(&path);
                made.and_then(|mut file| file.write_all(&self.content))
            }
            Phase::DirectoryStat | Phase::FileStat => std::fs::metadata(&path).map(drop),
            Phase::FileRead => return self.check(name, &std::fs::read(&path).map_err(Error::file(&path, phase.name()))?),
            Phase::FileRemoval => std::fs::remove_file(&path),
            Phase::DirectoryRemoval | Phase::TreeRemoval => std::fs::remove_dir(&path),
        }
        .map_err(Error::file(&path, phase.name()))
    }

    /// Rejects a file whose data is not what was written.
    fn check(&self, name: &str, read: &[u8]) -> Result<()> {
        if read == self.content {
            return Ok(());
        }
        Err(Error::Choice(format!("{}/{name}: does not have the {} bytes that were written to it", self.directory, self.content.len())))
    }

    fn place(&self, name: &str) -> FilePath {
        FilePath::at(format!("{}/{name}", self.directory))
    }

    fn single(&self, client: &Client, name: &str, phase: Phase) -> Result<()> {
        let (place, mut tracer) = (self.place(name), Tracer::off());
        match phase {
            Phase::TreeCreation | Phase::DirectoryCreation => {
                drop(client.names.make_directory(&mut tracer, &place, owner(0o755), false)?);
            }
            Phase::FileCreation => self.create(client, name, &place)?,
            Phase::DirectoryStat | Phase::FileStat => drop(client.names.stat(&mut tracer, &place)?),
            Phase::FileRead => {
                let opened = client.names.open(&mut tracer, &place, false)?;
                let mut read = vec![0; self.content.len()];
                let handle = FileHandle::from_attributes(name, &opened.attributes)?;
                let bytes = StoreFile::new(Arc::clone(&client.data), handle).read_at(&mut read, 0)?;
                self.check(name, &read[..bytes])?;
            }
            Phase::FileRemoval => client.names.unlink(&mut tracer, &place)?,
            Phase::DirectoryRemoval | Phase::TreeRemoval => client.names.remove_directory(&mut tracer, &place)?,
        }
        Ok(())
    }

    fn create(&self, client: &Client, name: &str, place: &FilePath) -> Result<()> {
        let made = client.names.create(&mut Tracer::off(), place, owner(0o755), Existing::Refuse, &LayoutChoice::default())?;
        if !self.content.is_empty() {
            let handle = FileHandle::from_attributes(name, &made.attributes)?;
            StoreFile::new(Arc::clone(&client.data), handle).write_at(&self.content, 0)?;
        }
        made.ended(End::whole(self.content.len() as u64, false));
        Ok(())
    }

    fn many(&self, client: &Client, names: &[String], phase: Phase) -> Result<()> {
        let mut tracer = Tracer::off();
        let places = names.iter().map(|name| self.place(name));
        if matches!(phase, Phase::DirectoryStat | Phase::FileStat) {
            let found = client.names.stat_many(&mut tracer, &places.collect::<Vec<_>>(), false)?;
            found.into_iter().collect::<thalweg_client::wire::Result<Vec<_>>>()?;
            return Ok(());
        }
        let operation = |place: FilePath| match phase {
            Phase::FileCreation => Small::MakeFile(client.names.new_file(place, owner(0o755), Existing::Refuse, &LayoutChoice::default())),
            Phase::TreeCreation | Phase::DirectoryCreation => Small::MakeDirectory { place, owner: owner(0o755), parents: false },
            Phase::DirectoryRemoval | Phase::TreeRemoval => Small::RemoveDirectory { place },
            _ => Small::Unlink { place, only: None },
        };
        let operations: Vec<Small> = places.map(operation).collect();
        let done = client.names.many(&mut tracer, &operations, Vec::new());
        done.into_iter().collect::<thalweg_client::wire::Result<Vec<_>>>()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(shared: bool, bytes: u32, stride: u32) -> NamesPoint {
        NamesPoint { location: "here".into(), mounted: true, shared, workers: 3, batch: 1, bytes, stride }
    }

    fn ranks(point: &NamesPoint, phase: Phase, below: &Path) -> Vec<Rank> {
        (0..point.workers).map(|rank| Rank::new(None, point, phase, &below.display().to_string(), rank, 4)).collect()
    }

    #[test]
    fn what_every_phase_makes_is_there_and_what_it_removes_is_gone() {
        for (shared, bytes, stride) in [(false, 0, 0), (true, 0, 0), (true, 100, 1), (false, 100, 1)] {
            let (directory, point) = (tempfile::tempdir().unwrap(), point(shared, bytes, stride));
            let mut entries = Vec::new();
            for phase in point.phases() {
                at_once(ranks(&point, phase, directory.path()), phase).unwrap();
                let trees = std::fs::read_dir(directory.path()).unwrap().map(|tree| tree.unwrap().path());
                let inside = trees.map(|tree| std::fs::read_dir(tree).unwrap().count()).collect::<Vec<_>>();
                entries.push((inside.len(), inside.iter().sum::<usize>()));
            }
            let trees = if shared { 1 } else { 3 };
            let of_directories: &[_] = if bytes == 0 { &[(trees, 12), (trees, 12), (trees, 0)] } else { &[] };
            let of_files: &[_] = if bytes == 0 { &[(trees, 12), (trees, 12)] } else { &[(trees, 12), (trees, 12), (trees, 12)] };
            assert_eq!(entries, [&[(trees, 0)], of_directories, of_files, &[(trees, 0), (0, 0)]].concat());
        }
    }

    #[test]
    fn with_a_stride_no_worker_meets_what_it_made_or_used_before() {
        let point = NamesPoint { workers: 5, ..point(true, 100, 1) };
        let names = |phase: Phase| ranks(&point, phase, Path::new("/")).swap_remove(0).names;
        let phases = [Phase::FileCreation, Phase::FileStat, Phase::FileRead, Phase::FileRemoval];
        for (at, phase) in phases.into_iter().enumerate() {
            assert!(phases[..at].iter().all(|other| names(*other) != names(phase)), "{phase:?}");
        }
        let own = NamesPoint { stride: 0, ..point.clone() };
        assert_eq!(ranks(&own, Phase::FileRemoval, Path::new("/"))[0].names, names(Phase::FileCreation));
        assert!(point.is_elsewhere(Phase::FileStat) && !point.is_elsewhere(Phase::FileCreation) && !own.is_elsewhere(Phase::FileStat));
    }

    #[test]
    fn a_file_with_other_bytes_than_were_written_fails_its_phase() {
        let (directory, point) = (tempfile::tempdir().unwrap(), point(true, 100, 0));
        for phase in [Phase::TreeCreation, Phase::FileCreation] {
            at_once(ranks(&point, phase, directory.path()), phase).unwrap();
        }
        std::fs::write(directory.path().join("all").join(file_name(7)), "short").unwrap();
        let error = at_once(ranks(&point, Phase::FileRead, directory.path()), Phase::FileRead).unwrap_err().to_string();
        assert!(error.contains("file-00000007") && error.contains("100 bytes"), "{error}");
    }
}
