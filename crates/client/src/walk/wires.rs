//! A walker's own connections to all servers, and one round of I/O on them.

use super::core::{Answer, Ask, Peer, Request};
use super::state::State;
use crate::files::DataClient;
use crate::metadata::MetadataClient;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thalweg_base::sync::Mutex;
use thalweg_trace::{OpenSpan, SpanFields, SpanId, SpanKind, Tracer};
use thalweg_wire::pipe::{Arrived, Pipe, body, wait};
use thalweg_wire::protocol::io::{IoReply, IoRequest};
use thalweg_wire::protocol::metadata::{MetadataReply, MetadataRequest, Operation};
use thalweg_wire::{Error, ErrorKind, Result};
use thalweg_wire::{Kind, unexpected};

/// Ends the wait of the thread that does the I/O.
pub(super) struct Waker {
    event: OwnedFd,
    is_set: AtomicBool,
}

impl Waker {
    pub(super) fn new() -> Result<Waker> {
        use rustix::event::{EventfdFlags, eventfd};
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|e| Error::system("an event", e))?;
        Ok(Waker { event, is_set: AtomicBool::new(false) })
    }

    /// Ends the current wait, or the next one.
    pub(super) fn wake(&self) {
        if !self.is_set.swap(true, Ordering::AcqRel) {
            // It cannot be full.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }

    fn clear(&self) {
        if self.is_set.swap(false, Ordering::AcqRel) {
            let _ = rustix::io::read(&self.event, &mut [0; 8]);
        }
    }
}

/// Connections, made on demand: to the metadata service, then to the I/O servers in the map's order.
pub(super) struct Wires {
    names: MetadataClient,
    data: Arc<DataClient>,
    timeout: Duration,
    pipes: Vec<Option<Pipe>>,
}

/// Results of a round of I/O.
#[derive(Default)]
struct Round {
    answers: Vec<(u64, Result<Answer>)>,
    failures: Vec<(Peer, Error, bool)>,
}

fn place(peer: Peer) -> usize {
    match peer {
        Peer::Metadata => 0,
        Peer::Io(server) => server + 1,
    }
}

fn peer_at(place: usize) -> Peer {
    place.checked_sub(1).map_or(Peer::Metadata, Peer::Io)
}

impl Wires {
    pub(super) fn new(names: MetadataClient, data: Arc<DataClient>, timeout: Option<Duration>) -> Wires {
        let timeout = timeout.unwrap_or_else(|| names.connect_options().0.timeout);
        let pipes = (0..=data.links().len()).map(|_| None).collect();
        Wires { names, data, timeout, pipes }
    }

    /// Does one round of I/O: sends requests, waits for an arrival (if allowed), receives it, and sends follow-up requests. `parent`: the
    /// span that requests belong to.
    pub(super) fn turn(
        &mut self,
        state: &Mutex<State>,
        tracer: &mut Tracer,
        since: Instant,
        waiting: Option<&Waker>,
        parent: Option<SpanId>,
    ) {
        let now_ns = || since.elapsed().as_nanos() as u64;
        let mut came = Round::default();
        self.post(state, tracer, &now_ns, parent, &mut came);
        let mut span = None;
        if let (Some(waker), true) = (waiting, came.failures.is_empty()) {
            span = Some(tracer.begin());
            let until = self.pipes.iter().flatten().filter_map(Pipe::deadline).min();
            wait(self.pipes.iter().flatten(), &waker.event, until);
            waker.clear();
        }
        self.receive(tracer, &mut span, &mut came);
        if let Some(waited) = span {
            // The data was incomplete, or another thread had a request to send.
            tracer.end(waited, SpanKind::WaitNetwork, SpanFields { parent, ..SpanFields::default() });
        }
        if !(came.answers.is_empty() && came.failures.is_empty()) {
            let core = &mut state.lock().core;
            let now_ns = now_ns();
            for (token, answer) in came.answers.drain(..) {
                core.answered(token, answer, now_ns);
            }
            for (peer, error, did_work) in came.failures.drain(..) {
                core.peer_failed(peer, &error, did_work, now_ns);
            }
        }
        self.post(state, tracer, &now_ns, parent, &mut came);
        if !came.failures.is_empty() {
            let core = &mut state.lock().core;
            came.failures.iter().for_each(|(peer, error, did_work)| core.peer_failed(*peer, error, *did_work, now_ns()));
        }
    }

    /// Sends all requests that may be sent.
    fn post(&mut self, state: &Mutex<State>, tracer: &mut Tracer, now_ns: &dyn Fn() -> u64, parent: Option<SpanId>, came: &mut Round) {
        let mut requests: Vec<Request> = Vec::new();
        {
            let core = &mut state.lock().core;
            while let Some(request) = core.next_request(now_ns()) {
                requests.push(request);
            }
        }
        for request in requests {
            let peer = request.peer;
            if let Err(error) = self.put(tracer, parent, request) {
                self.fail(peer, error, came);
            }
        }
        for place in 0..self.pipes.len() {
            if let Some(Err(error)) = self.pipes[place].as_mut().map(Pipe::flush) {
                self.fail(peer_at(place), error, came);
            }
        }
    }

    fn fail(&mut self, peer: Peer, error: Error, came: &mut Round) {
        // A request sent on a pipe that just failed fails with it.
        if came.failures.iter().all(|(failed, ..)| *failed != peer) {
            let did_work = self.pipes[place(peer)].take().is_some_and(|pipe| pipe.has_worked());
            came.failures.push((peer, error, did_work));
        }
    }

    fn put(&mut self, tracer: &mut Tracer, parent: Option<SpanId>, request: Request) -> Result<()> {
        let pipe = self.pipe(request.peer)?;
        match message(request.ask) {
            Message::Io(message) => pipe.put(tracer, parent, Kind::Io, &message, request.token),
            Message::Metadata(message) => pipe.put(tracer, parent, Kind::Metadata, &message, request.token),
        }
    }

    fn pipe(&mut self, peer: Peer) -> Result<&mut Pipe> {
        let slot = &mut self.pipes[place(peer)];
        if slot.is_none() {
            *slot = Some(match peer {
                Peer::Metadata => {
                    let (options, recording) = self.names.connect_options();
                    let mut pipe = Pipe::start(self.names.address(), &self.names.active_address(), &options, self.timeout)?;
                    if let Some((trace, session)) = recording {
                        pipe.record(&trace, session);
                    }
                    pipe
                }
                Peer::Io(server) => {
                    let link = &self.data.links()[server];
                    let (options, recording) = link.connect_options();
                    let mut pipe = Pipe::start(link.name(), &link.entry().address, &options, self.timeout)?;
                    if let Some(recording) = recording {
                        pipe.record(&recording.trace, recording.session);
                    }
                    pipe
                }
            });
        }
        slot.as_mut().ok_or_else(|| Error::new(ErrorKind::Reset, "not connected"))
    }

    /// Receives whatever has arrived, and detects servers that were silent for too long.
    fn receive(&mut self, tracer: &mut Tracer, span: &mut Option<OpenSpan>, came: &mut Round) {
        let now = Instant::now();
        for place in 0..self.pipes.len() {
            let Some(pipe) = &mut self.pipes[place] else { continue };
            if pipe.pending() == 0 {
                continue;
            }
            let peer = peer_at(place);
            let answers = &mut came.answers;
            let (names, data) = (&self.names, &self.data);
            let named = |error: Error| match peer {
                Peer::Metadata => error.at_server(names.address()),
                Peer::Io(server) => error.at_server(data.links()[server].name()),
            };
            let mut each = |arrived: Arrived<'_>| answers.push((arrived.token, answer(peer, arrived).map_err(named)));
            let received = pipe.receive(tracer, span, &mut each);
            let received = received.and_then(|()| match (pipe.deadline(), peer, pipe.server()) {
                (Some(deadline), ..) if deadline <= now => Err(pipe.silent()),
                (_, Peer::Io(server), Some(name)) if name != self.data.links()[server].name() => {
                    let link = &self.data.links()[server];
                    let text = format!("{} calls itself {name}: is the store's map out of date?", link.entry().address);
                    Err(Error::new(ErrorKind::Invalid, text).at_server(link.name()))
                }
                _ => Ok(()),
            });
            if let Err(error) = received {
                self.fail(peer, error, came);
            }
        }
    }
}

/// A request in wire form.
#[allow(clippy::large_enum_variant, reason = "there is one at a time, on its way into a connection")]
pub enum Message {
    /// To an I/O server.
    Io(IoRequest),
    /// To the metadata service.
    Metadata(MetadataRequest),
}

/// Returns the message of a request.
pub fn message(ask: Ask) -> Message {
    let operation = match ask {
        Ask::Glimpse { datafiles } => return Message::Io(IoRequest::Glimpse { datafiles }),
        Ask::List { walk, place, after, most, detail } => Operation::List { place, after, most, detail, walk },
        Ask::Stat { places, sizes } => Operation::Stat { places, sizes },
    };
    Message::Metadata(MetadataRequest::of(operation))
}

/// Decodes an answer.
pub fn answer(peer: Peer, arrived: Arrived<'_>) -> Result<Answer> {
    let bytes = arrived.body?;
    match peer {
        Peer::Io(_) => match body::<IoReply>(bytes)? {
            IoReply::Sizes(sizes) => Ok(Answer::Sizes(sizes)),
            other => Err(unexpected(&other)),
        },
        Peer::Metadata => match body::<MetadataReply>(bytes)? {
            MetadataReply::Page { entries, more } => Ok(Answer::Page(entries, more)),
            MetadataReply::Many(many) => {
                let each = many.into_iter().map(|one| one.map_err(|r| Error::new(ErrorKind::from_errno(r.errno), r.message)));
                Ok(Answer::Stats(each.collect()))
            }
            other => Err(unexpected(&other)),
        },
    }
}
