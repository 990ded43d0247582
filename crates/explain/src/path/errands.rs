//! Why the path is where it is: what it was sent to another thread for, and when it goes back.
//!
//! - **Held**: another thread waited for what this one had (a lock; or it is a helper: a thread of the kernel's or the recorder's). What the holder
//!   did before that wait serves itself only, and delayed nobody: the path goes back to who waited.
//! - **Handed on**: a program asks a server for a lock, and the server answers when another client gives it back: the thread that serves the one
//!   waits for the thread that serves the other. From there on the path is with the client that had the lock, as far as it was recorded, until the
//!   wait began; what that client did for itself meanwhile (slept, computed) is why the lock was held, and is the waiting client's `lock`.
//!   Whatever the other client itself waited for is charged as what it is. Where the thread that gave it back serves one client only, of which no process is
//!   the command's, that client's session had it: what the thread did for that session by itself counts as well.
//! - **Called**: a caller waits in an accept queue for the thread that was to accept, whatever that does meanwhile, until the wait began.

use crate::cause::{Activity, End};
use crate::limits::path as limits;
use crate::observe::feed::{Feed, Serves};
use crate::observe::index::NONE;
use crate::observe::span::LiveSpan;
use crate::observe::tables::Tables;
use crate::waits::place::{Labels, Place, What};
use thalweg_trace::{ObjectKind, Role, SpanKind};

/// What another thread had that this one waited for, from `since` on.
#[derive(Clone, Copy)]
pub(super) struct Held {
    pub waiter: u32,
    pub holder: u32,
    pub since: i64,
    /// Whether the holder is a thread of the kernel's or the recorder's: what it did before has nothing to do with the waiter.
    pub helper: bool,
    /// Whether the holder was seen to sleep while it had it.
    pub slept: bool,
}

/// Of a lock under way: between which threads of the server, and for whom.
#[derive(Clone, Copy)]
struct HandedOn {
    /// The label of the client for which it is waited.
    client: u32,
    /// The server's thread that waited, and since when.
    waiter: u32,
    since: i64,
    /// The server's thread that ended its wait.
    holder: u32,
    /// Processes of clients on the way there: what they do is no other client's doing.
    ours: [u32; 2],
    /// Whether the path has come to another client: until then the server's threads may only have handed work to each other.
    elsewhere: bool,
    /// The client that the holder serves, where that is another program's session.
    session: Option<Session>,
}

/// A client that a server's thread serves alone.
#[derive(Clone, Copy)]
struct Session {
    /// Its thread, or [`NONE`] where nothing was recorded of it.
    client: u32,
    /// Its connection, or [`NONE`].
    connection: u32,
}

impl Session {
    /// Whom a thread serves: somebody who is no part of the command.
    fn of((tables, feed): (&Tables, &Feed<'_>), track: u32) -> Option<Session> {
        let session = match feed.lanes[track as usize].known.serves {
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

/// The clients that the path came through last, newest first.
#[derive(Clone, Copy, Default)]
struct Clients {
    track: u32,
    pids: [u32; 2],
}

/// All of them.
#[derive(Default)]
pub(super) struct Errands {
    /// The lock whose holder, or the helper whom, the path follows.
    pub held: Option<Held>,
    /// The thread of the same process whose wait led here: it, this thread, and since when it waits.
    through: Option<(u32, u32, i64)>,
    /// Locks that were handed on, one within the other: the last one's holder is where the path is.
    handed: Vec<HandedOn>,
    clients: Clients,
    /// Who called, and since when it waits: innermost last.
    calls: Vec<(u32, i64)>,
}

impl Errands {
    /// On the command's own thread.
    pub(super) fn of(tables: &Tables) -> Errands {
        let main = tables.actors.get(tables.main as usize).filter(|main| main.role == Role::Client);
        let clients = main.map_or_else(Clients::default, |main| Clients { track: tables.main, pids: [main.pid, 0] });
        Errands { clients, ..Errands::default() }
    }

    /// The path goes from one thread to another.
    pub(super) fn go(&mut self, (tables, feed): (&Tables, &Feed<'_>), from: u32, to: u32) {
        self.note_client(tables, feed, from, to);
        self.held = self.held.filter(|held| held.holder == to);
        self.through = self.through.filter(|&(_, waited_for, _)| waited_for == to);
    }

    /// Takes note of the clients' thread that the path goes to.
    fn note_client(&mut self, tables: &Tables, feed: &Feed<'_>, from: u32, to: u32) {
        let actor = &tables.actors[to as usize];
        if actor.role != Role::Client {
            return;
        }
        let pid = actor.pid;
        // Whether a thread was called by another over a connection: what it does, it may do for that one. (A helper that a server works through is
        // no client of its.)
        let serves = || feed.parties.iter().any(|p| p[End::Server as usize].contains(&from) && p[End::Client as usize].contains(&to));
        match self.handed.last_mut() {
            Some(handed) if !handed.ours.contains(&pid) && (handed.session.is_some_and(|session| session.client == to) || serves()) => {
                handed.elsewhere = true;
                return;
            }
            _ => self.handed.clear(),
        }
        // A mount waits for its user's sake.
        self.clients.track = if actor.mount && self.clients.pids[0] != 0 { self.clients.track } else { to };
        if self.clients.pids[0] != pid {
            self.clients.pids = [pid, self.clients.pids[0]];
        }
    }

    /// The path has gone from a thread to the one that ended its wait.
    pub(super) fn woke(&mut self, (tables, feed): (&Tables, &Feed<'_>), labels: &Labels, holder: u32, (span, at): (&LiveSpan, i64)) {
        let waiter = span.track;
        let (own, other) = (&tables.actors[waiter as usize], &tables.actors[holder as usize]);
        let one_process = own.pid == other.pid && own.pid != 0 && own.machine == other.machine;
        self.through = (one_process && span.kind == SpanKind::WaitLock).then_some((waiter, holder, span.start));
        self.hold((tables, feed), (waiter, holder), one_process, (span, at));
        // Of one server's threads or processes, it may be a lock handed on.
        let one_server = own.pid != 0 && own.machine == other.machine && own.program() == other.program();
        let servers = own.role == Role::Server && other.role == Role::Server && one_server;
        if servers && span.kind == SpanKind::WaitLock && span.ending_seen() && self.clients.pids[0] != 0 {
            let Clients { track, pids: ours } = self.clients;
            let client = labels.label(track);
            // (Where that one waits for a lock itself, the first is held for as long.)
            if self.handed.last().is_none_or(|handed| !handed.elsewhere || handed.holder != waiter)
                || self.handed.len() >= limits::MOST_CALLS
            {
                self.handed.clear();
            }
            let session = Session::of((tables, feed), holder);
            self.handed.push(HandedOn { client, waiter, since: span.start, holder, ours, elsewhere: session.is_some(), session });
        }
    }

    /// A thread that waited for another of its own process may have waited for a lock that this one had: then the holder's
    /// sleeping and computing are the lock's. Not so where the holder ended with it (it was waited for as a whole), or moves
    /// data itself; the rest is decided when all of the recording has been seen. A helper (a thread of the kernel's, or the
    /// recorder's, which was in the way) is followed for as long as it was waited for, and no further.
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
        // A mutex is known, where wakers are seen, from the futex operation; who posts a semaphore or signals a condition held nothing.
        let on = tables.objects.get(span.object as usize);
        let named = |name: &str| on.is_some_and(|object| object.kind == ObjectKind::Lock && object.name == name);
        let has_holder = named("mutex") || !tables.wakers_inferred && (named("futex") || !tables.records_locks);
        let may_be_lock =
            has_holder && span.kind == SpanKind::WaitLock && span.ending_seen() && one_process && !ended && !lane.known.moves_data;
        let followed = helper && span.ending_seen() || may_be_lock;
        self.held = followed.then_some(Held { waiter, holder, since: span.start, helper, slept: false });
    }

    /// A call lies in an accept queue.
    pub(super) fn called(&mut self, caller: u32, since: i64) {
        if self.calls.len() < limits::MOST_CALLS {
            self.calls.push((caller, since));
        }
    }

    /// The lock comes back from a client of which nothing was recorded.
    pub(super) fn handed_on(&mut self) {
        if let Some(handed) = self.handed.last_mut() {
            handed.elsewhere = true;
        }
    }

    /// If this is a server's thread that gave a lock on: for which client, by label, and since when that waits.
    pub(super) fn handing(&self, track: u32) -> Option<(u32, i64)> {
        self.handed.last().filter(|handed| handed.holder == track).map(|handed| (handed.client, handed.since))
    }

    /// Of the lock that was handed on last: which thread of the server waits for it, and since when.
    pub(super) fn awaited(&self) -> Option<(u32, i64)> {
        self.handed.last().map(|handed| (handed.waiter, handed.since))
    }

    /// Since when the waits last because of which the path is with this thread: nothing earlier is charged to it.
    pub(super) fn floor(&self, track: u32, at: i64) -> Option<i64> {
        let held = self.held.filter(|held| held.holder == track).map(|held| held.since);
        let handed = self.handed.iter().filter(|handed| handed.elsewhere && handed.since < at).map(|handed| handed.since).max();
        let called = self.calls.last().map(|&(_, since)| since).filter(|&since| since < at);
        held.into_iter().chain(handed).chain(called).max()
    }

    /// Where what led here began before this instant: whom the path goes on with. `None`: it stays.
    pub(super) fn back(&mut self, feed: &Feed<'_>, at: i64) -> Option<u32> {
        if let Some(held) = self.held.filter(|held| at <= held.since) {
            self.held = None;
            // A thread that works for others is the chain itself, and the path stays with it.
            if held.helper || feed.lanes[held.holder as usize].known.serves_itself(held.slept) {
                return Some(held.waiter);
            }
        }
        if let Some(first) = self.handed.iter().position(|handed| handed.elsewhere && at <= handed.since) {
            let waiter = self.handed[first].waiter;
            self.handed.truncate(first);
            return Some(waiter);
        }
        // Of several calls within each other, the outermost that began here.
        let first = self.calls.iter().position(|&(_, since)| at <= since)?;
        let caller = self.calls[first].0;
        self.calls.truncate(first);
        Some(caller)
    }

    /// Who waited directly for what is charged down from `at` to `from`, and for how much of it.
    pub(super) fn waiter(&self, from: i64, at: i64) -> Option<(u32, i64)> {
        self.through.filter(|&(_, _, since)| at > since && from < at).map(|(waiter, _, since)| (waiter, at - from.max(since)))
    }

    /// If what a thread does for itself is why another waited for a lock that it has: where that is charged, and from when on.
    pub(super) fn lock_of(&mut self, track: u32, activity: Activity, what: What, object: u32, labels: &Labels) -> Option<(Place, i64)> {
        // Who waits for whatever comes, for so long at most, has no lock meanwhile.
        let in_vain = activity == Activity::Think && matches!(what, What::Blocked(SpanKind::WaitLock | SpanKind::WaitNetwork));
        let of_lock =
            |held: &&mut Held| held.holder == track && !held.helper && !in_vain && matches!(activity, Activity::Cpu | Activity::Think);
        let held = self.held.as_mut().filter(of_lock)?;
        held.slept |= activity == Activity::Think;
        Some((Place::Held { waiter: labels.label(held.waiter), holder: held.holder, what, object }, held.since))
    }

    /// The same of a lock that a server handed on.
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
