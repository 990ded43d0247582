//! The rules of waits: what a thread was doing at an instant, and what its wait depended on. No other module decides this.
//!
//! One file for each kind of wait. A rule applies to one thread at one instant ([`view::View`]) and says what is charged down to when, and
//! over which [`answer::Edge`] the earlier time is found. Rules never read: a rule that needs more of the recording says so
//! ([`answer::NeedUntil`]) and is asked again. The critical path goes backward over the edges, the replay forward over the same ones.
//! `MODEL.md` lists the rules in this order.

mod accepting;
pub(crate) mod answer;
mod asleep;
mod connections;
mod doubts;
mod files;
mod lives;
mod looks;
pub(crate) mod memory;
pub(crate) mod place;
mod polling;
mod pool;
mod ranks;
mod replies;
pub(crate) mod rules;
mod stopped;
mod threads;
mod timeouts;
mod tries;
mod tunnels;
mod unanswered;
pub(crate) mod view;

use crate::cause::{Activity, Cause, End};
use crate::observe::index::NONE;
use crate::observe::span::LiveSpan;
use crate::rule::RuleId;
use answer::{Act, Answer, Blocked, Charge, Edge};
use place::{Place, What};
use rules::{Rule, device_activity, in_blocked, is_idle_wait, rule, wait_parts};
use thalweg_trace::{Role, SpanKind};
use view::View;

/// Returns what the view's thread was in, and what it waited for.
pub(crate) fn resolve(mut view: View<'_, '_, '_>) -> Answer<Vec<Act>> {
    view.resolve()?;
    Ok(view.acts)
}

impl View<'_, '_, '_> {
    fn resolve(&mut self) -> Answer<()> {
        if self.is_outside_its_life(self.track) {
            return self.outside_life();
        }
        let innermost = self.lane().innermost().copied();
        if let Some(waiting) = self.waits_by_running(innermost.as_ref()) {
            if waiting.connection != NONE {
                return self.follow_sender(waiting);
            }
            if waiting.kind == SpanKind::WaitLock {
                return self.follow_waker(waiting);
            }
            self.device(&waiting);
            return Ok(());
        }
        let Some(span) = innermost.map(|span| self.without_killing_signal(span)) else { return self.uncovered() };
        if self.actor().role == Role::Recorder {
            self.charge_piece(RuleId::Recorder, Charge::As(Cause::Recorder, What::Running(span.kind), span.object), &span);
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
            // A sleep that another thread cut short lasted as long as that thread let it.
            Rule::Wait(_) if span.kind == SpanKind::WaitTimer && self.is_walkable(span.waker) && !self.circling => {
                self.follow_waker(span)?;
            }
            Rule::Wait(_) if span.kind == SpanKind::WaitTimer && self.stopped_another(&span)? => {}
            Rule::Wait(_) if span.kind == SpanKind::WaitTimer && self.waits_by_pauses(&span)? => {}
            Rule::Wait(Activity::Think) => {
                let (slept, deed) = (self.slept(&span)?, self.next_deed()?);
                self.note_sleep(&span);
                self.charge_wait(&span, Activity::Think);
                self.acts.extend([slept, Act::Paused(deed)]);
            }
            Rule::Wait(activity) => self.charge_wait(&span, activity),
            Rule::Device => self.device(&span),
            Rule::Thread | Rule::Receive | Rule::Send if self.held == Some(true) => {
                self.charge_piece(RuleId::HelperWaits, Charge::Own(Activity::Lock, What::Blocked(span.kind), span.object), &span);
            }
            Rule::Thread | Rule::Receive | Rule::Send => return self.wait(&span),
            Rule::RoundTrip => self.connect(&span)?,
            // Stopped by a signal.
            Rule::Unknown if span.result < 0 => {
                self.charge_piece(RuleId::Stopped, Charge::Own(Activity::Think, What::Stopped, NONE), &span);
            }
            Rule::Unknown => {
                self.charge_piece(RuleId::UnknownWait, Charge::As(Cause::Unknown, What::Blocked(span.kind), span.object), &span);
            }
        }
        Ok(())
    }

    /// Handles a wait for a device.
    fn device(&mut self, span: &LiveSpan) {
        let around = self.lane().open.iter().filter(|s| matches!(s.kind, SpanKind::FileWrite | SpanKind::FileSync)).map(|s| s.kind);
        let activity = device_activity(around.max_by_key(|k| *k == SpanKind::FileSync), span.kind);
        let object = if span.object == NONE { self.device_thing(span.device) } else { span.object };
        self.charge_piece(RuleId::Device, Charge::Own(activity, What::Blocked(span.kind), object), span);
    }
}
