//! Which knob a cause calls for, and in which direction: the evidence that saves runs.
//!
//! The order of causes matters, not their size: with shares wrong by a factor of e the search finds the same settings. If an end waits for
//! its device, more in flight comes first, since most devices and servers work on several requests in parallel; less in flight comes next,
//! for those that thrash. A full link calls for less: more streams only cost.

use super::knob::Kind::{self, Block, Depth, Effort, Requests, Streams, Window, Workers};

/// A kind of knob, and whether it is turned up.
type Move = (Kind, bool);

/// Returns the moves for a cause by its name in an explanation (`client.read`, `network.loss`), best first. Workers add computing to a
/// program short of CPU; they also hold the requests in flight in programs that use a thread for each.
pub(super) fn of_cause(cause: &str) -> &'static [Move] {
    match cause {
        "network.cwnd" | "network.rwnd" | "network.sndbuf" => &[(Window, true), (Streams, true), (Requests, true), (Depth, true)],
        "network.loss" => &[(Streams, true), (Requests, true), (Depth, true)],
        "network.latency" => &[(Requests, true), (Depth, true), (Block, true), (Streams, true), (Workers, true), (Requests, false)],
        "network.bandwidth" => &[(Effort, true), (Streams, false), (Requests, false)],
        _ => of_kind(cause.split('.').next_back().unwrap_or_default()),
    }
}

/// Whether a cause is computing or lack of CPU, rather than waiting.
pub(super) fn is_computing(cause: &str) -> bool {
    [".cpu", ".runqueue", ".memory"].iter().any(|end| cause.ends_with(end))
}

fn of_kind(cause: &str) -> &'static [Move] {
    match cause {
        "read" => &[(Requests, true), (Depth, true), (Workers, true), (Block, true), (Requests, false), (Streams, false), (Depth, false)],
        "write" | "sync" => {
            &[(Requests, true), (Depth, true), (Workers, true), (Block, true), (Streams, true), (Requests, false), (Streams, false)]
        }
        // Work per name, and per answer: several in parallel, or fewer and larger ones.
        "metadata" | "think" | "lock" | "unknown" => {
            &[(Requests, true), (Depth, true), (Workers, true), (Block, true), (Streams, true), (Requests, false)]
        }
        "cpu" | "runqueue" | "memory" => &[
            (Effort, false),
            (Block, true),
            (Workers, true),
            (Streams, false),
            (Block, false),
            (Requests, false),
            (Workers, false),
            (Streams, true),
        ],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_explain::Cause;

    #[test]
    fn every_cause_but_our_own_has_moves() {
        for cause in Cause::ALL {
            assert_eq!(of_cause(cause.name()).is_empty(), cause.name() == "recorder", "{}", cause.name());
        }
    }
}
