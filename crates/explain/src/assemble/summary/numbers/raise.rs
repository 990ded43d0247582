//! Changes that raise the limit a number names, by the group's charge.
//!
//! A named limit can be raised, so each such number has its change. One recording does not show whether the other side (a server, a disk, a
//! link) gives more: the gain that the number's own figures allow is a bound. If the replay predicts a change of the same kind, that
//! prediction is used instead.

use super::super::groups::Group;
use super::run::Run;
use crate::cause::{Cause, End};
use crate::document::Number;
use crate::facts::raise::Raise;
use crate::limits::numbers as limits;

impl Raise {
    /// Saves this part of a group's charge; of the whole run, if the group is nearly all of it, since the time between goes with it.
    pub(super) fn part(group: &Group<'_>, part: f64, id: &'static str, change: impl Into<String>, how: &'static str) -> Raise {
        let all_ns = if group.share >= limits::NEARLY_ALL { group.ns as f64 / group.share } else { group.ns as f64 };
        Raise { id, change: change.into(), how, gained_ns: all_ns * part }
    }

    /// The time of waiting for answers, under any cause, in nanoseconds; the whole run, if that is nearly all of it, since the time between
    /// goes with it.
    pub(super) fn answers_ns(run: &Run<'_>, group: &Group<'_>) -> f64 {
        let parts = run.of.parts;
        let wall_ns = parts.wall_s() * 1e9;
        let is_wait = |cause: Cause| cause.is_network() || cause.end() == Some(End::Server) || cause == group.cause;
        let waits = run.of.share(is_wait);
        let busy_ns = |by: End| parts.seen.questions.under_way(by, parts.tables).map(|asked| asked.busy_ns as f64);
        let asked_ns = [End::Client, End::Server].into_iter().filter_map(busy_ns).fold(0.0, f64::max);
        let fills = waits >= limits::NEARLY_ALL || asked_ns >= wall_ns * limits::NEARLY_ALL;
        if fills { wall_ns } else { wall_ns * waits }
    }

    /// Several requests in flight instead of one, or several times as many: applies to all waits for answers.
    pub(super) fn more_at_once(run: &Run<'_>, group: &Group<'_>) -> Raise {
        let all_ns = Raise::answers_ns(run, group);
        let how = "send the next requests before the last is answered, or use several connections";
        let change = "four times the requests in flight".to_owned();
        Raise { id: "requests.x4", change, how, gained_ns: all_ns * (1.0 - 1.0 / limits::MORE_AT_ONCE as f64) }
    }
}

/// A number behind the rate, and its change, if it is a limit that no other change raises.
#[derive(Clone, Debug)]
pub(crate) struct Behind {
    /// The number.
    pub number: Number,
    /// The change.
    pub raise: Option<Raise>,
}

impl From<Number> for Behind {
    fn from(number: Number) -> Behind {
        Behind { number, raise: None }
    }
}

impl Number {
    /// Adds the change that raises it.
    pub(super) fn raised_by(self, raise: Raise) -> Behind {
        Behind { number: self, raise: Some(raise) }
    }
}
