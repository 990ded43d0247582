//! What rules answer.

use super::place::{Place, SleptFor, What};
use crate::cause::{Activity, Cause, End};
use crate::observe::feed::Carried;
use crate::observe::span::LiveSpan;
use crate::rule::RuleId;

/// A rule needs all spans that end at or after this instant to have been read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NeedUntil(pub i64);

/// What a rule answers, or what it needs before it can.
pub(crate) type Answer<T> = Result<T, NeedUntil>;

/// On what the time before depends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Edge {
    /// Whatever this thread did until then: it made, started, or was looked for by the one that waits.
    Thread(u32),
    /// A thread that ended this wait.
    Woke(u32),
    /// Bytes that the other end of a connection sent.
    Bytes {
        /// What brought them.
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
        /// Whether for room to send into, and not for bytes.
        for_room: bool,
    },
    /// The other end of a connection, of which nothing was recorded.
    Far {
        /// The connection.
        connection: u32,
        /// The side that it is.
        side: End,
    },
}

impl Edge {
    /// The thread at its other end, if that is known.
    pub(crate) const fn track(&self) -> Option<u32> {
        match self {
            Edge::Thread(track) | Edge::Woke(track) | Edge::Peer { track, .. } => Some(*track),
            Edge::Bytes { sent, .. } => Some(sent.track),
            Edge::Far { .. } => None,
        }
    }
}

/// What is charged, before it is known for whose sake the path is here.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Charge {
    /// A thread's doing.
    Own(Activity, What, u32),
    /// The same by a cause, whatever the path is here for.
    As(Cause, What, u32),
    /// At a place of its own; on the thread's account, or on nobody's.
    At(Cause, Place, bool),
}

/// One step of an answer, in order: from the instant backward.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    /// What is charged from here down to an instant rests on an inference.
    Infer(i64),
    /// By which rule what is charged, and down to when.
    Charge(RuleId, Charge, i64),
    /// Who held what was waited for in what was charged last.
    Holder(u32, i64),
    /// What the sleep that was charged last was for, and how long it was, in nanoseconds.
    Slept(SleptFor, i64),
    /// What was charged last was a pause, and its process next did something for its work at this instant.
    Paused(i64),
    /// A far end of which nothing was recorded: the waiting end, the connection.
    Unrecorded(End, u32),
    /// The wait began with a call that nobody had accepted yet.
    Called(i64),
    /// A lock was handed on, and comes back over a connection.
    HandedOn,
    /// It depended on this from before it began on: the path stays where it is.
    Along(Edge),
    /// The wait that the thread which was gone to last has ended.
    Ended(LiveSpan),
    /// Elsewhere, at the instant reached.
    Go(Edge),
}

/// A thread's blocked interval that is to be followed elsewhere.
#[derive(Clone, Copy)]
pub(super) struct Blocked {
    pub span: LiveSpan,
    /// Whether for room to send into, and not for bytes.
    pub for_room: bool,
}
