//! Who was waited for, with its cause and rule.

use crate::cause::Cause;
use crate::rule::RuleId;

/// Who was waited for while nothing moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Server,
    Client,
    RoundTrip,
    Loss,
    Window,
}

pub(super) const PARTS: [Part; 5] = [Part::Server, Part::Client, Part::RoundTrip, Part::Loss, Part::Window];

impl Part {
    pub(super) fn cause(self) -> Cause {
        match self {
            Part::Server => Cause::ServerUnknown,
            Part::Client => Cause::Unknown,
            Part::RoundTrip => Cause::NetworkLatency,
            Part::Loss => Cause::NetworkLoss,
            Part::Window => Cause::NetworkRwnd,
        }
    }

    pub(super) fn rule(self) -> RuleId {
        match self {
            Part::Server => RuleId::TurnsServer,
            Part::Client => RuleId::TurnsClient,
            Part::RoundTrip => RuleId::TurnsRoundTrip,
            Part::Loss => RuleId::TurnsLoss,
            Part::Window => RuleId::TurnsWindow,
        }
    }
}
