//! Locks that a server hands on between its clients.
//!
//! A program asks a server for a lock, and the server answers when another client gives it back: the thread that serves the one waits for the
//! thread that serves the other. From there on the walk is with the client that had the lock, as far as it was recorded, until the wait began;
//! what that client did for itself meanwhile (slept, computed) is why the lock was held, and delayed nobody otherwise. So it is
//! the waiting client's `lock`. Whatever the other client itself waited for is charged as what it is.

use super::*;

/// Of a lock under way: between which threads of the server, and for whom.
#[derive(Clone, Copy)]
pub(super) struct LockHandoff {
    /// The label of the client for which it is waited.
    client: u32,
    /// The server's thread that waited, and since when.
    waiter: u32,
    since: i64,
    /// The server's thread that ended its wait.
    holder: u32,
    /// Processes of clients on the way there: what they do is no other client's doing.
    ours: [u32; 2],
    /// Whether the walk has come to another client: until then the server's threads may only have handed work to each other.
    elsewhere: bool,
}

/// The clients that the walk came through last, newest first.
#[derive(Clone, Copy, Default)]
pub(super) struct Clients {
    track: u32,
    pids: [u32; 2],
}

impl Walk<'_, '_> {
    /// Takes note of the clients' thread that the walk goes to.
    pub(super) fn note_client(&mut self, track: u32) {
        let actor = &self.tables.actors[track as usize];
        if actor.role != Role::Client {
            return;
        }
        let pid = actor.pid;
        let other = self.lock_handoff.is_some_and(|handoff| !handoff.ours.contains(&pid)) && self.serves(self.track, track);
        match &mut self.lock_handoff {
            Some(handoff) if other => {
                handoff.elsewhere = true;
                return;
            }
            _ => self.lock_handoff = None,
        }
        let actor = &self.tables.actors[track as usize];
        // A mount waits for its user's sake.
        self.clients.track = if actor.mount && self.clients.pids[0] != 0 { self.clients.track } else { track };
        if self.clients.pids[0] != actor.pid {
            self.clients.pids = [actor.pid, self.clients.pids[0]];
        }
    }

    /// Whether a thread was called by another over a connection: what it does, it may do for that one. (A helper that a server works through is no
    /// client of its.)
    fn serves(&self, server: u32, client: u32) -> bool {
        let parties = self.feed.parties.iter();
        parties.into_iter().any(|p| p[End::Server as usize].contains(&server) && p[End::Client as usize].contains(&client))
    }

    /// The walk goes from a thread to one that ended its wait: of one server's, that may be a lock handed on.
    pub(super) fn note_handing(&mut self, waiter: u32, holder: u32, span: &LiveSpan) {
        let (own, other) = (&self.tables.actors[waiter as usize], &self.tables.actors[holder as usize]);
        let one_server = own.role == Role::Server && other.role == Role::Server && own.pid == other.pid && own.machine == other.machine;
        if one_server && own.pid != 0 && span.kind == SpanKind::WaitLock && span.ending_seen() && self.clients.pids[0] != 0 {
            let Clients { track, pids: ours } = self.clients;
            let client = self.ledger.label(track);
            self.lock_handoff = Some(LockHandoff { client, waiter, since: span.start, holder, ours, elsewhere: false });
        }
    }

    /// Since when the wait for it lasts, while the walk is with who had it.
    pub(super) fn handed_since(&self) -> Option<i64> {
        self.lock_handoff.filter(|handoff| handoff.elsewhere && handoff.since < self.at).map(|handoff| handoff.since)
    }

    /// At the beginning of a wait for a lock that was handed on, the walk goes on with who waited.
    pub(super) fn back_from_handing(&mut self) -> bool {
        let Some(handoff) = self.lock_handoff.take_if(|handoff| handoff.elsewhere && self.at <= handoff.since) else { return false };
        self.jump(handoff.waiter);
        true
    }

    /// Whether what this thread does for itself is why another client waited for a lock: where that is charged, and from where on.
    pub(super) fn holds_for_another(&self, activity: Activity, what: What, object: u32) -> Option<(Place, i64)> {
        let handoff = self.lock_handoff.filter(|handoff| handoff.elsewhere)?;
        let actor = self.actor();
        let own = matches!(activity, Activity::Cpu | Activity::Think) && actor.role == Role::Client && !handoff.ours.contains(&actor.pid);
        let waiter = handoff.client;
        own.then_some((Place::HeldElsewhere { waiter, holder: self.track, connection: NONE, what, object }, handoff.since))
    }

    /// The same where the walk has come to the end of what was recorded: a server's thread that waits for the client that has the lock.
    pub(super) fn held_by_unrecorded(&mut self, blocked: &Blocked) -> Option<(Place, i64)> {
        let track = self.track;
        let handoff = self.lock_handoff.as_mut().filter(|handoff| handoff.holder == track && blocked.span.connection != NONE)?;
        handoff.elsewhere = true;
        let (what, connection) = (What::Blocked(blocked.span.kind), blocked.span.connection);
        Some((Place::HeldElsewhere { waiter: handoff.client, holder: NONE, connection, what, object: NONE }, handoff.since))
    }
}
