//! The answers of rules.

use super::place::{Place, SleptFor, What};
use crate::cause::{Activity, Cause, End};
use crate::observe::feed::Carried;
use crate::observe::span::LiveSpan;
use crate::rule::RuleId;

/// A rule needs all spans that end at or after this instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NeedUntil(pub i64);

/// A rule's answer, or what it needs before it can answer.
pub(crate) type Answer<T> = Result<T, NeedUntil>;

/// The dependency of the time before.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Edge {
    /// Whatever this thread did until then: it made, started, or was looked for by the waiting thread.
    Thread(u32),
    /// A thread that ended this wait.
    Woke(u32),
    /// Bytes that the other end of a connection sent.
    Bytes {
        /// The send that brought them.
        sent: Carried,
        /// The connection.
        connection: u32,
        /// The side that sent.
        by: End,
    },
    /// The thread at the other end of a connection, whatever it does: it has not sent yet, or makes no room.
    Peer {
        /// The thread.
        track: u32,
        /// The connection.
        connection: u32,
        /// The side it is at.
        side: End,
        /// Whether the wait is for room to send into, not for bytes.
        for_room: bool,
    },
    /// The unrecorded other end of a connection.
    Far {
        /// The connection.
        connection: u32,
        /// The side of that end.
        side: End,
    },
}

impl Edge {
    /// The thread at the edge's other end, if known.
    pub(crate) const fn track(&self) -> Option<u32> {
        match self {
            Edge::Thread(track) | Edge::Woke(track) | Edge::Peer { track, .. } => Some(*track),
            Edge::Bytes { sent, .. } => Some(sent.track),
            Edge::Far { .. } => None,
        }
    }
}

/// A charge, before it is known on whose account the path is here.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Charge {
    /// A thread's own activity.
    Own(Activity, What, u32),
    /// A thread's own activity, by a fixed cause.
    As(Cause, What, u32),
    /// A place of its own; on the thread's account, or on none.
    At(Cause, Place, bool),
}

/// One step of an answer, in order from the instant backward.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    /// Charges from here down to an instant rest on an inference.
    Infer(i64),
    /// The rule, what it charges, and down to when.
    Charge(RuleId, Charge, i64),
    /// The thread that held what the last charge waited for, and for how long.
    Holder(u32, i64),
    /// The purpose of the last charged sleep, and its length in nanoseconds.
    Slept(SleptFor, i64),
    /// The last charge was a pause; its process next worked at this instant.
    Paused(i64),
    /// An unrecorded far end: the waiting end, the connection.
    Unrecorded(End, u32),
    /// The wait began with a call that was not accepted yet, at this instant.
    Called(i64),
    /// A lock was passed on, and returns over a connection.
    HandedOn,
    /// It depended on this before it began: the path stays where it is.
    Along(Edge),
    /// The wait ended by the thread the walk went to last.
    Ended(LiveSpan),
    /// Continues elsewhere, at the instant reached.
    Go(Edge),
}

/// A thread's blocked interval, to be followed elsewhere.
#[derive(Clone, Copy)]
pub(super) struct Blocked {
    pub span: LiveSpan,
    /// Whether the wait is for room to send into, not for bytes.
    pub for_room: bool,
}
