//! Close-ups that show parts call by call: their selection, and the sentence for each.

use super::calls_within::{Part, Within, calls_within};
use super::document::{CloseUp, CloseUpKind, EndedBy, Queue, RpcStat, Stall, WaitedFor, Who};
use super::drains::TwoParts;
use crate::limits::rpcstat as limits;
use thalweg_base::numbers::{bit_rate, count, duration, whole_percent};
use thalweg_trace::{Source, SourceError};

/// The part to show.
enum Shown {
    Drain,
    Stall(Stall),
    TwoParts { first_s: f64, then_s: f64 },
    Beginning,
}

/// The close-ups of an otherwise complete document.
pub(super) fn close_ups(source: &dyn Source, document: &RpcStat, two_parts: Option<TwoParts>) -> Result<Vec<CloseUp>, SourceError> {
    let axis_ns = document.start_ns;
    let ns = |s: f64| axis_ns + (s * 1e9).round() as i64;
    let end_ns = ns(document.wall_s);
    let around = |from_ns: i64, to_ns: i64, margin: f64| {
        let margin_ns = ((to_ns - from_ns) as f64 * margin) as i64;
        Part { start_ns: (from_ns - margin_ns).max(axis_ns), end_ns: (to_ns + margin_ns).min(end_ns), from_ns, to_ns }
    };
    let mut shown: Vec<(Shown, Part)> = Vec::new();
    if let Some(cycles) = &document.drain_cycles {
        // To within a step: of equals the last, so that the second pass ends sooner.
        let off = |length_s: f64| ((length_s - cycles.median_s).abs() / (limits::NEAR_MEDIAN * cycles.median_s)).floor();
        if let Some(drain) = cycles.longest.iter().rev().min_by(|a, b| off(a.length_s).total_cmp(&off(b.length_s))) {
            let part = around(ns(drain.start_s), ns(drain.start_s + drain.length_s), limits::DRAIN_MARGIN);
            shown.push((Shown::Drain, part));
        }
    }
    let least_ns = (document.stalls.least_s * 1e9) as i64;
    let two_parts = two_parts.filter(|t| t.empty_from_ns - t.from_ns >= least_ns && t.to_ns - t.empty_from_ns >= least_ns);
    let longest = document.stalls.longest.iter().max_by(|a, b| a.length_s.total_cmp(&b.length_s));
    if let Some(t) = two_parts {
        let (first_s, then_s) = ((t.empty_from_ns - t.from_ns) as f64 / 1e9, (t.to_ns - t.empty_from_ns) as f64 / 1e9);
        shown.push((Shown::TwoParts { first_s, then_s }, around(t.from_ns, t.to_ns, limits::STALL_MARGIN)));
    }
    if let Some(stall) = longest {
        let (from_ns, to_ns) = (ns(stall.start_s), ns(stall.start_s + stall.length_s));
        if !two_parts.is_some_and(|t| t.from_ns <= from_ns && to_ns <= t.to_ns) {
            shown.push((Shown::Stall(stall.clone()), around(from_ns, to_ns, limits::STALL_MARGIN)));
        }
    }
    if let Some(slow) = &document.slow_start {
        let mut gaps = document.stalls.longest.iter().map(|s| s.start_s + s.length_s).filter(|&end_s| end_s < slow.until_s);
        let some_gaps_s = gaps.nth(limits::BEGINNING_GAPS - 1).unwrap_or(f64::MAX);
        let to_ns = ns((slow.until_s * limits::BEGINNING_PART).min(some_gaps_s));
        shown.push((Shown::Beginning, around(axis_ns, to_ns, 0.0)));
    }
    let parts: Vec<Part> = shown.iter().map(|(_, part)| *part).collect();
    let within = calls_within(source, axis_ns, &parts)?;
    Ok(shown.iter().zip(within).map(|((shown, part), within)| close_up(document, shown, part, within)).collect())
}

fn close_up(document: &RpcStat, shown: &Shown, part: &Part, within: Within) -> CloseUp {
    let seconds = |ns: i64| (ns - document.start_ns) as f64 / 1e9;
    let length_s = (part.to_ns - part.from_ns) as f64 / 1e9;
    let (kind, sentence) = match shown {
        Shown::Drain => (CloseUpKind::DrainCycle, drain(length_s, &within)),
        Shown::Stall(stall) => (CloseUpKind::Stall, self::stall(stall)),
        Shown::TwoParts { first_s, then_s } => (CloseUpKind::Stall, two_parts(length_s, *first_s, *then_s, &within)),
        Shown::Beginning => (CloseUpKind::Beginning, beginning(document)),
    };
    CloseUp {
        kind,
        start_s: seconds(part.start_ns),
        end_s: seconds(part.end_ns),
        from_s: seconds(part.from_ns),
        to_s: seconds(part.to_ns),
        sentence,
        calls: within.calls,
        left_out: within.left_out,
    }
}

/// `6 pending WRITEs and a COMMIT`.
fn pending(complete: &[(String, u64)]) -> Option<String> {
    let said = |(name, n): &(String, u64)| if *n == 1 { format!("1 pending {name}") } else { format!("{} pending {name}s", count(*n)) };
    let said: Vec<String> = complete.iter().take(limits::NAMED_PROCEDURES).map(said).collect();
    (!said.is_empty()).then(|| said.join(" and "))
}

fn drain(length_s: f64, within: &Within) -> String {
    let length = duration(length_s);
    let one = within.complete.iter().map(|(_, n)| n).sum::<u64>() == 1;
    let completes = pending(&within.complete).map(|p| format!("{p} complete{}", if one { "s" } else { "" }));
    match (&within.longest_alone, within.alone) {
        (None, _) => {
            format!("Nothing is sent for {length} while {}; then the client sends again.", completes.as_deref().unwrap_or("calls complete"))
        }
        (Some((name, takes_s)), alone) => {
            let before = completes.map_or_else(String::new, |c| format!("{c}, then "));
            let article = if name.starts_with(['A', 'E', 'I', 'O', 'a', 'e', 'i', 'o']) { "an" } else { "a" };
            let takes = match alone {
                1 => format!("alone takes {}", duration(*takes_s)),
                2 => format!("takes {}, beside 1 shorter call", duration(*takes_s)),
                n => format!("takes {}, beside {} shorter calls", duration(*takes_s), count(n - 1)),
            };
            format!("Nothing else is sent for {length}: {before}{article} {name} {takes}; then the client sends again.")
        }
    }
}

fn two_parts(length_s: f64, first_s: f64, then_s: f64, within: &Within) -> String {
    let pending = pending(&within.complete).unwrap_or_else(|| "pending calls".to_owned());
    format!(
        "Nothing is sent for {}: for {} the queue empties while the server answers {pending}; then it is empty for {}: first the server, then \
         the client.",
        duration(length_s),
        duration(first_s),
        duration(then_s)
    )
}

fn stall(stall: &Stall) -> String {
    let begins = format!("Nothing moves for {}", duration(stall.length_s));
    let pending = match stall.pending {
        1 => "1 call is pending".to_owned(),
        n => format!("{} calls are pending", count(n)),
    };
    match (stall.queue, stall.ended_by) {
        _ if stall.within_message => format!("{begins}: {}.", stall.why),
        (Queue::Empty, _) => format!("{begins}: nothing is pending, and the client does not ask."),
        _ if stall.who == Who::Network => format!("{begins} while {pending}: TCP sends again what the network had lost."),
        _ if stall.retransmissions > 0 => format!("{begins} while {pending}: no reply comes, and the client sends again."),
        _ if stall.zero_window => format!("{begins} while {pending}: a window had closed."),
        (Queue::Full, _) => format!("{begins} while {pending}, the maximum: the server does not answer."),
        (Queue::Between, EndedBy::Call) => format!("{begins} while {pending}, and a call comes next: the client."),
        (Queue::Between, _) => format!("{begins} while {pending}, and a reply comes next: the server."),
    }
}

/// From a half to a tenth.
const PARTS: [&str; 9] = ["half", "a third", "a quarter", "a fifth", "a sixth", "a seventh", "an eighth", "a ninth", "a tenth"];

fn beginning(document: &RpcStat) -> String {
    let Some(slow) = &document.slow_start else { return String::new() };
    let part = slow.bytes_per_s / slow.later_bytes_per_s.max(f64::MIN_POSITIVE);
    let nearest = (1.0 / part.max(f64::MIN_POSITIVE)).round();
    let part = match nearest as usize {
        n @ 2..=10 if (part * nearest - 1.0).abs() <= limits::NAMED_PART * 2.0 => PARTS[n - 2].to_owned(),
        _ => whole_percent(part),
    };
    let mut waited = [0.0; 5];
    for wait in &document.waits {
        waited[wait.waited_for as usize] += (wait.end_s.min(slow.until_s) - wait.start_s).max(0.0);
    }
    let most = document.waits.iter().map(|w| w.waited_for).max_by(|a, b| waited[*a as usize].total_cmp(&waited[*b as usize]));
    let gaps = most.filter(|m| waited[*m as usize] >= limits::NAMED_PART * slow.until_s).map_or("", |most| match most {
        WaitedFor::ServerQueueFull => "; the queue is full in the gaps: the server",
        WaitedFor::ServerQueuePartly => "; the queue is partly full in the gaps, and replies come next: the server",
        WaitedFor::ClientQueuePartly => "; the queue is partly full in the gaps, and calls come next: the client",
        WaitedFor::ClientQueueEmpty => "; the queue is empty in the gaps: the client",
        WaitedFor::Network => "; in the gaps TCP sends again what the network had lost",
    });
    format!("The first {} carry {}, {part} of what follows{gaps}.", duration(slow.until_s), bit_rate(slow.bytes_per_s))
}
