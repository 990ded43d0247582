//! The process at a place: populates, lists, and uses names as it is told.
//!
//! | room | what is in it |
//! |---|---|
//! | [`populate`] | directories of many files, made in batches |
//! | [`listing`] | walks by the library, commands, and what they cost |
//! | [`names`] | `mdtest`'s patterns |
//! | [`crowd`] | small writes, and many listings at once |

mod crowd;
mod listing;
mod names;
mod populate;

use super::protocol::{Answer, Order};
use crate::{Error, Result};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_store::client::DataClient;
use thalweg_store::metadata::client::MetadataClient;
use thalweg_store::protocol::metadata::{FileId, Owner, Place};
use thalweg_store::wire::Connect;
use thalweg_trace::Tracer;

/// How long a mount may take to come up, and to go down.
const MOUNT_WITHIN: Duration = Duration::from_secs(30);
/// How often a request is timed for the round trip.
const TRIPS: usize = 31;

/// A store that was connected to.
#[derive(Clone)]
pub(crate) struct Store {
    /// `HOST:PORT` of its metadata service.
    pub address: String,
    /// How to connect to it.
    pub options: Connect,
    /// Names.
    pub names: MetadataClient,
    /// Bytes.
    pub data: Arc<DataClient>,
}

impl Store {
    /// The same store over connections of its own: another client.
    fn another(&self) -> Result<Store> {
        let names = MetadataClient::connect(&mut Tracer::off(), &self.address, &self.options)?;
        let data = Arc::new(DataClient::of_store(names.map().as_ref().clone(), &self.options, Arc::new(names.clone())));
        Ok(Store { address: self.address.clone(), options: self.options.clone(), names, data })
    }

    /// Makes directories down to this one, those that are there being no error.
    fn make_directories(&self, path: &str) -> Result<FileId> {
        Ok(self.names.make_directory(&mut Tracer::off(), &Place::at(path), owner(), true)?.id)
    }
}

/// Who owns what is made.
fn owner() -> Owner {
    Owner { mode: 0o755, uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
}

/// A name in a directory.
fn name(number: u64) -> String {
    format!("file-{number:08}")
}

/// What is kept between orders.
#[derive(Default)]
pub(crate) struct Worker {
    mount: Option<Mount>,
    crowd: Option<crowd::Crowd>,
}

impl Worker {
    /// Does it.
    pub(crate) fn obey(&mut self, order: Order, store: Option<&Store>) -> Result<Answer> {
        let store = || store.ok_or_else(|| Error::Choice("an order about a store before one was connected to: a bug".into()));
        match order {
            Order::Populate { directory, files, datafiles } => populate::populate(store()?, &directory, files, datafiles),
            Order::RoundTrip => round_trip(store()?),
            Order::Walk { directory, mode, most, bytes_each } => listing::walk(store()?, &directory, &mode, most, bytes_each),
            Order::Run { argv, counted } => listing::run(&argv, counted, self.mount.as_ref().map(|mount| mount.child.id())),
            Order::Mount { store, mount_point } => {
                let begun = Instant::now();
                self.mount = None;
                self.mount = Some(Mount::new(&store, mount_point)?);
                Ok(Answer::Took(begun.elapsed().as_secs_f64()))
            }
            Order::Unmount => {
                let begun = Instant::now();
                self.mount.take().map_or(Ok(()), |mut mount| mount.down())?;
                Ok(Answer::Took(begun.elapsed().as_secs_f64()))
            }
            Order::Names { point, phase, below, each } => names::phase(store()?, &point, phase, &below, each),
            Order::Write { directory, files, bytes } => crowd::write(store()?, &directory, files, bytes),
            Order::Begin { directory, listings } => {
                let begun = Instant::now();
                self.crowd = None;
                self.crowd = Some(crowd::Crowd::begin(store()?, &directory, listings)?);
                Ok(Answer::Took(begun.elapsed().as_secs_f64()))
            }
            Order::End => {
                let crowd = self.crowd.take().ok_or_else(|| Error::Choice("no listings were begun: a bug".into()))?;
                crowd.end().map(Answer::Listed)
            }
        }
    }
}

/// The median time of a request that costs the service next to nothing.
fn round_trip(store: &Store) -> Result<Answer> {
    let mut took = Vec::with_capacity(TRIPS);
    for _ in 0..TRIPS {
        let begun = Instant::now();
        store.names.stat(&mut Tracer::off(), &Place::of(FileId::ROOT))?;
        took.push(begun.elapsed().as_secs_f64());
    }
    Ok(Answer::Took(thalweg_measure::median(&took).unwrap_or(0.0)))
}

/// A mount of ours: a process in the foreground, so that its processor time is known.
struct Mount {
    point: PathBuf,
    child: Child,
    is_up: bool,
}

impl Mount {
    fn new(store: &str, point: PathBuf) -> Result<Mount> {
        std::fs::create_dir_all(&point).map_err(Error::file(&point, "making the mount point"))?;
        // By this name it is found even when the file it was started from has been replaced meanwhile.
        let program = Path::new("/proc/self/exe");
        let mut command = Command::new(program);
        command.arg("mount").arg(store).arg(&point).arg("--foreground");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().map_err(Error::file(program, "starting it"))?;
        let mut mount = Mount { point, child, is_up: true };
        let begun = Instant::now();
        while !is_mounted(&mount.point) {
            let ended = mount.child.try_wait().ok().flatten();
            if ended.is_some() || begun.elapsed() > MOUNT_WITHIN {
                let _ = mount.child.kill();
                let mut said = String::new();
                let _ = mount.child.stderr.take().map(|mut pipe| pipe.read_to_string(&mut said));
                return Err(Error::Choice(format!("thalweg mount {}: it did not come up: {}", mount.point.display(), said.trim())));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(mount)
    }

    fn down(&mut self) -> Result<()> {
        self.is_up = false;
        let said = Command::new("/proc/self/exe").arg("umount").arg(&self.point).output();
        if !said.as_ref().is_ok_and(|said| said.status.success()) && is_mounted(&self.point) {
            // Never left behind: a hung mount blocks whoever looks at it.
            let _ = Command::new("umount").arg("--lazy").arg(&self.point).output();
            let _ = self.child.kill();
        }
        self.child.wait().map_err(Error::file(&self.point, "waiting for its process"))?;
        // Only an empty directory goes.
        let _ = std::fs::remove_dir(&self.point);
        match said {
            Ok(said) if said.status.success() => Ok(()),
            Ok(said) => Err(Error::Choice(format!("thalweg umount: {}", String::from_utf8_lossy(&said.stderr).trim()))),
            Err(error) => Err(Error::file(&self.point, "unmounting it")(error)),
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.is_up {
            let _ = self.down();
        }
    }
}

/// Whether something is mounted there; asks nobody who may be dead.
fn is_mounted(point: &Path) -> bool {
    let point = std::path::absolute(point).unwrap_or_else(|_| point.to_owned());
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts.lines().any(|line| line.split(' ').nth(1).is_some_and(|at| Path::new(at) == point))
}
