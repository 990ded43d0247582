//! The verdict: which cause limits, how sure that is, and the one plain sentence.

use crate::assemble::ceiling::Reached;
use crate::cause::Cause;
use crate::document::{Charge, Second, Status, Verdict};
use crate::limits::assemble as limits;
use thalweg_trace::numbers::{bit_rate, byte_rate, whole_percent};

/// A cause, all places together.
struct Sum<'a> {
    cause: Cause,
    share: f64,
    /// How much of it was inferred.
    inferred: f64,
    largest: &'a Charge,
}

/// The verdict on these charges. `reached`: what the largest cause's own device, path or processors reached of what they can.
pub(crate) fn verdict(charges: &[Charge], rate_bytes_per_s: Option<f64>, reached: impl FnOnce(Cause) -> Option<Reached>) -> Verdict {
    let sums = sums(charges);
    let Some(first) = sums.first() else {
        let sentence = "Nothing was recorded that could be explained.".to_owned();
        return Verdict {
            status: Status::Inconclusive,
            cause: Cause::Unknown,
            place: "nowhere".to_owned(),
            share: 0.0,
            second: None,
            of_ceiling: None,
            sentence,
        };
    };
    let quota = quota_of(charges, &sums);
    let first = quota.unwrap_or(first);
    let second = sums.iter().find(|s| s.cause != first.cause).filter(|s| quota.is_none() && first.share - s.share < limits::LEAD);
    let reached = reached(first.cause);
    let unsure = unsure(&sums);
    let status = match second {
        _ if unsure => Status::Unsure,
        _ if reached.is_some() => Status::Healthy,
        Some(_) => Status::Inconclusive,
        None => Status::Limited,
    };
    let of_ceiling = reached.as_ref().filter(|reached| reached.is_rate).map(|reached| reached.part);
    let rate = if first.cause.is_network() { bit_rate } else { byte_rate };
    let mut sentence = rate_bytes_per_s.map_or_else(String::new, |r| format!("{}. ", rate(r)));
    sentence.push_str(&causes(&sums));
    if status == Status::Unsure {
        sentence.push_str(&doubt(charges, &sums));
    } else if let Some(reached) = reached {
        sentence.push_str(&format!(" This is what the machine gives: {}.", reached.statement));
    }
    Verdict {
        status,
        cause: first.cause,
        place: first.largest.place.clone(),
        share: first.share,
        second: second.map(|s| Second { cause: s.cause, place: s.largest.place.clone(), share: s.share }),
        of_ceiling,
        sentence,
    }
}

/// The queueing behind a processor quota, where it is one of the two largest causes and the other is the processor work that it limits: together
/// they are one answer, and the quota is what can be changed.
fn quota_of<'a>(charges: &[Charge], sums: &'a [Sum<'a>]) -> Option<&'a Sum<'a>> {
    let two = sums.get(..2)?;
    let (cpu, queue) = match (two[0].cause, two[1].cause) {
        (Cause::ClientCpu, Cause::ClientRunqueue) | (Cause::ServerCpu, Cause::ServerRunqueue) => (&two[0], &two[1]),
        (Cause::ClientRunqueue, Cause::ClientCpu) | (Cause::ServerRunqueue, Cause::ServerCpu) => (&two[1], &two[0]),
        _ => return None,
    };
    let by_quota: f64 = charges.iter().filter(|c| c.cause == queue.cause && c.quota).map(|c| c.share).sum();
    (by_quota * 2.0 > queue.share && cpu.share - queue.share < limits::LEAD).then_some(queue)
}

/// How much of a charge was inferred, as a part of the wall time.
fn inferred(charge: &Charge) -> f64 {
    if charge.seconds > 0.0 { charge.share * (charge.inferred_s / charge.seconds).min(1.0) } else { 0.0 }
}

/// Whether another cause would be the largest if all that was inferred, and all that is not known, were its own.
fn unsure(sums: &[Sum<'_>]) -> bool {
    let Some(first) = sums.first() else { return false };
    if first.cause == Cause::Unknown {
        return true;
    }
    let open: f64 = sums.iter().map(|s| if s.cause == Cause::Unknown { s.share } else { s.inferred }).sum();
    let other = sums.iter().skip(1).filter(|s| s.cause != Cause::Unknown).map(|s| s.share - s.inferred).fold(0.0, f64::max);
    first.share - first.inferred < other + open && open >= limits::LEAD
}

/// Why the answer is not sure, and what would settle it.
fn doubt(charges: &[Charge], sums: &[Sum<'_>]) -> String {
    let not_known = charges.iter().filter(|c| c.cause == Cause::Unknown).max_by(|a, b| a.share.total_cmp(&b.share));
    let inferred: f64 = sums.iter().map(|s| s.inferred).sum();
    match not_known.filter(|c| c.share >= inferred) {
        Some(charge) => {
            format!(" This is not sure: what {} of the time was for was not recorded ({}).", whole_percent(charge.share), charge.place)
        }
        None => {
            format!(" This is not sure: {} of the time is inferred, not recorded, and may be another cause's.", whole_percent(inferred))
        }
    }
}

fn sums(charges: &[Charge]) -> Vec<Sum<'_>> {
    let mut sums: Vec<Sum<'_>> = Vec::new();
    for charge in charges {
        match sums.iter_mut().find(|s| s.cause == charge.cause) {
            Some(sum) => (sum.share, sum.inferred) = (sum.share + charge.share, sum.inferred + inferred(charge)),
            None => sums.push(Sum { cause: charge.cause, share: charge.share, inferred: inferred(charge), largest: charge }),
        }
    }
    sums.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.cause.cmp(&b.cause)));
    sums
}

/// The largest causes in words: as many as it takes to account for four fifths, three at most.
fn causes(sums: &[Sum<'_>]) -> String {
    let mut parts = Vec::new();
    let mut named = 0.0;
    for sum in sums.iter().take(3) {
        if named >= limits::NAMED_ENOUGH || sum.share < limits::NAMED_LEAST {
            break;
        }
        named += sum.share;
        let head = if parts.is_empty() { "of the time it was" } else { "" };
        let words = format!("for {} {head} {} ({})", whole_percent(sum.share), sum.cause.phrase(), of_which(sum));
        parts.push(words.replace("  ", " "));
    }
    match parts.len() {
        0 => "No cause stands out.".to_owned(),
        1 => capitalised(&format!("{}.", parts[0])),
        n => capitalised(&format!("{} and {}.", parts[..n - 1].join(", "), parts[n - 1])),
    }
}

/// Where the most of it was, and how much that is when it is not nearly all.
fn of_which(sum: &Sum<'_>) -> String {
    let largest = sum.largest.share / sum.share.max(f64::MIN_POSITIVE);
    if largest >= limits::ONE_PLACE { sum.largest.place.clone() } else { format!("most in {}", sum.largest.place) }
}

fn capitalised(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
