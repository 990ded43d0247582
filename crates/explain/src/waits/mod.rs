//! What a thread was in at an instant, and what its wait waited for: the one place that answers it.
//!
//! One file for each kind of wait. A rule stands at one instant on one thread ([`View`]) and says what is charged down to when, and over which
//! [`Edge`] the time before it is to be looked for. Rules never read: one that needs more of the recording says so ([`NeedUntil`]), and is asked
//! again. The critical path goes backward over the edges, the replay forward over the same ones. `MODEL.md` lists the rules in this order.

mod accepting;
mod connections;
mod doubts;
mod files;
mod lives;
pub(crate) mod place;
mod polling;
mod pool;
mod ranks;
pub(crate) mod rules;
mod threads;
mod timeouts;
pub(crate) mod view;

use crate::cause::{Activity, Cause, End};
use crate::observe::feed::Carried;
use crate::observe::index::NONE;
use crate::observe::span::LiveSpan;
use crate::rule::RuleId;
use place::{Place, What};
use rules::{Rule, device_activity, in_blocked, is_idle_wait, rule, wait_parts};
use thalweg_trace::{Role, SpanKind};
use view::View;

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
    Woke(u32, LiveSpan),
    /// Bytes that were sent over this connection.
    Bytes(Carried),
    /// The thread at the other end of a connection, whatever it does: it has not sent yet, or makes no room.
    #[expect(dead_code, reason = "the replay reads them")]
    Peer {
        /// The thread.
        track: u32,
        /// The connection.
        connection: u32,
        /// Whether for room to send into, and not for bytes.
        for_room: bool,
    },
}

impl Edge {
    /// The thread at its other end.
    pub(crate) const fn track(&self) -> u32 {
        match self {
            Edge::Thread(track) | Edge::Woke(track, _) | Edge::Peer { track, .. } => *track,
            Edge::Bytes(sent) => sent.track,
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
    /// A far end of which nothing was recorded: the waiting end, the connection.
    Unrecorded(End, u32),
    /// The wait began with a call that nobody had accepted yet.
    Called(i64),
    /// A lock was handed on, and comes back over a connection.
    HandedOn,
    /// Elsewhere, at the instant reached.
    Go(Edge),
}

/// A thread's blocked interval that is to be followed elsewhere.
#[derive(Clone, Copy)]
struct Blocked {
    span: LiveSpan,
    /// Whether for room to send into, and not for bytes.
    for_room: bool,
    /// The instant within it.
    at: i64,
}

/// What the thread that the view stands on was in, and what it waited for.
pub(crate) fn resolve(mut view: View<'_, '_, '_>) -> Answer<Vec<Act>> {
    view.resolve()?;
    Ok(view.acts)
}

impl View<'_, '_, '_> {
    fn resolve(&mut self) -> Answer<()> {
        if self.is_outside_its_life(self.track) {
            return self.outside_life();
        }
        let Some(span) = self.lane().innermost().copied() else { return self.uncovered() };
        if self.actor().role == Role::Recorder {
            let from = self.piece_start(&span);
            self.charge_thread_as(RuleId::Recorder, Cause::Recorder, What::Running(span.kind), span.object, from);
            return Ok(());
        }
        if self.in_rank(&span)? {
            return Ok(());
        }
        match rule(span.kind) {
            Rule::Work { running, blocked } => self.work(&span, running, blocked)?,
            Rule::Container => self.container(&span),
            Rule::Wait(Activity::Runqueue) => self.queued(&span)?,
            Rule::Wait(_) if span.kind == SpanKind::WaitTimer && self.idle_in_pool(&span)? => {}
            // A sleep that another thread cut short (it was to end) lasted as long as that thread let it.
            Rule::Wait(_) if span.kind == SpanKind::WaitTimer && self.is_walkable(span.waker) && !self.circling => {
                self.follow_waker(Blocked { span, for_room: false, at: self.at })?;
            }
            Rule::Wait(_) if span.kind == SpanKind::WaitTimer && self.polled(&span)? => {}
            Rule::Wait(_) if span.kind == SpanKind::WaitTimer && self.seems_to_poll(&span)? => {
                self.charge_polling(&span);
            }
            Rule::Wait(activity) => self.charge_wait(&span, activity),
            Rule::Device => {
                let around = self.lane().open.iter().filter(|s| matches!(s.kind, SpanKind::FileWrite | SpanKind::FileSync)).map(|s| s.kind);
                let activity = device_activity(around.max_by_key(|k| *k == SpanKind::FileSync), span.kind);
                let from = self.piece_start(&span);
                let object = if span.object == NONE { self.device_thing(span.device) } else { span.object };
                self.charge_thread(RuleId::Device, activity, What::Blocked(span.kind), object, from);
            }
            Rule::Thread | Rule::Receive | Rule::Send if self.held == Some(true) => {
                let from = self.piece_start(&span);
                self.charge_thread(RuleId::HelperWaits, Activity::Lock, What::Blocked(span.kind), span.object, from);
            }
            Rule::Thread | Rule::Receive | Rule::Send => return self.wait(&span),
            Rule::RoundTrip => self.connect(&span)?,
            // Stopped by a signal.
            Rule::Unknown if span.result < 0 => {
                let from = self.piece_start(&span);
                self.charge_thread(RuleId::Stopped, Activity::Think, What::Stopped, NONE, from);
            }
            Rule::Unknown => {
                let from = self.piece_start(&span);
                self.charge_thread_as(RuleId::UnknownWait, Cause::Unknown, What::Blocked(span.kind), span.object, from);
            }
        }
        Ok(())
    }
}
