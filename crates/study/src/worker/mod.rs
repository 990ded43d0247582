//! A worker of a study: the process on a node or at a location that carries out orders.
//!
//! | module | contents |
//! |---|---|
//! | [`protocol`] | its orders, and answers |
//! | [`client`], [`mount`] | the store it is connected to; a mount of it |
//! | [`files`], [`moving`], [`explain`] | files of a run; bytes moved and timed; a digest of a run's recording |
//! | [`link`] | the rate of a link |
//! | [`populate`], [`listing`], [`names`], [`crowd`] | directories of many files; walks and commands; `mdtest`'s patterns; concurrent listings |

mod client;
mod crowd;
mod explain;
mod files;
mod link;
mod listing;
mod mount;
mod moving;
mod names;
mod populate;
pub(crate) mod protocol;

use crate::{Error, Result};
use client::Client;
use crowd::Crowd;
use explain::Recorded;
use mount::Mount;
use moving::Prepared;
use protocol::{Answer, At, Order, Task};
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use thalweg_client::wire::ErrorKind;
use thalweg_client::wire::protocol::metadata::{Existing, FilePath, LayoutChoice};
use thalweg_measure::{Host, Start, Workers};
use thalweg_trace::Tracer;

/// The arguments that start a worker.
const WORDS: [&str; 2] = ["bench", "node"];
/// Minimum timeout for a node, which is otherwise ten times a server's.
const LEAST_SILENCE_S: f64 = 60.0;

/// The workers of a study.
pub(crate) type Nodes<'a> = Workers<'a, Order, Answer>;

/// Starts the workers: `program` is the path of `thalweg` on the hosts, `timeout_s` the timeout for a server.
pub(crate) fn start<'a>(
    program: &std::path::Path,
    timeout_s: f64,
    hosts: impl IntoIterator<Item = Host>,
    cancelled: &'a dyn Fn() -> bool,
) -> Result<Nodes<'a>> {
    let words = [program.to_string_lossy().into_owned()].into_iter().chain(WORDS.map(String::from)).collect();
    let silence = Duration::from_secs_f64((timeout_s * 10.0).max(LEAST_SILENCE_S));
    Ok(Workers::start(Start { words, silence }, hosts, cancelled)?)
}

/// Streams from one worker to another, which listens at `host`; returns the bytes per second that arrived.
pub(crate) fn stream(nodes: &mut Nodes<'_>, from: usize, to: usize, host: &str, seconds: f64) -> Result<f64> {
    let Answer::Listening(to) = nodes.one(to, &Order::Listen(format!("{host}:0")))? else { return Err(protocol::strange()) };
    let Answer::Streamed(rate) = nodes.one(from, &Order::Stream { to, seconds })? else { return Err(protocol::strange()) };
    Ok(rate)
}

/// Runs a worker until there are no more orders.
///
/// # Errors
/// Answers cannot be written, or orders not read. An error of an order is its answer.
pub fn serve(orders: impl BufRead, answers: impl Write) -> Result<()> {
    let mut worker = Worker::default();
    Ok(thalweg_measure::serve(orders, answers, |order| worker.obey(order))?)
}

/// The state between orders.
#[derive(Default)]
struct Worker {
    client: Option<Client>,
    node: String,
    prepared: Option<Prepared>,
    recorded: Option<Recorded>,
    mount: Option<Mount>,
    /// The file with the store's credential, if given.
    credential: Option<PathBuf>,
    recordings: u32,
    crowd: Option<Crowd>,
}

impl Worker {
    fn obey(&mut self, order: Order) -> Result<Answer> {
        match order {
            Order::Connect { store, node, timeout_s, credential } => {
                let client = Client::connect(&store, &node, timeout_s, credential.as_deref())?;
                let map = client.names.map().as_ref().clone();
                (self.client, self.node, self.credential) = (Some(client), node, credential);
                Ok(Answer::Connected(map))
            }
            Order::Mount { store, mount_point } => timed(|| self.mount(&store, mount_point)),
            Order::Unmount => timed(|| self.mount.take().map_or(Ok(()), |mut mount| mount.down())),
            Order::Make { at, layout } => self.make(&at, layout.as_ref()),
            Order::Prepare(work) => self.prepare(work).map(|()| Answer::Done),
            Order::Go => self.go(),
            Order::Explain => Ok(Answer::Explained(self.recorded.take().and_then(Recorded::explain))),
            Order::Evict(paths) => files::evict(&paths).map(Answer::Evicted),
            Order::Settle { directories, memory_bytes } => files::settle(&directories, memory_bytes),
            Order::Remove(at) => self.remove(&at).map(|()| Answer::Done),
            Order::Listen(address) => link::listen(&address),
            Order::Stream { to, seconds } => link::stream(&to, Duration::from_secs_f64(seconds)),
            Order::RoundTrip => self.client()?.round_trip(),
            Order::Populate { directory, files, datafiles } => populate::populate(self.client()?, &directory, files, datafiles),
            Order::Walk { directory, mode, most, bytes_each } => listing::walk(self.client()?, &directory, &mode, most, bytes_each),
            Order::Run { argv, counted } => listing::run(&argv, counted, self.mount.as_ref().map(Mount::pid)),
            Order::Names { point, .. } if point.mounted && self.mount.is_none() => {
                Err(Error::Choice("the mount for names is gone: the disk below it would be measured".into()))
            }
            Order::Names { point, phase, below, each } => names::phase(self.client()?, &point, phase, &below, each),
            Order::Write { directory, files, bytes } => crowd::write(self.client()?, &directory, files, bytes),
            Order::BeginListings { directory, listings } => timed(|| {
                self.crowd = None;
                self.crowd = Some(Crowd::begin(self.client()?, &directory, listings)?);
                Ok(())
            }),
            Order::EndListings => {
                let crowd = self.crowd.take().ok_or_else(|| Error::Choice("no listings were begun: a bug".into()))?;
                crowd.end().map(Answer::Listed)
            }
        }
    }

    fn client(&self) -> Result<&Client> {
        self.client.as_ref().ok_or_else(|| Error::Choice("an order about a store before one was connected to: a bug".into()))
    }

    fn mount(&mut self, store: &str, mount_point: PathBuf) -> Result<()> {
        self.mount = None;
        self.mount = Some(Mount::new(store, mount_point, &self.node, self.credential.as_deref())?);
        Ok(())
    }

    fn make(&self, at: &At, layout: Option<&LayoutChoice>) -> Result<Answer> {
        match at {
            At::Store(path) => {
                let choice = layout.cloned().unwrap_or_default();
                let (names, owner) = (&self.client()?.names, client::owner(0o600));
                let made = names.create(&mut Tracer::off(), &FilePath::at(path), owner, Existing::Replace, &choice)?;
                Ok(Answer::Made(Some(made.id().0)))
            }
            At::Path(path) => files::make(path, layout),
        }
    }

    fn prepare(&mut self, work: Task) -> Result<()> {
        (self.prepared, self.recorded) = (None, None);
        self.prepared = Some(match work {
            Task::Command { argv, bytes } => Prepared::command(argv, bytes)?,
            Task::Move { at: At::Path(path), access, read, .. } => Prepared::path(&path, access, read)?,
            Task::Move { at: At::Store(path), access, read, in_flight, record } => {
                // Every run makes its own connections, as a program does; threads that outlive a run would continue recording it.
                let store = self.client()?.library();
                let recorder = if record { Some(explain::start(&store, &self.node, self.recordings, read)?) } else { None };
                self.recordings += 1;
                Prepared::store(&store, &path, access, read, in_flight, recorder)?
            }
        });
        Ok(())
    }

    fn go(&mut self) -> Result<Answer> {
        let prepared = self.prepared.take().ok_or_else(|| Error::Choice("an order to go before one to prepare: a bug".into()))?;
        let (moved, recorded) = prepared.go()?;
        self.recorded = recorded;
        Ok(moved)
    }

    fn remove(&self, at: &At) -> Result<()> {
        match at {
            At::Store(path) => match self.client()?.names.unlink(&mut Tracer::off(), &FilePath::at(path)) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
                _ => Ok(()),
            },
            At::Path(path) => files::remove(path),
        }
    }
}

/// Does the work, and answers with its duration.
fn timed(work: impl FnOnce() -> Result<()>) -> Result<Answer> {
    let begun = Instant::now();
    work()?;
    Ok(Answer::Took(begun.elapsed().as_secs_f64()))
}
