//! `mdtest`'s patterns: every worker creates its files, all have them, every worker asks for their attributes, every worker removes
//! them; in a directory of its own, or all in one.
//!
//! A worker is a thread with connections of its own. With single calls a file is created and closed as a program does it (an open and
//! a close), asked for, and removed, each waiting for the one before. With batches the library's requests of many are used.
//! Through a mount it is system calls.

use super::client::{Client, file_name, owner};
use super::protocol::{Answer, NamesPoint, Phase};
use crate::{Error, Result};
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Barrier;
use std::time::Instant;
use thalweg_store::protocol::metadata::{End, Existing, LayoutChoice, Place, Small};
use thalweg_trace::Tracer;

/// One phase, by all workers at once; how long from the first one's beginning to the last one's end.
pub(super) fn phase(client: &Client, point: &NamesPoint, phase: Phase, below: &str, each: u64) -> Result<Answer> {
    let workers = point.workers;
    let barrier = Barrier::new(workers as usize);
    let times: Mutex<Vec<(Instant, Instant)>> = Mutex::default();
    let prepared = (0..workers).map(|rank| Rank::new(client, point, phase, below, rank, each)).collect::<Result<Vec<Rank>>>()?;
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

/// One worker.
struct Rank {
    client: Option<Client>,
    directory: String,
    names: Vec<String>,
    batch: usize,
}

impl Rank {
    fn new(client: &Client, point: &NamesPoint, phase: Phase, below: &str, rank: u32, each: u64) -> Result<Rank> {
        let directory = if point.shared { format!("{below}/all") } else { format!("{below}/rank-{rank}") };
        let first = u64::from(rank) * each;
        let names = (first..first + each).map(file_name).collect();
        let client = if point.mounted { None } else { Some(client.another()?) };
        if phase == Phase::Create {
            match &client {
                Some(client) => drop(client.make_directories(&directory)?),
                None => std::fs::create_dir_all(&directory).map_err(Error::file(Path::new(&directory), "making it"))?,
            }
        }
        Ok(Rank { client, directory, names, batch: point.batch as usize })
    }

    fn go(self, phase: Phase) -> Result<()> {
        match &self.client {
            None => self.names.iter().try_for_each(|name| self.by_path(name, phase)),
            Some(client) if self.batch <= 1 => self.names.iter().try_for_each(|name| self.single(client, name, phase)),
            Some(client) => self.names.chunks(self.batch).try_for_each(|names| self.many(client, names, phase)),
        }
    }

    fn by_path(&self, name: &str, phase: Phase) -> Result<()> {
        let path = Path::new(&self.directory).join(name);
        match phase {
            Phase::Create => std::fs::File::options().write(true).create_new(true).open(&path).map(drop),
            Phase::Stat => std::fs::metadata(&path).map(drop),
            Phase::Remove => std::fs::remove_file(&path),
        }
        .map_err(Error::file(&path, phase.name()))
    }

    fn place(&self, name: &str) -> Place {
        Place::at(format!("{}/{name}", self.directory))
    }

    fn single(&self, client: &Client, name: &str, phase: Phase) -> Result<()> {
        let (place, mut tracer) = (self.place(name), Tracer::off());
        match phase {
            Phase::Create => {
                let made = client.names.create(&mut tracer, &place, owner(0o755), Existing::Refuse, &LayoutChoice::default())?;
                made.ended(End::whole(0, false));
            }
            Phase::Stat => drop(client.names.stat(&mut tracer, &place)?),
            Phase::Remove => client.names.unlink(&mut tracer, &place)?,
        }
        Ok(())
    }

    fn many(&self, client: &Client, names: &[String], phase: Phase) -> Result<()> {
        let mut tracer = Tracer::off();
        let places = names.iter().map(|name| self.place(name));
        if phase == Phase::Stat {
            let found = client.names.stat_many(&mut tracer, &places.collect::<Vec<_>>(), false)?;
            found.into_iter().collect::<thalweg_store::Result<Vec<_>>>()?;
            return Ok(());
        }
        let operation = |place: Place| match phase {
            Phase::Create => Small::MakeFile(client.names.new_file(place, owner(0o755), Existing::Refuse, &LayoutChoice::default())),
            _ => Small::Unlink { place, only: None },
        };
        let operations: Vec<Small> = places.map(operation).collect();
        let done = client.names.many(&mut tracer, &operations, Vec::new());
        done.into_iter().collect::<thalweg_store::Result<Vec<_>>>()?;
        Ok(())
    }
}
