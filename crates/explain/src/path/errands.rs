//! Errands: why the path is on its current thread, and when it returns.
//!
//! - **Held**: another thread waited for what this one held (a lock; or it is a helper: a kernel or recorder thread). What the holder did
//!   before that wait serves itself only and delayed nothing: the path returns to the waiter.
//! - **Handed on**: a program asks a server for a lock, and the server answers when another client releases it: the thread that serves the
//!   one waits for the thread that serves the other. From there the path is with the client that held the lock, as far as it was recorded,
//!   until the wait began; what that client did for itself meanwhile (slept, computed) is why the lock was held, and is the waiting
//!   client's `lock`. What the other client itself waited for is charged as such. If the releasing thread serves one client only, none of
//!   whose processes is the command's, that client's session held the lock: the thread's own work for that session counts as well.
//! - **Called**: a caller waits in an accept queue for the thread that should accept, whatever that does meanwhile, until the wait began.

use crate::cause::{Activity, End};
use crate::limits::path as limits;
use crate::observe::feed::{Feed, Serves};
use crate::observe::index::NONE;
use crate::observe::span::LiveSpan;
use crate::observe::tables::Tables;
use crate::waits::place::{Labels, Place, What};
use thalweg_trace::{ObjectKind, Role, SpanKind};

/// A wait for something that another thread held, since `since`.
#[derive(Clone, Copy)]
pub(super) struct Held {
    pub waiter: u32,
    pub holder: u32,
    pub since: i64,
    /// Whether the holder is a kernel or recorder thread, whose earlier work is unrelated to the waiter.
    pub helper: bool,
    /// Whether the holder was seen to sleep while holding it.
    pub slept: bool,
}

/// A lock being passed on: between which server threads, and for which client.
#[derive(Clone, Copy)]
struct HandedOn {
    /// Label of the client that waits for it.
    client: u32,
    /// The waiting server thread, and since when it waits.
    waiter: u32,
    since: i64,
    /// The server thread that ended its wait.
    holder: u32,
    /// Client processes on the way there, whose activity is no other client's.
    ours: [u32; 2],
    /// Whether the path has reached another client: until then the server's threads may only have passed work to each other.
    elsewhere: bool,
    /// The client that the holder serves, if that is another program's session.
    session: Option<Session>,
}

/// A client that a server's thread serves alone.
#[derive(Clone, Copy)]
struct Session {
    /// Its thread, or [`NONE`] if it was not recorded.
    client: u32,
    /// Its connection, or [`NONE`].
    connection: u32,
}

impl Session {
    /// The client that a thread serves, if it is not part of the command.
    fn of((tables, feed): (&Tables, &Feed<'_>), track: u32) -> Option<Session> {
        let session = match feed.lanes[track as usize].traits.serves {
            Serves::Thread(client) => Session { client, connection: NONE },
            Serves::Connection(connection) => {
                let client = feed.parties.get(connection as usize).and_then(|parties| parties[End::Client as usize].first());
                Session { client: client.copied().unwrap_or(NONE), connection }
            }
            Serves::Nobody | Serves::Several => return None,
        };
        tables.actors.get(session.client as usize).is_none_or(|client| client.reached).then_some(session)
    }
}

/// The last clients on the path, newest first.
#[derive(Clone, Copy, Default)]
struct Clients {
    track: u32,
    pids: [u32; 2],
}

/// All of them.
#[derive(Default)]
pub(super) struct Errands {
    /// The holder of a lock, or the helper, that the path follows.
    pub held: Option<Held>,
    /// The thread of the same process whose wait led here: it, this thread, and since when it waits.
    through: Option<(u32, u32, i64)>,
    /// Locks passed on, nested: the last one's holder is where the path is.
    handed: Vec<HandedOn>,
    clients: Clients,
    /// Callers, and since when they wait, innermost last.
    calls: Vec<(u32, i64)>,
}

impl Errands {
    /// Starts on the command's own thread.
    pub(super) fn of(tables: &Tables) -> Errands {
        let main = tables.actors.get(tables.main as usize).filter(|main| main.role == Role::Client);
        let clients = main.map_or_else(Clients::default, |main| Clients { track: tables.main, pids: [main.pid, 0] });
        Errands { clients, ..Errands::default() }
    }

    /// Notes that the path goes from one thread to another.
    pub(super) fn go(&mut self, (tables, feed): (&Tables, &Feed<'_>), from: u32, to: u32) {
        self.note_client(tables, feed, from, to);
        self.held = self.held.filter(|held| held.holder == to);
        self.through = self.through.filter(|&(_, waited_for, _)| waited_for == to);
    }

    /// Notes the clients' thread that the path goes to.
    fn note_client(&mut self, tables: &Tables, feed: &Feed<'_>, from: u32, to: u32) {
        let actor = &tables.actors[to as usize];
        if actor.role != Role::Client {
            return;
        }
        let pid = actor.pid;
        // Whether a thread was called by another over a connection, so that it may work for that one. (A helper that a server works through
        // is not its client.)
        let serves = || feed.parties.iter().any(|p| p[End::Server as usize].contains(&from) && p[End::Client as usize].contains(&to));
        match self.handed.last_mut() {
            Some(handed) if !handed.ours.contains(&pid) && (handed.session.is_some_and(|session| session.client == to) || serves()) => {
                handed.elsewhere = true;
                return;
            }
            _ => self.handed.clear(),
        }
        // A mount waits for its user.
        self.clients.track = if actor.mount && self.clients.pids[0] != 0 { self.clients.track } else { to };
        if self.clients.pids[0] != pid {
            self.clients.pids = [pid, self.clients.pids[0]];
        }
    }

    /// Notes that the path has gone from a thread to the one that ended its wait.
    pub(super) fn woke(&mut self, (tables, feed): (&Tables, &Feed<'_>), labels: &Labels, holder: u32, (span, at): (&LiveSpan, i64)) {
        let waiter = span.track;
        let (own, other) = (&tables.actors[waiter as usize], &tables.actors[holder as usize]);
        let one_process = own.pid == other.pid && own.pid != 0 && own.machine == other.machine;
        self.through = (one_process && span.kind == SpanKind::WaitLock).then_some((waiter, holder, span.start));
        self.hold((tables, feed), (waiter, holder), one_process, (span, at));
        // Between threads or processes of one server, it may be a lock passed on.
        let one_server = own.pid != 0 && own.machine == other.machine && own.program() == other.program();
        let servers = own.role == Role::Server && other.role == Role::Server && one_server;
        if servers && span.kind == SpanKind::WaitLock && span.ending_seen() && self.clients.pids[0] != 0 {
            let Clients { track, pids: ours } = self.clients;
            let client = labels.label(track);
            // If the releasing thread waits for a lock itself, the first lock is held for as long.
            if self.handed.last().is_none_or(|handed| !handed.elsewhere || handed.holder != waiter)
                || self.handed.len() >= limits::MOST_CALLS
            {
                self.handed.clear();
            }
            let session = Session::of((tables, feed), holder);
            self.handed.push(HandedOn { client, waiter, since: span.start, holder, ours, elsewhere: session.is_some(), session });
        }
    }

    /// Notes a possible lock: a thread that waited for another of its own process may have waited for a lock that this one held; the
    /// holder's sleeping and computing are then the lock's. Not if the holder ended with the wait (it was waited for as a whole), or moves
    /// data itself; the rest is decided when the whole recording has been seen. A helper (a kernel or recorder thread in the way) is
    /// followed only while it was waited for.
    fn hold(
        &mut self,
        (tables, feed): (&Tables, &Feed<'_>),
        (waiter, holder): (u32, u32),
        one_process: bool,
        (span, at): (&LiveSpan, i64),
    ) {
        let lane = &feed.lanes[holder as usize];
        let helper = matches!(tables.actors[holder as usize].role, Role::Kernel | Role::Recorder);
        let ended = lane.passed.last_end <= at;
        // A mutex is known from the futex operation, if wakers are recorded; a thread that posts a semaphore or signals a condition held
        // nothing.
        let on = tables.objects.get(span.object as usize);
        let named = |name: &str| on.is_some_and(|object| object.kind == ObjectKind::Lock && object.name == name);
        let has_holder = named("mutex") || !tables.wakers_inferred && (named("futex") || !tables.records_locks);
        let may_be_lock =
            has_holder && span.kind == SpanKind::WaitLock && span.ending_seen() && one_process && !ended && !lane.traits.moves_data;
        let followed = helper && span.ending_seen() || may_be_lock;
        self.held = followed.then_some(Held { waiter, holder, since: span.start, helper, slept: false });
    }

    /// Notes a call in an accept queue.
    pub(super) fn called(&mut self, caller: u32, since: i64) {
        if self.calls.len() < limits::MOST_CALLS {
            self.calls.push((caller, since));
        }
    }

    /// Notes that the lock returns from an unrecorded client.
    pub(super) fn handed_on(&mut self) {
        if let Some(handed) = self.handed.last_mut() {
            handed.elsewhere = true;
        }
    }

    /// For a server's thread that passed a lock on: the client, by label, and since when it waits.
    pub(super) fn handing(&self, track: u32) -> Option<(u32, i64)> {
        self.handed.last().filter(|handed| handed.holder == track).map(|handed| (handed.client, handed.since))
    }

    /// For the lock passed on last: the server thread that waits for it, and since when.
    pub(super) fn awaited(&self) -> Option<(u32, i64)> {
        self.handed.last().map(|handed| (handed.waiter, handed.since))
    }

    /// Start of the waits that brought the path to this thread: nothing earlier is charged to it.
    pub(super) fn floor(&self, track: u32, at: i64) -> Option<i64> {
        let held = self.held.filter(|held| held.holder == track).map(|held| held.since);
        let handed = self.handed.iter().filter(|handed| handed.elsewhere && handed.since < at).map(|handed| handed.since).max();
        let called = self.calls.last().map(|&(_, since)| since).filter(|&since| since < at);
        held.into_iter().chain(handed).chain(called).max()
    }

    /// The thread that the path returns to, if what led here began before this instant; `None` if it stays.
    pub(super) fn back(&mut self, feed: &Feed<'_>, at: i64) -> Option<u32> {
        if let Some(held) = self.held.filter(|held| at <= held.since) {
            self.held = None;
            // A thread that works for others is the chain itself, and the path stays with it.
            if held.helper || feed.lanes[held.holder as usize].traits.is_private_work(held.slept) {
                return Some(held.waiter);
            }
        }
        if let Some(first) = self.handed.iter().position(|handed| handed.elsewhere && at <= handed.since) {
            let waiter = self.handed[first].waiter;
            self.handed.truncate(first);
            return Some(waiter);
        }
        // Of several nested calls, the outermost that began here.
        let first = self.calls.iter().position(|&(_, since)| at <= since)?;
        let caller = self.calls[first].0;
        self.calls.truncate(first);
        Some(caller)
    }

    /// The thread that waited directly for what is charged from `at` down to `from`, and for how long.
    pub(super) fn waiter(&self, from: i64, at: i64) -> Option<(u32, i64)> {
        self.through.filter(|&(_, _, since)| at > since && from < at).map(|(waiter, _, since)| (waiter, at - from.max(since)))
    }

    /// If a thread's own activity is why another waited for its lock: where that is charged, and from when on.
    pub(super) fn lock_of(&mut self, track: u32, activity: Activity, what: What, object: u32, labels: &Labels) -> Option<(Place, i64)> {
        // A thread in a timed wait for any event holds no lock meanwhile.
        let in_vain = activity == Activity::Think && matches!(what, What::Blocked(SpanKind::WaitLock | SpanKind::WaitNetwork));
        let of_lock =
            |held: &&mut Held| held.holder == track && !held.helper && !in_vain && matches!(activity, Activity::Cpu | Activity::Think);
        let held = self.held.as_mut().filter(of_lock)?;
        held.slept |= activity == Activity::Think;
        Some((Place::Held { waiter: labels.label(held.waiter), holder: held.holder, what, object }, held.since))
    }

    /// Decides likewise for a lock that a server passed on.
    pub(super) fn lock_elsewhere(&self, tables: &Tables, track: u32, activity: Activity, what: What, object: u32) -> Option<(Place, i64)> {
        let handed = self.handed.last().filter(|handed| handed.elsewhere && matches!(activity, Activity::Cpu | Activity::Think))?;
        let (waiter, since) = (handed.client, handed.since);
        if let Some(Session { client, connection }) = handed.session.filter(|session| track == handed.holder || track == session.client) {
            let by_session = track == handed.holder;
            return Some((Place::HeldElsewhere { waiter, holder: client, connection, what, object, by_session }, since));
        }
        let actor = &tables.actors[track as usize];
        let own = actor.role == Role::Client && !handed.ours.contains(&actor.pid);
        own.then_some((Place::HeldElsewhere { waiter, holder: track, connection: NONE, what, object, by_session: false }, since))
    }
}
