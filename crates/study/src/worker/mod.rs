//! The process on a node: reads orders, does them, answers.
//!
//! | room | what is in it |
//! |---|---|
//! | [`moving`] | transfers through paths and through the client library, timed |
//! | [`explain`] | a digest of a run's recording |
//! | [`link`] | how much a link carries |
//!
//! What is said about listings is done by [`crate::ls::worker`].

mod explain;
mod link;
mod moving;

use crate::ls;
use crate::protocol::{Answer, At, Order, Work};
use crate::series::as_attribute;
use crate::{Error, Result};
use explain::Recorded;
use moving::Prepared;
use rustix::fs::{FileType, Mode, XattrFlags};
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_measure::CacheState;
use thalweg_store::ErrorKind;
use thalweg_store::client::{DataClient, Store};
use thalweg_store::metadata::client::MetadataClient;
use thalweg_store::protocol::metadata::{Existing, LayoutChoice, Owner, Place};
use thalweg_store::wire::Connect;
use thalweg_trace::Tracer;

/// A page that a server has just sent can be held by the network for a moment; so long is it asked again.
const EVICT_WITHIN: Duration = Duration::from_secs(3);
/// The attribute by which a mounted file is laid out.
const LAYOUT_ATTRIBUTE: &str = "user.thalweg.layout";
/// The attribute that says why a layout was refused.
const ERROR_ATTRIBUTE: &str = "user.thalweg.error";

/// Reads orders until there are no more.
///
/// # Errors
/// When answers cannot be written or orders not read; what goes wrong in an order is its answer.
pub fn serve(orders: impl BufRead, mut answers: impl Write) -> Result<()> {
    let pipe = Path::new("the pipe to the node's process");
    let mut worker = Worker::default();
    for line in orders.lines() {
        let line = line.map_err(Error::file(pipe, "reading an order"))?;
        let answer = match serde_json::from_str::<Order>(&line) {
            Ok(order) => worker.obey(order).unwrap_or_else(|error| Answer::Failed(error.to_string())),
            Err(error) => Answer::Failed(format!("an order that is none ({error}): are all nodes' programs of one version?")),
        };
        let mut text = serde_json::to_string(&answer).expect("an answer always serialises");
        text.push('\n');
        answers.write_all(text.as_bytes()).and_then(|()| answers.flush()).map_err(Error::file(pipe, "answering"))?;
    }
    Ok(())
}

/// What is kept between orders.
#[derive(Default)]
struct Worker {
    store: Option<(MetadataClient, Store)>,
    options: Connect,
    node: String,
    prepared: Option<Prepared>,
    recorded: Option<Recorded>,
    mounts: Vec<PathBuf>,
    recordings: u32,
    ls: ls::worker::Worker,
}

impl Drop for Worker {
    fn drop(&mut self) {
        for mount in std::mem::take(&mut self.mounts) {
            let _ = unmount(&mount);
        }
    }
}

impl Worker {
    fn obey(&mut self, order: Order) -> Result<Answer> {
        match order {
            Order::Connect { store, node, timeout_s } => self.connect(&store, &node, timeout_s),
            Order::Make { at, layout } => self.make(&at, layout.as_ref()),
            Order::Prepare(work) => self.prepare(work),
            Order::Go => self.go(),
            Order::Explain => Ok(Answer::Explained(self.recorded.take().and_then(Recorded::explain))),
            Order::Evict(files) => evict(&files).map(Answer::Evicted),
            Order::Settle { directories, memory_bytes } => settle(&directories, memory_bytes),
            Order::Remove(at) => self.remove(&at),
            Order::Mount { store, mount_point } => self.mount(&store, mount_point),
            Order::Unmount(mount_point) => {
                self.mounts.retain(|mount| *mount != mount_point);
                unmount(&mount_point).map(|()| Answer::Done)
            }
            Order::Listen(address) => link::listen(&address),
            Order::Stream { to, seconds } => link::stream(&to, Duration::from_secs_f64(seconds)),
            Order::Ls(order) => {
                let store = self.store.as_ref().map(|(names, store)| ls::worker::Store {
                    address: names.address().to_owned(),
                    options: self.options.clone(),
                    names: names.clone(),
                    data: Arc::clone(&store.data),
                });
                self.ls.obey(order, store.as_ref()).map(Answer::Ls)
            }
        }
    }

    fn connect(&mut self, address: &str, node: &str, timeout_s: f64) -> Result<Answer> {
        let options = Connect { timeout: Duration::from_secs_f64(timeout_s), node: node.to_owned(), ..Connect::default() };
        let names = MetadataClient::connect(&mut Tracer::off(), address, &options)?;
        let map = names.map();
        self.options = Connect { store: Some(map.store), ..options };
        let data = Arc::new(DataClient::of_store(map.as_ref().clone(), &self.options, Arc::new(names.clone())));
        node.clone_into(&mut self.node);
        self.store = Some((names.clone(), Store { names: Arc::new(names), data }));
        Ok(Answer::Connected(map.as_ref().clone()))
    }

    fn store(&self) -> Result<&(MetadataClient, Store)> {
        self.store.as_ref().ok_or_else(|| Error::Choice("an order about a store before one was connected to: a bug".into()))
    }

    fn make(&self, at: &At, layout: Option<&LayoutChoice>) -> Result<Answer> {
        match at {
            At::Store(path) => {
                let (names, _) = self.store()?;
                let choice = layout.cloned().unwrap_or_default();
                let owner = Owner { mode: 0o600, uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() };
                let made = names.create(&mut Tracer::off(), &Place::at(path), owner, Existing::Replace, &choice)?;
                Ok(Answer::Made(Some(made.id().0)))
            }
            At::Path(path) => make_path(path, layout),
        }
    }

    fn prepare(&mut self, work: Work) -> Result<Answer> {
        (self.prepared, self.recorded) = (None, None);
        self.prepared = Some(match work {
            Work::Command { argv, bytes } => Prepared::command(argv, bytes)?,
            Work::Move { at: At::Path(path), access, read, .. } => Prepared::path(&path, access, read)?,
            Work::Move { at: At::Store(path), access, read, in_flight, record } => {
                let (names, _) = self.store()?;
                // Every run makes its own connections, as a program does; and threads that outlive a run would go on recording it.
                let data = Arc::new(DataClient::of_store(names.map().as_ref().clone(), &self.options, Arc::new(names.clone())));
                let store = Store { names: Arc::new(names.clone()), data };
                let recorder = if record { Some(explain::start(&store, &self.node, self.recordings, read)?) } else { None };
                self.recordings += 1;
                Prepared::store(&store, &path, access, read, in_flight, recorder)?
            }
        });
        Ok(Answer::Ready)
    }

    fn go(&mut self) -> Result<Answer> {
        let prepared = self.prepared.take().ok_or_else(|| Error::Choice("told to go before it was told what to do: a bug".into()))?;
        let (ran, recorded) = prepared.go()?;
        self.recorded = recorded;
        Ok(ran)
    }

    fn remove(&self, at: &At) -> Result<Answer> {
        match at {
            At::Store(path) => match self.store()?.0.unlink(&mut Tracer::off(), &Place::at(path)) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            },
            // Some servers keep removed files open, and their space with them.
            At::Path(path) => match std::fs::File::create(path).and_then(|_| std::fs::remove_file(path)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(Error::file(path, "removing it")(error)),
                _ => {}
            },
        }
        Ok(Answer::Done)
    }

    fn mount(&mut self, store: &str, mount_point: PathBuf) -> Result<Answer> {
        std::fs::create_dir_all(&mount_point).map_err(Error::file(&mount_point, "making the mount point"))?;
        let words: [&std::ffi::OsStr; 5] =
            ["mount".as_ref(), store.as_ref(), mount_point.as_os_str(), "--node".as_ref(), self.node.as_ref()];
        ourselves(&words)?;
        self.mounts.push(mount_point);
        Ok(Answer::Done)
    }
}

/// Runs this very program with these words.
fn ourselves(words: &[&std::ffi::OsStr]) -> Result<()> {
    // By this name it is found even when the file it was started from has been replaced meanwhile: a mount must come down.
    let program = Path::new("/proc/self/exe");
    let ran = Command::new(program).args(words).output().map_err(Error::file(program, "starting it"))?;
    if ran.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ran.stderr);
    Err(Error::Choice(format!("thalweg {}: {}", words[0].to_string_lossy(), said.trim())))
}

fn unmount(mount_point: &Path) -> Result<()> {
    ourselves(&["umount".as_ref(), mount_point.as_os_str()])?;
    // Only an empty directory goes.
    let _ = std::fs::remove_dir(mount_point);
    Ok(())
}

/// A new file by its path; on a mount, made with its layout before anybody opens it.
fn make_path(path: &Path, layout: Option<&LayoutChoice>) -> Result<Answer> {
    if let Err(error) = std::fs::remove_file(path)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(Error::file(path, "removing the old one")(error));
    }
    let Some(choice) = layout else {
        std::fs::File::create(path).map_err(Error::file(path, "making it"))?;
        return Ok(Answer::Made(None));
    };
    let made = rustix::fs::mknodat(rustix::fs::CWD, path, FileType::RegularFile, Mode::from_raw_mode(0o600), 0);
    made.map_err(|e| Error::file(path, "making it")(e.into()))?;
    let text = as_attribute(choice);
    if let Err(error) = rustix::fs::setxattr(path, LAYOUT_ATTRIBUTE, text.as_bytes(), XattrFlags::empty()) {
        let mut why = [0_u8; 4096];
        let said = rustix::fs::getxattr(path, ERROR_ATTRIBUTE, &mut why[..]).unwrap_or(0);
        let why = String::from_utf8_lossy(&why[..said.min(why.len())]).into_owned();
        return Err(Error::Choice(format!("{}: layout `{text}`: {error} {why}", path.display())));
    }
    let about = rustix::fs::stat(path).map_err(|e| Error::file(path, "asking for its number")(e.into()))?;
    Ok(Answer::Made(Some(about.st_ino)))
}

/// Empties the caches of those files that are there.
fn evict(files: &[PathBuf]) -> Result<CacheState> {
    let there: Vec<&PathBuf> = files.iter().filter(|path| path.exists()).collect();
    let begun = Instant::now();
    loop {
        let state = thalweg_measure::evict(&there)?;
        if state.is_verified() || there.is_empty() || begun.elapsed() > EVICT_WITHIN {
            return Ok(state);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Puts disks to rest, and uses as much memory as a run will need: a virtual machine gives memory back that it has not used, and
/// whoever needs it next waits for it.
fn settle(directories: &[PathBuf], memory_bytes: u64) -> Result<Answer> {
    let mut memory = vec![0_u8; memory_bytes as usize];
    memory.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    std::hint::black_box(&memory);
    drop(memory);
    for directory in directories {
        let open = std::fs::File::open(directory).map_err(Error::file(directory, "opening it"))?;
        rustix::fs::syncfs(&open).map_err(|e| Error::file(directory, "putting its file system on media")(e.into()))?;
    }
    Ok(Answer::Done)
}
