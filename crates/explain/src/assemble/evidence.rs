//! What was seen, in a few words: for each charge, how often, how long, around what.

use crate::cause::Cause;
use crate::walk::ledger::{Entry, Place, What};
use thalweg_trace::numbers;

/// What one charge rests on. `idle`: which part of it lay in gaps of the channel; `around`: what else was seen.
pub fn of(cause: Cause, entries: &[&Entry], idle: f64, around: &[String]) -> String {
    let count: u64 = entries.iter().map(|e| e.runs.count).sum();
    let largest = entries.iter().max_by_key(|e| e.runs.total_ns).expect("a charge has entries");
    let median = largest.runs.quantile_ns(0.5);
    let longest = entries.iter().map(|e| e.runs.longest_ns).max().unwrap_or(0);
    let time = |ns: u64| numbers::duration(ns as f64 / 1e9);
    let what = noun(cause, largest.place);
    let mut said = match count {
        1 => format!("one {what} of {}", time(longest)),
        _ => format!("{} {}, median {}", numbers::count(count), plural(what), time(median)),
    };
    if count > 1 && longest > 8 * median && longest > 1_000_000 {
        said.push_str(&format!(", longest {}", time(longest)));
    }
    if cause.is_network() {
        // It is what was under way, whether or not a thread was handing anything over just then.
    } else if idle >= 0.9 {
        said.push_str(", no data under way in any of it");
    } else if idle >= 0.25 {
        said.push_str(&format!(", no data under way in {} of it", numbers::whole_percent(idle)));
    }
    for more in around {
        said.push_str("; ");
        said.push_str(more);
    }
    said
}

/// What one interval of a charge is called.
fn noun(cause: Cause, place: Place) -> &'static str {
    use Cause as C;
    match (cause, place) {
        (C::ClientRead | C::ServerRead, _) => "blocking read",
        (C::ClientWrite | C::ServerWrite, _) => "blocking write",
        (C::ClientSync | C::ServerSync, _) => "wait for media",
        (C::ClientRunqueue | C::ServerRunqueue, _) => "wait for a CPU",
        (C::ClientLock | C::ServerLock, _) => "wait for a lock",
        (C::NetworkLatency, _) => "transit",
        (C::ClientThink | C::ServerThink, Place::Thread { what: What::Still(_), .. }) => {
            "stop: it neither ran, nor asked to, nor waited for anything"
        }
        (C::ClientThink | C::ServerThink, Place::Thread { what: What::Stopped, .. }) => "stop by a signal",
        (C::ClientThink, Place::FarEnd { .. }) => "wait for the client, which sent nothing",
        (C::ClientThink | C::ServerThink, _) => "sleep",
        (C::ClientMemory | C::ServerMemory, _) => "wait for memory",
        (C::ClientCpu | C::ServerCpu, _) => "run",
        (C::ServerUnknown, _) => "wait for the server",
        (c, _) if c.is_network() => "wait for bytes under way",
        _ => "interval",
    }
}

fn plural(noun: &str) -> String {
    match noun.split_once(": ") {
        Some((head, tail)) => format!("{head}s: {tail}"),
        None if noun.starts_with("stop by") => noun.replacen("stop", "stops", 1),
        None if noun.starts_with("wait for") => noun.replacen("wait", "waits", 1),
        None => format!("{noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_of_a_thing_are_named_in_the_plural() {
        assert_eq!(plural("wait for media"), "waits for media");
    }
}
