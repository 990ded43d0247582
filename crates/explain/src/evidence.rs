//! What was seen, in a few words: for each charge, how often, how long, around what.

use crate::cause::Cause;
use crate::ledger::{Entry, Place, What};

/// A length of time as a person reads it.
pub fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 1e3 => return format!("{ns:.0} ns"),
        ns if ns < 1e6 => (ns / 1e3, "µs"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    match value {
        v if v < 10.0 => format!("{v:.2} {unit}"),
        v if v < 100.0 => format!("{v:.1} {unit}"),
        v => format!("{v:.0} {unit}"),
    }
}

/// A rate in bytes per second, as a person reads it.
pub fn rate(bytes_per_s: f64) -> String {
    let (value, unit) = match bytes_per_s {
        r if r < 1e6 => (r / 1e3, "kB/s"),
        r if r < 1e9 => (r / 1e6, "MB/s"),
        r => (r / 1e9, "GB/s"),
    };
    if value < 10.0 { format!("{value:.2} {unit}") } else { format!("{value:.0} {unit}") }
}

/// What one charge rests on. `idle`: which part of it lay in gaps of the channel; `around`: what else was seen.
pub fn of(cause: Cause, entries: &[&Entry], idle: f64, around: &[String]) -> String {
    let count: u64 = entries.iter().map(|e| e.runs.count).sum();
    let largest = entries.iter().max_by_key(|e| e.runs.total_ns).expect("a charge has entries");
    let median = largest.runs.quantile_ns(0.5) as f64;
    let longest = entries.iter().map(|e| e.runs.longest_ns).max().unwrap_or(0) as f64;
    let what = noun(cause, largest.place);
    let mut said =
        if count == 1 { format!("one {what} of {}", time(longest)) } else { format!("{count} {}, median {}", plural(what), time(median)) };
    if count > 1 && longest > 8.0 * median && longest > 1e6 {
        said.push_str(&format!(", longest {}", time(longest)));
    }
    let on_wire = cause.name().starts_with("network.");
    if on_wire {
        // It is what was under way, whether or not a thread was handing anything over just then.
    } else if idle >= 0.9 {
        said.push_str(", no data under way in any of it");
    } else if idle >= 0.25 {
        said.push_str(&format!(", no data under way in {:.0} % of it", idle * 100.0));
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
        (c, _) if c.name().starts_with("network.") => "wait for bytes under way",
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
    fn times_and_rates_read_well() {
        assert_eq!(time(17_500_000.0), "17.5 ms");
        assert_eq!(time(950.0), "950 ns");
        assert_eq!(rate(130_944_125.0), "131 MB/s");
        assert_eq!(rate(1_309_441_250.0), "1.31 GB/s");
        assert_eq!(plural("wait for media"), "waits for media");
    }
}
